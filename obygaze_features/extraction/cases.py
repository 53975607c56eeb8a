"""What is still to compute: the clips of a manifest against the rows of a store.

Everything here is pure. Nothing on a disk is changed because of what it finds.
"""

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from obygaze_features.core.console import count
from obygaze_features.core.errors import Mismatch
from obygaze_features.core.shell import shell_word
from obygaze_features.extraction.clips import Facts, PlannedClip, Source
from obygaze_features.extraction.stored import StoreState
from obygaze_features.manifest.spans import MILLISECOND_S
from obygaze_features.store.layout import NEXT
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import Kind
from obygaze_features.store.rows import (
    ALWAYS,
    NOT_EXTRACTED,
    WITH_VIDEO,
    Row,
)

_SHOWN = 20


class Case(NamedTuple):
    """One case: one sentence (`{clips}` is their number), and what to do where it is refused."""

    sentence: str
    hint: str = ""


_ANOTHER_STORE = "choose another store name: --store {backbone}=NAME"

SAME = Case("{clips} already there")
NEW = Case("{clips} not in the store yet")
AGAIN = Case("{clips} without features, tried again")
WITHOUT = Case("{clips} without features; --retry-failed tries again what failed")
NOT_IN_MANIFEST = Case(
    "{clips} not in the manifest any more; the rows stay as they are"
)
CHANGED = Case(
    "{clips} changed since the extraction",
    f"correct the manifest, put the videos back, or {_ANOTHER_STORE}",
)
ANOTHER_PLAN = Case(
    "this store is being filled in another way, or with other clips",
    f"finish it as it was begun, and add clips then; {_ANOTHER_STORE}; or give it up:"
    " rm -r {filling}",
)
ANOTHER_STORE = Case(
    "this store was made in another way, or of other clips", _ANOTHER_STORE
)


_DEVICES = {"cpu": "the CPU", "cuda": "a GPU"}


@dataclass(frozen=True)
class Wanted:
    """What a run asks for.

    Args:
        clips: The clips of the manifest, in the order of a store.
        recipe: How the numbers would be made.
        arrays: The names of the arrays that the store should have.
        kind: What would compute; None where another machine does, which compares it then.
        facts: The videos as they are now.
        kept: The clips whose frames are kept: they need no video.
        retry_failed: Try rows again that failed.
    """

    clips: Sequence[PlannedClip]
    recipe: Recipe
    arrays: Sequence[str]
    kind: Kind | None
    facts: Facts = field(default_factory=dict)
    kept: Container[str] = ()
    retry_failed: bool = False


@dataclass(frozen=True)
class Work:
    """What a run computes, and each case that was found, with its clips.

    Args:
        rows: All rows of the new store.
        computed: For each row, whether it is computed.
        found: The cases, each with a line for each of its clips.
    """

    rows: Sequence[Row]
    computed: Sequence[bool]
    found: Mapping[Case, Sequence[str]]

    @property
    def is_needed(self) -> bool:
        """Whether a row is to compute."""
        return any(self.computed)

    @property
    def sentences(self) -> list[str]:
        """One sentence for each case."""
        return [_sentence(case, lines) for case, lines in self.found.items()]

    def refuse(self, where: str, backbone: str = "BACKBONE") -> None:
        """Raise an error (exit code 5) if a case is refused; `backbone` is what was typed."""
        for case, lines in self.found.items():
            if case.hint:
                filling = shell_word(f"{where}{NEXT}")
                raise Mismatch(
                    f"{_sentence(case, lines)}: {lines[0]}",
                    where=where,
                    hint=case.hint.format(
                        filling=filling, backbone=shell_word(backbone)
                    ),
                    details=lines[1:_SHOWN],
                )


def _sentence(case: Case, lines: Sequence[str]) -> str:
    return case.sentence.format(clips=count(len(lines), "clip"))


def compare_with_store(wanted: Wanted, stored: StoreState | None) -> Work:
    """Return what is to compute so that a store has what is wanted of it."""
    found: dict[Case, list[str]] = defaultdict(list)
    if stored is None:
        found[NEW] = [clip.clip_id for clip in wanted.clips]
        planned = list(map(new_row, wanted.clips))
        return Work(planned, [True] * len(planned), found)
    another = ANOTHER_PLAN if stored.is_filling else ANOTHER_STORE
    found[another] += _other_ways(wanted, stored)
    rows: list[Row] = []
    computed: list[bool] = []
    clip_of_id = {clip.clip_id: clip for clip in wanted.clips}
    for number, row in enumerate(stored.rows):
        clip = clip_of_id.pop(row.clip_id, None)
        is_planned = stored.computed is not None and stored.computed[number]
        case, line = case_of_row(row, clip, wanted, stored, is_planned=is_planned)
        found[case].append(line)
        if case is AGAIN and not is_planned and clip is not None:
            row = new_row(clip)
        rows.append(row)
        computed.append(case is AGAIN)
    new = list(clip_of_id.values())
    if len(new) == len(wanted.clips):
        for name in found.pop(NOT_IN_MANIFEST, ()):
            line = f"{name}: not in the manifest, and neither is any clip of this store"
            found[another].append(line)
    if stored.is_filling:
        found[another] += [f"{clip.clip_id}: not in the plan" for clip in new]
    else:
        found[NEW] += [clip.clip_id for clip in new]
        rows += map(new_row, new)
        computed += [True] * len(new)
    if any(computed):
        found[another] += _other_makers(wanted.kind, stored)
    return Work(rows, computed, {case: lines for case, lines in found.items() if lines})


