"""Two that make versions of one store at once, and copies of a store whose maker was stopped."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.stores import copy_of_sealed, fill_store, plan_store, some_ids, some_values

from obygaze_features.core.errors import AlreadyThere
from obygaze_features.store import (
    open_store,
    pack,
    pull,
    state_licence,
    unpack,
    verify,
    withdraw,
)
from obygaze_features.store.write import growth, publication
from obygaze_features.store.write.growth import add_rows

CLIPS, FILMS = some_ids(23)
NEW_CLIPS = [f"tt0000900-{n:03d}" for n in range(7)]
LICENCE = "CC-BY-4.0"
withdrawal = importlib.import_module("obygaze_features.store.write.withdraw")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_of_sealed(tmp_path / "s")


def rows_of(path: Path, clips: list[str], film: str) -> Path:
    n_clips = len(clips)
    plan_store(path, n_clips, 3, clip_ids=clips, movie_ids=[film] * n_clips)
    fill_store(path, some_values(n_clips, seed=7))
    return path


def before_the_draft(
    monkeypatch: pytest.MonkeyPatch, module: object, other: Callable[[], object]
) -> None:
    """Have `other` done once, after a module has opened the store and before it has a draft."""
    new_version = module.new_version

    def meet(*arguments):
        monkeypatch.undo()
        other()
        return new_version(*arguments)

    monkeypatch.setattr(module, "new_version", meet)


def test_two_workers_that_add_the_same_clips_add_them_once(
    store, tmp_path, monkeypatch
):
    new = rows_of(tmp_path / "new", NEW_CLIPS, "tt0000900")
    before_the_draft(monkeypatch, growth, lambda: add_rows(store, new, reason="first"))
    with pytest.raises(AlreadyThere, match="at the same time"):
        add_rows(store, new, reason="second")
    assert open_store(store).clip_ids.tolist() == [*CLIPS, *NEW_CLIPS]
    assert not add_rows(store, new, reason="second").is_new


def test_a_clip_that_is_withdrawn_meanwhile_is_not_made_again(
    store, tmp_path, monkeypatch
):
    new = rows_of(tmp_path / "new", CLIPS[:2], FILMS[0])
    before_the_draft(
        monkeypatch, growth, lambda: withdraw(store, clips=CLIPS[:1], reason="asked")
    )
    with pytest.raises(AlreadyThere, match="at the same time"):
        add_rows(store, new, reason="corrected")
    add_rows(store, new, reason="corrected")
    opened = open_store(store)
    assert opened.version == 3 and opened.status().status_of_row[0].is_withdrawn


def test_a_clip_that_is_withdrawn_meanwhile_keeps_its_reason(store, monkeypatch):
    before_the_draft(
        monkeypatch,
        withdrawal,
        lambda: withdraw(store, clips=CLIPS[:1], reason="first"),
    )
    with pytest.raises(AlreadyThere, match="at the same time"):
        withdraw(store, clips=CLIPS[:2], reason="second")
    made = withdraw(store, clips=CLIPS[:2], reason="second")
    status = open_store(store).status().status_of_row
    assert made.numbers["clips"] == 1 and status[0].message == "first"


def after_cleaning(store: Path, work: Callable[..., object]) -> Callable[..., object]:
    """Return work before whose first call another process cleans the folder of versions."""
    calls = []

    def clean_and_work(*arguments):
        if not calls:
            calls.append(arguments)
            publication.clean_versions(store)
        return work(*arguments)

    return clean_and_work


def test_an_empty_folder_that_another_process_removes_is_made_again(store, monkeypatch):
    """Another process cleans the folder of versions before its first attempt is in it."""
    for module, name in (
        (publication, "hold_new"),
        (publication.system, "replace_file"),
    ):
        monkeypatch.setattr(module, name, after_cleaning(store, getattr(module, name)))
    assert withdraw(store, clips=CLIPS[:1], reason="asked").number == 2


@pytest.mark.parametrize("stopped_before", ["store.json", "seal.json"])
@pytest.mark.parametrize("change", ["grown", "withdrawn"])
def test_a_store_whose_maker_was_stopped_is_copied(
    store, tmp_path, monkeypatch, change, stopped_before
):
    state_licence(store, licence=LICENCE, replace=True)
    new = rows_of(tmp_path / "new", NEW_CLIPS, "tt0000900")
    move = publication._move

    def stop(source: Path, root: Path, name: str) -> None:
        if name == stopped_before or name == "seal.json":
            raise KeyboardInterrupt
        move(source, root, name)

    with monkeypatch.context() as patch:
        patch.setattr(publication, "_move", stop)
        with pytest.raises(KeyboardInterrupt):
            if change == "grown":
                add_rows(store, new, reason="grown")
            else:
                withdraw(store, clips=CLIPS[:1], reason="asked")
    opened = open_store(store)
    assert opened.licence == LICENCE
    is_second = change == "grown" and stopped_before == "seal.json"
    assert opened.version == 1 + is_second
    copies = [tmp_path / name for name in ("pulled", "unpacked", "film", "array")]
    pull(store, copies[0])
    pack(store, tmp_path / "s.zip")
    unpack(tmp_path / "s.zip", copies[1])
    pull(store, copies[2], films=[FILMS[0]])
    pull(store, copies[3], arrays=["clip"])
    for copy in copies:
        of_copy = open_store(copy)
        assert of_copy.licence == LICENCE
        assert not verify(copy, hashes=True).problems
        clips = of_copy.clip_ids.tolist()
        expected = opened.matrix("clip", clips=clips)
        assert np.array_equal(of_copy["clip"].values, expected.values)
    # What was begun is finished by the next command, and the copies are brought up to date.
    withdraw(store, clips=CLIPS[1:2], reason="again")
    assert open_store(store).version == 3
    pull(store, copies[0])
    assert open_store(copies[0]).seal_sha256 == open_store(store).seal_sha256
    assert open_store(copies[0]).licence == LICENCE
