"""Labels beside exported features, and what an import takes from its manifest."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze

CITATION = "Roe, Labels of the lake, 2026."
IDS = [f"lake-{scene:03d}" for scene in range(1, 5)]


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """Two manifests, one of them of other clips, and a file of features."""
    for name, film in (("films", "lake"), ("others", "pier")):
        rows = [f"{clip.replace('lake', film)},{film},S" for clip in IDS]
        lines = ["clip_id,movie_id,level", *rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines), "utf-8")
        terms = f'licence = "ODbL-1.0"\ncitation = "{CITATION}"\n'
        (tmp_path / "terms.toml").write_text(terms, "utf-8")
        mapping = ("--mapping", "terms.toml")
        words = ("manifest", "import", "csv", f"{name}.csv", "-o", name, *mapping)
        call_obygaze(*words, cwd=tmp_path).ok()
    X = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.savez(tmp_path / "f.npz", clip_id=IDS, clip=X)
    return tmp_path


def imported(lab: Path, name: str, *options: str) -> dict[str, str]:
    """Import the features as a store; return its terms."""
    call_obygaze("store", "import", "npz", "f.npz", "-o", name, *options, cwd=lab).ok()
    terms = call_obygaze("store", "licence", name, "--json", cwd=lab).ok().json()
    return {key: terms[key] for key in ("licence", "citation")}


def test_an_import_takes_the_citation_of_its_manifest_and_never_a_licence(
    lab: Path,
) -> None:
    manifest = ("--manifest", "films")
    of_manifest = {"licence": "", "citation": CITATION}
    assert imported(lab, "a", *manifest) == of_manifest
    stated = ("--licence", "CC-BY-4.0", "--citation", "Lab, 2026")
    of_lab = {"licence": "CC-BY-4.0", "citation": "Lab, 2026"}
    assert imported(lab, "b", *manifest, *stated) == of_lab
    # The same import again leaves what was stated.
    assert imported(lab, "b", *manifest) == of_lab
    assert imported(lab, "c") == {"licence": "", "citation": ""}


@pytest.mark.parametrize("format", ["npz", "npy", "hdf5", "parquet"])
def test_labels_of_other_clips_are_not_exported(lab: Path, format: str) -> None:
    if format == "parquet":
        pytest.importorskip("pyarrow")
    imported(lab, "a", "--manifest", "films")
    ending = {"npz": ".npz", "hdf5": ".h5"}.get(format, "")
    words = ("store", "export", format, "a", f"out{ending}", "--with-labels", "others")
    refused = call_obygaze(*words, cwd=lab)
    assert refused.code == 1
    assert "the manifest others has none of the clips of this store" in refused.stderr
    assert "'lake-001', there 'pier-001'" in refused.stderr
    assert not (lab / f"out{ending}").exists()


def test_clips_without_labels_are_counted(lab: Path) -> None:
    imported(lab, "a", "--manifest", "films")
    rows = ["clip_id,movie_id,level", "lake-002,lake,EN"]
    (lab / "one.csv").write_text("\n".join(rows), "utf-8")
    call_obygaze("manifest", "import", "csv", "one.csv", "-o", "one", cwd=lab).ok()
    words = ("store", "export", "npy", "a", "out", "--with-labels", "one")
    done = call_obygaze(*words, cwd=lab).ok()
    assert "3 clips of 4 without labels: the manifest one does not" in done.stderr


def test_an_export_names_the_terms_of_its_labels(lab: Path) -> None:
    imported(lab, "a", "--manifest", "films", "--licence", "CC-BY-4.0")
    words = ("store", "export", "npz", "a", "out.npz", "--with-labels", "films")
    call_obygaze(*words, cwd=lab).ok()
    provenance = json.loads(str(np.load(lab / "out.npz")["obygaze_provenance"]))
    assert provenance["licence"] == "CC-BY-4.0"
    labels = provenance["labels"]
    assert (labels["manifest"], labels["licence"]) == ("films", "ODbL-1.0")
    assert labels["citation"] == CITATION
    call_obygaze("store", "export", "npz", "a", "plain.npz", cwd=lab).ok()
    plain = json.loads(str(np.load(lab / "plain.npz")["obygaze_provenance"]))
    assert "labels" not in plain


def test_imports_of_other_files_are_not_merged_and_the_message_is_short(
    lab: Path,
) -> None:
    imported(lab, "a", "--backbone", "ViViT")
    X = np.zeros((4, 2), dtype=np.float32)
    np.savez(lab / "f.npz", clip_id=[f"pier-{i}" for i in range(4)], clip=X)
    imported(lab, "b", "--backbone", "ViViT")
    refused = call_obygaze("store", "merge", "a", "b", "-o", "both", cwd=lab)
    assert refused.code == 5
    assert "imports of other files with the same facts" in refused.stderr
    assert "told.origin" not in refused.stderr
    np.savez(lab / "f.npz", clip_id=[f"lane-{i}" for i in range(4)], clip=X)
    imported(lab, "c", "--backbone", "S3D")
    other = call_obygaze("store", "merge", "a", "c", "-o", "both", cwd=lab)
    assert "imports of other files" not in other.stderr
