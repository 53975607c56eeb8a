"""What a manifest is: clips with their labels, and the header that says where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

from obygaze_features.core.schema_check import Table
from obygaze_features.core.schema_rules import choice, matching, text

LEVELS = ("EN", "HN", "NS", "S")
UNITS = ("clip", "segment")
VIEWS = ("raw", "visual", "as_published")
COLUMNS = ("clip_id", "movie_id", "scene", "video", "start_s", "end_s", "level", "concepts")
FOLD_PREFIX = "fold:"


def concept_name(value: Any) -> str | None:
    """Allow the name of a concept: in the column `concepts`, names are joined with '|'."""
    valid = isinstance(value, str) and value.strip() and "|" not in value
    return None if valid else "must not be blank and must not contain '|'"


@dataclass(frozen=True)
class Clip:
    """One row: a piece of film and what the annotators said of it.

    `start_s` and `end_s` are where the clip lies within `video`; None means the whole file.
    """

    clip_id: str
    movie_id: str
    scene: int | None = None
    video: str = ""
    start_s: float | None = None
    end_s: float | None = None
    level: str = ""
    concepts: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

    def fold(self, name: str) -> int | None:
        """The fold of a named split, None where the clip takes no part in it."""
        text = self.extra.get(FOLD_PREFIX + name, "")
        return int(text) if text else None


@dataclass(frozen=True)
class SourceFile:
    """A file that a manifest was made from."""

    file: str
    sha256: Annotated[str, matching("[0-9a-f]{64}", "64 hexadecimal digits")]


@dataclass(frozen=True)
class Header:
    """The TOML half of a manifest: what the data set is, and the words it may use."""

    dataset: str
    concepts: Annotated[Mapping[str, str], Table(others=text, names=concept_name)] = field(
        default_factory=dict
    )
    unit: Annotated[str, choice(UNITS)] = "clip"
    view: Annotated[str, choice(VIEWS)] = "raw"
    licence: str = ""
    citation: str = ""
    notes: tuple[str, ...] = ()
    sources: tuple[SourceFile, ...] = ()
    video_root: str = ""

    def of_modality(self, modality: str) -> tuple[str, ...]:
        """The concepts of one modality, in the vocabulary's order."""
        return tuple(name for name, kind in self.concepts.items() if kind == modality)


@dataclass(frozen=True)
class Manifest:
    """Clips under one name, in the order of their file."""

    name: str
    header: Header
    clips: tuple[Clip, ...]
    columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.clips)

    def __iter__(self) -> Iterator[Clip]:
        return iter(self.clips)

    @cached_property
    def by_id(self) -> Mapping[str, Clip]:
        """The clips by their id."""
        return {clip.clip_id: clip for clip in self.clips}

    @cached_property
    def clip_ids(self) -> tuple[str, ...]:
        """The ids in row order."""
        return tuple(clip.clip_id for clip in self.clips)

    @cached_property
    def movies(self) -> tuple[str, ...]:
        """The films, sorted."""
        return tuple(sorted({clip.movie_id for clip in self.clips}))

    @property
    def folds(self) -> tuple[str, ...]:
        """The names of the splits that came with the data or were made by `folds`."""
        return tuple(
            name.removeprefix(FOLD_PREFIX) for name in self.columns if name.startswith(FOLD_PREFIX)
        )

    def with_clips(self, clips: Iterable[Clip]) -> Manifest:
        """The same header over other clips."""
        return replace(self, clips=tuple(clips))

    def with_column(self, column: str, values: Mapping[str, str]) -> Manifest:
        """One more extra column, given by clip id; a clip without a value has it empty."""
        clips = tuple(
            replace(clip, extra={**clip.extra, column: values.get(clip.clip_id, "")})
            for clip in self.clips
        )
        columns = self.columns if column in self.columns else (*self.columns, column)
        return replace(self, clips=clips, columns=columns)


def sort_key(clip: Clip) -> tuple[str, int, str]:
    """The order of rows in manifests and stores: by film, then scene, then id."""
    return clip.movie_id, -1 if clip.scene is None else clip.scene, clip.clip_id
