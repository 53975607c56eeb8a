"""Card files: found in the package and the workspace, read and checked."""

import difflib
import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.backbones.base import DEFAULT_PRESET, Card, Family, Preset
from obygaze_features.backbones.geometry import COUNT, Geometry
from obygaze_features.core.errors import FixInput, NotFound, ObygazeError
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.parts import is_own_code
from obygaze_features.core.schema_check import Document, Table, read_toml, table_of
from obygaze_features.core.schema_rules import (
    anything,
    boolean,
    choice,
    list_of,
    matching,
    near,
    number,
    text,
)
from obygaze_features.core.workspace import Workspace

SCHEMA = "obygaze-backbone/1"
# Before a name: the pictures that the model of that card sees.
FRAMES = "frames:"
SHIPPED = Path(__file__).with_name("cards")
_NOT_INHERITED = (
    *("name", "title", "checkpoint", "revision", "gflop"),
    *("download_mb", "gated", "depth", "weights_sha256"),
)
"""The keys that `like` does not copy as they are, because they belong to one checkpoint."""

LIKE = "like "
"""Before the title of another card, where a card has none of its own."""

Sources = Mapping[str, Path]
"""The file of each card by its name."""


def _schema(families: Mapping[str, Family], family: Family | None) -> Table:
    output = choice(family.outputs) if family else text
    needed = ("clip", "pooled", "frames")
    preset = Table(table_of(Preset).keys)
    tokens = {
        k: rule
        for k, rule in table_of(Geometry, depth=anything).keys.items()
        if k != "depth"
    }
    return Table(
        {
            **dict.fromkeys(("like", "name", "title", "checkpoint", "revision"), text),
            **dict.fromkeys(("licence", "citation"), text),
            "family": choice(families),
            "frames": tokens.pop("frames"),
            "size": tokens.pop("size"),
            "gflop": number(0, 1e9),
            "download_mb": COUNT,
            "gated": boolean,
            "tokens": Table(tokens),
            "depth": Table(dict.fromkeys(("layers", "hidden", "heads"), COUNT)),
            "arrays": Table(dict.fromkeys(needed, output), needed, others=output),
            "preset": Table({DEFAULT_PRESET: preset}, (DEFAULT_PRESET,), others=preset),
            "weights_sha256": list_of(
                matching("[0-9a-f]{64}", "64 hexadecimal digits")
            ),
        },
        (
            "name",
            "family",
            "title",
            "licence",
            "frames",
            "size",
            "tokens",
            "arrays",
            "preset",
        ),
    )


def card_from(document: Document) -> Card:
    """Return the card of a document, or raise one error that lists every violation."""
    # Imported here because families need numpy, and the help of commands does not.
    from obygaze_features.backbones.families import FAMILIES

    document.require_schema(SCHEMA, "backbone card")
    name = document.tree.get("family")
    family = FAMILIES.get(name) if isinstance(name, str) else None
    values = document.check(_schema(FAMILIES, family))
    document.raise_if_any("this card is not valid")
    values.pop("like", None)
    tokens, presets, kind = (values.pop(key) for key in ("tokens", "preset", "family"))
    sizes = {"out": tokens.get("width", 0), **tokens}
    return Card(
        family=FAMILIES[kind],
        geometry=Geometry(values.pop("frames"), values.pop("size"), **sizes),
        sources=values.pop("arrays"),
        presets={
            name: _preset(stated, presets[DEFAULT_PRESET])
            for name, stated in presets.items()
        },
        gflop=float(values.pop("gflop", 0)),
        origin=document.where,
        **values,
    )


def _preset(stated: Mapping[str, Any], default: Mapping[str, Any]) -> Preset:
    """Return a preset; its missing values are the default preset's, except `reproduces`."""
    values: dict[str, Any] = {**default, "reproduces": "", **stated}
    values.update(
        {k: tuple(map(float, values[k])) for k in ("mean", "std") if k in values}
    )
    return Preset(**values)


@dataclass(frozen=True, repr=False)
class FoundCards:
    """The cards that could be read, and what is wrong with the files that could not."""

    cards: tuple[Card, ...]
    problems: tuple[ObygazeError, ...]

    def __repr__(self) -> str:
        names = ", ".join(card.name for card in self.cards)
        return short_repr("FoundCards", f"{len(self.problems)} problems", names)


