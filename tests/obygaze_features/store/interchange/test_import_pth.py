from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze

from obygaze_features.core.errors import FixInput
from obygaze_features.store import open_store
from obygaze_features.store.interchange import open_features
from obygaze_features.store.interchange.export import export_store
from obygaze_features.store.interchange.importing import ImportSettings, import_store
from obygaze_features.store.write.edit import ManifestClips

torch = pytest.importorskip("torch")


def put(root: Path, name: str, value: object) -> Path:
    path = root / "FEATURES" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)
    return root / "FEATURES"


def made(source: object, path: Path, **options: object):
    import_store(source, path, **options)  # type: ignore[arg-type]
    return open_store(path)


def test_one_vector_a_clip_becomes_the_array_clip(tmp_path: Path) -> None:
    root = put(tmp_path, "tt1/tt1-001.pth", torch.tensor([[1.0, 2.0]]))
    put(tmp_path, "tt2/tt2-001.pth", torch.tensor([[3.0, 4.0]]))
    store = made(open_features("pth", [root]), tmp_path / "s")
    assert store.feature_arrays == ("clip",)
    assert store.movie_ids.tolist() == ["tt1", "tt2"]
    assert store.matrix("clip", clips=["tt2-001", "tt1-001"]).values.tolist() == [
        [3, 4],
        [1, 2],
    ]


def test_hidden_files_are_not_tensors_and_an_export_is_read_without_a_warning(
    tmp_path: Path,
) -> None:
    root = put(tmp_path, "m/m-1.pth", torch.tensor([[1.0, 2.0]]))
    (root / "m" / "._m-1.pth").write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X")
    store = made(open_features("pth", [root]), tmp_path / "s")
    assert store.clip_ids.tolist() == ["m-1"]
    export_store(store, tmp_path / "e", "pth")
    source = open_features("pth", [tmp_path / "e"])
    assert (source.clip_ids, source.warnings) == (["m-1"], [])


def test_halves_gradients_and_odd_types_keep_their_numbers(tmp_path: Path) -> None:
    values = [[0.1, 65504.0, 6e-8]]
    put(tmp_path, "m/m-1.pth", torch.tensor(values, dtype=torch.float16))
    put(tmp_path, "m/m-2.pth", torch.tensor(values, requires_grad=True))
    put(tmp_path, "m/m-3.pth", torch.nn.Parameter(torch.tensor(values)))
    put(tmp_path, "m/m-4.pth", torch.tensor(values, dtype=torch.bfloat16))
    # Not contiguous.
    root = put(tmp_path, "m/m-5.pth", torch.tensor(values * 2).T[:, :1].T)
    store = made(open_features("pth", [root]), tmp_path / "s")
    exact = np.array(values, dtype=np.float32)[0]
    got = store.matrix("clip").values
    np.testing.assert_array_equal(got[0], np.float16(values[0]).astype(np.float32))
    np.testing.assert_array_equal(got[[1, 2, 4]], np.stack([exact] * 3))
    # bfloat16 is the upper half of a float32, rounded to nearest even: 0.1 is 0x3DCD.
    assert got[3][0] == np.array([0x3DCD0000], dtype=np.uint32).view(np.float32)[0]


def test_several_halves_a_clip_stay_halves(tmp_path: Path) -> None:
    tokens = torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(0)).half()
    root = put(tmp_path, "m/m-1.pth", tokens)
    stored = made(open_features("pth", [root]), tmp_path / "s").matrix("tokens").values
    assert stored.dtype == np.float16
    np.testing.assert_array_equal(stored, tokens.numpy())


