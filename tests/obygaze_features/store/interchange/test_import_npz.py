from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze

from obygaze_features.core.errors import Corrupt, FixInput, FixUsage, Mismatch
from obygaze_features.store import open_store
from obygaze_features.store.interchange import open_features
from obygaze_features.store.interchange.importing import ImportSettings, import_store
from obygaze_features.store.interchange.source import film_of
from obygaze_features.store.write.edit import ManifestClips

IDS = ["tt02-010", "tt02-9", "tt01-001"]
X = np.array([[1.5, 2, 3], [4, 5, 6], [7, 8, 9]], dtype=np.float32)


def saved(path: Path, **arrays: object) -> Path:
    np.savez(path, **{name: np.asarray(array) for name, array in arrays.items()})
    return path


def test_an_array_is_stored_and_clips_are_read_by_id(tmp_path: Path) -> None:
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=X)
    done = call_obygaze(
        *("-C", tmp_path, "store", "import", "npz", file),
        *("--id-key", "clip_id", "--array", "clip=X", "-o", "made"),
    ).ok()
    assert "3 of 3 clips, clip [3], sealed" in done.stdout
    store = open_store(tmp_path / "stores" / "made")
    assert store.sealed
    matrix = store.matrix("clip", clips=IDS)
    assert matrix.values.dtype == np.float32
    np.testing.assert_array_equal(matrix.values, X)


@pytest.mark.parametrize(
    "key", ["clip_ids", "ids", "id", "names", "video_names", "keys"]
)
def test_usual_names_of_ids_are_known(tmp_path: Path, key: str) -> None:
    file = saved(tmp_path / "f.npz", X=X, **{key: IDS})
    source = open_features("npz", [file], {"clip": "X"})
    import_store(source, tmp_path / "s")
    np.testing.assert_array_equal(
        open_store(tmp_path / "s").matrix("clip", clips=IDS).values, X
    )
    other = saved(tmp_path / "g.npz", clips=IDS, X=X)
    with pytest.raises(FixInput, match="no array 'clip_id'") as caught:
        open_features("npz", [other], {"clip": "X"})
    assert "--id-key KEY" in str(caught.value.hint)


def test_rows_are_in_the_order_of_film_and_scene(tmp_path: Path) -> None:
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=X)
    import_store(open_features("npz", [file], {"clip": "X"}), tmp_path / "s")
    store = open_store(tmp_path / "s")
    assert store.clip_ids.tolist() == ["tt01-001", "tt02-9", "tt02-010"]
    assert store.movie_ids.tolist() == ["tt01", "tt02", "tt02"]


def test_a_licence_that_is_given_to_a_later_import_is_that_of_the_store(
    tmp_path: Path,
) -> None:
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=X)
    words = ("-C", tmp_path, "store", "import", "npz", file, "-o", "made")
    call_obygaze(*words).ok()
    call_obygaze(*words, "--licence", "CC0-1.0", "--citation", "Doe (2026).").ok()
    store = open_store(tmp_path / "stores" / "made")
    assert store.sealed and store.terms == ("CC0-1.0", "Doe (2026).")
    call_obygaze(*words).ok()
    refused = call_obygaze(*words, "--licence", "MIT")
    assert (
        refused.code == 1 and "has the licence 'CC0-1.0', got 'MIT'" in refused.stderr
    )
    assert open_store(tmp_path / "stores" / "made").licence == "CC0-1.0"


def test_films_come_from_the_file_where_it_has_them(tmp_path: Path) -> None:
    file = saved(tmp_path / "f.npz", names=IDS, movie_id=[7, 7, 3], X=X)
    source = open_features("npz", [file], {"clip": "X"}, id_key="names")
    import_store(source, tmp_path / "s")
    assert open_store(tmp_path / "s").movie_ids.tolist() == ["3", "7", "7"]


def test_other_names_count_without_a_manifest_too(tmp_path: Path) -> None:
    npz = saved(tmp_path / "a.npz", clip_id=["m-2", "v1"], clip=np.float32([[2], [1]]))
    done = import_store(
        open_features("npz", [npz]), tmp_path / "s", aliases={"v1": "m-1"}
    )
    assert (done.failed, done.not_in_manifest) == ({}, [])
    store = open_store(tmp_path / "s")
    assert store.clip_ids.tolist() == ["m-1", "m-2"]
    assert store.movie_ids.tolist() == ["m", "m"]
    assert store.matrix("clip").values.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("clip", "film"),
    [("tt1-002", "tt1"), ("a-b-c", "a-b"), ("alone", "alone"), ("-1", "-1")],
)
def test_a_film_is_what_comes_before_the_last_hyphen(clip: str, film: str) -> None:
    assert film_of(clip) == film