def find_card(name: str, workspace: Workspace | None = None) -> Card:
    """Return the card called `name`, `name@preset`, by the path of its file, or of your own code.

    Args:
        name: A name that `obygaze backbones ls` lists, a path that ends in .toml, or a function
            that returns a card, as FILE.py:NAME or package.module:NAME. The last runs that
            code, so never pass a name from a file of somebody else. frames:NAME is the card of the
            pictures that the model of another card sees.
        workspace: The workspace whose own cards are found too.
    """
    if name.startswith(FRAMES):
        from obygaze_features.backbones.frames import frames_card

        return frames_card(find_card(name.removeprefix(FRAMES), workspace))
    if is_own_code(name):
        from obygaze_features.backbones.own import card_of_code

        return card_of_code(name)
    plain, preset = split_preset(name)
    sources = _sources(workspace)
    source = Path(plain) if plain.endswith(".toml") else sources.get(plain)
    if source is None:
        if plain.endswith(".py"):
            raise NotFound("expected FILE.py:NAME", where=plain, hint=f"{plain}:NAME")
        similar = _similar_names(plain, sources)
        hint = f"one of {', '.join(similar)}" if similar else "obygaze backbones ls"
        raise NotFound(f"no backbone called {plain!r}", hint=hint)
    return _card(source, sources).with_preset(preset or DEFAULT_PRESET)


def _similar_names(name: str, sources: Sources) -> list[str]:
    """Return up to three cards of a family with a similar name, or with similar names."""
    families = {source.partition("-")[0] for source in sources}
    family = difflib.get_close_matches(name, families, 1)
    similar = [source for source in sources if source.partition("-")[0] in family][:3]
    return similar or difflib.get_close_matches(name, sources, n=3, cutoff=0.5)


def split_preset(name: str) -> tuple[str, str]:
    """Return the name or the path of a card, and its preset: "" for the default.

    >>> split_preset("clip-l14@paper"), split_preset("me@lab/mine.toml")
    (('clip-l14', 'paper'), ('me@lab/mine.toml', ''))
    """
    if "@" not in name or name.endswith(".toml"):
        return name, ""  # the folders of a path may have an @ of their own
    plain, _, preset = name.rpartition("@")
    return plain, preset


def find_cards(pattern: str = "*", workspace: Workspace | None = None) -> FoundCards:
    """Return the cards whose names match a wildcard, and the errors of those that are not valid.

    Args:
        pattern: A name with `*` and `?`, as in `xclip-*`.
        workspace: The workspace whose own cards are found too.
    """
    sources = _sources(workspace)
    cards: list[Card] = []
    problems: list[ObygazeError] = []
    for name in sorted(fnmatch.filter(sources, pattern)):
        try:
            cards.append(_card(sources[name], sources))
        except ObygazeError as error:
            problems.append(error)
    return FoundCards(tuple(cards), tuple(problems))


def _sources(workspace: Workspace | None) -> Sources:
    """Return the file of each card; a name twice is an error."""
    files = sorted(SHIPPED.glob("*.toml"))
    if workspace is not None:
        files += sorted(workspace.folder("backbones").glob("*.toml"))
    sources: dict[str, Path] = {}
    for file in files:
        other = sources.setdefault(file.stem, file)
        if other.resolve() != file.resolve():
            problem = f"two cards are called {file.stem!r}"
            where = f"{file} and {other}"
            raise FixInput(problem, where=where, hint="rename your own card")
    return sources


def _card(source: Path, sources: Sources) -> Card:
    card = card_from(_document(source, sources, ()))
    if card.name != source.stem:
        where = str(source)
        hint = f"name = {source.stem!r}, or rename the file to {card.name}.toml"
        raise FixInput(
            f"the card in {source.name} is called {card.name!r}", where=where, hint=hint
        )
    return card


def _document(path: Path, sources: Sources, seen: tuple[Path, ...]) -> Document:
    """Return the document of a file, with the values of the card that `like` names."""
    if not path.is_file():
        raise NotFound("no such card", where=str(path), hint="obygaze backbones ls")
    document = read_toml(path.read_bytes(), str(path))
    like = document.tree.get("like")
    if like is None:
        return document
    base = sources.get(like) if isinstance(like, str) else None
    if base is None:
        problem = f"like = {like!r}: unknown card{near(str(like), sources)}"
        raise FixInput(problem, where=str(path), hint="obygaze backbones ls")
    seen = (*seen, path)
    if base in seen:
        circle = " -> ".join(each.stem for each in (*seen, base))
        raise FixInput(f"circular `like`: {circle}", where=str(path))
    tree = _document(base, sources, seen).tree
    inherited = {k: tree[k] for k in tree if k not in _NOT_INHERITED}
    title = tree.get("title")
    if isinstance(title, str):
        inherited["title"] = LIKE + title.removeprefix(LIKE)
    document.tree = _merged(document.tree, inherited)
    return document


def _merged(tree: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a tree into another: tables are merged, `arrays` and other values replaced."""
    merged = {**base, **tree}
    for key, value in tree.items():
        if (
            isinstance(value, dict)
            and isinstance(base.get(key), dict)
            and key != "arrays"
        ):
            merged[key] = _merged(value, base[key])
    return merged
