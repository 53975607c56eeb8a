"""`obygaze marks clips`: its document, its manifest, and clips of equal length."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from support.annotated import annotated
from support.cli import call_obygaze
from support.data import real_data
from support.film import clips, marks, write_marks, write_spans

from obygaze.films.formats import import_manifest
from obygaze.films.labels import equal_clips, project_marks
from obygaze.films.marks import Mark, Marks, read_marks
from obygaze.films.pictures import LinkedFilms
from obygaze.films.projection import ClipSpan, project
from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage
from obygaze_features.manifest.io import read_manifest, saved_facts, write_manifest
from obygaze_features.manifest.model import (
    DRAW_COLUMNS,
    LEVELS,
    Clip,
    Header,
    Manifest,
)


def test_the_json_document_is_the_one_scripts_rely_on(tmp_path: Path) -> None:
    table = write_marks(tmp_path / "marks.csv", marks("0-99 watched, 0-99 S Body"))
    cut = write_spans(tmp_path / "clips.csv", clips("0-99 100-199"))
    words = ("marks", "clips", table, "--clips", cut, "-o", "labels", "--json")
    document = call_obygaze(*words, cwd=tmp_path).ok().json()
    made = read_manifest("labels", workspace=tmp_path)
    path = Path(document["path"])
    assert (tmp_path / path).samefile(tmp_path / "manifests/labels.toml")
    written = {"json_version": 1, **saved_facts(made, path)}
    assert document == {**written, "unlabelled": ["m-002"]}


def test_what_is_in_no_clip_and_what_no_mark_says_is_named(tmp_path: Path) -> None:
    write_marks(
        tmp_path / "said.csv",
        [*marks("0-49 Gewalt=stark"), *marks("0-60 Gewalt=schwach", annotator="B")],
    )
    order = ("--order", "Gewalt=schwach,mittel,stark")
    words = ("marks", "clips", "said.csv", "--every", "1", "--rule", "agreed")
    words = (*words, "-o", "labels")
    told = call_obygaze(*words, *order, cwd=tmp_path).ok().stderr
    assert "--order Gewalt has words that no mark has: mittel" in told
    assert "marks after the last whole clip of a film are ignored: m from 2.0" in told
    assert (
        "something is open in 2 of 2 clips, because annotators differ: Gewalt 2" in told
    )
    assert "without an order" not in told
    # By the rule highest, a column without an order has only the labels that all agree on.
    words = (*words[:5], "-o", "labels", "--force")
    told = call_obygaze(*words, cwd=tmp_path).ok().stderr
    assert (
        "without an order, so only with labels that annotators agree on: Gewalt; for the highest,"
        " pass --order Gewalt=WORDS, from the lowest\n"
    ) in told
    told = call_obygaze(*words, *order, cwd=tmp_path).ok().stderr
    assert "without an order" not in told
    cut = write_spans(tmp_path / "clips.csv", clips("0-24 50-59"))
    told = (
        call_obygaze(*words[:3], "--clips", cut, "-o", "in", cwd=tmp_path).ok().stderr
    )
    assert "in no clip" not in told
    cut = write_spans(tmp_path / "clips.csv", clips("52-59 62-99"))
    told = call_obygaze(*words[:3], "--clips", cut, "-o", "x", cwd=tmp_path).ok().stderr
    assert "marks in no clip are ignored: m at 0.000 s\n" in told


def test_clips_of_a_manifest_keep_their_videos_and_columns(tmp_path: Path) -> None:
    """So that what is projected can be extracted, and asked by an own column."""
    extra = {"decade": "1950", "Gewalt": "old"}
    clip = Clip("lake-1", "lake", None, "lake.mp4", 0.0, 4.0, "S", ("Look",), extra)
    header = Header("films", {"Look": "visual"}, video_root="/films")
    films = Manifest("films", header, (clip,), ("decade", "Gewalt"))
    write_manifest(films, tmp_path / "manifests/films.toml")
    marked = marks("0-99 Gewalt=stark", film="lake")
    table = write_marks(tmp_path / "marks.csv", marked)
    project_marks(table, clips="films", name="violence", workspace=tmp_path)
    made = read_manifest("violence", workspace=tmp_path)
    assert made.header.video_root == "/films"
    (labelled,) = made
    # What the marks say takes the place of the labels.
    assert (labelled.video, labelled.level, labelled.concepts) == ("lake.mp4", "", ())
    assert labelled.extra["decade"] == "1950"
    assert labelled.extra["Gewalt"] == "stark"
    write_marks(table, marks("0-99 Gewalt=schwach", film="lake"))
    with pytest.raises(AlreadyThere):
        project_marks(table, clips="films", name="violence", workspace=tmp_path)


def test_a_film_next_to_a_sample_keeps_its_negatives(tmp_path: Path) -> None:
    cut = []
    for film, plan in (("coded", ("", "")), ("drawn", ("0.5", "4"))):
        extra = dict(zip(DRAW_COLUMNS, plan, strict=True))
        for start_s in (0.0, 4.0):
            place = (f"{film}-{start_s}", film, None, f"{film}.mp4")
            cut.append(Clip(*place, start_s, start_s + 4, extra=extra))
    films = Manifest("films", Header("films"), tuple(cut), DRAW_COLUMNS)
    write_manifest(films, tmp_path / "manifests/films.toml")
    marked = [*marks("0-99 S", film="coded"), *marks("0-99 S", film="drawn")]
    table = write_marks(tmp_path / "marks.csv", marked)
    made = project_marks(table, clips="films", name="labels", workspace=tmp_path)
    assert [clip.level for clip in made.manifest] == ["S", "EN", "S", ""]


@pytest.mark.parametrize(
    ("of_clips", "cut", "licence", "citation"),
    [
        ("", {"every": "2"}, "CC-BY-NC-4.0", "Film club, 2026"),
        ("", {"clips": "films"}, "CC-BY-NC-4.0", "Film club, 2026"),
        ("CC-BY-NC-4.0", {"clips": "films"}, "CC-BY-NC-4.0", "Film club, 2026"),
        (
            "CC0-1.0",
            {"clips": "films"},
            "films: CC0-1.0; coded: CC-BY-NC-4.0",
            "Film club, 2026",
        ),
    ],
)
def test_the_terms_are_those_of_the_marks_and_of_the_clips(
    of_clips, cut, licence, citation, tmp_path: Path
) -> None:
    ada = {"annotator": "ada"}
    clip = Clip("lake-1", "lake", None, "", 0.0, 4.0, "S", ("Look",), ada)
    known = {"Look": "visual"}
    coded = Header("coded", known, licence="CC-BY-NC-4.0", citation="Film club, 2026")
    films = Header("films", known, licence=of_clips)
    for header in (coded, films):
        path = tmp_path / f"manifests/{header.dataset}.toml"
        write_manifest(Manifest(header.dataset, header, (clip,), (*ada,)), path)
    made = project_marks("coded", **cut, name="labels", workspace=tmp_path)
    header = made.manifest.header
    assert (header.licence, header.citation) == (licence, citation)
    # Of other marks, no licence is known.
    own = write_marks(tmp_path / "own.csv", marks("0-49 S", film="lake"))
    with_own = ["coded", own]
    made = project_marks(with_own, **cut, name="both", workspace=tmp_path)
    header = made.manifest.header
    assert (header.licence, header.citation) == ("", citation)


def test_clips_of_other_films_alone_are_an_error(tmp_path: Path) -> None:
    table = write_marks(tmp_path / "s.csv", marks("0-49 S"))
    cut = write_spans(tmp_path / "c.csv", clips("0-9", film="unseen"))
    for options, what in (
        (("--clips", cut), "expected clips with times in a film"),
        (("--every", "3"), "no whole clip of this length fits the marks"),
    ):
        words = ("marks", "clips", table, *options, "-o", "labels")
        result = call_obygaze(*words, cwd=tmp_path)
        assert (result.code, result.stdout) == (1, "")
        assert what in result.stderr


def test_columns_that_mean_something_else_in_a_manifest_are_refused(tmp_path) -> None:
    table = write_marks(tmp_path / "s.csv", marks("0-9 video=x, 0-9 start_s=y"))
    words = ("marks", "clips", table, "--every", "0.2", "-o", "labels")
    done = call_obygaze(*words, cwd=tmp_path)
    assert done.code == 1
    told = "columns of marks have names that a manifest reserves"
    assert f"{told}: start_s, video" in done.stderr
    write_marks(table, marks("0-9 concept=Look"))
    done = call_obygaze(*words, cwd=tmp_path)
    assert "in the import of marks with --tier concept=concepts" in done.stderr


@pytest.mark.check("imports and projects 6,072 published segments")
def test_the_published_segments_projected_on_themselves_keep_their_levels(tmp_path):
    """Each annotator's segments as clips, and all of a clip asked for: nothing may change."""
    published = real_data("mobygaze", "mobygaze_dataframe.no_subtitles.csv")
    words = ("manifest", "import", published, "--as", "mobygaze")
    call_obygaze("-C", tmp_path, *words).ok()
    marked = read_marks([tmp_path / "manifests/mobygaze.csv"])
    segments = read_manifest("mobygaze", workspace=tmp_path)
    counts = dict.fromkeys(LEVELS, 0)
    for annotator in ("annotator1", "annotator2"):
        own = [clip for clip in segments if clip.extra["annotator"] == annotator]
        spans = [
            ClipSpan(
                clip.clip_id, clip.movie_id, clip.start_s or 0.0, clip.end_s or 0.0
            )
            for clip in own
        ]
        of_person = [mark for mark in marked if mark.annotator == annotator]
        made = project(of_person, spans, Fraction(1))
        for clip, answer in zip(own, made.answers, strict=True):
            assert (answer.level, {*answer.concepts}) == (clip.level, {*clip.concepts})
            counts[answer.level] += 1
    assert counts == {"EN": 2407, "HN": 1906, "NS": 289, "S": 1470}


