"""A checkpoint as data: what a card says, read strictly from TOML."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from obygaze_features.backbones.geometry import SOURCES, Geometry, Level, levels_of
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import canonical_json, sha256_bytes

SCHEMA = "obygaze-backbone/1"
DEFAULT_PRESET = "default"


@dataclass(frozen=True)
class Preset:
    """How uint8 frames become a model's pixels, and how frames are to be chosen.

    `squash_first` squashes every frame to that square as OpenCV does before anything else (the
    released extractor did). `edge` is the shortest edge before the crop, 0 for the model's own
    size; with `edge_from_checkpoint` a preprocessor_config.json beside the weights has the say.
    `reproduces` says whose pixels these are to be. It decides no number, so it is in no hash.
    """

    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    resize: str = "shortest-edge"
    filter: str = "bilinear"
    edge: int = 0
    edge_from_checkpoint: bool = False
    crop_offset: str = "floor"
    rescale: str = "1/255"
    squash_first: int = 0
    sampling: str = "even"
    attention: str = "sdpa"
    reproduces: str = ""

    def as_dict(self) -> dict[str, Any]:
        """What decides the pixels and frames, as plain values, for recipes."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
            if key != "reproduces"
        }


CHOICES = {
    "resize": ("shortest-edge", "squash"),
    "filter": ("bilinear", "bicubic"),
    "crop_offset": ("floor", "round"),
    # 1/127.5-1 is ViViT's own processor: levels become -1..1 before mean and deviation.
    "rescale": ("1/255", "1/127.5-1"),
    # even: frame int(i * total / T); fps: one a second, at most T of them, the rest masked.
    "sampling": ("even", "fps"),
    "attention": ("sdpa", "eager"),
    "reproduces": ("", "hub", "paper", "training", "own"),
    "unit": ("frame", "clip"),
    "order": ("thw", "hwt", "hw"),
}


@dataclass(frozen=True)
class Card:
    """One checkpoint: what it is, what it is fed, and where each level comes from.

    `depth` (layers, hidden, heads) and `weights_sha256` (of its files, or of its tensors) are what
    weights must have to be this checkpoint. They decide no number, so they are in no hash.
    """

    name: str
    family: str
    title: str
    checkpoint: str
    revision: str
    licence: str
    citation: str
    gflop: float
    geometry: Geometry
    sources: Mapping[str, str]
    presets: Mapping[str, Preset]
    preset: str = DEFAULT_PRESET
    origin: str = ""
    depth: Mapping[str, int] = field(default_factory=dict)
    weights_sha256: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name a person types: the card, and the preset where it is not the default."""
        return self.name if self.preset == DEFAULT_PRESET else f"{self.name}@{self.preset}"

    @property
    def input(self) -> Preset:
        """The chosen preset."""
        return self.presets[self.preset]

    @property
    def levels(self) -> dict[str, Level]:
        """The levels of a clip as this card declares them."""
        return levels_of(self.sources, self.geometry)

    @cached_property
    def sha256(self) -> str:
        """The hash of what the card says, wherever it is written down."""
        return sha256_bytes(canonical_json(self.as_dict()))

    def with_preset(self, preset: str) -> Card:
        """The same card, fed in another way."""
        if preset not in self.presets:
            raise FixUsage(
                f"the card {self.name} has no preset {preset!r}",
                where=self.origin,
                hint=f"one of {', '.join(sorted(self.presets))}",
            )
        return replace(self, preset=preset)

    def as_dict(self) -> dict[str, Any]:
        """Everything the card says, as plain values; the choice of a preset is not part of it."""
        plain = {key: getattr(self, key) for key in _TEXTS}
        return {
            **plain,
            "gflop": self.gflop,
            "geometry": self.geometry.declared(),
            "levels": dict(self.sources),
            "presets": {name: preset.as_dict() for name, preset in self.presets.items()},
        }


_TEXTS = {
    **dict.fromkeys(("name", "family", "title", "checkpoint"), ""),
    "revision": "main",
    **dict.fromkeys(("licence", "citation"), ""),
}
_NUMBERS = {"frames": int, "size": int, "gflop": float}
_TOKENS = {"unit": str, "prefix": int, "order": str, "grid": list, "width": int, "out": int}
_DEPTH = ("layers", "hidden", "heads")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TABLES = ("tokens", "depth", "levels", "preset")
_TOP = ("schema", "like", *_TEXTS, *_NUMBERS, *_TABLES, "weights_sha256")
_NEEDED = ("name", "family", "title", "licence", "frames", "size", "tokens", "levels", "preset")


def read_toml(text: str, origin: str) -> dict[str, Any]:
    """A card's TOML as a tree, before its words are understood."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FixInput(f"not valid TOML: {error}", where=origin) from None


