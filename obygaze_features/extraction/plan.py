"""The plan of an extraction: clips in order, backbones, and their stores.

A plan is a JSON file that all workers of an extraction share.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from math import inf, lcm
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.files import pretty_json, write_new
from obygaze_features.core.schema_check import Rows, read_json, table_of
from obygaze_features.core.schema_rules import any_of, nothing, number, whole
from obygaze_features.manifest.model import Manifest, Windows, clips_sha256, sort_key
from obygaze_features.manifest.windows import Film, FilmRows, Grid, window_id

if TYPE_CHECKING:
    from obygaze_features.store.format.records import Terms

SCHEMA = "obygaze-extract-plan/1"
_TIME = (int, float, NoneType)
_CLIP_KINDS: dict[str, Any] = {
    "clip_id": str,
    "movie_id": str,
    "video": str,
    "start_s": _TIME,
    "end_s": _TIME,
}


@dataclass(frozen=True)
class PlannedClip:
    """A clip to extract: its video, empty if it has none, and its times in the video."""

    clip_id: str
    movie_id: str
    video: str
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True)
class PlannedWindow(PlannedClip):
    """A window of a film to extract: it has its number in place of times."""

    window: int = 0


class PlannedWindows(FilmRows[PlannedWindow]):
    """The windows of films as the rows of a plan."""

    def row_of(self, film: Film, window: int) -> PlannedWindow:
        """Return a window as a planned clip."""
        name = window_id(film.movie_id, window)
        return PlannedWindow(name, film.movie_id, film.video, window=window)


@dataclass(frozen=True)
class Target:
    """A backbone, its settings, and the store of its features.

    `code` is the version of a backbone of one's own: a plan never runs other code.
    """

    store: str
    backbone: str
    weights: str | None = None
    arrays: tuple[str, ...] = ()
    dtype: str = "float32"
    block_rows: int | None = None
    code: str = ""


@dataclass(frozen=True)
class ExtractPlan:
    """The clips of a manifest in the order of a store, and the backbones to extract with.

    `device` is what the plan was made for: runs of it use that unless they are given another.
    """

    manifest: str
    licence: str
    citation: str
    rows: Sequence[PlannedClip]
    targets: tuple[Target, ...]
    timeout_s: float = 300.0
    workspace: str = "."
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Check the time limit."""
        if not 0 < self.timeout_s < inf:
            raise FixUsage(
                f"--timeout must be above 0 and finite, got {self.timeout_s:g}"
            )

    @property
    def clips_sha256(self) -> str:
        """The hash of the clip ids and film ids."""
        return clips_sha256(self.ids())

    @property
    def grid(self) -> Grid | None:
        """The grid that cuts the films, if the rows are windows."""
        return self.rows.grid if isinstance(self.rows, PlannedWindows) else None

    def ids(self) -> Iterable[tuple[str, str]]:
        """Return the clip id and the film id of each row."""
        if isinstance(self.rows, PlannedWindows):
            return self.rows.ids()
        return ((row.clip_id, row.movie_id) for row in self.rows)

    @cached_property
    def shared_films(self) -> frozenset[str]:
        """The videos that hold several clips, whose index is kept in the workspace."""
        parts = Counter(
            c.video for c in self.rows if (c.start_s, c.end_s) != (None, None)
        )
        return frozenset(
            video for video, n_clips in parts.items() if video and n_clips > 1
        )

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
            raise FixUsage(f"the work unit must be 0 to {self.n_units - 1}, got {unit}")
        first = unit * self.unit_rows
        return range(first, min(first + self.unit_rows, len(self.rows)))

    def worker_rows(self, worker: str) -> list[int]:
        """Return the rows of a worker: those of `0/8` are in every 8th unit, from unit 0."""
        form = re.fullmatch("([0-9]{1,9})/([0-9]{1,9})", worker)
        first, step = (int(form[1]), int(form[2])) if form else (0, 0)
        if first >= step:
            raise FixUsage(
                f"--worker must be I/K, such as 0/8, with I below K, got {worker!r}"
            )
        rows: list[int] = []
        for unit in range(first, self.n_units, step):
            rows += self.unit_range(unit)
        return rows

    def to_bytes(self) -> bytes:
        """Return the bytes of the plan's file."""
        # asdict() copies every value, which doubles the time for a million rows.
        rows: Any
        if not isinstance(self.rows, PlannedWindows):
            rows = [dict(vars(row)) for row in self.rows]
        else:
            rows = {
                "grid": self.rows.grid.to_json(),
                "films": list(map(vars, self.rows.films)),
            }
        targets = [asdict(target) for target in self.targets]
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        return pretty_json({"schema": SCHEMA, **own, "rows": rows, "targets": targets})


