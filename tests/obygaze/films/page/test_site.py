"""What a page shows: lanes equal the tables; it is written over nothing but a page."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.annotated import annotated
from support.cli import call_obygaze
from support.film_pages import document, film_clips, segment, site, write_marks
from support.run_tables import MANIFEST, Clips, MadeCell, clips_of, made_run, scores_for
from support.videos import write_video

from obygaze.films.decisions import cell_facts, models_to_show, named_cell
from obygaze.films.marks import Mark
from obygaze.films.page.site import Site
from obygaze.films.page.view import view
from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
    ObygazeError,
    ObygazeWarning,
)
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_models.runner.files import Run


def shown_by(page: Path) -> Any:
    """The document in a page."""
    text = page.read_text("utf-8")
    start = '<script type="application/json" id="document">'
    return json.loads(text.partition(start)[2].partition("</script>")[0])


def test_lanes_equal_the_tables(tmp_path: Path) -> None:
    write_video(tmp_path / "lake.mp4", numbers=range(75))
    page = site(tmp_path, film_clips("lake", "lake.mp4", 3))
    folder = tmp_path / "segments"
    tier = Mark("lake", 1.5, 2.5, "Gewalt", "stark", "ben")
    of_ben = [segment(0, 0.4, "ben"), segment(1.2, 1.6, "ben", "HN"), [tier]]
    write_marks(folder / "coded.csv", *of_ben)
    write_marks(folder / "Éva M.csv", segment(0.2, 0.28, "eva"))
    write_marks(folder / "far.csv", segment(70, 80, "far"))
    write_marks(folder / "later.csv", segment(2, 2.4, "ben"))
    (folder / "broken.csv").write_text("nothing\n", "utf-8")
    shown = document(page)
    found = shown["film"]
    spans = [(one["annotator"], one["start"], one["end"]) for one in found["segments"]]
    assert spans == [("ben", 0, 0.4), ("eva", 0.2, 0.28), ("ben", 1.2, 1.6)]
    assert [one["level"] for one in found["segments"]] == ["S", "S", "HN"]
    (of_tier,) = found["own"]
    assert (of_tier["column"], of_tier["value"]) == ("Gewalt", "stark")
    # A mark behind the end of the film was made on another copy.
    assert [note.split(" is not")[0] for note in found["notes"]] == [
        "broken.csv",
        "far.csv",
        "later.csv",
    ]
    assert "made on a different copy" in found["notes"][1]
    assert "another table has marks of the same annotators" in found["notes"][2]
    # Own columns and comments stand beside the scores of the clips that they touch.
    marked = shown["page"]["clips"]
    assert [len(one["marked_own"]) for one in marked] == [0, 1, 1]
    annotators = [[said["annotator"] for said in one["marked"]] for one in marked]
    assert annotators == [["ben", "eva"], ["ben"], []]


def test_a_film_without_a_file_of_all_of_it_is_looked_at(tmp_path: Path) -> None:
    clips = []
    for number in (1, 2):
        write_video(tmp_path / f"{number}.mp4", numbers=range(25))
        clips.append(Clip(f"lake-{number}", "lake", number, f"{number}.mp4"))
    write_marks(tmp_path / "segments" / "films.ben.csv", segment(0, 1, "ben"))
    page = site(tmp_path, [*clips, *film_clips("pond", "")])
    film = document(page)["film"]
    assert (film["n_pictures"], film["segments"]) == (0, [])
    assert film["notes"] == [
        "The time line counts clips one after another, because their times in the film are unknown",
        "Marks are not shown: the times of clips are unknown",
    ]
    assert [piece["video"] for piece in film["pieces"]] == ["1.mp4", "2.mp4"]
    assert document(page, "pond")["film"]["pieces"] == []
    without_films = document(site(tmp_path, [Clip("lake-1", "")]), "")
    assert without_films["film"]["title"] == "films"


def save_films(folder: Path, clips: Sequence[Clip], name: str = "films") -> None:
    """Write a manifest over the folder `my films` of a workspace."""
    (folder / "manifests").mkdir(exist_ok=True)
    header = Header("a test", {"Look": "visual"}, video_root=str(folder / "my films"))
    path = folder / "manifests" / f"{name}.toml"
    write_manifest(Manifest(name, header, clips), path, force=True)


def test_videos_are_named_from_the_folder_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "my films").mkdir()
    write_video(tmp_path / "my films" / "100 % (é).mp4", numbers=range(25))
    pond = Clip("pond-1", "pond", video="away.mp4")
    save_films(tmp_path, [*film_clips("lake", "100 % (é).mp4", 1), pond])
    # A clip of the second film names a file, which is not there.
    with pytest.warns(ObygazeWarning, match="without a video: pond; to link videos"):
        of_lake, of_pond = view("films", workspace=tmp_path).paths
    assert of_lake == tmp_path / "pages" / "films" / "lake.html"
    assert str(tmp_path) not in of_lake.read_text("utf-8")
    (video,) = shown_by(of_lake)["film"]["videos"].values()
    assert video["address"] == "../../my%20films/100%20%25%20%28%C3%A9%29.mp4"
    assert video["refused"] == ""
    pages = shown_by(of_lake)["page"]["pages"]
    assert [one["title"] for one in pages] == ["lake", "pond"]
    (away,) = shown_by(of_pond)["film"]["videos"].values()
    assert (away["refused"], away["times"]) == ("the video is missing", None)
    # Of one film alone, no page leads to others, which may be of another run.
    (alone,) = view("films", "lake", output=tmp_path / "o", workspace=tmp_path).paths
    assert alone == tmp_path / "o" / "lake.html"
    assert [one["title"] for one in shown_by(alone)["page"]["pages"]] == ["lake"]


def test_only_a_page_is_replaced(tmp_path, monkeypatch) -> None:
    save_films(tmp_path, [*film_clips("lake", "", 2), *film_clips("con", "", 2)])
    with pytest.warns(ObygazeWarning, match="without a video: lake, con; to link"):
        paths = view("films", workspace=tmp_path).paths
    assert view("films", workspace=tmp_path).paths == paths
    assert [path.parent for path in paths] == [tmp_path / "pages" / "films"] * 2
    assert paths[0].stem == "lake"
    assert paths[1].stem != "con"  # a device of Windows
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    call_obygaze("view", "films", "--no-browser", cwd=tmp_path).ok()
    assert opened == []
    call_obygaze("view", "films", cwd=tmp_path).ok()
    assert opened == [paths[0].absolute().as_uri()]
    paths[0].write_text("mine", "utf-8")
    before = paths[1].stat().st_mtime_ns
    with pytest.raises(AlreadyThere, match="not an obygaze page of a film"):
        view("films", workspace=tmp_path)
    assert paths[0].read_text("utf-8") == "mine"
    assert paths[1].stat().st_mtime_ns == before
    with pytest.raises(NotFound, match=r"no film 'lak' \(did you mean 'lake'\?\)"):
        view("films", "lak", workspace=tmp_path)


def test_a_run_is_shown_beside_its_own_clips_alone(tmp_path: Path) -> None:
    clips = clips_of()
    ridge = MadeCell("ridge", clips, scores_for(clips, 0.1, seed=1))
    about = {**MANIFEST, "name": "films"}
    made_run(tmp_path / "runs" / "first", [ridge], manifest=about)
    row = ridge.predictions()[0]
    save_films(tmp_path, [Clip(row["clip_id"], row["movie_id"])])
    assert view("films", run="first", workspace=tmp_path).paths
    save_films(tmp_path, [Clip(row["clip_id"], "brug")])
    problem = f"is of the film 'brug', not '{row['movie_id']}'"
    with pytest.raises(Mismatch, match=problem):
        view("films", run="first", workspace=tmp_path)
    save_films(tmp_path, [Clip(row["clip_id"], row["movie_id"])], "mine")
    with pytest.raises(
        FixUsage, match="expected the manifest 'films' of the run, got 'mine'"
    ):
        view("mine", run="first", workspace=tmp_path)


def made(model: str, strength: float = 0.5, **names: Any) -> MadeCell:
    """A cell of 96 clips of eight films."""
    clips = clips_of()
    return MadeCell(model, clips, scores_for(clips, strength, seed=1), **names)


def run_with(folder: Path, *cells: MadeCell, lead: str = "") -> Run:
    """A run by hand with some cells, and the model that it is about."""
    run = made_run(folder / "run", cells)
    report: Any = run.protocol["report"]
    report["lead"] = lead
    return run


@pytest.mark.parametrize("is_margin", [False, True])
def test_small_margins_are_no_probabilities(tmp_path: Path, is_margin: bool) -> None:
    clips = Clips(("c0", "c1"), ("lake", "lake"), np.array([False, True]))
    scale = {"is_probability": not is_margin}
    ridge = MadeCell("ridge", clips, np.array([0.2, 0.7]), facts=scale)
    run = run_with(tmp_path, ridge)
    facts = cell_facts(run, run.models[0])
    # Both margins are positive, and one of the probabilities.
    assert facts["decides_alike"] == is_margin
    if is_margin:
        assert facts["unit"] == "distance from the boundary of the positive class"
        assert facts["scale"] == [-0.7, 0.7]
    else:
        assert facts["unit"] == "probability of the positive class"
        assert facts["scale"] == [0, 1]


def test_the_test_does_not_choose_the_model_that_is_shown(tmp_path: Path) -> None:
    bad, good = made("mlp", 0.0), made("ridge", 3.0)
    both = run_with(tmp_path / "a", bad, good)
    assert [one.model for one in models_to_show(both)] == ["mlp", "ridge"]
    assert named_cell(both) is None
    assert named_cell(run_with(tmp_path / "b", good)) == 0
    named = run_with(tmp_path / "c", good, bad, lead="mlp")
    assert named_cell(named) == 1
    cells = (good, bad, made("mlp", store="y"))
    assert named_cell(run_with(tmp_path / "d", *cells, lead="mlp")) is None


@pytest.mark.parametrize("kind", ["score", "p"])
def test_the_scores_of_a_saved_model_are_shown_by_its_table(tmp_path, kind) -> None:
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
    save_films(tmp_path, clips)
    (page,) = view("films", scores=tmp_path / "scores.csv", workspace=tmp_path).paths
    scored_by = shown_by(page)["page"]["scored_by"]
    assert (scored_by["named"], scored_by["models"]) == (0, "a saved model")
    (facts,) = shown_by(page)["scores"]
    assert facts["name"] == "scores: tense"
    assert facts["text"] == (
        "Scores of a saved model, counted by basis in the whole table: 1 out-of-fold, 1 unseen, 1"
        " in-sample."
        " Scores that are out-of-fold come from fits without the clip."
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


@pytest.mark.parametrize(
    ("header", "cells", "problem"),
    [
        (
            "movie_id,basis,decision,score:S",
            "brug,unseen,S,1",
            "is of the film 'brug', not 'lake'",
        ),
        ("model,score,decision", "ridge,1,1", "column 'basis': required"),
        ("basis,decision,p:a,p:b,p:c", "unseen,a,1,0,0", "one column of scores"),
    ],
)
def test_a_table_of_other_scores_or_clips_is_refused(tmp_path, header, cells, problem):
    save_films(tmp_path, film_clips("lake", "", 2))
    table = tmp_path / "scores.csv"
    table.write_text(f"clip_id,{header}\nlake-000,{cells}\n", "utf-8")
    with pytest.raises(ObygazeError) as caught:
        view("films", scores=table, workspace=tmp_path)
    assert problem in f"{caught.value.message} {caught.value.details}"
    several = "clip_id,model,basis,decision,score:S\nlake-000,ridge,unseen,S,1\n"
    table.write_text(f"{several}lake-000,mlp,unseen,S,2\n", "utf-8")
    with pytest.raises(FixInput, match="scores of one model, got ridge, mlp"):
        view("films", scores=table, workspace=tmp_path)
    with pytest.raises(FixUsage, match="expected either --run or --scores"):
        view("films", run="r", scores=table, workspace=tmp_path)


def test_a_clip_has_what_each_annotator_said_in_the_view_of_the_page(tmp_path) -> None:
    of_ada = {"level": "S", "concepts": ("Look", "Voice"), "mood": "calm"}
    of_ben = {"level": "HN", "concepts": ("Voice",), "comment": "heard"}
    films = annotated({"ada": {"lake-1": of_ada}, "ben": {"lake-1": of_ben}})
    header = Header("made up", {"Look": "visual", "Voice": "speech"})
    films = replace(films, header=header)
    (facts,) = document(Site(Workspace(tmp_path), films))["page"]["clips"]
    ada = {"annotator": "ada", "level": "S", "concepts": ("Look", "Voice")}
    ben = {"annotator": "ben", "level": "HN", "concepts": ("Voice",)}
    assert facts["said"] == [
        {**ada, "comment": "", "own": {"mood": "calm"}},
        {**ben, "comment": "heard", "own": {}},
    ]
    seen = Site(Workspace(tmp_path), films.view("visual"))
    (in_view,) = document(seen)["page"]["clips"]
    labels = [(one["level"], one["concepts"]) for one in in_view["said"]]
    assert labels == [("S", ("Look",)), ("EN", ())]
