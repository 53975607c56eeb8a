"""Docstrings of public functions in parts: the text, the sections, the parameters."""

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

# The sections that the docstring of a public function may have.
SECTIONS = ("Args", "Example", "Examples", "Raises", "Returns")


def about(function: Callable[..., Any]) -> str:
    """Return the text before the first section."""
    return "\n".join(_sections(function)[""]).strip()


def described_parameters(function: Callable[..., Any]) -> dict[str, str]:
    """Return the text of each parameter."""
    return _described_parameters(_sections(function).get("Args", []))


def _sections(function: Callable[..., Any]) -> dict[str, list[str]]:
    """Return the lines of each section by title; lines before the first title have "" as title."""
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
