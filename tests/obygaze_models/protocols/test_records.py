"""Records as dataclasses, as mappings and as objects of a file."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from obygaze_models.protocols.results.cells import CellRecord, Estimate
from obygaze_models.protocols.results.concepts import ConceptVectors
from obygaze_models.protocols.results.kinds import CONCEPT_PARTS, KINDS, read_record
from obygaze_models.protocols.runner.records import listed_runs
from support.runs import (
    analysis,
    baseline,
    cell,
    concepts,
    fold,
    head,
    usual,
    write_run,
)

from obygaze_features.core.errors import Corrupt, NotFound
from obygaze_models.runner.tables import read_run


def test_a_record_is_the_same_by_attribute_and_by_key() -> None:
    record = CellRecord.from_json(cell(folds=[fold("a", 4, 2)]))
    assert record.n_test == record["n_test"] == 12
    assert record.metrics["ap"].ends == record["ap"]["ci"] == [0.25, 0.875]
    assert record.folds[0].fold == record["folds"][0]["fold"] == "a"
    assert record.by_film["tt1"].metrics["ap"] == record["by_film"]["tt1"]["ap"]
    assert record == record.to_json() == dict(record)
    assert "copies" not in record and record.get("copies") is None
    assert json.loads(json.dumps(record.to_json())) == record.to_json()


@pytest.mark.parametrize(
    "document",
    [
        cell(copies=2, no_interval=True, folds=[fold("a", 4, 2, ap=0.5)]),
        baseline("random"),
        concepts(),
        head("pcbm-dt"),
        head("pcbm-lr"),
        analysis(),
    ],
)
def test_what_is_read_is_written_again(document: dict[str, object]) -> None:
    record = read_record(document)
    written = record.to_json()
    # A key that is missing has the default of its field.
    assert {key: written[key] for key in document if key != "concepts"} == {
        key: value for key, value in document.items() if key != "concepts"
    }
    assert read_record(written).to_json() == written
    names = [key for key in written if key in {item.name for item in fields(record)}]
    assert names == [item.name for item in fields(record) if item.name in names]


def test_values_that_are_not_finite_are_null() -> None:
    nan = float("nan")
    assert Estimate(value=nan, ci=[nan, 0.5]).to_json() == {
        "value": None,
        "ci": [None, 0.5],
    }


def test_without_vectors_a_record_has_no_values_of_them() -> None:
    record = ConceptVectors(feature="clip", models=["m"], concepts=[], note="too few")
    assert list(record) == ["kind", "feature", "models", "part", "concepts", "note"]
    assert ConceptVectors.from_json(record.to_json()) == record


def test_the_metric_of_a_plugin_is_read() -> None:
    specificity = {"mean": None, "sd": None, "value": 0.5, "ci": None}
    record = CellRecord.from_json(cell(specificity=specificity))
    assert record.metrics["specificity"].value == 0.5
    assert record["specificity"] == specificity


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "melody", "notes": [1, 2]}, "unknown kind of record 'melody'"),
        ({"kind": "concept-model", "part": "tail"}, "unknown part 'tail'"),
    ],
)
def test_a_record_of_an_unknown_kind_is_an_error_of_its_run(
    tmp_path: Path, document: dict[str, object], message: str
) -> None:
    folder = write_run(tmp_path / "run", [cell(), document])
    with pytest.raises(Corrupt, match=message):
        read_run(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"folds": [{"fold": "a"}]}, "'seed' is missing"),
        ({"folds": {"a": 1}}, "expected a list, got"),
        ({"seeds": 0.5}, "expected an object, got '0.5'"),
        ({"by_film": [1]}, "expected an object, got"),
    ],
)
def test_a_record_of_another_form_is_an_error_of_its_run(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    folder = write_run(tmp_path / "run", [{**cell(), **changes}])
    with pytest.raises(Corrupt, match=message):
        read_run(folder)


def test_each_kind_writes_its_own_name() -> None:
    for kind, record in KINDS.items():
        defaults = {item.name: item.default for item in fields(record)}  # type: ignore[arg-type]
        assert record is CellRecord or defaults["kind"] == kind
    for part, record in CONCEPT_PARTS.items():
        defaults = {item.name: item.default for item in fields(record)}  # type: ignore[arg-type]
        assert (defaults["kind"], defaults["part"]) == ("concept-model", part)
    assert {record["kind"] for record in usual()} <= {"concept-model", *KINDS}


def test_what_is_no_run_is_said_with_the_way_to_one(tmp_path: Path) -> None:
    """The hint for a report was ././report.html, and for a workspace, to run a protocol."""
    run = write_run(tmp_path / "colleague" / "runs" / "first", [cell()])
    (run / "report.html").write_text("page", "utf-8")
    with pytest.raises(NotFound, match="is a file, not the folder of a run") as found:
        read_run(run / "report.html")
    assert found.value.hint == f"{run}, the folder that it is in"
    assert read_run(run).about["name"] == "first"
    with pytest.raises(NotFound, match="a workspace, not a run") as found:
        read_run(tmp_path / "colleague")
    assert found.value.hint == f"-C {tmp_path / 'colleague'}, and one of first"


def test_runs_may_be_given_as_a_list() -> None:
    assert listed_runs(["a", "b"]) == ["a", "b"]
    assert listed_runs([["a", Path("b")], "c"]) == ["a", Path("b"), "c"]
    assert listed_runs([("a",)]) == ["a"]
