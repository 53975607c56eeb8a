"""Stores of several versions that are damaged: no wrong number, and no version lost for another."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support import torture_versions
from support.stores import gather_all
from support.torture import is_bad


@pytest.fixture(autouse=True)
def gathers(monkeypatch: pytest.MonkeyPatch) -> None:
    gather_all(monkeypatch)


def require_good(counts: Counter[str], least: int) -> None:
    assert counts["cases"] >= least
    assert counts["right"] > 0
    assert not is_bad(counts), counts


def test_a_cache_with_old_files_gives_no_wrong_number(tmp_path: Path) -> None:
    require_good(torture_versions.stale_caches(tmp_path, 1), 100)


@pytest.mark.check("flips a bit in each file")
def test_a_flip_is_found_and_other_versions_are_right(tmp_path: Path) -> None:
    require_good(torture_versions.flips(tmp_path, 1), 50)


@pytest.mark.check("exchanges a hundred pairs of files")
def test_two_exchanged_files_are_found(tmp_path: Path) -> None:
    require_good(torture_versions.swaps(tmp_path, 1), 90)


@pytest.mark.check("cuts the power at each sync of three versions")
def test_a_power_cut_leaves_one_version_or_the_one_before(tmp_path: Path) -> None:
    require_good(torture_versions.power_cuts(tmp_path), 60)


def test_a_campaign_that_lost_something_is_bad() -> None:
    assert is_bad(Counter(cases=3, right=2, LOST=1))
    assert is_bad(Counter({"cases": 3, "WRONG clip": 1}))
    assert not is_bad(Counter(cases=3, right=2, Corrupt=1, LOST=0))
