"""The clips of a manifest as columns, for tasks, splits and baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.folds import OUTSIDE, IntArray
from obygaze_features.manifest.model import FOLD_PREFIX, Clip, Manifest
from obygaze_models.protocols.schema import Data

Words = NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class ClipTable:
    """Clips in the order of the manifest, under one view."""

    name: str
    clips: Sequence[Clip]
    concept_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.clips)

    @cached_property
    def ids(self) -> list[str]:
        """The clip ids."""
        return [clip.clip_id for clip in self.clips]

    @cached_property
    def movies(self) -> Words:
        """The film of each clip."""
        return np.array([clip.movie_id for clip in self.clips], dtype=np.str_)

    @cached_property
    def levels(self) -> list[str]:
        """The annotation level of each clip, "" where it has none."""
        return [clip.level for clip in self.clips]

    @cached_property
    def concepts(self) -> list[tuple[str, ...]]:
        """The concepts of each clip."""
        return [clip.concepts for clip in self.clips]

    @cached_property
    def has_video(self) -> NDArray[np.bool_]:
        """Whether each clip has a video."""
        return np.array([clip.video != "" for clip in self.clips], dtype=np.bool_)

    @cached_property
    def has_concept(self) -> NDArray[np.bool_]:
        """Whether each clip (row) has each of `concept_names` (column)."""
        rows = [[name in clip.concepts for name in self.concept_names] for clip in self.clips]
        return np.array(rows, dtype=np.bool_).reshape(len(self), len(self.concept_names))

    @cached_property
    def places(self) -> Mapping[str, tuple[str, int]] | None:
        """The film of each clip and its position there, or None if a position is unknown.

        The position is the scene where all clips have one, else the rank by start time. None, too,
        if there is only one film.
        """
        if len(set(self.movies.tolist())) < 2:
            return None
        if all(clip.scene is not None for clip in self.clips):
            return {c.clip_id: (c.movie_id, int(c.scene or 0)) for c in self.clips}
        if all(clip.start_s is not None for clip in self.clips):
            ordered = sorted(self.clips, key=lambda c: (c.movie_id, c.start_s or 0.0))
            return {c.clip_id: (c.movie_id, i) for i, c in enumerate(ordered)}
        return None

    @cached_property
    def scenes(self) -> IntArray | None:
        """The position of each clip in its film, or None as for `places`."""
        if self.places is None:
            return None
        return np.array([self.places[clip][1] for clip in self.ids], dtype=np.intp)

    def column(self, name: str) -> list[str]:
        """Return a column of the manifest as text: extra ones, clip_id, movie_id or level."""
        own: dict[str, list[str]] = {
            "clip_id": self.ids,
            "movie_id": self.movies.tolist(),
            "level": self.levels,
        }
        if name in own:
            return own[name]
        if not self.clips or name not in self.clips[0].extra:
            known = [*own, *(self.clips[0].extra if self.clips else ())]
            raise FixInput(
                f"the manifest has no column {name!r}",
                where=self.name,
                hint=f"one of {', '.join(known)}",
            )
        return [clip.extra.get(name, "") for clip in self.clips]

    def fold(self, name: str) -> IntArray:
        """Return a published fold column as numbers; -1 for clips without a fold."""
        try:
            cells = self.column(FOLD_PREFIX + name)
        except FixInput as error:
            raise FixInput(
                f"the manifest has no published folds {name!r}",
                where=self.name,
                hint="obygaze manifest import obygaze12 CSV --splits DIR",
            ) from error
        return read_folds(cells, where=f"{self.name}, {FOLD_PREFIX}{name}")


def clip_table(manifest: Manifest, data: Data) -> ClipTable:
    """Return the clips of a manifest that a protocol uses."""
    seen = manifest.view(data.view)
    kept = seen.where(data.where) if data.where else seen
    table = ClipTable(manifest.name, kept.clips, seen.header.of_modality("visual"))
    if not len(table):
        raise FixInput(
            f"no clip matches data.view = {data.view!r} and data.where = {data.where!r}",
            where=manifest.name,
        )
    return table


def read_folds(column: Sequence[str | int], *, where: str | None = None) -> IntArray:
    """Return a published fold column as numbers; -1 for empty cells."""
    try:
        folds = np.array(
            [OUTSIDE if str(cell).strip() == "" else int(cell) for cell in column], dtype=np.intp
        )
    except ValueError as error:
        raise FixInput(f"a fold must be a whole number: {error}", where=where) from error
    if folds.size and folds.min() < OUTSIDE:
        raise FixInput(f"a fold must be at least 0, got {folds.min()}", where=where)
    return folds
