"""Where cards are found: in the package, in the workspace, in a file, in installed packages."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from obygaze_features.backbones.cards import DEFAULT_PRESET, Card, card_from, inherit, read_toml
from obygaze_features.core.errors import FixInput, NotFound, ObygazeError
from obygaze_features.core.workspace import Workspace

ENTRY_POINTS = "obygaze.backbones"
SHIPPED = Path(__file__).with_name("cards")
_LIKE_AT_MOST = 8
# What would be untrue of another checkpoint.
_NOT_INHERITED = (*("name", "title", "checkpoint", "revision", "gflop", "depth", "weights_sha256"),)


@dataclass(frozen=True)
class Found:
    """Cards that could be read, and what is wrong with the files that could not."""

    cards: tuple[Card, ...]
    problems: tuple[ObygazeError, ...]


def find_card(name: str, workspace: Workspace | None = None) -> Card:
    """The card called `name`, `name@preset` or by the path of its file."""
    plain, _, preset = name.partition("@")
    paths = _paths(workspace)
    path = Path(plain) if plain.endswith(".toml") else paths.get(plain)
    if path is None:
        near = difflib.get_close_matches(plain, paths, n=3, cutoff=0.5)
        hint = f"one of {', '.join(near)}" if near else "obygaze backbones ls"
        raise NotFound(f"no backbone called {plain!r}", hint=hint)
    return _read(path, paths).with_preset(preset or DEFAULT_PRESET)


def find_cards(pattern: str = "*", workspace: Workspace | None = None) -> Found:
    """The cards whose names match a wildcard, and the errors of those that are broken."""
    paths = _paths(workspace)
    cards: list[Card] = []
    problems: list[ObygazeError] = []
    for name in sorted(paths):
        if not fnmatch.fnmatch(name, pattern):
            continue
        try:
            cards.append(_read(paths[name], paths))
        except ObygazeError as error:
            problems.append(error)
    return Found(tuple(cards), tuple(problems))


def card_names(workspace: Workspace | None = None) -> list[str]:
    """The names of all cards, whatever is in them."""
    return sorted(_paths(workspace))


def _paths(workspace: Workspace | None) -> dict[str, Path]:
    """The file of each name; one name in two places is an error, never a silent choice."""
    paths: dict[str, Path] = {}
    for path in _files(workspace):
        other = paths.setdefault(path.stem, path)
        if other.resolve() != path.resolve():
            raise FixInput(
                f"two cards are called {path.stem!r}",
                where=f"{path} and {other}",
                hint="rename the one that is yours",
            )
    return paths


def _files(workspace: Workspace | None) -> Iterator[Path]:
    yield from sorted(SHIPPED.glob("*.toml"))
    if workspace is not None:
        yield from sorted(workspace.folder("backbones").glob("*.toml"))
    for point in entry_points(group=ENTRY_POINTS):
        place = _place(point)
        yield from sorted(place.glob("*.toml")) if place.is_dir() else [place]


def _place(point: EntryPoint) -> Path:
    """The file or folder an entry point names: the value it loads, or what a call of it gives."""
    loaded = point.load()
    place = loaded() if callable(loaded) else loaded
    if not isinstance(place, str | Path):
        raise FixInput(
            f"the entry point {point.name!r} must name a file or a folder of cards",
            where=f"{ENTRY_POINTS}: {point.value}",
        )
    return Path(place)


def _read(path: Path, paths: dict[str, Path]) -> Card:
    card = card_from(_tree(path, paths, ()), str(path))
    if card.name != path.stem:
        raise FixInput(
            f"the card in {path.name} is called {card.name!r}",
            where=str(path),
            hint=f"name = {path.stem!r}, or rename the file to {card.name}.toml",
        )
    return card


def _tree(path: Path, paths: dict[str, Path], seen: tuple[Path, ...]) -> dict[str, Any]:
    if not path.is_file():
        raise NotFound("no such card", where=str(path), hint="obygaze backbones ls")
    try:
        tree = read_toml(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise FixInput("a card must be UTF-8 text", where=str(path)) from None
    like = tree.get("like")
    if like is None:
        return tree
    if path in seen or len(seen) > _LIKE_AT_MOST:
        raise FixInput("cards that are like each other in a circle", where=str(path))
    if not isinstance(like, str) or like not in paths:
        raise FixInput(
            f"like = {like!r} is no known card", where=str(path), hint="obygaze backbones ls"
        )
    base = _tree(paths[like], paths, (*seen, path))
    return inherit(tree, {key: base[key] for key in base if key not in _NOT_INHERITED})
