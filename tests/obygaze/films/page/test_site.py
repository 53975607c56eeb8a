"""What the page shows: lanes equal the tables, and the blind arm has none of it."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.annotated import annotated
from support.damage import change_packets, flip_bits
from support.experiments import films as made_up_films
from support.experiments import planted, write_workspace
from support.film import write_segments
from support.film_pages import ask, film_clips, mark, segment, served, site, table
from support.run_tables import (
    MANIFEST,
    Clips,
    MadeCell,
    clips_of,
    labels_of,
    made_run,
    scores_for,
    table_of,
)
from support.stores import made_store
from support.videos import read_number, read_numbers, write_video

from obygaze.films import marks as marks_module
from obygaze.films import page as page_package
from obygaze.films.agreement import measure_agreement
from obygaze.films.decisions import (
    cell_facts,
    models_to_show,
    named_cell,
    scores_of,
)
from obygaze.films.labels import project_tables
from obygaze.films.mark_tables import Segment, read_marks
from obygaze.films.page.export import export_page
from obygaze.films.page.routes import SCRIPTS
from obygaze.films.page.site import Site
from obygaze.films.page.view import open_site
from obygaze_features.core.errors import (
    FixInput,
    FixUsage,
    Mismatch,
    ObygazeError,
    ObygazeWarning,
)
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import Row, open_store, subset
from obygaze_features.video import PictureView, decode_clip
from obygaze_features.video.resize import Resize
from obygaze_models.evaluation.cells import Cell, cells_of
from obygaze_models.protocols.schema import Question
from obygaze_models.runner.experiments import run
from obygaze_models.runner.files import Run


def placed(one: Segment) -> dict[str, Any]:
    """A segment as the page gets it: with its place in seconds, at 25 pictures a second."""
    start, end = one.start_frame / 25, (one.end_frame + 1) / 25
    return {**asdict(one), "start": start, "end": end}


def test_every_module_of_the_page_is_imported_by_another_one() -> None:
    """Nothing loaded `watched.js`, and what was watched was not counted."""
    static = files(page_package).joinpath("static")
    written = {path.name for path in static.iterdir() if path.name.endswith(".js")}
    reached = {"main.js"}
    waiting = ["main.js"]
    while waiting:
        script = static.joinpath(waiting.pop()).read_text("utf-8")
        imported = set(re.findall(r'^import .*"\./(\w+\.js)";$', script, re.MULTILINE))
        waiting += sorted(imported - reached)
        reached |= imported
    assert reached == written == {f"{name}.js" for name in SCRIPTS}


def test_lanes_equal_the_tables(tmp_path: Path) -> None:
    clips = film_clips("lake", "", 3)
    clips = [replace(clip, extra={"framerate": "25"}) for clip in clips]
    page = site(tmp_path, clips, "ada")
    theirs = [segment(0, 9, "ben"), segment(30, 39, "ben", "HN"), segment(5, 7, "eva")]
    for name in ("ben", "eva"):
        own = [one for one in theirs if one.annotator == name]
        write_segments(tmp_path / "segments" / f"films.{name}.csv", own)
    write_segments(tmp_path / "segments" / "others.ben.csv", [segment(50, 60, "ben")])
    (tmp_path / "segments" / "films.broken.csv").write_text("nothing\n", "utf-8")
    table(tmp_path, page.manifest, "ada").save(mark(1))
    found = page.film("lake")
    assert found["segments"] == [placed(one) for one in theirs]
    assert [one["comment"] for one in found["marks"]] == ["why"]
    assert [note.split(" is not")[0] for note in found["notes"]] == ["films.broken.csv"]


def test_a_table_is_shown_once_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named by a path from here, the own marks were those of somebody else, too."""
    clips = [replace(one, extra={"framerate": "25"}) for one in film_clips("lake", "")]
    header = Header("a test", {"Look": "visual"})
    manifest = Manifest("films", header, clips, ("framerate",))
    (tmp_path / "manifests").mkdir()
    write_manifest(manifest, tmp_path / "manifests" / "films.toml")
    (tmp_path / "segments").mkdir()
    for name in ("ada", "ben"):
        path = tmp_path / "segments" / f"films.{name}.csv"
        write_segments(path, [segment(0, 9, name)])
    monkeypatch.chdir(tmp_path)
    for name in ("ada", "ben"):
        named = f"segments/films.{name}.csv"
        page = open_site(segments=named, annotate="ada", workspace=tmp_path)
        found = page.film("lake")
        assert [one["annotator"] for one in found["marks"]] == ["ada"]
        assert [one["annotator"] for one in found["segments"]] == ["ben"]
        assert found["notes"] == []


