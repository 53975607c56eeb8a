"""What a run will do, fixed before anything runs: clips in order, backbones, and their stores.

A plan is one JSON file; every worker of every engine reads the same one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, lcm
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, NotFound
from obygaze_features.core.files import pretty_json, write_new
from obygaze_features.manifest.model import Manifest, clips_sha256, sort_key

SCHEMA = "obygaze-extract-plan/1"
SAMPLINGS = ("card", "keyframes")


@dataclass(frozen=True)
class Row:
    """One clip to extract: the file it is in, and where; `video` is empty where it has none."""

    clip_id: str
    movie_id: str
    video: str
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True)
class Target:
    """One backbone of a run, and the store its features go to."""

    store: str
    backbone: str
    weights: str | None = None
    levels: tuple[str, ...] = ()
    sampling: str = "card"
    dtype: str = "float32"
    attention: str | None = None
    tf32: bool = False
    compiled: bool = False
    compressor: str | None = None
    block_rows: int | None = None


@dataclass(frozen=True)
class ExtractPlan:
    """The clips of a manifest in the order of a store, and what to make of each."""

    manifest: str
    licence: str
    citation: str
    rows: tuple[Row, ...]
    targets: tuple[Target, ...]
    max_substituted: float = 1 / 8
    timeout_s: float = 300.0
    workspace: str = "."

    def __post_init__(self) -> None:
        """Refuse limits that no clip could keep, before anything is begun with them."""
        if not 0 < self.timeout_s < inf or not 0 <= self.max_substituted <= 1:
            raise FixUsage(
                f"a limit of {self.timeout_s:g} s and {self.max_substituted:g} substituted",
                hint="--timeout above 0, --max-substituted from 0 to 1",
            )

    @property
    def clips_sha256(self) -> str:
        """The hash of which clips there are."""
        return clips_sha256((row.clip_id, row.movie_id) for row in self.rows)

    @property
    def n_units(self) -> int:
        """Into how many units of work the rows are cut; engines hand out these."""
        return -(-len(self.rows) // self.unit_rows)

    @property
    def unit_rows(self) -> int:
        """Rows of a unit: whole blocks of every store, so that no two workers share a block."""
        # Not at the top: a run reads its plan's module before it can catch signals.
        from obygaze_features.store.write.create import BLOCK_ROWS

        return lcm(*(target.block_rows or BLOCK_ROWS for target in self.targets))

    def unit_range(self, unit: int) -> range:
        """The rows of a unit."""
        if not 0 <= unit < self.n_units:
            raise FixUsage(f"there is no unit {unit}: units are 0 to {self.n_units - 1}")
        first = unit * self.unit_rows
        return range(first, min(first + self.unit_rows, len(self.rows)))

    def to_bytes(self) -> bytes:
        """The bytes of the plan's file."""
        # asdict() copies each value by itself, which for a million rows takes as long as the rest.
        rows = [dict(vars(row)) for row in self.rows]
        targets = [asdict(target) for target in self.targets]
        return pretty_json({"schema": SCHEMA, **vars(self), "rows": rows, "targets": targets})


def make_plan(
    manifest: Manifest, targets: Sequence[Target], *, workspace: Path, **settings: Any
) -> ExtractPlan:
    """Plan the extraction of every clip of a manifest."""
    if not len(manifest):
        raise FixInput("the manifest has no clips", where=manifest.name)
    if not targets:
        raise FixUsage("no backbone was named", hint="-b NAME; obygaze backbones ls")
    stores = [target.store for target in targets]
    if len(set(stores)) < len(stores):
        raise FixUsage("two backbones cannot write to one store", where=", ".join(stores))
    clips = sorted(manifest, key=sort_key)
    root = Path(manifest.header.video_root)
    rows = (
        Row(
            clip.clip_id,
            clip.movie_id,
            str(root / clip.video) if clip.video and manifest.header.video_root else "",
            clip.start_s,
            clip.end_s,
        )
        for clip in clips
    )
    header = manifest.header
    return ExtractPlan(
        manifest=manifest.name,
        licence=header.licence,
        citation=header.citation,
        rows=tuple(rows),
        targets=tuple(targets),
        workspace=str(workspace.resolve()),
        **settings,
    )


def write_plan(plan: ExtractPlan, path: Path, *, force: bool = False) -> None:
    """Keep a plan for other workers."""
    write_new(path, plan.to_bytes(), force=force)


def read_plan_file(path: Path) -> ExtractPlan:
    """A plan as another process wrote it."""
    if not path.is_file():
        raise NotFound("there is no plan here", where=str(path), hint="obygaze extract plan -o")
    return plan_from_bytes(path.read_bytes(), str(path))


def plan_from_bytes(data: bytes, where: str) -> ExtractPlan:
    """A plan from the bytes of its file, wherever they came from."""
    try:
        value = json.loads(data)
        schema = value.pop("schema")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise FixInput(f"this is not an extraction plan: {error}", where=where) from error
    if schema != SCHEMA:
        raise Mismatch(f"this plan is of schema {schema!r}, not {SCHEMA!r}", where=where)
    try:
        return _plan_from(value)
    except (TypeError, KeyError) as error:
        raise FixInput(f"this plan is not whole: {error}", where=where) from error


def _plan_from(value: Mapping[str, Any]) -> ExtractPlan:
    rows = tuple(Row(**row) for row in value["rows"])
    targets = tuple(Target(**{**t, "levels": tuple(t["levels"])}) for t in value["targets"])
    return ExtractPlan(**{**value, "rows": rows, "targets": targets})


def units_of(index: int, workers: int, plan: ExtractPlan) -> Iterator[int]:
    """The units of one of several identical workers: every `workers`-th, from `index`."""
    if not 0 <= index < workers:
        raise FixUsage(f"worker {index} of {workers}: count from 0")
    yield from range(index, plan.n_units, workers)
