"""A part of a report: a heading, sentences, and tables that belong together."""

from __future__ import annotations

from dataclasses import dataclass

from obygaze_models.report.tables import Table


@dataclass(frozen=True)
class Section:
    """What stands under one heading."""

    key: str
    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