def make_plan(
    manifest: Manifest,
    targets: Sequence[Target],
    *,
    workspace: Path,
    timeout_s: float = 300.0,
    licence: str = "",
) -> ExtractPlan:
    """Return the plan to extract every clip of a manifest.

    Args:
        manifest: The clips.
        targets: The backbones, each with its store.
        workspace: The workspace, for the user's own cards.
        timeout_s: Seconds after which decoding a clip fails.
        licence: The licence of the stores. The default is that of the manifest.
    """
    if not len(manifest):
        raise FixInput("the manifest has no clips", where=manifest.name)
    if not targets:
        hint = "use -b NAME; obygaze backbones ls lists the names"
        raise FixUsage("no backbone given", hint=hint)
    stores = [target.store for target in targets]
    if len(set(stores)) < len(stores):
        raise FixUsage(
            "each backbone needs a store of its own", where=", ".join(stores)
        )
    terms = _checked_terms(licence, stores)
    return ExtractPlan(
        manifest=manifest.name,
        licence=terms.licence or manifest.header.licence,
        citation=manifest.header.citation,
        rows=planned_clips(manifest),
        targets=tuple(targets),
        workspace=workspace.resolve().as_posix(),
        timeout_s=timeout_s,
    )


def _checked_terms(licence: str, stores: Sequence[str]) -> "Terms":
    """Return the given licence; an error if a store has another one already."""
    # Imported late: `extract run` imports this module before it catches signals.
    from obygaze_features.store.format.records import Plan, Terms
    from obygaze_features.store.write.licence import (
        checked_licence,
        require_terms,
        warn_of_unknown_licence,
    )

    warn_of_unknown_licence(licence)
    terms = Terms(checked_licence(licence))
    for store in stores:
        if (Path(store) / Plan.FILE).is_file():
            require_terms(store, terms)
    return terms


def planned_clips(manifest: Manifest) -> Sequence[PlannedClip]:
    """Return the clips of a manifest in the order of a store, with the paths of their videos."""
    folder = manifest.header.video_root
    if isinstance(manifest.clips, Windows):
        films = manifest.clips.films
        in_folder = (
            replace(film, video=Path(folder, film.video).as_posix()) for film in films
        )
        return PlannedWindows(tuple(in_folder), manifest.clips.grid)
    return tuple(
        PlannedClip(
            clip.clip_id,
            clip.movie_id,
            Path(folder, clip.video).as_posix() if clip.video and folder else "",
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
        hint = "write one with obygaze extract plan MANIFEST -o FILE"
        # A worker of a scheduler has another working folder than the one who calls it.
        raise NotFound("no plan file", where=str(path.absolute()), hint=hint)
    return plan_from_bytes(path.read_bytes(), str(path))


def plan_from_bytes(data: bytes, where: str) -> ExtractPlan:
    """Parse the bytes of a plan's file; `where` names their source in errors."""
    document = read_json(data, where)
    document.require_schema(SCHEMA, "plan")
    target = table_of(Target, block_rows=any_of(whole(1), nothing))
    limits = {"timeout_s": number(0, above=True)}
    of_windows = isinstance(document.tree.get("rows"), dict)
    rows = table_of(PlannedWindows) if of_windows else _clips
    plan: ExtractPlan = document.check(
        table_of(ExtractPlan, rows=rows, targets=Rows(target, least=1), **limits)
    )
    document.raise_if_any("the plan is not valid")
    if isinstance(plan.rows, PlannedWindows):
        plan.rows.grid.check()
        return plan
    return replace(plan, rows=tuple(PlannedClip(**row) for row in plan.rows))  # type: ignore[arg-type]


def _clips(value: Any) -> str | None:
    """Allow the rows of a plan; a table of rules would take minutes for a million."""
    if isinstance(value, list) and value and all(map(_is_clip, value)):
        return None
    return (
        "must be a list of clips, each with clip_id, movie_id, video, start_s and end_s"
    )


def _is_clip(row: Any) -> bool:
    if not isinstance(row, dict) or row.keys() - _CLIP_KINDS.keys() or len(row) < 3:
        return False
    are_kinds = all(
        isinstance(row.get(key), kinds) for key, kinds in _CLIP_KINDS.items()
    )
    start_s = row.get("start_s") or 0
    end_s = row.get("end_s")
    return are_kinds and -inf < start_s <= (start_s if end_s is None else end_s) < inf
