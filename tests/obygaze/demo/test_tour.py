"""What the tour refuses; `stories/31_any_machine.py` takes it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.cli import call_obygaze


def test_a_folder_with_work_in_it_is_left_alone(tmp_path: Path) -> None:
    work = tmp_path / "demo" / "thesis.txt"
    work.parent.mkdir()
    work.write_text("years", encoding="utf-8")
    refused = call_obygaze("-C", tmp_path, "demo")
    assert refused.code == 1
    assert "remove it, or choose another folder with -o" in refused.stderr
    assert work.read_text(encoding="utf-8") == "years"
    assert list(work.parent.iterdir()) == [work]


def test_without_pyav_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    without = call_obygaze("-C", tmp_path, "demo")
    assert without.code == 2
    assert without.stderr.splitlines()[-1] == '  Try: pip install "obygaze[video]"'
    assert not any(tmp_path.iterdir())
