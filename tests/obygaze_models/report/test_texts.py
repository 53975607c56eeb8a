"""The text of the report: each kind is used, and every name in braces is filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from obygaze_features.core.schema_check import read_toml, table_of
from obygaze_models.report import page
from obygaze_models.report.tables import report_text, sentence

FOLDER = Path(page.__file__).parent
CODE = [*FOLDER.glob("*.py"), *FOLDER.glob("templates/*.html")]
SOURCE = "\n".join(path.read_text("utf-8") for path in CODE)


@dataclass(frozen=True)
class FigureText:
    section: str
    title: str
    caption: str
    wide: bool = False


@dataclass(frozen=True)
class TableText:
    title: str
    headers: tuple[str, ...] = ()
    note: str = ""
    warn: str = ""
    folded: bool = False


@dataclass(frozen=True)
class ReportText:
    metrics: Mapping[str, str]
    headings: Mapping[str, str]
    glossary: Mapping[str, str]
    verdicts: Mapping[str, str]
    sentences: Mapping[str, str]
    figures: Mapping[str, FigureText]
    tables: Mapping[str, TableText]


def test_the_file_has_the_keys_that_the_code_reads() -> None:
    document = read_toml((FOLDER / "texts.toml").read_bytes(), "texts.toml")
    text = document.check(table_of(ReportText))
    document.raise_if_any("texts.toml is not valid")
    assert {figure.section for figure in text.figures.values()} <= text.headings.keys()


@pytest.mark.parametrize("part", ["sentences", "figures", "tables"])
def test_every_text_is_used(part: str) -> None:
    used = [
        f'"{key}"' in SOURCE or f"text.{part}.{key}" in SOURCE
        for key in report_text()[part]
    ]
    assert all(used), dict(zip(report_text()[part], used, strict=True))


def test_texts_are_one_paragraph_each() -> None:
    text = report_text()
    notes = [*text["sentences"].values(), *text["glossary"].values()]
    notes += [figure["caption"] for figure in text["figures"].values()]
    for note in [*notes, *(table.get("note", "") for table in text["tables"].values())]:
        assert note == " ".join(note.split())


def test_names_are_filled_in_as_they_are() -> None:
    text = sentence("unanswered", question="A: {x}")
    assert text == "No difference of this run answers the question: A: {x}"
