"""Commands and options that the documentation shows inside sentences and tables exist.

`test_docs.py` runs the blocks. Here each `code` of a sentence that is a command, an option or a
change of a protocol is read by the program's own parsers: names and options must exist, and values
must be of their type. An option alone must belong to a command that the same page names. Words in
capitals and `...` stand for anything; what a command needs besides may be left out in a sentence.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import pytest
from support.cli import ROOT
from support.experiments import films
from support.pages import pages

from obygaze import cli
from obygaze.command_table import COMMANDS
from obygaze_features.core.errors import ObygazeError
from obygaze_models.protocols.reading import load_protocol, protocol_names
from obygaze_models.runner.training import training_protocol

PAGES = [page for page in pages() if page.suffix == ".md"]
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]
# Options of other programs, and what begins with a hyphen and is no option.
OTHERS = {
    "pip": ("-c constraints.txt", "--extra-index-url", "--index-url", "-e"),
    "sbatch": ("--cpus-per-task", "--signal=", "--partition=", "--time=", "--output="),
    "dask": ("--nthreads", "--resources"),
    "hf": ("--revision",),
    "a file name": ("-Scenes.csv",),
    "pytest": ("-m",),
    "a value": ("- ", "-- ", "-1 "),
}
STANDS_FOR_ANYTHING = re.compile(
    r"\.\.\.|[A-Z][A-Z0-9_.:=/-]*|[A-Z]+\.\.\.|.*\b[A-Z]{2,}\b.*"
)
SHELL_WORDS = ("|", ">", "<", "&&", ";", "2>")


@dataclass(frozen=True)
class Span:
    """A piece of code in a sentence: its line, its text, and the commands before it on the page."""

    page: Path
    line: int
    text: str
    before: str

    @property
    def where(self) -> str:
        return f"{self.page.name}:{self.line}: `{self.text}`"


def spans(page: Path) -> Iterator[Span]:
    """Yield the code in sentences and tables of a page, not that of its blocks."""
    whole = page.read_text(encoding="utf-8")
    text = re.sub(
        r"(?ms)^```.*?^```$", lambda block: "\n" * block[0].count("\n"), whole
    )
    for match in re.finditer(r"(?<!`)`([^`]+)`(?!`)", text):
        line = text.count("\n", 0, match.start()) + 1
        before = "\n".join(whole.splitlines()[:line])
        yield Span(page, line, " ".join(match[1].split()), before)


def words_of(text: str) -> list[str]:
    """Return the words of a command, without what a shell does with its output."""
    words = shlex.split(text)
    ends = [words.index(sign) for sign in SHELL_WORDS if sign in words]
    return words[: min(ends, default=len(words))]


def check_command(words: list[str]) -> list[str]:
    """Walk the tree of commands along some words; return what the program would not understand."""
    command: click.Command = cli.root
    ctx = click.Context(command, info_name="obygaze", **command.context_settings)
    rest = list(words)
    while True:
        wrong, rest = check_options(command, ctx, rest)
        if wrong or not isinstance(command, click.Group) or not rest:
            return wrong
        name = rest.pop(0)
        if STANDS_FOR_ANYTHING.fullmatch(name):
            return []
        inner = command.get_command(ctx, name)
        if inner is None:
            return [f"no command {name!r} in {ctx.command_path}"]
        command, ctx = inner, click.Context(inner, info_name=name, parent=ctx)


def check_options(
    command: click.Command, ctx: click.Context, words: list[str]
) -> tuple[list[str], list[str]]:
    """Check the options of one command; return what is wrong, and the words for a sub-command."""
    options = {
        name: param
        for param in command.get_params(ctx)
        if isinstance(param, click.Option)
        for name in (*param.opts, *param.secondary_opts)
    }
    wrong: list[str] = []
    arguments: list[str] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("-") or word == "-" or word == "--":
            if isinstance(command, click.Group):
                return wrong, [word, *waiting]
            arguments.append(word)
            continue
        name, has_value, value = word.partition("=")
        option = options.get(name)
        if option is None:
            wrong.append(f"{ctx.command_path} has no option {name}")
            continue
        if option.is_flag or option.count:
            if has_value:
                wrong.append(f"{name} takes no value")
            continue
        n_values = option.nargs - (1 if has_value else 0)
        values = [value] if has_value else []
        # An option at the end of a sentence's code may stand without its value.
        values += waiting[:n_values]
        del waiting[:n_values]
        wrong += [found for text in values if (found := bad_value(option, ctx, text))]
    n_most = sum(
        param.nargs for param in command.params if isinstance(param, click.Argument)
    )
    is_open = any(param.nargs == -1 for param in command.params)
    if not is_open and len(arguments) > n_most:
        wrong.append(f"{ctx.command_path} takes {n_most} arguments, got {arguments}")
    return wrong, []


def bad_value(option: click.Option, ctx: click.Context, text: str) -> str | None:
    """Return why a value is not of the type of an option, None where it is."""
    if STANDS_FOR_ANYTHING.fullmatch(text) or isinstance(option.type, click.Path):
        return None
    try:
        option.type.convert(text, option, ctx)
    except click.UsageError as error:
        return f"{option.opts[0]}: {error.format_message()}"
    return None


Place = tuple[click.Command, click.Context]


def leaves(command: click.Command, ctx: click.Context) -> Iterator[Place]:
    """Yield each command of the tree, groups too."""
    yield command, ctx
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from leaves(inner, click.Context(inner, info_name=name, parent=ctx))


ALL = [*leaves(cli.root, click.Context(cli.root, info_name="obygaze"))]


@cache
def named_on(page: Path) -> list[Place]:
    """Return the commands that a page names, in blocks and in sentences, and the root."""
    text = page.read_text(encoding="utf-8")
    typed = re.findall(r"(?s)```console\n(.*?)```", text)
    pieces = "\n".join([*typed, *(f"obygaze {span.text}\n" for span in spans(page))])
    words = re.findall(r"\bobygaze(?: -C \S+| obygaze)*((?: +[a-z][\w-]*)+)", pieces)
    named = {line.strip() for line in words}
    places = []
    for command, ctx in ALL:
        path = ctx.command_path.partition(" ")[2]
        if not path or any(f"{line} ".startswith(f"{path} ") for line in named):
            places.append((command, ctx))
    return places


def check_option_alone(span: Span) -> list[str]:
    """Check options that stand alone: one command that the page names must understand them."""
    is_design = "design" in span.page.parts
    places = ALL if is_design else named_on(span.page)
    found = [
        check_options(command, ctx, words_of(span.text))[0] for command, ctx in places
    ]
    if [] in found:
        return []
    known = [
        wrong for wrong in found if not any("has no option" in line for line in wrong)
    ]
    return known[0] if known else ["no command that this page names has this option"]


def changes_of(words: list[str]) -> list[str]:
    """Return the changes KEY=VALUE of a protocol that a command has."""
    changes = [after for word, after in itertools.pairwise(words) if word == "--set"]
    return [change for change in changes if not change.startswith("section.")]


def check_changes(span: Span, words: list[str]) -> list[str]:
    """Check changes with the protocol that the command names, or the last command before it."""
    changes = changes_of(words)
    if not changes:
        return []
    commands = re.findall(
        r"obygaze(?: -C \S+)? (run|train) ([\w-]+)", span.before + span.text
    )
    kind, name = commands[-1] if commands else ("run", "honest")
    try:
        if kind == "train":
            training_protocol(name, "EN_S", films(), changes)
        else:
            load_protocol(name if name in SHIPPED else "honest", changes)
    except ObygazeError as error:
        return [f"{kind} {name}: {error.message} {' '.join(error.details)}"]
    return []


SHIPPED = set(protocol_names())


def problems_of(span: Span) -> list[str]:
    """Return what the program would not understand of a piece of code."""
    if span.text.startswith("-"):
        if any(
            f"{span.text} ".startswith(known)
            for names in OTHERS.values()
            for known in names
        ):
            return []
        words = words_of(span.text)
        return check_option_alone(span) + check_changes(span, words)
    first, *more = span.text.split()
    if first == "obygaze":
        words = words_of(span.text)[1:]
    elif first in COMMANDS and more:
        words = words_of(span.text)
    else:
        return []
    return check_command(words) + check_changes(span, words)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_command_in_a_sentence_is_understood(page: Path) -> None:
    wrong = [
        f"{span.where}: {line}" for span in spans(page) for line in problems_of(span)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("obygaze store lss", "no command 'lss'"),
        ("obygaze store verify NAME --hashs", "has no option --hashs"),
        (
            "obygaze extract run NAME --batch five",
            "must be a whole number, at least 1, got 'five'",
        ),
        ("--no-such-option", "no command that this page names"),
        ("obygaze run honest --set 'models.ridge.alpha=[1]'", "unknown key 'alpha'"),
        ("obygaze extract run NAME --batch 5 > file", ""),
    ],
)
def test_what_the_program_would_not_understand_is_found(text: str, told: str) -> None:
    found = problems_of(Span(ROOT / "docs" / "guide" / "stores.md", 1, text, ""))
    if not told:
        assert found == []
    assert told in "\n".join(found)
