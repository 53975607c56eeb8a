import contextlib
import errno
import io
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.damage import flip_bit
from support.printed_lines import run_printed_lines
from support.stores import imported, values_of
from support.written_stores import lasting_bytes

import obygaze as og
from obygaze_features.core.errors import Corrupt, FixInput, FixUsage, Mismatch
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import Store, importing, layout
from obygaze_features.store.importing import (
    arrays,
    import_features,
    open_features,
    staging,
    write_features,
)
from obygaze_features.store.reading import open_store

IDS = ["tt02-010", "tt02-9", "tt01-001"]
X = np.array([[1.5, 2, 3], [4, 5, 6], [7, 8, 9]], dtype=np.float32)


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **{name: np.asarray(array) for name, array in arrays.items()})
    return path


def a_manifest(clips: list[Clip], **header: str) -> Manifest:
    return Manifest("films", Header("made up", {}, **header), tuple(clips))


def test_films_come_from_the_file_where_it_has_them(tmp_path: Path) -> None:
    file = saved(tmp_path / "f.npz", clip_id=IDS, movie_id=[7, 7, 3], X=X)
    assert imported(file, tmp_path / "s").movie_ids.tolist() == ["7", "7", "3"]
    file = saved(tmp_path / "g.npz", clip_id=IDS, movie_id=["a", "", ""], X=X)
    missing = "got 2 of 3 clips without a film, such as 'tt02-9'"
    with pytest.raises(FixInput, match=missing):
        import_features(file, tmp_path / "t")
    file = saved(tmp_path / "h.npz", clip_id=IDS, movie_id=["Né", "Ne", "Ne"], X=X)
    with pytest.raises(FixInput, match="'Né' and 'Ne' both become the film 'Ne'"):
        import_features(file, tmp_path / "u")


def test_ids_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    file = saved(tmp_path / "f.npz", clip_id=["A-1", "b-1", "a-1"], X=X)
    with pytest.raises(FixInput, match="differ only in case: 'A-1 and a-1'"):
        import_features(file, tmp_path / "s")


def test_names_that_the_manifest_changed_are_known(tmp_path: Path) -> None:
    clips = [Clip("Amelie_1", "a"), Clip("tt1-002", "a"), Clip("Juno_3", "a")]
    # With an accent, as it is, with a blank.
    ids = ["Ame\u0301lie 1", "tt1-002", "Juno 3"]
    file = saved(tmp_path / "f.npz", clip_id=ids, X=X)
    store = imported(file, tmp_path / "s", manifest=a_manifest(clips))
    known = values_of(store, "clip", ["Amelie_1", "tt1-002", "Juno_3"])
    np.testing.assert_array_equal(known, X)
    twice = saved(tmp_path / "g.npz", clip_id=["Juno_3", "Juno 3", "x"], X=X)
    several = "several rows of the files have the same clip id: Juno_3"
    with pytest.raises(FixInput, match=several):
        import_features(twice, tmp_path / "t", manifest=a_manifest(clips))


def test_numbers_that_cannot_be_stored_are_failed_rows(tmp_path: Path) -> None:
    values = np.array([[1, 2], [np.nan, 1], [1e300, 1], [0, 0], [1e-60, 0], [1e-60, 1]])
    ids = [f"a-{number}" for number in range(6)]
    file = saved(tmp_path / "f.npz", clip_id=ids, X=values)
    done = import_features(file, tmp_path / "s")
    assert list(done.failed) == ["a-1", "a-2", "a-4"]
    problem = "clip has NaN, infinity or numbers beyond float32"
    assert set(done.failed.values()) == {problem}
    store = open_store(tmp_path / "s")
    assert values_of(store, "clip", ["a-0", "a-3"]).tolist() == [[1, 2], [0, 0]]
    assert store.rows[1].reason == done.failed["a-1"]
    whole = saved(tmp_path / "i.npz", clip_id=ids[:2], X=[[2**24, 1], [2**24 + 1, 1]])
    done = import_features(whole, tmp_path / "i", arrays={"clip": "X"})
    assert done.failed == {"a-1": problem}
    bad = saved(tmp_path / "g.npz", clip_id=ids[:1], X=values[1:2])
    unusable = "no clip has usable features; the first clip: clip"
    with pytest.raises(FixInput, match=unusable):
        import_features(bad, tmp_path / "t")