def new_row(clip: PlannedClip) -> Row:
    """Return the row of a clip before anything is known of its video."""
    row = Row(clip.clip_id, clip.movie_id, clip.start_s, clip.end_s)
    return row.with_frames(clip.frames)


# --- Stores made in another way ---


def _other_ways(wanted: Wanted, stored: StoreState) -> list[str]:
    """Return how recipe and arrays differ; another array is another store."""
    # The bytes of the weights count, whatever was known of where they came from.
    recipe = wanted.recipe.as_claimed_by(stored.recipe)
    differences = recipe.diff(stored.recipe, ("here", "in the store"))
    lines = [f"another recipe: {line}" for _, line in differences]
    for name in wanted.arrays:
        if name not in stored.array_names:
            lines.append(f"it does not have the array {name}")
    return lines


def _other_makers(here: Kind | None, stored: StoreState) -> list[str]:
    """Return what made the store, where it may give other numbers than what computes now.

    A finished store may get rows of a later version; its recipe is the same.
    """
    lines = []
    for there in dict.fromkeys(stored.kinds):
        if here is None or there == here:
            continue
        if there.device != here.device:
            lines.append(
                f"it is made on {_DEVICES.get(there.device, there.device)}, and"
                f" {_DEVICES.get(here.device, here.device)} would compute now"
                f" (--device {shell_word(there.device)})"
            )
        elif there.precision != here.precision:
            lines.append(f"it is made in {there.precision}, not in {here.precision}")
        elif stored.is_filling:
            lines.append("it is made by another version of obygaze")
    return lines


# --- Rows that are there ---


def case_of_row(
    row: Row,
    clip: PlannedClip | None,
    wanted: Wanted,
    stored: StoreState,
    *,
    is_planned: bool,
) -> tuple[Case, str]:
    """Return the case of a row, and its line.

    Args:
        row: The row, as far as it is known.
        clip: The clip of the manifest with its id; None if there is none.
        wanted: What a run asks for.
        stored: The store of the row.
        is_planned: Whether the store is being filled, and computes this row.
    """
    name = row.clip_id
    if clip is None:
        case = ANOTHER_PLAN if is_planned else NOT_IN_MANIFEST
        return case, f"{name}: not in the manifest" if is_planned else name
    # What is decoded now has the times of the plan.
    times = other_times(row, clip, count_frames=not stored.is_filling)
    video = other_video(row, clip, wanted.facts) if row.is_ok else ""
    if is_planned and times:
        return ANOTHER_PLAN, f"{name}: {times}"
    if row.is_ok and (times or video):
        # The other clips of the film would be read from another video.
        return CHANGED, f"{name}: {times or video}"
    if row.is_ok:
        return SAME, name
    if stored.is_filling:
        # Each row is computed once; what failed waits until the store is complete.
        is_tried = is_planned and row.status == NOT_EXTRACTED
    else:
        is_tried = _is_tried(row, clip, wanted)
    return (AGAIN if is_tried else WITHOUT), name


def _is_tried(row: Row, clip: PlannedClip, wanted: Wanted) -> bool:
    """Return whether a row without features of a finished store is computed again."""
    if row.status.tried == ALWAYS or other_times(row, clip):
        return True
    if row.status.tried == WITH_VIDEO:
        return bool(wanted.facts.get(clip.video)) or clip.clip_id in wanted.kept
    return wanted.retry_failed


def other_times(row: Row, clip: PlannedClip, *, count_frames: bool = True) -> str:
    """Return how the span or the film of a clip differs from that of its row, or "".

    Times are equal to the millisecond. A window has none before it is decoded.

    Args:
        row: The row.
        clip: The clip as it is now.
        count_frames: Whether frames that both state are compared in place of times, which are
            others in another copy of the film.
    """
    planned = new_row(clip)
    names = ["movie_id"]
    if count_frames and None not in (row.start_frame, planned.start_frame):
        names += ["start_frame", "end_frame"]
        if None not in (row.framerate, planned.framerate):
            names.append("framerate")
    elif clip.window is None:
        names += ["start_s", "end_s"]
    differences = []
    for name in names:
        then, now = getattr(row, name), getattr(planned, name)
        if not _is_same(then, now):
            shown = "the film" if name == "movie_id" else name
            differences.append(f"{shown} was {_shown(then)}, is {_shown(now)}")
    return ", ".join(differences)


def _is_same(then: Any, now: Any) -> bool:
    if isinstance(then, float) and isinstance(now, float):
        return abs(then - now) <= MILLISECOND_S
    return bool(then == now)


def other_video(row: Row, clip: PlannedClip, facts: Facts) -> str:
    """Return how a video differs from the one that was read; "" if not, or if it is not there."""
    now = Source.of(facts.get(clip.video))
    if not now.is_known or row.video_bytes is None:
        return ""
    if now.n_bytes != row.video_bytes:
        return (
            f"the video had {row.video_bytes} bytes, has {now.n_bytes} ({clip.video})"
        )
    if now.quick_hash != row.video_hash:
        return f"the video has other bytes ({clip.video})"
    return ""


def _shown(fact: str | float | None) -> str:
    """Return a fact, a time with all its digits: long films differ in the last ones."""
    if fact in (None, ""):
        return "not given"
    return repr(fact).removesuffix(".0") if isinstance(fact, float) else str(fact)
