"""Compare the clips of a manifest with the rows of a store, to find what is still to compute.

All functions are pure: nothing on a disk is read or changed.
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
from obygaze_features.store.records import ComputeSetup
from obygaze_features.store.rows import (
    ALWAYS,
    NOT_EXTRACTED,
    WITH_VIDEO,
    Row,
)

_SHOWN = 20
_SHOWN_FILMS = 3


class Case(NamedTuple):
    """What a comparison with a store may find for a clip, such as that the clip is new.

    In `sentence`, `{clips}` stands for the number of clips of the case. A case with a `hint` is
    refused.
    """

    sentence: str
    hint: str = ""


_ANOTHER_STORE = "choose another store name: --store {backbone}=NAME"

SAME = Case("{clips} already in the store")
NEW = Case("{clips} not in the store yet")
AGAIN = Case("{clips} without features, computed now")
WITHOUT = Case("{clips} without features; --retry-failed tries failed ones again")
NOT_IN_MANIFEST = Case(
    "{clips} of the store not in the manifest any more; their rows stay unchanged"
)
CHANGED = Case(
    "{clips} changed since the extraction",
    f"correct the manifest, restore the videos, or {_ANOTHER_STORE}; to keep the features of the"
    " other films, first: obygaze store subset {store} {without} -o NAME",
)
ANOTHER_PLAN = Case(
    "this store is being filled with different settings or clips",
    f"finish it with its first settings and clips, and add clips later; {_ANOTHER_STORE}; or"
    " discard it: rm -r {filling}",
)
ANOTHER_STORE = Case(
    "this store was made with different settings or from different clips",
    _ANOTHER_STORE,
)


_DEVICES = {"cpu": "the CPU", "cuda": "a GPU"}


@dataclass(frozen=True)
class ExtractionRequest:
    """The clips and features that a run requests.

    Args:
        clips: The clips of the manifest, in the order that rows have in a store.
        recipe: The recipe of the features.
        arrays: The names of the arrays that the store should have.
        kind: The device, precision and version that would compute. None if a different machine
            computes: that machine then compares its own with the store.
        facts: The length and the hash that each video has now.
        kept: The clips with kept frames, which need no video.
        retry_failed: Whether to try failed rows again.
    """

    clips: Sequence[PlannedClip]
    recipe: Recipe
    arrays: Sequence[str]
    kind: ComputeSetup | None
    facts: Facts = field(default_factory=dict)
    kept: Container[str] = ()
    retry_failed: bool = False


@dataclass(frozen=True)
class Work:
    """The rows that a run computes, and the cases of all clips.

    Args:
        rows: All rows of the new store.
        computed: For each row, whether the run computes it.
        found: The cases, each with a line for each clip to which it applies.
        changed_films: The films of the changed clips, as the store has them.
    """

    rows: Sequence[Row]
    computed: Sequence[bool]
    found: Mapping[Case, Sequence[str]]
    changed_films: Sequence[str] = ()

    @property
    def is_needed(self) -> bool:
        """Whether any row is to be computed."""
        return any(self.computed)

    @property
    def sentences(self) -> list[str]:
        """One sentence for each case."""
        return [_sentence(case, lines) for case, lines in self.found.items()]

    def refuse(self, where: str, backbone: str = "BACKBONE") -> None:
        """Raise an error (exit code 5) if a case is refused.

        `backbone` is the name of the backbone in the hint of the error.
        """
        films = [shell_word(film) for film in self.changed_films]
        if "" in self.changed_films or len(films) > _SHOWN_FILMS:
            films = ["FILM"]
        for case, lines in self.found.items():
            if case.hint:
                filling = shell_word(f"{where}{NEXT}")
                raise Mismatch(
                    f"{_sentence(case, lines)}: {lines[0]}",
                    where=where,
                    hint=case.hint.format(
                        store=shell_word(where),
                        filling=filling,
                        backbone=shell_word(backbone),
                        without=" ".join(f"--without {film}" for film in films),
                    ),
                    # The details are printed above the error, so the first line is one of them.
                    details=lines[:_SHOWN] if len(lines) > 1 else (),
                )


def _sentence(case: Case, lines: Sequence[str]) -> str:
    return case.sentence.format(clips=count(len(lines), "clip"))


def compare_with_store(request: ExtractionRequest, stored: StoreState | None) -> Work:
    """Return the rows that a store lacks for a request, and the cases of all its clips."""
    found: dict[Case, list[str]] = defaultdict(list)
    if stored is None:
        found[NEW] = [clip.clip_id for clip in request.clips]
        planned = list(map(new_row, request.clips))
        return Work(planned, [True] * len(planned), found)
    another = ANOTHER_PLAN if stored.is_filling else ANOTHER_STORE
    found[another] += _recipe_differences(request, stored)
    rows: list[Row] = []
    computed: list[bool] = []
    changed_films: dict[str, None] = {}
    clip_of_id = {clip.clip_id: clip for clip in request.clips}
    for number, row in enumerate(stored.rows):
        clip = clip_of_id.pop(row.clip_id, None)
        is_planned = stored.computed is not None and stored.computed[number]
        case, line = case_of_row(row, clip, request, stored, is_planned=is_planned)
        found[case].append(line)
        if case is CHANGED:
            changed_films[row.movie_id] = None
        if case is AGAIN and not is_planned and clip is not None:
            row = new_row(clip)
        rows.append(row)
        computed.append(case is AGAIN)
    new = list(clip_of_id.values())
    if len(new) == len(request.clips):
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
        found[another] += _maker_differences(request.kind, stored)
    cases = {case: lines for case, lines in found.items() if lines}
    return Work(rows, computed, cases, tuple(changed_films))


def new_row(clip: PlannedClip) -> Row:
    """Return the row of a clip before its video is read."""
    row = Row(clip.clip_id, clip.movie_id, clip.start_s, clip.end_s)
    return row.with_film_times(clip.film_times).with_frames(clip.frames)


# --- Stores made in another way ---


def _recipe_differences(request: ExtractionRequest, stored: StoreState) -> list[str]:
    """Return how the recipe differs, and which requested arrays the store does not have."""
    # The bytes of the weights count, not where they came from.
    recipe = request.recipe.as_claimed_by(stored.recipe)
    differences = recipe.diff(stored.recipe, ("here", "in the store"))
    lines = [f"different recipe: {line}" for _, line in differences]
    for name in request.arrays:
        if name not in stored.array_names:
            lines.append(f"it has no array {name}")
    return lines


def _maker_differences(here: ComputeSetup | None, stored: StoreState) -> list[str]:
    """Return a line for each maker of the store that differs from `here`.

    Makers differ in device, precision or version, and then their features may differ. A finished
    store may get rows from a later version of the program with the same recipe, so the version
    counts only while the store is filled.
    """
    lines = []
    for there in dict.fromkeys(stored.kinds):
        if here is None or there == here:
            continue
        if there.device != here.device:
            lines.append(
                f"it is computed on {_DEVICES.get(there.device, there.device)}, but this command"
                f" would use {_DEVICES.get(here.device, here.device)}"
                f" (use --device {shell_word(there.device)})"
            )
        elif there.precision != here.precision:
            lines.append(
                f"it is computed in {there.precision}, not in {here.precision}"
            )
        elif stored.is_filling:
            lines.append("it is computed by a different version of obygaze")
    return lines


# --- Rows that are there ---


def case_of_row(
    row: Row,
    clip: PlannedClip | None,
    request: ExtractionRequest,
    stored: StoreState,
    *,
    is_planned: bool,
) -> tuple[Case, str]:
    """Return the case of a row, and the line that the row adds to the lines of this case.

    Args:
        row: The row.
        clip: The clip in the manifest with the id of the row; None if there is none.
        request: The clips and features that a run requests.
        stored: The state of the store that has the row.
        is_planned: Whether the store is being filled, and its filling computes this row.
    """
    name = row.clip_id
    if clip is None:
        case = ANOTHER_PLAN if is_planned else NOT_IN_MANIFEST
        return case, f"{name}: not in the manifest" if is_planned else name
    # While a store is filled, clips are decoded at the times of its plan.
    times = time_difference(row, clip, count_frames=not stored.is_filling)
    video = video_difference(row, clip, request.facts) if row.is_ok else ""
    if is_planned and times:
        return ANOTHER_PLAN, f"{name}: {times}"
    if row.is_ok and (times or video):
        # The other clips of the film would be read from a different video.
        return CHANGED, f"{name}: {times or video}"
    if row.is_ok:
        return SAME, name
    if stored.is_filling:
        # Each row is computed once; failed rows wait until the store is complete.
        is_tried = is_planned and row.status == NOT_EXTRACTED
    else:
        is_tried = _is_tried(row, clip, request)
    return (AGAIN if is_tried else WITHOUT), name


def _is_tried(row: Row, clip: PlannedClip, request: ExtractionRequest) -> bool:
    """Return whether a row without features of a finished store is computed again."""
    if row.status.tried == ALWAYS or time_difference(row, clip):
        return True
    if row.status.tried == WITH_VIDEO:
        return bool(request.facts.get(clip.video)) or clip.clip_id in request.kept
    return request.retry_failed


def time_difference(row: Row, clip: PlannedClip, *, count_frames: bool = True) -> str:
    """Return how the span or the film of a clip differs from those in its row, or "".

    Times that differ by at most a millisecond are equal. The times of a window are not compared,
    because they are unknown before the window is decoded.

    Args:
        row: The row.
        clip: The clip as the manifest states it now.
        count_frames: Whether frames are compared instead of times, if both the row and the clip
            state frames. In a different copy of the film, the same frames have different times.
    """
    planned = new_row(clip)
    names = ["movie_id"]
    if count_frames and None not in (row.start_frame, planned.start_frame):
        names += ["start_frame", "end_frame"]
        if None not in (row.framerate, planned.framerate):
            names.append("framerate")
    else:
        names += ["start_s", "end_s"]
    differences = []
    for name in names:
        then, now = getattr(row, name), getattr(planned, name)
        if not _is_same(then, now):
            shown = "the film" if name == "movie_id" else name
            differences.append(
                f"{shown} was {_format_fact(then)}, is now {_format_fact(now)}"
            )
    return ", ".join(differences)


def _is_same(then: Any, now: Any) -> bool:
    if isinstance(then, float) and isinstance(now, float):
        return abs(then - now) <= MILLISECOND_S
    return bool(then == now)


def video_difference(row: Row, clip: PlannedClip, facts: Facts) -> str:
    """Return how the video of a clip differs from the one that was read for its row.

    Return "" if the videos are equal, or if the length of one of them is unknown.
    """
    now = Source.of(facts.get(clip.video))
    if not now.is_known or row.video_bytes is None:
        return ""
    if now.n_bytes != row.video_bytes:
        return f"the video had {row.video_bytes} bytes, has now {now.n_bytes} ({clip.video})"
    if now.quick_hash != row.video_hash:
        return f"the content of the video changed ({clip.video})"
    return ""


def _format_fact(fact: str | float | None) -> str:
    """Return a fact as text.

    A time keeps all its digits: two times late in a long film may differ only in the last digits.
    """
    if fact in (None, ""):
        return "not stated"
    return repr(fact).removesuffix(".0") if isinstance(fact, float) else str(fact)
