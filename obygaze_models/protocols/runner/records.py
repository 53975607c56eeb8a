"""The files of a run: their format, and how to read them.

A run is a folder `runs/NAME/`. `read_run(folder)` gives a `Run`; what follows is the format.

run.json       the inputs of the run, and the only times; written last, so it marks a finished run
    {"format": "obygaze-run/1", "name": str, "identity": sha256 of all that the numbers depend on,
     "protocol": the resolved protocol (schema.Protocol.to_json()), "protocol_sha256": sha256,
     "manifest": {"name", "path", "sha256", "view", "n_clips", "n_movies"},
     "stores": {NAME: {"location", "backbone", "level", "width", "fingerprint", "sealed",
                       "manifest", "sha256", "n_present", "n_missing"}},
     "splits_sha256": {NAME of a store, or "none": sha256}, "results_sha256", "predictions_sha256",
     "versions": {package: version}, "seeds": {"splits", "fit", "n"}, "machine": {...},
     "seconds": {"read", "fit", "judge", "write", "total"}, "created": UTC time,
     "created_by": "obygaze VERSION"}

results.json   a list of records, each with a "kind"; the same inputs give the same bytes on
               one kernel of BLAS. A number that has no value (AP without a positive) is null.
  "cell"       one model of one store, trained for one task and tested on one
    {"kind": "cell", "task": TEST, "train": TASK, "test": TASK, "model": NAME, "feature": STORE,
     "n_test": clips, "n_positive", "n_movies", "prevalence", "n_runs": fits,
     "repeated": clips were tested by several runs (the value is a mean over runs, else pooled),
     "leaked": test clips that were training or validation clips, or of concept vectors, in a fold,
     "neighbours": further test clips next to a training scene (null: scenes unknown),
     "same_movie": further test clips of a training film, "leak_share",
     METRIC: {"mean": over folds, "sd": over folds, "value": of all test clips, "ci": [low, high] by
              films (nulls for a metric of decisions where a model calls all clips the same),
              "ci_clips": as if clips were independent, "design_effect"}, ...
       for f1_binary f1_weighted f1_macro precision recall accuracy ap auc, and of models that
       yield probabilities brier ece ece_width,
     "tuned": {METRIC: {"value"}} with thresholds from validation clips, or from training clips
              that fits without them scored; null without a threshold,
     "seeds": {"n", METRIC: {"mean", "sd"}} spread between seeds, null for one seed,
     "by_movie": {MOVIE: {"n", "n_positive", METRIC: value,
                           "sd": {METRIC: between runs that test this film alone, if several}}},
     "confusion": {"tp", "fp", "fn", "tn"} pooled over folds and averaged over seeds and runs,
     "calibration": [{"low", "high", "n", "score", "share"}] ten bins, or null,
     "recalibrated": {"brier", "ece", "ece_width", "calibration"} by Platt's method on other films,
     "folds": [{"fold", "seed", "n_train", "n_validation", "n_test", "n_positive", "leaked",
                METRIC: value, "threshold": tuned or null, "chosen": settings}],
     "skipped": [{"fold", "reason"}] folds that could not be trained or tested,
     "paper": [{"metric", "mean", "sd", "movie", "source"}] printed numbers for this cell}
  "baseline"   the same keys; "feature" is "" where it holds for every store, "expected": true where
               the numbers are closed forms and not draws; "ceiling": true for the oracle
  "comparison" two models on the same cell, or one on two stores: first minus second
    {"kind", "task", "train", "test", "metric", "first": {"model", "feature"}, "second": {...},
     "difference", "ci": by films, "p_sign_flip": by films, null unless all runs test the same
     clips, "n_movies", "exact": all flips were counted, "p_corrected_t": Nadeau-Bengio over sets of
     test clips (runs that share one are averaged first), null if there is one or if they share
     films, "n_test_sets", "repeated": clips were tested by several runs; both p are null for
     metrics of decisions}
  "contrast"   one model trained on both tasks of `report.contrast`: first minus second
    {"kind", "model", "feature", "test", "metric", "first": {"train", "value"}, "second": {...},
     "difference", "ci": by films and re-trainings, "p": sign flips of films; both null unless all
     runs test the same clips, "n_seeds", "seed_sd": of both, "n_movies", "n_movies_higher": films
     where the first is higher, "n_test", "n_positive", "leaked": test clips that trained or chose
     one of both; if any, a second record is without them}
  "learning"   the primary metric of a cell by the number of training films, if the protocol asks
    {"kind", "model", "feature", "train", "test", "metric", "points": [{"n_films", "value"}]}
  "coverage"   one for each store
    {"kind", "feature", "n_clips", "n_present", "n_missing", "n_missing_in_tasks",
     "n_unused": with a vector, but without a video in the manifest, which the released code drops,
     "reasons": {reason: count}, "missing": [{"clip_id", "reason", "tasks": [...]}]}
  "argmax"     several one-against-rest tasks as one question
    {"kind", "model", "feature", "tasks", "n_test", "accuracy", "f1_macro", "ci": of the accuracy,
     "majority": accuracy of the largest class, "confusion": [[true x said]]}
  "analysis"   success regressed on what is in a clip, one for each film and one for all
    {"kind", "model", "feature", "train", "test", "film", "n", "n_success", "factors": [{"name",
     "log_odds", "se", "low", "high", "p", "inflation"}], "intercept", "method", "errors",
     "condition", "collinear", "left_out": {factor: reason}, "note"}
  "anatomy"    concept vectors and heads of bottlenecks, if the protocol has `concepts = true`;
               metrics are of films left out, vectors, weights and trees of all clips
    {"kind", "part": "concepts", "feature", "models": those that use these vectors, "settings",
     "n_parts": parts (mostly films) that were left out in turn,
     "concepts": [{"name", "n", "n_positive", "prevalence", "ap", "auc", "f1_binary": {"value",
       "ci": by films}, "auc_against_EN", "auc_against_without": clips of HN and S without it,
       "p": by shifting labels within films, widened for films that train each other's vectors,
       "p_holm", "tolerance", "stability": {"mean", "least": cosines to the vector found without a
       part, "without": that part}, "noise": the same from random features ("ap", "auc",
       "stability") or null, "random_directions": {"n", "ap", "auc": {"mean", "high": 95th
       percentile}}}],
     "left_out": {concept: reason}, "cosines": [[concept x concept]],
     "purity": [[AUC of a row's margin for a column's concept]], "co_occurrence": the same for the
     true concepts, "film_leak": {"balanced_accuracy", "chance", "n_films", "excess"} or null,
     "note": the reason if there are no vectors}
    {"kind", "part": "head", "feature", "model", "task", "head", "settings", "n", "n_positive",
     "concepts": [name], "weights": {"intercept", "coef", "sd": of the margins} or null,
     "tree": {"left", "right" (-1: a leaf), "concept": number, "threshold": in units of margins,
       "share": of positives, "n"} or null,
     "task_gain": {"from_margins", "from_truth", "gain": in AP, "prevalence"} or null,
     "interventions": [{"order", "n_folds", "f1", "ap": after 0, 1, ... corrected concepts,
       "first": what greedy corrects first}]}
  "remark"     a warning that a result is misleading: {"kind", "about": NAME, "cells": n, "text"}

predictions.csv   out of fold, one line for each clip, cell and fold
    clip_id,movie_id,task,train,test,model,feature,fold,seed,y,score,decision
    score is a probability, or a margin (then "decision" is score > 0); floats in shortest form.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import Corrupt, Mismatch, NotFound
from obygaze_features.core.files import parse_json, sha256_bytes
from obygaze_features.core.notebook import data_frame, html_summary, short_repr

RUN_FORMAT = "obygaze-run/1"
AGAIN = "the same obygaze run again, with --force"
RUN_FILE, RESULTS_FILE, PREDICTIONS_FILE = "run.json", "results.json", "predictions.csv"
PREDICTION_COLUMNS = (
    *("clip_id", "movie_id", "task", "train", "test", "model", "feature"),
    *("fold", "seed", "y", "score", "decision"),
)

Record = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A finished run: the content of run.json and the records of results.json."""

    folder: Path
    about: Mapping[str, Any]
    records: Sequence[Record]

    def of(self, kind: str) -> list[Record]:
        """Return the records of one kind, in the order of the file."""
        return [record for record in self.records if record["kind"] == kind]

    @property
    def cells(self) -> list[Record]:
        """The cells of models."""
        return self.of("cell")

    @property
    def baselines(self) -> list[Record]:
        """The cells of baselines."""
        return self.of("baseline")

    @property
    def protocol(self) -> Mapping[str, Any]:
        """The complete protocol as JSON."""
        found: Mapping[str, Any] = self.about["protocol"]
        return found

    def __repr__(self) -> str:
        name = self.folder.name if len(self.folder.name) <= 60 else f"{self.folder.name[:57]}..."
        return short_repr("Run", repr(name), f"{len(self.cells)} cells")

    def _repr_html_(self) -> str:
        manifest = self.about["manifest"]
        facts = {
            "protocol": self.protocol["name"],
            "manifest": f"{manifest['name']}, {manifest['view']} view",
            "clips": f"{manifest['n_clips']:,} of {manifest['n_movies']} films",
            "stores": ", ".join(self.about["stores"]) or "none",
            "cells": len(self.cells),
        }
        return html_summary(f"Run {self.folder}", facts)

    def to_frame(self) -> Any:
        """Return the cells of models and baselines as a pandas DataFrame.

        One row for each cell; the columns of a metric are METRIC, METRIC_low and METRIC_high.
        """
        rows = [_flat(record) for record in (*self.cells, *self.baselines)]
        names = dict.fromkeys(name for row in rows for name in row)
        return data_frame({name: [row.get(name) for row in rows] for name in names})

    @cached_property
    def predictions(self) -> list[dict[str, Any]]:
        """The rows of predictions.csv; seed and y are int, score is float, decision is bool."""
        path = self.folder / PREDICTIONS_FILE
        if not path.is_file():
            raise NotFound("this run has no predictions", where=str(path))
        data = _whole(path, self.about.get("predictions_sha256"))
        try:
            rows = csv.DictReader(io.StringIO(data.decode("utf-8"), newline=""))
            return [_typed(row, path) for row in rows]
        except (UnicodeDecodeError, csv.Error) as error:
            raise Corrupt(f"not a table of predictions: {error}", where=str(path)) from error

    def to_json(self) -> Record:
        """Return the output of `obygaze run --json`."""
        return {
            "run": str(self.folder),
            "cells": [_shown(record) for record in self.cells],
            "baselines": [_shown(record) for record in self.baselines],
            "contrasts": self.of("contrast"),
            "comparisons": self.of("comparison"),
            "coverage": self.of("coverage"),
            "argmax": self.of("argmax"),
            "remarks": [record["text"] for record in self.of("remark")],
            "seconds": dict(self.about["seconds"]),
        }


