"""Marks that go to other programs come back picture for picture; what is left out is said."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import av
import pytest
from support.cli import call_obygaze
from support.elan_rules import problems_of
from support.seeds import amount
from support.videos import read_number, write_video

from obygaze.films.elan import ElanFile, write_elan
from obygaze.films.elan_files import export_marks, write_blank_files, write_scores
from obygaze.films.exporting import ExportedFiles
from obygaze.films.importing import ImportedMarks, import_files_of_marks
from obygaze.films.labels import project_marks
from obygaze.films.marks import Mark, read_marks, written
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeWarning, UnknownName
from obygaze_features.manifest import read_manifest
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Annotation, Clip, Header, Manifest

MS = Fraction(1, 1000)
N_PICTURES = 80


def times_of_a_telephone() -> list[int]:
    """Return times of pictures that are 20 to 60 ms apart."""
    draw = Random(1)
    times = [0]
    while len(times) < N_PICTURES:
        times.append(times[-1] + draw.randint(20, 60))
    return times


FILMS: dict[str, dict[str, Any]] = {
    "at30.mp4": {"rate": Fraction(30000, 1001), "tick": Fraction(1001, 30000)},
    # The sound begins at 0 s, the pictures later.
    "late.mkv": {"ticks": range(75, 75 + N_PICTURES), "audio": True},
    "varying.mkv": {"ticks": times_of_a_telephone(), "tick": MS},
}


def times_of_pictures(path: Path) -> Iterator[tuple[int, float]]:
    """Yield the number of each picture, and its time, as PyAV alone says them."""
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        zero = min((one.start_time or 0) * one.time_base for one in file.streams)
        for picture in file.decode(stream):
            number = read_number(picture.to_ndarray(format="rgb24"))
            yield number, float(picture.pts * stream.time_base - zero)


@pytest.mark.parametrize("name", FILMS)
def test_marks_come_back_picture_for_picture(name: str, tmp_path: Path) -> None:
    """Milliseconds alone take another picture in most marks."""
    film = tmp_path / "films" / name
    film.parent.mkdir()
    write_video(film, numbers=range(N_PICTURES), **FILMS[name])
    call_obygaze("manifest", "import", "films", "-o", "films", cwd=tmp_path).ok()
    shown = [*times_of_pictures(film)]
    assert [number for number, _ in shown] == [*range(N_PICTURES)]
    times = [time for _, time in shown]
    assert (times[0] > 0.1) == name.startswith("late")
    draw = Random(7)
    pictures_of = {}
    marks = []
    for number in range(amount(30, 300)):
        first = draw.randrange(N_PICTURES - 2)
        last = draw.randrange(first, N_PICTURES - 1)
        who = f"p{number}"
        pictures_of[who] = (first, last)
        span = (times[first], times[last + 1])
        marks.append(Mark(film.stem, *span, "Gewalt", "stark", who))
    table = tmp_path / "segments" / "all.csv"
    table.parent.mkdir()
    table.write_bytes(written(marks))
    elan = tmp_path / f"{film.stem}.eaf"
    export_marks("all", elan, workspace=tmp_path)
    for way in (table, elan):
        import_files_of_marks(way, "back", force=True, workspace=tmp_path)
        back = read_marks([tmp_path / "segments" / "back.csv"]).marks
        found = {}
        for mark in back:
            inside = [
                n for n, time in shown if mark.start_s <= time + 1e-7 < mark.end_s
            ]
            found[mark.annotator] = (inside[0], inside[-1])
        assert found == pictures_of, name


# ---- clips as marks ------------------------------------------------------------------------------


def clips(**more: Any) -> Manifest:
    """Return two clips of a film, and one whose place in it is not known."""
    made = [
        Clip("a-0", "a", None, "", 0.0, 2.0, "S", ("Look", "Body"), {"mood": "joy"}),
        Clip("a-1", "a", None, "", 2.0, 4.0, "", (), {"mood": ""}),
        Clip("a-2", "a", None, "", None, None, "EN", (), {"mood": "joy"}),
    ]
    return Manifest("films", Header("a test"), tuple(made), ("mood",), **more)


def test_labels_are_of_the_person_of_each_clip(tmp_path: Path) -> None:
    facts = {"annotator": "ada", "genre": "noir", "mood": "joy"}
    clip = Clip("a-0", "a", None, "", 0.0, 2.0, "S", (), facts)
    header = Header("x", said=("mood",))
    manifest = Manifest("films", header, (clip,), tuple(facts))
    done = export_marks(manifest, tmp_path / "a.eaf")
    assert done.left_out == ("columns without annotations: genre",)
    back = import_files_of_marks(tmp_path / "a.eaf", "back", workspace=tmp_path)
    found = [(mark.column, mark.value, mark.annotator) for mark in back.marks]
    assert found == [("level", "S", "ada"), ("mood", "joy", "ada")]


def test_labels_are_those_of_each_annotator(tmp_path: Path) -> None:
    by_ada = Annotation("a-0", "ada", "HN", ("Look",), {"mood": "joy"})
    by_ben = Annotation("a-0", "ben", "S", (), {})
    done = export_marks(clips(annotations=(by_ada, by_ben)), tmp_path / "a.eaf")
    assert done.left_out == (
        "the labels that a rule made from all annotations",
        "1 clip without times: a-2",
    )
    back = import_files_of_marks(tmp_path / "a.eaf", "back", workspace=tmp_path)
    found = {(mark.column, mark.value, mark.annotator) for mark in back.marks}
    labels = {("level", "HN", "ada"), ("concepts", "Look", "ada")}
    labels |= {("mood", "joy", "ada"), ("level", "S", "ben")}
    # What nobody has said is not known.
    unknown = {("level", "?", "ada"), ("level", "?", "ben"), ("mood", "?", "ada")}
    assert found == labels | unknown


def test_concepts_without_a_level_come_back_beside_levels_of_others(tmp_path) -> None:
    """In projections, a concept belongs to a level of the same annotator."""
    by_ada = Annotation("a-0", "ada", "", ("Look",), {})
    by_ben = Annotation("a-0", "ben", "S", (), {})
    made = (Clip("a-0", "a", None, "", 0.0, 2.0), Clip("a-1", "a", None, "", 2.0, 4.0))
    films = Manifest(
        "films", Header("x", {"Look": "visual"}), made, (), (by_ada, by_ben)
    )
    write_manifest(films, tmp_path / "manifests/films.toml")
    export_marks("films", tmp_path / "a.eaf", workspace=tmp_path)
    import_files_of_marks(tmp_path / "a.eaf", "back", workspace=tmp_path)
    options = {"clips": "films", "workspace": tmp_path}
    with pytest.raises(FixInput, match="some gave none: ada"):
        project_marks("back", "again", **options)
    labelled = project_marks("back", "again", rule="agreed", **options)
    said = {(one.annotator, *one[2:4]) for one in labelled.manifest.annotations}
    assert said == {("ada", "", ("Look",)), ("ben", "S", ())}


@pytest.mark.parametrize(("column", "shown"), [("p:S", "p:S"), ("score:S", "score")])
def test_scores_that_come_back_are_no_marks(tmp_path, column, shown) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(f"clip_id,{column}\na-0,0.5\na-1,0.25\n", "utf-8")
    write_scores(clips(), path, tmp_path / "a.eaf")
    with pytest.raises(FixInput, match="the files have no marks"):
        import_files_of_marks(tmp_path / "a.eaf", "back", workspace=tmp_path)
    kept = import_files_of_marks(
        tmp_path / "a.eaf", "back", tiers={"score": "score"}, workspace=tmp_path
    )
    words = kept.to_json()["columns"]["score"]
    assert words == {f"{shown} 0.25": 1, f"{shown} 0.5": 1}


@pytest.mark.parametrize("has_model", [True, False])
def test_baselines_are_no_tiers_beside_models(tmp_path: Path, has_model: bool) -> None:
    """A reader takes a tier called `oracle` for a model."""
    rows = ["clip_id,model,is_model,score", "a-0,oracle,0,0.5", "a-1,oracle,0,0.25"]
    if has_model:
        rows += ["a-0,ridge,1,0.75", "a-1,ridge,1,0.125"]
    (tmp_path / "p.csv").write_text("\n".join(rows), "utf-8")
    with pytest.warns(ObygazeWarning) as warned:
        write_scores(clips(), tmp_path / "p.csv", tmp_path / "a.eaf")
    tiers = [*ElanFile(tmp_path / "a.eaf").tiers()]
    assert {tier.annotator for tier in tiers} == {"ridge" if has_model else "oracle"}
    assert (
        any("baselines of the run: oracle" in str(one.message) for one in warned)
        == has_model
    )


def test_the_scores_of_one_model_and_tiers_in_a_stable_order(tmp_path: Path) -> None:
    """Neither the rows of the table nor the scores decide the order of the tiers."""

    def tiers(scores: list[str], **more: Any) -> list[tuple[str, str]]:
        rows = ["clip_id,task,model,is_model,score:S", *scores]
        (tmp_path / "p.csv").write_text("\n".join(rows), "utf-8")
        path = tmp_path / "a.eaf"
        write_scores(clips(), tmp_path / "p.csv", path, force=True, **more)
        return [(tier.name, tier.annotator) for tier in ElanFile(path).tiers()]

    one = ["a-0,S,svm,1,0.1", "a-1,S,svm,1,0.9", "a-0,S,mlp,1,0.9", "a-1,S,mlp,1,0.1"]
    other = ["a-1,S,mlp,1,0.5", "a-0,S,mlp,1,0.1", "a-0,S,svm,1,0.05", "a-1,S,svm,1,1"]
    both = [("score@S mlp", "S mlp"), ("score@S svm", "S svm")]
    assert tiers(one) == tiers(other) == both
    assert tiers(one, model="svm") == [("score", "S svm")]
    with pytest.raises(UnknownName, match=r"'svn' .*did you mean 'svm'"):
        tiers(one, model="svn")
    with pytest.warns(ObygazeWarning, match="baselines of the run: oracle"):
        assert tiers([*one, "a-0,S,oracle,0,1", "a-1,S,oracle,0,1"]) == both
    assert tiers([*one, "a-0,S,oracle,0,1"], model="oracle") == [("score", "S oracle")]


def test_drawn_clips_are_a_tier_to_fill(tmp_path: Path) -> None:
    """Their labels and scores are not shown; what is not filled in is no mark."""
    plan = {"draw_probability": "0.5", "draw_clips": "4"}
    drawn = [
        Clip(f"a-{n}", "a", None, "", 2.0 * n, 2.0 * n + 2, "S", (), plan)
        for n in (0, 1)
    ]
    manifest = Manifest(
        "drawn", Header("x"), tuple(drawn), ("draw_probability", "draw_clips")
    )
    path = tmp_path / "a.eaf"
    done = write_blank_files(manifest, path, people=["ada", "ben"])
    assert done.left_out == (
        "the labels of 2 clips, so that annotators do not see them",
    )
    text = path.read_text("utf-8")
    assert problems_of(text.encode()) == []
    assert text.count("<ANNOTATION_VALUE></ANNOTATION_VALUE>") == 4
    root = ElementTree.fromstring(text)
    words = [one.text for one in root.iter("CVE_VALUE")]
    assert words == ["EN", "HN", "NS", "S", "?"]
    (tier_type,) = root.iter("LINGUISTIC_TYPE")
    assert tier_type.get("CONTROLLED_VOCABULARY_REF") == "levels"
    path.write_text(text.replace("_VALUE></", "_VALUE>HN</", 1), "utf-8")
    imported = import_files_of_marks(path, "back", workspace=tmp_path)
    assert isinstance(imported, ImportedMarks)
    assert imported.marks == (
        Mark("a", 0.0, 2.0, "level", "HN", "ada"),
        # Nothing else of the film was looked at.
        Mark("a", 0.0, 2.0, "watched", "level", "ada"),
    )
    assert imported.left_out == ("empty marks of level: 3",)
    (*_, then) = imported.notes
    assert then == "next: obygaze marks clips back --clips SAMPLE -o CLIPS"
    for into in (None, path):
        with pytest.raises(FixUsage, match="annotators, who must not see labels"):
            export_marks(manifest, tmp_path / "b.eaf", into=into)
    for people in ([], ["ada"]):
        with pytest.raises(FixUsage, match="only sampled clips become empty tiers"):
            write_blank_files(clips(), tmp_path / "b.eaf", people=people)


@pytest.mark.parametrize("people", [["ada", "ben"], []])
def test_two_people_return_copies_of_one_sampled_file(tmp_path, people) -> None:
    """The tier that a person did not fill in is still empty, and claims nobody."""
    plan = {"draw_probability": "0.5", "draw_clips": "4"}
    drawn = []
    for number in (0, 1):
        times_s = 2.0 * number, 2.0 * number + 2
        drawn.append(Clip(f"a-{number}", "a", None, "", *times_s, extra=plan))
    manifest = Manifest("drawn", Header("x"), tuple(drawn), tuple(plan))
    write_blank_files(manifest, tmp_path / "a.eaf", people=people)
    blank = (tmp_path / "a.eaf").read_text("utf-8")
    empty = "<ANNOTATION_VALUE></"
    before, after = "<ANNOTATION_VALUE>S</", "<ANNOTATION_VALUE>HN</"
    first, *rest = blank.split("</TIER>")
    copies = {"ada": blank.replace(empty, before, 1)}
    copies["ben"] = "</TIER>".join(
        [first, *(tier.replace(empty, after) for tier in rest)]
    )
    if not people:
        copies["ben"] = blank.replace(empty, after)
    for name, text in copies.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.eaf").write_text(text, "utf-8")
    folders = [tmp_path / name for name in copies]
    made = import_files_of_marks(folders, "both", workspace=tmp_path)
    levels = [mark[1:6] for mark in made.marks if mark.column == "level"]
    assert levels == [
        (0.0, 2.0, "level", "HN", "ben"),
        (0.0, 2.0, "level", "S", "ada"),
        (2.0, 4.0, "level", "HN", "ben"),
    ]


# ---- files and films -----------------------------------------------------------------------------


def marks_of(*films: str) -> bytes:
    return written(Mark(film, 0.0, 2.0, "level", "S", "ada") for film in films)


def exported(folder: Path, *films: str) -> ExportedFiles:
    (folder / "marks.csv").write_bytes(marks_of(*films))
    return export_marks(folder / "marks.csv", folder / "out", workspace=folder)


def test_no_file_is_written_outside_the_folder(tmp_path: Path) -> None:
    for film in ("../../evil", "a/b", "a\\b"):
        (path,) = exported(tmp_path, film).files
        assert path.parent == tmp_path / "out"
    with pytest.raises(FixInput, match="is not a valid file name"):
        exported(tmp_path, "../")
    with pytest.raises(FixUsage, match="got marks of 2 films"):
        (tmp_path / "two.csv").write_bytes(marks_of("lake", "pier"))
        export_marks(tmp_path / "two.csv", tmp_path / "lake.eaf")


def test_a_film_whose_name_has_signs_of_an_address_comes_back(tmp_path: Path) -> None:
    (tmp_path / "films").mkdir()
    write_video(tmp_path / "films/Sunset%20Blvd.mkv", numbers=range(50))
    call_obygaze("manifest", "import", "films", "-o", "films", cwd=tmp_path).ok()
    (film,) = {clip.movie_id for clip in read_manifest("films", workspace=tmp_path)}
    marks = [Mark(film, 0.4, 1.2, "level", "S", "ada")]
    table = tmp_path / "m.csv"
    table.write_bytes(written(marks))
    path = tmp_path / "out.eaf"
    export_marks(table, path, workspace=tmp_path)
    assert "/Sunset%2520Blvd.mkv" in path.read_text("utf-8")
    as_other_programs = path.read_text("utf-8").replace("%2520", "%20")
    for text in (path.read_text("utf-8"), as_other_programs):
        path.write_text(text, "utf-8")
        made = import_files_of_marks(path, "back", force=True, workspace=tmp_path)
        assert isinstance(made, ImportedMarks)
        assert {mark.movie_id for mark in made.marks} == {film}
        assert made.warnings == []
    text = path.read_text("utf-8").replace("Blvd.mkv", "Blvd.mp4")
    (tmp_path / f"{film}.eaf").write_text(text.replace("Sunset%20Blvd", film), "utf-8")
    made = import_files_of_marks(
        tmp_path / f"{film}.eaf", "back", force=True, workspace=tmp_path
    )
    assert isinstance(made, ImportedMarks)
    assert f"names {film}.mp4, and the linked file of {film} is" in made.warnings[0]


def test_a_name_of_marks_and_of_a_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "segments").mkdir()
    (tmp_path / "segments/both.csv").write_bytes(marks_of("lake"))
    clip = Clip("pier-0", "pier", None, "", 0.0, 2.0, "S")
    made = Manifest("both", Header("x"), (clip,))
    path = tmp_path / "manifests/both.toml"
    write_manifest(made, path)

    def films_of(source: Path | str) -> list[str]:
        options = {"workspace": tmp_path, "force": True}
        done = export_marks(source, tmp_path / "out", **options)
        return [written_file.stem for written_file in done.files]

    with pytest.raises(FixUsage, match="a table of marks and a manifest have this"):
        films_of("both")
    assert films_of(str(path)) == films_of(path) == ["pier"]
    assert films_of(tmp_path / "segments/both.csv") == ["lake"]
    path.unlink()
    assert films_of("both") == ["lake"]
    # A mapping beside the table is no manifest.
    (tmp_path / "segments/both.toml").write_text('schema = "obygaze-mapping/1"\n')
    assert films_of(tmp_path / "segments/both.csv") == ["lake"]


def test_elan_files_of_folders_in_a_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "elan/more").mkdir(parents=True)
    (tmp_path / "elan/.copies").mkdir()
    names = ("lake", "more/pier", ".old", ".copies/pier")
    for name, film in zip(names, ("lake", "pier", "old", "copy"), strict=True):
        data = write_elan([Mark(film, 1.0, 2.0, "level", "S", "ada")])
        (tmp_path / f"elan/{name}.eaf").write_bytes(data)
    read = import_files_of_marks(tmp_path / "elan", "read", workspace=tmp_path)
    assert [mark.movie_id for mark in read.marks] == ["lake", "pier"]


def test_tiers_are_added_to_each_file_of_a_folder(tmp_path: Path) -> None:
    """Those in folders of this folder, too, as for an import."""
    (tmp_path / "elan/sub").mkdir(parents=True)
    for film in ("lake", "sub/pier", "rest"):
        of_film = [Mark(film.removeprefix("sub/"), 1.0, 2.0, "level", "S", "ada")]
        (tmp_path / f"elan/{film}.eaf").write_bytes(write_elan(of_film))
    (tmp_path / "marks.csv").write_bytes(marks_of("lake", "pier", "sea"))
    done = export_marks(
        tmp_path / "marks.csv", tmp_path / "out", into=tmp_path / "elan"
    )
    names = [path.relative_to(tmp_path / "out").as_posix() for path in done.files]
    assert names == ["lake.eaf", "sub/pier.eaf"]
    assert done.left_out == (
        "marks of films without a file: sea",
        "files without marks of their film: rest.eaf of the film rest",
    )
    for path in done.files:
        assert path.read_bytes().count(b"<TIER ") == 2
    with pytest.raises(FixUsage, match="expected a folder as OUTPUT"):
        export_marks(
            tmp_path / "marks.csv", tmp_path / "one.eaf", into=tmp_path / "elan"
        )


def test_the_files_of_a_folder_may_be_replaced_and_copies_in_it_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elan = Path("elan")
    elan.mkdir()
    (elan / "lake.eaf").write_bytes(write_elan([Mark("lake", 1, 2, "level", "S", "a")]))
    Path("marks.csv").write_bytes(marks_of("lake"))
    for output in (".", "elan", "elan/out", tmp_path / "elan/out"):
        done = export_marks("marks.csv", output, into=elan, force=True)
        assert [*done.files] == [Path(output, "lake.eaf")], output