def inherit(tree: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """A tree on top of the one it is `like`: tables are merged, other values replaced."""
    merged = dict(base)
    for key, value in tree.items():
        below = merged.get(key)
        if isinstance(value, dict) and isinstance(below, dict) and key != "levels":
            value = inherit(value, below)
        merged[key] = value
    return merged


def card_from(tree: Mapping[str, Any], origin: str) -> Card:
    """A checked card, or an error that lists everything wrong with it."""
    problems = [f"unknown key {key!r}" for key in tree if key not in _TOP]
    problems += [f"missing key {key!r}" for key in _NEEDED if key not in tree]
    if tree.get("schema") != SCHEMA:
        problems.append(f"schema must be {SCHEMA!r}, not {tree.get('schema')!r}")
    texts = {key: _typed(tree.get(key, _TEXTS[key]), str, key, problems, "") for key in _TEXTS}
    numbers = {
        key: _typed(tree.get(key, 0), kind, key, problems, 0) for key, kind in _NUMBERS.items()
    }
    geometry = _geometry(tree, numbers, problems)
    sources = _sources(tree, texts["family"], problems)
    presets = _presets(tree, problems)
    depth, hashes = _depth(tree, problems), _hashes(tree, problems)
    if problems:
        details = [f"{origin}: {problem}" for problem in problems]
        raise FixInput("this card cannot be used", where=origin, details=details)
    return Card(
        **texts,
        gflop=float(numbers["gflop"]),
        geometry=geometry,
        sources=sources,
        presets=presets,
        origin=origin,
        depth=depth,
        weights_sha256=hashes,
    )


def _typed(
    value: Any, kind: type, key: str, problems: list[str], instead: Any, table: str = ""
) -> Any:
    accepted = (int, float) if kind is float else kind
    where = f"{table}{key}"
    if isinstance(value, bool) is not (kind is bool) or not isinstance(value, accepted):
        problems.append(f"{where} must be {kind.__name__}, not {value!r}")
        return instead
    if isinstance(value, int | float) and not 0 <= value < 1e9:
        problems.append(f"{where} is out of range: {value!r}")
        return instead
    if key in CHOICES and value not in CHOICES[key]:
        problems.append(
            f"{where} must be one of {', '.join(filter(None, CHOICES[key]))}, not {value!r}"
        )
    return value


def _table(tree: Mapping[str, Any], key: str, problems: list[str]) -> dict[str, Any]:
    value = tree.get(key, {})
    if not isinstance(value, dict):
        problems.append(f"{key} must be a table, not {value!r}")
        return {}
    return value


def _geometry(tree: Mapping[str, Any], numbers: Mapping[str, Any], problems: list[str]) -> Geometry:
    table = _table(tree, "tokens", problems)
    problems += [f"unknown key tokens.{key}" for key in table if key not in _TOKENS]
    defaults = {"unit": "frame", "prefix": 0, "order": "hw", "grid": [0, 0, 0], "width": 0}
    got = {
        key: _typed(table.get(key, default), _TOKENS[key], key, problems, default, "tokens.")
        for key, default in defaults.items()
    }
    out = _typed(table.get("out", got["width"]), int, "out", problems, 0, "tokens.")
    grid = got["grid"]
    if len(grid) != 3 or not all(isinstance(n, int) and n >= 0 for n in grid):
        problems.append(f"tokens.grid must be three counts (t, h, w), not {grid!r}")
        grid = [0, 0, 0]
    return Geometry(
        frames=numbers["frames"],
        size=numbers["size"],
        unit=got["unit"],
        prefix=got["prefix"],
        order=got["order"],
        grid=(grid[0], grid[1], grid[2]),
        width=got["width"],
        out=out,
    )


def _depth(tree: Mapping[str, Any], problems: list[str]) -> dict[str, int]:
    table = _table(tree, "depth", problems)
    problems += [f"unknown key depth.{key}" for key in table if key not in _DEPTH]
    return {
        key: _typed(table[key], int, key, problems, 0, "depth.") for key in _DEPTH if key in table
    }


def _hashes(tree: Mapping[str, Any], problems: list[str]) -> tuple[str, ...]:
    value = tree.get("weights_sha256", [])
    if not isinstance(value, list) or not all(_SHA256.fullmatch(str(one)) for one in value):
        problems.append(f"weights_sha256 must be a list of 64 hex digits each, not {value!r}")
        return ()
    return tuple(value)


def _sources(tree: Mapping[str, Any], family: str, problems: list[str]) -> dict[str, str]:
    table = _table(tree, "levels", problems)
    if family not in SOURCES:
        problems.append(f"family must be one of {', '.join(SOURCES)}, not {family!r}")
        return {}
    for needed in ("clip", "pooled", "frames"):
        if "levels" in tree and needed not in table:
            problems.append(f"missing key levels.{needed}")
    for level, source in table.items():
        if source not in SOURCES[family]:
            known = ", ".join(SOURCES[family])
            problems.append(f"levels.{level} must be one of {known}, not {source!r}")
    return table


def _presets(tree: Mapping[str, Any], problems: list[str]) -> dict[str, Preset]:
    tables = _table(tree, "preset", problems)
    if "preset" in tree and DEFAULT_PRESET not in tables:
        problems.append(f"missing table preset.{DEFAULT_PRESET}")
    base = _table(tables, DEFAULT_PRESET, problems)
    return {name: _preset(name, _table(tables, name, problems), base, problems) for name in tables}


def _preset(
    name: str, table: Mapping[str, Any], base: Mapping[str, Any], problems: list[str]
) -> Preset:
    known = {field.name: field.default for field in fields(Preset)}
    problems += [f"unknown key preset.{name}.{key}" for key in table if key not in known]
    values: dict[str, Any] = {}
    for key, default in known.items():
        # What the default reproduces, a preset that changes it does not.
        inherited = default if key == "reproduces" else base.get(key, default)
        value = table.get(key, inherited)
        if key in ("mean", "std"):
            value = _three(value, f"preset.{name}.{key}", problems)
        else:
            value = _typed(value, type(default), key, problems, default, f"preset.{name}.")
        values[key] = value
    return Preset(**values)


def _three(value: Any, key: str, problems: list[str]) -> tuple[float, ...]:
    numbers = isinstance(value, list | tuple) and len(value) == 3
    if not numbers or not all(isinstance(n, int | float) for n in value):
        problems.append(f"{key} must be three numbers, not {value!r}")
        return (0.5, 0.5, 0.5)
    if key.endswith("std") and not all(n > 0 for n in value):
        problems.append(f"{key} must be positive, not {value!r}")
    return tuple(float(n) for n in value)
