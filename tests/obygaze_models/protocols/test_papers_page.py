"""docs/papers.md: each row has commands that exist, and a value or a reason."""

import csv
import re
import shutil
import subprocess
import sys
from collections import Counter

from support.cli import ROOT
from support.cli import commands as all_commands

from obygaze import cli

PAGE = ROOT / "docs" / "papers.md"
TABLE = ROOT / "docs" / "papers.csv"


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


def test_the_tables_are_those_of_the_csv(tmp_path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "docs").mkdir()
    script = shutil.copy(ROOT / "scripts" / "make-papers", tmp_path / "scripts")
    shutil.copy(TABLE, tmp_path / "docs")
    page = PAGE.read_text("utf-8")
    a_row = next(line for line in page.splitlines() if line.startswith("| **"))
    made = tmp_path / "docs" / "papers.md"
    made.write_text(page.replace(f"{a_row}\n", ""), "utf-8")
    subprocess.run([sys.executable, script], check=True)
    assert made.read_text("utf-8") == page


def test_the_page_of_findings_counts_the_rows() -> None:
    with TABLE.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        assert (row["finding"] == "left out") == (row["here"] == "-"), row["row"]
    page = (ROOT / "docs" / "papers-found.md").read_text("utf-8")
    counted = re.findall(r"(?m)^\| ([a-z ]+) \| (\d+) \|", page)
    assert {name: int(n) for name, n in counted} == Counter(
        row["finding"] for row in rows
    )
    assert len(page.split()) <= 600
