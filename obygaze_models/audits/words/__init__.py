"""Word lists as data, and the one way a caption becomes words."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from obygaze_features.core.errors import FixInput, NotFound

WordLists = Mapping[str, frozenset[str]]
SHIPPED = ("emotions", "gender")


def tokens(caption: str) -> list[str]:
    """The words of a caption: lower case, full stops and commas dropped, cut at blanks."""
    return caption.lower().replace(".", "").replace(",", "").split(" ")


def read_words(name: str) -> WordLists:
    """Word lists by the name of a shipped file or the path of one like it."""
    if name in SHIPPED:
        text, where = files(__package__).joinpath(f"{name}.toml").read_text("utf-8"), name
    else:
        path = Path(name)
        if not path.is_file():
            hint = f"one of {', '.join(SHIPPED)}, or the path of a TOML file"
            raise NotFound(f"no word lists called {name!r}", where=str(path), hint=hint)
        text, where = path.read_text("utf-8"), str(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FixInput(f"not valid TOML: {error}", where=where) from error
    lists = document.get("lists")
    if set(document) != {"lists"} or not isinstance(lists, dict) or not lists:
        raise FixInput("word lists are a TOML file with one table, [lists]", where=where)
    for title, words in lists.items():
        if not isinstance(words, list) or not all(_is_word(word) for word in words) or not words:
            raise FixInput(f"the list {title!r} must hold words, each one token", where=where)
    return {title: frozenset(words) for title, words in lists.items()}


def _is_word(word: object) -> bool:
    return isinstance(word, str) and tokens(word) == [word] and bool(word)
