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
    """A workspace with a manifest, a store and two runs."""
    root = tmp_path_factory.mktemp("listings")
    manifest = titled()
    X = planted(manifest, width=20)
    write_workspace(root, manifest, X)
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
    "compare": ("compare", "run-0", "run-1"),
}


@pytest.mark.parametrize("name", LISTINGS)
def test_each_format_has_the_same_rows(name: str, place: Path, tmp_path: Path) -> None:
    tables = []
    for suffix in SUFFIXES:
        path = tmp_path / f"t{suffix}"
        done = call_obygaze(*LISTINGS[name], "-o", path, cwd=place).ok()
        assert str(path) in done.stdout + done.stderr
        tables.append(as_numbers(rows_in(path)))
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
