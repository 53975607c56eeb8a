"""What is still to compute: the clips of a manifest against the rows of a store.

Everything here is pure. Nothing on a disk is changed because of what it finds.
"""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
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

# What a case means for a run.
KEEP = "keep"
COMPUTE = "compute"
REFUSE = "refuse"


class Case(NamedTuple):
    """One case: its outcome, one sentence (`{clips}` is their number), and what to do."""

    outcome: str
    sentence: str
    hint: str = ""


_ANOTHER_STORE = "choose another store name: --store {backbone}=NAME"

SAME = Case(KEEP, "{clips} already there")
NEW = Case(COMPUTE, "{clips} not in the store yet")
MISSING = Case(COMPUTE, "{clips} planned and not extracted yet")
PICTURES_FOUND = Case(
    COMPUTE,
    "{clips} had no video before; now there is one, or frames that were kept",
)
FAILED_BEFORE = Case(KEEP, "{clips} failed before; --retry-failed tries again")
FAILED_SO_FAR = Case(
    KEEP,
    "{clips} failed; when the store is complete, --retry-failed tries again",
)
FOR_THE_NEXT_RUN = Case(
    KEEP,
    "{clips} left for the next run: when the store is complete, the same command tries again",
)
WITHOUT_VIDEO = Case(KEEP, "{clips} without a video")
RETRIED = Case(COMPUTE, "{clips} failed before, tried again")
TIMES_CORRECTED = Case(
    COMPUTE,
    "{clips} had no features, and other times or another film; tried again",
)
NOT_IN_MANIFEST = Case(
    KEEP,
    "{clips} not in the manifest any more; the rows stay as they are",
)
OTHER_CLIPS = Case(
    REFUSE,
    "no clip of this store is in the manifest ({clips})",
    _ANOTHER_STORE,
)
TIMES_CHANGED = Case(
    REFUSE,
    "{clips} changed since the extraction: other times, or another film",
    f"correct the manifest, or {_ANOTHER_STORE}",
)
VIDEO_REPLACED = Case(
    REFUSE,
    "{clips} changed since the extraction: other bytes of the video",
    f"put the videos back, or {_ANOTHER_STORE}",
)
MANIFEST_CHANGED = Case(
    REFUSE,
    "{clips} of the manifest changed since this store was planned",
    "finish it with the manifest as it was, and add clips then; or give it up: rm -r {filling}",
)
ANOTHER_RECIPE = Case(REFUSE, "this store has another recipe", _ANOTHER_STORE)
ANOTHER_PLAN = Case(
    REFUSE,
    "this store is being filled with another recipe, or without these arrays",
    "finish it with its own options, or give it up: rm -r {filling}",
)
OTHER_ARRAYS = Case(
    REFUSE, "this store does not have all arrays that are asked for", _ANOTHER_STORE
)
ANOTHER_MAKER = Case(
    REFUSE,
    "this store is made by another version, device or precision than the one that computes now",
    _ANOTHER_STORE,
)
# A store of the same version and precision, by the device of its rows.
ANOTHER_DEVICE = {
    "cpu": Case(
        REFUSE,
        "this store is made on the CPU, and a GPU would compute now",
        f"add --device cpu, or {_ANOTHER_STORE}",
    ),
    "cuda": Case(
        REFUSE,
        "this store is made on a GPU, and the CPU would compute now",
        f"add --device cuda, or {_ANOTHER_STORE}",
    ),
}
LATER_VERSION = Case(
    KEEP,
    "another version of the program made this store; each row has its maker",
)


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
            if case.outcome == REFUSE:
                n_more = len(lines) - _SHOWN
                more = [f"and {n_more} more"] if n_more > 0 else []
                raise Mismatch(
                    _sentence(case, lines),
                    where=where,
                    hint=case.hint.format(
                        filling=shell_word(f"{where}{NEXT}"),
                        backbone=shell_word(backbone),
                    ),
                    details=[*lines[:_SHOWN], *more],
                )


