"""Prompt sets: templates and the words that fill them, by the attribute they stand for."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeGuard

from obygaze_features.core.errors import FixInput, NotFound

SCHEMA = "obygaze-prompts/1"
SHIPPED = ("emotion", "person", "profession")
GAP = "{}"


@dataclass(frozen=True)
class Prompt:
    """One text, with the template it was made of and the attribute it stands for."""

    text: str
    template: str
    attribute: str


@dataclass(frozen=True)
class PromptSet:
    """Every prompt of a file, attribute by attribute."""

    name: str
    prompts: tuple[Prompt, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes, in the order of the file."""
        return tuple(dict.fromkeys(prompt.attribute for prompt in self.prompts))


def read_prompts(name: str) -> PromptSet:
    """A prompt set by the name of a shipped one, or by the path of a TOML file."""
    if name in SHIPPED:
        return parse_prompts(files(__package__).joinpath(f"{name}.toml").read_text("utf-8"), name)
    path = Path(name)
    if not path.is_file():
        hint = f"one of {', '.join(SHIPPED)}, or the path of a TOML file"
        raise NotFound(f"no prompt set called {name!r}", where=str(path), hint=hint)
    try:
        return parse_prompts(path.read_text("utf-8"), str(path))
    except UnicodeDecodeError:
        raise FixInput("a prompt set must be UTF-8 text", where=str(path)) from None


def parse_prompts(text: str, where: str) -> PromptSet:
    """The prompts of a TOML text: each word of each attribute in each template."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FixInput(f"not valid TOML: {error}", where=where) from None
    known = {"schema", "name", "templates", "attributes"}
    if tree.get("schema") != SCHEMA or set(tree) - known:
        what = f"a prompt set has schema = {SCHEMA!r}, name, templates and [attributes], no more"
        raise FixInput(what, where=where)
    templates, attributes = tree.get("templates", []), tree.get("attributes")
    if not _texts(templates) or any(one.count(GAP) != 1 for one in templates):
        raise FixInput("each template is a text with one {} in it", where=where)
    if not isinstance(attributes, dict) or not attributes:
        raise FixInput("[attributes] names each attribute with its words", where=where)
    for attribute, words in attributes.items():
        if not _texts(words):
            raise FixInput(f"the attribute {attribute!r} must be a list of texts", where=where)
    prompts = [
        Prompt(template.replace(GAP, word), template, attribute)
        for attribute, words in attributes.items()
        for word in words
        for template in templates
    ]
    return PromptSet(str(tree.get("name", "")), tuple(prompts))


def _texts(value: Any) -> TypeGuard[list[str]]:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(text, str) and text.strip() for text in value)
    )
