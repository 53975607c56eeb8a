"""What version 0.1 wrote, this version reads: a manifest, stores and models.

`data/written-0.1` was written by version 0.1.0 and is never written again. `features.npz` and
`sound.npz` are the numbers that the stores were made of; `scores` are what the models predicted.
"""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze

from obygaze_features.manifest import read_manifest
from obygaze_features.store import open_store

WRITTEN = Path(__file__).parent / "data" / "written-0.1"
MODELS = sorted(folder.name for folder in (WRITTEN / "models").iterdir())
# A probability or a margin may differ so much: other machines add in another order.
CLOSE = 1e-6


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_the_manifest_says_what_its_table_says():
    manifest = read_manifest(WRITTEN / "manifests" / "pier.toml")
    table = rows_of(WRITTEN / "manifests" / "pier.csv")
    assert [clip.clip_id for clip in manifest.clips] == [
        row["clip_id"] for row in table
    ]
    assert [clip.level for clip in manifest.clips] == [row["level"] for row in table]
    assert [clip.start_s for clip in manifest.clips] == [
        float(row["start_s"]) for row in table
    ]
    assert [sorted(clip.concepts) for clip in manifest.clips] == [
        sorted(filter(None, row["concepts"].split("|"))) for row in table
    ]


@pytest.mark.parametrize(
    ("store", "source", "array"),
    [
        ("seen", "features.npz", "clip"),
        ("seen", "features.npz", "frames"),
        ("heard", "sound.npz", "clip"),
    ],
)
def test_a_store_has_the_numbers_that_it_was_made_of(store, source, array):
    given = np.load(WRITTEN / source)
    matrix = open_store(WRITTEN / "stores" / store).matrix(array)
    assert list(matrix.clip_ids) == given["clip_id"].tolist()
    assert np.array_equal(np.asarray(matrix), given[array])


def test_a_joined_store_has_its_parts_side_by_side():
    heard = np.load(WRITTEN / "sound.npz")["clip"]
    seen = np.load(WRITTEN / "features.npz")["clip"]
    matrix = open_store(WRITTEN / "stores" / "both").matrix("clip")
    assert np.array_equal(np.asarray(matrix), np.hstack([heard, seen]))


def test_all_stores_are_whole():
    for store in ("seen", "heard", "both"):
        call_obygaze("store", "verify", WRITTEN / "stores" / store, "--hash").ok()


def test_a_later_version_makes_the_same_store_of_the_same_numbers(tmp_path):
    for name, source in (("seen", "features.npz"), ("heard", "sound.npz")):
        arguments = ["store", "import", "npz", WRITTEN / source, "--backbone", name]
        arguments += [
            "--manifest",
            WRITTEN / "manifests" / "pier.toml",
            "-o",
            tmp_path / name,
        ]
        call_obygaze(*arguments).ok()
        made = open_store(tmp_path / name)
        written = open_store(WRITTEN / "stores" / name)
        assert made.fingerprint == written.fingerprint


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written") / "workspace"
    shutil.copytree(WRITTEN, folder)
    return folder


@pytest.mark.parametrize("model", MODELS)
def test_a_model_predicts_what_it_predicted(model, workspace):
    store = "both" if model == "joined" else "seen"
    arguments = ["models", "predict", model, store, "--in-sample", "-o", f"{model}.csv"]
    call_obygaze(*arguments, cwd=workspace).ok()
    then = rows_of(WRITTEN / "scores" / f"{model}.csv")
    now = rows_of(workspace / f"{model}.csv")
    assert now[0].keys() == then[0].keys()
    for of_now, of_then in zip(now, then, strict=True):
        for column, value in of_then.items():
            if is_number(value):
                assert float(of_now[column]) == pytest.approx(float(value), abs=CLOSE)
            else:
                assert of_now[column] == value


@pytest.mark.parametrize(
    ("file", "now", "later", "words"),
    [
        ("stores/seen/store.json", '"version": 1,', '"version": 2,', "store info seen"),
        ("manifests/pier.toml", "manifest/1", "manifest/2", "manifest stats pier"),
        ("models/ridge/model.json", "model/1", "model/2", "models show ridge"),
        ("small.toml", "protocol/1", "protocol/2", "run small.toml --manifest pier"),
    ],
)
def test_a_later_format_is_refused(tmp_path, file, now, later, words):
    shutil.copytree(WRITTEN, tmp_path / "workspace")
    path = tmp_path / "workspace" / file
    text = path.read_text(encoding="utf-8")
    assert text.count(now) == 1
    path.chmod(0o600)
    path.write_text(text.replace(now, later), encoding="utf-8")
    refused = call_obygaze(*words.split(), cwd=path.parents[len(Path(file).parts) - 1])
    assert refused.code == 5, refused.stderr
