"""A MediaEval audit: all runs of a team scored, checked against the rules, set beside chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import FixInput, NotFound
from obygaze_models.audits.finding import Finding
from obygaze_models.audits.mediaeval import (
    AffectScore,
    check_rules,
    read_affect_run,
    read_trec_run,
    score_affect,
    score_violence,
    uses_external_data,
)
from obygaze_models.audits.mediaeval_truth import Truth
from obygaze_models.audits.ranking import Precision, RankingScore

AFFECT = ("valence", "arousal")


@dataclass(frozen=True)
class RunScore:
    """One run file and what it scored; None for a subtask it is not of."""

    path: Path
    violence: RankingScore | None = None
    valence: AffectScore | None = None
    arousal: AffectScore | None = None
    external_data: bool | None = None
    warnings: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """The scores under the names of the contract."""
        scores = {
            name: score.to_json() if (score := getattr(self, name)) is not None else None
            for name in ("violence", *AFFECT)
        }
        return {
            "run": str(self.path),
            **scores,
            "external_data": self.external_data,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True)
class MediaEvalAudit:
    """The runs of one team, and which rules they break."""

    runs: tuple[RunScore, ...]
    precision: Precision = "float32"
    broken: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Every run; at the top, for each subtask, the first run of it that was named."""
        runs = [run.to_json() for run in self.runs]
        first = {
            name: next((run[name] for run in runs if run[name] is not None), None)
            for name in ("violence", *AFFECT)
        }
        return {**first, "precision": self.precision, "broken": list(self.broken), "runs": runs}

    def finding(self) -> Finding:
        """A row for each run and subtask, and what else must be said of them."""
        rows = [row for run in self.runs for row in _rows(run)]
        said = [line for run in self.runs for line in _sentences(run, self.precision)]
        rules = [f"Against the rules of the task: {line}." for line in self.broken]
        headers = ("run", "subtask", "measure", "value", "of the returned", "chance", "majority")
        return Finding("MediaEval 2015, Affective Impact of Movies", [*said, *rules], headers, rows)

    def draw(self, stem: Path) -> tuple[Path, Path]:
        """Draw each run's score with its range under ties, beside chance."""
        from obygaze_models.audits.mediaeval_figure import draw_mediaeval

        return draw_mediaeval(self, stem)


def audit_runs(
    runs: Sequence[Path], truth: Truth, precision: Precision = "float32"
) -> MediaEvalAudit:
    """Score run files, told apart by their lines: TREC for violence, three words for affect."""
    if not runs:
        raise FixInput("there are no runs to score")
    kinds = {path: run_kind(path) for path in runs}
    scores = [
        (_of_violence if kinds[path] == "violence" else _of_affect)(path, truth, precision)
        for path in runs
    ]
    broken = [
        f"{kind}: {line}"
        for kind in ("violence", "affect")
        for line in check_rules([path for path in runs if kinds[path] == kind])
    ]
    return MediaEvalAudit(tuple(scores), precision, tuple(broken))


def run_kind(path: Path) -> str:
    """Whether the lines of a run rank violence or classify affect."""
    if not path.is_file():
        raise NotFound("no such run", where=str(path))
    with path.open("rb") as stream:
        first = next((line.split() for line in stream if line.strip()), [])
    return "affect" if len(first) == 3 else "violence"


def _of_violence(path: Path, truth: Truth, precision: Precision) -> RunScore:
    run = read_trec_run(path)
    if not truth.violence:
        raise FixInput("nothing here says which clips are violent", where=str(path))
    topic = next(iter(run.scores), "")
    qrels = truth.judged(topic, run.scores.get(topic, {}))
    score = score_violence(qrels, run, precision)
    return RunScore(
        path, violence=score, external_data=uses_external_data(path), warnings=run.warnings
    )


def _of_affect(path: Path, truth: Truth, precision: Precision) -> RunScore:
    found = dict(zip(AFFECT, read_affect_run(path), strict=True))
    scores: dict[str, AffectScore | None] = {
        name: score_affect(classes, predicted)
        if (classes := truth.classes(name, predicted))
        else None
        for name, predicted in found.items()
    }
    if not any(scores.values()):
        raise FixInput("nothing here says the classes of clips", where=str(path))
    return RunScore(path, **scores, external_data=uses_external_data(path))  # type: ignore[arg-type]


def _rows(run: RunScore) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    if run.violence is not None:
        score = run.violence
        told = (run.path.name, "violence")
        rows += [
            (*told, "ap_trec", score.ap_trec, None, score.ap_random, None),
            (*told, "ap_sklearn", score.ap_sklearn, None, score.ap_random, None),
            (*told, "pr_auc_trapezoid", score.pr_auc_trapezoid, None, None, None),
        ]
    for name in AFFECT:
        affect: AffectScore | None = getattr(run, name)
        if affect is not None:
            values = (affect.accuracy, affect.accuracy_returned, affect.random, affect.majority)
            rows.append((run.path.name, name, "accuracy", *values))
    return rows


def _sentences(run: RunScore, precision: Precision) -> list[str]:
    said = list(run.warnings)
    score, name = run.violence, run.path.name
    if score is not None and score.tied:
        kind = "32-bit" if precision == "float32" else "64-bit"
        said.append(
            f"{name}: {100 * score.tied:.1f} % of the scores are tied (as {kind} numbers); "
            f"ap_trec could be {score.ap_ties_worst:.4f} to {score.ap_ties_best:.4f} by their "
            f"order, {score.ap_ties_expected:.4f} on average."
        )
    if score is not None:
        missed = score.n_judged + score.n_unjudged - score.n_returned
        if missed:
            said.append(f"{name}: {missed} judged clips were not returned.")
        if score.n_unjudged:
            said.append(f"{name}: {score.n_unjudged} returned clips are not judged: not relevant.")
    for subtask in AFFECT:
        affect: AffectScore | None = getattr(run, subtask)
        if affect is not None and affect.n_returned < affect.n:
            missed = affect.n - affect.n_returned
            said.append(
                f"{name}: {missed} clips without a class of {subtask} count as wrong over all."
            )
        if affect is not None and affect.n_unknown:
            said.append(
                f"{name}: {affect.n_unknown} clips of the run have no known class of {subtask}."
            )
    return said
