"""Every listing takes -o: the same rows in each format, with titles and times."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from python_calamine import CalamineWorkbook
from support.cli import call_obygaze
from support.experiments import (
    ONE_PAIR,
    films,
    planted,
    quick,
    run_on,
    store_of,
    write_workspace,
)

from obygaze_features.core.written_tables import SUFFIXES
from obygaze_features.manifest.model import Manifest

TITLES = {"tt0000001": "The Lake", "tt0000002": "Amélie", "tt0000003": "=Juno"}


def titled() -> Manifest:
    manifest = films(3, 8)
    titles = {clip.clip_id: TITLES[clip.movie_id] for clip in manifest}
    folds = {clip.clip_id: clip.movie_id[-1] for clip in manifest}
    return manifest.with_column("movie_title", titles).with_column("fold:mine", folds)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a manifest, a store, a model and two runs."""
    root = tmp_path_factory.mktemp("listings")
    manifest = titled()
    X = planted(manifest, width=20)
    write_workspace(root, manifest, X)
    call_obygaze("train", "ridge", "sig", "made-up", "-o", "kept", cwd=root).ok()
    protocol = quick("honest", 'grid.models=["ridge"]', *ONE_PAIR)
    for seed in (1, 2):
        features = planted(manifest, width=20, seed=seed)
        store = store_of(root / "stores" / f"sig-{seed}", manifest, features)
        run_on(root / "runs", protocol, manifest, {"sig": store})
    return root


def rows_in(path: Path) -> list[dict[str, Any]]:
    """The rows of a table, read by another library; empty cells are None."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as stream:
            rows: list[dict[str, Any]] = list(csv.DictReader(stream))
    else:
        header, *cells = (
            CalamineWorkbook.from_path(str(path)).get_sheet_by_index(0).to_python()
        )
        rows = [dict(zip(header, row, strict=True)) for row in cells]
    return [
        {name: None if value == "" else value for name, value in row.items()}
        for row in rows
    ]


def as_numbers(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in which 1, 1.0 and "1.0" are the same."""
    converted = []
    for row in rows:
        cells: dict[str, Any] = {}
        for name, value in row.items():
            try:
                cells[name] = value if value is None else float(value)
            except ValueError:
                cells[name] = value
        converted.append(cells)
    return converted


LISTINGS = {
    "manifest show": ("manifest", "show", "made-up"),
    "store info": ("store", "info", "sig", "--clips"),
    "search": ("search", "sig", "--like", "tt0000001-001"),
    "models predict": ("models", "predict", "kept", "sig"),
    "compare": ("compare", "run-0", "run-1"),
}

# Listings that may show less than they write.
COUNTED = ("manifest show", "store info", "compare")


@pytest.mark.parametrize("name", LISTINGS)
def test_each_format_has_the_same_rows(name: str, place: Path, tmp_path: Path) -> None:
    tables = []
    for suffix in SUFFIXES:
        path = tmp_path / f"t{suffix}"
        done = call_obygaze(*LISTINGS[name], "-o", path, cwd=place).ok()
        assert str(path) in done.stdout + done.stderr
        tables.append(as_numbers(rows_in(path)))
        if name in COUNTED:
            assert f"wrote {path}: {len(tables[-1])} rows" in done.stderr
    assert len(tables[0]) > 1
    for table in tables[1:]:
        assert len(table) == len(tables[0])
        # XlsxWriter writes 16 digits of a number.
        for row, expected in zip(table, tables[0], strict=True):
            assert list(row) == list(expected)
            for name, value in expected.items():
                if isinstance(value, float):
                    value = pytest.approx(value, rel=1e-14)
                assert row[name] == value


def test_a_manifest_comes_back_from_each_of_its_tables(
    place: Path, tmp_path: Path
) -> None:
    for suffix in (".csv", ".xlsx"):
        path = tmp_path / f"clips{suffix}"
        call_obygaze("manifest", "export", "made-up", path, cwd=place).ok()
        words = ("manifest", "import", path, "-o", "again", "--force")
        call_obygaze(*words, cwd=place).ok()
        again = call_obygaze("manifest", "show", "again", "--json", cwd=place).json()
        before = call_obygaze("manifest", "show", "made-up", "--json", cwd=place).json()
        assert again["clips"] == before["clips"]


def test_clips_without_features_have_their_reason(place: Path, tmp_path: Path) -> None:
    manifest = films(2, 4)
    X = planted(manifest, width=20)
    store_of(tmp_path / "stores" / "sig", manifest, X, failed=["tt0000001-004"])
    shown = call_obygaze("store", "info", "sig", "--clips", cwd=tmp_path).ok()
    lines = shown.stdout.splitlines()
    assert lines[0].split()[:2] == ["clip_id", "movie_id"]
    assert len(lines) == 9
    document = call_obygaze("store", "info", "sig", "--clips", "--json", cwd=tmp_path)
    clips = document.ok().json()["clips"]
    states = {clip["clip_id"]: clip["status"] for clip in clips}
    assert states.pop("tt0000001-004") == "failed"
    assert set(states.values()) == {"ok"}
    reason = next(clip["reason"] for clip in clips if clip["status"] == "failed")
    assert reason == "decode OSError: a broken file"
