"""Follow the line "Try:" of an error: a command that it names works, an option exists."""

import re
import shlex
import shutil
import tempfile
from pathlib import Path

import click

from support.cli import Result, call_obygaze

# Where a command ends inside a line of advice; text in quotes may have such signs.
COMMAND = re.compile(r"\bobygaze ((?:'[^']*'|[^;,()`'])*(?:'[^']*'|[^;,()`' ]))")
PLACEHOLDER = re.compile(r"\b[A-Z]{4,}\b")
OPTION = re.compile(r"(?<![\w/-])--[a-z][a-z-]+")
ONE_OPTION = re.compile(r"--[a-z-]+( [a-z0-9][^ ,;()]*)?")


def advice_of(stderr: str) -> str:
    """Return what an error says to try; "" where it says nothing."""
    _, sign, advice = stderr.rpartition("\n  Try: ")
    return advice.splitlines()[0] if sign else ""


def command_of(words: list[str]) -> click.Command:
    from obygaze import cli

    command: click.Command = cli.root
    rest = words[2:] if words[:1] == ["-C"] else words
    for word in rest:
        if not isinstance(command, click.Group) or word.startswith("-"):
            break
        inside = command.get_command(click.Context(command), word)
        assert inside is not None, f"no command {shlex.join(words)}"
        command = inside
    return command


def options_of(command: click.Command) -> set[str]:
    options = {"--help", "--version"}
    for parameter in command.params:
        options.update(parameter.opts + parameter.secondary_opts)
    return options


def follow(words: list[str], answer: Result, folder, env) -> None:
    """Type what the error of a command says to try, in a copy of its folder."""
    advice = advice_of(answer.stderr)
    if not advice:
        return
    # No network is at hand here, and nobody corrects the table.
    offline, _, online = advice.partition("with a network: ")
    if not online:
        offline, _, online = advice.partition("that is listed, then: ")
    for command in COMMAND.findall(online):
        check_words(command)
    for commands in commands_in_order(offline):
        if any(map(PLACEHOLDER.search, commands)):
            for command in commands:
                check_words(command)
            continue
        done = _typed([shlex.split(command) for command in commands], folder, env)
        assert done.code == 0, (
            f"obygaze {shlex.join(words)}\n{answer.stderr}\n"
            f"obygaze {commands}\nended with {done.code}\n{done.stderr}"
        )
    check_options(COMMAND.sub("", advice), words)
    if ONE_OPTION.fullmatch(advice):
        done = _typed([[*words, *shlex.split(advice)]], folder, env)
        assert done.stderr != answer.stderr, f"the same error with {advice}"


def check_words(command: str) -> None:
    check_options(command, shlex.split(command))


def check_options(text: str, words: list[str]) -> None:
    named = set(OPTION.findall(text))
    unknown = named - options_of(command_of(words)) if named else named
    assert not unknown, f"obygaze {shlex.join(words)} has no {unknown}: {text}"


def commands_in_order(advice: str) -> list[list[str]]:
    """Return the commands of a line of advice; those with `, then` between them are together."""
    together: list[list[str]] = []
    end = 0
    for found in COMMAND.finditer(advice):
        if together and advice[end : found.start()] == ", then ":
            together[-1].append(found[1])
        else:
            together.append([found[1]])
        end = found.end()
    return together


def _typed(commands: list[list[str]], folder, env) -> Result:
    """Run commands in a copy of the folder, up to one that fails; help alone needs no copy."""
    if commands == [[*commands[0][:-1], "--help"]]:
        return call_obygaze(*commands[0], cwd=folder, env=env)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        copy = Path(place, folder.name)
        shutil.copytree(folder, copy, symlinks=True)
        for words in commands:
            done = call_obygaze(*words, cwd=copy, env=env)
            if done.code != 0:
                break
        return done
