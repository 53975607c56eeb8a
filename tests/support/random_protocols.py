"""Draw an experiment: uneven films, features with holes and copies, and a protocol of any form.

What a label is, which clips have features, and what is tested is computed here from the drawn
words, not with functions of the program: see `Experiment`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.vocabulary import concepts
from obygaze_models.models.registry import BASELINES

Random = np.random.Generator
VISUAL = [name for name, kind in concepts().items() if kind == "visual"]
HEARD = [name for name, kind in concepts().items() if kind != "visual"]
FILMS = ["tt0000010", "tt0000009", "a", "B", "Z_1", "lake.2", "10", "9+"]
REGIONS = ["", "north", "south", "Żółw", "a, b"]
SCHEMES = "obygaze_models.protocols.paper_splits"
Rule = Callable[[Clip], bool | None]


def of_level(rule: Callable[[Clip], bool]) -> Rule:
    """A rule that is not known of a clip without a level."""
    return lambda clip: rule(clip) if clip.level else None


def differ(clip: Clip, *names: str) -> bool:
    """Whether the annotators of a clip differ on some columns or concepts."""
    return not set(names).isdisjoint(clip.extra["differs"].split("|"))


def of_concepts(rule: Callable[[Clip], bool]) -> Rule:
    """A rule that is not known of a clip to which nobody gave a level or a concept."""

    def known(clip: Clip) -> bool | None:
        is_labelled = clip.level or clip.concepts or differ(clip, "level")
        return rule(clip) if is_labelled else None

    return known


def _is_north_or_sure(clip: Clip) -> bool | None:
    if clip.extra["region"] == "north" or clip.level == "S":
        return True
    return False if clip.extra["region"] and clip.level else None


# Each expression with what it means; None where an empty cell leaves it open. What each asks for is
# below: a clip whose annotators differ on some of it has no class.
EXPRESSIONS: list[tuple[str, Rule]] = [
    ("level == S", of_level(lambda clip: clip.level == "S")),
    ("level in {S, NS}", of_level(lambda clip: clip.level in ("S", "NS"))),
    ("Look in concept", of_concepts(lambda clip: "Look" in clip.concepts)),
    (
        "not concept and level",
        lambda clip: False if clip.concepts else bool(clip.level) or None,
    ),
    (
        "level != EN and Body not in concept",
        of_level(lambda c: c.level != "EN" and "Body" not in c.concepts),
    ),
    ("region == north or level == S", _is_north_or_sure),
]
NEGATIVES: list[tuple[str, Rule]] = [
    ("level == EN", lambda clip: clip.level == "EN"),
    ("level in {EN, HN}", lambda clip: clip.level in ("EN", "HN")),
    ("level and level != S", lambda clip: clip.level not in ("", "S")),
]
ASKED = {
    "level == S": ["level"],
    "level in {S, NS}": ["level"],
    "Look in concept": ["Look"],
    "not concept and level": [*VISUAL, *HEARD, "level"],
    "level != EN and Body not in concept": ["level", "Body"],
    "region == north or level == S": ["region", "level"],
    "level == EN": ["level"],
    "level in {EN, HN}": ["level"],
    "level and level != S": ["level"],
}
WHERE: list[tuple[str, Rule]] = [
    ("", lambda clip: True),
    ("", lambda clip: True),
    ("", lambda clip: True),
    ("region != south", lambda clip: clip.extra["region"] != "south"),
    ("level != NS", lambda clip: clip.level != "NS" and not differ(clip, "level")),
]


@dataclass
class Experiment:
    """A drawn experiment. `labels` has the class of each clip by task, None outside of it."""

    seed: int
    manifest: Manifest
    X: NDArray[np.float32]
    failed: list[str]
    absent: list[str]
    protocol: dict[str, Any]
    rules: dict[str, tuple[Rule, Rule | None]] = field(default_factory=dict)
    where: Rule = lambda clip: True

    @property
    def toml(self) -> bytes:
        """The protocol as a file."""
        return to_toml({"schema": "obygaze-protocol/1", **self.protocol}).encode()

    @property
    def clips(self) -> list[Clip]:
        """The clips that the protocol selects, as its view shows them."""
        view = self.protocol["data"].get("view", "raw")
        seen = [seen_clip(clip) if view == "visual" else clip for clip in self.manifest]
        return [clip for clip in seen if self.where(clip)]

    def class_of(self, name: str, clip: Clip) -> int | None:
        """The class of a clip in a task."""
        task = self.protocol["tasks"][name]
        if task.get("folds") and not clip.extra["fold:" + task["folds"]]:
            return None
        asked = {"level"} if "classes" in task else {task.get("column")}
        for key in ("positive", "negative"):
            asked.update(ASKED.get(task.get(key), ()))
        if not asked.isdisjoint(clip.extra["differs"].split("|")):
            return None
        if "classes" in task:
            return task["classes"].get(clip.level)
        if "column" in task:
            return task["values"].get(clip.extra[task["column"]])
        positive, negative = self.rules[name]
        if positive(clip):
            return 1
        if negative is None:
            return 0 if positive(clip) is False else None
        return 0 if negative(clip) else None

    def vectors(self) -> dict[str, NDArray[np.float64]]:
        """The vector of each selected clip that has one; fits scale "standard" themselves."""
        row_of = {clip.clip_id: row for row, clip in enumerate(self.manifest)}
        lost = {*self.failed, *self.absent}
        found = {}
        for clip in self.clips:
            vector = self.X[row_of[clip.clip_id]].astype(np.float64)
            if clip.clip_id not in lost and np.isfinite(vector).all():
                found[clip.clip_id] = vector
        scale = self.protocol["data"].get("scale", "none")
        if scale == "unit":
            lengths = {
                name: float(np.linalg.norm(vector)) for name, vector in found.items()
            }
            found = {
                name: found[name] / lengths[name] for name in found if lengths[name] > 0
            }
        return found


def seen_clip(clip: Clip) -> Clip:
    """A clip as the visual view shows it: what is only heard is left out.

    Without a concept that is seen it is EN; where annotators differ on one, it has no level.
    """
    shown = tuple(name for name in clip.concepts if name in VISUAL)
    level = clip.level if shown or not clip.level else "EN"
    extra = clip.extra
    differs = extra["differs"].split("|")
    is_open = not shown and not set(VISUAL).isdisjoint(differs)
    if is_open and clip.level not in ("", "EN"):
        level = ""
        extra = {**extra, "differs": "|".join(["level", *differs])}
    return Clip(
        clip.clip_id,
        clip.movie_id,
        clip.scene,
        clip.video,
        clip.start_s,
        clip.end_s,
        level,
        shown,
        extra,
    )


def chance(random: Random, share: float) -> bool:
    """Return true that often."""
    return bool(random.random() < share)


def pick(random: Random, items: Any) -> Any:
    """Return one of the items."""
    return items[int(random.integers(len(items)))]


def some(random: Random, items: list[str], least: int = 1) -> list[str]:
    """Return some of the items, in any order."""
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
    for column, name in enumerate(VISUAL[: width - 1]):
        X[[name in clip.concepts for clip in manifest], column + 1] += 1
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
    """Draw films of 1 to 20 clips, in any order of rows; of some, annotators differ."""
    films = some(random, FILMS, least=2)
    shares = (
        random.dirichlet([1.0, 0.7, 0.4, 1.0])
        if chance(random, 0.5)
        else [0.4, 0.2, 0.1, 0.3]
    )
    has_scenes, has_times = pick(random, [(1, 1), (1, 0), (0, 1), (0, 0)])
    disputed = pick(random, [0.0, 0.0, 0.0, 0.3])
    has_regions = chance(random, 0.6)
    unlabelled = pick(random, [0.0, 0.0, 0.1])
    clips = []
    for film in films:
        size = int(pick(random, [1, 3, 5, 8, 12, 20]))
        region = pick(random, REGIONS)
        for number in range(size):
            scene = number + 1 if has_scenes and not chance(random, 0.003) else None
            times = (3.0 * number, 3.0 * number + 2.5) if has_times else (None, None)
            fold = str(random.integers(5)) if chance(random, 0.9) else ""
            level = "" if chance(random, unlabelled) else pick_level(random, shares)
            names = VISUAL + HEARD
            n_concepts = {"": 0, "EN": 0, "HN": 1, "NS": 2, "S": 3}[level]
            chosen = [names[i] for i in random.permutation(len(names))[:n_concepts]]
            extra = {
                "region": region if has_regions and chance(random, 0.9) else "",
                "fold:P": fold,
                "fold:Q": str(random.integers(5)) if fold else "",
                "part": pick(random, ["train", "train", "dev", "test"]),
                "differs": "",
            }
            if chance(random, disputed):
                left_open = some(random, ["level", "Look", "Body", "Voice"])
                extra["differs"] = "|".join(left_open)
                chosen = [name for name in chosen if name not in left_open]
                level = "" if "level" in left_open else level
            own = tuple(sorted(chosen))
            clip_id = f"{film}-{number:03d}"
            clips.append(Clip(clip_id, film, scene, "", *times, level, own, extra))
    if chance(random, 0.3):
        clips = [clips[i] for i in random.permutation(len(clips))]
    columns = tuple(clips[0].extra)
    return Manifest("made-up", Header("made-up", concepts()), tuple(clips), columns)


def pick_level(random: Random, shares: Any) -> str:
    """Draw a level."""
    return str(random.choice(["EN", "HN", "NS", "S"], p=shares))


def draw_protocol(random: Random, one: Experiment) -> None:
    """Draw the protocol of an experiment."""
    published = chance(random, 0.15)
    tasks = {}
    for name in some(random, ["EN_S", "HN_S", "t-3"]):
        tasks[name] = draw_task(random, one, name)
        if published or chance(random, 0.05):
            tasks[name]["folds"] = pick(random, ["P", "P", "Q"])
    where, one.where = pick(random, WHERE)
    data = {"where": where} if where else {}
    options = {
        "view": ["raw", "raw", "visual"],
        "scale": ["none", "none", "unit", "standard", "none"],
    }
    data |= {key: pick(random, values) for key, values in options.items()}
    models = draw_models(random)
    grid: dict[str, Any] = {"baselines": some(random, [*BASELINES], least=0)}
    if chance(random, 0.3):
        grid["train"] = some(random, list(tasks))
    if chance(random, 0.3):
        grid["test"] = some(random, list(tasks))
    if chance(random, 0.4):
        grid["pairs"] = "same"
    one.protocol = {
        "leakage": pick(random, ["warn", "warn", "error"]),
        "data": data,
        "tasks": tasks,
        "splits": draw_splits(random, one, published),
        "models": models,
        "grid": grid,
        "fit": {"seed": int(random.integers(5)), "seeds": int(pick(random, [1, 1, 2]))},
        "report": draw_report(random, list(tasks)),
    }
    if published and one.protocol["splits"]["scheme"] != "none":
        balancing = pick(random, ["", "none", "rotated"])
        if balancing:
            one.protocol["balancing"] = balancing


def draw_task(random: Random, one: Experiment, name: str) -> dict[str, Any]:
    """Draw two classes of clips: by levels, by expressions, or by a column."""
    task: dict[str, Any] = {}
    way = pick(random, ["classes", "classes", "expressions", "column"])
    if way == "classes":
        task["classes"] = {"S": 1, pick(random, ["EN", "HN"]): 0}
        if chance(random, 0.5):
            task["classes"] |= {
                "EN": 0,
                pick(random, ["HN", "NS"]): int(random.integers(2)),
            }
    elif way == "expressions":
        text, positive = pick(random, EXPRESSIONS)
        task["positive"] = text
        one.rules[name] = positive, None
        if chance(random, 0.5):
            task["negative"], negative = pick(random, NEGATIVES)
            one.rules[name] = positive, negative
    else:
        task |= {"column": "part", "values": {"train": 0, "test": 1, "dev": 1}}
    return task


def draw_splits(random: Random, one: Experiment, published: bool) -> dict[str, Any]:
    """Draw the splits."""
    kinds = ["nested", "nested", "nested", "kfold", "fixed"]
    kind = "published" if published else pick(random, kinds)
    splits: dict[str, Any] = {"kind": kind, "seed": int(random.integers(4))}
    if kind == "kfold" or (kind == "nested" and chance(random, 0.4)):
        splits["folds"] = int(random.integers(2, 5))
    splits["validation"] = pick(random, ["next", "next", "none"])
    if kind in ("nested", "kfold") and chance(random, 0.25):
        splits["validation"] = "each"
    if published:
        splits["scheme"] = pick(
            random, ["none", "none", f"{SCHEMES}:text_splits", f"{SCHEMES}:code_splits"]
        )
    elif kind == "fixed":
        splits |= {"column": "part", "test": ["test"]}
        if chance(random, 0.5):
            splits["validation"] = "next"
    if kind not in ("fixed", "published") and chance(random, 0.15):
        names = sorted({clip.movie_id for clip in one.manifest})
        splits["never"] = (
            some(random, names)[: max(1, len(names) // 3)] if names else []
        )
    return splits


def draw_models(random: Random) -> dict[str, Any]:
    """Draw one or two models."""
    strengths = [0.01, 1.0, 10.0, {"grid": [0.1, 1.0]}, {"grid": [1.0, 0.01, 5.0]}]
    known: dict[str, Callable[[], dict[str, Any]]] = {
        "ridge": lambda: {"class_weight": pick(random, ["none", "balanced"])},
        "logistic": lambda: {
            "C": pick(random, strengths),
            "class_weight": pick(random, ["none", "balanced"]),
        },
    }
    models = {}
    for number in range(int(pick(random, [1, 1, 2]))):
        kind = pick(random, [*known])
        models[f"m{number}"] = {"kind": kind, **known[kind]()}
    return models


def draw_report(random: Random, tasks: list[str]) -> dict[str, Any]:
    """Draw the keys of the report."""
    report: dict[str, Any] = {
        "replicates": 2,
        "primary": pick(random, ["f1_binary", "recall", "ap", "auc", "brier"]),
        "compare": chance(random, 0.7),
        "concepts": False,
    }
    if len(tasks) > 1 and chance(random, 0.3):
        report["contrast"] = tasks[:2]
    return report


def to_toml(value: Mapping[str, Any], place: str = "") -> str:
    """The tables of a protocol as TOML."""
    lines, tables = [], []
    for key, item in value.items():
        name = f"{place}.{key}" if place else key
        if (
            isinstance(item, dict)
            and place.count(".") < 1
            and key not in ("classes", "values")
        ):
            tables.append(f"[{name}]\n{to_toml(item, name)}")
        else:
            lines.append(f"{key} = {to_value(item)}")
    return "\n".join([*lines, *tables]) + "\n"


def to_value(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, dict):
        cells = ", ".join(
            f"{json.dumps(key)} = {to_value(item)}" for key, item in value.items()
        )
        return "{ " + cells + " }"
    if isinstance(value, list):
        return "[" + ", ".join(to_value(item) for item in value) + "]"
    if isinstance(value, float):
        return repr(value)  # nan and inf are words of TOML, too
    return json.dumps(value, ensure_ascii=False)
