"""What an error tells a person to do names commands and options that exist."""

import re

from support.advice import COMMAND, OPTION, check_words, options_of
from support.cli import ROOT, commands

from obygaze.cli import root
from obygaze_features.core.errors import ARGUMENTS

# A hint in one or several strings, up to the end of the call or the statement.
HINT = re.compile(
    r'hint = \(?((?:\s*f?"[^"\n]*")+)|hint=((?:\s*f?"[^"\n]*")+)', re.IGNORECASE
)


def test_a_hint_names_commands_and_options_that_exist() -> None:
    options: set[str] = set()
    for _, command in commands(root):
        options |= options_of(command)
    n_commands = n_options = 0
    for package in ("obygaze", "obygaze_features", "obygaze_models"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for one, other in HINT.findall(path.read_text("utf-8")):
                strings = re.findall(r'"([^"\n]*)"', one or other)
                text = re.sub(r"\{[^{}]*\}", "x", "".join(strings))
                for command in COMMAND.findall(text):
                    n_commands += 1
                    check_words(command)
                n_options += len(OPTION.findall(text))
                unknown = set(OPTION.findall(text)) - options
                assert not unknown, f"{path}: {text}"
    assert n_commands > 25
    assert n_options > 60


def test_the_arguments_of_options_are_those_of_the_commands() -> None:
    names: dict[str, set[str]] = {}
    for _, command in commands(root):
        for option in command.params:
            for word in option.opts:
                names.setdefault(word, set()).add(option.name or "")
    for option, text in ARGUMENTS.items():
        said = set(re.findall(r"[a-z_]+", text)) - {"or", "a", "list"}
        assert said == names[option], option


def test_the_next_command_names_a_manifest_and_no_file() -> None:
    found = []
    for path in sorted(ROOT.glob("obygaze*/**/*.py")):
        found += re.findall(
            r"next: obygaze (?:manifest|marks) .* -o (\S+)\"", path.read_text()
        )
    assert found
    assert all(name.isupper() for name in found), found
