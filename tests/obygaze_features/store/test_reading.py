import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.cli import call_obygaze
from support.plain_store import COUNTED, array_of, rows_of, write_plain_store
from support.plain_store import STATUSES as WORDS

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, NotFound
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.stored import status_at
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store.layout import DTYPES
from obygaze_features.store.reading import open_store
from obygaze_features.store.rows import STATUSES, RowStatus
from obygaze_features.store.verifying import verify

CLIPS = [f"clip-{n:02d}" for n in range(23)]
FILMS = [f"tt{n // 5}" for n in range(23)]
NOT_OK = {3: ("failed", 'decode: "broken", says FFmpeg'), 8: ("no-words", "by law")}


def some(n_rows: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    random = np.random.default_rng(n_rows)
    return (random.standard_normal((n_rows, *shape)) * 100).astype(dtype)


@pytest.fixture(scope="module")
def values() -> dict[str, np.ndarray]:
    return {"clip": some(23, 4), "frames": some(23, 3, 4, dtype="float16")}


@pytest.fixture(scope="module")
def path(values, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """23 clips of 5 films, of which two have no features; files of 8 rows."""
    path = tmp_path_factory.mktemp("stores") / "made"
    arrays = [
        array_of("clip", values["clip"], chunk_rows=2, file_rows=8),
        array_of("frames", values["frames"], chunk_rows=4, file_rows=8),
    ]
    write_plain_store(path, values, rows_of(CLIPS, FILMS, NOT_OK), arrays=arrays)
    return path


SHAPES = st.lists(st.integers(1, 3), max_size=3).map(tuple)


@settings(max_examples=20, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    shape=SHAPES,
    dtype=st.sampled_from(DTYPES),
    n_rows=st.integers(1, 20),
    sizes=st.tuples(st.integers(0, 3), st.integers(0, 2)),
    data=st.data(),
)
def test_any_rows_are_those_that_zarr_reads(
    shape, dtype, n_rows, sizes, data, tmp_path_factory
) -> None:
    path = tmp_path_factory.mktemp("any") / "s"
    values = {"x": some(n_rows, *shape, dtype=dtype)}
    chunk_rows = 2 ** sizes[0]
    n_rows_of = {"chunk_rows": chunk_rows, "file_rows": chunk_rows * 2 ** sizes[1]}
    entry = array_of("x", values["x"], **n_rows_of)
    clips = [f"clip {n}" for n in range(n_rows)]
    write_plain_store(path, values, rows_of(clips, clips), arrays=[entry])
    rows = data.draw(st.lists(st.integers(0, n_rows - 1), max_size=30))
    store = open_store(path)
    by_zarr = zarr.open_group(path, mode="r")["x"][:]
    np.testing.assert_array_equal(by_zarr, values["x"])
    read = store.read("x", rows)
    assert read.dtype == values["x"].dtype
    np.testing.assert_array_equal(read, by_zarr[rows])
    matrix = store.matrix("x", clips=[clips[row] for row in rows])
    np.testing.assert_array_equal(matrix.values, by_zarr[rows])
    parts = [part.values for part in store.stream("x")]
    np.testing.assert_array_equal(np.concatenate(parts), by_zarr)


@pytest.mark.parametrize("form", ["{:04d}", "clip-{:07d}", "{:07d}-of-a-film"])
def test_a_few_of_many_clips_are_found(form: str, tmp_path: Path) -> None:
    """They are found by a hash of the end of their ids, if these are long enough."""
    ids = [form.format(number) for number in range(5000)]
    values = {"clip": some(5000, 2)}
    arrays = [array_of("clip", values["clip"], chunk_rows=512, file_rows=8192)]
    write_plain_store(tmp_path / "s", values, rows_of(ids, ids), arrays=arrays)
    wanted = [ids[4321], form.format(70000), ids[7], ids[7][:-1]]
    store = open_store(tmp_path / "s")
    assert store.table.find(wanted).tolist() == [4321, -1, 7, -1]
    found = open_store(tmp_path / "s").matrix("clip", clips=[ids[4321], ids[7]])
    np.testing.assert_array_equal(found.values, values["clip"][[4321, 7]])


def test_films_come_in_the_order_of_the_store(path: Path, values) -> None:
    store = open_store(path)
    matrix = store.matrix("clip", films=["tt4", "tt2"])
    assert matrix.rows.tolist() == [*range(10, 15), *range(20, 23)]
    assert matrix.clip_ids.tolist() == [CLIPS[row] for row in matrix.rows]
    np.testing.assert_array_equal(matrix.values, values["clip"][matrix.rows])
    all_three = store.matrix("clip", clips=["clip-21", "clip-14"], films="tt2")
    assert all_three.rows.tolist() == [14]


def test_what_is_missing_is_an_error_with_its_reason(path: Path) -> None:
    store = open_store(path)
    with pytest.raises(NotFound) as caught:
        store.matrix("clip")
    assert caught.value.message.startswith("no features for 2 of the requested clips")
    assert caught.value.details == (
        'clip-03: failed: decode: "broken", says FFmpeg',
        "clip-08: no-words: by law",
    )
    with pytest.raises(NotFound) as caught:
        store.matrix("clip", clips=["clip-00", "clip-0"])
    assert "clip-0: missing: the store has no clip of this id" in caught.value.message
    assert "obygaze store info STORE --clips" in str(caught.value.hint)


def test_clips_of_other_films_are_left_out_with_their_reasons(path: Path) -> None:
    """Of a manifest with clips that the store lacks, only those of the film count."""
    store = open_store(path)
    clips = [Clip("clip-00", "tt0"), Clip("new-0", "tt0"), Clip("new-1", "tt1")]
    matrix = store.matrix("clip", clips=clips, films=["tt0"], missing="nan")
    assert matrix.present.tolist() == [True, False]
    assert list(matrix.reasons) == ["new-0"]
    assert len(store.matrix("clip", clips=[], films=["tt0"])) == 0
    with pytest.raises(Mismatch, match="'clip-00' is of the film 'tt9', not 'tt0'"):
        store.matrix("clip", clips=[Clip("clip-00", "tt9")], films=["tt0"])


def test_missing_rows_become_nan_or_are_dropped(path: Path, values) -> None:
    store = open_store(path)
    clips = ["clip-22", "no such", "clip-03", "clip-01"]
    matrix = store.matrix("clip", clips=clips, missing="nan")
    assert matrix.present.tolist() == [True, False, False, True]
    np.testing.assert_array_equal(matrix.values[[0, 3]], values["clip"][[22, 1]])
    assert np.isnan(matrix.values[[1, 2]]).all()
    assert {clip: reason.status for clip, reason in matrix.reasons.items()} == {
        "no such": "missing",
        "clip-03": "failed",
    }
    matrix = store.matrix("clip", clips=clips, missing="drop")
    np.testing.assert_array_equal(matrix.values, values["clip"][[22, 1]])
    assert matrix.clip_ids.tolist() == ["clip-22", "clip-01"]
    assert len(store["clip"]) == 21
    present, reasons = store.presence(clips)
    assert present.tolist() == [True, False, False, True]
    assert reasons == matrix.reasons


def test_rows_that_are_not_there_are_refused(path: Path) -> None:
    for rows in ([-1], [23]):
        with pytest.raises(FixInput, match="expected rows from"):
            open_store(path).read("clip", rows)
    with pytest.raises(NotFound, match="no array 'clap'"):
        open_store(path).matrix("clap")
    with pytest.raises(NotFound, match="no film 'tt9'"):
        open_store(path).matrix("clip", films=["tt9"])
    unknown: Any = "skip"
    with pytest.raises(FixInput, match="missing must be"):
        open_store(path).matrix("clip", missing=unknown)
    with pytest.raises(FixInput, match="list of ids"):
        open_store(path).matrix("clip", clips="clip-01")


def test_a_pickled_store_that_was_replaced_is_an_error(tmp_path: Path) -> None:
    rows = rows_of(["a", "b"], ["f", "f"])
    write_plain_store(tmp_path / "s", {"clip": some(2, 4)}, rows)
    pickled = pickle.dumps(open_store(tmp_path / "s"))
    (tmp_path / "s").rename(tmp_path / "t")
    write_plain_store(tmp_path / "s", {"clip": some(2, 5)}, rows)
    with pytest.raises(Mismatch, match="different store: expected the seal"):
        pickle.loads(pickled)  # noqa: S301


def test_a_seal_can_be_expected(path: Path) -> None:
    store = open_store(path)
    assert open_store(f"{path}#sha256={store.seal}").seal == store.seal
    assert open_store(path, expect=f" sha256:{store.seal.upper()}").seal == store.seal
    assert open_store(store, expect=store.seal) is store
    other = "0" * 64
    for wrong in (path, store):
        with pytest.raises(Mismatch) as caught:
            open_store(wrong, expect=other)
        assert caught.value.exit_code == 5
    for wrong in ("", "12"):
        with pytest.raises(FixUsage, match="64 hex digits"):
            open_store(path, expect=wrong)
    with pytest.raises(FixUsage, match="#sha256= and --expect differ"):
        open_store(f"{path}#sha256={store.seal}", expect=other)
    with pytest.raises(FixUsage, match="unknown ending"):
        open_store("https://example.org/s#sha265=12")


def test_names_are_those_of_the_workspace(tmp_path: Path) -> None:
    stores = tmp_path / "stores"
    rows = rows_of(["a", "b"], ["f", "f"])
    seal = write_plain_store(stores / "one", {"clip": some(2, 4)}, rows)
    old_place = stores / f"one.before-{'1' * 8}"
    old = write_plain_store(old_place, {"x": some(2, 4)}, rows)
    assert open_store("one", workspace=tmp_path).seal == seal
    for name in (f"one.before-{'1' * 8}", "one.next"):
        with pytest.raises(NotFound, match="cannot be the name of a store"):
            open_store(name, workspace=tmp_path)
    assert open_store(stores / f"one.before-{'1' * 8}").seal == old
    with pytest.raises(NotFound, match=r"no store called 'one.before'") as caught:
        open_store("one.before", workspace=tmp_path)
    assert caught.value.hint == "use one of one"
    with pytest.raises(NotFound, match=r"no store called 'on' \(did you mean 'one'"):
        open_store("on", workspace=tmp_path)
    with pytest.raises(NotFound, match="no such file or folder"):
        open_store(tmp_path / "absent")
    with pytest.raises(FixInput, match="expected the folder of a store"):
        open_store(stores / "one" / "chunks.crc32c")
    with pytest.raises(NotFound, match="no store here"):
        open_store(stores)
    with pytest.raises(FixUsage, match="the folder of a store"):
        open_store(np.zeros(3))  # type: ignore[arg-type]


def test_the_manifest_is_found_by_its_name_only(tmp_path: Path) -> None:
    rows = rows_of(["a", "b"], ["f", "f"])
    values = {"clip": some(2, 4)}
    write_plain_store(tmp_path / "s", values, rows, manifest_name="../../etc/passwd")
    store = open_store(tmp_path / "s")
    assert store.find_manifest(Workspace(tmp_path)) is None


@pytest.mark.parametrize(("ids", "is_of_store"), [(["a", "x"], True), (["x"], False)])
def test_a_manifest_of_another_lab_has_no_clip_of_a_store(tmp_path, ids, is_of_store):
    values = {"clip": some(2, 4)}
    rows = rows_of(["a", "b"], ["f", "f"])
    write_plain_store(tmp_path / "s", values, rows, manifest_name="films")
    clips = tuple(Clip(clip_id, "f") for clip_id in ids)
    manifest = Manifest("films", Header("films"), clips)
    (tmp_path / "manifests").mkdir()
    write_manifest(manifest, tmp_path / "manifests" / "films.toml")
    store = open_store(tmp_path / "s")
    assert (store.find_manifest(Workspace(tmp_path)) is not None) is is_of_store


def test_row_numbers_are_whole_numbers(path, values) -> None:
    store = open_store(path)
    for rows in ([2, 11], np.array([2, 11], np.uint8)):
        np.testing.assert_array_equal(store.read("clip", rows), values["clip"][[2, 11]])
    assert store.read("clip", []).shape == (0, 4)
    for rows, kind in (([1.9], "float64"), ([True] * 23, "bool")):
        with pytest.raises(FixInput, match=f"whole numbers, got {kind}"):
            store.read("clip", rows)
    for rows in (3, [[0], [1]], [[0, 1], [2, 3]]):
        with pytest.raises(FixInput, match="got int64 of shape"):
            store.read("clip", rows)


def test_the_only_array_needs_no_name(path: Path, tmp_path: Path) -> None:
    rows = rows_of(["a", "b"], ["f", "f"])
    vectors = some(2, 4)
    write_plain_store(tmp_path / "one", {"clip": vectors}, rows)
    store = open_store(tmp_path / "one")
    np.testing.assert_array_equal(store.matrix().values, vectors)
    (piece,) = store.stream()
    np.testing.assert_array_equal(piece.values, vectors)
    asked = "name of the array is required: one of clip, frames"
    with pytest.raises(FixUsage, match=asked):
        open_store(path).matrix()


def test_a_store_with_a_row_of_each_status(tmp_path: Path) -> None:
    """Each is counted once, and only the clip that is ok has features."""
    ids = [f"clip-{number}" for number in range(len(WORDS))]
    given = {row: (word, "why, in words") for row, word in enumerate(WORDS) if row}
    rows = rows_of(ids, ["film"] * len(ids), given)
    values = np.ones((len(ids), 4), np.float32)
    folder = tmp_path / "stores" / "s"
    folder.parent.mkdir()
    write_plain_store(folder, {"clip": values}, rows, arrays=[array_of("clip", values)])
    assert verify(folder, hashes=True).problems == []
    store = open_store(folder)
    assert store.status().counts == dict.fromkeys(WORDS, 1)
    assert [row.status for row in store.rows] == list(STATUSES)
    assert all(isinstance(row.status, RowStatus) for row in store.rows)
    assert store.matrix("clip", missing="drop").clip_ids.tolist() == ["clip-0"]
    info = call_obygaze("-C", tmp_path, "store", "info", "s", "--json").ok().json()
    assert info["counts"] == dict.fromkeys(WORDS, 1)
    state = status_at(folder)
    assert state is not None and state.counts == dict.fromkeys(WORDS, 1)
    known = state.to_json()
    assert [known[key] for key in COUNTED] == [1] * len(WORDS)
    assert known["failures"]["clip-3"] == "silent: why, in words"
    # What is planned for others is no failure.
    planned = WORDS.index("not-extracted")
    assert [*known["failures"]] == [*ids[1:planned], *ids[planned + 1 :]]
