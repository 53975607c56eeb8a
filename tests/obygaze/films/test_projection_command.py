"""`obygaze manifest project`: its documents and tables, golden cases, published segments."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path

import pytest
from support.cli import Result, call_obygaze
from support.data import real_data
from support.film import clips, marks, read_inputs, write_segments, write_spans

from obygaze.audits import audit_reliability
from obygaze.films.mark_tables import Segment
from obygaze.films.projection import ClipSpan, project
from obygaze_features.manifest.io import (
    read_annotations,
    read_manifest,
    write_manifest,
)
from obygaze_features.manifest.model import LEVELS, Clip, Header, Manifest, Windows
from obygaze_features.manifest.windows import CutFilm, Grid


def run(
    folder: Path, segments: list[Segment], spans: list[ClipSpan], *options: str
) -> Result:
    marked = write_segments(folder / "segments.csv", segments)
    cut = write_spans(folder / "clips.csv", spans)
    words = ("manifest", "project", marked, "--clips", cut, "--json", *options)
    return call_obygaze(*words, cwd=folder).ok()


def test_the_json_document_is_the_one_scripts_rely_on(tmp_path: Path) -> None:
    segments = [*marks("0-99 S Body"), *marks("0-49 S Look, 50-99 EN", annotator="B")]
    document = run(tmp_path, segments, clips("0-99 100-199")).json()
    empty = {"clip_id": "m-002", "level": "EN", "concepts": [], "ratio": None}
    assert document == {
        "json_version": 1,
        "threshold": "0.2",
        "projections": {
            "A": [
                {
                    "clip_id": "m-001",
                    "level": "S",
                    "concepts": ["Body"],
                    "ratio": [100, 100],
                },
                empty,
            ],
            "B": [
                {
                    "clip_id": "m-001",
                    "level": "S",
                    "concepts": ["Look"],
                    "ratio": [50, 100],
                },
                empty,
            ],
        },
        "merged": [
            {
                "clip_id": "m-001",
                "level": "S",
                "concepts": ["Body", "Look"],
                "ratio": [100, 100],
            },
            empty,
        ],
        "unlabelled": 0,
        "unlabelled_clips": [],
        "assumed_watched": [["m", "A"], ["m", "B"]],
    }


def test_a_clip_without_a_label_has_no_level_in_the_document(tmp_path: Path) -> None:
    # No segment covers half of the clip, and 79 of its frames were seen, of which 80 are needed.
    segments = [*marks("0-29 HN Body, 30-59 NS"), *marks("60-78 watched")]
    document = run(tmp_path, segments, clips("0-99"), "--threshold", "1/2").json()
    empty = {"clip_id": "m-001", "level": None, "concepts": [], "ratio": None}
    assert document["projections"] == {"A": [empty]}
    assert document["merged"] == [empty]
    assert (document["unlabelled"], document["unlabelled_clips"]) == (1, ["m-001"])


def test_the_table_for_people_goes_to_stdout_and_the_talk_to_stderr(
    tmp_path: Path,
) -> None:
    segments = [
        *marks("0-49 HN Voice, 50-99 NS Look"),
        *marks("0-24 S Body|Look", annotator="B"),
    ]
    marked = write_segments(tmp_path / "s.csv", segments)
    cut = write_spans(
        tmp_path / "c.csv", [*clips("0-99"), *clips("0-9", film="unseen")]
    )
    result = call_obygaze("manifest", "project", marked, "--clips", cut).ok()
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["clip", "A", "B", "level", "share", "concepts"],
        ["m-001", "NS", "S", "S", "25.0", "%", "Body,", "Look"],
    ]
    assert "1 clip in films without segments, skipped" in result.stderr
    assert "unseen-001" in result.stderr
    assert "1 clip: EN 0, HN 0, NS 0, S 1, without a label 0" in result.stderr


@pytest.mark.parametrize("names", ["A", "AB", "ABC"])
def test_what_each_of_several_annotators_said_is_in_a_table_beside(
    tmp_path: Path, names: str
) -> None:
    segments = [mark for name in names for mark in marks("0-99 S", annotator=name)]
    marked = write_segments(tmp_path / "s.csv", segments)
    cut = write_spans(tmp_path / "c.csv", clips("0-99"))
    out = tmp_path / "out.csv"
    beside = tmp_path / "out.annotators.csv"
    words = ("manifest", "project", marked, "--clips", cut, "-o", out)
    told = call_obygaze(*words).ok().stderr
    assert beside.exists() == (len(names) > 1)
    assert (f"wrote {beside}" in told) == (len(names) > 1)
    if len(names) > 1:
        said = read_annotations(beside, {"m-001"}, ())
        assert [(one.annotator, one.level) for one in said] == [
            (name, "S") for name in names
        ]
    document = call_obygaze(*words, "--force", "--json").ok().json()
    assert list(document["projections"]) == list(names)
    # A table of other labels, of one person, would be read with that of the others.
    write_segments(marked, marks("0-99 S", annotator="A"))
    refused = call_obygaze(*words)
    assert (refused.code == 1) == (len(names) > 1)
    assert ("of other clips" in refused.stderr) == (len(names) > 1)
    call_obygaze(*words, "--force").ok()
    assert not beside.exists()


def test_disputed_clips_are_in_the_table_of_labels(tmp_path: Path) -> None:
    segments = [
        *marks("0-99 S", annotator="A"),
        *marks("0-49 S, 50-99 HN", annotator="B"),
    ]
    marked = write_segments(tmp_path / "s.csv", segments)
    cut = write_spans(tmp_path / "c.csv", clips("0-49 50-99"))
    words = ("manifest", "project", marked, "--clips", cut, "-o", tmp_path / "out.csv")
    told = call_obygaze(*words, "--rule", "agreed").ok().stderr
    assert "2 clips: EN 0, HN 0, NS 0, S 1, without a label 1" in told
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text("utf-8").splitlines()))
    assert [(row["level"], row["differs"]) for row in rows] == [
        ("S", ""),
        ("", "level"),
    ]
    refused = call_obygaze(*words, "--rule", "ada")
    assert refused.code == 2
    assert "highest" in refused.stderr and "by:A" in refused.stderr


def test_a_concept_of_passages_is_compared(tmp_path: Path) -> None:
    """A concept that is only heard was looked for in the visual view."""
    rows = {
        "ada": "0-49 HN Voice; 50-99 EN; 100-149 S Look|Voice; 150-199 EN",
        "ben": "0-99 HN Voice; 100-199 EN",
    }
    segments = []
    for name, text in rows.items():
        for one in text.split("; "):
            segments += marks(one, annotator=name)
    write_segments(tmp_path / "s.csv", segments)
    words = ("manifest", "project", "s.csv", "--every", "2", "--fps", "25", "--json")
    output = ("-o", "labels.csv")
    document = call_obygaze(*words, *output, cwd=tmp_path).ok().json()
    concepts = {"Voice": "speech", "Look": "visual"}
    made = [Clip(row["clip_id"], "m") for row in document["merged"]]
    ids = {clip.clip_id for clip in made}
    said = read_annotations(tmp_path / "labels.annotators.csv", ids, concepts)
    for name, levels in document["projections"].items():
        of_annotator = [one for one in said if one.annotator == name]
        assert [(one.clip_id, one.level, [*one.concepts]) for one in of_annotator] == [
            (level["clip_id"], level["level"], level["concepts"]) for level in levels
        ]
    manifest = Manifest("m", Header("m", concepts), tuple(made), annotations=said)
    audit = audit_reliability(manifest, column="concepts=Voice")
    # Of four clips: ada hears it in 1 and 3, ben in 1 and 2. Of the 8 answers 4 are yes.
    disagreement = 2 / 4
    by_chance = 2 * 4 * 4 / (8 * 7)
    assert audit["krippendorff"] == pytest.approx(1 - disagreement / by_chance)


@pytest.mark.parametrize("command", ["project", "agree"])
def test_clips_of_other_films_alone_are_an_error(tmp_path: Path, command: str) -> None:
    marked = write_segments(tmp_path / "s.csv", marks("0-49 S"))
    cut = write_spans(tmp_path / "c.csv", clips("0-9", film="unseen"))
    for words, what in (
        (("--clips", cut), "Error: no clip lies in a film with segments"),
        (("--every", "3", "--fps", "25"), "Error: the segments span no whole clip"),
    ):
        result = call_obygaze("manifest", command, marked, *words)
        assert (result.code, result.stdout) == (1, "")
        lines = result.stderr.splitlines()
        error = lines.index(what)
        assert lines[error + 1].startswith(f"  in: {tmp_path}")


def test_a_concept_outside_the_vocabulary_is_told_and_kept(tmp_path: Path) -> None:
    result = run(tmp_path, marks("0-99 S Body|Bdy"), clips("0-99"))
    assert result.json()["merged"][0]["concepts"] == ["Bdy", "Body"]
    assert "unknown concepts, kept unchanged: Bdy" in result.stderr


def test_a_concept_of_the_own_vocabulary_is_known(tmp_path: Path) -> None:
    folder = tmp_path / "segments"
    folder.mkdir()
    header = "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
    table = folder / "films.ada.csv"
    table.write_text(f"{header}lake,ada,0,99,S,glint|Bdy,25\n")
    (folder / "films.vocabulary.toml").write_text(
        'schema = "obygaze-vocabulary/1"\n[[concepts]]\nname = "glint"\n'
    )
    expected = "Warning: unknown concepts, kept unchanged: Bdy\n"
    words = ("manifest", "project", table, "--every", "4")
    assert expected in call_obygaze(*words, cwd=tmp_path).ok().stderr
    words = ("manifest", "import", table, "--as", "marks", "-o", "ada")
    assert expected in call_obygaze(*words, cwd=tmp_path).ok().stderr


def test_a_film_whose_name_is_written_in_another_way_is_named(tmp_path: Path) -> None:
    header = "movie_id,annotator,start_frame,end_frame,level,concepts\n"
    (tmp_path / "marks.csv").write_text(f"{header}lake,ada,0,99,S,\nnana,ada,0,9,S,\n")
    (tmp_path / "clips.csv").write_text(
        "clip_id,movie_id,start_frame,end_frame\na,lake,0,99\nb,Nana,0,99\n"
    )
    words = ("manifest", "project", "marks.csv", "--clips", "clips.csv")
    told = call_obygaze(*words, cwd=tmp_path).ok().stderr
    assert "1 clip in films without segments, skipped: b" in told
    assert "no clips of films with segments: nana (did you mean 'Nana'?)" in told


def test_rows_as_csv_are_written_once_and_replaced_only_by_force(
    tmp_path: Path,
) -> None:
    spans = clips("0-99 100-199 200-299")
    segments = marks("0-99 S Look|Body, 100-199 watched, 200-240 HN, 241-270 HN")
    output = tmp_path / "levels.csv"
    options = ("-o", str(output), "--threshold", "0.5")
    run(tmp_path, segments, spans, *options)
    assert output.read_text("utf-8") == (
        "clip_id,movie_id,level,concepts,overlap_frames,clip_frames\n"
        "m-001,m,S,Body|Look,100,100\n"
        "m-002,m,EN,,,\n"
        "m-003,m,,,,\n"
    )
    words = (
        "manifest",
        "project",
        "segments.csv",
        "--clips",
        "clips.csv",
        "-o",
        str(output),
    )
    refused = call_obygaze(*words, "--threshold", "0.3", cwd=tmp_path)
    assert refused.code == 1 and "--force" in refused.stderr
    assert "m-003,m,,," in output.read_text("utf-8")
    call_obygaze(*words, "--threshold", "0.3", "--force", cwd=tmp_path).ok()
    assert "m-003,m,HN,,41,100" in output.read_text("utf-8")


def test_titles_of_films_are_kept(tmp_path: Path) -> None:
    """Pages and reports showed the ids of the films in their place."""
    header = "movie_id,annotator,start_frame,end_frame,level,framerate,movie_title\n"
    rows = "foret,eva,0,49,S,25,Forêt d’été\nlac,eva,0,49,S,25,\n"
    (tmp_path / "s.csv").write_text(header + rows, "utf-8")
    words = ("manifest", "project", "s.csv", "--every", "1", "-o", "levels.csv")
    call_obygaze(*words, cwd=tmp_path).ok()
    with (tmp_path / "levels.csv").open(encoding="utf-8", newline="") as file:
        titles = {(row["movie_id"], row["movie_title"]) for row in csv.DictReader(file)}
    assert titles == {("foret", "Forêt d’été"), ("lac", "")}


def test_a_manifest_of_the_workspace_can_be_given_by_name(tmp_path: Path) -> None:
    table = tmp_path / "marked.csv"
    write_segments(table, marks("0-9 S Body"))
    words = (
        "manifest",
        "import",
        table,
        "--as",
        "marks",
        "--fps",
        "25",
        "-o",
        "marked",
    )
    call_obygaze("-C", tmp_path, *words).ok()
    cut = write_spans(tmp_path / "c.csv", clips("0-9"))
    words = ("-C", tmp_path, "manifest", "project", "marked", "--clips", cut, "--json")
    assert call_obygaze(*words).ok().json()["merged"][0]["level"] == "S"
    # Elsewhere, by its path, which other commands take without an ending, too.
    folder = tmp_path / "manifests"
    (tmp_path / "lab").mkdir()
    for ending in (".toml", ".csv"):
        (folder / f"marked{ending}").rename(tmp_path / "lab" / f"marked{ending}")
    named = tmp_path / "lab" / "marked"
    words = ("-C", tmp_path, "manifest", "project", named, "--clips", cut, "--json")
    assert call_obygaze(*words).ok().json()["merged"][0]["level"] == "S"
    for ending in (".toml", ".csv"):
        (tmp_path / "lab" / f"marked{ending}").rename(folder / f"marked{ending}")
    other = call_obygaze(
        "-C", tmp_path, "manifest", "project", "marcked", "--clips", cut
    )
    assert other.code == 1 and "one of marked" in other.stderr


@pytest.mark.check("imports and projects 6,072 published segments")
def test_the_published_segments_projected_on_themselves_keep_their_levels(
    tmp_path: Path,
) -> None:
    """Each annotator's segments as clips, and all of a clip asked for: nothing may change."""
    published = real_data("mobygaze", "mobygaze_dataframe.no_subtitles.csv")
    call_obygaze(
        "-C", tmp_path, "manifest", "import", published, "--as", "mobygaze"
    ).ok()
    table = tmp_path / "manifests" / "mobygaze.csv"
    segments, spans = read_inputs(table, table)
    counts = dict.fromkeys(LEVELS, 0)
    for annotator in ("annotator1", "annotator2"):
        own = [segment for segment in segments if segment.annotator == annotator]
        cut = [
            span
            for span, s in zip(spans, segments, strict=True)
            if s.annotator == annotator
        ]
        made = project(own, cut, Fraction(1))
        assert [(row.level, set(row.concepts)) for row in made.merged] == [
            (segment.level, set(segment.concepts)) for segment in own
        ]
        for level, count in made.counts().items():
            counts[level] += count
    assert counts == {"EN": 2407, "HN": 1906, "NS": 289, "S": 1470}


