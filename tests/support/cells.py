"""Cells of a protocol, each run alone and compared with its whole grid."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

from obygaze_features.manifest.model import FOLD_PREFIX, Manifest
from obygaze_features.store import Store
from obygaze_models.protocols.schema import Protocol
from obygaze_models.runner.files import Run
from support.experiments import run_on
from support.seeds import amount
from support.tables import fit_of, rows_of

KEYS = ("is_model", "train", "test", "model", "store")
Key = tuple[Any, ...]


def cells_that_differ(
    folder: Path, protocol: Protocol, manifest: Manifest, stores: dict[str, Store]
) -> tuple[int, list[Key]]:
    """How many cells a grid has, and those that are not the same bytes when run alone.

    A part of them runs alone; `make torture` runs them all.
    """
    whole = by_cell(run_on(folder, protocol, manifest, stores))
    differ = []
    for key in list(whole)[:: amount(5, 1)]:
        alone = run_on(
            folder, one_cell(protocol, key), manifest, stores_of(key, stores)
        )
        if by_cell(alone) != {key: whole[key]}:
            differ.append(key)
    return len(whole), differ


def one_cell(protocol: Protocol, key: Key) -> Protocol:
    """The protocol with this one cell in its grid."""
    is_model, train, test, model, _ = key
    baseline = not is_model
    grid = replace(
        protocol.grid,
        train=(train,),
        test=(test,),
        models=() if baseline else (model,),
        baselines=(model,) if baseline else (),
    )
    return replace(protocol, grid=grid, models={} if baseline else protocol.models)


def stores_of(key: Key, stores: dict[str, Store]) -> dict[str, Store]:
    """The store of a cell; a baseline keeps them all, for the clips that they have."""
    return {key[-1]: stores[key[-1]]} if key[-1] else stores


def by_cell(run: Run) -> dict[Key, tuple[str, ...]]:
    """The bytes of each cell: what run.json says of its fits, and its lines of the two tables."""
    lines: dict[Key, list[str]] = {}
    for table in (run.predictions, run.results):
        for row in rows_of(table):
            if not row.get("against_model"):
                key = tuple(row[name] for name in KEYS[1:])
                lines.setdefault(key, []).append(json.dumps(row))
    found = {}
    for cell in run.cells:
        key = tuple(getattr(cell, name) for name in KEYS)
        facts = (cell.is_averaged, fit_of(run, cell))
        found[key] = (json.dumps(facts), *lines[key[1:]])
    return found


def with_folds(manifest: Manifest, n_folds: int = 10) -> Manifest:
    """The fold columns that the paper's protocols read; each file has folds of its own."""
    for name, levels in FILES.items():
        folds: dict[str, Any] = {}
        for level in levels.split():
            own = [clip.clip_id for clip in manifest if clip.level == level]
            own.sort(key=lambda clip: crc32(f"{name} {clip}".encode()))
            folds |= {clip: str(place % n_folds) for place, clip in enumerate(own)}
        manifest = manifest.with_column(FOLD_PREFIX + name, folds)
    films = sorted({clip.movie_id for clip in manifest})
    for name in ("by_movie_HN_S", "by_movie_ENHN_S"):
        levels = FILES[name.replace("by_movie", "02")].split()
        own_films = {
            c.clip_id: str(films.index(c.movie_id))
            for c in manifest
            if c.level in levels
        }
        manifest = manifest.with_column(FOLD_PREFIX + name, own_films)
    return manifest


FILES = {
    "02_EN_S": "EN S",
    "02_HN_S": "HN S",
    "02_ENHN_S": "EN HN S",
    "02_EN_HN_S": "EN HN S",
}