def test_marks_of_a_copy_at_another_rate_are_not_drawn(tmp_path: Path) -> None:
    """They were drawn by the rate of the video: 500 at 25 a second stood at 20.8 s, not at 20 s."""
    write_video(tmp_path / "lake.mp4", numbers=range(100))
    (tmp_path / "segments").mkdir()
    text = "movie_id,annotator,start_frame,end_frame,level,framerate\n"
    theirs = tmp_path / "segments" / "films.ben.csv"
    theirs.write_text(f"{text}lake,ben,24,47,S,24\n", encoding="utf-8")
    page = site(tmp_path, film_clips("lake", "lake.mp4"))
    document = page.film("lake")
    assert document["segments"] == []
    assert document["notes"] == [
        "films.ben.csv is not shown: the pictures of lake are counted at 24 per second, its video"
        " has 25"
    ]
    theirs.write_text(f"{text}lake,ben,24,47,S,25\n", encoding="utf-8")
    document = page.film("lake")
    assert [one["start_frame"] for one in document["segments"]] == [24]
    assert document["notes"] == []


@pytest.mark.parametrize("rate", ["25/3", "50/3", "100/3", "1000/42", "24000/1001"])
def test_marks_have_the_exact_rate_of_the_video(tmp_path: Path, rate: str) -> None:
    """It was rounded, and written with more digits than are read: the table was lost."""
    exact = Fraction(rate)
    write_video(tmp_path / "lake.mp4", numbers=range(30), tick=1 / exact, rate=exact)
    page = site(tmp_path, film_clips("lake", "lake.mp4", 1), "eva")
    page.save_mark(mark(1))
    page.save_watched({"movie_id": "lake", "stretches": [[0, 29]]})
    path = tmp_path / "segments" / "films.eva.csv"
    assert read_marks(path).rates == {"lake": exact}
    assert len(page.film("lake")["marks"]) == 1


def test_who_watches_all_and_marks_nothing_annotates_too(tmp_path: Path) -> None:
    """There was no table: `agree` failed, and who finds nothing fell out of the agreement."""
    clips = [replace(one, extra={"framerate": "25"}) for one in film_clips("lake", "")]
    for name in ("ada", "ben"):
        page = site(tmp_path, clips, name)
        page.save_watched({"movie_id": "lake", "stretches": [[0, 249]]})
    page.save_mark(mark(1, start_frame=0, end_frame=24))
    tables = [tmp_path / "segments" / f"films.{name}.csv" for name in ("ada", "ben")]
    (pair,) = measure_agreement(tables, every=1, permutations=0).measures["pairs"]
    # By hand: ten clips of a second, nine are EN for both.
    assert (pair["annotators"], pair["n"]) == (["ada", "ben"], 10)
    assert pair["observed"] == pytest.approx(0.1)
    # The page of the other one shows no table as broken.
    assert page.film("lake")["notes"] == []


@pytest.mark.parametrize("annotator", ["eva", "ben"])
def test_marks_without_a_place_are_named(tmp_path: Path, annotator: str) -> None:
    write_video(tmp_path / "lake.mp4", numbers=range(100))
    (tmp_path / "segments").mkdir()
    marks = [segment(0, 9, "eva")]
    marks.append(replace(marks[0], movie_id="laek"))
    path = tmp_path / "segments" / "films.eva.csv"
    write_segments(path, marks)
    page = site(tmp_path, film_clips("lake", "lake.mp4"), annotator)
    assert page.film("lake")["notes"] == [
        "films.eva.csv has marks in films that are not here: laek"
    ]
    # One of 100 pictures that ends behind the last one: the film is another copy, or it is a slip.
    write_segments(path, [segment(0, 9, "eva"), segment(90, 100, "eva")])
    document = page.film("lake")
    assert document["marks"] == document["segments"] == []
    problem = "the last picture of lake is 99, not 100"
    if annotator == "eva":
        assert document["problem"] == problem
    else:
        assert document["notes"] == [f"films.eva.csv is not shown: {problem}"]


