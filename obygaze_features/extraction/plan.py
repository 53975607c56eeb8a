"""The plan of an extraction: clips in order, backbones, and their stores.

A plan is a JSON file that all workers of an extraction share.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from math import inf, lcm
from pathlib import Path

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, NotFound
from obygaze_features.core.files import pretty_json, write_new
from obygaze_features.manifest.model import Manifest, clips_sha256, sort_key

SCHEMA = "obygaze-extract-plan/1"
SAMPLINGS = ("card", "keyframes")


@dataclass(frozen=True)
class PlannedClip:
    """A clip to extract: its video, empty if it has none, and its times in the video."""

    clip_id: str
    movie_id: str
    video: str
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True)
class Target:
    """A backbone, its settings, and the store of its features."""

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
    """The clips of a manifest in the order of a store, and the backbones to extract with."""

    manifest: str
    licence: str
    citation: str
    rows: tuple[PlannedClip, ...]
    targets: tuple[Target, ...]
    max_substituted: float = 1 / 8
    timeout_s: float = 300.0
    workspace: str = "."

    def __post_init__(self) -> None:
        """Check the limits."""
        if not 0 < self.timeout_s < inf:
            raise FixUsage(f"--timeout must be above 0 and finite, got {self.timeout_s:g}")
        if not 0 <= self.max_substituted <= 1:
            raise FixUsage(f"--max-substituted must be 0 to 1, got {self.max_substituted:g}")

    @property
    def clips_sha256(self) -> str:
        """The hash of the clip ids and movie ids."""
        return clips_sha256((row.clip_id, row.movie_id) for row in self.rows)

    @cached_property
    def shared_films(self) -> frozenset[str]:
        """The videos that hold several clips, whose index is kept in the workspace."""
        parts = Counter(c.video for c in self.rows if (c.start_s, c.end_s) != (None, None))
        return frozenset(video for video, n_clips in parts.items() if video and n_clips > 1)

    @property
    def n_units(self) -> int:
        """The number of units of work."""
        return -(-len(self.rows) // self.unit_rows)

    @property
    def unit_rows(self) -> int:
        """The rows of a unit: whole blocks of every store, so that workers never share a block."""
        # Imported late: `extract run` imports this module before it catches signals.
        from obygaze_features.store.write.create import BLOCK_ROWS

        return lcm(*(target.block_rows or BLOCK_ROWS for target in self.targets))

    def unit_range(self, unit: int) -> range:
        """Return the rows of a unit."""
        if not 0 <= unit < self.n_units:
            raise FixUsage(f"unit must be 0 to {self.n_units - 1}, got {unit}")
        first = unit * self.unit_rows
        return range(first, min(first + self.unit_rows, len(self.rows)))

    def worker_rows(self, worker: str) -> list[int]:
        """Return the rows of a worker: those of `0/8` are in every 8th unit, from unit 0."""
        index, _, workers = worker.partition("/")
        if not (index.isdigit() and workers.isdigit()):
            raise FixUsage(f"--worker must have the form I/K, such as 0/8, got {worker!r}")
        first, step = int(index), int(workers)
        if first >= step:
            raise FixUsage(f"--worker I/{step}: I must be 0 to {step - 1}, got {first}")
        return [row for unit in range(first, self.n_units, step) for row in self.unit_range(unit)]

    def to_bytes(self) -> bytes:
        """Return the bytes of the plan's file."""
        # asdict() copies every value, which doubles the time for a million rows.
        rows = [dict(vars(row)) for row in self.rows]
        targets = [asdict(target) for target in self.targets]
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        return pretty_json({"schema": SCHEMA, **own, "rows": rows, "targets": targets})


def make_plan(
    manifest: Manifest,
    targets: Sequence[Target],
    *,
    workspace: Path,
    timeout_s: float = 300.0,
    max_substituted: float = 1 / 8,
) -> ExtractPlan:
    """Return the plan to extract every clip of a manifest.

    Args:
        manifest: The clips.
        targets: The backbones, each with its store.
        workspace: The workspace, for the user's own cards.
        timeout_s: Seconds after which decoding a clip fails.
        max_substituted: A clip fails if more than this share of its frames is damaged.
    """
    if not len(manifest):
        raise FixInput("the manifest has no clips", where=manifest.name)
    if not targets:
        raise FixUsage(
            "no backbone given", hint="use -b NAME; obygaze backbones ls lists the names"
        )
    stores = [target.store for target in targets]
    if len(set(stores)) < len(stores):
        raise FixUsage("each backbone needs a store of its own", where=", ".join(stores))
    return ExtractPlan(
        manifest=manifest.name,
        licence=manifest.header.licence,
        citation=manifest.header.citation,
        rows=planned_clips(manifest),
        targets=tuple(targets),
        workspace=str(workspace.resolve()),
        timeout_s=timeout_s,
        max_substituted=max_substituted,
    )


def planned_clips(manifest: Manifest) -> tuple[PlannedClip, ...]:
    """Return the clips of a manifest in the order of a store, with the paths of their videos."""
    folder = manifest.header.video_root
    return tuple(
        PlannedClip(
            clip.clip_id,
            clip.movie_id,
            str(Path(folder, clip.video)) if clip.video and folder else "",
            clip.start_s,
            clip.end_s,
        )
        for clip in sorted(manifest, key=sort_key)
    )


def write_plan(plan: ExtractPlan, path: Path, *, force: bool = False) -> None:
    """Write the file of a plan."""
    write_new(path, plan.to_bytes(), force=force)


def read_plan_file(path: Path) -> ExtractPlan:
    """Read the file of a plan."""
    if not path.is_file():
        raise NotFound(
            "no plan file",
            where=str(path),
            hint="write one with obygaze extract plan MANIFEST -o FILE",
        )
    return plan_from_bytes(path.read_bytes(), str(path))


def plan_from_bytes(data: bytes, where: str) -> ExtractPlan:
    """Parse the bytes of a plan's file; `where` names their source in errors."""
    try:
        value = json.loads(data)
        schema = value.pop("schema")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise FixInput(f"not an extraction plan: {error}", where=where) from error
    if schema != SCHEMA:
        raise Mismatch(f"expected a plan of schema {SCHEMA!r}, got {schema!r}", where=where)
    try:
        rows = tuple(PlannedClip(**row) for row in value.pop("rows"))
        targets = value.pop("targets")
        targets = tuple(
            Target(**{**target, "levels": tuple(target["levels"])}) for target in targets
        )
        return ExtractPlan(**value, rows=rows, targets=targets)
    except (TypeError, KeyError) as error:
        raise FixInput(f"invalid extraction plan: {error}", where=where) from error
