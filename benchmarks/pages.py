"""The registry of all benchmarks, and the page that is made of their results."""

from __future__ import annotations

import importlib
import os
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.timing import NotMeasured, Result, Settings, run_apart
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, FixUsage, InstallExtra

# A benchmark that takes longer is stopped.
LIMIT_S = 1800.0
HEAD = """\
# Performance

<!-- not run: `make bench` writes this page -->

Every number here is a ratio against a named rival, or against a smaller size of the same work,
taken in one run on one machine: medians, with the spread beside them. Absolute times are those of
that machine, and of whatever else it was doing.
"""


@dataclass(frozen=True)
class Benchmark:
    """A function ("module:name") from Settings to a Result, and what its numbers mean."""

    function: str
    meaning: str
    is_default: bool = True
    has_figure: bool = False


BENCHMARKS = {
    "startup": Benchmark(
        "benchmarks.startup:measure",
        "The price of typing a command, most of which is Python and click themselves.",
    ),
    "decode": Benchmark(
        "benchmarks.decoding.comparison:measure",
        "What the exact frames of a clip cost, and which readers return them; the films are made"
        " up, the ratios depend on what is in them, and real films have not been measured.",
    ),
    "codings": Benchmark(
        "benchmarks.decoding.comparison:measure_codings",
        "The same for one film in other groups of frames and by another codec.",
        is_default=False,
    ),
    "extract": Benchmark(
        "benchmarks.extraction.pipeline:measure",
        "How near a run comes to its slower stage alone, and what two backbones save by sharing one"
        " decode; the models are random and small, so the share of decoding is larger than with"
        " real ones.",
    ),
    "engines": Benchmark(
        "benchmarks.extraction.engines:measure",
        "The clips are small, so that the overhead of a block can be seen at all: every engine"
        " copies frames from the process that decodes them, Dask also sends messages; the time to"
        " start and to end is spent once a run.",
    ),
    "store": Benchmark(
        "benchmarks.store.comparison:measure",
        "Blocks of a store are made for reading whole matrices and movies, not single clips; cold"
        " files are those that the system does not hold in its cache.",
    ),
    "zoo": Benchmark(
        "benchmarks.zoo.comparison:measure",
        "The same fits by `obygaze run` and by the loop people write; the loops are sampled, and"
        " their time for every fit is an estimate: the time of a step, times the steps of all"
        " fits.",
    ),
    "audits": Benchmark(
        "benchmarks.permutation:measure",
        "Counting every split is exact and needs no random numbers; the loop's times for more"
        " permutations than it drew are estimates: the time of one, times their number.",
    ),
    "growth": Benchmark(
        "benchmarks.growth.tables:measure",
        "Which costs grow as the data do: a power of 1 is linear, and what is above is named under"
        " each table; simulated stores and plans stand for more clips than anyone has.",
        has_figure=True,
    ),
    "gpu": Benchmark(
        "benchmarks.extraction.pipeline:measure_gpu",
        "The pipeline with models of the size of real checkpoints, on a GPU of this machine.",
    ),
}


@dataclass(frozen=True)
class Section:
    """The result of one benchmark, or why there is none."""

    name: str
    meaning: str
    seconds: float
    text: str = ""
    result: Any = None
    why_not: str = ""
    failed: bool = False
    figure: str | None = None

    def as_markdown(self) -> str:
        """Return the section as it stands on the page."""
        parts = [f"## {self.name}", "", _filled(self.meaning), ""]
        if self.text:
            parts += ["```text", self.text.rstrip(), "```"]
        else:
            word = "Failed" if self.failed else "Not measured"
            parts += [_filled(f"**{word}:** {self.why_not}")]
        if self.figure is not None:
            parts += ["", f"![{self.name}]({self.figure})"]
        return "\n".join([*parts, ""])


@dataclass(frozen=True)
class Page:
    """All sections, the machine they were measured on, and when."""

    sections: Sequence[Section]
    machine: str
    made: str
    is_quick: bool = False

    @property
    def failed(self) -> list[str]:
        """The names of the benchmarks that failed."""
        return [section.name for section in self.sections if section.failed]

    def as_markdown(self) -> str:
        """Return the whole page."""
        minutes = round(sum(section.seconds for section in self.sections) / 60)
        made = f"Made {self.made} in {count(minutes, 'minute')} on {self.machine}."
        if self.is_quick:
            made += " Small sizes and single rounds: this only shows that everything works."
        return "\n".join([HEAD, _filled(made), "", *(one.as_markdown() for one in self.sections)])

    def as_json(self) -> dict[str, Any]:
        """Return the whole page as JSON, with every single measurement."""
        return asdict(self)


def chosen(names: Sequence[str]) -> list[str]:
    """Return the named benchmarks in the order of the page, or the default ones for no names."""
    if unknown := [name for name in names if name not in BENCHMARKS]:
        known = ", ".join(BENCHMARKS)
        raise FixUsage(f"no benchmark called {', '.join(unknown)}", hint=f"one of {known}")
    return [n for n, one in BENCHMARKS.items() if n in names or (not names and one.is_default)]


def measure_section(name: str, settings: Settings, page: Path | None = None) -> Section:
    """Run a benchmark in a process of its own, so that none affects the next."""
    benchmark = BENCHMARKS[name]
    started = time.monotonic()
    try:
        found: Mapping[str, Any] = run_apart(
            "benchmarks.pages:measure_here", limit_s=LIMIT_S, name=name, **asdict(settings)
        )[0]
    except FixInput as error:
        found = {"failed": True, "why_not": f"{error.what}: {error.hint or ''}".rstrip(": ")}
    figure = None
    if benchmark.has_figure and settings.figure is not None and "text" in found:
        folder = page.parent if page else Path.cwd()
        figure = Path(os.path.relpath(settings.figure, folder)).as_posix()
    seconds = round(time.monotonic() - started, 1)
    return Section(name, benchmark.meaning, seconds, figure=figure, **found)


def measure_here(name: str, **settings: Any) -> dict[str, Any]:
    """Run a benchmark in this process; return its text and its JSON, or why there is none."""
    module, function = BENCHMARKS[name].function.split(":")
    measure: Callable[[Settings], Result] = getattr(importlib.import_module(module), function)
    try:
        result = measure(Settings(**settings))
    except (NotMeasured, InstallExtra) as error:
        return {"why_not": str(error).splitlines()[0]}
    return {"text": result.as_text(), "result": result.as_json()}


def _filled(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)
