"""Story 29: from the tables of LIRIS-ACCEDE to both official run files of MediaEval 2015 and their
scores."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from stories.workspace import Workspace

N_FILMS = 12
PER_FILM = 10
DEVELOPMENT_FILMS = 8
SCALES = ("valence", "arousal")


@dataclass(frozen=True)
class Excerpt:
    number: int
    family: str
    film: str
    is_test: bool
    violence: int
    valence: int
    arousal: int

    @property
    def name(self) -> str:
        return f"{self.family}{self.number:05d}"


def made_up_excerpts() -> list[Excerpt]:
    """Return excerpts of eight films for development and four films for the test."""
    draws = np.random.default_rng(5)
    excerpts = []
    for film in range(N_FILMS):
        is_test = film >= DEVELOPMENT_FILMS
        for place in range(PER_FILM):
            excerpt = Excerpt(
                number=film * PER_FILM + place,
                family="MEDIAEVAL" if is_test else "ACCEDE",
                film=f"film {film}",
                is_test=is_test,
                violence=int(draws.random() < 0.3),
                valence=int(draws.integers(-1, 2)),
                arousal=int(draws.integers(-1, 2)),
            )
            excerpts.append(excerpt)
    return excerpts


def features_of(excerpts: list[Excerpt]) -> npt.NDArray[np.float32]:
    X = np.random.default_rng(6).normal(size=(len(excerpts), 8))
    X[:, 0] += [1.5 * excerpt.violence for excerpt in excerpts]
    return X.astype(np.float32)


def write_annotations(ws: Workspace, folder: str, excerpts: list[Excerpt]) -> None:
    """Write the files of the data set, as its own readme describes them."""
    for family in ("ACCEDE", "MEDIAEVAL"):
        affect = ["id\tname\tvalenceClass\tarousalClass"]
        violence = ["id\tname\tviolenceClass"]
        description = ['<?xml version="1.0" encoding="UTF-8"?>', "<library>"]
        for one in excerpts:
            if one.family != family:
                continue
            affect.append(f"{one.number}\t{one.name}.mp4\t{one.valence}\t{one.arousal}")
            violence.append(f"{one.number}\t{one.name}.mp4\t{one.violence}")
            description.append(
                f"<media><id>{one.number}</id><name>{one.name}.mp4</name>"
                f"<movie>{one.film}.mp4</movie><start>0</start><end>99</end></media>"
            )
        # The rows of the files are not in one order: they are joined by name.
        affect[1:] = reversed(affect[1:])
        description.append("</library>")
        ws.write(f"{folder}/{family}affect.txt", "\n".join(affect) + "\n")
        ws.write(f"{folder}/{family}violence.txt", "\n".join(violence) + "\n")
        ws.write(f"{folder}/{family}description.xml", "\n".join(description) + "\n")
    for part, is_test in (("devset", False), ("testset", True)):
        lines = []
        for one in excerpts:
            if one.is_test == is_test:
                lines.append(f"{7000 + one.number}\t{one.name}")
        ws.write(f"{folder}/shots-{part}-nl.txt", "\n".join(lines) + "\n")


def begin(ws: Workspace) -> list[Excerpt]:
    """Begin with the manifest `accede` and a store of features of its excerpts."""
    excerpts = made_up_excerpts()
    write_annotations(ws, "annotations", excerpts)
    ws("manifest import annotations --as liris-accede -o accede")
    names = [excerpt.name for excerpt in excerpts]
    np.savez(ws.path("features.npz"), clip_id=names, X=features_of(excerpts))
    ws("store import features.npz --array clip=X --manifest accede -o features")
    return excerpts


def train_violence(ws: Workspace, manifest: str, model: str) -> None:
    """Train on the films for development and write the run of the films for the test."""
    ws(
        f"train ridge --store features --manifest {manifest} --task violence -o {model}"
        " --set tasks.violence.column=violence"
        """ --set 'tasks.violence.values={ "0" = 0, "1" = 1 }'"""
        " --set splits.kind=fixed --set splits.column=fold:mediaeval2015"
        """ --set 'splits.test=["0"]' --set report.replicates=20"""
    )
    ws(f"models predict {model} features -o {model}.csv")
    ws(f"audit mediaeval --write {model}.txt --predictions {model}.csv")


def read_run(ws: Workspace, name: str) -> dict[str, float]:
    """Return the score of each document of a run of violence, and check its form."""
    scores = {}
    form = re.compile(r"violence Q0 (\S+) (\d+) (\S+) \S+")
    for rank, line in enumerate(ws.read(name).splitlines(), start=1):
        found = form.fullmatch(line)
        assert found is not None, line
        assert int(found[2]) == rank
        scores[found[1]] = float(found[3])
    return scores


def trec_eval(judgements: dict[str, int], scores: dict[str, float]) -> float:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    evaluator = pytrec_eval.RelevanceEvaluator({"violence": judgements}, {"map"})
    return float(evaluator.evaluate({"violence": scores})["violence"]["map"])


def test_a_run_of_violence_has_the_test_clips_and_the_score_of_trec_eval(
    ws: Workspace,
) -> None:
    excerpts = begin(ws)
    train_violence(ws, "accede", "violence")
    scores = read_run(ws, "violence.txt")
    judgements = {}
    for one in excerpts:
        if one.is_test:
            judgements[f"{one.name}.mp4"] = one.violence
    assert scores.keys() == judgements.keys()
    assert list(scores.values()) == sorted(scores.values(), reverse=True)

    document = ws("audit mediaeval violence.txt --manifest accede --json").json()
    found = document["violence"]
    assert found["ap_trec"] == pytest.approx(trec_eval(judgements, scores), abs=1e-9)
    n = len(judgements)
    n_relevant = sum(judgements.values())
    assert found["ap_trec"] > n_relevant / n + 0.2


def test_the_labels_of_the_test_films_change_no_score_of_their_clips(
    ws: Workspace,
) -> None:
    excerpts = begin(ws)
    train_violence(ws, "accede", "violence")
    flipped = []
    for one in excerpts:
        violence = 1 - one.violence if one.is_test else one.violence
        flipped.append(Excerpt(**{**vars(one), "violence": violence}))
    write_annotations(ws, "flipped", flipped)
    ws("manifest import flipped --as liris-accede -o flipped")
    train_violence(ws, "flipped", "other")
    assert read_run(ws, "other.txt") == read_run(ws, "violence.txt")


def test_a_run_of_affect_has_the_accuracies_of_the_task(ws: Workspace) -> None:
    excerpts = [one for one in begin(ws) if one.is_test]
    draws = np.random.default_rng(7)
    scores = {name: draws.uniform(-1, 1, len(excerpts)) for name in SCALES}
    rows = []
    for number, one in enumerate(excerpts):
        row = {name: float(scores[name][number]) for name in SCALES}
        rows.append({"clip_id": f"{one.name}.mp4", **row})
    # The run does not have the last four clips, which count as wrong.
    ws.write_table("scores.csv", rows[:-4])
    ws("audit mediaeval --write affect.txt --affect scores.csv")
    answer = ws("audit mediaeval affect.txt --manifest accede --table scores-of.csv")
    assert "rules of the task" not in answer.text
    table = {row["subtask"]: row for row in ws.read_table("scores-of.csv")}
    assert table.keys() == {*SCALES}
    for name, found in table.items():
        classes = np.where(abs(scores[name]) <= 0.15, 0, np.sign(scores[name]))
        y = np.array([getattr(one, name) for one in excerpts])
        n_right = (classes == y)[:-4].sum()
        assert float(found["value"]) == pytest.approx(n_right / len(excerpts))