def test_clips_have_the_levels_of_the_view_of_the_run(tmp_path: Path) -> None:
    """A clip that is S for what is heard was shown as S, and the score "agrees" was that of EN."""
    header = Header("a test", {"Look": "visual", "Voice": "audio"})
    heard = Clip("lake-0", "lake", 0, "", 0.0, 1.0, "S", ("Voice",))
    seen = Clip("lake-1", "lake", 1, "", 1.0, 2.0, "S", ("Look", "Voice"))
    films = Manifest("films", header, [heard, seen])
    clips = clips_of()
    ridge = MadeCell("ridge", clips, scores_for(clips, 0.1, seed=1))
    for changed in ("", "were changed"):
        about = {**MANIFEST, "view": "visual"}
        if not changed:
            about["labels"] = labels_of(films)
        run = made_run(tmp_path / f"run-{len(changed)}", [ridge], manifest=about)
        page = Site(Workspace(tmp_path), films, run=run)
        overview = page.overview()
        assert overview["view"] == "visual"
        levels = [(one["level"], one["concepts"]) for one in overview["clips"]]
        assert levels == [("EN", ()), ("S", ("Look",))]
        assert page.clip("lake-0")["level"] == "EN"
        assert changed in overview["changed"]
        assert bool(overview["changed"]) == bool(changed)
        export_page(page, tmp_path / "page")
        data = (tmp_path / "page" / "data.js").read_text("utf-8")
        assert (changed or '"changed": ""') in data
    overview = Site(Workspace(tmp_path), films).overview()
    assert (overview["view"], overview["changed"]) == ("", "")
    assert [one["level"] for one in overview["clips"]] == ["S", "S"]


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


@pytest.mark.parametrize("run", ["first", None])
def test_a_film_that_was_replaced_since_it_had_features_is_said(
    tmp_path: Path, run: str | None
) -> None:
    """Scores, similar clips and why a model decided so are of the film before."""
    clips = clips_of()
    ridge = MadeCell("ridge", clips, scores_for(clips, 0.1, seed=1))
    about = {**MANIFEST, "name": "films"}
    made_run(tmp_path / "runs" / "first", [ridge], manifest=about)
    cells = ridge.predictions()[0]
    clip = Clip(cells["clip_id"], cells["movie_id"], 0, "lake.mp4")
    header = Header("a test", video_root=str(tmp_path))
    (tmp_path / "manifests").mkdir()
    films = Manifest("films", header, [clip])
    write_manifest(films, tmp_path / "manifests" / "films.toml")
    row = Row(clip.clip_id, clip.movie_id, video_bytes=4)
    made_store(tmp_path / "stores" / "s", [row], {"clip": np.ones((1, 2), np.float32)})
    (tmp_path / "lake.mp4").write_bytes(b"film")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_site("films", run=run, store="s", workspace=tmp_path)
    (tmp_path / "lake.mp4").write_bytes(b"another film")
    with pytest.warns(ObygazeWarning, match="files than those of the .*: lake.mp4"):
        open_site("films", run=run, store="s", workspace=tmp_path)


def test_features_of_other_clips_of_the_same_ids_are_not_shown(tmp_path: Path) -> None:
    manifest = made_up_films(n_films=2)
    write_workspace(tmp_path, manifest, planted(manifest))
    assert open_site(store="sig", workspace=tmp_path).clip(manifest.clip_ids[0])
    first, *others = manifest.clips
    changed = manifest.with_clips([replace(first, movie_id="brug"), *others])
    path = tmp_path / "manifests" / f"{manifest.name}.toml"
    write_manifest(changed, path, force=True)
    problem = f"is of the film 'brug' and of '{first.movie_id}'"
    with pytest.raises(Mismatch, match=problem):
        open_site(store="sig", workspace=tmp_path)