@pytest.mark.parametrize(("order", "layout"), [("<f4", "F"), (">f4", "C")])
def test_bytes_in_any_order_are_the_same_numbers(tmp_path, order, layout) -> None:
    values = np.asarray(X.astype(order), order=layout)
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=values)
    found = values_of(imported(file, tmp_path / "s"), "clip", IDS)
    np.testing.assert_array_equal(found, X)


def test_of_several_arrays_none_is_pooled_unless_it_is_named(tmp_path: Path) -> None:
    several = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    file = saved(tmp_path / "f.npz", clip_id=IDS, frames=several, tokens=several + 1)
    with pytest.raises(FixInput, match="the array 'pooled' occurs twice"):
        import_features(file, tmp_path / "s", pool="max", keep_frames=True)
    more = {"keep_frames": True, "arrays": {"tokens": "tokens"}}
    store = imported(file, tmp_path / "s", pool="max", **more)
    np.testing.assert_array_equal(values_of(store, "pooled", IDS), several[:, 1] + 1)
    store = imported(file, tmp_path / "t", pool="max")
    np.testing.assert_array_equal(values_of(store, "frames", IDS), several[:, 1])
    np.testing.assert_array_equal(values_of(store, "tokens", IDS), several[:, 1] + 1)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"clip_id": [IDS], "X": X}, "expected a list of ids"),
        ({"clip_id": np.zeros(3), "X": X}, "not ids"),
        ({"clip_id": np.array(IDS, dtype=object), "X": X}, "unpickled"),
        ({"clip_id": ["a", "b", ""], "X": X}, "empty id"),
        ({"clip_id": IDS, "X": np.zeros((3, 0))}, r"clip has usable values; .*\(0,\)"),
        ({"clip_id": np.array([], str), "X": X[:0]}, "clip: no clip has usable values"),
    ],
)
def test_bad_files_are_refused_in_words(tmp_path, arrays, words) -> None:
    file = saved(tmp_path / "f.npz", **arrays)
    chosen = {"clip": "X"} if "X" in arrays else {}
    with pytest.raises((FixInput, Corrupt), match=words):
        import_features(file, tmp_path / "s", arrays=chosen)
    assert list(tmp_path.iterdir()) == [file]


def npy(shape: tuple[int, ...], data: bytes = b"") -> bytes:
    """The bytes of a .npy file that says it has a shape."""
    stream = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + data


def with_array(path: Path, array: bytes, method: int = zipfile.ZIP_STORED) -> Path:
    """An archive with three ids, and the bytes of one array."""
    ids = io.BytesIO()
    np.save(ids, np.array(IDS))
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("clip_id.npy", ids.getvalue())
        archive.writestr("X.npy", array)
    return path


@pytest.mark.parametrize("shape", [(3, 10**12), (3, 40)])
def test_an_array_that_lies_about_its_size_takes_no_memory(tmp_path, shape) -> None:
    file = with_array(tmp_path / "f.npz", npy(shape, bytes(100)))
    with pytest.raises(Corrupt, match=r"'X\.npy' cannot be read: the array is longer"):
        open_features(file)


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch) -> None:
    file = with_array(tmp_path / "f.npz", npy((3, 10**6), bytes(12 * 10**6)))

    class Full(io.BytesIO):
        def __init__(self, dir: Path | None = None) -> None:
            super().__init__()

        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    @contextlib.contextmanager
    def new_file(path: Path) -> Iterator[Full]:
        path.touch()
        yield Full()

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    monkeypatch.setattr(staging, "new_file", new_file)
    # Rows in the order of the file are written into files of the store, others are not.
    for order in (IDS, IDS[::-1]):
        manifest = a_manifest([Clip(one, "a") for one in order])
        with pytest.raises(OSError, match="No space left") as raised:
            import_features(file, tmp_path / "s", manifest=manifest)
        assert raised.value.filename == str(tmp_path / "s")
        assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("n_rows", [1, 255, 256, 257, 600])
