"""The tests that an unfinished run has made, in one file: the same run reads them and goes on.

The name of the file has a hash of everything that a test depends on, so that no other run reads it.
Each line is one test, as JSON. A line that was cut off by a kill is made again.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from obygaze_features.core import system
from obygaze_features.core.console import count
from obygaze_models.evaluation.leakage import Leak
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.protocols.runner.cells import TestedFold
from obygaze_models.protocols.schedule import Pair

# Model, training and test task, numbers of fold and seed.
TestKey = tuple[str, Pair, int, int]
Outcomes = dict[TestKey, TestedFold | str]  # the test, or why there is none
KEPT_FOR_S = 30 * 24 * 3600.0


@dataclass(frozen=True)
class FinishedTests:
    """The finished tests of each store and its splits; without a file, nothing is kept."""

    path: Path | None = None
    by_splits: Mapping[str, Outcomes] = field(default_factory=dict)

    @classmethod
    def beside(cls, folder: Path, identity: str) -> Self:
        """Return the tests that a run of this identity left beside its folder."""
        for old in folder.parent.glob(".*.unfinished"):
            with suppress(OSError):
                if time.time() - old.stat().st_mtime > KEPT_FOR_S:
                    old.unlink()
        path = folder.with_name(f".{folder.name[:50]}~{identity[:16]}.unfinished")
        return cls(path, _read(path))

    def of(self, splits: str) -> Outcomes:
        """Return the tests on one store with the same splits."""
        return dict(self.by_splits.get(splits, {}))

    def add(self, splits: str, outcomes: Outcomes) -> None:
        """Append tests to the file."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            json.dumps([splits, *item], default=_as_json) for item in outcomes.items()
        ]
        with self.path.open("a", encoding="utf-8", newline="\n") as stream:
            stream.write("".join(f"\n{line}" for line in lines))

    @contextmanager
    def explains_interrupt(self) -> Iterator[None]:
        """Add to an interrupt how many tests are kept, and that the same command goes on."""
        try:
            yield
        except KeyboardInterrupt as interrupt:
            n_tests = 0
            if self.path is not None:
                n_tests = sum(map(len, _read(self.path).values()))
            interrupt.add_note(f"{count(n_tests, 'finished test')} of models kept")
            interrupt.add_note("run the same command again; it continues after them")
            raise

    def remove(self) -> None:
        """Remove the file of a run that is finished."""
        if self.path is not None:
            system.remove_file(self.path)


def _read(path: Path) -> dict[str, Outcomes]:
    """Return the tests in a file, by their splits; none if there is no file."""
    by_splits: dict[str, Outcomes] = {}
    if not path.is_file():
        return by_splits
    for line in path.read_bytes().splitlines():
        # A line that was cut off is not JSON.
        with suppress(ValueError, TypeError, KeyError):
            splits, (model, pair, number, repeat), test = json.loads(line)
            key = (model, tuple(pair), number, repeat)
            outcome = test if isinstance(test, str) else _from_json(test)
            by_splits.setdefault(splits, {})[key] = outcome
    return by_splits


def _as_json(value: Any) -> Any:
    """Return an array or number of numpy as lists and numbers, a test or a part of it as a dict."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return {item.name: getattr(value, item.name) for item in fields(value)}


def _from_json(test: dict[str, Any]) -> TestedFold:
    p = test["predictions"]
    predictions = Predictions(
        np.array(p["y"], dtype=np.bool_),
        np.array(p["score"], dtype=np.float64),
        np.array(p["decision"], dtype=np.bool_),
    )
    clips = {name: tuple(test["leak"][name]) for name in ("clips", "copies")}
    leak = Leak(**{**test["leak"], **clips})
    rows = np.array(test["rows"], dtype=np.intp)
    restored = {
        "rows": rows,
        "predictions": predictions,
        "leak": leak,
    }
    return TestedFold(**{**test, **restored})
