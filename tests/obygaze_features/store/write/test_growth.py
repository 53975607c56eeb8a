"""A sealed store gets more clips, and rows that were made again, as versions of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import zarr
from support.store_servers import web_server
from support.stores import (
    ARRAYS,
    CountedFiles,
    a_recipe,
    block_of,
    copy_of_sealed,
    some_ids,
    some_values,
    tree,
)

from obygaze_features.core.errors import FixInput, Mismatch, ObygazeError
from obygaze_features.store import (
    RowSource,
    RowStatus,
    StoreWriter,
    create_store,
    open_store,
    state_licence,
    store_log,
    verify,
    withdraw,
)
from obygaze_features.store.format.makers import Maker
from obygaze_features.store.write.growth import add_rows

VALUES = some_values(23)
CLIPS, FILMS = some_ids(23)
REASON = "the collection has grown"
MAKER = Maker("obygaze 0.1.0", "cpu", precision="float32", host="a-machine")


@dataclass
class NewRows:
    """A store with new rows, and the values in it."""

    path: Path
    values: dict[str, np.ndarray]


def rows_to_add(
    path: Path,
    clips: Sequence[str],
    films: Sequence[str],
    statuses: Sequence[RowStatus] | None = None,
    *,
    seed: int = 7,
    block_rows: int = 3,
    **changes: object,
) -> NewRows:
    given = {
        "recipe": a_recipe(),
        "manifest_name": "grown",
        "manifest_sha256": "34" * 32,
        "arrays": ARRAYS,
        "licence": "",
        "citation": "",
        **changes,
    }
    plan = create_store(
        path, clip_ids=clips, movie_ids=films, block_rows=block_rows, **given
    )
    values = some_values(len(clips), plan.arrays, seed)
    writer = StoreWriter(path)
    states = [RowStatus()] * len(clips) if statuses is None else list(statuses)
    for block in range(plan.n_blocks):
        first, after = plan.block_range(block)
        writer.commit_block(
            block,
            block_of(values, (first, after)),
            states[first:after],
            sources=[RowSource(float(row), row + 1.0) for row in range(first, after)],
            makers=[MAKER] * (after - first),
            seconds={"decode": 1.0},
            versions={"toy": "2"},
        )
    return NewRows(path, values)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_of_sealed(tmp_path / "s")


NEW_CLIPS = [f"tt0000900-{n:03d}" for n in range(7)]
NEW_FILMS = ["tt0000900"] * 7


@pytest.mark.parametrize("n_new", [1, 2, 7])
def test_added_clips_are_appended_and_the_earlier_version_stays(store, tmp_path, n_new):
    """23 clips in blocks of 4: the last block has one row free, then whole blocks follow."""
    before = {
        name: tree(store)[name] for name in ("store.json", "seal.json", "clips.csv")
    }
    new = rows_to_add(tmp_path / "new", NEW_CLIPS[:n_new], NEW_FILMS[:n_new])
    made = add_rows(store, new.path, reason=REASON, manifest=("grown", "56" * 32))
    assert (made.number, made.change) == (2, "clips")
    assert made.numbers == {"clips": n_new, "films": 1}
    newest = open_store(store)
    assert newest.clip_ids.tolist() == [*CLIPS, *NEW_CLIPS[:n_new]]
    assert newest.movie_ids.tolist() == [*FILMS, *NEW_FILMS[:n_new]]
    for spec in ARRAYS:
        expected = np.concatenate([VALUES[spec.name], new.values[spec.name]])
        assert np.array_equal(
            newest[spec.name].values
            if spec.is_feature_array
            else newest.matrix(spec.name).values,
            expected,
        )
        by_zarr = zarr.open_group(store / "data.zarr", mode="r")[spec.name][:]
        assert np.array_equal(by_zarr, expected)
    assert newest.commits.source(23) == RowSource(0.0, 1.0)
    assert newest.commits.maker(23).host == "" and newest.commits.maker(22) is None
    assert (
        newest.plan.manifest_name == "grown"
        and newest.fingerprint == a_recipe().fingerprint
    )
    assert len((store / "clips.csv").read_text().splitlines()) == 24 + n_new
    report = verify(store, hashes=True)
    assert not report.problems
    assert report.warnings == ["23 clips: what made them was not recorded"]
    old = open_store(store, version=1)
    assert old.clip_ids.tolist() == CLIPS
    for name, data in before.items():
        assert old.files.read(name).data.tobytes() == data
    assert np.array_equal(old["clip"].values, VALUES["clip"])
    assert not verify(f"{store}@1", hashes=True).problems
    assert [v.number for v in store_log(store, clip=NEW_CLIPS[0]).versions] == [2]
    assert [v.number for v in store_log(store, clip=CLIPS[22]).versions] == [1]


def test_many_versions_cost_the_newest_no_request(store, tmp_path):
    def requests(path: Path) -> list[str]:
        files = CountedFiles(path)
        open_store(files).matrix("pooled")
        return files.reads

    for n in range(4):
        new = rows_to_add(tmp_path / f"new-{n}", [f"x-{n}"], ["x"], seed=n)
        add_rows(store, new.path, reason=REASON)
    # 27 clips in blocks of 4 are 7 files of one array.
    assert len(requests(store)) == 3 + 7
    assert open_store(store).version == 5


def test_rows_are_replaced_and_say_why(store, tmp_path):
    failed = RowStatus.failed("decode", "BadVideo", "no moov atom")
    states = [RowStatus(), failed, RowStatus()]
    chosen = [CLIPS[4], CLIPS[9], CLIPS[2]]
    new = rows_to_add(tmp_path / "new", chosen, [FILMS[4], FILMS[9], FILMS[2]], states)
    made = add_rows(store, new.path, reason="corrected times")
    assert (made.change, made.numbers) == ("rows", {"rows": 3})
    newest = open_store(store)
    expected = VALUES["clip"].copy()
    expected[4] = new.values["clip"][0]
    expected[2] = new.values["clip"][2]
    is_there = np.arange(23) != 9
    matrix = newest.matrix("clip", missing="drop")
    assert np.array_equal(matrix.values, expected[is_there])
    assert matrix.reasons[CLIPS[9]] == failed
    assert newest.commits.source(4) == RowSource(0.0, 1.0)
    assert store_log(store, clip=CLIPS[4]).versions[0].reason == "corrected times"
    assert newest.plan.sha256 == open_store(store, version=1).plan.sha256
    # The same failure again is no change.
    again = add_rows(
        store,
        rows_to_add(tmp_path / "again", [CLIPS[9]], [FILMS[9]], [failed]).path,
        reason="again",
    )
    assert not again.is_new and again.number == 2
    assert not verify(store, hashes=True).problems


def test_a_withdrawn_clip_is_never_made_again(store, tmp_path):
    withdraw(store, clips=[CLIPS[0]], reason="asked for")
    new = rows_to_add(tmp_path / "new", CLIPS[:2], FILMS[:2])
    made = add_rows(store, new.path, reason=REASON)
    assert made.numbers == {"rows": 1}
    newest = open_store(store)
    assert newest.status().status_of_row[0].is_withdrawn
    assert np.array_equal(
        newest.matrix("clip", clips=[CLIPS[1]]).values[0], new.values["clip"][1]
    )


def test_rows_of_another_recipe_or_other_arrays_are_refused(store, tmp_path):
    other = rows_to_add(
        tmp_path / "other",
        NEW_CLIPS,
        NEW_FILMS,
        recipe=a_recipe(preprocessing={"size": 9, "filter": "bicubic"}),
    )
    with pytest.raises(Mismatch, match=r"preprocessing\.size differ") as error:
        add_rows(store, other.path, reason=REASON)
    assert (
        "preprocessing.size: 8 in the store, 9 in the new rows"
        in error.value.details[0]
    )
    fewer = rows_to_add(tmp_path / "fewer", NEW_CLIPS, NEW_FILMS, arrays=ARRAYS[:2])
    with pytest.raises(Mismatch, match="the arrays are not the same"):
        add_rows(store, fewer.path, reason=REASON)
    moved = rows_to_add(tmp_path / "moved", CLIPS[:1], ["tt0000999"])
    with pytest.raises(Mismatch, match="is of the film"):
        add_rows(store, moved.path, reason=REASON)
    open_rows = tmp_path / "open"
    create_store(
        open_rows,
        recipe=a_recipe(),
        manifest_name="m",
        manifest_sha256="0" * 64,
        clip_ids=["n"],
        movie_ids=["n"],
        arrays=ARRAYS,
        licence="",
        citation="",
    )
    with pytest.raises(FixInput, match="not complete"):
        add_rows(store, open_rows, reason=REASON)
    assert open_store(store).version == 1 and not (store / "versions").exists()


def test_the_licence_goes_with_a_new_store_json(store, tmp_path):
    state_licence(store, licence="CC-BY-4.0", replace=True)
    new = rows_to_add(tmp_path / "new", NEW_CLIPS, NEW_FILMS)
    add_rows(store, new.path, reason=REASON)
    assert (
        open_store(store).licence == open_store(store, version=1).licence == "CC-BY-4.0"
    )
    state_licence(store, licence="CC0-1.0", replace=True)
    assert (
        open_store(store).licence == open_store(store, version=1).licence == "CC0-1.0"
    )
    assert len(open_store(store).licence_history.statements) == 2


def test_readers_that_opened_an_earlier_version_keep_it(store, tmp_path):
    eager = open_store(store)
    _ = eager.sealed, eager.clip_ids
    lazy = open_store(store)
    state_licence(store, licence="CC-BY-4.0", replace=True)
    new = rows_to_add(tmp_path / "new", NEW_CLIPS, NEW_FILMS)
    add_rows(store, new.path, reason=REASON)
    for opened in (eager, lazy):
        assert opened.version == 1 and len(opened) == 23
        assert np.array_equal(opened["clip"].values, VALUES["clip"])
        assert opened.clip_ids.tolist() == CLIPS
        assert opened.licence == "CC-BY-4.0"


def test_a_store_json_whose_seal_is_not_there_yet_is_read_with_the_next_seal(
    store, tmp_path, monkeypatch
):
    from obygaze_features.store.write import publication

    new = rows_to_add(tmp_path / "new", NEW_CLIPS, NEW_FILMS)
    move = publication._move

    def stop(source: Path, root: Path, name: str) -> None:
        if name == "seal.json":
            raise KeyboardInterrupt
        move(source, root, name)

    monkeypatch.setattr(publication, "_move", stop)
    with pytest.raises(KeyboardInterrupt):
        add_rows(store, new.path, reason=REASON)
    monkeypatch.undo()
    opened = open_store(store)
    assert opened.version == 2 and len(opened) == 30
    assert np.array_equal(opened["clip"].values[23:], new.values["clip"])
    (pointer,) = (store / "versions/seals").iterdir()
    hostile = pointer.read_bytes().replace(REASON.encode(), REASON[::-1].encode())
    pointer.write_bytes(hostile)
    with pytest.raises(ObygazeError):
        _ = open_store(store).sealed


def test_versions_of_a_store_with_an_index_by_film(store, tmp_path, monkeypatch):
    """The second version is large enough for an index; films are read by it over a server."""
    monkeypatch.setattr("obygaze_features.store.write.version.INDEX_ROWS", 25)
    monkeypatch.setattr("obygaze_features.store.read.commits.INDEX_ROWS", 25)
    monkeypatch.setattr("obygaze_features.store.read.index_pages.PAGE_ROWS", 8)
    new = rows_to_add(tmp_path / "new", NEW_CLIPS, NEW_FILMS)
    add_rows(store, new.path, reason=REASON)
    more = rows_to_add(tmp_path / "more", ["tt0000901-1"], ["tt0000901"], seed=9)
    with web_server(tmp_path) as server:
        before = open_store(f"{server.url}/s")
        withdraw(store, films=[FILMS[0]], reason="asked for")
        add_rows(store, more.path, reason=REASON)
        assert not verify(store, hashes=True).problems
        for version, n_first in ((4, 0), (3, 0), (2, 5)):
            opened = open_store(f"{server.url}/s@{version}")
            first = opened.matrix("clip", films=[FILMS[0]], missing="drop").values
            assert np.array_equal(first, VALUES["clip"][:n_first])
            added = opened.matrix("clip", films=["tt0000900"]).values
            assert np.array_equal(added, new.values["clip"])
            assert opened.commits.index is not None
        # It had read store.json of the second and third version alone: the index is of the fourth.
        added = before.matrix("clip", films=["tt0000900"]).values
        assert np.array_equal(added, new.values["clip"]) and len(before) == 30
        assert before.version == 3 and before.commits.index is None
