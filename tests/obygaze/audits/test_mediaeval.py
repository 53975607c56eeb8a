"""MediaEval scoring against trec_eval (through pytrec_eval), sklearn, brute force, and by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import auc, average_precision_score, precision_recall_curve

from obygaze.audits.mediaeval import RunScore, audit_mediaeval, check_rules
from obygaze.audits.mediaeval_runs import (
    read_affect_run,
    read_qrels,
    read_trec_run,
    score_affect,
    score_ranking,
)
from obygaze_features.core.errors import FixInput

documents = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from([0.1, 0.5, 0.5000000001, 0.9]), st.booleans()
    ),
    min_size=2,
    max_size=12,
)


@given(documents)
def test_trec_form_equals_trec_eval(rows: list[tuple[int, float, bool]]) -> None:
    """Ties, float32 ties, unjudged and unreturned documents included."""
    names = [f"{'aZ' if i % 2 else 'm'}{i:02d}" for i in range(len(rows))]
    qrels = {
        n: grade for n, (grade, _, judged) in zip(names, rows, strict=True) if judged
    }
    run = {
        n: score
        for i, (n, (_, score, _)) in enumerate(zip(names, rows, strict=True))
        if i % 4
    }
    assume(qrels and run)
    result = pytrec_eval.RelevanceEvaluator({"v": qrels}, {"map"}).evaluate({"v": run})
    assert score_ranking(qrels, run).ap_trec == pytest.approx(
        result["v"]["map"], abs=1e-12
    )


@given(documents)
def test_the_other_two_forms_equal_sklearn(rows: list[tuple[int, float, bool]]) -> None:
    grades = [grade for grade, _, _ in rows]
    scores = [score for _, score, _ in rows]
    assume(any(grades))
    names = [f"d{i}" for i in range(len(rows))]
    result = score_ranking(
        dict(zip(names, grades, strict=True)),
        dict(zip(names, scores, strict=True)),
        "float64",
    )
    truth = np.array(grades) > 0
    assert result.ap_sklearn == pytest.approx(
        average_precision_score(truth, scores), abs=1e-12
    )
    precision, recall, _ = precision_recall_curve(truth, scores)
    assert result.pr_auc_trapezoid == pytest.approx(auc(recall, precision), abs=1e-12)


def test_random_ap_in_closed_form() -> None:
    # Two documents, one relevant: first or second, (1 + 1/2) / 2.
    for n, n_relevant, expected in (
        (2, 1, 0.75),
        (300, 15, 0.06678438356616898),
        (10, 0, 0.0),
        (5, 5, 1.0),
    ):
        judged = {str(i): int(i < n_relevant) for i in range(n)}
        assert score_ranking(judged, {"0": 1.0}).ap_random == pytest.approx(
            expected, abs=1e-14
        )


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_invalid_scores_are_read_as_trec_eval_does_with_a_warning(
    tmp_path: Path,
) -> None:
    text = "v Q0 a 1 abc t\nv Q0 b 2 0.5 t\nv Q0 c 3 nan t\n"
    run, warnings = read_trec_run(write(tmp_path, "r", text))
    scores = run["v"]
    assert score_ranking({"a": 1, "b": 0, "c": 0}, scores).ap_trec == 0.5
    assert score_ranking({"a": 0, "b": 0, "c": 1}, scores).ap_trec == pytest.approx(
        1 / 3
    )
    assert [warning.split(":")[1] for warning in warnings] == ["1", "3"]


@pytest.mark.parametrize(
    ("text", "line"),
    [("v Q0 a 1 0.9 t\nv Q0 a 2 0.5 t\n", 2), ("v Q0 a 1 0.9\n", 1), ("", 1)],
)
def test_runs_that_trec_eval_refuses(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(FixInput) as caught:
        read_trec_run(write(tmp_path, "run", text))
    assert caught.value.details[0].startswith(f"{tmp_path / 'run'}:{line}:")


def test_bad_judgements_and_affect_lines(tmp_path: Path) -> None:
    with pytest.raises(FixInput) as caught:
        read_qrels(write(tmp_path, "q", "v 0 a 1\nv 0 a 0\nv 0 b x\nv 0\n"))
    assert len(caught.value.details) == 3
    with pytest.raises(FixInput) as caught:
        read_affect_run(write(tmp_path, "a", "a 0 2\nb 0\nc 1 1\nc 1 1\n"))
    assert len(caught.value.details) == 3
    run, qrels = (
        write(tmp_path, "r", "w Q0 a 1 1 t\n"),
        write(tmp_path, "q", "v 0 a 1\n"),
    )
    with pytest.raises(FixInput, match="the same topic, got w in the run, v judged"):
        audit_mediaeval([run], qrels=qrels)


def test_the_rules_of_the_task(tmp_path: Path) -> None:
    runs = [RunScore(f"r{i}.txt", None, None, None, i > 0) for i in range(5)]
    assert check_rules(runs) == []
    assert check_rules([*runs, RunScore("s.txt", None, None, None, None)]) == [
        "6 runs, at most 5 are allowed for a subtask",
        "s.txt: s.json with the field external_data is missing",
    ]
    assert check_rules(runs[1:3]) == [
        "all runs use external data; at least one must be without it"
    ]
    run, qrels = (
        write(tmp_path, "r", "v Q0 a 1 1 t\n"),
        write(tmp_path, "q", "v 0 a 1\n"),
    )
    write(tmp_path, "r.json", "{}")
    with pytest.raises(FixInput, match="external_data must be true or false"):
        audit_mediaeval([run], qrels=qrels)


def test_published_cases(tmp_path: Path) -> None:
    from support.data import golden

    cases = json.loads(golden("audits", "mediaeval.json").read_text("utf-8"))
    for case in cases["ap_cases"]:
        expected = case["expected"]
        for precision in ("float32", "float64"):
            result = score_ranking(case["qrels"], case["run"], precision)
            assert result.ap_trec == pytest.approx(
                expected[f"ap_{precision}"], abs=1e-12
            )
        assert result.ap_sklearn == pytest.approx(expected["sklearn_ap"], abs=1e-12)
        assert result.pr_auc_trapezoid == pytest.approx(
            expected["sklearn_pr_auc_trapz"], abs=1e-12
        )
    for case in cases["format_cases"]:
        qrels = read_qrels(write(tmp_path, "q", case["qrels_text"]))
        run_file = write(tmp_path, "r", case["run_text"])
        tool = case["tools"]["trec_eval_9.0.4"]
        if tool["returncode"]:
            with pytest.raises(FixInput):
                read_trec_run(run_file)
        else:
            [(topic, scores)] = read_trec_run(run_file)[0].items()
            ap = score_ranking(qrels[topic], scores).ap_trec
            assert ap == pytest.approx(tool["values"]["map"], abs=5e-5)
    affect = cases["affect_accuracy"]
    truth = {str(i): value for i, value in enumerate(affect["y_true"])}
    result = score_affect(
        truth, {str(i): value for i, value in enumerate(affect["y_pred"])}
    )
    assert result.accuracy == affect["accuracy"]
    assert [list(row) for row in result.confusion] == affect["confusion_rows_true"]
