"""MediaEval scoring against trec_eval (through pytrec_eval), brute force, and by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
import pytrec_eval
from hypothesis import assume, given
from hypothesis import strategies as st
from support.cli import call_obygaze

from obygaze.audits.mediaeval import audit_mediaeval
from obygaze.audits.mediaeval_runs import (
    read_affect_run,
    read_qrels,
    read_trec_run,
    score_affect,
    score_ranking,
)
from obygaze_features.core.errors import FixInput, FixUsage

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
    assert score_ranking(qrels, run)["ap_trec"] == pytest.approx(
        result["v"]["map"], abs=1e-12
    )


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_invalid_scores_are_read_as_trec_eval_does_with_a_warning(tmp_path) -> None:
    text = "v Q0 a 1 abc t\nv Q0 b 2 0.5 t\nv Q0 c 3 nan t\n"
    run, warnings = read_trec_run(write(tmp_path, "r", text))
    scores = run["v"]
    assert score_ranking({"a": 1, "b": 0, "c": 0}, scores)["ap_trec"] == 0.5
    assert score_ranking({"a": 0, "b": 0, "c": 1}, scores)["ap_trec"] == pytest.approx(
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
    qrels = write(tmp_path, "q", "v 0 a 1\n")
    for text, problem in (
        ("w Q0 a 1 1 t\n", "the same topic, got w in the run, v judged"),
        # Its score would be 0 whatever it says.
        ("v Q0 b 1 1 t\n", "no clip of the run is judged"),
        ("a 1 0\n", "judgements of valence or arousal"),
    ):
        run = write(tmp_path, "r", text)
        with pytest.raises(FixInput, match=problem):
            audit_mediaeval([run], qrels=qrels)
    with pytest.raises(FixUsage, match="expected --qrels or --manifest, got neither"):
        audit_mediaeval([run])


def test_the_rules_of_the_task(tmp_path: Path) -> None:
    qrels = write(tmp_path, "q", "v 0 a 1\n")
    runs = [write(tmp_path, f"r{i}", "v Q0 a 1 1 t\n") for i in range(6)]
    external = "made without external data; run files do not state this"
    for n_runs, broken in ((5, []), (6, ["violence: expected at most 5 runs, got 6"])):
        audit = audit_mediaeval(runs[:n_runs], qrels=qrels)
        assert [
            line.partition(" for a subtask")[0] for line in audit["broken"]
        ] == broken
        assert external in audit.limits[-1]


def test_published_cases(tmp_path: Path) -> None:
    from support.data import golden

    cases = json.loads(golden("audits", "mediaeval.json").read_text("utf-8"))
    for case in cases["ap_cases"]:
        expected = case["expected"]
        result = score_ranking(case["qrels"], case["run"])
        assert result["ap_trec"] == pytest.approx(expected["ap_float32"], abs=1e-12)
    for case in cases["format_cases"]:
        qrels = read_qrels(write(tmp_path, "q", case["qrels_text"]))
        run_file = write(tmp_path, "r", case["run_text"])
        tool = case["tools"]["trec_eval_9.0.4"]
        if tool["returncode"]:
            with pytest.raises(FixInput):
                read_trec_run(run_file)
        else:
            [(topic, scores)] = read_trec_run(run_file)[0].items()
            ap = score_ranking(qrels[topic], scores)["ap_trec"]
            assert ap == pytest.approx(tool["values"]["map"], abs=5e-5)
    affect = cases["affect_accuracy"]
    truth = {str(i): value for i, value in enumerate(affect["y_true"])}
    result = score_affect(
        truth, {str(i): value for i, value in enumerate(affect["y_pred"])}
    )
    assert result["accuracy"] == affect["accuracy"]
    assert result["confusion"] == affect["confusion_rows_true"]


# ---- runs that are written -----------------------------------------------------------------------

SCORES = """\
clip_id,valence,arousal
ACCEDE00003.mp4,1,-1
ACCEDE00001,-0.151,0.15
ACCEDE00002.mp4,-0.15,0.151
"""


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("affect", "clip_id,valence\na,0\n", "arousal"),
        ("affect", "clip_id,valence,arousal\n", "the table has no scores of affect"),
        ("affect", "clip_id,valence,arousal\na,0,4899\n", "from -1 to 1, got '4899'"),
        (
            "affect",
            "clip_id,valence,arousal\na b,0,0\n",
            "expected a name without blanks",
        ),
        ("affect", f"{SCORES}ACCEDE00001.mp4,0.5,0.5\n", "mp4' has two ids"),
        ("predictions", "clip_id,score:1\n", "the table has no predictions"),
        ("predictions", "clip_id,score:1\na,nan\n", "expected a number, got 'nan'"),
        ("predictions", "clip_id,score:1\na,0.5\na,0.5\n", "'a' is already on line 2"),
        # Of three classes, none is what was asked for.
        ("predictions", "clip_id,p:A,p:B,p:C\na,0,0,1\n", "one column of scores"),
    ],
)
def test_tables_of_which_no_run_is_written(tmp_path, kind, text, message) -> None:
    scored: dict[str, Any] = {kind: write(tmp_path, "s.csv", text)}
    run = tmp_path / "run.txt"
    with pytest.raises(FixInput) as caught:
        audit_mediaeval(write=run, **scored)
    assert message in " ".join([caught.value.message, *caught.value.details])
    assert not run.exists()


def test_a_run_of_affect(tmp_path: Path) -> None:
    table = write(tmp_path, "s.csv", SCORES)
    run = tmp_path / "affect.txt"
    words = ("audit", "mediaeval", "--write", run, "--affect", table)
    assert f"{run}: 3 clips." in call_obygaze(*words).ok().stdout
    assert run.read_text() == (
        "ACCEDE00001.mp4 -1 0\nACCEDE00002.mp4 0 1\nACCEDE00003.mp4 1 -1\n"
    )
    table.write_text(SCORES.replace("-0.151", "0.9"), "utf-8")
    assert call_obygaze(*words).code == 1
    call_obygaze(*words, "--force").ok()
    assert read_affect_run(run)[0]["ACCEDE00001.mp4"] == 1


def test_a_run_of_violence_is_read_as_it_was_written_and_scored_at_once(tmp_path):
    rows = f"clip_id,p:0,p:1\nb,0.9,0.1\na,0.9,0.1\nc,0,{1 / 3!r}\n"
    table = write(tmp_path, "kept.csv", rows)
    qrels = write(tmp_path, "q", "violence 0 a 1\nviolence 0 b 0\nviolence 0 c 0\n")
    run = tmp_path / "violence.txt"
    audit = audit_mediaeval(write=run, predictions=table, qrels=qrels)
    lines = run.read_text("utf-8").splitlines()
    assert lines[0] == f"violence Q0 c 1 {1 / 3!r} kept"
    assert [line.split()[2] for line in lines] == ["c", "b", "a"]
    assert read_trec_run(run)[0] == {"violence": {"b": 0.1, "a": 0.1, "c": 1 / 3}}
    # The only violent clip is the third.
    assert audit["violence"]["ap_trec"] == pytest.approx(1 / 3)


def test_one_table_is_written(tmp_path: Path) -> None:
    table = write(tmp_path, "s.csv", SCORES)
    for options in (
        {"write": tmp_path / "r.txt"},
        {"affect": table},
        {"write": tmp_path / "r.txt", "affect": table, "predictions": table},
    ):
        with pytest.raises(FixUsage, match="requires one table of scores"):
            audit_mediaeval(**options)
