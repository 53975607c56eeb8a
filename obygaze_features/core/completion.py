"""What a shell is told when somebody presses Tab: names of the workspace, words of a room, files.

A parameter is completed by what it is called: `store` by the names of stores, `name` by whatever
its group is about. Text of which nothing is known may be a file, as shells take everything to be.
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

# The folder of the workspace that a parameter, or the group of a `name`, is about.
_ABOUT = {
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
    """Text as click's own, that a shell can complete."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
        """The names of the workspace that fit; files where it may be a path."""
        key, equals, value = incomplete.rpartition("=")
        kind = _ABOUT.get(_subject(ctx, param))
        found = [] if kind is None else _fitting(lambda: _names(_workspace(ctx), kind), value)
        if found or equals:
            return [CompletionItem(f"{key}{equals}{item.value}") for item in found]
        return [CompletionItem(incomplete, type="file")]


def completing(words: Callable[[Workspace], Iterable[str]]) -> Callable[..., Items]:
    """A parameter's `shell_complete` from words that only its room knows."""

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
    # What goes wrong here would be written into the line that a person is typing.
    with contextlib.suppress(ObygazeError, OSError):
        return [
            CompletionItem(word)
            for word in words()
            if word.startswith(incomplete) and not word.startswith(".")
        ]
    return []


class _WholeWords(ShellComplete):
    """Completes `--option=value`, for which click gives the value alone, as the one word it is."""

    def get_completions(self, args: list[str], incomplete: str) -> Items:
        """The same, with what stands before the value."""
        found = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if equals and option.startswith("-"):
            for item in found:
                item.value = f"{option}={item.value}" if item.type == "plain" else item.value
        return found


# What is written to stderr, by the shell too where there is no obygaze just now, would stand in the
# line that a person is typing.
_QUIETLY = " 2>/dev/null)"


class _Zsh(_WholeWords, ZshComplete):
    source_template = ZshComplete.source_template.replace(
        "zsh_complete %(prog_name)s)", f"zsh_complete %(prog_name)s{_QUIETLY}"
    )


class _Fish(_WholeWords, FishComplete):
    # A description has commas too; only the first of a line is click's.
    source_template = FishComplete.source_template.replace(
        "(commandline -t) %(prog_name)s)", f"(commandline -t) %(prog_name)s{_QUIETLY}"
    ).replace('split ","', 'split -m 1 ","')


class _Bash(_WholeWords, BashComplete):
    """Bash cuts words at `=`, and wants only what comes after it."""

    source_template = BashComplete.source_template.replace(
        "bash_complete $1)", f"bash_complete $1{_QUIETLY}"
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one at it, put together again."""
        args, incomplete = super().get_completion_args()
        words = _joined([*args, incomplete])
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """The end of a word, after its last `=`."""
        return f"{item.type},{item.value.rpartition('=')[2]}"


def _joined(words: list[str]) -> list[str]:
    """Words that were cut at `=` as they were typed; an empty last word stays one."""
    whole: list[str] = []
    for word in words:
        if whole and word and (word == "=" or whole[-1].endswith("=")):
            whole[-1] += word
        else:
            whole.append(word)
    return whole


for _shell in (_Bash, _Zsh, _Fish):
    add_completion_class(_shell)
