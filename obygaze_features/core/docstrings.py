"""Docstrings in parts, and functions that describe their parameters in the words of others."""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

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


def described_as_in(documented: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator that completes a docstring: what `Args:` lacks is as in `documented`.

    The types and defaults must be the same in both functions, as the text must be true of both.

    Example:
        @described_as_in(check_backbone)
        def load_backbone(name: str, *, device: str = "cpu") -> Backbone:
            \"\"\"Run pixels through a backbone.

            Args:
                name: The backbone.
                pixels: The file of the pixels.
            \"\"\"
    """

    def complete(function: F) -> F:
        parameters = inspect.signature(function).parameters
        own_types = _types_and_defaults(function)
        documented_types = _types_and_defaults(documented)
        texts = dict(parse_docstring(function).parameters)
        for name, text in parse_docstring(documented).parameters.items():
            if name not in parameters or name in texts:
                continue
            if own_types[name] != documented_types[name]:
                raise TypeError(
                    f"{name!r} of {function.__qualname__} is not that of {documented.__qualname__}"
                )
            texts[name] = text
        sections = _sections(function)
        sections["Args"] = [
            f"    {name}: {texts[name]}" for name in parameters if name in texts
        ]
        function.__doc__ = _joined(sections)
        return function

    return complete


def _types_and_defaults(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Return the type and the default of each parameter.

    They are those of the function itself: Sphinx gives a function another `__signature__`.
    """
    plain = inspect.unwrap(function)
    defaults: dict[str, Any] = dict(getattr(plain, "__kwdefaults__", None) or {})
    values = getattr(plain, "__defaults__", None) or ()
    positional = plain.__code__.co_varnames[: plain.__code__.co_argcount]
    defaults.update(
        zip(positional[len(positional) - len(values) :], values, strict=True)
    )
    types = inspect.get_annotations(plain)
    return {name: (types[name], defaults.get(name)) for name in types}


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


def _joined(sections: Mapping[str, list[str]]) -> str:
    """Return the docstring of sections, indented as in a function of a module."""
    paragraphs = ["\n".join(sections[""]).strip()]
    for title in SECTIONS:
        if title in sections:
            text = "\n".join(sections[title]).rstrip()
            paragraphs.append(f"{title}:\n{text}")
    return textwrap.indent("\n\n".join(paragraphs), "    ").strip()


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
