"""Makes a sealed store from a source: what the importer was told, and not a number more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.store.format.limits import check_disk, check_memory
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.format.schema import OK, ArraySpec, RowStatus
from obygaze_features.store.interchange.source import (
    Array,
    BadRow,
    Shape,
    Source,
    checked_shape,
    name_of,
)
from obygaze_features.store.write.create import create_store
from obygaze_features.store.write.edit import Roster
from obygaze_features.store.write.writer import StoreWriter

Pool = Literal["none", "also", "only"]
POOLED = "pooled"
NO_FEATURES = RowStatus.failed("import", "NotFound", "the files that were imported lack it")


@dataclass(frozen=True)
class Told:
    """What only the person who imports can know."""

    backbone: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    licence: str = ""
    citation: str = ""
    pool: Pool = "none"
    dtype: str | None = None


@dataclass(frozen=True)
class Imported:
    """What an import put into a new store."""

    path: Path
    n_clips: int
    n_ok: int
    levels: Mapping[str, tuple[int, ...]]
    failed: Mapping[str, str]
    not_in_manifest: Sequence[str]
    warnings: Sequence[str]


def import_store(
    source: Source,
    path: Path | str,
    *,
    roster: Roster | None = None,
    aliases: Mapping[str, str] | None = None,
    told: Told | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Write a source into a new store and seal it; the same call again goes on where it stopped.

    With a roster the store has a row for each of its clips; those the source lacks are failed
    rows. `aliases` are other names the source may call them by. Without a roster the store has
    the clips of the source, movies taken from it or from the ids.
    """
    told, progress = told or Told(), progress or Quiet()
    ids = [(aliases or {}).get(clip, clip) for clip in source.clip_ids]
    index_of = {clip: index for index, clip in enumerate(ids)}
    if len(index_of) < len(ids):
        repeated = [clip for clip, n in Counter(ids).items() if n > 1]
        raise FixInput(f"{len(repeated)} ids are there more than once", details=repeated[:20])
    if not ids:
        raise FixInput("there are no clips in these files", where=name_of(source))
    rows = roster or roster_of(source)
    indices = [index_of.get(clip) for clip in rows.clip_ids]
    if not any(index is not None for index in indices):
        raise FixInput("none of the clips of the manifest is in these files", where=rows.name)
    job = _Job(source, told, indices)
    check_disk(sum(spec.row_bytes for spec in job.specs) * len(indices), Path(path))
    create_store(
        path,
        recipe=_recipe(source, told),
        manifest_name=rows.name,
        manifest_sha256=rows.sha256,
        clip_ids=rows.clip_ids,
        movie_ids=rows.movie_ids,
        arrays=job.specs,
        licence=told.licence,
        citation=told.citation,
    )
    failed = job.fill(StoreWriter(path), progress)
    wanted = set(rows.clip_ids)
    return Imported(
        path=Path(path),
        n_clips=len(indices),
        n_ok=len(indices) - len(failed),
        levels={spec.name: spec.tail_shape for spec in job.specs},
        failed={rows.clip_ids[row]: str(status) for row, status in failed.items()},
        not_in_manifest=[clip for clip in ids if clip not in wanted],
        warnings=source.warnings,
    )


def roster_of(source: Source) -> Roster:
    """The clips of a source in the order of rows, by movie and then by scene."""
    movies = source.movie_ids or [movie_of(clip) for clip in source.clip_ids]
    pairs = sorted(
        zip(movies, source.clip_ids, strict=True), key=lambda pair: [*map(_natural, pair), pair]
    )
    clips, movies = [clip for _, clip in pairs], [movie for movie, _ in pairs]
    return Roster("imported", sha256_bytes(canonical_json([clips, movies])), clips, movies)


def movie_of(clip_id: str) -> str:
    """The movie of a clip by its id: what comes before the last hyphen, or the whole id."""
    head, hyphen, _ = clip_id.rpartition("-")
    return head if hyphen and head else clip_id


def _natural(name: str) -> list[tuple[int, int | str]]:
    words = re.split(r"(\d+)", name)
    return [(0, int(word)) if word.isdecimal() else (1, word) for word in words if word]


def _recipe(source: Source, told: Told) -> Recipe:
    facts: dict[str, Any] = {"origin": dict(source.origin), **told.facts}
    if told.backbone:
        facts["backbone"] = told.backbone
    if told.pool != "none":
        facts["pooling"] = "maximum over all tokens, by the importer"
    return Recipe.unknown(str(source.origin["format"]), facts)


