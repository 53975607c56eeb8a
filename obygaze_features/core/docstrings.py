"""The docstring of a public function in parts."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SECTIONS = ("Args", "Commands", "Example", "Examples", "Raises", "Returns")


@dataclass(frozen=True)
class Docstring:
    """A docstring in parts: the text before the first section, and the sections."""

    about: str
    parameters: Mapping[str, str]
    commands: str


def parse_docstring(function: Callable[..., Any]) -> Docstring:
    """Return the parts of a docstring in the form that all public functions have."""
    sections = _sections(function)
    commands = inspect.cleandoc("\n".join(["", *sections.get("Commands", [])]))
    return Docstring(
        about="\n".join(sections[""]).strip(),
        parameters=_described_parameters(sections.get("Args", [])),
        commands=commands,
    )


def _sections(function: Callable[..., Any]) -> dict[str, list[str]]:
    """Return the lines of each section of a docstring; those before the first have no title."""
    lines = inspect.cleandoc(function.__doc__ or "").splitlines()
    sections: dict[str, list[str]] = {"": []}
    current = ""
    for line in lines:
        title = line.removesuffix(":")
        if line.endswith(":") and title in SECTIONS:
            current = title
            sections[current] = []
        else:
            sections[current].append(line)
    return sections


def _described_parameters(lines: Iterable[str]) -> dict[str, str]:
    """Return the text of each parameter of a section `Args:`."""
    texts: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc("\n".join(["", *lines])).splitlines():
        start = re.match(r"(\w+): (.*)", line)
        if start is not None:
            name = start[1]
            texts[name] = start[2]
        elif name and line.strip():
            texts[name] += f" {line.strip()}"
    return texts