def test_damaged_pictures_are_blank_where_nothing_marks_them(tmp_path: Path) -> None:
    """Other pictures of the film stood in their place; only the sheet says so."""
    options = {"preset": "veryfast", "g": "25", "sc_threshold": "0", "bf": "0"}
    whole = write_video(tmp_path / "whole.mp4", options=options)
    change_packets(whole, tmp_path / "lake.mp4", {50}, flip_bits)
    page = site(tmp_path, film_clips("lake", "lake.mp4", 4))
    row = np.asarray(Image.open(io.BytesIO(page.strip("lake"))))
    cells = np.split(row, page.film("lake")["n_in_strip"], axis=1)
    is_blank = [not cell.any() for cell in cells]
    assert is_blank == [12 <= number < 18 for number in range(24)]
    clips = list(page.shown.values())
    with pytest.raises(ObygazeError, match="damaged"):
        page.media.thumbnail(clips[2])
    assert page.media.thumbnail(clips[1]) and page.media.sheet(clips[2])


def test_segments_in_another_view_are_not_shown(tmp_path: Path) -> None:
    clips = film_clips("lake", "", 4)
    marked = [replace(clips[0], extra={"annotator": "ben", "framerate": "25"})]
    (tmp_path / "manifests").mkdir()
    for name, view, rows in (
        ("films", "raw", clips),
        ("seen", "visual", marked),
        ("given", "raw", marked),
    ):
        columns = ("annotator", "framerate") if rows is marked else ()
        header = Header("a test", {"Look": "visual"}, view=view)
        manifest = Manifest(name, header, rows, columns)
        write_manifest(manifest, tmp_path / "manifests" / f"{name}.toml")
    assert open_site("films", segments="given", workspace=tmp_path).film("lake")
    with pytest.raises(FixInput, match="the levels of seen are those of the visual"):
        open_site("films", segments="seen", workspace=tmp_path)


def test_who_marks_clips_in_a_row_sees_what_the_pictures_count(tmp_path: Path) -> None:
    clips = []
    for number in (1, 2):
        write_video(tmp_path / f"{number}.mp4", numbers=range(25))
        clips.append(Clip(f"lake-{number}", "lake", number, f"{number}.mp4"))
    (note,) = site(tmp_path, clips, "eva").film("lake")["notes"]
    assert note.startswith("Your marks count the pictures of these clips in a row")
    assert site(tmp_path, clips).film("lake")["notes"] == []


def test_the_blind_arm_has_no_labels_no_scores_and_no_marks_of_others(
    tmp_path: Path,
) -> None:
    clips = film_clips("lake", "", 4)
    page = site(tmp_path, clips, "ada", blind=True)
    write_segments(tmp_path / "segments" / "films.ben.csv", [segment(0, 9, "ben")])
    with served(page) as server:
        paths = ("overview", "film?film=lake", "clip?clip_id=lake-001")
        texts = [ask(server, f"/api/{path}").body for path in paths]
    for text in texts:
        document = json.loads(text)
        for one in (document, *document.get("clips", [])):
            assert not one.get("level") and "score" not in one
        assert b'"ben"' not in text and b'"level": "S"' not in text


def cells_with(*fits: Mapping[str, Any]) -> list[Cell]:
    """The cells of some tests, each by a fit of its own."""
    key = {"train": "EN_S", "test": "EN_S", "model": "ridge", "store": "x"}
    key |= {"is_model": True, "is_trained": True, "is_probability": False}
    key |= {"n_seen": 10, "leaked": False, "decision": 0}
    rows = [{**key, "seed": seed, **fit} for seed, fit in enumerate(fits)]
    return cells_of(table_of("predictions.csv", rows))


def test_scores_are_the_mean_of_fits_with_their_band() -> None:
    of_a = [{"clip_id": "a", "y": 1, "score": score} for score in (0.25, 0.75, 0.875)]
    of_b = {"clip_id": "b", "y": 0, "score": 0.75}
    cell, other = cells_with(*of_a, of_b, {**of_b, "model": "mlp", "score": 0.0})
    assert scores_of(other)["b"]["score"] == 0
    found = scores_of(cell)
    assert found["a"] == {
        **{"score": 0.625, "low": 0.25, "high": 0.875, "fits": 3},
        **{"positive": True, "correct": True},
    }
    assert (found["b"]["positive"], found["b"]["correct"]) == (True, False)


