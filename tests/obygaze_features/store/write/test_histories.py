"""Random histories of changes of a store: each version reads as a plain model of it says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.kills import kill_everywhere
from support.store_history import (
    STORE_CHANGES,
    VERSION_CHANGES,
    History,
    next_change,
    run_history,
)
from support.stores import gather_all


@pytest.fixture(params=["blocks", "gathered"], autouse=True)
def gathers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test once with stores of single blocks, and once with gathered arrays."""
    if request.param == "gathered":
        gather_all(monkeypatch)


def test_histories_of_random_changes_read_as_their_model(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in range(16):
        counts.update(run_history(tmp_path / "history", seed, 5))
    assert set(counts) == {*VERSION_CHANGES, *STORE_CHANGES}


@pytest.mark.check("200 histories of 40 changes")
@pytest.mark.parametrize("first", range(0, 200, 4))
def test_long_histories_of_random_changes_read_as_their_model(
    tmp_path: Path, first: int
) -> None:
    for seed in range(1000 + first, 1004 + first):
        run_history(tmp_path / "history", seed, 40)


@pytest.mark.check("kills at every step of ten histories")
@pytest.mark.parametrize("seed", range(10))
def test_a_kill_anywhere_in_a_history_leaves_one_version_or_the_one_before(
    tmp_path: Path, seed: int
) -> None:
    history = History(tmp_path, 2000 + seed)
    n_kills = 0
    for _ in range(4):
        name, work = next_change(history)
        if work is None:
            history.check()
            continue
        numbers: list[int] = []

        def look(numbers: list[int] = numbers) -> None:
            numbers.append(history.check_either())

        n_kills += kill_everywhere(work, look)
        assert numbers == sorted(numbers), name
        assert numbers[-1] == max(history.versions)
    assert n_kills > 20