@pytest.mark.parametrize("text", ["1.5", "0.1,x", ""])
def test_a_threshold_that_is_none_is_wrong_usage(tmp_path: Path, text: str) -> None:
    words = ("manifest", "project", "s.csv", "--clips", "c.csv", "--threshold", text)
    result = call_obygaze(*words)
    assert result.code == 2 and "the threshold must be from 0 to 1" in result.stderr


MARKED = """movie_id,annotator,start_frame,end_frame,level,concepts,framerate
a,x,0,1499,S,Body,24
a,y,0,1500,EN,,24
b,x,800,2400,HN,,23.976
"""


def test_films_cut_into_clips_by_their_frame_rate(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(MARKED)
    words = ("manifest", "project", "s.csv", "--every", "30", "-o", "levels.csv")
    call_obygaze(*words, cwd=tmp_path).ok()
    with (tmp_path / "levels.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    # 30 s are 720 frames at 24 fps, and 719.28 at 24000 / 1001: frames 719 to 1438, and to 2157.
    assert [(row["clip_id"], row["level"], row["start_s"]) for row in rows] == [
        ("a_0.000-30.000", "S", "0.0"),
        ("a_30.000-60.000", "S", "30.0"),
        ("b_0.000-29.988", "EN", "0.0"),
        ("b_29.988-60.018", "HN", repr(719 * 1001 / 24000)),
        ("b_60.018-90.007", "HN", repr(1439 * 1001 / 24000)),
    ]
    assert rows[3]["end_s"] == repr(1439 * 1001 / 24000)
    call_obygaze("manifest", "import", "levels.csv", cwd=tmp_path).ok()
    # The rates are known: an export of scores asked for them.
    (tmp_path / "p.csv").write_text(
        "clip_id,movie_id,score\na_30.000-60.000,a,0.5\nb_29.988-60.018,b,0.5\n"
    )
    words = (
        "manifest",
        "export",
        "levels",
        ".",
        "--as",
        "vtt",
        "--predictions",
        "p.csv",
    )
    call_obygaze(*words, cwd=tmp_path).ok()
    for film, times in (
        ("a", "00:00:30.000 --> 00:01:00.000"),
        ("b", "00:00:29.989 --> 00:01:00.019"),
    ):
        assert times in (tmp_path / f"{film}.vtt").read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "expected one of --clips and --every"),
        (("--every", "x"), "--every must be a number of seconds, got 'x'"),
        (("--every", "0.001"), "clips must have at least one frame"),
    ],
)
def test_lengths_that_cannot_be_used(
    tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    (tmp_path / "s.csv").write_text(MARKED)
    done = call_obygaze("manifest", "project", "s.csv", *options, cwd=tmp_path)
    assert (done.code, told in done.stderr) == (2, True), done.stderr


def test_a_frame_rate_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(
        MARKED.replace("framerate", "rate").replace("23.976", "24")
    )
    done = call_obygaze("manifest", "project", "s.csv", "--every", "30", cwd=tmp_path)
    assert "the frame rate of the film a is not known" in done.stderr
    words = ("manifest", "project", "s.csv", "--every", "30", "--fps", "24", "--json")
    document = call_obygaze(*words, cwd=tmp_path).ok().json()
    assert [row["clip_id"] for row in document["merged"]] == [
        *("a_0.000-30.000", "a_30.000-60.000"),
        *("b_0.000-30.000", "b_30.000-60.000", "b_60.000-90.000"),
    ]


def test_clips_with_times_in_seconds(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(MARKED)
    rows = "clip_id,movie_id,start_s,end_s\na-1,a,0,62.5\nb-1,b,30.0,60\nz-1,z,0,1\n"
    (tmp_path / "c.csv").write_text(rows)
    words = (
        "manifest",
        "project",
        "s.csv",
        "--clips",
        "c.csv",
        "-o",
        "levels.csv",
        "--json",
    )
    done = call_obygaze(*words, cwd=tmp_path).ok()
    # Film a has 24 frames a second: 62.5 s are 1500 frames. Film b has 23.976: 30 s to 60 s are
    # frames 719.28 to 1438.56, that is 719 to 1438. Film z is not marked, so its rate is unknown.
    ratios = {row["clip_id"]: row["ratio"] for row in done.json()["merged"]}
    assert ratios == {"a-1": [1500, 1500], "b-1": [639, 720]}
    assert "1 clip in films without segments, skipped: z-1" in done.stderr
    with (tmp_path / "levels.csv").open() as stream:
        times = [(row["start_s"], row["end_s"]) for row in csv.DictReader(stream)]
    assert times == [("0.0", "62.5"), ("30.0", "60.0")]


@pytest.mark.parametrize("columns", ["start_s,end_s", "film_start_s,film_end_s"])
@pytest.mark.parametrize("rate", ["25", "23.976", "10"])
def test_labels_are_joined_to_the_clips_that_they_are_of(
    tmp_path: Path, columns: str, rate: str
) -> None:
    """Times of the frames, which may be further than the tolerance from those of the clips."""
    (tmp_path / "s.csv").write_text(
        "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
        f"a,ada,0,9,S,,{rate}\n"
    )
    times = [(0.0, 1.2), (1.2, 3.7), (3.7, 6.66), (6.66, 9.95)]
    rows = [f"a-{n},a,{start},{end}" for n, (start, end) in enumerate(times)]
    (tmp_path / "c.csv").write_text("\n".join([f"clip_id,movie_id,{columns}", *rows]))

    def line(words: str) -> Result:
        return call_obygaze("manifest", *words.split(), cwd=tmp_path).ok()

    line("import c.csv -o shots")
    line("project s.csv --clips shots -o levels.csv")
    told = line("join shots levels.csv").stderr
    assert "--map NAME=COLUMN joins the levels under a name of your own" in told
    line("join shots levels.csv --map gaze=level --force")
    joined = read_manifest("shots", workspace=tmp_path).clips
    assert [clip.extra["gaze"] for clip in joined] == ["S"] + 3 * ["EN"]
    line("import levels.csv -o levels")
    clips_of = read_manifest("levels", workspace=tmp_path).clips
    assert [(clip.start_s, clip.end_s) for clip in clips_of] == times


def test_clips_in_seconds_need_a_rate(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(MARKED.replace("framerate", "rate"))
    (tmp_path / "c.csv").write_text(
        "clip_id,movie_id,start_s,end_s\na-1,a,0,62.5\na-2,a,3,3.01\n"
    )
    for command in ("project", "agree"):
        words = ("manifest", command, "s.csv", "--clips", "c.csv")
        done = call_obygaze(*words, cwd=tmp_path)
        assert done.code == 2
        assert "the frame rate of the film a is not known" in done.stderr
        assert "--fps a=25" in done.stderr
        done = call_obygaze(*words, "--fps", "24", cwd=tmp_path)
        assert (
            "c.csv:3: column 'end_s': no frame is between these times at 24 frames"
            in done.stderr
        )
    (tmp_path / "c.csv").write_text("clip_id,movie_id,start,end\na-1,a,0,62.5\n")
    done = call_obygaze(
        "manifest", "project", "s.csv", "--clips", "c.csv", cwd=tmp_path
    )
    assert "required column is missing; or start_s and end_s, in seconds" in done.stderr


def test_a_rate_that_contradicts_the_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(MARKED)
    words = ("manifest", "project", "s.csv", "--every", "30", "--fps")
    done = call_obygaze(*words, "25", cwd=tmp_path)
    assert done.code == 1
    assert "24 is not the rate given by --fps; leave out --fps" in done.stderr


@pytest.mark.parametrize("rate", ["nan", "inf", "0", "-24", "25 fps"])
def test_a_rate_that_is_none_is_refused(tmp_path: Path, rate: str) -> None:
    (tmp_path / "s.csv").write_text(MARKED.replace("framerate", "rate"))
    done = call_obygaze(
        *("manifest", "project", "s.csv", "--every", "30"), "--fps", rate, cwd=tmp_path
    )
    assert (done.code, "expected frames per second" in done.stderr) == (2, True), (
        done.stderr
    )


# At 24 frames a second, clips of one second are frames 0-23, 24-47, 48-71.
@pytest.mark.parametrize(
    ("first", "last", "numbers"),
    [
        (0, 71, [1, 2, 3]),
        (0, 70, [1, 2]),
        (0, 72, [1, 2, 3]),
        (23, 47, [1, 2]),
        (24, 47, [1, 2]),
    ],
)
def test_only_whole_clips_are_cut(
    tmp_path: Path, first: int, last: int, numbers: list[int]
) -> None:
    header = "movie_id,annotator,start_frame,end_frame,level,concepts\n"
    (tmp_path / "s.csv").write_text(f"{header}a,ada,{first},{last},S,\n")
    _, spans = read_inputs(tmp_path / "s.csv", Fraction(1), fps=24)
    starts = [24 * (number - 1) for number in numbers]
    assert [(span.clip_id, span.start_frame, span.end_frame) for span in spans] == [
        (f"a_{start // 24}.000-{start // 24 + 1}.000", start, start + 23)
        for start in starts
    ]


def test_clips_of_seconds_are_rounded_to_frames(tmp_path: Path) -> None:
    """30 s are 719.28 frames at 24000 / 1001: the first clip is frames 0-718, rounded down."""
    header = "movie_id,annotator,start_frame,end_frame,level,concepts\n"
    (tmp_path / "s.csv").write_text(f"{header}a,ada,719,2157,S,\n")
    _, spans = read_inputs(tmp_path / "s.csv", Fraction(30), fps="23.976")
    assert [(span.clip_id, span.start_frame, span.end_frame) for span in spans] == [
        ("a_0.000-29.988", 0, 718),
        ("a_29.988-60.018", 719, 1438),
        ("a_60.018-90.007", 1439, 2157),
    ]


def test_a_table_of_watched_time_that_is_wrong_is_named(tmp_path: Path) -> None:
    header = "movie_id,annotator,start_frame,end_frame,level,concepts\n"
    (tmp_path / "s.csv").write_text(f"{header}a,ada,0,9,S,\n")
    watched = "movie_id,annotator,start_frame,end_frame,level\na,ada,9,0,watched\n"
    (tmp_path / "s.watched.csv").write_text(watched)
    words = ("manifest", "project", "s.csv", "--every", "1", "--fps", "24")
    done = call_obygaze(*words, cwd=tmp_path)
    assert done.code == 1
    assert "s.watched.csv:2: column 'end_frame'" in done.stderr
    assert "s.csv:2" not in done.stderr.replace("s.watched.csv", "")


def test_segments_in_seconds_with_a_rate_are_those_in_frames(tmp_path: Path) -> None:
    """A manifest of clips has seconds: two annotators in it are compared as they are."""
    header = "movie_id,annotator,level,concepts"
    rows = [("x", 0, 4, "S"), ("y", 0, 6, "S"), ("x", 8, 12, "HN"), ("y", 9, 12, "S")]
    in_seconds = [f"{header},start_s,end_s"]
    in_frames = [f"{header},start_frame,end_frame"]
    for name, start, end, level in rows:
        in_seconds.append(f"a,{name},{level},,{start},{end}.0")
        in_frames.append(f"a,{name},{level},,{start * 24},{end * 24 - 1}")
    printed = {}
    for name, lines in (("s", in_seconds), ("f", in_frames)):
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
        for command in ("project", "agree"):
            words = ("manifest", command, f"{name}.csv", "--every", "2", "--fps", "24")
            printed[name, command] = call_obygaze(*words, cwd=tmp_path).ok().stdout
    assert printed["s", "project"] == printed["f", "project"]
    assert printed["s", "agree"] == printed["f", "agree"]
    done = call_obygaze("manifest", "agree", "s.csv", "--every", "2", cwd=tmp_path)
    assert "the frame rate of the film a is not known" in done.stderr


def test_a_table_without_spans_and_with_a_bad_row_is_refused(tmp_path: Path) -> None:
    table = "movie_id,annotator,level,concepts,end_frame\na,x,S,,3\na,x,S,,3,4,5\n"
    (tmp_path / "s.csv").write_text(table)
    words = ("manifest", "project", "s.csv", "--every", "2", "--fps", "24")
    done = call_obygaze(*words, cwd=tmp_path)
    assert done.code == 1
    assert "column 'start_frame': required column is missing" in done.stderr


def test_clips_in_a_row_are_projected_with_a_warning(tmp_path: Path) -> None:
    """Times in files of their own were taken as times in the film."""
    header = "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
    (tmp_path / "s.csv").write_text(f"{header}lake,ada,125,249,S,,25\n")
    rows = ["clip_id,movie_id,video,start_s,end_s"]
    rows += [f"lake-{n},lake,{n}.mp4,0,5" for n in (1, 2)]
    (tmp_path / "c.csv").write_text("\n".join(rows) + "\n")
    words = ("manifest", "project", "s.csv", "--clips", "c.csv", "--json")
    done = call_obygaze(*words, cwd=tmp_path).ok()
    assert [row["level"] for row in done.json()["merged"]] == ["EN", "S"]
    assert "they count as following each other: lake" in done.stderr


def test_tables_of_what_was_watched_may_be_named_beside_those_of_marks(
    tmp_path: Path,
) -> None:
    """As a shell does with `films.*.csv`; the first mark makes such a table without a row."""
    header = "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
    names = []
    for name, marked, seen in (
        ("ada", "lake,ada,0,9,S,,10\n", ""),
        ("ben", "lake,ben,0,9,HN,,10\n", "lake,ben,0,39,watched,,10\n"),
    ):
        for table, rows in ((name, marked), (f"{name}.watched", seen)):
            path = tmp_path / f"films.{table}.csv"
            path.write_text(header + rows, "utf-8")
            names.append(path.name)
    words = ("manifest", "project", *names, "--every", "2", "--json")
    found = call_obygaze(*words, cwd=tmp_path).ok().json()
    levels = {}
    for name, rows in found["projections"].items():
        levels[name] = [row["level"] for row in rows]
    assert levels == {"ada": ["S", None], "ben": ["HN", "EN"]}
    words = ("manifest", "import", *names, "--as", "marks", "-o", "marks")
    call_obygaze(*words, cwd=tmp_path).ok()
    shown = call_obygaze("manifest", "show", "marks", "--json", cwd=tmp_path).ok()
    # Of ada it is known that only the mark was seen.
    assert len(shown.json()["clips"]) == 4


def test_clips_in_pictures_of_another_rate_are_refused(tmp_path: Path) -> None:
    header = "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
    (tmp_path / "s.csv").write_text(f"{header}lake,ada,0,23,S,,8\n", "utf-8")
    clips_header = "clip_id,movie_id,start_frame,end_frame,framerate\n"
    (tmp_path / "c.csv").write_text(f"{clips_header}c1,lake,0,23,24\n", "utf-8")
    words = ("manifest", "project", "s.csv", "--clips", "c.csv")
    refused = call_obygaze(*words, cwd=tmp_path)
    assert refused.code != 0
    assert "24 is not that of the marks of the film, 8" in refused.stderr


def test_where_films_end_for_clips_of_equal_length_is_said(tmp_path: Path) -> None:
    """A table of marks does not say how long a film is, and its end was lost without a word."""
    header = "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
    (tmp_path / "s.csv").write_text(f"{header}a,ada,0,49,HN,,25\na,ada,150,224,S,,25\n")
    words = ("manifest", "project", "s.csv", "--every", "5")
    done = call_obygaze(*words, cwd=tmp_path).ok()
    assert (
        "the clips of --every end at its last segment (a at 0:00:09.0)" in done.stderr
    )
    write_spans(tmp_path / "c.csv", clips("0-224"))
    words = ("manifest", "project", "s.csv", "--clips", "c.csv")
    assert "--every" not in call_obygaze(*words, cwd=tmp_path).stderr


def test_a_manifest_of_windows_is_exported_before_marks_are_projected_on_it(
    tmp_path: Path,
) -> None:
    header = "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
    (tmp_path / "s.csv").write_text(f"{header}a,ada,0,24,HN,,25\n")
    film = CutFilm("a", "a.mp4", 50, 25.0, 2.0)
    windows = Windows((film,), Grid(seconds=1.0, every=1.0))
    manifest = Manifest("cut", Header("cut", unit="window", grid=windows.grid), windows)
    write_manifest(manifest, tmp_path / "manifests" / "cut.toml")
    words = ("manifest", "project", "s.csv", "--clips")
    done = call_obygaze(*words, "cut", cwd=tmp_path)
    assert (done.code, "this is a manifest of windows" in done.stderr) == (1, True)
    assert (
        "Try: obygaze manifest export manifests/cut.toml cut.csv, then --clips cut.csv"
        in done.stderr
    )
    export = ("manifest", "export", "manifests/cut.toml", "cut.csv")
    exported = call_obygaze(*export, cwd=tmp_path).ok()
    assert "the files do not say: that the rows are windows" in exported.stderr
    levels = call_obygaze(*words, "cut.csv", "--json", cwd=tmp_path).ok().json()
    assert [row["level"] for row in levels["merged"]] == ["HN", "EN"]


def test_clips_of_films_with_a_rate_have_times_beside_films_without(
    tmp_path: Path,
) -> None:
    """One film without a rate took the times of all others away."""
    (tmp_path / "marks.csv").write_text(
        "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
        "alba,ada,0,49,S,,25\nbrug,ada,0,49,S,,\n"
    )
    (tmp_path / "clips.csv").write_text(
        "clip_id,movie_id,start_frame,end_frame\na,alba,0,49\nb,brug,0,49\n"
    )
    words = ("manifest", "project", "marks.csv", "--clips", "clips.csv", "-o", "l.csv")
    done = call_obygaze(*words, cwd=tmp_path).ok()
    _, of_alba, of_brug = (tmp_path / "l.csv").read_text("utf-8").splitlines()
    assert of_alba.endswith(",50,50,0.0,2.0,25")
    assert of_brug.endswith(",50,50,,,")
    assert "without times, the frame rate is not known: brug" in done.stderr


@pytest.mark.parametrize("corrected", ["", "clips", "segments"])
def test_a_clock_time_that_was_corrected_in_a_shown_table_is_refused(
    tmp_path: Path, corrected: str
) -> None:
    """`manifest show -o` writes it beside the seconds, which alone were read."""
    columns = "movie_id,start_s,end_s,start,end"
    row = "lake,10.0,20.0,0:00:10.000,0:00:20.000"
    tables = {
        "clips": f"clip_id,{columns}\nlake-1,{row}\n",
        "segments": f"annotator,level,framerate,{columns}\nada,S,25,{row}\n",
    }
    for name, text in tables.items():
        if name == corrected:
            text = text.replace("0:00:10.000", "0:00:14.000")
        (tmp_path / f"{name}.csv").write_text(text, "utf-8")
    words = ("manifest", "project", "segments.csv", "--clips", "clips.csv", "--json")
    done = call_obygaze(*words, cwd=tmp_path)
    if not corrected:
        assert done.ok().json()["merged"][0]["ratio"] == [250, 250]
        return
    assert done.code == 1
    expected = f"{corrected}.csv:2: column 'start': 0:00:14.000 is not the time in start_s, 10 s"
    assert expected in done.stderr
