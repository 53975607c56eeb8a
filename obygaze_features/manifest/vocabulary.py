"""One name for each level and concept, whatever the file at hand calls it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _vocabulary() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("vocabulary.toml").read_text("utf-8"))


@cache
def concepts() -> Mapping[str, str]:
    """The canonical concepts in their order, each with its modality."""
    return {entry["name"]: entry["modality"] for entry in _vocabulary()["concepts"]}


def canonical_concept(spelling: str) -> str | None:
    """The canonical name of a concept, None for a word that is not one."""
    return _concept_by_key().get(_key(spelling))


def canonical_level(spelling: str) -> str | None:
    """EN, HN, NS or S for any spelling of a level, None for another word."""
    return _level_by_key().get(_key(spelling))


def _key(spelling: str) -> str:
    """A spelling without what varies by accident: case, blanks, underscores."""
    return " ".join(spelling.replace("_", " ").split()).casefold()


@cache
def _concept_by_key() -> Mapping[str, str]:
    return {
        _key(spelling): entry["name"]
        for entry in _vocabulary()["concepts"]
        for spelling in (entry["name"], *entry["aliases"])
    }


@cache
def _level_by_key() -> Mapping[str, str]:
    return {
        _key(spelling): level
        for level, spellings in _vocabulary()["levels"].items()
        for spelling in (level, *spellings)
    }
