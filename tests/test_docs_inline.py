"""Commands and options that the documentation shows inside sentences and tables exist.

`test_docs.py` runs the blocks. Here each `code` of a sentence that is a command, an option or a
change of a protocol is read by the program's own parsers. An option alone must belong to a command
that the same page names. Words in capitals and `...` stand for anything; what a command needs
besides may be left out in a sentence.
"""

import itertools
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from support.cli import ROOT
from support.experiments import films
from support.pages import pages

from obygaze import cli
from obygaze_features.core.errors import ObygazeError
from obygaze_models.protocols.reading import load_protocol, protocol_names
from obygaze_models.runner.training import training_protocol

PAGES = [page for page in pages() if page.suffix == ".md"]
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]
# Options of pip, sbatch, dask, hf and pytest, and what begins with a hyphen and is no option.
OTHERS = (
    *("-c constraints.txt", "--extra-index-url", "--cpus-per-task", "--nthreads"),
    *("--revision", "-Scenes.csv", "-m", "- ", "-- ", "-1 "),
)
STANDS_FOR_ANYTHING = re.compile(r"\.\.\.|[A-Z][A-Z0-9_.:=/-]*|.*\b[A-Z]{2,}\b.*")
SHELL_WORDS = ("|", ">", "<", "&&", ";", "2>")
SHIPPED = set(protocol_names())
COMMANDS = set(cli.root.list_commands(click.Context(cli.root)))

Place = tuple[click.Command, click.Context]


def spans(page: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the code in sentences of a page: its line, its text, and the page up to it."""
    whole = page.read_text(encoding="utf-8")
    fences = r"(?ms)^```.*?^```$"
    text = re.sub(fences, lambda block: "\n" * block[0].count("\n"), whole)
    for match in re.finditer(r"(?<!`)`([^`]+)`(?!`)", text):
        line = text.count("\n", 0, match.start()) + 1
        before = "\n".join(whole.splitlines()[:line])
        yield line, " ".join(match[1].split()), before


def words_of(text: str) -> list[str]:
    """Return the words of a command, without what a shell does with its output."""
    words = shlex.split(text)
    return [*itertools.takewhile(lambda word: word not in SHELL_WORDS, words)]


def problem_of(command: click.Command, ctx: click.Context, words: list[str]) -> str:
    """Return what the program would not understand of a command; "" if nothing."""
    try:
        values, rest, _ = command.make_parser(ctx).parse_args(list(words))
    except click.NoSuchOption as error:
        return f"{ctx.command_path} has no option {error.option_name}"
    except click.BadOptionUsage:
        return (
            ""  # An option at the end of a sentence's code may stand without its value.
        )
    for param in command.params:
        value = values.get(param.name)
        texts = value if isinstance(value, list | tuple) else [value]
        for text in texts if isinstance(param, click.Option) else []:
            if isinstance(text, str) and (problem := bad_value(param, ctx, text)):
                return problem
    if not isinstance(command, click.Group):
        return f"{ctx.command_path} takes fewer arguments, got {rest}" if rest else ""
    if not rest or STANDS_FOR_ANYTHING.fullmatch(rest[0]):
        return ""
    inner = command.get_command(ctx, rest[0])
    if inner is None:
        return f"no command {rest[0]!r} in {ctx.command_path}"
    of_inner = click.Context(inner, info_name=rest[0], parent=ctx)
    return problem_of(inner, of_inner, rest[1:])


def bad_value(option: click.Option, ctx: click.Context, text: str) -> str:
    """Return why a value is not of the type of an option; "" if it is."""
    if STANDS_FOR_ANYTHING.fullmatch(text) or isinstance(option.type, click.Path):
        return ""
    try:
        option.type.convert(text, option, ctx)
    except click.UsageError as error:
        return f"{option.opts[0]}: {error.format_message()}"
    return ""


def tree(command: click.Command, ctx: click.Context) -> Iterator[Place]:
    """Yield each command, groups too."""
    yield command, ctx
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from tree(inner, click.Context(inner, info_name=name, parent=ctx))


@cache
def named_on(page: Path) -> list[Place]:
    """Return the commands that a page names, and the root; of a design note, all."""
    everything = [*tree(cli.root, click.Context(cli.root, info_name="obygaze"))]
    if "design" in page.parts:
        return everything
    text = page.read_text(encoding="utf-8")
    typed = re.findall(r"(?s)```console\n(.*?)```", text)
    of_spans = (f"obygaze {code}\n" for _, code, _ in spans(page))
    pieces = "\n".join([*typed, *of_spans])
    words = r"\bobygaze(?: -C \S+| obygaze)*((?: +[a-z][\w-]*)+)"
    named = {f"{line.strip()} " for line in re.findall(words, pieces)}
    places = []
    for command, ctx in everything:
        path = ctx.command_path.partition(" ")[2]
        if not path or any(line.startswith(f"{path} ") for line in named):
            places.append((command, ctx))
    return places


def problem_of_option(page: Path, words: list[str]) -> str:
    """Check options that stand alone: one command of the page must understand them."""
    problems = [problem_of(command, ctx, words) for command, ctx in named_on(page)]
    if "" in problems:
        return ""
    known = [problem for problem in problems if "has no option" not in problem]
    return [*known, "no command that this page names has this option"][0]


def problem_of_changes(words: list[str], before: str) -> str:
    """Check changes with the protocol of the command, or of the last command before it."""
    pairs = itertools.pairwise(words)
    changes = [change for word, change in pairs if word == "--set"]
    changes = [change for change in changes if not change.startswith("section.")]
    if not changes:
        return ""
    commands = re.findall(r"obygaze(?: -C \S+)? (run|train) ([\w-]+)", before)
    kind, name = commands[-1] if commands else ("run", "honest")
    try:
        if kind == "train":
            training_protocol(name, "EN_S", films(), changes)
        else:
            load_protocol(name if name in SHIPPED else "honest", changes)
    except ObygazeError as error:
        return f"{kind} {name}: {error.message} {' '.join(error.details)}"
    return ""


def problem_of_span(page: Path, text: str, before: str) -> str:
    """Return what the program would not understand of a piece of code."""
    first, *more = text.split()
    if text.startswith("-"):
        if f"{text} ".startswith(OTHERS):
            return ""
        words = words_of(text)
        problem = problem_of_option(page, words)
    elif first == "obygaze" or (first in COMMANDS and more):
        words = words_of(text.removeprefix("obygaze"))
        context = click.Context(cli.root, info_name="obygaze")
        problem = problem_of(cli.root, context, words)
    else:
        return ""
    return problem or problem_of_changes(words, before + text)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_command_in_a_sentence_is_understood(page: Path) -> None:
    wrong = []
    for line, text, before in spans(page):
        if problem := problem_of_span(page, text, before):
            wrong.append(f"{page.name}:{line}: `{text}`: {problem}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("obygaze store lss", "no command 'lss'"),
        ("obygaze store verify NAME --hashs", "has no option --hashs"),
        ("obygaze extract run NAME --batch five", "'five' is not a valid"),
        ("--no-such-option", "no command that this page names"),
        ("obygaze run honest --set 'models.ridge.alpha=[1]'", "unknown key 'alpha'"),
    ],
)
def test_what_the_program_would_not_understand_is_found(text, problem) -> None:
    page = ROOT / "docs" / "guide" / "stores.md"
    assert problem in problem_of_span(page, text, "")
    assert problem_of_span(page, "obygaze extract run NAME --batch 5 > file", "") == ""
