"""Compare the time limit of a task with its work, as far as that is known before it runs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from obygaze_features.core.errors import FixUsage
from obygaze_features.extraction.estimate import CostEstimate, duration_of_hours
from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.extraction.run import MAX_BATCH
from obygaze_features.extraction.status import measured_clip_s, status_of_plan

# Seconds before the limit at which a worker is stopped, at least: enough for a commit.
WARNING_S = 60
# An allowance for the start of a task: Python imports its libraries, and loads the weights.
START_S = 60

# HH:MM, and the form of Slurm with seconds and days; `8h` and `90m` as people write them.
_WALLTIME = re.compile(
    r"(?:(?P<days>[0-9]{1,3})-)?(?P<hours>[0-9]{1,3}):(?P<minutes>[0-5][0-9])"
    r"(?::(?P<seconds>[0-5][0-9]))?"
)
_UNITS = re.compile(
    r"(?:(?P<days>[0-9]{1,3})d)?(?:(?P<hours>[0-9]{1,4})h)?(?:(?P<minutes>[0-9]{1,5})m(?:in)?)?"
)
_SIGNAL = re.compile(r"(?:--)?signal[= ].*?(?:@(?P<seconds>\d+))?")


@dataclass(frozen=True)
class TimeLimit:
    """The time limit of a task, and what is known of its work.

    Args:
        minutes: The limit.
        warning_s: How many seconds before the limit a worker is stopped.
        clip_s: Seconds that a task needs for a clip. None: unknown.
        is_measured: Whether tasks took this time for committed clips. Else it is that of decoding
            a clip on this machine, without the model.
        n_clips: The clips that are left for each task.
        n_at_once: The clips that are computed at once, so that none is finished before the others.
        start_s: Seconds until a task begins its clips.
    """

    minutes: int
    warning_s: int = WARNING_S
    clip_s: float | None = None
    is_measured: bool = False
    n_clips: int = 0
    n_at_once: int = 1
    start_s: int = START_S

    @property
    def usable_s(self) -> int:
        """The seconds of a start until the worker is stopped."""
        return 60 * self.minutes - self.warning_s

    @property
    def least_minutes(self) -> int:
        """The shortest limit in which a task should finish clips: twice what these may need."""
        batch_s = self.n_at_once * (self.clip_s or 0.0)
        return ceil((self.warning_s + self.start_s + 2 * batch_s) / 60)

    @property
    def minutes_that_would_do(self) -> int:
        """The limit to take after two starts without a finished clip."""
        if self.minutes < self.least_minutes:
            return self.least_minutes
        return 2 * self.minutes

    def refuse_without_time(self) -> None:
        """Raise an error if a worker would be stopped as soon as it starts."""
        if self.usable_s <= 0:
            raise FixUsage(
                f"--time {hours_and_minutes(self.minutes)} leaves no time for clips: a task is"
                f" stopped {self.warning_s} s before its limit",
                hint=f"--time {hours_and_minutes(self.least_minutes)} or more",
            )

    @property
    def warning(self) -> str:
        """Return a warning if a start may finish no clip, else ""."""
        if self.minutes >= self.least_minutes:
            return ""
        return (
            f"--time {hours_and_minutes(self.minutes)} leaves each start {self.usable_s} s, which"
            " may be too short to load the model and to finish a clip: give"
            f" {hours_and_minutes(self.least_minutes)} or more"
        )

    def __str__(self) -> str:
        text = f"{self.minutes} minutes each"
        if not self.clip_s or not self.n_clips:
            return text
        work_s = self.clip_s * self.n_clips
        # Of a limit that is shorter than the start, the warning says what there is to say.
        work_s_of_start = self.usable_s - self.start_s
        n_starts = ceil(work_s / work_s_of_start) if work_s_of_start > 0 else 1
        kind = "at the speed so far" if self.is_measured else "for decoding alone"
        starts = f", {n_starts} starts" if n_starts > 1 else ""
        return f"{text} ({kind} a task needs about {duration_of_hours(work_s / 3600)}{starts})"


def time_limit_of(
    plan: ExtractPlan,
    cost: CostEstimate,
    minutes: int,
    *,
    n_tasks: int,
    again: bool = False,
    on_gpu: bool = False,
    start_s: int = START_S,
    directives: Sequence[str] = (),
) -> TimeLimit:
    """Return the time limit of the tasks of a plan, with what is known of their work.

    Args:
        plan: The plan.
        cost: Its estimate, for the cores of a task.
        minutes: The limit.
        n_tasks: The tasks that share the clips that are left.
        again: Whether they extract clips again, whose number is not known here.
        on_gpu: Whether a task computes on a GPU.
        start_s: Seconds until a task begins its clips.
        directives: Options of sbatch, of which one may be the signal before the limit.
    """
    states = [state for state in status_of_plan(plan) if state.exists]
    clip_s = measured_clip_s(states)
    is_measured = clip_s is not None
    if clip_s is None and cost.decode_s is not None:
        clip_s = cost.decode_s / cost.workers
    n_left = cost.with_video
    if again:
        n_left = 0
    elif len(states) == len(plan.targets):
        n_left = max(state.missing - state.in_unfinished_blocks for state in states)
    n_at_once = MAX_BATCH if on_gpu else 1
    warning_s = _warning_s(directives)
    if warning_s is None:
        # A worker that is stopped finishes the clips at work, which on a GPU are two batches.
        warning_s = max(WARNING_S, ceil(2 * n_at_once * (clip_s or 0.0)))
    return TimeLimit(
        minutes,
        warning_s=warning_s,
        clip_s=clip_s,
        is_measured=is_measured,
        n_clips=ceil(n_left / n_tasks),
        n_at_once=n_at_once,
        start_s=start_s,
    )


def _warning_s(directives: Sequence[str]) -> int | None:
    """Return how many seconds before the limit options of sbatch have a signal sent, if they do."""
    seconds = None
    for line in directives:
        match = _SIGNAL.fullmatch(line)
        if match is not None:
            seconds = int(match["seconds"] or WARNING_S)
    return seconds


def minutes_of(walltime: str) -> int:
    """Return the minutes of HH:MM, of HH:MM:SS, of D-HH:MM:SS, or of 8h; seconds count as a minute.

    Example:
        >>> minutes_of("1-12:00:00"), minutes_of("8h")
        (2160, 480)
    """
    text = walltime.strip().lower()
    match = _WALLTIME.fullmatch(text) or _UNITS.fullmatch(text)
    amounts = match.groupdict() if match else {}
    days, hours, minutes, seconds = (
        int(amounts.get(unit) or 0) for unit in ("days", "hours", "minutes", "seconds")
    )
    total = 24 * 60 * days + 60 * hours + minutes + ceil(seconds / 60)
    if not total:
        raise FixUsage(
            f"--time must have the form HH:MM, such as 04:00, or D-HH:MM:SS or 8h, got {walltime!r}"
        )
    return total


def hours_and_minutes(minutes: int) -> str:
    """Return minutes as HH:MM.

    Example:
        >>> hours_and_minutes(150)
        '02:30'
    """
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