def test_a_row_that_is_not_finite_is_a_failed_row(tmp_path: Path) -> None:
    odd = X.copy()
    odd[1, 2] = np.nan
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=odd)
    done = call_obygaze(
        *(
            "-C",
            tmp_path,
            "store",
            "import",
            "npz",
            file,
            "--array",
            "clip=X",
            "-o",
            "s",
        ),
        "--json",
    )
    assert done.code == 3
    assert list(done.json()["failed"]) == ["tt02-9"]


def test_without_arrays_every_array_with_a_row_for_each_id_is_one(
    tmp_path: Path,
) -> None:
    frames = np.arange(3 * 2 * 4, dtype=np.float16).reshape(3, 2, 4)
    file = saved(
        tmp_path / "f.npz", clip_id=IDS, clip=X, frames=frames, mean=np.zeros(3)
    )
    source = open_features("npz", [file], {})
    assert source.names == ("clip", "frames")
    assert source.warnings == ["mean was left out: not an array with a row for each id"]
    import_store(source, tmp_path / "s")
    store = open_store(tmp_path / "s")
    stored = store.matrix("frames", clips=IDS).values
    assert stored.dtype == np.float16
    np.testing.assert_array_equal(stored, frames)


def test_doubles_become_floats_unless_told_otherwise(tmp_path: Path) -> None:
    exact = np.full((3, 2), 1 + 2.0**-40)
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=exact)
    import_store(open_features("npz", [file], {"clip": "X"}), tmp_path / "a")
    assert open_store(tmp_path / "a").matrix("clip").values.tolist() == [[1.0, 1.0]] * 3
    import_store(
        open_features("npz", [file], {"clip": "X"}),
        tmp_path / "b",
        settings=ImportSettings(dtype="float64"),
    )
    assert open_store(tmp_path / "b").matrix("clip").values.tolist() == exact.tolist()


def test_pooling_keeps_the_maximum_over_all_vectors(tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).standard_normal((3, 2, 5, 4)).astype(np.float32)
    file = saved(tmp_path / "f.npz", clip_id=IDS, tokens=tokens)
    import_store(
        open_features("npz", [file], {}),
        tmp_path / "a",
        settings=ImportSettings(pool="also"),
    )
    store = open_store(tmp_path / "a")
    largest = [
        [max(v) for v in zip(*clip.reshape(10, 4), strict=True)] for clip in tokens
    ]
    np.testing.assert_array_equal(store.matrix("pooled", clips=IDS).values, largest)
    assert list(store.feature_arrays) == ["tokens", "pooled"]
    import_store(
        open_features("npz", [file], {}),
        tmp_path / "b",
        settings=ImportSettings(pool="only"),
    )
    np.testing.assert_array_equal(
        open_store(tmp_path / "b").matrix("tokens", clips=IDS).values, largest
    )


def test_the_recipe_is_unknown_and_keeps_what_was_told(tmp_path: Path) -> None:
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=X)
    told = ImportSettings(backbone="x-clip", facts={"frames": "8"}, licence="CC0-1.0")
    import_store(
        open_features("npz", [file], {"clip": "X"}), tmp_path / "s", settings=told
    )
    store = open_store(tmp_path / "s")
    assert store.recipe.is_unknown
    recipe = store.recipe.to_json()["told"]
    assert (recipe["backbone"], recipe["frames"]) == ("x-clip", "8")
    assert recipe["origin"]["levels"] == {"clip": "X"}
    assert store.plan.licence == "CC0-1.0"


