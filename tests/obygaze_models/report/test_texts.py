"""The text of the report: each kind is used, and every name in braces is filled in."""

from __future__ import annotations

from pathlib import Path

import pytest

from obygaze_models.report import texts
from obygaze_models.report.texts import report_text, sentence

SOURCE = "\n".join(path.read_text("utf-8") for path in Path(texts.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("part", ["sentences", "figures", "tables"])
def test_every_text_is_used(part: str) -> None:
    unused = [key for key in getattr(report_text(), part) if f'"{key}"' not in SOURCE]
    assert unused == []


def test_every_figure_belongs_to_a_section() -> None:
    text = report_text()
    assert {figure.section for figure in text.figures.values()} <= text.headings.keys()


def test_texts_are_one_paragraph_each() -> None:
    text = report_text()
    notes = [*text.sentences.values(), *(figure.caption for figure in text.figures.values())]
    for note in [*notes, *(table.note for table in text.tables.values())]:
        assert note == " ".join(note.split())


def test_names_are_filled_in_as_they_are() -> None:
    assert sentence("tasks", titles="A: {x}") == "The tasks are A: {x}."
