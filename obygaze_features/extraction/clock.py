"""Seconds by stage: where a run's time goes, and who waits for whom."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# Stages the main process is in; they add up to its time. `decode` runs beside them.
STAGES = ("wait", "preprocess", "forward", "write")


class Clock:
    """Counts seconds under names; `take` hands them over and starts again at nothing."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def add(self, stage: str, seconds: float) -> None:
        """Count seconds that were measured elsewhere."""
        self._seconds[stage] = self._seconds.get(stage, 0.0) + seconds

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        """Count the seconds of a block of code."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.add(stage, time.monotonic() - started)

    def take(self) -> dict[str, float]:
        """The seconds since the last call."""
        taken, self._seconds = self._seconds, {}
        return taken


def who_waits(seconds: Mapping[str, float]) -> str:
    """The one sentence on what to buy more of."""
    total = sum(seconds.get(stage, 0.0) for stage in STAGES)
    if total <= 0:
        return "nothing was measured yet"
    waited = 100 * seconds.get("wait", 0.0) / total
    computed = 100 * (seconds.get("forward", 0.0) + seconds.get("preprocess", 0.0)) / total
    if waited >= computed:
        return f"the model waited for decoding {waited:.0f} % of the time: more decode workers help"
    return f"the model computed {computed:.0f} % of the time: a faster device helps"
