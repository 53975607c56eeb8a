import random
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("av")

from support.seeds import amount
from support.subtitled import write_subtitled
from support.videos import write_video

from obygaze_features.core.cues import spoken
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.subtitles import length_of, read_embedded

SAID = [(1.0, 2.5, "Hello {\\i1}big{\\i0} world\\Nagain, you"), (6.25, 7.0, "bye")]
HEARD = [(1.0, 2.5, "Hello big world again, you"), (6.25, 7.0, "bye")]


def heard(path: Path) -> list[tuple[float, float, str]]:
    return [
        (float(cue.start_s), float(cue.end_s), spoken(cue.text))
        for cue in read_embedded(path).cues
    ]


@pytest.mark.parametrize(
    "name, codec",
    [("a.mkv", "subrip"), ("a.mkv", "ass"), ("a.mkv", "webvtt"), ("a.mp4", "mov_text")],
)
def test_cues_have_the_words_and_times_that_were_written(name, codec, tmp_path) -> None:
    path = write_subtitled(tmp_path / name, [codec], SAID)
    assert heard(path) == HEARD
    assert length_of(path) == pytest.approx(15, abs=0.01)


@pytest.mark.parametrize("seed", amount(range(1), range(80)))
def test_a_film_ends_after_its_last_picture_wherever_its_times_begin(seed, tmp_path):
    """An edit list leaves out what is before 0; files of other formats begin at any time."""
    draw = random.Random(seed)
    suffix = draw.choice([".mp4", ".mov", ".mkv", ".webm", ".ts"])
    codec = "libvpx" if suffix == ".webm" else "libx264"
    has_edit_list = suffix in (".mp4", ".mov")
    first = draw.randrange(-25, 0) if has_edit_list else draw.randrange(400)
    path = write_video(
        tmp_path / f"film{suffix}",
        codec,
        numbers=range(50),
        options={"g": "50"},
        ticks=range(first, first + 50),
    )
    end_s = (50 + min(first, 0)) / 25
    assert length_of(path) == pytest.approx(end_s, abs=0.05)
    with pytest.raises(BadVideo, match=f"ends at {end_s + 1.2:g} s, the film at"):
        decode_clip(path, PictureView(1), start_s=end_s - 0.5, end_s=end_s + 1.2)


@pytest.mark.parametrize("seed", amount(range(1), range(60)))
@pytest.mark.parametrize("codec", ["subrip", "mov_text"])
def test_what_may_be_missing_is_no_silence(codec, seed, tmp_path) -> None:
    draw = random.Random(f"{codec} {seed}")
    said = [(second + 0.2, second + 0.8, f"word {second}") for second in range(40)]
    # In MP4, zeros may be a cue without words.
    is_mp4 = codec == "mov_text"
    path = write_subtitled(
        tmp_path / ("a.mp4" if is_mp4 else "a.mkv"),
        [codec],
        said,
        seconds=40,
        options={"movflags": "faststart"} if is_mp4 else {},
    )
    assert heard(path) == said
    data = bytearray(path.read_bytes())
    begin = draw.randrange(len(data) // 3, len(data))
    if is_mp4 or draw.random() < 0.5:
        del data[begin:]
    else:
        data[begin : begin + 20_000] = bytes(len(data[begin : begin + 20_000]))
    path.write_bytes(data)
    try:
        assert heard(path) == said
    except BadVideo as error:
        assert "words may be missing" in error.message
    # It may be cut in its words alone.
    with suppress(BadVideo):
        assert decode_clip(path, PictureView(4)).total == 80


def test_subtitles_that_are_pictures_are_no_words(tmp_path: Path) -> None:
    path = write_subtitled(tmp_path / "a.mkv", ["dvdsub"], SAID)
    with pytest.raises(BadVideo, match=r"pictures \(.*\), not text") as caught:
        read_embedded(path)
    assert caught.value.reason == "no-words"
    assert caught.value.where == str(path)
    with pytest.raises(BadVideo, match="it has no subtitles"):
        read_embedded(write_subtitled(tmp_path / "b.mkv", [], SAID))


def test_subtitles_of_an_unknown_kind_are_not_read(tmp_path: Path) -> None:
    both = write_subtitled(tmp_path / "a.mkv", ["subrip", "ass"], SAID)
    data = both.read_bytes()
    both.write_bytes(data.replace(b"S_TEXT/ASS", b"S_TEXT/USF"))
    assert heard(both) == HEARD
    assert read_embedded(both).stream == ""
    alone = write_subtitled(tmp_path / "b.mkv", ["ass"], SAID)
    alone.write_bytes(alone.read_bytes().replace(b"S_TEXT/ASS", b"S_TEXT/USF"))
    with pytest.raises(BadVideo, match="are of an unknown kind"):
        read_embedded(alone)


@pytest.mark.parametrize("kind", ["comment", "forced"])
def test_what_is_no_speech_of_the_film_is_never_read(kind: str, tmp_path: Path) -> None:
    """A commentary, and a translation of what is said in other languages."""
    alone = write_subtitled(tmp_path / "a.mkv", ["subrip"], SAID, kinds=[kind])
    with pytest.raises(BadVideo, match="only subtitles are a commentary") as caught:
        read_embedded(alone)
    assert caught.value.reason == "no-words"
    both = ["subrip", "ass"]
    second = write_subtitled(tmp_path / "b.mkv", both, SAID, kinds=[kind, ""])
    assert read_embedded(second).stream == "subtitles 2 of 2"
    assert heard(second) == HEARD


FORCED = ["English (Forced)", "Songs/Signs", "Français forcés"]
FOR_SOME = ["English [CC]", "Für Hörgeschädigte", "Signs"]
FULL = ["", "Full (non-forced)", "English without SDHC"]


@pytest.mark.parametrize("title", FORCED + FOR_SOME)
def test_a_title_says_of_a_track_what_a_flag_says(title: str, tmp_path: Path) -> None:
    for number, full in enumerate(FULL):
        path = tmp_path / f"{number}.mkv"
        kinds = ["default", ""]
        titles = [title, full]
        write_subtitled(path, ["ass", "ass"], SAID, kinds=kinds, titles=titles)
        assert read_embedded(path).stream == "subtitles 2 of 2"
    alone = write_subtitled(tmp_path / "a.mkv", ["ass"], SAID, titles=[title])
    if title in FOR_SOME:
        assert heard(alone) == HEARD
    else:
        with pytest.raises(BadVideo, match="translate foreign words only"):
            read_embedded(alone)
