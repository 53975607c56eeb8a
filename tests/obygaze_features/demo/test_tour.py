"""The whole tour, as a newcomer takes it: from two experts' marks to a page that can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.cli import run_obygaze


@pytest.mark.timeout(300)  # half a minute of work, on a machine that may be busy
def test_the_tour_ends_at_a_page_that_names_the_broken_clip(tmp_path: Path) -> None:
    folder = tmp_path / "tour"
    # A module that cannot be imported stands in for a laptop without torch.
    (tmp_path / "absent" / "torch").mkdir(parents=True)
    (tmp_path / "absent" / "torch" / "__init__.py").write_text("raise ImportError('no torch')\n")
    env = {"PYTHONPATH": str(tmp_path / "absent")}
    done = run_obygaze("demo", "-o", folder, env=env, timeout=280).ok()
    page = folder / "runs" / "honest" / "report.html"
    assert done.stdout.rstrip().splitlines()[-1].startswith(f"The page is {page};")
    text = page.read_text(encoding="utf-8")
    # The thirty-first of twelve clips a film is the seventh of the third film.
    assert "tt9000003-007" in text
    assert "open unreadable" in text
    assert not re.search(r'(?:src|href)="(?!#|data:)', text)
    for name in ("timelines", "clips", "concepts-desc", "tree-pcbm-dt-desc-ENHN-S"):
        assert (folder / "runs" / "honest" / "figures" / f"{name}.png").stat().st_size > 5000
    again = run_obygaze("demo", "-o", tmp_path / "absent", timeout=60)
    assert (again.code, "not made by the demo" in again.stderr) == (1, True)
