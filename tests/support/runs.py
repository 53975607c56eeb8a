"""A run made by hand: small enough to say what every table and figure must show of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Record = dict[str, Any]
FILMS = ("tt1", "tt2", "tt3")
METRICS = ("f1_binary", "f1_weighted", "ap", "auc")


def cell(
    model: str = "ridge",
    *,
    train: str = "HN_S",
    test: str = "EN_S",
    feature: str = "clip",
    kind: str = "cell",
    ap: float = 0.625,
    ci: tuple[float, float] | None = (0.25, 0.875),
    leaked: int = 0,
    **more: Any,
) -> Record:
    """One cell; AP has the value that is asked for, the other metrics differ from it by hand."""
    values = {"f1_binary": 0.5, "f1_weighted": 0.75, "ap": ap, "auc": 0.8125}
    metrics = {
        name: {
            "mean": value,
            "sd": 0.03125,
            "value": value,
            "ci": list(ci) if ci else None,
        }
        for name, value in values.items()
    }
    return {
        "kind": kind,
        "task": test,
        "train": train,
        "test": test,
        "model": model,
        "feature": feature,
        "n_test": 12,
        "n_positive": 3,
        "n_films": 3,
        "prevalence": 0.25,
        "n_runs": 1,
        "repeated": False,
        "leaked": leaked,
        **metrics,
        "by_film": {film: {"n": 4, "n_positive": 1, "ap": 0.5} for film in FILMS},
        "confusion": {"tp": 2, "fp": 1, "fn": 1, "tn": 8},
        "calibration": [
            {"low": 0.0, "high": 0.1, "n": 12, "score": 0.05, "share": 0.25}
        ],
        "folds": [],
        "skipped": [],
        "paper": [],
        **more,
    }


def fold(name: str, n_test: int, n_positive: int, **more: Any) -> Record:
    """One test of one fit, of clips that did not leak."""
    return {
        "fold": name,
        "seed": 0,
        "n_train": 8,
        "n_validation": 0,
        "n_test": n_test,
        "n_positive": n_positive,
        "leaked": 0,
        "threshold": None,
        "chosen": {},
        **more,
    }


def baseline(
    model: str, *, train: str = "HN_S", test: str = "EN_S", **more: Any
) -> Record:
    """One baseline: no feature, AP the prevalence, no confusion."""
    own = {
        "feature": "",
        "kind": "baseline",
        "ap": 0.25,
        "confusion": None,
        "calibration": None,
    }
    flags = {"expected": model == "random", "ceiling": model == "oracle"}
    return cell(model, train=train, test=test, **{**own, **flags, **more})


def concepts(names: tuple[str, ...] = ("Look", "Body")) -> Record:
    """Concept vectors with round numbers."""
    one = {
        "n": 12,
        "n_positive": 3,
        "prevalence": 0.25,
        **{
            name: {"value": 0.75, "ci": [0.5, 1.0]}
            for name in ("ap", "auc", "f1_binary")
        },
        "p": 0.001,
        "p_holm": 0.002,
        "tolerance": 0.01,
    }
    return {
        "kind": "concept-model",
        "part": "concepts",
        "feature": "clip",
        "models": ["pcbm-dt"],
        "settings": {},
        "n_parts": 3,
        "concepts": [{"name": name, **one} for name in names],
        "left_out": {"Voice": "1 clips with it, 11 without"},
        "film_leak": {
            "balanced_accuracy": 0.5,
            "chance": 0.25,
            "n_films": 4,
            "excess": 0.3,
        },
        "note": "",
    }


def head(model: str = "pcbm-dt", names: tuple[str, ...] = ("Look", "Body")) -> Record:
    """A tree of two questions, or weights of 2 and -1 on margins of one half."""
    tree = {
        "left": [1, -1, 3, -1, -1],
        "right": [2, -1, 4, -1, -1],
        "concept": [0, -2, 1, -2, -2],
        "threshold": [0.125, -2.0, -0.5, -2.0, -2.0],
        "share": [0.25, 0.0, 0.5, 0.25, 1.0],
        "n": [12, 6, 6, 4, 2],
    }
    weights = {"intercept": 0.0, "coef": [2.0, -1.0], "sd": [0.5, 0.5]}
    curve = {
        "n_folds": 2,
        "f1": [0.25, 0.5, 0.75],
        "ap": [0.5, 0.625, 1.0],
        "first": [],
    }
    is_tree = model == "pcbm-dt"
    return {
        "kind": "concept-model",
        "part": "head",
        "feature": "clip",
        "model": model,
        "task": "HN_S",
        "head": model,
        "settings": {},
        "n": 12,
        "n_positive": 3,
        "concepts": list(names),
        "tree": tree if is_tree else None,
        "weights": None if is_tree else weights,
        "interventions": [{"order": o, **curve} for o in ("greedy", "random")],
    }


def analysis(film: str = "all films") -> Record:
    """Success regressed on one factor."""
    factor = {
        "name": "Look",
        "log_odds": 1.5,
        "se": 0.5,
        "low": 0.5,
        "high": 2.5,
        "n": 6,
    }
    return {
        "kind": "analysis",
        "model": "ridge",
        "feature": "clip",
        "train": "HN_S",
        "test": "EN_S",
        "film": film,
        "n": 12,
        "n_success": 8,
        "factors": [{**factor, "p": 0.0025}],
        "note": None,
    }


def predictions(clips: Mapping[str, str] | None = None, model: str = "ridge") -> str:
    """Twelve clips, four a film, the first of each positive; every second film decided wrongly."""
    own = clips or {f"{film}-{i:03d}": film for film in FILMS for i in range(1, 5)}
    lines = [
        "clip_id,movie_id,task,train,test,model,feature,fold,seed,y,score,decision"
    ]
    for number, (clip, film) in enumerate(own.items()):
        y, decision = int(number % 4 == 0), int(number % 8 == 0)
        score = 0.75 if decision else 0.25
        quoted = '"' + clip.replace('"', '""') + '"'
        lines.append(
            f"{quoted},{film},EN_S,HN_S,EN_S,{model},clip,0,0,{y},{score},{decision}"
        )
    return "\n".join(lines) + "\n"


def write_run(
    folder: Path, records: list[Record], said: str | None = None, **about: Any
) -> Path:
    """The three files of a run."""
    results = json.dumps(records)
    text = predictions() if said is None else said
    folder.mkdir(parents=True, exist_ok=True)
    tasks = {"EN_S": {"title": "easy negatives against sure"}}
    whole = {
        "format": "obygaze-run/1",
        "name": folder.name,
        "protocol": {
            "name": "made-up",
            "tasks": tasks,
            "splits": {"kind": "nested", "scheme": "none"},
            "report": {"title": "A run made by hand", "primary": "ap"},
        },
        "protocol_sha256": "a" * 64,
        "manifest": {
            "name": "films",
            "path": str(folder / "gone.toml"),
            "sha256": "b" * 64,
            "view": "visual",
            "n_clips": 12,
            "n_films": 3,
        },
        "stores": {
            "clip": {
                "backbone": "made-up backbone",
                "location": "stores/made-up",
                "array": "pooled",
                "dtype": "float32",
                "width": 8,
                "fingerprint": "c" * 64,
                "seal": "d" * 64,
            }
        },
        "results_sha256": hashlib.sha256(results.encode()).hexdigest(),
        "predictions_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "versions": {"numpy": "2.4.0"},
        "seeds": {"splits": 0},
        "created": "2026-01-01T00:00:00Z",
        "created_by": "obygaze",
        **about,
    }
    (folder / "run.json").write_text(json.dumps(whole), encoding="utf-8")
    (folder / "results.json").write_text(results, encoding="utf-8")
    (folder / "predictions.csv").write_text(text, encoding="utf-8")
    return folder


def usual() -> list[Record]:
    """A record of every kind that a report tells of."""
    printed = {"metric": "ap", "mean": 0.5, "sd": 0.125, "film": None, "source": ""}
    by_film = {
        "metric": "ap",
        "mean": 0.53,
        "sd": None,
        "film": "tt1",
        "source": "Juno",
    }
    comparison = {
        "kind": "comparison",
        "task": "EN_S",
        "train": "HN_S",
        "test": "EN_S",
        "metric": "ap",
        "first": {"model": "ridge", "feature": "clip"},
        "difference": 0.375,
        "ci": [-0.125, 0.5],
        "p_sign_flip": None,
        "p_corrected_t": 0.0625,
        "n_films": 3,
    }
    missing = {
        "clip_id": "tt2-004",
        "reason": "failed: no video stream",
        "tasks": ["EN_S"],
    }
    return [
        cell(paper=[printed]),
        cell("pcbm-dt", paper=[by_film], calibration=None, leaked=5),
        *(baseline(name) for name in ("random", "all_positive", "prevalence")),
        baseline("oracle", ap=1.0),
        {**comparison, "second": {"model": "prevalence", "feature": ""}},
        {**comparison, "second": {"model": "all_positive", "feature": ""}},
        {
            "kind": "coverage",
            "feature": "clip",
            "n_clips": 12,
            "n_present": 11,
            "n_missing": 1,
            "missing": [missing],
        },
        analysis(),
        analysis("tt1"),
        concepts(),
        head("pcbm-dt"),
        head("pcbm-lr"),
        {"kind": "remark", "about": "leak", "cells": 1, "text": "One cell leaks."},
    ]
