"""A workspace with as many made-up clips as were published, for timed runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import FOLD_PREFIX, Clip, Header, Manifest
from obygaze_features.manifest.vocabulary import concepts
from obygaze_features.store import ArraySpec, Recipe, StoreWriter, create_store
from obygaze_features.store.format.schema import OK

NAME = "bench"
WIDTHS = {"vivit": 768, "xclip": 512}
N_OF_LEVEL = {"EN": 436, "HN": 304, "S": 308}
N_WITHOUT_FEATURES = 51
FILMS = (
    "tt0108160",
    "tt0110912",
    "tt0119822",
    "tt0212338",
    "tt0467406",
    "tt0822832",
    "tt1045658",
    "tt1142988",
    "tt1193138",
    "tt1454029",
    "tt1570728",
    "tt2267998",
)
FOLDS = {
    "02_EN_S": "EN S",
    "02_HN_S": "HN S",
    "02_ENHN_S": "EN HN S",
    "02_EN_HN_S": "EN HN S",
}
FILM_FOLDS = {"by_movie_HN_S": "HN S", "by_movie_ENHN_S": "EN HN S"}


def write_workspace(root: Path, seed: int = 0) -> None:
    """Write a manifest with fold columns of the published sizes, and two sealed stores."""
    rng = np.random.default_rng(seed)
    manifest, without = make_manifest(rng)
    write_manifest(manifest, root / "manifests" / f"{NAME}.toml")
    with_features = [clip for clip in manifest if clip.clip_id not in without]
    for name, width in WIDTHS.items():
        _write_store(
            root / "stores" / name, with_features, _features(with_features, width, rng)
        )


def make_manifest(rng: np.random.Generator) -> tuple[Manifest, set[str]]:
    """Return clips with fold columns, and the ids of those without features.

    Each clip belongs to any film, so that the films' shares of levels differ by chance only.
    """
    return with_folds(_clips(rng), rng)


def with_folds(
    clips: list[Clip], rng: np.random.Generator
) -> tuple[Manifest, set[str]]:
    """Return clips with the fold columns of the published splits, and the ids without features."""
    drawn = rng.permutation([clip.clip_id for clip in clips])
    without = set(drawn[:N_WITHOUT_FEATURES].tolist())
    manifest = Manifest(
        NAME, Header(NAME, concepts(), view="as_published"), tuple(clips)
    )
    for name, levels in FOLDS.items():
        manifest = manifest.with_column(
            FOLD_PREFIX + name, folds_of(clips, levels, rng)
        )
    films = sorted({clip.movie_id for clip in clips})
    for name, levels in FILM_FOLDS.items():
        chosen = [
            c for c in clips if c.level in levels.split() and c.clip_id not in without
        ]
        folds = {clip.clip_id: str(films.index(clip.movie_id)) for clip in chosen}
        manifest = manifest.with_column(FOLD_PREFIX + name, folds)
    return manifest, without


def _clips(rng: np.random.Generator) -> list[Clip]:
    levels = np.repeat(list(N_OF_LEVEL), list(N_OF_LEVEL.values()))
    films = rng.choice(FILMS, len(levels))
    clips = []
    for film in FILMS:
        levels_of_film = rng.permutation(levels[films == film]).tolist()
        for scene, level in enumerate(levels_of_film, start=1):
            clip = Clip(f"{film}-{scene:03d}", film, scene, level=level)
            clips.append(clip if level == "EN" else replace(clip, concepts=("Body",)))
    return clips


def folds_of(
    clips: list[Clip], levels: str, rng: np.random.Generator
) -> dict[str, str]:
    """Return one of ten folds for each clip of some annotation levels, of equal sizes by level."""
    folds: dict[str, str] = {}
    for level in levels.split():
        drawn = rng.permutation([clip.clip_id for clip in clips if clip.level == level])
        folds |= {clip: str(rank % 10) for rank, clip in enumerate(drawn.tolist())}
    return folds


def _features(
    clips: list[Clip], width: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    X = rng.normal(size=(len(clips), width)).astype(np.float32)
    X[[clip.level == "S" for clip in clips], :20] += 0.25
    return X


def _write_store(path: Path, clips: list[Clip], X: NDArray[np.float32]) -> None:
    facts: dict[str, Any] = {"backbone": "made-up"}
    create_store(
        path,
        recipe=Recipe.unknown("made-up", facts),
        manifest_name=NAME,
        manifest_sha256="0" * 64,
        clip_ids=[clip.clip_id for clip in clips],
        movie_ids=[clip.movie_id for clip in clips],
        arrays=[ArraySpec("clip", (X.shape[1],))],
        licence="CC0-1.0",
        citation="",
    )
    writer = StoreWriter(path)
    for block in range(writer.plan.n_blocks):
        first, after = writer.plan.block_range(block)
        writer.commit_block(block, {"clip": X[first:after]}, [OK] * (after - first))
    writer.seal()
