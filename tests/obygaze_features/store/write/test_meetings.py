"""Processes that meet: whatever one does before any step of another, both end well."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import containers
from support.meetings import (
    PAIRS,
    Copying,
    is_bad,
    kill_in_containers,
    live_in_containers,
    meet,
    pull_while_it_grows,
    seal_at_once,
)

from obygaze_features.store.write.commit import make_room

pytestmark = pytest.mark.check("has processes meet, and kills them in containers")

# `make meetings` has them meet before every step, and kills hundreds.
EVERY, KILLS = 13, 4


@pytest.fixture(scope="module")
def namespaces() -> None:
    if not containers.can_make_containers():
        pytest.skip("only root can make containers here")


@pytest.mark.parametrize("name", PAIRS)
def test_two_processes_that_meet_end_well(tmp_path: Path, name: str) -> None:
    assert meet(tmp_path, name, EVERY) >= 2


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("name", ["pull", "push", "unpack"])
def test_what_was_killed_in_a_container_is_completed_in_the_next(
    tmp_path: Path, name: str
) -> None:
    """Each is process 1 of a host of the same name."""
    copying = Copying(tmp_path)
    command = getattr(copying, name)
    counts = kill_in_containers(command, copying.is_whole, copying.clear, KILLS, seed=1)
    assert counts["kills"] >= KILLS and not is_bad(counts), counts


@pytest.mark.usefixtures("namespaces")
def test_two_containers_under_one_name_do_not_take_each_others_draft(
    tmp_path: Path,
) -> None:
    counts = live_in_containers(Copying(tmp_path), 2, seed=1)
    assert counts == {"another process is fetching this store": 2, "rounds": 2}


def test_eight_writers_that_all_seal_make_one_seal(tmp_path: Path) -> None:
    assert seal_at_once(tmp_path, 1) == {"rounds": 1, "writers": 8, "WRONG bytes": 0}


def test_copies_of_a_store_that_grows_are_whole_as_far_as_it_is(tmp_path: Path) -> None:
    counts = pull_while_it_grows(tmp_path, 80)
    assert counts["copies"] and not is_bad(counts), counts


def test_a_room_that_a_seal_moves_away_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "staging").mkdir()
    make_folder = os.mkdir

    def moved_before_another_look(path: Path, mode: int = 0o777) -> None:
        try:
            make_folder(path, mode)
        except FileExistsError:
            Path(path).rename(tmp_path / "staging.sealing")
            raise

    monkeypatch.setattr(os, "mkdir", moved_before_another_look)
    make_room(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["staging.sealing"]
