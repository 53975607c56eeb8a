"""Compare the clips of a manifest with the rows of a store, to find what is still to compute.

All functions are pure: nothing on a disk is read or changed.
"""

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from obygaze_features.core.console import count
from obygaze_features.core.errors import Mismatch
from obygaze_features.core.shell import shell_word
from obygaze_features.extraction.clips import Facts, PlannedClip, plan_table
from obygaze_features.extraction.stored import StoreState
from obygaze_features.manifest.same_clips import (
    SAME_PICTURES,
    SAME_PLAN,
    VIDEO,
    Sameness,
    same_clips,
)
from obygaze_features.store.layout import NEXT
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import ComputeSetup
from obygaze_features.store.rows import (
    ALWAYS,
    NOT_EXTRACTED,
    WITH_VIDEO,
    Row,
    table_of_rows,
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
    same = same_clips(
        table_of_rows(stored.rows), plan_table(request.clips, request.facts)
    )
    # While a store is filled, clips are decoded at the times of its plan.
    refused = same.refused(SAME_PLAN if stored.is_filling else SAME_PICTURES)
    for number, row in enumerate(stored.rows):
        clip = clip_of_id.pop(row.clip_id, None)
        is_planned = stored.computed is not None and stored.computed[number]
        differs = int(refused[number])
        case, line = _case_of_row(number, row, clip, differs, request, stored, same)
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


def _case_of_row(
    number: int,
    row: Row,
    clip: PlannedClip | None,
    differs: int,
    request: ExtractionRequest,
    stored: StoreState,
    same: Sameness,
) -> tuple[Case, str]:
    """Return the case of a row, and the line that the row adds to the lines of this case.

    Args:
        number: The number of the row.
        row: The row.
        clip: The clip in the manifest with the id of the row; None if there is none.
        differs: The differences of the clip that are refused, as bits.
        request: The clips and features that a run requests.
        stored: The state of the store that has the row.
        same: The comparison of all rows with the clips in the manifest.
    """
    name = row.clip_id
    is_planned = stored.computed is not None and stored.computed[number]
    if clip is None:
        case = ANOTHER_PLAN if is_planned else NOT_IN_MANIFEST
        return case, f"{name}: not in the manifest" if is_planned else name
    if not row.is_ok:
        # Nothing was read of its video.
        differs &= ~VIDEO
    if is_planned and differs & ~VIDEO:
        return ANOTHER_PLAN, f"{name}: {same.change(number, differs & ~VIDEO)}"
    if row.is_ok and differs:
        # The other clips of the film would be read from a different video.
        return CHANGED, f"{name}: {same.change(number, differs)}"
    if row.is_ok:
        return SAME, name
    if stored.is_filling:
        # Each row is computed once; failed rows wait until the store is complete.
        is_tried = is_planned and row.status == NOT_EXTRACTED
    else:
        is_tried = bool(differs) or _is_tried(row, clip, request)
    return (AGAIN if is_tried else WITHOUT), name


def _is_tried(row: Row, clip: PlannedClip, request: ExtractionRequest) -> bool:
    """Return whether an unchanged row without features of a finished store is computed again."""
    if row.status.tried == ALWAYS:
        return True
    if row.status.tried == WITH_VIDEO:
        return bool(request.facts.get(clip.video)) or clip.clip_id in request.kept
    return request.retry_failed