# ---- clips of equal length -----------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 720])
def test_equal_clips_begin_with_the_film_wherever_its_first_mark_is(first, tmp_path):
    # At 23.976 a clip of 10 s has 239.76 pictures; the fourth begins at 719.28, which is 719.
    rate = Fraction(24000, 1001)
    span_s = float(first / rate), float(5001 / rate)
    marked = Marks((Mark("lake", *span_s, "level", "S", "ada"),), {"lake": rate})
    made = [*equal_clips(marked, Fraction(10), LinkedFilms(tmp_path), [])]
    assert (len(made), made[0].start_s) == (20, 0.0)
    assert made[3].clip_id == "lake_29.988-39.998"
    assert made[3].start_s == float(719 / rate)


def test_the_last_equal_clip_ends_with_the_last_mark(tmp_path: Path) -> None:
    marked = Marks(
        (Mark("lake", 0.0, 10.0, "level", "S", "ada"),), {"lake": Fraction(25)}
    )
    made = [*equal_clips(marked, Fraction(5), LinkedFilms(tmp_path), [])]
    assert [(clip.start_s, clip.end_s) for clip in made] == [(0.0, 5.0), (5.0, 10.0)]


@pytest.mark.parametrize("every", ["0", "-1", "1e3"])
def test_lengths_that_cannot_be_used(every: str, tmp_path: Path) -> None:
    table = write_marks(tmp_path / "s.csv", marks("0-49 HN"))
    words = ("marks", "clips", table, "-o", "labels")
    assert call_obygaze(*words, "--every", every).code == 2
    neither = call_obygaze(*words)
    assert "expected either --clips or --every" in neither.stderr


