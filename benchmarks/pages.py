"""The registry of all benchmarks, and the page that is made of their results."""

from __future__ import annotations

import importlib
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.timing import NotMeasured, Result, Settings, run_apart
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, FixUsage, InstallExtra

# A benchmark that takes longer is stopped.
LIMIT_S = 1800.0
HEAD = """\
# Performance

<!-- not run: `make bench` writes this page -->

This page compares obygaze with other tools. All numbers were measured in one run on one machine.
They are medians, with the range beside them. The absolute times depend on this machine and on the
other programs that were running.
"""


@dataclass(frozen=True)
class Benchmark:
    """A function ("module:name") from Settings to a Result, and what its numbers mean."""

    function: str
    meaning: str
    is_default: bool = True
    limit_s: float = LIMIT_S


BENCHMARKS = {
    "startup": Benchmark(
        "benchmarks.startup:measure",
        "The time to start a command. Most of it is the start of Python and the import of click.",
    ),
    "decode": Benchmark(
        "benchmarks.decoding.comparison:measure",
        "The cost to decode the exact frames of a clip, and the readers that return the right"
        " frames. The films are generated. The ratios depend on their content; real films have not"
        " been measured.",
    ),
    "codings": Benchmark(
        "benchmarks.decoding.comparison:measure_codings",
        "The same for one film with other groups of frames and with another codec.",
        is_default=False,
    ),
    "clips": Benchmark(
        "benchmarks.decoding.comparison:measure_clips",
        "The same for clips of ten seconds, of which nearly all frames are decoded, also beside"
        " PyAV in order and torchcodec's approximate mode, which reads no packets first.",
        is_default=False,
    ),
    "overlap": Benchmark(
        "benchmarks.extraction.overlap:measure",
        "The time of a run on a GPU compared with the slower of host and GPU alone. The GPU is"
        " simulated: it has streams, events and copies with the rules of CUDA, and a clock that"
        " passes only when host or GPU work. The real program runs on it. What remains above 1 is"
        " the first batch, which the GPU waits for, and the last one, which the host waits for.",
    ),
    "launching": Benchmark(
        "benchmarks.extraction.launching:measure",
        "What one clip costs the thread that feeds a GPU, with 13 backbones in one pass, and the"
        " clips a second that this thread can launch where nothing else limits a run. The GPU is"
        " simulated: it computes nothing, so the CPU time of the thread is that of the program and"
        " of launching kernels. Decoders are left out.",
    ),
    "rivals": Benchmark(
        "benchmarks.store.rivals:measure",
        "The CPU time of each kind of read, compared with other formats that hold the same numbers"
        " and ids. obygaze compares every byte that it uses with a checksum; np.load, HDF5 and"
        " lance do not. Lance has an index of clips and one of films; it is measured where it is"
        " installed (`pip install pylance`).",
    ),
    "zoo": Benchmark(
        "benchmarks.zoo.comparison:measure",
        "The same fits by `obygaze run`, with its start, baselines, intervals and files, and by"
        " PyTorch loops that only train. The first loop is what a careful user would write: the"
        " rows of a fit in one tensor, batches by row numbers, the fused Adam. It trains every fit."
        " The others read clip after clip through a DataLoader and train some of the fits only; the"
        " last one, as the released code has it, three fits for three epochs. Their CPU time for"
        " all fits is an estimate: that of one step, times the steps of all fits, without the start"
        " of PyTorch.",
        limit_s=2 * LIMIT_S,
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

    def as_markdown(self) -> str:
        """Return the section as it stands on the page."""
        parts = [f"## {self.name}", "", _filled(self.meaning), ""]
        if self.text:
            parts += ["```text", self.text.rstrip(), "```"]
        else:
            word = "Failed" if self.failed else "Not measured"
            parts += [_filled(f"**{word}:** {self.why_not}")]
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
        when_and_where = (
            f"Made {self.made} in {count(minutes, 'minute')} on {self.machine}."
        )
        if self.is_quick:
            when_and_where += (
                " Small sizes and single rounds: this only shows that everything works."
            )
        return "\n".join(
            [
                HEAD,
                _filled(when_and_where),
                "",
                *(section.as_markdown() for section in self.sections),
            ]
        )

    def to_json(self) -> dict[str, Any]:
        """Return the whole page as JSON, with every single measurement."""
        return asdict(self)


def chosen(names: Sequence[str]) -> list[str]:
    """Return the named benchmarks in the order of the page, or the default ones for no names."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        names_of_all = ", ".join(BENCHMARKS)
        raise FixUsage(
            f"no benchmark called {', '.join(unknown)}", hint=f"one of {names_of_all}"
        )
    return [
        n
        for n, benchmark in BENCHMARKS.items()
        if n in names or (not names and benchmark.is_default)
    ]


def measure_section(name: str, settings: Settings) -> Section:
    """Run a benchmark in a process of its own, so that none affects the next."""
    benchmark = BENCHMARKS[name]
    started = time.monotonic()
    try:
        measured: Mapping[str, Any] = run_apart(
            "benchmarks.pages:measure_here",
            limit_s=benchmark.limit_s,
            name=name,
            **asdict(settings),
        )[0]
    except FixInput as error:
        measured = {
            "failed": True,
            "why_not": f"{error.message}: {error.hint or ''}".rstrip(": "),
        }
    seconds = round(time.monotonic() - started, 1)
    return Section(name, benchmark.meaning, seconds, **measured)


def measure_here(name: str, **settings: Any) -> dict[str, Any]:
    """Run a benchmark in this process; return its text and its JSON, or why there is none."""
    module, function = BENCHMARKS[name].function.split(":")
    measure: Callable[[Settings], Result] = getattr(
        importlib.import_module(module), function
    )
    try:
        result = measure(Settings(**settings))
    except (NotMeasured, InstallExtra) as error:
        return {"why_not": str(error).splitlines()[0]}
    return {"text": result.to_text(), "result": result.to_json()}


def _filled(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)