def test_the_same_again_is_no_change_and_other_features_are_refused(
    tmp_path: Path,
) -> None:
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=X)
    first = import_store(open_features("npz", [file], {"clip": "X"}), tmp_path / "s")
    assert (
        import_store(open_features("npz", [file], {"clip": "X"}), tmp_path / "s")
        == first
    )
    other = saved(tmp_path / "other.npz", clip_id=IDS, X=X + 1)
    with pytest.raises(Mismatch, match="another recipe"):
        import_store(open_features("npz", [other], {"clip": "X"}), tmp_path / "s")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (
            {"clip_id": IDS},
            "no array of floats has a row for each of the 3 ids; the file has no other array",
        ),
        (
            {"clip_id": IDS, "n": np.arange(6).reshape(3, 2)},
            r"3 ids: n is int64 \[3, 2\]",
        ),
        (
            {"clip_id": IDS, "X": X[:2]},
            "expected 3 rows, one for each id, got the shape",
        ),
        ({"clip_id": [IDS], "X": X}, "expected a list of ids"),
        ({"clip_id": np.zeros(3), "X": X}, "not ids"),
        ({"rows": IDS, "X": X}, "no array 'clip_id'; the file has rows, X"),
        (
            {"clip_idx": IDS, "X": X},
            r"\(did you mean 'clip_idx'\?\); the file has clip_idx, X",
        ),
        ({"clip_id": np.array(IDS, dtype=object), "X": X}, "unpickled"),
        (
            {"clip_id": ["a", "a", "b"], "X": X},
            "1 clip id more than once in the files: a",
        ),
        ({"clip_id": ["a", "b", " "], "X": X}, "cannot be an id"),
    ],
)
def test_bad_files_are_refused_in_words(
    tmp_path: Path, arrays: dict[str, object], words: str
) -> None:
    file = saved(tmp_path / "f.npz", **arrays)
    chosen = {"clip": "X"} if "X" in arrays else {}
    with pytest.raises(FixInput, match=words):
        import_store(open_features("npz", [file], chosen), tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_an_array_that_lies_about_its_size_takes_no_memory(tmp_path: Path) -> None:
    header = io.BytesIO()
    claim = {"descr": "<f4", "fortran_order": False, "shape": (3, 10**12)}
    np.lib.format.write_array_header_1_0(header, claim)
    ids = io.BytesIO()
    np.save(ids, np.array(IDS))
    with zipfile.ZipFile(tmp_path / "f.npz", "w") as packed:
        packed.writestr("clip_id.npy", ids.getvalue())
        packed.writestr("X.npy", header.getvalue())
    with pytest.raises(Corrupt, match="shorter than its shape"):
        open_features("npz", [tmp_path / "f.npz"], {"clip": "X"})


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not really", b"\x93NUMPY"])
def test_what_is_no_npz_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f.npz").write_bytes(content)
    with pytest.raises(Corrupt, match="npz"):
        open_features("npz", [tmp_path / "f.npz"], {})


@pytest.mark.parametrize("word", ["clip", "=X", "clip=", "clip=X --array clip=Y"])
def test_options_that_are_no_pairs_are_refused(tmp_path: Path, word: str) -> None:
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=X)
    words = f"--array {word}".split()
    done = call_obygaze(
        "-C", tmp_path, "store", "import", "npz", file, *words, "-o", "s"
    )
    assert done.code == 2


def test_several_files_become_one_store(tmp_path: Path) -> None:
    first = saved(tmp_path / "a.npz", clip_id=["m-3", "m-1"], X=X[:2])
    second = saved(tmp_path / "b.npz", clip_id=["m-2"], X=X[2:])
    call_obygaze(
        "-C",
        tmp_path,
        "store",
        "import",
        "npz",
        first,
        second,
        "--array",
        "clip=X",
        "-o",
        "s",
    ).ok()
    store = open_store(tmp_path / "stores" / "s")
    np.testing.assert_array_equal(
        store.matrix("clip", clips=["m-3", "m-1", "m-2"]).values, X
    )
    origin = store.recipe.to_json()["told"]["origin"]
    assert [part["file"] for part in origin["parts"]] == ["a.npz", "b.npz"]
    with pytest.raises(FixInput, match="more than once"):
        import_store(
            open_features("npz", [first, first], {"clip": "X"}), tmp_path / "t"
        )
    third = saved(tmp_path / "c.npz", clip_id=["m-9"], Y=X[2:])
    with pytest.raises(FixInput, match="different arrays: clip; y"):
        open_features("npz", [first, third], {})


def test_one_path_is_one_file_and_none_is_an_error(tmp_path: Path) -> None:
    file = saved(tmp_path / "f.npz", clip_id=IDS, clip=X)
    for path in (file, str(file)):
        assert list(open_features("npz", path).clip_ids) == IDS
    with pytest.raises(FixUsage, match="expected at least one file or folder"):
        open_features("npz", [])


def test_no_clips_at_all_is_said_of_the_file(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "none.npz",
        clip_id=np.array([], dtype=str),
        x=np.zeros((0, 3), np.float32),
    )
    with pytest.raises(FixInput, match="no clip has") as error:
        import_store(
            open_features("npz", [tmp_path / "none.npz"], {"clip": "x"}), tmp_path / "s"
        )
    assert error.value.where == "none.npz"