@pytest.mark.parametrize("said", ["level", "watched", "Gewalt"])
def test_a_film_that_was_watched_without_a_level(said: str, tmp_path: Path) -> None:
    """It is EN if levels were looked for; no other column tells what a clip is."""
    mark = Mark("m", 0.0, 8.0, "watched", said, "A")
    write_marks(tmp_path / "marks.csv", [mark])
    cut = write_spans(tmp_path / "clips.csv", clips("0-99 100-199"))
    words = ("marks", "clips", "marks.csv", "--clips", cut, "-o", "labels")
    done = call_obygaze(*words, cwd=tmp_path)
    if said == "level":
        made = read_manifest("labels", workspace=tmp_path)
        assert [clip.level for clip in made] == ["EN", "EN"]
    else:
        assert done.code == 1
        assert "these marks give no clip a label" in done.stderr


def test_what_was_watched_counts_although_another_column_is_named(tmp_path) -> None:
    said = {"annotator": "ada", "watched": ""}
    clips_of_film = (
        Clip("a-1", "a", None, "", 0.0, 1.0, "S", extra=said),
        Clip("a-2", "a", None, "", 0.0, 2.0, extra={**said, "watched": "watched"}),
        Clip("a-3", "a", None, "", 3.0, 4.0, extra={"annotator": "ben", "watched": ""}),
    )
    columns = ("annotator", "watched")
    coded = Manifest("coded", Header("films"), clips_of_film, columns=columns)
    write_manifest(coded, tmp_path / "manifests" / "coded.toml")
    cut = {"every": Fraction(1), "columns": ("level",), "rule": "highest"}
    made = project_marks("coded", **cut, name="labels", workspace=tmp_path)
    levels = [clip.level for clip in made.manifest]
    # Ada has seen two seconds, and found nothing in one of them; the others are not EN.
    assert levels == ["S", "EN", "", ""]


