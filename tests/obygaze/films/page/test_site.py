"""What the page shows: lanes equal the tables, and the blind arm has none of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.annotated import annotated
from support.film_pages import (
    ask,
    change,
    film_clips,
    mark,
    segment,
    served,
    site,
    write_marks,
)
from support.run_tables import (
    MANIFEST,
    Clips,
    MadeCell,
    clips_of,
    made_run,
    scores_for,
)
from support.videos import write_video

from obygaze.films.decisions import (
    cell_facts,
    models_to_show,
    named_cell,
)
from obygaze.films.marks import Mark
from obygaze.films.page.export import export_page
from obygaze.films.page.site import Site
from obygaze.films.page.view import open_site
from obygaze_features.core.errors import (
    FixInput,
    FixUsage,
    Mismatch,
    ObygazeError,
)
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_models.protocols.schema import Question
from obygaze_models.runner.files import Run


def test_lanes_equal_the_tables(tmp_path: Path) -> None:
    write_video(tmp_path / "lake.mp4", numbers=range(75))
    page = site(tmp_path, film_clips("lake", "lake.mp4", 3), "ada")
    folder = tmp_path / "segments"
    tier = Mark("lake", 1.5, 2.5, "Gewalt", "stark", "ben")
    of_ben = [segment(0, 0.4, "ben"), segment(1.2, 1.6, "ben", "HN"), [tier]]
    write_marks(folder / "films.ben.csv", *of_ben)
    write_marks(folder / "films.eva.csv", segment(0.2, 0.28, "eva"))
    write_marks(folder / "others.ben.csv", segment(2, 2.4, "ben"))
    (folder / "films.broken.csv").write_text("nothing\n", "utf-8")
    turn = page.take_turn({})["turn"]
    page.save_marks(change(turn, mark(10, 20)))
    found = page.film("lake")
    spans = [(one["annotator"], one["start"], one["end"]) for one in found["segments"]]
    assert spans == [("ben", 0, 0.4), ("eva", 0.2, 0.28), ("ben", 1.2, 1.6)]
    assert [one["level"] for one in found["segments"]] == ["S", "S", "HN"]
    (own,) = found["marks"]
    assert (own["first"], own["last"], own["start"], own["end"]) == (10, 20, 0.4, 0.84)
    assert (own["concepts"], own["comment"]) == (["Body", "Look"], "why")
    (of_tier,) = found["own"]
    assert (of_tier["column"], of_tier["value"]) == ("Gewalt", "stark")
    assert [note.split(" is not")[0] for note in found["notes"]] == ["films.broken.csv"]
    # Own columns and comments stand beside the scores of the clips that they touch.
    marked = [page.clip(f"lake-00{k}") for k in range(3)]
    assert [len(one["marked_own"]) for one in marked] == [0, 1, 1]
    annotators = [[said["annotator"] for said in one["marked"]] for one in marked]
    assert annotators == [["ben", "eva", "ada"], ["ben"], []]


def test_a_film_without_a_file_of_all_of_it_is_looked_at(tmp_path: Path) -> None:
    clips = []
    for number in (1, 2):
        write_video(tmp_path / f"{number}.mp4", numbers=range(25))
        clips.append(Clip(f"lake-{number}", "lake", number, f"{number}.mp4"))
    write_marks(tmp_path / "segments" / "films.ben.csv", segment(0, 1, "ben"))
    page = site(tmp_path, [*clips, *film_clips("pond", "")], "eva")
    row = page.film("lake")
    assert (row["can_mark"], row["n_pictures"], row["segments"]) == (False, 0, [])
    assert row["notes"] == [
        "This film can be looked at, not marked: there is no file of the whole film",
        "Marks have no place: the time line counts clips in a row: their times in the film are"
        " unknown",
    ]
    assert len(row["pieces"]) == 2
    turn = page.take_turn({})["turn"]
    for film in ("lake", "pond"):
        assert page.film(film)["can_mark"] is False
        with pytest.raises(FixUsage, match="can be looked at, not marked"):
            page.save_marks(change(turn, mark(), film=film))
        with pytest.raises(FixUsage, match="can be looked at, not marked"):
            page.save_watched({"turn": turn, "movie_id": film, "stretches": [[0, 5]]})
    assert site(tmp_path, clips).film("lake")["notes"] == row["notes"][1:]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"level": "T"}, "'T' is not a word of level"),
        ({"level": ["S"]}, "is not a word of level"),
        ({"first": 30}, "expected pictures from 0 to 74"),
        ({"last": 75}, "expected pictures from 0 to 74"),
        ({"first": "1"}, "the first and the last picture"),
        ({"last": True}, "the first and the last picture"),
        ({"concepts": "Look"}, "a list of names"),
        ({"concepts": [1]}, "is not a word of concepts"),
        ({"comment": "x" * 2001}, "at most 2000"),
    ],
)
def test_invalid_marks_change_nothing(
    tmp_path: Path, changes: Any, message: str
) -> None:
    write_video(tmp_path / "lake.mp4", numbers=range(75))
    page = site(tmp_path, film_clips("lake", "lake.mp4", 3), "ada")
    turn = page.take_turn({})["turn"]
    with pytest.raises(FixInput, match=message):
        page.save_marks(change(turn, mark(**changes)))
    for sent in ([[1, 2, 3]], [[5, 4]], [["1", 2]], [[0, 75]], "all"):
        with pytest.raises(FixInput):
            page.save_watched({"turn": turn, "movie_id": "lake", "stretches": sent})
    with pytest.raises(FixUsage, match=r"no film '\.\./lake'"):
        page.save_marks(change(turn, mark(), film="../lake"))
    assert page.marks is not None and not page.marks.path.exists()


def test_a_run_is_not_shown_beside_other_clips_of_the_same_ids(tmp_path: Path) -> None:
    clips = clips_of()
    ridge = MadeCell("ridge", clips, scores_for(clips, 0.1, seed=1))
    about = {**MANIFEST, "name": "films"}
    made_run(tmp_path / "runs" / "first", [ridge], manifest=about)
    row = ridge.predictions()[0]
    (tmp_path / "manifests").mkdir()
    for film, is_refused in ((row["movie_id"], False), ("brug", True)):
        films = Manifest("films", Header("a test"), [Clip(row["clip_id"], film)])
        write_manifest(films, tmp_path / "manifests" / "films.toml", force=True)
        if not is_refused:
            assert open_site(run="first", workspace=tmp_path).overview()["clips"]
            continue
        problem = f"is of the film 'brug' and of '{row['movie_id']}'"
        with pytest.raises(Mismatch, match=problem):
            open_site(run="first", workspace=tmp_path)


def test_segments_in_another_view_are_not_shown(tmp_path: Path) -> None:
    clips = film_clips("lake", "", 4)
    marked = [replace(clips[0], extra={"annotator": "ben"})]
    (tmp_path / "manifests").mkdir()
    for name, view, rows in (
        ("films", "raw", clips),
        ("seen", "visual", marked),
        ("given", "raw", marked),
    ):
        columns = ("annotator",) if rows is marked else ()
        header = Header("a test", {"Look": "visual"}, view=view)
        manifest = Manifest(name, header, rows, columns)
        write_manifest(manifest, tmp_path / "manifests" / f"{name}.toml")
    assert open_site("films", segments="given", workspace=tmp_path).film("lake")
    with pytest.raises(FixInput, match="the levels of seen are those of the visual"):
        open_site("films", segments="seen", workspace=tmp_path)


def test_the_blind_arm_has_no_labels_no_scores_and_no_marks_of_others(
    tmp_path: Path,
) -> None:
    clips = film_clips("lake", "", 4)
    page = site(tmp_path, clips, "ada", blind=True)
    write_marks(tmp_path / "segments" / "films.ben.csv", segment(0, 0.4, "ben"))
    with served(page) as server:
        paths = ("overview", "film?film=lake", "clip?clip_id=lake-001")
        texts = [ask(server, f"/api/{path}").body for path in paths]
    for text in texts:
        document = json.loads(text)
        for one in (document, *document.get("clips", [])):
            assert not one.get("level") and "score" not in one
        assert b'"ben"' not in text and b'"level": "S"' not in text


def made(model: str, strength: float = 0.5, **names: Any) -> MadeCell:
    """A cell of 96 clips of eight films."""
    clips = clips_of()
    return MadeCell(model, clips, scores_for(clips, strength, seed=1), **names)


def run_with(folder: Path, *cells: MadeCell, questions: Sequence[Any] = ()) -> Run:
    """A run by hand with some cells and questions."""
    run = made_run(folder / "run", cells)
    report: Any = run.protocol["report"]
    report["questions"] = list(questions)
    return run


@pytest.mark.parametrize("is_margin", [False, True])
def test_small_margins_are_no_probabilities(tmp_path: Path, is_margin: bool) -> None:
    """Margins from 0 to 1 were shown as probabilities, with the boundary at one half."""
    clips = Clips(("c0", "c1"), ("lake", "lake"), np.array([False, True]))
    scale = {"is_probability": not is_margin}
    ridge = MadeCell("ridge", clips, np.array([0.2, 0.7]), facts=scale)
    facts = cell_facts(run_with(tmp_path, ridge), 0)
    if is_margin:
        assert facts["unit"] == "distance from the boundary of the positive class"
        assert facts["scale"] == [-0.7, 0.7]
    else:
        assert facts["unit"] == "probability of the positive class"
        assert facts["scale"] == [0, 1]


def test_the_test_does_not_choose_the_model_that_is_shown(tmp_path: Path) -> None:
    bad, good = made("mlp", 0.0), made("ridge", 3.0)
    question = Question("", first="mlp", second="ridge")
    asked = asdict(question)
    assert [
        one.model for one in models_to_show(run_with(tmp_path / "a", bad, good))
    ] == [
        "mlp",
        "ridge",
    ]
    assert named_cell(run_with(tmp_path / "a", bad, good)) is None
    assert named_cell(run_with(tmp_path / "b", good)) == 0
    named = run_with(tmp_path / "c", good, bad, questions=[asked])
    assert named_cell(named) == 1
    two_stores = run_with(
        tmp_path / "d", good, bad, made("mlp", store="y"), questions=[asked]
    )
    assert named_cell(two_stores) is None
    nobody = run_with(
        tmp_path / "e", good, bad, questions=[{**asked, "first": "", "second": ""}]
    )
    assert named_cell(nobody) is None


def test_a_run_of_another_manifest_is_refused(tmp_path: Path) -> None:
    """Its scores were compared with levels that its models had not learned from."""
    clips = clips_of()
    ridge = MadeCell("ridge", clips, scores_for(clips, 0.1, seed=1))
    made_run(tmp_path / "runs" / "r", [ridge], manifest={**MANIFEST, "name": "made-up"})
    (tmp_path / "manifests").mkdir()
    header = Header("a test", {"Look": "visual"})
    films = Manifest("films", header, film_clips("lake", ""))
    for name in ("made-up", "myfilms"):
        write_manifest(films, tmp_path / "manifests" / f"{name}.toml")
    with pytest.raises(FixUsage) as caught:
        open_site("myfilms", run="r", workspace=tmp_path)
    assert caught.value.message == (
        "myfilms is not the manifest of the run, which is made-up"
    )
    assert open_site("made-up", run="r", workspace=tmp_path).run is not None


@pytest.mark.parametrize("kind", ["score", "p"])
def test_the_scores_of_a_saved_model_are_shown_by_its_table(
    tmp_path: Path, kind: str
) -> None:
    """The scores of a film that no run has tested had no place on its page."""
    clips = film_clips("lake", "", 5)
    lines = ["clip_id,movie_id,start_s,end_s,basis,decision"]
    lines[0] += ",p:calm,p:tense" if kind == "p" else ",score:tense"
    values = {"lake-000": 0.9, "lake-001": 0.2, "lake-002": 0.6, "lake-003": None}
    bases = ["out-of-fold", "unseen", "in-sample", "unseen"]
    for number, (name, value) in enumerate(values.items()):
        # Of a margin, the boundary is at 0.
        decision = "tense" if value and (kind == "score" or value > 0.5) else "calm"
        score = "" if value is None else str(value)
        cells = [name, "lake", str(number), str(number + 1), bases[number], decision]
        cells += ["0", score] if kind == "p" else [score]
        lines.append(",".join(cells))
    (tmp_path / "scores.csv").write_text("\n".join(lines) + "\n", "utf-8")
    films = site(tmp_path, clips).manifest
    (tmp_path / "manifests").mkdir()
    write_manifest(films, tmp_path / "manifests" / "films.toml")
    page = open_site("films", scores=tmp_path / "scores.csv", workspace=tmp_path)
    scored_by = page.overview()["scored_by"]
    assert scored_by["cells"] == ["scores.csv: tense"]
    assert (scored_by["named"], scored_by["models"]) == (0, "a saved model")
    facts = page.scores(0)
    assert facts["text"] == (
        "Scores of a saved model, by basis: 1 out-of-fold, 1 unseen, 1 in-sample."
        " Those that are out-of-fold are of fits without the clip."
        " Clips of the table without a score: 1."
    )
    assert facts["leaked"] == 1
    assert facts["scale"] == ([0, 1] if kind == "p" else [-0.9, 0.9])
    shown = facts["scores"]
    assert {name: one["score"] for name, one in shown.items()} == {
        name: value for name, value in values.items() if value is not None
    }
    assert [one["positive"] for one in shown.values()] == [True, kind == "score", True]
    assert [one["basis"] for one in shown.values()] == bases[:3]
    # Nobody says whether the levels of the manifest are what was asked.
    assert not any("correct" in one for one in shown.values())
    blind = open_site("films", scores="scores.csv", blind=True, workspace=tmp_path)
    assert blind.overview()["scored_by"] is None
    export_page(page, tmp_path / "page")
    data = (tmp_path / "page" / "data.js").read_text("utf-8")
    assert json.loads(data.partition("=")[2])["scores 0"]["text"] == facts["text"]


@pytest.mark.parametrize(
    ("header", "cells", "problem"),
    [
        (
            "movie_id,basis,decision,score:S",
            "brug,unseen,S,1",
            "is of the film 'brug' and of 'lake'",
        ),
        (
            "start_s,end_s,basis,decision,score:S",
            "7,8,unseen,S,1",
            "is 7 s to 8 s and 0 s to 1 s",
        ),
        ("model,score,decision", "ridge,1,1", "column 'basis': required"),
        ("basis,decision,margin:Look", "unseen,S,1", "score:NAME, or p:NAME"),
        ("basis,decision,p:a,p:b,p:c", "unseen,a,1,0,0", "scores of one question"),
    ],
)
def test_a_table_of_other_scores_or_clips_is_refused(
    tmp_path: Path, header: str, cells: str, problem: str
) -> None:
    (tmp_path / "manifests").mkdir()
    films = site(tmp_path, film_clips("lake", "", 2)).manifest
    write_manifest(films, tmp_path / "manifests" / "films.toml")
    table = tmp_path / "scores.csv"
    table.write_text(f"clip_id,{header}\nlake-000,{cells}\n", "utf-8")
    with pytest.raises(ObygazeError) as caught:
        open_site("films", scores=table, workspace=tmp_path)
    assert problem in f"{caught.value.message} {caught.value.details}"
    several = "clip_id,model,basis,decision,score:S\nlake-000,ridge,unseen,S,1\n"
    table.write_text(f"{several}lake-000,mlp,unseen,S,2\n", "utf-8")
    with pytest.raises(FixInput, match="scores of one model, got ridge, mlp"):
        open_site("films", scores=table, workspace=tmp_path)
    with pytest.raises(ObygazeError, match="no such file"):
        open_site("films", scores="keeper", workspace=tmp_path)
    with pytest.raises(FixUsage, match="--run or --scores"):
        open_site("films", run="r", scores=table, workspace=tmp_path)
    with pytest.raises(FixInput, match="the marks cannot be read"):
        open_site("films", segments=table, workspace=tmp_path)


def test_a_clip_has_what_each_annotator_said_in_the_view_of_the_page(
    tmp_path: Path,
) -> None:
    said = {
        "ada": {
            "lake-1": {"level": "S", "concepts": ("Look", "Voice"), "mood": "calm"}
        },
        "ben": {"lake-1": {"level": "HN", "concepts": ("Voice",), "comment": "heard"}},
    }
    films = annotated(said)
    header = Header("made up", {"Look": "visual", "Voice": "speech"})
    films = replace(films, header=header)
    page = Site(Workspace(tmp_path), films)
    facts = page.clip("lake-1")
    ada = {"annotator": "ada", "level": "S", "concepts": ("Look", "Voice")}
    ben = {"annotator": "ben", "level": "HN", "concepts": ("Voice",)}
    assert facts["said"] == [
        {**ada, "comment": "", "own": {"mood": "calm"}},
        {**ben, "comment": "heard", "own": {}},
    ]
    seen = Site(Workspace(tmp_path), films.view("visual")).clip("lake-1")["said"]
    assert [(one["level"], one["concepts"]) for one in seen] == [
        ("S", ("Look",)),
        ("EN", ()),
    ]
    assert replace(page, blind=True).clip("lake-1")["said"] == []


def test_a_blind_page_has_the_places_of_clips_but_not_of_segments(
    tmp_path: Path,
) -> None:
    extra = {"film_start_s": "60.0", "film_end_s": "61.0", "video_name": "a.mp4"}
    piece = Clip("lake-1", "lake", 1, "a.mp4", 0.0, 1.0, "S", ("Look",), extra)
    for is_blind in (False, True):
        page = site(tmp_path, [piece], blind=is_blind)
        (clip,) = page.overview()["clips"]
        assert (clip["start"], clip["end"]) == (60, 61)
        assert page.film("lake")["spans"] == {"lake-1": (60, 61)}
    marked = Clip("lake-ada-1", "lake", start_s=0, end_s=1, extra={"annotator": "ada"})
    header = Header("marks", unit="segment")
    manifest = Manifest("marks", header, (marked,), ("annotator",))
    page = Site(Workspace(tmp_path), manifest, blind=True)
    assert page.film("lake")["spans"] == {}
