"""Records as dataclasses, as mappings and as objects of a file."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
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
from obygaze_models.protocols.results.cells import CellRecord, Estimate
from obygaze_models.protocols.results.concepts import ConceptVectors
from obygaze_models.protocols.results.kinds import CONCEPT_PARTS, KINDS, read_record
from obygaze_models.protocols.results.levels import LevelOrder
from obygaze_models.protocols.results.localisation import FilmWindows
from obygaze_models.protocols.runner.records import listed_runs, read_run


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
    # Keys that this run of an earlier version lacks have the value of their field.
    assert {key: written[key] for key in document if key != "concepts"} == {
        key: value for key, value in document.items() if key != "concepts"
    }
    assert read_record(written).to_json() == written
    names = [key for key in written if key in {item.name for item in fields(record)}]
    assert names == [item.name for item in fields(record) if item.name in names]


def test_values_that_are_not_finite_are_null_and_optional_keys_are_left_out() -> None:
    nan = float("nan")
    of_cell = {"model": "ridge", "feature": "clip", "train": "A", "test": "B"}
    concordance = Estimate(value=nan, ci=[nan, 0.5])
    record = LevelOrder(
        **of_cell, n_test=3, concordance=concordance, macro_error=None, blind_error=1.0
    )
    assert record.to_json() == {
        "kind": "levels",
        **of_cell,
        "n_test": 3,
        "concordance": {"value": None, "ci": [None, 0.5]},
        "blind_error": 1.0,
    }
    assert record.as_read().concordance.value is None
    assert list(record.as_read()) == list(record)


def test_without_vectors_a_record_has_no_values_of_them() -> None:
    record = ConceptVectors(feature="clip", models=["m"], concepts=[], note="too few")
    assert list(record) == ["kind", "feature", "models", "part", "concepts", "note"]
    assert ConceptVectors.from_json(record.to_json()) == record


def test_a_later_version_may_have_further_keys_and_kinds(tmp_path: Path) -> None:
    later = {"kind": "melody", "notes": [1, 2]}
    run = read_run(write_run(tmp_path / "run", [cell(colour="red"), later]))
    assert "colour" not in run.cells[0]
    # The metric of a plugin that is not here.
    specificity = {"mean": None, "sd": None, "value": 0.5, "ci": None}
    of_plugin = CellRecord.from_json(cell(specificity=specificity))
    assert of_plugin.metrics["specificity"].value == 0.5
    assert of_plugin["specificity"] == specificity
    assert run.records[1] == later and run.of("melody") == [later]


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


def test_a_run_of_an_earlier_version_may_call_a_film_a_movie(tmp_path: Path) -> None:
    leaks = {"neighbours": 2, "same_film": 3}
    contrast = {
        "kind": "contrast",
        "model": "ridge",
        "feature": "clip",
        "test": "EN_S",
        "metric": "ap",
        "first": {"train": "HN_S", "value": 0.75},
        "second": {"train": "EN_S", "value": 0.5},
        "difference": 0.25,
        "ci": None,
        "p": None,
        "n_seeds": 1,
        "n_films": 3,
        "n_films_higher": 2,
        "n_test": 12,
        "leaked": 0,
    }
    records = [*usual(), cell("mlp", **leaks), contrast]
    today = read_run(write_run(tmp_path / "today", records))
    text = json.dumps(records)
    for new, old in (
        ("n_films", "n_movies"),
        ("n_films_higher", "n_movies_higher"),
        ("by_film", "by_movie"),
        ("same_film", "same_movie"),
    ):
        assert f'"{new}": ' in text
        text = text.replace(f'"{new}": ', f'"{old}": ')
    older = json.loads(text)
    for record in older:
        for printed in record.get("paper", []):
            printed["movie"] = printed.pop("film")
    about = dict(today.about["manifest"])
    about["n_movies"] = about.pop("n_films")
    read = read_run(write_run(tmp_path / "older", older, manifest=about))
    assert [record.to_json() for record in read.records] == [
        record.to_json() for record in today.records
    ]
    assert read.about["manifest"] == today.about["manifest"]


def test_each_kind_writes_its_own_name() -> None:
    for kind, record in KINDS.items():
        defaults = {item.name: item.default for item in fields(record)}  # type: ignore[arg-type]
        assert record is CellRecord or defaults["kind"] == kind
    for part, record in CONCEPT_PARTS.items():
        defaults = {item.name: item.default for item in fields(record)}  # type: ignore[arg-type]
        assert (defaults["kind"], defaults["part"]) == ("concept-model", part)
    assert {record["kind"] for record in usual()} <= {"concept-model", *KINDS}


def test_records_of_earlier_versions_are_read_under_their_new_names() -> None:
    logistic = head("pcbm-lr")
    earlier = read_record({**logistic, "kind": "anatomy"})
    assert earlier == read_record(logistic)
    assert earlier["kind"] == "concept-model"

    windows = {
        "n_segments": 1,
        "precisions": [[1.0, 0.5]],
        "width": 1,
        "threshold": 0.5,
        "gap": 0,
        "time_s": [1.0],
        "score": [0.9],
        "low": [0.8],
        "high": [1.0],
    }
    intervals = [[0.5, 1.5, 0.9]]
    film = FilmWindows.from_json({**windows, "found": intervals})
    assert film.intervals == intervals
    assert FilmWindows.from_json(film.to_json()).intervals == intervals
    assert "found" not in film.to_json()
    with pytest.raises(ValueError, match="'intervals' is missing"):
        FilmWindows.from_json(windows)


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
