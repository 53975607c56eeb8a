"""docs/papers.md: its commands print what it shows, on the real annotation files."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import ROOT
from support.cli import commands as all_commands
from support.data import real_data
from support.pages import blocks, run_block

from obygaze import cli

PAGE = ROOT / "docs" / "papers.md"
REASON = "needs the annotation files"
TABLE = "mobygaze_dataframe.no_subtitles.csv"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the annotation files, and nothing else."""
    table = real_data("obygaze12", "ObyGaze12_thresh_02.csv")
    segments = real_data("mobygaze", TABLE)
    folder = tmp_path_factory.mktemp("papers")
    (folder / table.name).symlink_to(table)
    (folder / "splits").symlink_to(table.parent)
    (folder / "mobygaze_dataframe.csv").symlink_to(segments)
    return folder


@pytest.mark.timeout(300)
@pytest.mark.check("each command of a page")
def test_the_page_shows_what_comes_out_of_the_annotation_files(folder: Path) -> None:
    of_files = [block for block in blocks(PAGE) if block.marks.get("not run") == REASON]
    assert len(of_files) == 4
    for block in of_files:
        marks = {name: text for name, text in block.marks.items() if name != "not run"}
        assert "output checked" in marks
        run_block(replace(block, marks=marks), folder)


def test_each_row_names_commands_that_exist_and_says_what_is_missing() -> None:
    usages = [f"obygaze {words}" for words, _ in all_commands(cli.root)]
    rows = []
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| **"):
            rows.append(cells)
    assert len(rows) > 25
    for cells in rows:
        assert len(cells) == 4, cells
        shown, command, here, missing = cells
        commands = re.findall(r"`(obygaze [a-z0-9 -]+)`", command)
        assert commands, cells
        for name in commands:
            words = name.split()
            known = [" ".join(words[:n]) in usages for n in range(2, len(words) + 1)]
            assert any(known), name
        assert shown
        # Without a value, the row says why there is none.
        assert here != "-" or missing != "-", cells
