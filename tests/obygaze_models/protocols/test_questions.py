"""The differences that a protocol asks for before the run, and all others."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.experiments import films, planted, quick, run_on, store_of

from obygaze_features.core.errors import FixInput
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner.tables import Run
from obygaze_models.report.page import write_report

ONE_CELL = (
    'grid.models=["ridge", "pcbm-lr"]',
    'grid.train=["EN_S"]',
    'grid.test=["EN_S", "ENHN_S"]',
    'grid.baselines=["random", "neighbour"]',
    "report.concepts=false",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the shipped protocol, which asks two questions about EN_S."""
    folder = tmp_path_factory.mktemp("questions")
    manifest = films(6, 60, seed=2)
    store = store_of(folder / "store", manifest, planted(manifest, width=14))
    return run_on(folder, quick("honest", *ONE_CELL), manifest, {"x": store})


def test_each_difference_is_of_a_question_or_exploratory(run: Run) -> None:
    questions = {}
    for record in run.of("comparison"):
        pair = (record["first"]["model"], record["second"]["model"], record["test"])
        if record["question"] is not None:
            questions[pair] = record["question"]
    assert questions == {
        ("ridge", "random", "EN_S"): 0,
        ("ridge", "pcbm-lr", "EN_S"): 1,
    }


def test_families_are_corrected_apart(run: Run) -> None:
    asked = [r for r in run.of("comparison") if r["question"] is not None]
    others = [r for r in run.of("comparison") if r["question"] is None]
    assert {record["n_family"] for record in asked} == {2}
    assert {record["n_family"] for record in others} == {len(others)}
    for record in (*asked, *others):
        assert 0 < record["p_family"] <= 1
        low, high = record["ci"]
        if record["p_family"] <= 0.03:
            # What remains among many differs from 0 alone, too.
            assert not low <= 0 <= high


def test_the_report_begins_with_the_questions(run: Run, tmp_path: Path) -> None:
    page, *_ = write_report([run.folder], out=tmp_path / "report.html")
    text = page.read_text()
    first_heading = text.index("Questions of the protocol")
    assert first_heading < text.index("Warnings" if "Warnings" in text else "Results")
    assert "Does the video of an unseen film say which clips are sure?" in text
    assert "they are exploratory" in text
    table = (run.folder / "tables" / "questions.csv").read_text()
    rows = table.splitlines()
    assert len(rows) == 3  # headers, and a difference for each question
    others = (run.folder / "tables" / "comparisons.csv").read_text()
    assert [row for row in others.splitlines() if ",EN_S,ridge,random," in row] == []


def test_a_question_without_an_answer_is_said_to_have_none(tmp_path: Path) -> None:
    manifest = films(4, 40, seed=2)
    store = store_of(tmp_path / "store", manifest, planted(manifest, width=14))
    protocol = quick("honest", *ONE_CELL, 'grid.models=["pcbm-lr"]')
    run = run_on(tmp_path, protocol, manifest, {"x": store})
    page, *_ = write_report([run.folder], out=tmp_path / "report.html")
    sentence = "No difference of this run answers the question: What is lost"
    assert sentence in page.read_text()
    # There is no difference at all: nothing is said of the largest.
    assert "the largest of the" not in page.read_text()


def test_a_question_may_name_its_models_in_either_order(tmp_path: Path) -> None:
    manifest = films(4, 40, seed=2)
    stores = {}
    for seed, name in enumerate("ab"):
        X = planted(manifest, width=14, seed=seed)
        stores[name] = store_of(tmp_path / name, manifest, X)
    question = '{first = "ridge", first_store = "b", second_store = "a"}'
    protocol = quick("honest", *ONE_CELL, f"report.questions=[{question}]")
    run = run_on(tmp_path, protocol, manifest, stores)
    for record in run.of("comparison"):
        sides = (record["first"], record["second"])
        is_of_ridge_and_both = {"a", "b"} == {side["feature"] for side in sides} and (
            "ridge" in {side["model"] for side in sides if side["feature"] == "b"}
        )
        assert (record["question"] == 0) == is_of_ridge_and_both


@pytest.mark.parametrize(
    "question, said",
    [
        ('{first = "rigde"}', "ridge"),
        ('{test = "EN_X"}', "EN_X"),
        ('{firts = "ridge"}', "firts"),
    ],
)
def test_a_question_about_what_is_not_there_is_an_error(
    question: str, said: str
) -> None:
    with pytest.raises(FixInput) as refused:
        load_protocol("honest", [f"report.questions=[{question}]"])
    (violation,) = refused.value.details
    assert said in str(violation)