@pytest.mark.parametrize("score", [0.4, 0.6])
def test_a_decision_of_fits_is_what_the_mean_score_says(score: float) -> None:
    """What most fits decide may be the opposite: the table of errors has the mean score."""
    (cell,) = cells_with(
        *(
            {"clip_id": "a", "y": 1, "score": score + more, "is_probability": True}
            for more in (-0.3, 0.15, 0.15)
        )
    )
    found = scores_of(cell)["a"]
    is_above = score > 0.5
    assert (found["positive"], found["correct"]) == (is_above, is_above)


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


def test_the_page_says_of_a_model_that_knows_nothing_what_the_run_says(
    tmp_path: Path,
) -> None:
    """Ridge called no clip positive, and 124 of 159 cards said that it agreed."""
    clips = Clips(tuple(f"c{n}" for n in range(12)), ("lake",) * 12, np.arange(12) < 3)
    guess = MadeCell("random", clips, np.zeros(12), is_model=False, store="")
    ridge = MadeCell("ridge", clips, np.full(12, -0.5))
    facts = cell_facts(run_with(tmp_path, ridge, guess), 0)
    value = f"{ridge.ap:.2f}".removeprefix("0")
    begin = "It ranks the 12 test clips of 1 film with AP"
    assert facts["text"].startswith(f"{begin} {value} [")
    assert facts["text"].endswith(
        "It calls 0 of 12 clips positive. 9 of its decisions agree with the annotation in "
        "the visual view; kappa 0.00 (0 is what chance gives, 1 is complete agreement)."
    )
    assert facts["scale"] == [-0.5, 0.5]
    assert facts["unit"] == "distance from the boundary of the positive class"
    assert set(facts["scores"]) == {f"c{n}" for n in range(12)}


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


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("films")
    write_video(folder / "lake.mp4", numbers=range(100))
    write_video(folder / "pond.avi", "mpeg4", numbers=range(100))
    return folder


def picture(data: bytes) -> int:
    import io

    from PIL import Image

    return read_number(np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))


def test_pictures_and_times(films: Path) -> None:
    clips = [*film_clips("lake", "lake.mp4", 4), *film_clips("pond", "pond.avi", 4)]
    with served(site(films, clips)) as server:
        lake, pond = (
            ask(server, f"/api/film?film={film}").json() for film in ("lake", "pond")
        )
        assert lake["pieces"][0]["refused"] == ""
        assert pond["pieces"][0]["refused"] == "avi files, mpeg4 video (yuv420p)"
        times = np.frombuffer(ask(server, "/times/0").body)
        np.testing.assert_allclose(times[1:], np.arange(101) / 25, atol=1e-6)
        # Of a clip of pictures 25 to 49, the second of two that are evenly spread.
        assert picture(ask(server, "/thumb/lake-001").body) in (37, 38)
        assert ask(server, "/sheet/lake-001").body.startswith(b"\x89PNG")


def test_unknown_names_are_said(tmp_path: Path) -> None:
    page = site(tmp_path, film_clips("lake", "", 2))
    with served(page) as server:
        for path in (
            "film?film=pond",
            "clip?clip_id=nothing",
            "clip?clip_id=%3Cscript%3E",
        ):
            answer = ask(server, f"/api/{path}")
            assert answer.status == 404
            assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.check("runs a protocol, and makes a store of another one")
