"""Frame rates that are read from a film, where nobody names them."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.videos import write_video

from obygaze.films.film_rates import video_rate
from obygaze_features.manifest import read_manifest

NTSC = Fraction(1001, 24000)


@pytest.fixture
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "films").mkdir()
    write_video(tmp_path / "films/lake.mp4", numbers=range(48), tick=NTSC)
    return tmp_path


@pytest.fixture
def linked(inside):
    """A manifest of two clips of a film of 23.976 pictures a second, with a video."""
    link_clips()
    return inside


def link_clips():
    rows = "a-1,lake,0.0,1.0,EN\na-2,lake,1.0,2.0,S\n"
    Path("clips.csv").write_text(
        f"clip_id,movie_id,start_s,end_s,level\n{rows}", encoding="utf-8"
    )
    call_obygaze("manifest", "import", "clips.csv", "-o", "marks").ok()
    call_obygaze("manifest", "link", "marks", "films").ok()


def import_segments(*words):
    kind = ("--as", "marks") if words[0].endswith(".csv") else ()
    return call_obygaze("manifest", "import", *words, *kind)


def rates_of(name):
    return {clip.movie_id: clip.extra["framerate"] for clip in read_manifest(name)}


def test_the_rate_is_that_of_the_video(inside):
    assert video_rate(inside / "films/lake.mp4") == 1 / NTSC
    uneven = [*range(20), *range(40, 60)]
    write_video(inside / "uneven.mp4", numbers=range(40), ticks=uneven)
    assert video_rate(inside / "uneven.mp4") is None
    assert video_rate(inside / "none.mp4") is None


def test_an_export_takes_the_rate_of_the_linked_video(linked):
    # https://www.w3.org/TR/webvtt1/: clips begin and end where frames of the film do.
    call_obygaze("manifest", "export", "marks", "own", "--as", "vtt").ok()
    call_obygaze(
        "manifest", "export", "marks", "named", "--as", "vtt", "--fps", "23.976"
    ).ok()
    own = Path("own/lake.vtt").read_text(encoding="utf-8")
    assert own == Path("named/lake.vtt").read_text(encoding="utf-8")
    Path("films/lake.mp4").unlink()
    refused = call_obygaze("manifest", "export", "marks", "other", "--as", "vtt")
    assert refused.code == 2
    assert "the frame rate of the film lake is not known" in refused.stderr
    assert "Try: --fps 25 if all films have it, --fps lake=25 for" in refused.stderr


def test_files_of_elan_name_the_video_that_another_manifest_is_linked_to(linked):
    """Of a table of marks they named none, and ELAN asked for the film."""
    columns = "movie_id,annotator,start_s,end_s,level\n"
    Path("own.csv").write_text(f"{columns}lake,ada,0.5,1.5,S\n", "utf-8")
    import_segments("own.csv", "-o", "own").ok()
    for name, folder in (("own.csv", "of-table"), ("own", "of-manifest")):
        call_obygaze("manifest", "export", name, folder, "--as", "elan").ok()
        text = Path(folder, "lake.eaf").read_text("utf-8")
        assert 'RELATIVE_MEDIA_URL="../films/lake.mp4"' in text


def test_a_video_that_was_replaced_has_its_own_rate(inside):
    """The rate was that of the file before, as long as the program ran."""
    for rate in (24, 30):
        tick = Fraction(1, rate)
        write_video(Path("lake.mp4"), numbers=range(rate), tick=tick, rate=rate)
        assert video_rate(Path("lake.mp4")) == rate


def test_an_import_takes_the_rate_of_the_video_beside_the_elan_file(linked):
    call_obygaze("manifest", "export", "marks", "films", "--as", "elan").ok()
    # As a file that obygaze did not write, which says no rate.
    text = Path("films/lake.eaf").read_text("utf-8")
    text, n_removed = re.subn("<PROPERTY.*?</PROPERTY>", "", text)
    assert n_removed == 1
    Path("films/lake.eaf").write_text(text, "utf-8")
    done = import_segments("films/lake.eaf", "-o", "read").ok()
    assert "lake: 23.976 frames per second, as its video" in done.stderr
    assert rates_of("read") == {"lake": "23.976"}
    Path("alone").mkdir()
    Path("films/lake.eaf").rename("alone/lake.eaf")
    # The manifest that is linked to the film says it too, until it is gone.
    import_segments("alone/lake.eaf", "-o", "again").ok()
    assert rates_of("again") == {"lake": "23.976"}
    Path("manifests/marks.toml").unlink()
    refused = import_segments("alone/lake.eaf", "-o", "third")
    assert refused.code == 2
    reason = "the frame rate of the film lake is not known: lake.mp4 is not there"
    assert reason in refused.stderr
    assert "--fps 25 if all films have it, --fps lake=25 for" in refused.stderr


def test_cues_and_times_ask_the_linked_film(linked):
    """A wrong --fps 25 was taken for the cues of a film that is linked and has 23.976."""
    Path("lake.vtt").write_text("WEBVTT\n\n00:00.500 --> 00:01.500\nS\n", "utf-8")
    columns = "movie_id,annotator,start_s,end_s,level\n"
    Path("lake.csv").write_text(f"{columns}lake,ada,0.5,1.5,S\n", "utf-8")
    for file in ("lake.vtt", "lake.csv"):
        import_segments(file, "-o", "read", "--force").ok()
        assert rates_of("read") == {"lake": "23.976"}
        (mark,) = read_manifest("read")
        # .5 and 1.5 s times 24000/1001 are 11.99 and 35.96 pictures.
        assert (mark.extra["start_frame"], mark.extra["end_frame"]) == ("12", "35")
        for given in ("25", "lake=25"):
            refused = import_segments(file, "-o", "read", "--force", "--fps", given)
            assert refused.code == 2
            assert (
                "--fps 25 is not the rate of the film lake: its video has 23.976"
                in refused.stderr
            )
        import_segments(file, "-o", "read", "--force", "--fps", "23.976").ok()
    project = ("manifest", "project", "lake.csv", "--every", "1")
    assert call_obygaze(*project, "--fps", "25").code == 2
    call_obygaze(*project).ok()


def test_a_rate_is_for_each_film_without_a_video(linked):
    """One rate was silently that of all films."""
    for film in ("lake", "pier", "quay"):
        cues = "WEBVTT\n\n00:01.000 --> 00:02.000\nS\n"
        Path(f"{film}.vtt").write_text(cues, "utf-8")
    files = ("lake.vtt", "pier.vtt", "quay.vtt", "-o", "cues", "--force")
    refused = import_segments(*files)
    assert refused.code == 2
    assert "the frame rate of the film pier is not known" in refused.stderr
    assert "--fps pier=25" in refused.stderr
    import_segments(*files, "--fps", "pier=25", "--fps", "quay=12.5").ok()
    assert rates_of("cues") == {"lake": "23.976", "pier": "25", "quay": "12.5"}
    said = import_segments("pier.vtt", "quay.vtt", "-o", "two", "--fps", "25").ok()
    assert rates_of("two") == {"pier": "25", "quay": "25"}
    assert (
        "25 frames per second, as --fps says, in each of these films: pier, quay"
        in said.stderr
    )
    refused = import_segments("pier.vtt", "-o", "x", "--fps", "peir=25", "--fps", "25")
    assert refused.code == 2
    assert "--fps names a film without marks: peir" in refused.stderr
    # What is refused leaves no files.
    refused = call_obygaze(
        "manifest", "export", "cues", "out", "--as", "vtt", "--fps", "peir=25"
    )
    assert refused.code == 2
    assert not Path("out").exists()


def test_a_title_is_a_film_too(inside):
    """A table of marks that names the film by its title had any rate that was given."""
    Path("films/lake.mp4").rename("films/Amélie 1.mp4")
    call_obygaze("manifest", "import", "films", "-o", "films").ok()
    rows = "movie_id,annotator,start_s,end_s,level\nAmélie 1,ada,0.5,1.5,S\n"
    Path("marks.csv").write_text(rows, "utf-8")
    project = ("manifest", "project", "marks.csv", "--every", "1")
    call_obygaze(*project).ok()
    refused = call_obygaze(*project, "--fps", "Amélie 1=25")
    assert refused.code == 2
    assert "its video has 23.976" in refused.stderr
    Path("manifests/films.toml").unlink()
    assert "--fps 'Amélie 1=25' for this one" in call_obygaze(*project).stderr


@pytest.mark.parametrize("words", [("25", "24"), ("pier=25", "pier=24")])
def test_two_rates_of_one_film_are_refused(inside, words):
    """The last one was taken."""
    Path("pier.vtt").write_text("WEBVTT\n\n00:01.000 --> 00:02.000\nS\n", "utf-8")
    one, other = (f"--fps={word}" for word in words)
    import_segments("pier.vtt", "-o", "same", one, one).ok()
    refused = import_segments("pier.vtt", "-o", "x", one, other)
    assert refused.code == 2
    assert "--fps names two rates" in refused.stderr
    assert "25 and 24" in refused.stderr


def test_two_copies_of_a_film_need_the_rate_of_one(linked):
    """Marks were made in one of two copies: the rate says in which."""
    Path("dvd").mkdir()
    write_video(Path("dvd/lake.mp4"), numbers=range(50), rate=25)
    call_obygaze("manifest", "import", "clips.csv", "-o", "dvd").ok()
    call_obygaze("manifest", "link", "dvd", "dvd").ok()
    Path("lake.vtt").write_text("WEBVTT\n\n00:01.000 --> 00:02.000\nS\n", "utf-8")
    assert import_segments("lake.vtt", "-o", "read").code == 2
    for rate in ("25", "23.976"):
        import_segments("lake.vtt", "-o", "read", "--fps", rate, "--force").ok()
        assert rates_of("read") == {"lake": rate}
    assert import_segments("lake.vtt", "-o", "read", "--fps", "30", "--force").code == 2


def test_marks_behind_the_end_of_the_video_are_refused(inside):
    """A film of 48 pictures, 2 seconds, got a mark up to picture 99999."""
    marks = "movie_id,annotator,start_frame,end_frame,level,framerate\n"
    Path("own.csv").write_text(f"{marks}lake,ada,0,99999,S,23.976\n", "utf-8")
    # Without a video nobody knows the end of the film.
    import_segments("own.csv", "-o", "own").ok()
    words = ("manifest", "export", "own.csv", "films", "--as", "elan")
    call_obygaze(*words).ok()
    link_clips()
    problem = "the last picture of lake is 47, not 99999"
    text = Path("films/lake.eaf").read_text("utf-8")
    media = '<MEDIA_DESCRIPTOR MEDIA_URL="lake.mp4" MIME_TYPE="video/mp4"/>'
    changed, n_changed = re.subn("(<HEADER[^>]*>)", rf"\1{media}", text)
    assert n_changed == 1
    Path("films/lake.eaf").write_text(changed, "utf-8")
    for file in ("films/lake.eaf", "own.csv"):
        refused = import_segments(file, "-o", "x")
        assert refused.code == 1
        assert problem in refused.stderr
    call_obygaze("manifest", "link", "own", "films").ok()
    for words in (
        ("export", "own", "out", "--as", "vtt"),
        ("project", "own", "--every", "1"),
        ("project", "own.csv", "--clips", "marks"),
        ("agree", "own.csv", "--clips", "marks"),
    ):
        refused = call_obygaze("manifest", *words)
        assert refused.code == 1
        assert problem in refused.stderr


def test_the_end_of_a_film_that_is_in_no_clip_is_said(linked):
    """Lake has 48 pictures: a clip of 1.5 seconds has 36 of them, and the rest is half a second."""
    marks = "movie_id,annotator,start_frame,end_frame,level\n"
    Path("own.csv").write_text(f"{marks}lake,ada,0,9,S\nlake,ada,40,47,S\n", "utf-8")
    said = call_obygaze("manifest", "project", "own.csv", "--every", "1.5").ok()
    assert "no clip has the end of a film" in said.stderr
    assert "lake 0.5 s" in said.stderr
    # 12 pictures are half a second: four clips have all of them.
    said = call_obygaze("manifest", "project", "own.csv", "--every", "0.5").ok()
    assert "no clip has the end of a film" not in said.stderr


def test_a_clip_behind_the_end_of_the_video_is_no_easy_negative(linked):
    marks = "movie_id,annotator,start_frame,end_frame,level\n"
    Path("own.csv").write_text(f"{marks}lake,ada,0,9,S\n", "utf-8")
    clips = "clip_id,movie_id,start_frame,end_frame\na,lake,0,9\nb,lake"
    words = ("manifest", "project", "own.csv", "--clips", "places.csv", "--json")
    # The last clip of a film may be longer than what is left of it.
    Path("places.csv").write_text(f"{clips},40,90\n", "utf-8")
    merged = call_obygaze(*words).json()["merged"]
    assert [clip["level"] for clip in merged] == ["S", "EN"]
    Path("places.csv").write_text(f"{clips},9000,9090\n", "utf-8")
    refused = call_obygaze(*words)
    assert refused.code == 1
    assert "the last picture of lake is 47, not 9000" in refused.stderr


def test_marks_counted_at_another_rate_than_the_linked_video_are_refused(inside):
    """Marks of a copy of 24 pictures a second were put on clips of one of 23.976."""
    marks = "movie_id,annotator,start_frame,end_frame,level,framerate\n"
    Path("own.csv").write_text(f"{marks}lake,ada,0,9,S,24\n", "utf-8")
    import_segments("own.csv", "-o", "own").ok()
    link_clips()
    problem = "the pictures of lake are counted at 24 per second, its video has 23.976"
    for words in (
        ("project", "own.csv", "--clips", "marks"),
        ("import", "own.csv", "--as", "marks", "-o", "x"),
    ):
        refused = call_obygaze("manifest", *words)
        assert refused.code == 1
        assert problem in refused.stderr
    call_obygaze("manifest", "link", "own", "films").ok()
    refused = call_obygaze("manifest", "export", "own", "out", "--as", "vtt")
    assert refused.code == 1
    assert "24 per" in refused.stderr or "24 pictures per" in refused.stderr
    assert "23.976" in refused.stderr


@pytest.mark.parametrize("n_pictures", [48, 120])
def test_clips_of_equal_length_end_with_the_film_if_its_copies_do(linked, n_pictures):
    """They went on to the end of another copy, as easy negatives of pictures that are not there."""
    Path("copies").mkdir()
    write_video(Path("copies/lake.mp4"), numbers=range(n_pictures), tick=NTSC)
    # The first one by name, so that it was the one that counted.
    call_obygaze("manifest", "import", "clips.csv", "-o", "a-copy").ok()
    call_obygaze("manifest", "link", "a-copy", "copies").ok()
    header = "movie_id,annotator,start_frame,end_frame,level"
    Path("s.csv").write_text(f"{header}\nlake,ada,0,29,S\n", encoding="utf-8")
    done = call_obygaze("manifest", "project", "s.csv", "--every", "0.5", "--json").ok()
    levels = [clip["level"] for clip in done.json()["merged"]]
    # By hand: 0.5 s are 12 pictures, 48 of the film, 30 up to the last mark.
    is_known = n_pictures == 48
    assert levels == (["S", "S", "S", "EN"] if is_known else ["S", "S"])
    assert ("lake at 0:00:01.3" in done.stderr) != is_known