class _Job:
    """The arrays of the new store, and how each row of them comes out of the source."""

    def __init__(self, source: Source, told: Told, indices: Sequence[int | None]) -> None:
        self.source, self.told, self.indices = source, told, indices
        self.shapes = {level: self._usual_shape(level) for level in source.levels}
        self.specs = [self._spec(level, shape) for level, shape in self.shapes.items()]
        several = [level for level, shape in self.shapes.items() if len(shape.sizes) > 1]
        self.pooled_from = several[0] if told.pool == "also" and several else None
        if self.pooled_from is not None:
            if POOLED in self.shapes:
                raise FixInput(f"there is a level {POOLED!r} already", hint="--pool none")
            width = self.shapes[self.pooled_from].sizes[-1]
            self.specs.append(ArraySpec(POOLED, (width,)))
        row_bytes = sum(spec.row_bytes for spec in self.specs)
        check_memory(32 * row_bytes, "one block of clips", str(source.origin), "--pool only")

    def _usual_shape(self, level: str) -> Shape:
        found: Counter[Shape] = Counter()
        why = ""
        for index in self.indices:
            if index is not None:
                try:
                    found[self._stored_shape(self.source.shape(level, index), level)] += 1
                except BadRow as error:  # told again when the row is read
                    why = why or f"; the first: {error}"
        if not found:
            raise FixInput(f"no clip has a usable {level}{why}", where=name_of(self.source))
        shape, count = found.most_common(1)[0]
        if 2 * count <= found.total():
            shapes = [f"{n} clips of {one.sizes} {one.dtype}" for one, n in found.most_common(20)]
            raise FixInput(
                f"{level} has {len(found)} shapes, and a store needs one for all clips",
                hint="--pool only keeps the maximum over all vectors of a clip",
                details=shapes,
            )
        return shape

    def _stored_shape(self, shape: Shape, level: str) -> Shape:
        sizes, dtype = checked_shape(shape, level)
        if self.told.pool == "only":
            sizes = sizes[-1:]
        # One vector a clip is kept in float32 whatever it came in, as all stores have it.
        small = dtype == "float16" and len(sizes) > 1
        return Shape(sizes, self.told.dtype or ("float16" if small else "float32"))

    def _spec(self, level: str, shape: Shape) -> ArraySpec:
        return ArraySpec(level, shape.sizes, dtype=shape.dtype)

    def fill(self, writer: StoreWriter, progress: Progress) -> dict[int, RowStatus]:
        """Commit all blocks that are pending, and seal; the rows that failed."""
        writer.clean_litter()
        pending = set(writer.pending_blocks())
        for block in range(writer.plan.n_blocks):
            rows = range(*writer.plan.block_range(block))
            if block in pending:
                arrays, statuses = self._block(rows)
                writer.commit_block(block, arrays, statuses)
            progress.advance(len(rows))
        noted = writer.seal().noted
        return {row: status for row, status in noted.items() if not status.is_ok}

    def _block(self, rows: range) -> tuple[dict[str, Array], list[RowStatus]]:
        arrays = {
            spec.name: np.zeros((len(rows), *spec.tail_shape), dtype=spec.dtype)
            for spec in self.specs
        }
        statuses = []
        for place, row in enumerate(rows):
            try:
                for name, values in self._row(self.indices[row]).items():
                    arrays[name][place] = values
                statuses.append(OK)
            except BadRow as error:
                statuses.append(NO_FEATURES if self.indices[row] is None else error.status())
        return arrays, statuses

    def _row(self, index: int | None) -> dict[str, Array]:
        if index is None:
            raise BadRow
        row = {level: self._values(level, index) for level in self.shapes}
        if self.pooled_from is not None:
            whole = row[self.pooled_from]
            row[POOLED] = whole.reshape(-1, whole.shape[-1]).max(axis=0).astype(np.float32)
        return row

    def _values(self, level: str, index: int) -> Array:
        values, shape = self.source.row(level, index), self.shapes[level]
        checked_shape(Shape(values.shape, str(values.dtype)), level)
        if self.told.pool == "only":
            values = values.reshape(-1, values.shape[-1]).max(axis=0)
        if values.shape != shape.sizes:
            raise BadRow(f"{level} has the shape {values.shape}, most clips have {shape.sizes}")
        with np.errstate(over="ignore"):  # what overflows is told in the next line
            stored = values.astype(shape.dtype)
        if not np.isfinite(stored).all():
            raise BadRow(f"{level} holds NaN or infinity as {shape.dtype}")
        return stored
