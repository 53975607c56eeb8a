"""docs/papers.md: each row has commands that exist, and a value or a reason."""

import re

from support.cli import ROOT
from support.cli import commands as all_commands

from obygaze import cli

PAGE = ROOT / "docs" / "papers.md"


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