def test_an_empty_cell_beside_watched_is_asked_about_where_it_may_be_unknown(
    tmp_path: Path,
) -> None:
    """The import of a table writes `?` as an empty cell."""
    rows = ("1,a,0,4,{},watched,x", "2,a,4,6,sad,{},x", "3,a,6,8,,,x")
    header = "clip_id,movie_id,start_s,end_s,mood,watched,note\n"

    def moods(in_first: str, in_second: str) -> list[str]:
        table = "\n".join(rows).format(in_first, in_second)
        (tmp_path / "t.csv").write_text(header + table)
        import_manifest(tmp_path / "t.csv", "t", force=True, workspace=tmp_path)
        cut = {"every": 2, "columns": ["mood"], "force": True, "workspace": tmp_path}
        made = project_marks("t", "labels", **cut)
        return [clip.extra["mood"] for clip in made.manifest]

    # The first row only states what was watched: there, nothing was found.
    assert moods("", "") == ["none", "none", "sad", ""]
    with pytest.raises(FixInput, match="may mean nothing or \\?, in the clips: 1"):
        moods("?", "watched")
    assert moods("none", "watched") == ["none", "none", "sad", ""]


def test_a_folder_in_the_place_of_marks_or_of_clips_leads_to_its_import(
    tmp_path,
) -> None:
    for name in ("elan/a.eaf", "films/a.mp4"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    write_marks(tmp_path / "m.csv", marks("0-99 S Body"))
    for words, hint in (
        (("elan", "--every", "2"), "obygaze marks import elan -o NAME"),
        (("m.csv", "--clips", "films"), "obygaze manifest windows films --seconds 2"),
        (("m.csv", "--clips", "elan"), "obygaze manifest windows FOLDER_OF_FILMS"),
    ):
        done = call_obygaze("marks", "clips", *words, "-o", "labels", cwd=tmp_path)
        assert done.code == 2
        assert hint in done.stderr


def test_a_column_that_likely_states_what_was_watched_is_named(tmp_path) -> None:
    rows = "clip_id,movie_id,start_s,end_s,mood,Seen\n1,a,0,4,sad,\n2,a,0,9,,mood\n"
    (tmp_path / "t.csv").write_text(rows)
    kept = {"Seen": "Seen"}
    import_manifest(tmp_path / "t.csv", "t", columns=kept, workspace=tmp_path)
    with pytest.raises(FixUsage) as caught:
        project_marks("t", "labels", every=2, workspace=tmp_path)
    assert caught.value.hint == (
        "pass --column mood; if Seen states what was watched, import the table again with --map"
        " watched=Seen"
    )


@pytest.mark.parametrize("word", ["yes", "x", "mood, look"])
def test_a_word_in_watched_that_is_no_column_is_refused(word: str, tmp_path) -> None:
    """It counted for no column, so that the whole film counted as watched."""
    rows = (
        f'clip_id,movie_id,start_s,end_s,mood,watched\n1,a,0,4,,"{word}"\n2,a,1,2,x,\n'
    )
    (tmp_path / "t.csv").write_text(rows)
    import_manifest(tmp_path / "t.csv", "t", workspace=tmp_path)
    with pytest.raises(FixInput, match=f"for all columns, got '{word}'"):
        project_marks("t", "labels", every=1, columns=["mood"], workspace=tmp_path)


def test_a_column_that_no_annotator_has_is_no_mark(tmp_path: Path) -> None:
    """A table that was joined later has a column of clips beside the columns of people."""
    said = {"A": {"a-1": {"mood": "sad"}}, "B": {"a-1": {"mood": "glad"}}}
    two = annotated(said)
    (clip,) = two.clips
    clip = replace(clip, start_s=0.0, end_s=4.0, extra={**clip.extra, "note": "x"})
    joined = replace(two, clips=(clip,), columns=(*two.columns, "note"))
    write_manifest(joined, tmp_path / "manifests" / "two.toml")
    cut = {"every": 2, "workspace": tmp_path}
    with pytest.raises(FixInput, match="no annotator has the column 'note'"):
        project_marks("two", "labels", columns=["mood", "note"], **cut)
    assert len(project_marks("two", "labels", columns=["mood"], **cut).manifest) == 2


def test_films_with_another_name_in_the_clips_are_renamed_in_the_import(
    tmp_path: Path,
) -> None:
    train = marks("0-49 S", film="Night Train")
    write_marks(tmp_path / "coded.csv", [*train, *marks("0-49 S", film="lake")])
    rows = ["clip_id,movie_id,start_s,end_s", "a,night_train_1954,0,2", "b,lake,0,2"]
    (tmp_path / "w.csv").write_text("\n".join(rows) + "\n")
    option = ("--film", "Night_Train=night_train_1954")
    clips_of = ("marks", "clips", "m", "--clips", "w.csv", "-o", "labels")
    call_obygaze("marks", "import", "coded.csv", "-o", "m", cwd=tmp_path).ok()
    told = call_obygaze(*clips_of, cwd=tmp_path).ok().stderr
    line = "have another name in the clips, import the marks with " + " ".join(option)
    assert line in told
    # Without any film in common, it is an error with the same options.
    write_marks(tmp_path / "train.csv", train)
    alone = ("marks", "clips", "train.csv", *clips_of[3:5], "-o", "x")
    done = call_obygaze(*alone, cwd=tmp_path)
    assert (done.code, " ".join(option) in done.stderr) == (1, True)
    words = ("marks", "import", "coded.csv", "-o", "m", "--force", *option)
    call_obygaze(*words, cwd=tmp_path).ok()
    told = call_obygaze(*clips_of, "--force", cwd=tmp_path).ok().stderr
    assert "another name" not in told
    made = read_manifest("labels", workspace=tmp_path)
    assert [(one.movie_id, one.level) for one in made] == [
        ("night_train_1954", "S"),
        ("lake", "S"),
    ]
    done = call_obygaze(*words[:-1], "Nigt Train=a", cwd=tmp_path)
    assert (done.code, "did you mean 'Night Train'" in done.stderr) == (1, True)
    done = call_obygaze(*words[:-1], "Night Train=|", cwd=tmp_path)
    assert "expected the name of a film" in done.stderr
