"""`obygaze bench growth`: how costs grow with clips, dimensions, folds, concepts and models."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.bench import BenchResult
from obygaze_features.core.bench_sizes import Growth
from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import FixUsage, InstallExtra
from obygaze_features.core.figures import figure_stem

Measure = Callable[[bool, Progress | None], Growth | BenchResult]

# By name and not by import: this room is below all those it measures.
TABLES = {
    "store": "obygaze_features.store.bench_growth:measure_stores",
    "plan": "obygaze_features.extraction.bench_growth:measure_plans",
    "dimensions": "obygaze_models.bench_growth:by_dimensions",
    "folds": "obygaze_models.bench_growth:by_folds",
    "concepts": "obygaze_models.bench_growth:by_concepts",
    "clips": "obygaze_models.bench_growth:by_clips",
    "models": "obygaze_models.bench_growth:by_models",
    "workers": "obygaze_models.bench_growth:by_workers",
}


@dataclass(frozen=True)
class GrowthBench:
    """Every table, and why one is absent."""

    tables: Mapping[str, Growth | BenchResult]
    absent: Mapping[str, str]

    @property
    def growths(self) -> list[Growth]:
        """The tables with sizes."""
        return [table for table in self.tables.values() if isinstance(table, Growth)]

    def as_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        tables = {name: table.as_json() for name, table in self.tables.items()}
        return {"tables": tables, "absent": dict(self.absent)}

    def as_text(self) -> str:
        """The tables, one below the other."""
        absent = [f"{name} is not here: {why}" for name, why in self.absent.items()]
        return "\n\n".join([*(table.as_text() for table in self.tables.values()), *absent])


def measure_growth(
    names: Sequence[str] = tuple(TABLES), *, quick: bool = False, progress: Progress | None = None
) -> GrowthBench:
    """Measure some tables; one that needs a package that is not here is told as absent."""
    unknown = [name for name in names if name not in TABLES]
    if unknown or not names:
        told = ", ".join(unknown) or "none"
        raise FixUsage(f"no table called {told}", hint=f"--only {','.join(TABLES)}")
    progress = progress or Quiet()
    tables: dict[str, Growth | BenchResult] = {}
    absent: dict[str, str] = {}
    for name in dict.fromkeys(names):
        progress.say(name)
        try:
            tables[name] = _measure(name)(quick, progress)
        except InstallExtra as error:
            absent[name] = error.what
        progress.advance()
    return GrowthBench(tables, absent)


def _measure(name: str) -> Measure:
    module, function = TABLES[name].split(":")
    measure: Measure = getattr(importlib.import_module(module), function)
    return measure


@click.command(
    "growth",
    cls=ExampleCommand,
    examples="""
    obygaze bench growth
    obygaze bench growth --only store,plan --json
    obygaze bench growth --quick --figure growth.svg
    """,
)
@click.option("--only", help=f"These tables, joined by commas: {', '.join(TABLES)}.")
@click.option("--quick", is_flag=True, help="Small sizes, single runs: shows that it works.")
@click.option("--figure", type=click.Path(path_type=Path), help="Draw it: PATH.svg and PATH.png.")
@json_option
@pass_session
def bench_growth(
    session: Session, only: str | None, quick: bool, figure: Path | None, as_json: bool
) -> None:
    """How costs grow with clips, dimensions, folds, concepts, models and workers.

    Simulated stores and plans go up to a million clips: a few minutes, 3 GB of memory, 500 MB of
    disk in the folder for temporary files; with --quick seconds.
    """
    names = only.split(",") if only else list(TABLES)
    with session.console.progress("growth", len(names), "tables") as progress:
        result = measure_growth(names, quick=quick, progress=progress)
    if figure is not None and result.growths:
        from obygaze_features.core.bench_figure import draw_growth

        for path in draw_growth(result.growths, figure_stem(figure)):
            session.console.note(f"wrote {path}")
    if as_json:
        session.console.json(result.as_json())
    else:
        session.console.result(result.as_text())