def test_the_page_of_a_run_has_the_store_that_the_run_read(tmp_path: Path) -> None:
    manifest = made_up_films(4, 12)
    write_workspace(tmp_path, manifest, planted(manifest))
    quick = ['grid.models=["ridge"]', "report.replicates=2"]
    run("honest", "sig", "made-up", changes=quick, output="r", workspace=tmp_path)
    seal = open_store("sig", workspace=tmp_path).seal
    page = open_site(run="r", workspace=tmp_path)
    assert page.store is not None and page.store.seal == seal
    # Another store takes its place: the page has the one before.
    film = manifest.films[0]
    subset("sig", without=[film], reason="asked for", workspace=tmp_path)
    assert open_store("sig", workspace=tmp_path).seal != seal
    page = open_site(run="r", workspace=tmp_path)
    assert page.store is not None and page.store.seal == seal
    (before,) = (tmp_path / "stores").glob("sig.before-*")
    shutil.rmtree(before)
    assert open_site(run="r", workspace=tmp_path).store is None


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
    scores = "obygaze models predict MODEL myfilms -o scores.csv"
    way = "obygaze view myfilms --scores scores.csv"
    assert caught.value.hint == (
        f"obygaze view made-up --run r; or {scores}, then {way}"
    )
    (tmp_path / "models" / "ridge").mkdir(parents=True)
    with pytest.raises(FixUsage, match="ridge is a model, not a run") as caught:
        open_site("myfilms", run="ridge", workspace=tmp_path)
    assert "obygaze models predict ridge myfilms" in str(caught.value.hint)
    (tmp_path / "models" / "r").mkdir()
    with pytest.raises(FixUsage, match="not the manifest of the run") as caught:
        open_site("myfilms", run="r", workspace=tmp_path)
    assert "obygaze models predict r myfilms" in str(caught.value.hint)
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
    with pytest.raises(FixUsage, match="keeper is not a table of scores") as refused:
        open_site("films", scores="keeper", workspace=tmp_path)
    way = "obygaze models predict MODEL films -o scores.csv, then obygaze view films"
    assert refused.value.hint == f"{way} --scores scores.csv"
    with pytest.raises(FixUsage, match="--run or --scores"):
        open_site("films", run="r", scores=table, workspace=tmp_path)
    with pytest.raises(FixInput) as caught:
        open_site("films", segments=table, workspace=tmp_path)
    assert caught.value.hint == f"--scores {table}, which shows scores of clips"


def test_a_clip_has_the_columns_of_ones_own(tmp_path: Path) -> None:
    """A manifest of one's own labels had a page that showed none of them."""
    extra = {"framerate": "25", "mood": "tense", "shots": "", "fold:mine": "1"}
    # How `manifest project` found a level is no label.
    extra |= {"overlap_frames": "46", "clip_frames": "50"}
    clip = Clip("lake-1", "lake", extra={**extra, "annotator": "ada"})
    manifest = Manifest("films", Header("a test"), [clip], (*extra, "annotator"))
    page = Site(Workspace(tmp_path), manifest)
    overview = page.overview()
    assert overview["clips"][0]["own"] == {"mood": "tense"}
    assert page.clip("lake-1")["own"] == {"mood": "tense"}
    blind = replace(page, blind=True, manifest=site(tmp_path, [clip]).manifest)
    assert blind.clip("lake-1")["own"] == {}
    assert overview["units"] == "clips"


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


def test_a_film_without_a_steady_rate_cannot_be_marked(tmp_path: Path) -> None:
    """Picture 150 is shown at 10 s; at 25 per second, it would be in the clip at 6 s."""
    ticks = [*range(100), *range(100, 400, 3)]
    write_video(tmp_path / "phone.mp4", numbers=range(200), ticks=ticks)
    page = site(tmp_path, film_clips("phone", "phone.mp4", 16), "ada")
    film = page.film("phone")
    assert (film["can_mark"], film["n_pictures"]) == (False, 200)
    assert "do not come at 25 per second" in film["notes"][0]
    with pytest.raises(FixUsage, match="do not come at 25 per second"):
        page.save_mark(mark(1, movie_id="phone"))


def test_a_film_of_files_of_two_rates_cannot_be_marked(tmp_path: Path) -> None:
    """Picture 150 is shown at 5 s; at 25 per second, it would be at the end of the film."""
    for name, rate in (("a", 25), ("b", 50)):
        tick = Fraction(1, rate)
        path = tmp_path / f"{name}.mp4"
        write_video(path, numbers=range(100), tick=tick, rate=rate)
    clips = [Clip(f"x-{n}", "x", n, f"{name}.mp4") for n, name in enumerate("ab")]
    film = site(tmp_path, clips, "ada").film("x")
    assert film["can_mark"] is False
    assert "do not come at 25 per second" in film["notes"][0]