def test_why_no_clip_can_be_used_is_said(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", clip_id=["a-1", "a-2"], x=np.zeros((2, 0), np.float32))
    with pytest.raises(
        FixInput, match=r"no clip has a usable clip; .*shape \(0,\)"
    ) as error:
        import_store(
            open_features("npz", [tmp_path / "f.npz"], {"clip": "x"}), tmp_path / "s"
        )
    assert error.value.where == "f.npz"


@pytest.mark.parametrize(
    ("arrays", "names"),
    [
        ({"x": X}, ["clip"]),
        ({"features": X, "frames": np.zeros((3, 2, 4))}, ["clip", "frames"]),
        ({"x": X, "embeddings": X}, ["embeddings", "x"]),
        ({"x": X, "clip": X}, ["clip", "x"]),
        ({"xclip": X}, ["xclip"]),
    ],
)
def test_the_only_vector_of_a_clip_is_the_array_clip(
    tmp_path: Path, arrays: dict[str, np.ndarray], names: list[str]
) -> None:
    file = saved(tmp_path / "f.npz", clip_id=IDS, **arrays)
    assert sorted(open_features("npz", [file]).names) == names


@pytest.mark.parametrize(
    "keys", [("c3d", "c3d_features"), ("A", "a"), ("features.s3d", "s3d")]
)
def test_two_arrays_never_get_one_name(tmp_path: Path, keys: tuple[str, str]) -> None:
    file = saved(tmp_path / "f.npz", clip_id=IDS, **{keys[0]: X, keys[1]: X + 1})
    with pytest.raises(
        FixInput, match=f"'{keys[0]}' and '{keys[1]}' would both be the array"
    ):
        open_features("npz", [file])
    import_store(
        open_features("npz", [file], dict(zip("pq", keys, strict=True))), tmp_path / "s"
    )
    store = open_store(tmp_path / "s")
    np.testing.assert_array_equal(store.matrix("p", clips=IDS).values, X)
    np.testing.assert_array_equal(store.matrix("q", clips=IDS).values, X + 1)


@pytest.mark.parametrize("name", ["origin", "backbone", "pooling"])
def test_a_fact_never_replaces_what_the_import_records(
    tmp_path: Path, name: str
) -> None:
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=X)
    words = ("store", "import", "npz", file, "-o", "s", "--fact", f"{name}=mine")
    done = call_obygaze("-C", tmp_path, *words)
    assert done.code == 2
    assert f"the fact {name!r} is recorded by the import itself" in done.stderr
    assert not (tmp_path / "stores").exists()


def test_clips_without_features_are_counted_by_reason_and_listed_in_a_file(
    tmp_path: Path,
) -> None:
    odd = X.copy()
    odd[1, 2] = np.nan
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=odd)
    wanted = [*IDS, *(f"tt09-{number:03d}" for number in range(40))]
    roster = ManifestClips("m", "12" * 32, wanted, [film_of(clip) for clip in wanted])
    source = open_features("npz", [file], {"clip": "X"})
    done = import_store(source, tmp_path / "s", manifest=roster)
    first, most, least = done.notes
    assert done.missing_file == tmp_path / "s.missing.csv"
    assert first == f"41 clips without features; all are listed in {done.missing_file}"
    assert most.startswith("  40 clips, ") and "missing in the files" in most
    assert most.endswith("tt09-000, tt09-001, tt09-002 and 37 more")
    assert least.startswith("  1 clip, ") and least.endswith("tt02-9")
    lines = done.missing_file.read_text("utf-8").splitlines()
    assert lines[0] == "clip_id,reason" and len(lines) == 42
    assert [line.split(",")[0] for line in lines[1:]] == ["tt02-9", *wanted[3:]]


def test_without_missing_clips_there_is_no_file(tmp_path: Path) -> None:
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=X)
    done = import_store(open_features("npz", [file], {"clip": "X"}), tmp_path / "s")
    assert done.missing_file is None and done.notes == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.npz", "s"]


def test_the_list_of_an_earlier_store_is_removed(tmp_path: Path) -> None:
    (tmp_path / "s.missing.csv").write_text("clip_id,reason\ntt02-9,failed\n", "utf-8")
    (tmp_path / "t.missing.csv").write_text("a list of somebody else\n", "utf-8")
    file = saved(tmp_path / "f.npz", clip_id=IDS, X=X)
    for name in ("s", "t"):
        import_store(open_features("npz", [file], {"clip": "X"}), tmp_path / name)
    assert not (tmp_path / "s.missing.csv").exists()
    assert (tmp_path / "t.missing.csv").exists()


def test_a_table_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("clip_id,x_0\na-1,0.5\n")
    refused = call_obygaze("-C", tmp_path, "store", "info", tmp_path / "x.csv")
    assert refused.code == 4
    assert "store import" in refused.stderr