def test_rows_in_order_are_written_once(tmp_path, monkeypatch, n_rows: int) -> None:
    """A store is the same whether its files were staged or written from rows.

    A file has 256 rows here, and a chunk 16. What fails in one file stays in this file.
    """
    monkeypatch.setattr(layout, "FILE_BYTES", 2**20)
    draws = np.random.default_rng(n_rows)
    ids = [f"c{number:04d}" for number in range(n_rows)]
    values = draws.standard_normal((n_rows, 1024)).astype("f4")
    tokens = draws.standard_normal((n_rows, 2, 40)).astype("f2")
    values[n_rows // 2, 3] = np.nan
    if n_rows > 300:
        tokens[299, 1] = np.inf
    np.savez(tmp_path / "f.npz", clip_id=ids, clip=values, frames=tokens)
    n_linked = 0
    finished_file = staging.ImportedRows.finished_file

    def counting(rows: Any, array: Any, number: int) -> Any:
        nonlocal n_linked
        found = finished_file(rows, array, number)
        n_linked += found is not None
        return found

    if n_rows > 1:
        monkeypatch.setattr(staging.ImportedRows, "finished_file", counting)
        staged = import_features(tmp_path / "f.npz", tmp_path / "staged")
        # Two arrays; a file with a failed row is written anew.
        n_files = -(-n_rows // 256)
        failed = {n_rows // 2 // 256, *([299 // 256] if n_rows > 300 else [])}
        assert n_linked == 2 * (n_files - len(failed))
        no_file = lambda *_: None  # noqa: E731
        monkeypatch.setattr(staging.ImportedRows, "finished_file", no_file)
        written = import_features(tmp_path / "f.npz", tmp_path / "written")
        assert staged.failed == written.failed
        one, two = (lasting_bytes(tmp_path / name) for name in ("staged", "written"))
        assert one == two
        store = open_store(tmp_path / "staged")
        kept = [row for row in range(n_rows) if ids[row] not in staged.failed]
        for name, expected in {"clip": values, "frames": tokens}.items():
            found = store.matrix(name, missing="drop").values
            np.testing.assert_array_equal(found, expected[kept])
    else:
        with pytest.raises(FixInput, match="no clip has usable features"):
            import_features(tmp_path / "f.npz", tmp_path / "staged")
    assert {path.name for path in tmp_path.iterdir()} <= {"f.npz", "staged", "written"}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_flipped_bit_of_an_archive_is_found(tmp_path: Path, method: int) -> None:
    rows = np.random.default_rng(1).normal(size=(3, 5000)).astype(np.float32)
    file = with_array(tmp_path / "f.npz", npy((3, 5000), rows.tobytes()), method)
    found = values_of(imported(file, tmp_path / "s"), "clip", IDS)
    np.testing.assert_array_equal(found, rows)
    flip_bit(file, file.stat().st_size // 2)
    with pytest.raises(Corrupt, match="cannot be read"):
        import_features(file, tmp_path / "t")


def test_files_that_change_after_they_were_read_change_nothing(tmp_path, monkeypatch):
    values = np.ones((3, 2), np.float32)
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=values)

    class Changed(staging.ImportedRows):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            data = file.read_bytes()
            nan = np.full((3, 2), np.nan, np.float32).tobytes()
            file.write_bytes(data.replace(values.tobytes(), nan))

    monkeypatch.setattr(importing, "ImportedRows", Changed)
    store = imported(file, tmp_path / "s")
    assert np.full((3, 2), np.nan, np.float32).tobytes() in file.read_bytes()
    np.testing.assert_array_equal(values_of(store, "clip", IDS), values)


@settings(max_examples=12)
@given(data=st.data())
def test_rows_in_any_order_are_found(tmp_path_factory, data) -> None:
    """Against a dictionary, with limits that are so small that rows come in many pieces."""
    folder = tmp_path_factory.mktemp("order")
    n_clips = data.draw(st.integers(1, 30))
    ids = data.draw(st.permutations([f"m-{number}" for number in range(n_clips)]))
    values = np.arange(n_clips * 2, dtype=np.float32).reshape(n_clips, 2)
    is_bad = data.draw(st.lists(st.booleans(), min_size=n_clips, max_size=n_clips))
    values[is_bad, 1] = np.inf
    value_of_clip = dict(zip(ids, values, strict=True))
    pack = data.draw(st.sampled_from([np.savez, np.savez_compressed]))
    file = folder / "x.npz"
    pack(file, clip_id=np.array(ids), clip=values)
    names = data.draw(st.permutations([*ids, "other"]))
    names = names[: data.draw(st.integers(1, n_clips + 1))]
    is_good = {clip: np.isfinite(value).all() for clip, value in value_of_clip.items()}
    usable = [clip for clip in names if is_good.get(clip)]
    manifest = a_manifest([Clip(clip, "m") for clip in names])
    most_bytes = data.draw(st.sampled_from([8, 40, 2**26]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "BATCH_BYTES", most_bytes)
        patch.setattr(staging, "LEAST_ROW_BYTES", 1)
        if not usable:
            with pytest.raises(FixInput):
                import_features(file, folder / "s", manifest=manifest)
            return
        store = imported(file, folder / "s", manifest=manifest)
    assert store.clip_ids.tolist() == names
    for row in store.rows:
        assert row.is_ok == (row.clip_id in usable)
    expected = [value_of_clip[clip] for clip in usable]
    np.testing.assert_array_equal(values_of(store, "clip", usable), expected)


@pytest.mark.parametrize(("name", "clip"), [("eb-1", "EB-1"), ("EB-01", "EB-1")])
def test_an_id_is_compared_as_it_is(tmp_path: Path, name: str, clip: str) -> None:
    manifest = a_manifest([Clip(clip, "lake", video="film.mp4")])
    file = saved(tmp_path / "f.npz", clip_id=[name], X=X[:1])
    unknown = "no clip of the manifest is in the files"
    with pytest.raises(FixInput, match=unknown) as error:
        import_features(file, tmp_path / "s", manifest=manifest)
    assert f"the files have {name}, the manifest has {clip}" in error.value.message


def test_labels_are_never_read_because_they_come_first(tmp_path: Path) -> None:
    """Of several arrays, the one that experiments read has a usual name, or is asked for."""
    labels = {"clip_id": IDS, "a_label": np.eye(3, 2)}
    file = saved(tmp_path / "f.npz", **labels, features=X)
    with pytest.raises(FixInput, match="no array is clearly the features") as e:
        import_features(file, tmp_path / "s")
    assert "a_label" in e.value.message and "--array NAME=KEY" in str(e.value.hint)
    file = saved(tmp_path / "clip.npz", **labels, clip=X)
    assert imported(file, tmp_path / "usual").default_array == "clip"
    named = {"a_label": "a_label", "x": "clip"}
    store = imported(file, tmp_path / "named", arrays=named)
    assert store.default_array == "a_label"


def test_the_mask_of_another_array_fails_no_clip(tmp_path: Path) -> None:
    """It belongs to no array that is stored, so that nothing depends on it."""
    file = saved(tmp_path / "f.npz", clip_id=IDS, clip=X, mask=[[1, 0], [0, 0], [2, 1]])
    done = import_features(file, tmp_path / "s")
    assert not done.failed
    assert "not imported, because no array needs them: mask" in done.remarks


def test_the_mask_that_was_named_is_the_mask(tmp_path: Path) -> None:
    frames = np.ones((3, 2, 4), np.float32) * [[[1], [9]]]
    mine = np.array([[1, 0], [1, 1], [1, 0]])
    arrays = {"frames": frames, "mask": np.ones((3, 2)), "mine": mine}
    file = saved(tmp_path / "f.npz", clip_id=IDS, **arrays)
    named = {"frames": "frames", "mask": "mine"}
    store = imported(file, tmp_path / "s", arrays=named)
    np.testing.assert_array_equal(store.real_frames("frames", np.arange(3)), mine)
    pooled = imported(file, tmp_path / "p", arrays=named, pool="max")
    assert values_of(pooled, "frames", IDS).max(axis=1).tolist() == [1, 9, 1]


def test_what_does_not_fit_on_the_disk_is_not_unpacked(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(arrays, "free_bytes", lambda folder: 100)
    file = tmp_path / "f.npz"
    np.savez_compressed(file, clip_id=IDS, clip=X)
    with pytest.raises(FixInput, match="on the disk, and 100 B are free"):
        import_features(file, tmp_path / "s")


def test_a_format_has_only_its_own_options(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(2))
    with pytest.raises(FixUsage, match="--id-key do not apply to npy"):
        open_features(tmp_path, id_key="names")
    unknown: Any = "average"
    with pytest.raises(FixUsage, match="unknown pool 'average'"):
        import_features(tmp_path, tmp_path / "e", pool=unknown)


def test_a_mask_of_other_sizes_is_refused_where_frames_are_kept(tmp_path: Path) -> None:
    frames = np.ones((3, 2, 4), np.float32)
    expected = r"expected one value of mask for each frame of .*\(2, 4\)"
    for number, mask in enumerate((np.ones((3, 3)), np.ones((3, 2, 1)))):
        file = saved(tmp_path / f"{number}.npz", clip_id=IDS, frames=frames, mask=mask)
        with pytest.raises(FixInput, match=expected):
            import_features(file, tmp_path / "s")


def test_numbers_of_words_that_are_too_large_are_failed_rows(tmp_path: Path) -> None:
    file = saved(tmp_path / "f.npz", clip_id=IDS, clip=X, n_words=[2, 2**32 + 5, 3])
    done = import_features(file, tmp_path / "s")
    assert done.failed == {IDS[1]: "n_words has NaN, infinity or numbers beyond int32"}


def test_numbers_of_words_beside_vectors_must_be_read_too(tmp_path: Path) -> None:
    """All clips without words have one vector, which nothing else would show."""
    with h5py.File(tmp_path / "f.h5", "w") as file:
        for clip, vector, n_words in zip(IDS, X, [4, 0, 7], strict=True):
            file[f"{clip}/clip"] = vector
            file[f"{clip}/n_words"] = n_words
    each = {"clip": "{id}/clip"}
    with pytest.raises(FixInput, match=r"n_words next to \{id\}/clip is not read"):
        import_features(tmp_path / "f.h5", tmp_path / "s", arrays=each)
    each["n_words"] = "{id}/n_words"
    store = imported(tmp_path / "f.h5", tmp_path / "s", arrays=each)
    rows = store.table.find(IDS)
    assert store.has_words("clip", rows).tolist() == [True, False, True]


def test_of_one_vector_a_clip_nothing_is_pooled(tmp_path: Path) -> None:
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=X)
    plain = imported(file, tmp_path / "a", backbone="mine")
    more = {"backbone": "mine", "pool": "max", "keep_frames": True}
    asked = imported(file, tmp_path / "b", **more)
    assert asked.recipe == plain.recipe


def test_an_array_keeps_its_place_when_it_is_pooled(tmp_path: Path) -> None:
    """An experiment reads the first array with one vector a clip."""
    frames = np.ones((3, 2, 4), np.float32)
    file = saved(tmp_path / "f.npz", clip_id=IDS, clip=X, frames=frames)
    store = imported(file, tmp_path / "s", pool="max")
    assert [array.name for array in store.record.arrays] == ["clip", "pooled"]


def test_arrays_in_memory_are_stored_as_those_of_a_file(tmp_path: Path) -> None:
    """Ids, films, times, numbers that cannot be stored, masks and pooling."""
    given: dict[str, Any] = {"movie_id": ["tt02", "tt02", "tt01"]}
    given |= {"start_s": np.array([1.0, np.nan, 3.0]), "end_s": np.array([2.0, 4, 5])}
    frames = np.arange(24.0).reshape(3, 2, 4)
    given |= {"frames": frames, "mask": np.array([[1, 0], [1, 1], [0, 0]])}
    given["clip"] = np.where(np.arange(9).reshape(3, 3) == 4, np.nan, X)
    file = saved(tmp_path / "f.npz", clip_id=IDS, **given)
    clips = [Clip("tt02-9", "tt02", end_s=4.0), Clip("tt02-010", "tt02", start_s=1.0)]
    more: Any = {"pool": "mean", "keep_frames": True, "backbone": "theirs"}
    more |= {"licence": "CC0-1.0", "citation": "Doe 2026"}
    for manifest in (None, a_manifest([*clips, Clip("tt01-001", "tt01")])):
        stores = []
        for name, ids, arrays_of_clips in (
            ("list", IDS, given),
            ("array", np.array(IDS, object), {**given, "frames": frames.tolist()}),
        ):
            place = tmp_path / f"{name}-{manifest is None}"
            done = write_features(
                place, ids, arrays_of_clips, manifest=manifest, **more
            )
            stores.append((done, open_store(place)))
        place = tmp_path / f"file-{manifest is None}"
        named = {name: name for name in ("frames", "mask", "clip")}
        done = import_features(file, place, manifest=manifest, arrays=named, **more)
        expected = open_store(place)
        reason = "clip has NaN, infinity or numbers beyond float32"
        assert done.failed == {"tt02-9": reason, "tt01-001": "mask has no real frame"}
        for written, store in stores:
            assert written.failed == done.failed
            assert written.arrays == done.arrays
            assert store.rows[:] == expected.rows[:]
            assert store.recipe == expected.recipe
            for array in expected.record.arrays:
                found = store.matrix(array.name, missing="drop").values
                there = expected.matrix(array.name, missing="drop").values
                np.testing.assert_array_equal(found, there)
    (origin,) = stores[0][1].record.origins
    assert origin.place == "memory" and origin == stores[1][1].record.origins[0]


def test_arrays_in_memory_without_a_backbone_are_of_their_numbers(tmp_path) -> None:
    """Only equal arrays have one recipe, as only equal files have."""
    fingerprints = []
    for number, values in enumerate((X, X.copy(order="F"), X + 1)):
        done = write_features(tmp_path / f"s{number}", IDS, {"clip": values})
        assert importing.ONLY_THESE_FILES in done.remarks
        fingerprints.append(open_store(done.path).fingerprint)
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


@pytest.mark.parametrize(
    ("ids", "changed", "words"),
    [
        (["a", "b", ""], {}, "empty id"),
        (["a", "b", None], {}, "not ids"),
        (["a", "b"], {}, "expected a row for each of 2 ids"),
        (["a", "a", "b"], {}, "the clip 'a' occurs twice"),
        (IDS, {"clip": [[1.0], [1.0, 2.0], [3.0]]}, "clip: expected an array"),
        (IDS, {"clip": np.array([["a"]] * 3)}, "expected an array of numbers, got <U1"),
        (IDS, {"clip": X.astype(complex)}, "expected an array of numbers, got complex"),
        (IDS, {"clip": np.ma.array(X, mask=X > 8)}, "expected values without a mask"),
        (IDS, {"clip": X * np.nan}, "no clip has usable features"),
        (IDS, {"clip_id": IDS}, "expected the ids as `ids`"),
        (IDS, {"start_s": [2, 2, 2], "end_s": [1, 3, 3]}, "end_s is before start_s"),
        (IDS, {"movie_id": ["Né", "Ne", "Ne"]}, "both become the film 'Ne'"),
        (IDS, {"A-1": X}, "cannot be the name"),
    ],
)
def test_bad_arrays_in_memory_are_refused(tmp_path, ids, changed, words) -> None:
    with pytest.raises((FixInput, FixUsage), match=words):
        write_features(tmp_path / "s", ids, {"clip": X, **changed})
    assert not (tmp_path / "s").exists()
    assert not list(tmp_path.iterdir())


def test_the_lines_that_are_printed_for_parquet_write_the_store(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    columns = {"name": IDS, "movie_id": ["a", "a", "b"], "vector": list(X)}
    (tmp_path / "sent").mkdir()
    pandas.DataFrame(columns).to_parquet(tmp_path / "sent/x.parquet")
    given: Any = {"arrays": {"clip": "vector"}, "id_key": "name", "backbone": "x-clip"}
    given["manifest"] = a_manifest([Clip(one, "a") for one in IDS])
    for source in ("sent/x.parquet", "sent"):
        with pytest.raises(FixInput, match="Parquet is not read") as caught:
            import_features(tmp_path / source, tmp_path / "s", **given)
        lines = "\n".join(caught.value.details)
        assert "manifest='films', backbone='x-clip'" in lines
        assert not (tmp_path / "s").exists()
    lines = lines.replace(", manifest='films'", "")
    run_printed_lines(lines, tmp_path)
    store = open_store(tmp_path / "s")
    np.testing.assert_array_equal(values_of(store, "clip", IDS), X)
    assert store.movie_ids.tolist() == ["a", "a", "b"]
    assert store.recipe.facts == {"backbone": "x-clip"}


def test_the_array_that_was_read_decides_what_merges(tmp_path: Path) -> None:
    """Two layers of one model are not one kind of features, unless somebody says so."""
    file = tmp_path / "x.npz"
    ids = [f"c{number}" for number in range(6)]
    np.savez(file, clip_id=ids, layer6=np.ones((6, 4), "f4"), layer12=np.eye(6, 4))
    half = tmp_path / "half.npz"
    values = {key: np.full((2, 4), 0.5, "f4") for key in ("layer6", "clip")}
    np.savez(half, clip_id=["d0", "d1"], **values)

    def made(name: str, source: Path, key: str, **more: Any) -> Store:
        return imported(
            source, tmp_path / name, arrays={"clip": key}, backbone="vit", **more
        )

    six = made("six", file, "layer6")
    made("twelve", file, "layer12")
    made("same", half, "layer6")
    made("plain", half, "clip")
    assert six.recipe.facts == {"backbone": "vit", "arrays": {"clip": "layer6"}}
    assert "arrays.clip layer6" in str(og.store.info(six))
    assert "layer6" in (tmp_path / "six/README.md").read_text("utf-8")
    og.store.merge([tmp_path / "six", tmp_path / "same"], tmp_path / "merged")
    for other in ("twelve", "plain"):
        with pytest.raises(Mismatch, match=r"arrays") as error:
            og.store.merge([tmp_path / "same", tmp_path / other], tmp_path / "no")
        assert "--layer" in str(error.value.hint)
    # Keys of files have no meaning where the layer is stated.
    told = [made("told", file, "layer6", layer="block 6")]
    told.append(made("told-too", half, "clip", layer="block 6"))
    assert told[0].recipe.facts == {"backbone": "vit", "layer": "block 6"}
    assert told[0].fingerprint == told[1].fingerprint
    og.store.merge([tmp_path / "told", tmp_path / "told-too"], tmp_path / "both")
    og.store.export(six, tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        assert "layer6" in str(out["obygaze_origin"])
