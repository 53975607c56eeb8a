"""The text of a report, which is data: headings, sentences, figures and tables in texts.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from obygaze_features.core.schema_check import read_toml, table_of


@dataclass(frozen=True)
class FigureText:
    """The section, the title and the caption of one kind of figure."""

    section: str
    title: str
    caption: str


@dataclass(frozen=True)
class TableText:
    """The title, the first headers and the note of one kind of table; see `ResultTable`."""

    title: str
    headers: tuple[str, ...] = ()
    note: str = ""
    warn: str = ""
    folded: bool = False


@dataclass(frozen=True)
class ReportText:
    """All text of a report; headings are in the order of the page, metrics in that of tables."""

    metrics: Mapping[str, str]
    headings: Mapping[str, str]
    glossary: Mapping[str, str]
    sentences: Mapping[str, str]
    figures: Mapping[str, FigureText]
    tables: Mapping[str, TableText]


@cache
def report_text() -> ReportText:
    """Return the text of texts.toml."""
    data = files(__package__).joinpath("texts.toml").read_bytes()
    document = read_toml(data, "texts.toml")
    text: ReportText = document.check(table_of(ReportText))
    document.raise_if_any("texts.toml is not valid")
    return text


def sentence(key: str, **names: object) -> str:
    """Return a sentence with names filled in."""
    return report_text().sentences[key].format(**names)
