"""Every table of how costs grow: with clips, dimensions, folds, concepts, models and workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.growth import fits
from benchmarks.growth.costs import Growth
from benchmarks.growth.figure import draw_growth
from benchmarks.growth.plan import measure_plans
from benchmarks.growth.store import measure_stores
from benchmarks.timing import Comparison, Settings
from obygaze_features.core.errors import InstallExtra
from obygaze_features.core.figures import figure_stem

TABLES: dict[str, Callable[[Settings], Growth | Comparison]] = {
    "store": measure_stores,
    "plan": measure_plans,
    "dimensions": fits.by_dimensions,
    "folds": fits.by_folds,
    "concepts": fits.by_concepts,
    "clips": fits.by_clips,
    "models": fits.by_models,
    "workers": fits.by_workers,
}


@dataclass(frozen=True)
class GrowthTables:
    """Every table, and why one is absent."""

    tables: Mapping[str, Growth | Comparison]
    absent: Mapping[str, str]

    @property
    def growths(self) -> list[Growth]:
        """The tables with sizes."""
        return [table for table in self.tables.values() if isinstance(table, Growth)]

    def to_json(self) -> dict[str, Any]:
        """Return every single run as JSON."""
        tables = {name: table.to_json() for name, table in self.tables.items()}
        return {"tables": tables, "absent": dict(self.absent)}

    def to_text(self) -> str:
        """Return the tables, one below the other."""
        absent = [
            f"{name} was not measured: {why}" for name, why in self.absent.items()
        ]
        return "\n\n".join(
            [*(table.to_text() for table in self.tables.values()), *absent]
        )


def measure(settings: Settings) -> GrowthTables:
    """Measure every table; one whose package is not installed is listed as absent.

    Simulated stores and plans of up to a million clips need 3 GB of memory and 500 MB of disk.
    """
    tables: dict[str, Growth | Comparison] = {}
    absent: dict[str, str] = {}
    for name, measure_one in TABLES.items():
        try:
            tables[name] = measure_one(settings)
        except InstallExtra as error:
            absent[name] = error.message
    growth_tables = GrowthTables(tables, absent)
    if settings.figure is not None:
        draw_growth(growth_tables.growths, figure_stem(Path(settings.figure)))
    return growth_tables