def test_what_is_odd_or_missing_is_a_failed_row_with_its_reason(tmp_path: Path) -> None:
    for i in range(6):
        root = put(tmp_path, f"m/m-{i}.pth", torch.full((1, 3), float(i)))
    put(tmp_path, "m/m-10.pth", torch.zeros(1, 4))
    put(tmp_path, "m/m-11.pth", torch.zeros(2, 3))
    put(tmp_path, "m/m-12.pth", torch.tensor([[1.0, float("nan"), 2.0]]))
    put(tmp_path, "m/m-13.pth", {"features": torch.zeros(1, 3)})
    put(tmp_path, "m/m-14.pth", torch.zeros(1, 0))
    put(tmp_path, "m/m-15.pth", torch.zeros(1, 3).to_sparse())
    put(tmp_path, "m/m-16.pth", torch.zeros(1).expand(1, 3))  # less than its shape
    (root / "m" / "m-17.pth").write_bytes(b"")
    whole = (root / "m" / "m-0.pth").read_bytes()
    (root / "m" / "m-18.pth").write_bytes(whole[: len(whole) // 2])
    (root / "m" / "notes.txt").write_text("extra", encoding="utf-8")
    source = open_features("pth", [root])
    assert source.warnings == ["1 file was left out: not .pth"]
    clips = [*source.clip_ids, "m-99"]
    roster = ManifestClips("m", "12" * 32, clips, ["m"] * len(clips))
    done = import_store(source, tmp_path / "s", manifest=roster)
    assert done.n_ok == 6
    words = {
        "m-10": "shape (4,), most clips have (3,)",
        "m-11": "expected [1, D] or [1, tokens, D]",
        "m-12": "NaN",
        "m-13": "holds dict, not a tensor",
        "m-14": "shape (0,)",
        "m-15": "unsupported kind",
        "m-16": "less than its shape",
        "m-17": "cannot be read",
        "m-18": "cannot be read",
        "m-99": "missing in the files",
    }
    assert {
        clip: words[clip] in reason for clip, reason in done.failed.items()
    } == dict.fromkeys(words, True), done.failed
    store = open_store(tmp_path / "s")
    assert store.status().counts == {"ok": 6, "failed": 10}
    assert store.matrix("clip", clips=["m-3"]).values.tolist() == [[3, 3, 3]]


class RunsCode:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("how", ["torch", "pickle", "legacy"])
def test_a_pickle_that_would_run_code_stops_the_import(
    tmp_path: Path, how: str
) -> None:
    root = put(tmp_path, "m/m-1.pth", torch.zeros(1, 3))
    evil = root / "m" / "m-2.pth"
    value = RunsCode(tmp_path / "harm")
    if how == "pickle":
        evil.write_bytes(pickle.dumps(value))
    else:
        torch.save(value, evil, _use_new_zipfile_serialization=how == "torch")
    with pytest.raises(FixInput, match="could run code") as error:
        import_store(open_features("pth", [root]), tmp_path / "s")
    assert "m-2.pth" in str(error.value)
    assert not (tmp_path / "harm").exists()
    assert not (tmp_path / "s").exists()


def test_a_file_that_is_cut_off_early_is_a_failed_row(tmp_path: Path) -> None:
    root = put(tmp_path, "m/m-1.pth", torch.zeros(1, 2))
    for i in (2, 3):
        put(tmp_path, f"m/m-{i}.pth", torch.zeros(1, 2))
    torch.save(
        torch.ones(1, 2), root / "m/m-4.pth", _use_new_zipfile_serialization=False
    )
    whole = (root / "m/m-4.pth").read_bytes()
    (root / "m/m-5.pth").write_bytes(whole[:-3])
    (root / "m/m-6.pth").write_bytes(b"junk")
    done = import_store(open_features("pth", [root]), tmp_path / "s")
    assert list(done.failed) == ["m-5", "m-6"]


def test_legacy_files_of_tensors_are_read(tmp_path: Path) -> None:
    root = put(tmp_path, "m/m-1.pth", torch.zeros(1, 3))
    torch.save(
        torch.ones(1, 3), root / "m/m-2.pth", _use_new_zipfile_serialization=False
    )
    store = made(open_features("pth", [root]), tmp_path / "s")
    assert store.matrix("clip").values.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_dictionaries_of_tensors_by_key(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        "m/m-1.pth",
        {"a": torch.ones(1, 2), "b": torch.zeros(1, 3, 2), "epoch": 3},
    )
    store = made(
        open_features("pth", [root], {"clip": "a", "frames": "b"}), tmp_path / "s"
    )
    assert store.matrix("clip").values.shape == (1, 2)
    assert store.matrix("frames").values.shape == (1, 3, 2)


def test_videos_of_one_name_in_two_films_are_told_apart(tmp_path: Path) -> None:
    put(tmp_path, "a/001.pth", torch.zeros(1, 2))
    root = put(tmp_path, "b/001.pth", torch.ones(1, 2))
    store = made(open_features("pth", [root]), tmp_path / "s")
    assert store.clip_ids.tolist() == ["a-001", "b-001"]


def test_a_manifest_knows_clips_by_their_videos(
    tmp_path: Path, workspace: Path
) -> None:
    from obygaze_features.manifest.io import write_manifest
    from obygaze_features.manifest.model import Clip, Header, Manifest

    clips = (
        Clip("tt1-001", "tt1", 1, "tt1/scene_one.mp4"),
        Clip("tt1-002", "tt1", 2, "tt1/scene_two.mp4"),
    )
    header = Header("Toy", {"Body": "visual"})
    write_manifest(Manifest("toy", header, clips), workspace / "manifests" / "toy.toml")
    root = put(tmp_path, "tt1/scene_two.pth", torch.full((1, 2), 7.0))
    done = call_obygaze(
        *(
            "-C",
            workspace,
            "store",
            "import",
            "pth",
            root,
            "--manifest",
            "toy",
            "-o",
            "s",
        )
    )
    assert done.code == 3  # the other clip has no file
    assert "tt1-001" in done.stderr
    store = open_store(workspace / "stores" / "s")
    assert store.matrix("clip", clips=["tt1-002"]).values.tolist() == [[7, 7]]
    assert store.plan.manifest_name == "toy"


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    root = put(tmp_path, "m/m-1.pth", torch.zeros(1, 2))
    torch.save(torch.ones(1, 2), tmp_path / "secret.pth")
    (root / "m" / "m-2.pth").symlink_to(tmp_path / "secret.pth")
    with pytest.raises(FixInput, match="link to another folder"):
        open_features("pth", [root])


def test_clips_of_all_lengths_are_pooled_if_asked(tmp_path: Path) -> None:
    for i in range(4):
        root = put(
            tmp_path, f"m/m-{i}.pth", torch.arange(2.0 * (i + 1)).reshape(1, i + 1, 2)
        )
    with pytest.raises(FixInput, match="4 shapes") as error:
        import_store(open_features("pth", [root]), tmp_path / "s")
    assert "--pool only" in str(error.value)
    done = import_store(
        open_features("pth", [root]),
        tmp_path / "s",
        settings=ImportSettings(pool="only"),
    )
    assert done.arrays == {"tokens": (2,)}
    assert open_store(tmp_path / "s").matrix("tokens").values.tolist() == [
        [2.0 * i, 2.0 * i + 1] for i in range(4)
    ]


def test_an_empty_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(FixInput, match=r"no \.pth file"):
        open_features("pth", [tmp_path])
    with pytest.raises(FixInput, match="expected a folder"):
        open_features("pth", [tmp_path / "nothing"])


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (torch.ones(16), r"m-1\.pth has the shape \(16,\), expected \[1, D\]"),
        (torch.ones(4, 16), r"has the shape \(4, 16\), expected \[1, D\]"),
        ({"x": torch.ones(1, 2)}, "m-1.pth holds dict, not a tensor"),
    ],
)
def test_where_no_tensor_can_be_used_the_first_is_described(
    tmp_path: Path, value: object, says: str
) -> None:
    root = put(tmp_path, "m/m-1.pth", value)
    with pytest.raises(FixInput, match=says) as raised:
        open_features("pth", [root])
    assert "torch.save(tensor[None], file)" in raised.value.hint


def test_a_dictionary_in_one_file_becomes_a_store_as_the_hint_says(
    tmp_path: Path,
) -> None:
    d = {"m-1": torch.tensor([1.0, 2.0]), "m-2": torch.tensor([3.0, 4.0])}
    root = put(tmp_path, "all.pt", d)
    with pytest.raises(FixInput) as raised:
        open_features("pth", [root / "all.pt"])
    assert "np.stack([t.numpy() for t in d.values()])" in raised.value.hint
    clips = np.stack([t.numpy() for t in d.values()])
    np.savez(tmp_path / "x.npz", clip_id=list(d), clip=clips)
    store = made(open_features("npz", [tmp_path / "x.npz"]), tmp_path / "s")
    assert store.matrix("clip").values.tolist() == [[1, 2], [3, 4]]
