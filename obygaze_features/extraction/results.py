"""The output of a run: its progress, the state of its stores at the end, and the next commands."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.console import Progress, ProgressBars, count
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.planning import (
    ChosenBackbone,
    ExtractionPlan,
    StorePlan,
    store_path,
)
from obygaze_features.extraction.stopping import StopFlag
from obygaze_features.extraction.stored import (
    StatusOfStores,
    StoreStatus,
    status_at,
)
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.own_labels import first_command
from obygaze_features.store.atomic_files import replaced_store_path
from obygaze_features.store.layout import has_vector
from obygaze_features.store.rows import (
    FAILED,
    NO_VIDEO,
    NOT_EXTRACTED,
    SILENT,
    STATUSES,
)

# --- While it computes ---

# A callback (row, failed).
Watch = Callable[[int, bool], object]


class ProgressDisplay:
    """Shows the progress of a run.

    Args:
        bars: Makes the progress bar.
        watch: Callback (row, failed) for each row, or None.
        note: Callback for each note.
    """

    def __init__(
        self, bars: ProgressBars, watch: Watch | None, note: Callable[[str], object]
    ) -> None:
        self.watch = watch
        self.note = note
        self._bars = bars
        self._open = ExitStack()
        self._bar: Progress | None = None
        self._seen: set[str] = set()
        self._failed: set[str] = set()

    def expect(self, n_clips: int) -> None:
        """Open the progress bar for a number of clips."""
        self._bar = self._open.enter_context(self._bars("extract", n_clips))
        self._bar.expect(n_clips, "clips")

    def row(self, clip_id: str, row: int, failed: bool) -> None:
        """Count a clip once, even if it is decoded again; show the number of failed clips."""
        bar = self._bar or Progress()
        if clip_id not in self._seen:
            self._seen.add(clip_id)
            bar.advance()
        if failed and clip_id not in self._failed:
            self._failed.add(clip_id)
            bar.remark(f"{len(self._failed)} failed")
        if self.watch is not None:
            self.watch(row, failed)

    def close(self) -> None:
        """Close the bar."""
        self._open.close()


# --- At its end ---


class Extraction(StatusOfStores):
    """The result of a run: the status of each of its stores.

    Args:
        states: The status of each store.
        stop: Whether a signal ended the run.
        notes: The next steps.
    """

    json_in_one_line = True

    def __init__(
        self,
        states: Sequence[StoreStatus],
        stop: StopFlag,
        notes: Sequence[str],
    ) -> None:
        super().__init__(states)
        self.stop = stop
        self.notes = notes

    @property
    def exit_code(self) -> int:
        """The highest exit code of the stores, for a run that was not stopped."""
        return max((state.exit_code for state in self), default=0)

    def require_ok(self) -> None:
        """Raise an error if the run was stopped, or if no clip was extracted."""
        self.stop.raise_if_stopped(describe_kept_clips(self))
        if self and not any(state.ok for state in self):
            raise ObygazeError("no clip was extracted")


def describe_kept_clips(states: Sequence[StoreStatus]) -> str:
    """Return the number of finished clips of each store, in words."""
    texts = []
    for state in states:
        of_store = f" of {Path(state.store).name}" if len(states) > 1 else ""
        n_kept = state.clips - state.counts[NOT_EXTRACTED]
        texts.append(f"{n_kept} of {count(state.clips, 'clip')}{of_store}")
    return f"{', '.join(texts)} are kept" if texts else "nothing was extracted yet"


def next_steps(
    plan: ExtractionPlan, states: Sequence[StoreStatus], manifest: Manifest
) -> list[str]:
    """Return the next steps, for clips without features and for complete stores."""
    steps = []
    clips_of: dict[str, set[str]] = {status: set() for status in STATUSES}
    # Clips that failed in this command.
    new = set()
    for store, state in zip(plan.stores, states, strict=True):
        steps += _store_before(store, state)
        for row, is_computed in zip(store.work.rows, store.work.computed, strict=True):
            why = state.failures.get(row.clip_id)
            if why is not None:
                clips_of[why.status].add(row.clip_id)
                if is_computed and why.status in (FAILED, NO_VIDEO):
                    new.add(row.clip_id)
    failed = clips_of[FAILED]
    # A film without sound may also be damaged, which can be corrected.
    silent = clips_of[SILENT] - failed
    advice = (
        (
            len(clips_of[NO_VIDEO]),
            f"without a video: {plan.how_to_find_videos}, or mount the folder of the videos;"
            " then run the same command again",
        ),
        (
            len(silent),
            "without readable sound: they have no features; all other clips can be used",
        ),
        (
            len(failed),
            "failed: correct their files, or their times in the table, then run the same command"
            " with --retry-failed, or with --store BACKBONE=NAME if a corrected file has features"
            " of other clips; all other clips can be used",
        ),
    )
    steps += [f"{count(n_clips, 'clip')} {what}" for n_clips, what in advice if n_clips]
    is_whole = all(state.seal and state.ok for state in states)
    if is_whole and not new:
        steps.append(f"next: {_next_command(plan, manifest)}")
    return steps


def _next_command(plan: ExtractionPlan, manifest: Manifest) -> str:
    """Return the next command for complete stores, an experiment if arrays and labels allow it."""
    names = []
    names_with_vectors = []
    for store in plan.stores:
        name = store.target.store or store.path.name
        names.append(name)
        # Kept frames, and stores with arrays of frames only, have no vector of a clip.
        if has_vector(store.arrays):
            names_with_vectors.append(name)
    if not names_with_vectors:
        return f"obygaze store info {shell_word(names[0])}"
    return first_command(manifest, plan.manifest, names_with_vectors)


def _store_before(store: StorePlan, state: StoreStatus) -> list[str]:
    """Return a note on the previous version of a store that this run changed."""
    before = replaced_store_path(store.path, store.seal)
    is_changed = bool(store.seal) and bool(state.seal) and state.seal != store.seal
    if not is_changed or not before.exists():
        return []
    return [
        f"the previous store was renamed to {before.name}; it shares files with the new store, so"
        f" it is not a backup; to remove it: rm -r {shell_word(before)}"
    ]


def read_states(
    manifest: Manifest, targets: Sequence[ChosenBackbone], workspace: Workspace
) -> list[StoreStatus]:
    """Return the status of the existing stores of some targets."""
    states = []
    for target in targets:
        state = status_at(store_path(target, manifest, workspace))
        if state is not None:
            states.append(state)
    return states


@dataclass(frozen=True)
class SlurmScript:
    """A script that was written, and the number of its tasks.

    `before` is the script of the tasks that keep the pictures first; None: there are no such tasks.
    """

    path: Path
    tasks: int
    before: Path | None = None

    @property
    def command(self) -> str:
        """The command that submits the script, after the script that keeps the pictures."""
        if self.before is None:
            return f"sbatch {shell_word(self.path)}"
        first = f"$(sbatch --parsable {shell_word(self.before)})"
        return f"sbatch --dependency=afterany:{first} {shell_word(self.path)}"

    def to_json(self) -> dict[str, Any]:
        """Return the paths of the scripts, their tasks, and the command that submits them."""
        return {
            "script": str(self.path),
            "before": None if self.before is None else str(self.before),
            "tasks": self.tasks,
            "command": self.command,
        }

    def __str__(self) -> str:
        arrays = f"{self.path}: an array of {count(self.tasks, 'task')}"
        if self.before is not None:
            arrays = (
                f"{self.before}, {self.path}: two arrays of {count(self.tasks, 'task')}"
            )
        return f"{arrays}; to submit: {self.command}"
