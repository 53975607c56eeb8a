"""Find, read and check the card files of the package and of the workspace."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, structs

from obygaze_features.backbones.card import (
    DEFAULT_PRESET,
    PARTS,
    Card,
    Preset,
    Sound,
    Words,
)
from obygaze_features.backbones.geometry import Geometry, Order, Unit
from obygaze_features.core.errors import FixInput, NotFound, ObygazeError, near
from obygaze_features.core.schema_check import (
    Count,
    Document,
    Record,
    Sha256,
    read_toml,
    record_of,
)
from obygaze_features.core.user_code import is_user_code
from obygaze_features.core.workspace import Workspace

SCHEMA = "obygaze-backbone/1"
# The prefix for cards of the pictures that are the input of another card.
FRAMES_OF = "frames:"
SHIPPED = Path(__file__).with_name("cards")
_NOT_INHERITED = (
    *("name", "title", "checkpoint", "revision", "gflop"),
    *("download_mb", "gated", "depth", "weights_sha256", "package", "language"),
)
"""Keys that `like` does not copy unchanged, because they belong to one checkpoint."""

LIKE = "like "
"""The prefix of a title that is copied from another card."""

Sources = Mapping[str, Path]
"""The file of each card, by name."""


_NOT_VALID = "this card is not valid"
_NEEDED_ARRAYS = {
    "pictures": ("clip", "pooled", "frames"),
    "sound": ("clip", "pooled", "frames"),
    "words": ("clip",),
}
# Keys that only one medium has.
_KEYS = {
    "pictures": ("frames", "size", "preset"),
    "sound": ("sound",),
    "words": ("words",),
}


class Tokens(Record, frozen=True):
    """The shape of inputs and outputs of a model; the default of `out` is the width."""

    unit: Unit = "frame"
    prefix: Count = 0
    order: Order = "hw"
    grid: tuple[Count, Count, Count] = (0, 0, 0)
    width: Count = 0
    out: Count | None = None


class CardFile(Record, frozen=True, kw_only=True):
    """The file of a card; `Card` describes the keys."""

    name: str
    family: str
    title: str
    licence: str
    tokens: Tokens
    arrays: Mapping[str, str]
    default_array: str = "clip"
    frames: Count = 0
    size: Count = 0
    preset: Mapping[str, Preset] = {}
    sound: Sound | None = None
    words: Words | None = None
    package: str = ""
    like: str = ""
    checkpoint: str = ""
    revision: str = "main"
    citation: str = ""
    gflop: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    download_mb: Count = 0
    gated: bool = False
    language: str = ""
    depth: Mapping[Literal["layers", "hidden", "heads"], Count] = {}
    weights_sha256: tuple[Sha256, ...] = ()


def parse_card(document: Document) -> Card:
    """Return the card of a document, or raise one error that lists every violation."""
    # Imported here because families need numpy, and the help of commands does not.
    from obygaze_features.backbones.families import FAMILIES

    document.require_schema(SCHEMA, "backbone card")
    file = record_of(document, CardFile, _NOT_VALID)
    if file.family not in FAMILIES:
        document.unknown("family", file.family, FAMILIES, "family")
        document.raise_if_any(_NOT_VALID)
    family = FAMILIES[file.family]
    for array, output in file.arrays.items():
        if output not in family.outputs:
            document.unknown(f"arrays.{array}", output, family.outputs, "output")
    medium = family.medium
    for array in _NEEDED_ARRAYS[medium]:
        if array not in file.arrays:
            document.add(f"arrays.{array}", "required key is missing")
    if "default_array" in document.tree and file.default_array not in file.arrays:
        document.unknown("default_array", file.default_array, file.arrays, "array")
    dimensions = family.outputs.get(file.arrays.get(file.default_array, ""), "")
    if len(dimensions.split()) > 1:
        message = f"must have one vector per clip, but {file.default_array} has several"
        document.add("default_array", message)
    for key in _KEYS[medium]:
        if key not in document.tree:
            document.add(key, "required key is missing")
    if "preset" in document.tree and DEFAULT_PRESET not in file.preset:
        document.add(f"preset.{DEFAULT_PRESET}", "required key is missing")
    for other, keys in _KEYS.items():
        for key in keys:
            if other != medium and key in document.tree:
                document.add(key, f"only for models of {other}, not {family.name}")
    if medium != "pictures":
        for key in sorted(document.tree["tokens"].keys() - {"width", "out"}):
            message = f"only for models of pictures, not {family.name}"
            document.add(f"tokens.{key}", message)
    if file.sound is not None:
        rate = file.sound.rate
        seconds = file.sound.seconds
        for key in document.tree["sound"]:
            if key not in family.sound_keys:
                message = f"models of {family.name} do not use this key"
                document.add(f"sound.{key}", message)
        mel = file.sound.mel
        if mel is None and "mel" in family.sound_keys:
            document.add("sound.mel", "required key is missing")
        if mel and not mel.low_hz < mel.high_hz <= rate / 2:
            message = f"must be above low_hz and at most {rate / 2:g}"
            document.add("sound.mel.high_hz", message)
        if family.rate and rate != family.rate:
            message = f"must be {family.rate} for models of {family.name}, got {rate}"
            document.add("sound.rate", message)
        if family.most_s and not 0 < seconds <= family.most_s:
            message = f"must be above 0 and at most {family.most_s:g}, got {seconds:g}"
            document.add("sound.seconds", message)
    document.raise_if_any(_NOT_VALID)
    tokens = structs.asdict(file.tokens)
    if file.tokens.out is None:
        tokens["out"] = file.tokens.width
    n_frames = file.frames
    if medium == "sound":
        # A clip has a vector for each of its parts.
        n_frames = PARTS
        tokens |= {"unit": "clip", "grid": (PARTS, 0, 0)}
    presets = {}
    if medium != "pictures":
        presets[DEFAULT_PRESET] = Preset()
    for name, preset in file.preset.items():
        stated = {key: getattr(preset, key) for key in document.tree["preset"][name]}
        # Other keys have the values of the default preset.
        presets[name] = structs.replace(file.preset[DEFAULT_PRESET], **stated)
    return Card(
        name=file.name,
        family=family,
        title=file.title,
        licence=file.licence,
        geometry=Geometry(n_frames, file.size, **tokens),
        # Stores keep this order, and the first vector is the default array of a store.
        sources={file.default_array: file.arrays[file.default_array], **file.arrays},
        presets=presets,
        sound=file.sound,
        words=file.words,
        package=file.package,
        checkpoint=file.checkpoint,
        revision=file.revision,
        citation=file.citation,
        gflop=file.gflop,
        download_mb=file.download_mb,
        gated=file.gated,
        language=file.language,
        origin=document.where,
        depth={str(name): number for name, number in file.depth.items()},
        weights_sha256=file.weights_sha256,
    )


def find_card(name: str, workspace: Workspace | None = None) -> Card:
    """Return a card by its name, NAME@PRESET, the path of its file, or the name of user code.

    Args:
        name: A name that `obygaze backbones ls` lists, a path that ends in .toml, or a function
            that returns a card, written FILE.py:NAME or package.module:NAME. The name of a function
            runs its code: never pass a name from an untrusted file. frames:NAME is the card of the
            pictures that are the input of the card NAME.
        workspace: The workspace. Its cards are read in addition to the cards of obygaze.
    """
    if name.startswith(FRAMES_OF):
        from obygaze_features.backbones.frames import frames_card

        return frames_card(find_card(name.removeprefix(FRAMES_OF), workspace))
    if is_user_code(name):
        from obygaze_features.backbones.own import card_of_code

        return card_of_code(name)
    plain, preset = split_preset(name)
    sources = _sources(workspace)
    source = Path(plain) if plain.endswith(".toml") else sources.get(plain)
    if source is None:
        if plain.endswith(".py"):
            raise NotFound(
                "expected FILE.py:NAME", where=plain, hint=f"use {plain}:NAME"
            )
        raise NotFound(
            f"no backbone called {plain!r}{near(plain, sources)}",
            hint="obygaze backbones ls",
        )
    return _card(source, sources).with_preset(preset or DEFAULT_PRESET)


def refuse_code_of_store(name: str) -> None:
    """Raise an error if a store names user code as its backbone."""
    if ":" in name:
        raise FixInput(
            f"the backbone of the store is user code, which is never run: {name!r}"
        )


def split_preset(name: str) -> tuple[str, str]:
    """Return the name or path of a card, and the preset, or "" for the default.

    >>> split_preset("clip-l14@paper"), split_preset("me@lab/mine.toml")
    (('clip-l14', 'paper'), ('me@lab/mine.toml', ''))
    """
    if "@" not in name or name.endswith(".toml"):
        return name, ""  # folders of a path may contain an @
    plain, _, preset = name.rpartition("@")
    return plain, preset


def find_cards(
    workspace: Workspace | None = None,
) -> tuple[list[Card], list[ObygazeError]]:
    """Return all valid cards, and the errors of invalid cards.

    Args:
        workspace: The workspace. Its cards are read in addition to the cards of obygaze.
    """
    sources = _sources(workspace)
    cards: list[Card] = []
    problems: list[ObygazeError] = []
    for name in sorted(sources):
        try:
            cards.append(_card(sources[name], sources))
        except ObygazeError as error:
            problems.append(error)
    return cards, problems


def _sources(workspace: Workspace | None) -> Sources:
    """Return the file of each card by its name. Raise an error if two files have the same name."""
    files = sorted(SHIPPED.glob("*.toml"))
    if workspace is not None:
        files += sorted(workspace.folder("backbones").glob("*.toml"))
    sources: dict[str, Path] = {}
    for file in files:
        other = sources.setdefault(file.stem, file)
        if other.resolve() != file.resolve():
            problem = f"two cards are called {file.stem!r}"
            where = f"{file} and {other}"
            raise FixInput(problem, where=where)
    return sources


def _card(source: Path, sources: Sources) -> Card:
    card = parse_card(_document(source, sources, ()))
    if card.name != source.stem:
        where = str(source)
        hint = f"use name = {source.stem!r}, or rename the file to {card.name}.toml"
        raise FixInput(
            f"the card in {source.name} is called {card.name!r}", where=where, hint=hint
        )
    return card


def _document(path: Path, sources: Sources, seen: tuple[Path, ...]) -> Document:
    """Return the document of the file of a card.

    If the file has the key `like`, values that it does not state are those of the card that `like`
    names.
    """
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
    document.tree = _merge(document.tree, inherited)
    return document


def _merge(tree: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `base`, replaced by those of `tree`.

    A table that is in both is merged in the same way, except the table `arrays`, which is replaced.
    """
    merged = {**base, **tree}
    for key, value in tree.items():
        if (
            isinstance(value, dict)
            and isinstance(base.get(key), dict)
            and key != "arrays"
        ):
            merged[key] = _merge(value, base[key])
    return merged
