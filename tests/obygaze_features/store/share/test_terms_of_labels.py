"""Labels that are published with features: their licence and citation are named, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.stores import copy_of_sealed

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest import Clip, Header, Manifest
from obygaze_features.store import Store, open_store
from obygaze_features.store.share.publication import publish

CREATORS = ["Doe, Jane"]
CITATION = "Roe, Labels of the lake, 2026."

pytest.importorskip("pyarrow")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(copy_of_sealed(tmp_path / "toy"))  # its licence is CC0-1.0


def labels_of(clip_ids: list[str], licence: str) -> Manifest:
    """Return a manifest that has these clips."""
    header = Header("m", {"Look": "visual"}, licence=licence, citation=CITATION)
    clips = [Clip(clip, "m", level="S", concepts=("Look",)) for clip in clip_ids]
    return Manifest("m", header, tuple(clips))


def texts_of(folder: Path) -> dict[str, str]:
    """Return every text file of a publication."""
    names = ("README.md", "croissant.json", "CITATION.cff", ".zenodo.json")
    return {name: (folder / name).read_text("utf-8") for name in names}


def croissant_of(texts: dict[str, str]) -> Any:
    return json.loads(texts["croissant.json"])


def test_every_text_names_licence_and_citation_of_the_labels(
    tmp_path: Path, store: Store
) -> None:
    labels = labels_of(store.clip_ids.tolist(), "ODbL-1.0")
    done = publish(store, str(tmp_path / "out"), CREATORS, labels=labels)
    texts = texts_of(tmp_path / "out")
    for name, text in texts.items():
        assert "Their licence: ODbL-1.0" in text, name
        assert CITATION in text, name
    # No licence holds for the whole.
    assert croissant_of(texts)["license"] == ["CC0-1.0", "ODbL-1.0"]
    assert "\nlicense: " not in texts["CITATION.cff"]
    assert "license" not in json.loads(texts[".zenodo.json"])
    assert 'license_name: "features: CC0-1.0, labels: ODbL-1.0"' in texts["README.md"]
    (note,) = done.notes
    assert "the features have the licence CC0-1.0, the labels of m ODbL-1.0" in note


def test_one_licence_of_features_and_labels_holds_for_the_whole(
    tmp_path: Path, store: Store
) -> None:
    labels = labels_of(store.clip_ids.tolist(), "CC0-1.0")
    done = publish(store, str(tmp_path / "out"), CREATORS, labels=labels)
    texts = texts_of(tmp_path / "out")
    assert croissant_of(texts)["license"] == "CC0-1.0"
    assert "\nlicense: CC0-1.0\n" in texts["CITATION.cff"]
    assert done.notes == []


def test_labels_without_a_licence_are_refused_as_a_store_without_one(
    tmp_path: Path, store: Store
) -> None:
    labels = labels_of(store.clip_ids.tolist(), "")
    folder = tmp_path / "out"
    with pytest.raises(FixInput, match="states no licence for its labels"):
        publish(store, str(folder), CREATORS, labels=labels)
    assert not folder.exists()
    publish(store, str(folder), CREATORS, labels=labels, no_licence=True)
    for name, text in texts_of(folder).items():
        assert "Their licence: not stated" in text, name


def test_labels_of_other_clips_are_refused_and_missing_ones_are_counted(
    tmp_path: Path, store: Store
) -> None:
    folder = tmp_path / "out"
    with pytest.raises(FixInput, match="has none of the clips of this store"):
        publish(
            store, str(folder), CREATORS, labels=labels_of(["x-1", "x-2"], "CC0-1.0")
        )
    assert not folder.exists()
    with_features = store.matrix("clip", missing="drop").clip_ids.tolist()
    labels = labels_of(with_features[:-2], "CC0-1.0")
    done = publish(store, str(folder), CREATORS, labels=labels)
    assert done.notes == [
        f"2 clips of {len(with_features)} without labels: the manifest m does not have them"
    ]
