"""Draw an experiment: uneven films, features with holes and copies, and a protocol of any form.

What a label is, which clips have features, and what is tested is computed here from the drawn
words, not with functions of the program: see `Experiment`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.vocabulary import concepts
from obygaze_models.models.registry import BASELINES

Random = np.random.Generator
VISUAL = [name for name, kind in concepts().items() if kind == "visual"]
FILMS = ["tt0000010", "tt0000009", "a", "B", "Z_1", "lake.2", "10", "9+"]
CLASSES = [
    {"EN": 0, "S": 1},
    {"HN": 0, "S": 1},
    {"EN": 0, "HN": 0, "S": 1},
    {"EN": 0, "NS": 1, "S": 1},
]


@dataclass
class Experiment:
    seed: int
    manifest: Manifest
    X: NDArray[np.float32]
    failed: list[str]
    absent: list[str]
    protocol: dict[str, Any]

    @property
    def toml(self) -> bytes:
        return to_toml({"schema": "obygaze-protocol/1", **self.protocol}).encode()

    @property
    def clips(self) -> list[Clip]:
        return [*self.manifest]

    def class_of(self, name: str, clip: Clip) -> int | None:
        """The class of a clip in a task; None outside of it."""
        classes: dict[str, int] = self.protocol["tasks"][name]["classes"]
        return classes.get(clip.level)

    def vectors(self) -> dict[str, NDArray[np.float64]]:
        """The vector of each clip that has one; fits scale "standard" themselves."""
        lost = {*self.failed, *self.absent}
        found = {}
        for clip, vector in zip(self.manifest, self.X.astype(np.float64), strict=True):
            if self.protocol["data"]["scale"] == "unit":
                vector = vector / (np.linalg.norm(vector) or np.nan)
            if clip.clip_id not in lost and np.isfinite(vector).all():
                found[clip.clip_id] = vector
        return found


def chance(random: Random, share: float) -> bool:
    return bool(random.random() < share)


def pick(random: Random, items: Any) -> Any:
    return items[int(random.integers(len(items)))]


def some(random: Random, items: list[str], least: int = 1) -> list[str]:
    n = int(random.integers(least, len(items) + 1))
    return [items[i] for i in random.permutation(len(items))[:n]]


def draw_experiment(seed: int) -> Experiment:
    """Draw an experiment; the same seed gives the same one."""
    random = np.random.default_rng([27, seed])
    manifest = draw_manifest(random)
    n = len(manifest)
    width = int(random.integers(1, 12))
    X = random.normal(size=(n, width)).astype(np.float32)
    sure = np.array([clip.level == "S" for clip in manifest])
    X[sure, 0] += np.float32(pick(random, [0.0, 1.0, 5.0]))
    if chance(random, 0.2):
        for _ in range(int(random.integers(1, 4))):
            X[int(random.integers(n))] = X[int(random.integers(n))]
    if chance(random, 0.1):
        X[:, int(random.integers(width))] = 3.0
    if chance(random, 0.1):
        X[int(random.integers(n))] = 0.0
    ids = list(manifest.clip_ids)
    failed = some(random, ids)[: n // 8] if chance(random, 0.3) else []
    absent = some(random, ids)[: n // 8] if chance(random, 0.2) else []
    one = Experiment(seed, manifest, X, failed, absent, {})
    draw_protocol(random, one)
    return one


def draw_manifest(random: Random) -> Manifest:
    """Draw films of 3 to 20 clips, in any order of rows."""
    shares = pick(random, [[0.3, 0.2, 0.1, 0.4], [0.5, 0.2, 0.1, 0.2]])
    has_scenes, has_times = pick(random, [(1, 1), (1, 0), (0, 1), (0, 0)])
    unlabelled = pick(random, [0.0, 0.0, 0.1])
    clips = []
    for film in some(random, FILMS, least=3):
        for number in range(int(pick(random, [3, 5, 8, 12, 20]))):
            level = str(random.choice(["EN", "HN", "NS", "S"], p=shares))
            level = "" if chance(random, unlabelled) else level
            n_concepts = {"": 0, "EN": 0, "HN": 1, "NS": 2, "S": 3}[level]
            chosen = sorted(random.permutation(len(VISUAL))[:n_concepts].tolist())
            scene = number + 1 if has_scenes else None
            times = (3.0 * number, 3.0 * number + 2.5) if has_times else (None, None)
            names = tuple(VISUAL[i] for i in chosen)
            extra = {"part": pick(random, ["train", "train", "dev", "test"])}
            own_id = f"{film}-{number:03d}"
            clips.append(Clip(own_id, film, scene, "", *times, level, names, extra))
    if chance(random, 0.3):
        clips = [clips[i] for i in random.permutation(len(clips))]
    header = Header("made-up", concepts())
    return Manifest("made-up", header, tuple(clips), ("part",))


def draw_protocol(random: Random, one: Experiment) -> None:
    tasks = {}
    for name in some(random, ["EN_S", "HN_S", "t-3"]):
        tasks[name] = {"classes": pick(random, CLASSES)}
    grid: dict[str, Any] = {"baselines": some(random, [*BASELINES], least=0)}
    if chance(random, 0.3):
        grid["train"] = some(random, list(tasks))
    if chance(random, 0.3):
        grid["test"] = some(random, list(tasks))
    if chance(random, 0.4):
        grid["pairs"] = "same"
    report = {
        "replicates": 2,
        "primary": pick(random, ["f1_binary", "recall", "ap", "auc", "brier"]),
        "compare": chance(random, 0.7),
        "concepts": False,
    }
    if len(tasks) > 1 and chance(random, 0.3):
        report["contrast"] = list(tasks)[:2]
    scale = pick(random, ["none", "none", "unit", "standard"])
    one.protocol = {
        "leakage": pick(random, ["warn", "warn", "error"]),
        "data": {"view": "raw", "scale": scale},
        "tasks": tasks,
        "splits": draw_splits(random, one),
        "models": draw_models(random),
        "grid": grid,
        "fit": {"seed": int(random.integers(5))},
        "report": report,
    }


def draw_splits(random: Random, one: Experiment) -> dict[str, Any]:
    kind = pick(random, ["nested", "nested", "nested", "kfold", "fixed"])
    splits: dict[str, Any] = {"kind": kind, "seed": int(random.integers(4))}
    if kind == "kfold" or (kind == "nested" and chance(random, 0.4)):
        splits["folds"] = int(random.integers(2, 4))
    splits["validation"] = pick(random, ["next", "next", "none"])
    if kind == "fixed":
        splits |= {"column": "part", "test": ["test"]}
        return splits
    if chance(random, 0.25):
        splits["validation"] = "each"
    if chance(random, 0.15):
        names = sorted({clip.movie_id for clip in one.manifest})
        splits["never"] = some(random, names)[: max(1, len(names) // 3)]
    return splits


def draw_models(random: Random) -> dict[str, Any]:
    strengths = [0.01, 1.0, 10.0, {"grid": [0.1, 1.0]}, {"grid": [1.0, 0.01, 5.0]}]
    models = {}
    for number in range(int(pick(random, [1, 1, 2]))):
        model = {"kind": pick(random, ["ridge", "logistic"])}
        if model["kind"] == "logistic":
            model["C"] = pick(random, strengths)
        model["class_weight"] = pick(random, ["none", "balanced"])
        models[f"m{number}"] = model
    return models


def to_toml(value: Mapping[str, Any]) -> str:
    """A protocol as TOML, each of its tables on a line."""
    return "\n".join(f"{key} = {to_value(item)}" for key, item in value.items())


def to_value(value: Any) -> str:
    if isinstance(value, dict):
        cells = [f"{json.dumps(key)} = {to_value(item)}" for key, item in value.items()]
        return "{ " + ", ".join(cells) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(to_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
