"""Made-up stores for tests: small, deterministic, and described by plain NumPy arrays."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.store import Array, Recipe, Row, Store, open_store, write_store
from obygaze_features.store.card import Terms
from obygaze_features.store.importing import import_features
from obygaze_features.store.records import ManifestMark
from support.written_stores import ArraySource

ARRAYS = (
    Array.of("clip", "float32", (4,)),
    Array.of("pooled", "float32", (6,)),
    Array.of("frames", "float16", (3, 4)),
    Array.of("time_s", "float64", (3,)),
)
MANIFEST = ManifestMark("made-up", "12" * 32)
TERMS = Terms("CC0-1.0", "Nobody (2026).")


def a_recipe(**changes: Any) -> Recipe:
    """A known recipe; keyword arguments replace whole sections."""
    sections: dict[str, Any] = {
        "backbone": {"name": "toy", "card_sha256": "ab" * 32},
        "weights": {"model.safetensors": "cd" * 32},
        "sampling": {"rule": "uniform", "frames": 3},
        "decoder": {"name": "pyav", "version_class": "18"},
        "preprocessing": {"size": 8, "filter": "bicubic"},
        "compute": {"dtype": "float32", "attention": "eager"},
    }
    return Recipe.of(**{**sections, **changes})


def some_ids(n_clips: int, per_film: int = 5) -> tuple[list[str], list[str]]:
    """Clip and film ids as MovieGraphs spells them."""
    films = [f"tt{100 + i // per_film:07d}" for i in range(n_clips)]
    return [f"{film}-{i % per_film + 1:03d}" for i, film in enumerate(films)], films


def some_rows(n_clips: int, per_film: int = 5) -> list[Row]:
    clip_ids, movie_ids = some_ids(n_clips, per_film)
    return list(map(Row, clip_ids, movie_ids))


def some_values(
    n_clips: int, arrays: Sequence[Array] = ARRAYS, seed: int = 0
) -> dict[str, npt.NDArray[Any]]:
    random = np.random.default_rng(seed)
    return {
        array.name: random.standard_normal((n_clips, *array.shape)).astype(array.dtype)
        for array in arrays
    }


def made_store(
    path: Path,
    rows: Sequence[Row],
    values: Mapping[str, npt.NDArray[Any]],
    *,
    arrays: Sequence[Array] = (),
    recipe: Recipe | None = None,
    manifest: ManifestMark = MANIFEST,
    terms: Terms = TERMS,
) -> Store:
    """A store of these rows; the numbers of rows that are not ok do not matter."""
    recipe = recipe or a_recipe()
    chosen = tuple(arrays) or tuple(
        Array.of(name, str(array.dtype), array.shape[1:])
        for name, array in values.items()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_store(
        path,
        ArraySource(rows, values),
        arrays=chosen,
        recipe=recipe,
        manifest=manifest,
        terms=terms,
    )
    return open_store(path)


def sealed_store(path: Path, n_clips: int = 23, **changes: Any) -> Any:
    """A store of `ARRAYS`; returns the values that it was made from."""
    arrays = changes.get("arrays", ARRAYS)
    values = some_values(n_clips, arrays)
    made_store(path, some_rows(n_clips), values, **{"arrays": arrays, **changes})
    return values


def imported(source: Any, path: Path, **options: Any) -> Store:
    import_features(source, path, **options)
    return open_store(path)


def values_of(store: Store, array: str, clips: list[str] | None = None) -> np.ndarray:
    return np.asarray(store.matrix(array, clips=clips))