def read_run(folder: Path) -> Run:
    """Return the run of a folder; a file that changed since the run was written is an error."""
    about = _json(folder / RUN_FILE)
    if not isinstance(about, dict) or about.get("format") != RUN_FORMAT:
        raise Mismatch(
            f"this is not a run of format {RUN_FORMAT!r}",
            where=str(folder / RUN_FILE),
            hint="pip install --upgrade obygaze",
        )
    records = _json(folder / RESULTS_FILE, about.get("results_sha256"))
    if not isinstance(records, list) or not all(
        isinstance(record, dict) and "kind" in record for record in records
    ):
        raise Corrupt(
            "expected a list of records, each with a kind",
            where=str(folder / RESULTS_FILE),
            hint=AGAIN,
        )
    return Run(folder, about, records)


def _whole(path: Path, sha256: object) -> bytes:
    """Return the bytes of a file that has the checksum of run.json, if that has one."""
    data = path.read_bytes()
    if sha256 is not None and sha256_bytes(data) != sha256:
        raise Corrupt(
            f"{path.name} is not the file that this run wrote: expected sha256 "
            f"{str(sha256)[:12]}..., got {sha256_bytes(data)[:12]}...",
            where=str(path),
            hint=AGAIN,
        )
    return data


def _json(path: Path, sha256: object = None) -> Any:
    if not path.is_file():
        raise NotFound("no finished run here", where=str(path), hint="obygaze run PROTOCOL")
    data = _whole(path, sha256)
    try:
        return parse_json(data)
    except ValueError as error:
        raise Corrupt(f"not valid JSON: {error}", where=str(path), hint=AGAIN) from error


def _typed(row: Mapping[str, str], path: Path) -> dict[str, Any]:
    try:
        numbers = {name: int(row[name]) for name in ("seed", "y")}
        decision = bool(int(row["decision"]))
        return {**row, **numbers, "score": float(row["score"]), "decision": decision}
    except (KeyError, TypeError, ValueError) as error:
        what = f"invalid row of predictions: {error!r}"
        raise Corrupt(what, where=str(path), hint=AGAIN) from error


def _flat(record: Record) -> Record:
    """Return the plain values of a cell, and of each metric the value and its interval."""
    flat = {key: value for key, value in record.items() if not isinstance(value, dict | list)}
    for key, value in record.items():
        if isinstance(value, dict) and "value" in value:
            ci = value.get("ci")
            low, high = ci if isinstance(ci, list) and len(ci) == 2 else (None, None)
            flat |= {key: value["value"], f"{key}_low": low, f"{key}_high": high}
    return flat


def _shown(record: Record) -> Record:
    """Return a record without the keys that only the files have."""
    hidden = ("kind", "by_movie", "calibration")
    return {key: value for key, value in record.items() if key not in hidden}
