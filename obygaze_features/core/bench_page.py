"""The page of all benches: its order, what its figures mean, and how it is written."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from obygaze_features.core.console import count

HEAD = """\
# Performance

<!-- not run: this page is made by `obygaze bench all -o docs/performance.md` -->

Every number here is a ratio against a named rival, or against a smaller size of the same work,
taken in one run on one machine: medians, with the spread beside them. Absolute times are those of
that machine, and of whatever else it was doing.
"""

# In the order a reader asks: does it answer, what do the films cost, what does scaling out cost,
# what do features on disk cost, what do experiments cost, and what happens when all of it grows.
MEANINGS = {
    "startup": "The price of typing a command, most of which is Python and click themselves.",
    "decode": (
        "What the exact pictures of a clip cost, and which readers give them; the films are made"
        " up, the ratios depend on what is in them, and real films have not been measured."
    ),
    "extract": (
        "How near a run comes to its slower stage alone, and what two backbones save by sharing one"
        " decode; the models are random and small, so the share of decoding is larger than with"
        " real ones."
    ),
    "engines": (
        "Clips are small here, so that what is added to a block's work is seen at all: every engine"
        " pays for copying pictures from the process that decodes them, Dask for its messages too;"
        " start and end are paid once a run."
    ),
    "store": (
        "Whole matrices and films of a store are read at once, single clips are not what its blocks"
        " are made for; cold files are those the system has been told to forget."
    ),
    "zoo": (
        "The same fits by our run and by the loop people write; the loops are sampled, and their"
        " time for every fit is an estimate: the time of a step, times the steps of all fits."
    ),
    "audits": (
        "Counting every split is exact and needs no drawing; the loop's times for more permutations"
        " than it drew are estimates: the time of one, times their number."
    ),
    "growth": (
        "Which costs grow as the data do: a power of 1 is linear, and what is above is named under"
        " each table; simulated stores and plans stand for more clips than anyone has."
    ),
}
GPU = "gpu"
ON_GPU = (
    *("bench", "extract", "--device", "cuda", "--real-size"),
    *("--batch", "32", "--dtype", "bfloat16"),
)
GPU_MEANING = "The pipeline with models of the size of real checkpoints, on a GPU of this machine."


@dataclass(frozen=True)
class Section:
    """What became of one bench: its output, or why there is none."""

    name: str
    title: str
    meaning: str
    seconds: float
    output: str = ""
    why_not: str = ""
    failed: bool = False

    def as_markdown(self) -> str:
        """The section."""
        parts = [f"## {self.title}", "", _filled(self.meaning), ""]
        if self.output:
            parts += ["```text", self.output.rstrip(), "```"]
        else:
            parts += [_filled(f"**Failed.** {self.why_not}" if self.failed else self.why_not)]
        return "\n".join([*parts, ""])

    def as_json(self, result: Any) -> dict[str, Any]:
        """The section with the bench's own document in it."""
        facts = {"meaning": self.meaning, "seconds": round(self.seconds, 1), "result": result}
        return {"name": self.name, **facts, "failed": self.failed, "why_not": self.why_not}


@dataclass(frozen=True)
class Page:
    """Every section, on which machine and when."""

    sections: Sequence[Section]
    machine: str
    made: str
    settings: str = ""

    @property
    def failed(self) -> list[str]:
        """The benches that failed."""
        return [section.name for section in self.sections if section.failed]

    def as_markdown(self) -> str:
        """The page."""
        minutes = round(sum(section.seconds for section in self.sections) / 60)
        made = f"Made {self.made} in {count(minutes, 'minute')} on {self.machine}.{self.settings}"
        return "\n".join([HEAD, _filled(made), "", *(one.as_markdown() for one in self.sections)])


def in_order(names: Sequence[str], known: Mapping[str, object]) -> list[str]:
    """Benches in the order of the page; one it has no words for comes last, but comes."""
    place = {name: number for number, name in enumerate(MEANINGS)}
    wanted = [name for name in names if name in known]
    return sorted(wanted, key=lambda name: place.get(name, len(place)))


def _filled(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)
