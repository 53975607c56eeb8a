"""Made-up films with features: levels run on from scene to scene, as those of real films do."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import FOLD_PREFIX, Clip, Header, Manifest
from obygaze_features.manifest.vocabulary import concepts
from obygaze_features.store import Recipe, Row, Store
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.schema import Protocol
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from support.stores import made_store

VISUAL = tuple(name for name, kind in concepts().items() if kind == "visual")


def films(
    n_films: int = 6, n_scenes: int = 40, seed=0, *, runs_on: float = 0.6
) -> Manifest:
    """Clips whose level is the scene's before with probability `runs_on`."""
    rng = np.random.default_rng(seed)
    levels, shares = ["EN", "HN", "NS", "S"], [0.4, 0.25, 0.1, 0.25]
    clips = []
    for film in range(n_films):
        name, level = f"tt{film + 1:07d}", "EN"
        for scene in range(1, n_scenes + 1):
            if rng.random() > runs_on:
                level = str(rng.choice(levels, p=shares))
            n = levels.index(level)
            chosen = sorted(rng.choice(len(VISUAL), n, replace=False).tolist())
            facts: Any = {"level": level, "concepts": tuple(VISUAL[i] for i in chosen)}
            facts |= {"start_s": 3.0 * scene, "end_s": 3.0 * scene + 2.5}
            clips.append(Clip(f"{name}-{scene:03d}", name, scene, **facts))
    return Manifest("made-up", Header("made-up", concepts()), tuple(clips))


def planted(
    manifest: Manifest, width: int = 24, strength: float = 1.0, seed: int = 1
) -> NDArray[np.float32]:
    """Features of every clip: noise, and where asked for, sure clips and concepts stand out."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(len(manifest), width)).astype(np.float32)
    sure = np.array([clip.level == "S" for clip in manifest])
    X[sure, :4] += strength
    for column, name in enumerate(VISUAL):
        X[[name in clip.concepts for clip in manifest], 4 + column] += strength
    return X


def store_of(
    path: Path,
    manifest: Manifest,
    X: NDArray[Any],
    *,
    array: str = "clip",
    failed: Sequence[str] = (),
    without: Sequence[str] = (),
    recipe: Recipe | None = None,
) -> Store:
    """A store of these rows; `failed` rows have a reason, `without` are not in it at all."""
    kept = [i for i, clip in enumerate(manifest) if clip.clip_id not in without]
    rows = []
    for clip in (manifest.clips[i] for i in kept):
        row = Row(clip.clip_id, clip.movie_id)
        if clip.clip_id in failed:
            row = row._replace(status="failed", reason="decode OSError: a broken file")
        rows.append(row)
    return made_store(path, rows, {array: X[kept].astype(np.float32)}, recipe=recipe)


def write_workspace(root, manifest, X: NDArray[Any], store: str = "sig") -> None:
    write_manifest(manifest, root / "manifests" / f"{manifest.name}.toml")
    store_of(root / "stores" / store, manifest, X)


# To choose the tolerance of concept vectors takes most of the time of a run with bottlenecks.
TOLERANCES = ("models.pcbm-lr.tolerance=0.1", "models.pcbm-dt.tolerance=0.1")


def quick(
    name: str = "honest-negatives", *changes: str, replicates: int = 60
) -> Protocol:
    return load_protocol(name, [f"report.replicates={replicates}", *changes])


def run_on(tmp_path, protocol: Protocol, manifest, stores: dict[str, Store]) -> Run:
    inputs = gather(protocol, manifest, "made-up", stores)
    number = len(list(tmp_path.glob("run-*")))
    return run_protocol(inputs, tmp_path / f"run-{number}", n_jobs=1)


# One pair of tasks, and nothing beside the predictions of its models.
ONE_PAIR = (
    'grid.train=["ENHN_S"]',
    'grid.test=["ENHN_S"]',
    "grid.baselines=[]",
    "report.contrast=[]",
    "report.compare=false",
    "fit.seeds=1",
)


def run_one_pair(path: Path, manifest: Manifest, X: NDArray[Any], *changes: str) -> Run:
    """Run `honest` on one pair of tasks, on a new store of these features."""
    path.mkdir(exist_ok=True)
    number = len(list(path.glob("store-*")))
    store = store_of(path / f"store-{number}", manifest, X)
    protocol = quick("honest-negatives", *ONE_PAIR, *changes, replicates=2)
    return run_on(path, protocol, manifest, {"x": store})


def without_models(protocol: Protocol, *baselines: str) -> Protocol:
    grid = replace(
        protocol.grid, models=(), baselines=baselines or protocol.grid.baselines
    )
    return replace(protocol, models={}, grid=grid)


def with_folds(manifest: Manifest, n_folds: int = 10) -> Manifest:
    """The fold columns that the paper's protocols read; each file has folds of its own."""
    names = sorted({clip.movie_id for clip in manifest})
    for name, levels in FILES.items():
        folds: dict[str, Any] = {}
        for level in levels.split():
            own = [clip.clip_id for clip in manifest if clip.level == level]
            own.sort(key=lambda clip: crc32(f"{name} {clip}".encode()))
            folds |= {clip: str(place % n_folds) for place, clip in enumerate(own)}
        manifest = manifest.with_column(FOLD_PREFIX + name, folds)
    for file in ("HN_S", "ENHN_S"):
        levels_of_file = FILES[f"02_{file}"].split()
        own_clips = [clip for clip in manifest if clip.level in levels_of_file]
        films_of = {one.clip_id: str(names.index(one.movie_id)) for one in own_clips}
        manifest = manifest.with_column(f"{FOLD_PREFIX}by_movie_{file}", films_of)
    return manifest


FILES = {"02_EN_S": "EN S", "02_HN_S": "HN S"}
FILES |= dict.fromkeys(("02_ENHN_S", "02_EN_HN_S"), "EN HN S")
