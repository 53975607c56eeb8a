"""Complete words in the shell: names in the workspace, words of a room, files.

The name of a parameter decides what completes it: `store` is completed with names of stores, `name`
with names of what its group of commands works on. All other text is completed as a file name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.workspace import Workspace

Items: TypeAlias = "list[CompletionItem[str]]"

# The folder of the workspace with the names for a parameter, or for the `name` of a group.
_FOLDER_OF = {
    "manifest": "manifests",
    "store": "stores",
    "stores": "stores",
    "first": "stores",
    "second": "stores",
    "models": "models",
    "runs": "runs",
    "report": "runs",
}


class Text(click.types.StringParamType):
    """Text that a shell can complete."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        """Return the matching names of the workspace, or ask the shell for files."""
        key, equals, value = incomplete.rpartition("=")
        kind = _FOLDER_OF.get(_subject(ctx, param))
        found = [] if kind is None else _fitting(lambda: _names(_workspace(ctx), kind), value)
        if found or equals:
            return [CompletionItem(f"{key}{equals}{item.value}") for item in found]
        return [CompletionItem(incomplete, type="file")]


def completing(words: Callable[[Workspace], Iterable[str]]) -> Callable[..., Items]:
    """Return the `shell_complete` of a parameter, from a function that lists its words."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        found = _fitting(lambda: words(_workspace(ctx)), incomplete)
        return found or [CompletionItem(incomplete, type="file")]

    return complete


def _subject(ctx: click.Context, param: click.Parameter) -> str:
    if param.name in {"name", "names"} and ctx.parent is not None:
        return ctx.parent.info_name or ""
    return param.name or ""


def _names(workspace: Workspace, kind: str) -> Iterable[str]:
    if kind == "manifests":
        return workspace.names(kind, "*.toml")
    folder = workspace.folder(kind)
    folders = [path.name for path in folder.iterdir() if path.is_dir()]
    return sorted({*folders, *workspace.names(kind, "*.zip")})


def _workspace(ctx: click.Context) -> Workspace:
    return Workspace(ctx.find_root().params.get("workspace") or Path())


def _fitting(words: Callable[[], Iterable[str]], incomplete: str) -> Items:
    # An error message would be written into the command line that is being typed.
    with contextlib.suppress(ObygazeError, OSError):
        return [
            CompletionItem(word)
            for word in words()
            if word.startswith(incomplete) and not word.startswith(".")
        ]
    return []


class _WholeWords(ShellComplete):
    """Complete `--option=value` as one word; click completes the value alone."""

    def get_completions(self, args: list[str], incomplete: str) -> Items:
        """Return the completions with the option before the value."""
        found = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if equals and option.startswith("-"):
            for item in found:
                item.value = f"{option}={item.value}" if item.type == "plain" else item.value
        return found


# Messages on stderr, also those of a shell that does not find obygaze, would be written into the
# command line that is being typed.
_QUIETLY = " 2>/dev/null)"


class _Zsh(_WholeWords, ZshComplete):
    source_template = ZshComplete.source_template.replace(
        "zsh_complete %(prog_name)s)", f"zsh_complete %(prog_name)s{_QUIETLY}"
    )


class _Fish(_WholeWords, FishComplete):
    # Descriptions may have commas: split at the first one only, which click wrote.
    source_template = FishComplete.source_template.replace(
        "(commandline -t) %(prog_name)s)", f"(commandline -t) %(prog_name)s{_QUIETLY}"
    ).replace('split ","', 'split -m 1 ","')


class _Bash(_WholeWords, BashComplete):
    """Complete in Bash, which splits words at `=` and expects only the part after it."""

    source_template = BashComplete.source_template.replace(
        "bash_complete $1)", f"bash_complete $1{_QUIETLY}"
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor and the one at it, joined again at `=`."""
        args, incomplete = super().get_completion_args()
        words = _joined([*args, incomplete])
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the part of a word after its last `=`."""
        return f"{item.type},{item.value.rpartition('=')[2]}"


def _joined(words: list[str]) -> list[str]:
    """Join words that were split at `=`; an empty last word stays a word of its own."""
    whole: list[str] = []
    for word in words:
        if whole and word and (word == "=" or whole[-1].endswith("=")):
            whole[-1] += word
        else:
            whole.append(word)
    return whole


for _shell in (_Bash, _Zsh, _Fish):
    add_completion_class(_shell)