def test_sound_that_is_longer_than_the_film_adds_no_pictures(tmp_path: Path) -> None:
    # 4 s of sound, 2 s of pictures.
    write_video(tmp_path / "lake.mp4", numbers=range(50), audio=True)
    page = site(tmp_path, film_clips("lake", "lake.mp4", 2), "ada")
    film = page.film("lake")
    assert (film["can_mark"], film["n_pictures"]) == (True, 50)
    sent = {"movie_id": "lake", "stretches": [[0, 90]]}
    (watched,) = page.save_watched(sent)
    assert (watched["start_frame"], watched["end_frame"]) == (0, 49)


@pytest.mark.parametrize("name", ["lake.mp4", "lake.mkv"])
@pytest.mark.parametrize(
    ("rate", "late_s", "first"),
    [
        (Fraction(25), Fraction(1, 5), 5),
        (Fraction(25), Fraction(3), 75),
        (Fraction(24), Fraction(1, 5), 4),
        (Fraction(30000, 1001), Fraction(3), 89),
    ],
)
def test_a_mark_of_pictures_that_begin_later_than_the_sound_is_at_their_time(
    name: str, rate: Fraction, late_s: Fraction, first: int, tmp_path: Path
) -> None:
    """The picture with the number k in its pixels is shown k / rate after `late_s`."""
    tick = Fraction(1, 120_000)
    ticks = [round((late_s + k / rate) / tick) for k in range(200)]
    write_video(
        tmp_path / name,
        numbers=range(200),
        ticks=ticks,
        tick=tick,
        rate=rate,
        audio=True,
    )
    page = site(tmp_path, film_clips("lake", name, 7), "ada")
    film = page.film("lake")
    assert (film["can_mark"], film["n_pictures"]) == (True, first + 200)
    shown = [k for k in range(200) if 4 <= late_s + k / rate < 5]
    view = PictureView(len(shown), "even", Resize(120))
    decoded = decode_clip(tmp_path / name, view, start_s=4.0, end_s=5.0)
    assert list(read_numbers(decoded.pictures)) == shown
    saved = page.save_mark(
        mark(start_frame=shown[0] + first, end_frame=shown[-1] + first)
    )
    times = [float(late_s + k / rate) for k in (shown[0], shown[-1] + 1)]
    assert [saved["start"], saved["end"]] == pytest.approx(times, abs=0.001)
    # Nobody can watch what is before the first picture.
    whole = {"movie_id": "lake", "stretches": [[first, first + 199]]}
    (watched,) = page.save_watched(whole)
    assert (watched["start_frame"], watched["end_frame"]) == (0, first + 199)
    end_s = float(late_s + 200 / rate)
    assert (watched["start"], watched["end"]) == (0.0, pytest.approx(end_s, abs=0.001))
    write_manifest(page.manifest, tmp_path / "manifests" / "films.toml")
    path = tmp_path / "segments" / "films.ada.csv"
    for threshold in (Fraction(1, 10), Fraction(9, 10)):
        projected = project_tables([path], "films", None, None, threshold, tmp_path)
        levels = {row.clip_id: row.level for row in projected.projection.merged}
        assert levels == {f"lake-{k:03d}": "S" if k == 4 else "EN" for k in range(7)}
    # A clip with the times of the table has just the pictures that were marked.
    with path.open(encoding="utf-8") as stream:
        (row,) = csv.DictReader(stream)
    start_s, end_s = float(row["start_s"]), float(row["end_s"])
    clip = decode_clip(tmp_path / name, view, start_s=start_s, end_s=end_s)
    assert list(read_numbers(clip.pictures)) == shown


def test_what_was_watched_is_known_before_the_first_mark_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in between, a mark without this table says that the whole film was watched."""
    clips = [Clip("lake-1", "lake", 1, "", 0.0, 100.0, "S", (), {"framerate": "25"})]
    page = site(tmp_path, clips, "eva")

    def cut_off(path: Path, data: bytes) -> None:
        if path.name == "films.eva.csv":
            raise OSError("the computer was switched off")
        path.write_bytes(data)

    monkeypatch.setattr(marks_module, "write_atomic", cut_off)
    with pytest.raises(OSError, match="switched off"):
        page.save_mark(mark())
    assert page.watched is not None
    assert page.watched.path.read_text("utf-8").count("\n") == 1