def compare_with_store(wanted: Wanted, stored: StoreState | None) -> Work:
    """Return what is to compute so that a store has what is wanted of it."""
    found: dict[Case, list[str]] = defaultdict(list)
    rows: list[Row] = []
    computed: list[bool] = []
    if stored is None:
        rows = [new_row(clip) for clip in wanted.clips]
        computed = [True] * len(rows)
        found[NEW] = [clip.clip_id for clip in wanted.clips]
        return Work(rows, computed, found)
    # The bytes of the weights count, whatever was known of where they came from.
    recipe = wanted.recipe.as_claimed_by(stored.recipe)
    for _, line in recipe.diff(stored.recipe, ("here", "in the store")):
        found[ANOTHER_PLAN if stored.is_filling else ANOTHER_RECIPE].append(line)
    clip_of_id = {clip.clip_id: clip for clip in wanted.clips}
    for number, row in enumerate(stored.rows):
        clip = clip_of_id.get(row.clip_id)
        is_planned = stored.computed is not None and stored.computed[number]
        case, line = case_of_row(row, clip, wanted, stored, is_planned=is_planned)
        found[case].append(line)
        is_computed = case.outcome == COMPUTE
        if is_planned:
            is_computed = row.status == NOT_EXTRACTED
        elif is_computed and clip is not None:
            row = new_row(clip)
        rows.append(row)
        computed.append(is_computed)
    known = {row.clip_id for row in stored.rows}
    if NOT_IN_MANIFEST in found and known.isdisjoint(clip_of_id):
        found[OTHER_CLIPS] = found.pop(NOT_IN_MANIFEST)
    for clip in wanted.clips:
        name = clip.clip_id
        if name in known:
            continue
        if stored.is_filling:
            found[MANIFEST_CHANGED].append(f"{name}: not in the plan")
        else:
            found[NEW].append(name)
            rows.append(new_row(clip))
            computed.append(True)
    for name in wanted.arrays:
        if name not in stored.array_names:
            case = ANOTHER_PLAN if stored.is_filling else OTHER_ARRAYS
            found[case].append(f"without the array {name}")
    if any(computed):
        for case, line in _cases_of_makers(wanted, stored):
            found[case].append(line)
    return Work(rows, computed, found)


def _sentence(case: Case, lines: Sequence[str]) -> str:
    return case.sentence.format(clips=count(len(lines), "clip"))


def new_row(clip: PlannedClip) -> Row:
    """Return the row of a clip before anything is known of its video."""
    row = Row(clip.clip_id, clip.movie_id, clip.start_s, clip.end_s)
    return row.with_frames(clip.frames)


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
    if clip is None and is_planned:
        return MANIFEST_CHANGED, f"{name}: not in the manifest"
    if clip is None:
        return NOT_IN_MANIFEST, name
    # What is decoded now has the times of the plan.
    times = other_times(row, clip, count_frames=not stored.is_filling)
    video = ""
    if row.movie_id == clip.movie_id and row.is_ok:
        video = other_video(row, clip, wanted.facts)
    if video and (stored.is_filling or not times):
        # The other clips of the film would be read from another video.
        return VIDEO_REPLACED, f"{name}: {video}"
    if times and (is_planned or (row.is_ok and stored.is_filling)):
        return MANIFEST_CHANGED, f"{name}: {times}"
    if row.is_ok:
        return (TIMES_CHANGED, f"{name}: {times}") if times else (SAME, name)
    return _case_without_features(row, clip, wanted, stored, is_planned=is_planned)


def _case_without_features(
    row: Row,
    clip: PlannedClip,
    wanted: Wanted,
    stored: StoreState,
    *,
    is_planned: bool,
) -> tuple[Case, str]:
    """Return the case of a row without features whose clip is in the manifest, and its line."""
    name = row.clip_id
    tried = row.status.tried
    has_pictures = bool(wanted.facts.get(clip.video)) or name in wanted.kept
    is_corrected = bool(other_times(row, clip)) and not stored.is_filling
    if tried == ALWAYS and (is_planned or not stored.is_filling):
        return MISSING, name
    if tried == ALWAYS or (tried == WITH_VIDEO and has_pictures):
        return (FOR_THE_NEXT_RUN if stored.is_filling else PICTURES_FOUND), name
    if is_corrected:
        return TIMES_CORRECTED, name
    if tried == WITH_VIDEO:
        return WITHOUT_VIDEO, name
    if stored.is_filling:
        return FAILED_SO_FAR, name
    return (RETRIED if wanted.retry_failed else FAILED_BEFORE), name


def _cases_of_makers(wanted: Wanted, stored: StoreState) -> Iterator[tuple[Case, str]]:
    """Yield what computed the rows, where it is not what computes now."""
    here = wanted.kind
    for kind in dict.fromkeys(stored.kinds):
        if here is None or kind == here:
            continue
        line = f"{kind} there, {here} here"
        is_same_program = kind.program == here.program or not stored.is_filling
        if kind.precision != here.precision or not is_same_program:
            yield ANOTHER_MAKER, line
        elif kind.device != here.device:
            yield ANOTHER_DEVICE.get(kind.device, ANOTHER_MAKER), line
        else:
            yield LATER_VERSION, line


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
