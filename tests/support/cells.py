"""The fold columns that the protocols of the paper read."""

from typing import Any
from zlib import crc32

from obygaze_features.manifest.model import FOLD_PREFIX, Manifest


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
