"""What is still to compute: the clips of a manifest against the rows of a store.

Everything here is pure. Nothing on a disk is changed because of what it finds.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from obygaze_features.core.errors import Mismatch
from obygaze_features.extraction.clips import Facts, PlannedClip
from obygaze_features.extraction.stored import Stored
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import Kind
from obygaze_features.store.rows import NO_VIDEO, WITHDRAWN, Row
from obygaze_features.store.sealing import NOT_EXTRACTED

_SHOWN = 20
# How the reason of a row begins whose video was named and not there.
NO_FILE = "missing:"


class Outcome(Enum):
    """What a case means for a run."""

    KEEP = "keep"
    COMPUTE = "compute"
    REFUSE = "refuse"


KEEP = Outcome.KEEP
COMPUTE = Outcome.COMPUTE
REFUSE = Outcome.REFUSE


class Case(NamedTuple):
    """One case: its outcome, one sentence (`{n}` is the number of clips), and what to do."""

    name: str
    outcome: Outcome
    sentence: str
    hint: str = ""


SAME = Case("same", KEEP, "{n} clips are there already")
NEW = Case("new", COMPUTE, "{n} clips are not in the store yet")
MISSING = Case("not extracted", COMPUTE, "{n} clips are planned and not extracted yet")
VIDEO_FOUND = Case("video found", COMPUTE, "{n} clips had no video, and have one now")
FAILED_BEFORE = Case(
    "failed before", KEEP, "{n} clips failed before; --retry-failed tries them again"
)
RETRIED = Case("tried again", COMPUTE, "{n} clips failed before and are tried again")
NOT_IN_MANIFEST = Case(
    "not in the manifest any more",
    KEEP,
    "{n} clips are not in the manifest any more; their rows stay as they are",
)
OTHER_CLIPS = Case(
    "clips of another manifest",
    REFUSE,
    "none of the {n} clips of this store is in the manifest",
)
WITHDRAWN_BEFORE = Case(
    "withdrawn", KEEP, "{n} clips were withdrawn from this store and stay so"
)
TIMES_CHANGED = Case(
    "times changed",
    REFUSE,
    "{n} clips changed since they were extracted: other times, or another film",
    "correct the manifest, or choose another name for a new store",
)
VIDEO_REPLACED = Case(
    "video replaced",
    REFUSE,
    "{n} clips changed since they were extracted: other bytes of their videos",
    "put the videos back, or choose another name for a new store",
)
MANIFEST_CHANGED = Case(
    "manifest changed",
    REFUSE,
    "{n} clips of the manifest changed since this store was planned",
    "--as-planned finishes what was planned; more clips can be added then",
)
AS_PLANNED = Case(
    "as planned", KEEP, "{n} clips of the manifest changed since; the plan counts"
)
ANOTHER_RECIPE = Case("another recipe", REFUSE, "this store has another recipe")
ANOTHER_PLAN = Case(
    "another plan",
    REFUSE,
    "this store is being filled with another recipe, or without these arrays",
    "finish it with its own options, or give it up: rm -r {where}.next",
)
FURTHER_ARRAY = Case(
    "further array", COMPUTE, "further arrays are computed for {n} clips"
)
CANNOT_GET_ARRAY = Case(
    "no further array",
    REFUSE,
    "{n} clips cannot get the further arrays",
    "give the manifest and the videos of all clips with features; clips without features come"
    " first: the same command without the further --arrays",
)
ANOTHER_MAKER = Case(
    "another version or device",
    REFUSE,
    "what computes now is not what computed the rows of this store",
    "--mixed, to allow a mixture",
)
LATER_VERSION = Case(
    "another version",
    KEEP,
    "another version of the program made this store; each row has its maker",
)
MIXED = Case("mixed", KEEP, "the store becomes a mixture; each row has its maker")

CASES = (
    SAME,
    NEW,
    MISSING,
    VIDEO_FOUND,
    FAILED_BEFORE,
    RETRIED,
    NOT_IN_MANIFEST,
    OTHER_CLIPS,
    WITHDRAWN_BEFORE,
    TIMES_CHANGED,
    VIDEO_REPLACED,
    MANIFEST_CHANGED,
    AS_PLANNED,
    ANOTHER_RECIPE,
    ANOTHER_PLAN,
    FURTHER_ARRAY,
    CANNOT_GET_ARRAY,
    ANOTHER_MAKER,
    LATER_VERSION,
    MIXED,
)


@dataclass(frozen=True)
class Wanted:
    """What a run asks for.

    Args:
        clips: The clips of the manifest, in the order of a store.
        recipe: How the numbers would be made.
        arrays: The names of the arrays that the store should have.
        kind: What would compute.
        facts: The videos as they are now.
        kept: The clips whose frames are kept: they need no video.
        retry_failed: Try rows again that failed.
        mixed: Allow rows of another version or device.
        as_planned: Finish a filling as it was planned, whatever the manifest says now.
    """

    clips: Sequence[PlannedClip]
    recipe: Recipe
    arrays: Sequence[str]
    kind: Kind
    facts: Facts = field(default_factory=dict)
    kept: Container[str] = ()
    retry_failed: bool = False
    mixed: bool = False
    as_planned: bool = False


@dataclass(frozen=True)
class Work:
    """What a run computes, and each case that was found, with its clips.

    Args:
        rows: All rows of the new store.
        computed: For each row, whether it is computed.
        computes: The names of the arrays that are computed.
        found: The cases, each with a line for each of its clips.
        another_store: How the features get another store: a hint for errors.
    """

    rows: Sequence[Row]
    computed: Sequence[bool]
    computes: Sequence[str]
    found: Mapping[Case, Sequence[str]]
    another_store: str

    @property
    def is_needed(self) -> bool:
        """Whether a row is to compute."""
        return any(self.computed)

    @property
    def sentences(self) -> list[str]:
        """One sentence for each case."""
        return [case.sentence.format(n=len(self.found[case])) for case in self.found]

    def refuse(self, where: str) -> None:
        """Raise an error (exit code 5) if a case is refused."""
        for case, lines in self.found.items():
            if case.outcome is REFUSE:
                n_more = len(lines) - _SHOWN
                more = [f"and {n_more} more"] if n_more > 0 else []
                raise Mismatch(
                    case.sentence.format(n=len(lines)),
                    where=where,
                    hint=case.hint.format(where=where) or self.another_store,
                    details=[*lines[:_SHOWN], *more],
                )


def compare(wanted: Wanted, stored: Stored | None) -> Work:
    """Return what is to compute so that a store has what is wanted of it."""
    another_store = wanted.recipe.another_store
    if stored is None:
        rows = [new_row(clip) for clip in wanted.clips]
        found = {NEW: [clip.clip_id for clip in wanted.clips]}
        computed = [True] * len(rows)
        return Work(rows, computed, tuple(wanted.arrays), found, another_store)
    comparison = _Comparison(wanted, stored)
    comparison.compare_recipe()
    comparison.compare_rows()
    comparison.compare_new_clips()
    comparison.compare_arrays()
    comparison.compare_makers()
    return Work(
        rows=comparison.rows,
        computed=comparison.computed,
        computes=comparison.computes,
        found=comparison.found,
        another_store=another_store,
    )


def new_row(clip: PlannedClip) -> Row:
    """Return the row of a clip before anything is known of its video."""
    return Row(clip.clip_id, clip.movie_id, clip.start_s, clip.end_s)


class _Comparison:
    """The comparison of what is wanted with what is there, one part after another."""

    def __init__(self, wanted: Wanted, stored: Stored) -> None:
        self.wanted = wanted
        self.stored = stored
        self.found: dict[Case, list[str]] = {}
        self.rows: list[Row] = []
        self.computed: list[bool] = []
        self.computes: Sequence[str] = tuple(stored.array_names)
        self.not_in_manifest = NOT_IN_MANIFEST

    def note(self, case: Case, line: str) -> None:
        self.found.setdefault(case, []).append(line)

    def note_planned(self, line: str) -> None:
        """Note a difference between the manifest and the plan of a filling."""
        self.note(AS_PLANNED if self.wanted.as_planned else MANIFEST_CHANGED, line)

    def compare_recipe(self) -> None:
        # The bytes of the weights count, whatever was known of where they came from.
        recipe = self.wanted.recipe.as_claimed_by(self.stored.recipe)
        case = ANOTHER_PLAN if self.stored.is_filling else ANOTHER_RECIPE
        for difference in recipe.diff(self.stored.recipe, ("here", "in the store")):
            self.note(case, str(difference))

    def compare_makers(self) -> None:
        """Compare what computes now with what computed the rows, if a row is to compute."""
        if not any(self.computed):
            return
        here = self.wanted.kind
        others = [kind for kind in self.stored.kinds if kind != here]
        for kind in dict.fromkeys(others):
            line = f"{words_of(kind)} there, {words_of(here)} here"
            is_version_alone = kind == Kind(kind.program, here.device, here.precision)
            if self.wanted.mixed:
                self.note(MIXED, line)
            elif is_version_alone and not self.stored.is_filling:
                self.note(LATER_VERSION, line)
            else:
                self.note(ANOTHER_MAKER, line)

    def compare_rows(self) -> None:
        clip_of_id = {clip.clip_id: clip for clip in self.wanted.clips}
        clip_ids = [row.clip_id for row in self.stored.rows]
        if clip_of_id.keys().isdisjoint(clip_ids):
            self.not_in_manifest = OTHER_CLIPS
        for number, row in enumerate(self.stored.rows):
            clip = clip_of_id.get(row.clip_id)
            if self.stored.computed is not None and self.stored.computed[number]:
                self._compare_planned(row, clip)
            else:
                self._compare_kept(row, clip)

    def _compare_planned(self, row: Row, clip: PlannedClip | None) -> None:
        """Compare a row that this filling computes, and has computed or not."""
        is_missing = not row.is_ok and row.reason == NOT_EXTRACTED
        self._add(row, is_missing)
        if clip is None:
            self.note_planned(f"{row.clip_id}: not in the manifest")
            return
        times = other_times(row, clip)
        if times:
            self.note_planned(f"{row.clip_id}: {times}")
        elif is_missing:
            self.note(MISSING, row.clip_id)
        elif row.is_ok:
            self._compare_video(row, clip)
        else:
            self.note(FAILED_BEFORE, row.clip_id)

    def _compare_kept(self, row: Row, clip: PlannedClip | None) -> None:
        """Compare a row of a finished store."""
        if row.status == WITHDRAWN:
            self._add(row, False)
            self.note(WITHDRAWN_BEFORE, row.clip_id)
        elif clip is None:
            self._add(row, False)
            self.note(self.not_in_manifest, row.clip_id)
        elif row.is_ok:
            self._add(row, False)
            times = other_times(row, clip)
            if times and self.stored.is_filling:
                self.note_planned(f"{row.clip_id}: {times}")
            elif times:
                self.note(TIMES_CHANGED, f"{row.clip_id}: {times}")
            else:
                self._compare_video(row, clip)
        else:
            case = self._case_without_features(row, clip)
            is_computed = case.outcome is COMPUTE
            self._add(new_row(clip) if is_computed else row, is_computed)
            self.note(case, row.clip_id)

    def _case_without_features(self, row: Row, clip: PlannedClip) -> Case:
        """Return the case of a row of a finished store that failed."""
        if self.stored.is_filling:
            return FAILED_BEFORE
        if row.reason == NOT_EXTRACTED:
            return MISSING
        had_no_video = row.status == NO_VIDEO or row.reason.startswith(NO_FILE)
        if had_no_video and self.wanted.facts.get(clip.video):
            return VIDEO_FOUND
        return RETRIED if self.wanted.retry_failed else FAILED_BEFORE

    def _compare_video(self, row: Row, clip: PlannedClip) -> None:
        video = other_video(row, clip, self.wanted.facts)
        if video:
            self.note(VIDEO_REPLACED, f"{row.clip_id}: {video}")
        else:
            self.note(SAME, row.clip_id)

    def compare_new_clips(self) -> None:
        known = {row.clip_id for row in self.stored.rows}
        for clip in self.wanted.clips:
            if clip.clip_id in known:
                continue
            is_withdrawn = (
                clip.clip_id in self.stored.withdrawn_clips
                or clip.movie_id in self.stored.withdrawn_films
            )
            if is_withdrawn:
                self.note(WITHDRAWN_BEFORE, clip.clip_id)
            elif self.stored.is_filling:
                self.note_planned(f"{clip.clip_id}: not in the plan")
            else:
                self._add(new_row(clip), True)
                self.note(NEW, clip.clip_id)

    def compare_arrays(self) -> None:
        """Compare the arrays, after the rows: further ones are computed for rows with features.

        A row has all arrays or none: without its pictures, it would lose those that it has.
        """
        known = set(self.stored.array_names)
        further = [name for name in self.wanted.arrays if name not in known]
        if not further:
            return
        if self.stored.is_filling:
            for name in further:
                self.note(ANOTHER_PLAN, f"without the array {name}")
            return
        clip_of_id = {clip.clip_id: clip for clip in self.wanted.clips}
        for number, row in enumerate(self.rows):
            if self.computed[number]:
                obstacle = "it has no features yet"
            elif row.is_ok:
                obstacle = self._obstacle_of(clip_of_id.get(row.clip_id))
            else:
                continue
            if obstacle:
                self.note(CANNOT_GET_ARRAY, f"{row.clip_id}: {obstacle}")
            else:
                self.note(FURTHER_ARRAY, row.clip_id)
        self.computes = tuple(further)
        self.computed = [row.is_ok for row in self.rows]

    def _obstacle_of(self, clip: PlannedClip | None) -> str:
        """Return why a clip with features cannot be computed once more, or ""."""
        if clip is None:
            return "not in the manifest"
        is_there = clip.clip_id in self.wanted.kept or self.wanted.facts.get(clip.video)
        return "" if is_there else "its video is not there"

    def _add(self, row: Row, is_computed: bool) -> None:
        self.rows.append(row)
        self.computed.append(is_computed)


def words_of(kind: Kind) -> str:
    """Return what computes, in a few words."""
    program = " on ".join(part for part in (kind.program, kind.device) if part)
    return f"{program}, {kind.precision}" if kind.precision else program


def other_times(row: Row, clip: PlannedClip) -> str:
    """Return how the times or the film of a clip differ from those of its row, or ""."""
    differences = []
    if row.movie_id != clip.movie_id:
        differences.append(f"the film was {row.movie_id}, is {clip.movie_id}")
    times = (("start_s", row.start_s, clip.start_s), ("end_s", row.end_s, clip.end_s))
    for name, then, now in times:
        if then != now:
            differences.append(f"{name} was {_shown(then)}, is {_shown(now)}")
    return ", ".join(differences)


def other_video(row: Row, clip: PlannedClip, facts: Facts) -> str:
    """Return how a video differs from the one that was read; "" if not, or if it is not there."""
    facts_now = facts.get(clip.video)
    if facts_now is None or row.video_bytes is None:
        return ""
    n_bytes, quick_hash = facts_now
    if n_bytes != row.video_bytes:
        return f"the video had {row.video_bytes} bytes, has {n_bytes} ({clip.video})"
    # A store has the first 16 digits of the quick hash.
    if quick_hash[:16] != row.video_hash:
        return f"the video has other bytes ({clip.video})"
    return ""


def _shown(time_s: float | None) -> str:
    """Return a time with all its digits: those of a long film differ in the last ones."""
    if time_s is None:
        return "not given"
    return repr(time_s).removesuffix(".0")
