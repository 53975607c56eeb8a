"""Why an experiment must be refused, by plain counts; and protocols with one thing wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from support.random_protocols import (
    Experiment,
    Random,
    draw_experiment,
    pick,
    to_toml,
)


def _is_not_run(one: Experiment, match: re.Match[str]) -> bool:
    grid = one.protocol["grid"]
    tasks = list(one.protocol["tasks"])
    trains = set(grid.get("train") or tasks)
    tests = set(grid.get("test") or tasks)
    in_pairs = trains & tests if grid.get("pairs") == "same" else trains | tests
    return match[1] in tasks and match[1] not in in_pairs


Reason = Callable[[Experiment, "re.Match[str]"], bool]


def _labels(one: Experiment, task: str) -> list[int | None]:
    return [one.class_of(task, clip) for clip in one.clips]


def _lacks_a_class(one: Experiment, match: re.Match[str]) -> bool:
    found = {label for label in _labels(one, match[1]) if label is not None}
    named = {int(number) for number in re.findall(r"class ([01])", match[0])}
    return named == {0, 1} - found


def _is_in_both(one: Experiment, match: re.Match[str]) -> bool:
    counts = set()
    for positive, negative in one.rules.values():
        if negative is not None:
            in_both = [positive(clip) and negative(clip) for clip in one.clips]
            counts.add(in_both.count(True))
    return int(match[1]) in counts


def _has_few_groups(one: Experiment, match: re.Match[str]) -> bool:
    splits = one.protocol["splits"]
    groups = {clip.movie_id for clip in one.clips}
    n_tested = len(groups - set(splits.get("never", [])))
    return n_tested == int(match[2]) < int(match[1]) == splits["folds"]


def _may_leak(one: Experiment, match: re.Match[str]) -> bool:
    """Concept vectors, or published folds of two columns."""
    splits = one.protocol["splits"]
    columns = {task.get("folds") for task in one.protocol["tasks"].values()}
    kinds = {model["kind"] for model in one.protocol["models"].values()}
    # Concept vectors are found on clips of all folds but the tested ones.
    finds_vectors = bool(kinds - {"ridge", "logistic", "svm", "mlp"})
    has_two_columns = splits["kind"] == "published" and len(columns) > 1
    leaks = has_two_columns or finds_vectors
    return one.protocol["leakage"] == "error" and leaks


def _has_few_films(one: Experiment, match: re.Match[str]) -> bool:
    splits = one.protocol["splits"]
    if splits["validation"] != "each":
        return False
    groups = {clip.movie_id for clip in one.clips}
    n_tested = len(groups - set(splits.get("never", [])))
    return n_tested < 2


def _never_is_everyone(one: Experiment, match: re.Match[str]) -> bool:
    splits = one.protocol["splits"]
    return {clip.movie_id for clip in one.clips} <= set(splits["never"])


def _lacks_a_cell(one: Experiment, match: re.Match[str]) -> bool:
    cells = {clip.extra["part"] for clip in one.clips}
    return match[1] not in cells


def _has_few_published_folds(one: Experiment, match: re.Match[str]) -> bool:
    numbers = []
    for column in ("fold:P", "fold:Q"):
        cells = [clip.extra[column] for clip in one.clips if clip.extra[column]]
        numbers.append(1 + max(map(int, cells)))
    return int(match[1]) in numbers and int(match[1]) < 4


def _has_few_rows(one: Experiment, match: re.Match[str]) -> bool:
    """Fewer than ten clips of a class outside of the test fold and one other fold."""
    fewest = []
    has_vector = one.vectors()
    for name, task in one.protocol["tasks"].items():
        column = "fold:" + task["folds"]
        clips = [clip for clip in one.clips if clip.extra[column]]
        last = str(max(int(clip.extra[column]) for clip in clips))
        run = match[1]
        pool = [c for c in clips if c.extra[column] not in (last, run)]
        for label in (0, 1):
            own = [c for c in pool if c.clip_id in has_vector]
            fewest.append(sum(one.class_of(name, clip) == label for clip in own))
    return min(fewest) < 10


def _cannot_be_trained(one: Experiment, match: re.Match[str]) -> bool:
    """Every fold lacks a class in training, or lacks tests: too few groups, parts or folds."""
    has_vector = one.vectors()
    train, test, reason = match[1], match[2], match[3]
    splits = one.protocol["splits"]

    def part_of(clip: Any, task: str) -> str:
        if splits["kind"] == "published":
            return str(clip.extra["fold:" + one.protocol["tasks"][task]["folds"]])
        if splits["kind"] == "fixed":
            return "test" if clip.extra["part"] == "test" else "other"
        if splits["kind"] == "kfold":
            return str(clip.clip_id)
        return clip.movie_id

    usable = [clip for clip in one.clips if clip.clip_id in has_vector]
    never = set(splits.get("never", []))
    tests, parts = set(), set()
    for clip in usable:
        if one.class_of(test, clip) is not None and clip.movie_id not in never:
            tests.add(part_of(clip, test))
        if one.class_of(train, clip) is not None:
            parts.add((part_of(clip, train), one.class_of(train, clip)))
    if splits["kind"] == "fixed":
        tests &= {"test"}
    if "no concept has" in reason:
        kinds = {model["kind"] for model in one.protocol["models"].values()}
        return bool(kinds - {"ridge", "logistic", "svm", "mlp"})
    able = []
    for part in tests:
        classes = {label for other, label in parts if other != part}
        able.append(classes == {0, 1})
    # Folds of several groups, and films that only validate, leave fewer to train on.
    takes_more = splits.get("folds") or splits["validation"] == "each"
    # A choice of C in splits of clips is made on the clips that validate, which then do not train.
    takes_more = takes_more or splits["kind"] in ("fixed", "kfold", "published")
    return not any(able) or bool(takes_more) or splits.get("scheme", "none") != "none"


def _has_no_pair(one: Experiment, match: re.Match[str]) -> bool:
    grid, tasks = one.protocol["grid"], list(one.protocol["tasks"])
    trains, tests = grid.get("train") or tasks, grid.get("test") or tasks
    return grid.get("pairs") == "same" and not set(trains) & set(tests)


def _repeats_films(one: Experiment, match: re.Match[str]) -> bool:
    films = one.protocol["report"]["learning_films"]
    return len(set(films)) < len(films)


def _asks_for_more_films(one: Experiment, match: re.Match[str]) -> bool:
    """More films are asked for than train; some group is always left out for the test."""
    groups = {clip.movie_id for clip in one.clips}
    most, wanted = int(match[1]), int(match[2])
    is_wanted = wanted == max(one.protocol["report"]["learning_films"])
    return is_wanted and wanted > most and most <= len(groups)


def _selects_nothing(one: Experiment, match: re.Match[str]) -> bool:
    return not one.clips


def _has_no_vector(one: Experiment, match: re.Match[str]) -> bool:
    return not one.vectors()


REASONS: dict[str, Reason] = {
    r"the task (\S+) has no clip of .*": _lacks_a_class,
    r"(\d+) clips are in both classes": _is_in_both,
    r"cannot make (\d+) folds of (\d+) \S+": _has_few_groups,
    r"\d+ of \d+ cells test on clips of their training or validation": _may_leak,
    r"validation = 'each' needs at least two films.*": _has_few_films,
    r"splits.never names every .*": _never_is_everyone,
    r"no clip has '(\w+)' in the column part": _lacks_a_cell,
    r"published splits need at least four folds, got (\d+)": _has_few_published_folds,
    r"run (\d+) has fewer than ten training rows of a class.*": _has_few_rows,
    r"no fold of (\S+) -> (\S+) could be trained and tested: (.*)": _cannot_be_trained,
    r".*grid: no task both trains and tests": _has_no_pair,
    r".*tasks\.(\S+): is in no pair of grid.train and grid.test.*": _is_not_run,
    r".*report.learning_films: must not list a value twice.*": _repeats_films,
    r"report.learning_films counts .+ here: .* more than (\d+), got (\d+)": (
        _asks_for_more_films
    ),
    r"no clip matches .*": _selects_nothing,
    r"none of the \d+ clips of the manifest .*": _has_no_vector,
}


def unjustified(one: Experiment, what: str, details: tuple[str, ...]) -> list[str]:
    """Return the reasons of a refusal that plain counts do not confirm."""
    texts = [what]
    if what.startswith("the protocol is not valid"):
        texts = list(details)
    found = []
    for text in texts:
        matches = ((re.fullmatch(form, text), is_so) for form, is_so in REASONS.items())
        known = [(match, is_so) for match, is_so in matches if match]
        if not any(is_so(one, match) for match, is_so in known):
            found.append(text)
    return found


# What is wrong, where the message must say so, and the keys with their value.
WRONG: list[tuple[str, tuple[str, ...], Any]] = [
    ("grid.train", ("grid", "train"), ["nobody"]),
    ("grid.test", ("grid", "test"), ["EN_S", "EN_S"]),
    ("grid.models", ("grid", "models"), ["m9"]),
    ("grid.pairs", ("grid", "pairs"), "some"),
    ("grid.baselines", ("grid", "baselines"), ["ridge"]),
    ("splits.kind", ("splits", "kind"), "bootstrap"),
    ("splits.folds", ("splits", "folds"), -1),
    ("splits.folds", ("splits", "folds"), 2.5),
    ("splits.seed", ("splits", "seed"), -1),
    ("splits.validation", ("splits", "validation"), True),
    ("splits.scheme", ("splits", "scheme"), "theirs"),
    ("splits.nothing", ("splits", "nothing"), 1),
    ("fit.seed", ("fit", "seed"), 2**31),
    ("fit.seeds", ("fit", "seeds"), 0),
    ("fit.seeds", ("fit", "seeds"), True),
    ("report.replicates", ("report", "replicates"), 1),
    ("report.confidence", ("report", "confidence"), 0.9),
    ("report.primary", ("report", "primary"), "f2"),
    ("report.contrast", ("report", "contrast"), ["EN_S"]),
    ("report.contrast", ("report", "contrast"), ["nobody", "no one"]),
    ("report.learning_films", ("report", "learning_films"), [0]),
    ("data.view", ("data", "view"), "heard"),
    ("data.where", ("data", "where"), "level ="),
    ("leakage", ("leakage",), "ignore"),
    ("balancing", ("balancing",), "once"),
    ("models.m0.kind", ("models", "m0", "kind"), "forest"),
    ("models.m0.depth", ("models", "m0", "depth"), 3),
    ("models.ridge2.C", ("models", "ridge2"), {"kind": "ridge", "C": 1.0}),
    ("models.l.C", ("models", "l"), {"kind": "logistic", "C": 0}),
    ("models.l.C", ("models", "l"), {"kind": "logistic", "C": math.inf}),
    ("models.l.C", ("models", "l"), {"kind": "logistic", "C": []}),
    ("models.l.C", ("models", "l"), {"kind": "logistic", "C": {"grid": [1.0, "x"]}}),
    ("models.oracle", ("models", "oracle"), {"kind": "ridge"}),
    ("tasks.new", ("tasks", "new"), {}),
    ("tasks.new.classes", ("tasks", "new"), {"classes": {"S": 1}}),
    ("tasks.new.classes", ("tasks", "new"), {"classes": {"S": 1, "XX": 0}}),
    ("tasks.new.classes", ("tasks", "new"), {"classes": {"S": 1, "EN": 2}}),
    ("tasks.new", ("tasks", "new"), {"column": "part"}),
    ("tasks.new.negative", ("tasks", "new"), {"negative": "level == EN"}),
    ("tasks.new.positive", ("tasks", "new"), {"positive": "level == EN and"}),
    (
        "tasks.new",
        ("tasks", "new"),
        {"positive": "level", "classes": {"S": 1, "EN": 0}},
    ),
]


def draw_wrong(seed: int) -> tuple[bytes, str]:
    """Return a protocol with one thing wrong, and the place that its refusal must name."""
    random: Random = np.random.default_rng([28, seed])
    one = draw_experiment(int(random.integers(10_000)))
    place, keys, value = pick(random, WRONG)
    protocol = one.protocol
    # A violation of its own would hide those that are found when the sections are compared.
    protocol["report"].pop("learning_films", None)
    table = protocol
    for key in keys[:-1]:
        table = table.setdefault(key, {})
    table[keys[-1]] = value
    return to_toml({"schema": "obygaze-protocol/1", **protocol}).encode(), place
