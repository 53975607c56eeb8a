"""The words of a clip are what a person counts in the subtitles, whatever program wrote them.

Three clips of a film are 5 s long each, and follow each other. What cannot be read is refused with
its file and line.
"""

import warnings
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obygaze_features.core.errors import (
    FixInput,
    Mismatch,
    ObygazeError,
    ObygazeWarning,
)
from obygaze_features.extraction.subtitles import words_of_clips
from obygaze_features.manifest.model import Clip, Header, Manifest

pytest.importorskip("av")

CLIPS = tuple(
    Clip(f"m-{number}", "m", start_s=5.0 * number, end_s=5.0 * number + 5)
    for number in range(3)
)
FILM = Manifest("films", Header("Films"), CLIPS)


class Case(NamedTuple):
    """A file, and what is said in each clip, or what is refused, with its line."""

    name: str
    data: bytes
    said: tuple[str, ...] = ()
    refused: str = ""
    line: int | None = None


def srt(*cues: str, ends: str = "\n", encoding: str = "utf-8") -> bytes:
    return (f"{ends}{ends}".join(cues).replace("\n", ends) + ends).encode(encoding)


ONE = "1\n00:00:01,000 --> 00:00:02,000\n"
TWO = "2\n00:00:06,000 --> 00:00:07,000\n"
VTT = "WEBVTT\n\n"
CASES = {
    "capitals of a name and a language": Case("M.DE.srt", srt(f"{ONE}yes"), ("yes", "", "")),
    # Encodings.
    "utf-16": Case("m.srt", srt(f"{ONE}né", encoding="utf-16"), ("né", "", "")),
    "windows-1252": Case(
        "m.srt", srt(f"{ONE}où es-tu allé", encoding="cp1252"), ("où es-tu allé", "", "")
    ),
    # Numbers and times.
    "no numbers": Case(
        "m.srt", srt(f"{ONE[2:]}forty 2", f"{TWO[2:]}two"), ("forty 2", "two", "")
    ),
    "an empty line between number and times": Case(
        "m.srt",
        srt("1", f"{ONE[2:]}hello", "2", f"{TWO[2:]}in\n1984"),
        ("hello", "in 1984", ""),
    ),
    "no numbers, and a year as the last line": Case(
        "m.srt",
        f"{ONE[2:]}born in\n1984\n{TWO[2:]}and now\n".encode(),
        ("born in 1984", "and now", ""),
    ),
    "no empty line": Case("m.srt", f"{ONE}a\n{TWO}b\n".encode(), ("a", "b", "")),
    "an empty line in a cue": Case(
        "m.srt", srt(f"{ONE}one\n\n 1 two", f"{TWO}b"), ("one 1 two", "b", "")
    ),
    "an end before the start": Case(
        "m.srt",
        srt(f"{ONE}a", "2\n00:00:07,000 --> 00:00:06,000\nb"),
        refused="ends before it begins",
        line=6,
    ),
    "no cues": Case("m.srt", b"nothing\n", refused="no cues"),
    # What is said when.
    "marks without width": Case(
        "m.srt",
        srt(f"{ONE}\u200efa\u00adther", f"{TWO}می\u200cروم"),
        ("father", "می\u200cروم", ""),
    ),
    # Tags.
    "vtt": Case(
        "m.vtt",
        f"{VTT}STYLE\n::cue {{ color: red }}\n\nNOTE not\nsaid\n\nintro\n"
        "00:01.000 --> 00:02.000 line:0 align:left\n<v.loud Ann>Hi</v> <c.x>you</c>"
        "<00:01.500>there\n\nNOTE more\n\n00:00:06.000 --> 00:00:07.000\n- No\n- Yes\n".encode(),
        ("Hi youthere", "- No - Yes", ""),
    ),
    # What other programs and people make of them.
    "shift-jis": Case(
        "m.srt", srt(f"{ONE}どこにいたの", encoding="shift-jis"), refused="in UTF-8, got", line=3
    ),
    "carriage returns alone": Case(
        "m.srt", srt(f"{ONE}yes", f"{TWO}no", ends="\r"), refused="expected times", line=1
    ),
    "a NUL character": Case(
        "m.srt", srt(f"{ONE}a", f"{TWO}b\0c"), refused="line 7 has a NUL character"
    ),
    "a cue inside a cue": Case(
        "m.srt",
        srt("1\n00:00:01,000 --> 00:00:09,000\nlong", "2\n00:00:03,000 --> 00:00:04,000\nshort"),
        ("long short", "long", ""),
    ),
    "entities": Case(
        "m.srt", srt(f"{ONE}Tom &amp; Ann&nbsp;&#8211; caf&eacute; &lt;3"),
        ("Tom & Ann – café <3", "", ""),
    ),
    "ttml": Case(
        "m.srt",
        b'<?xml version="1.0"?><!DOCTYPE tt [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>\n'
        b'<tt><body><div><p begin="00:00:01.000" end="00:00:02.000">&b;</p></div></body></tt>\n',
        refused="the file has no cues",
    ),
    # What WebVTT has beside words.
    "vtt whose cues begin with a blank": Case(
        "m.vtt",
        f"{VTT}00:01.000 --> 00:02.000 align:start\n \nso<00:01.200><c> today</c>\n\n"
        "00:06.000 --> 00:07.000\nso today\n \n".encode(),
        ("so today", "so today", ""),
    ),
    "cues of the same time stay in the order of the file": Case(
        "m.srt",
        srt(f"{ONE}Will you?", "2\n00:00:01,000 --> 00:00:01,500\nNo, never."),
        ("Will you? No, never.", "", ""),
    ),
    # What files that were converted from SubStation Alpha have beside words.
    "override tags": Case(
        "m.srt", srt(f"{ONE}{{\\b1\\fs20}}Well{{\\b0}}, yes\\Nno"), ("Well, yes no", "", "")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_words_of_each_clip_are_those_by_hand(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    path = tmp_path / case.name
    path.write_bytes(case.data)
    with warnings.catch_warnings(action="ignore", category=ObygazeWarning):
        if case.refused:
            with pytest.raises(ObygazeError, match=case.refused) as caught:
                words_of_clips(FILM, str(tmp_path))
            where = str(path) if case.line is None else f"{path}:{case.line}"
            told = [str(caught.value.where), *caught.value.details]
            assert any(line.startswith(where) for line in told), told
            return
        words = words_of_clips(FILM, str(tmp_path))
    assert tuple(words.texts[clip.clip_id] for clip in CLIPS) == case.said
    assert not words.failures


@pytest.mark.parametrize(
    ("cells", "refused"),
    [
        ("m,5,10", ""),
        (",,", ""),
        ("m,0:01:05,0:01:10", "'m-1' is 5 s to 10 s, not 65 s to 70 s"),
        ("n,5,10", "'m-1' is of the film 'm', not 'n'"),
        ("m,6,11", "'m-1' is 5 s to 10 s, not 6 s to 11 s"),
    ],
)
def test_texts_of_other_clips_are_refused(cells, refused, tmp_path) -> None:
    path = tmp_path / "texts.csv"
    head = "clip_id,text,movie_id,start_s,end_s\n"
    path.write_text(f"{head}m-0,hello,m,0,5\nm-1,bye,{cells}\n")
    if refused:
        with pytest.raises(Mismatch, match=refused):
            words_of_clips(FILM, str(path))
        return
    texts = words_of_clips(FILM, str(path)).texts
    assert texts == {"m-0": "hello", "m-1": "bye"}
    path.write_text(f"{head}m-0,hello,m,0,5\nm-1,bye,m,0:05,0:10\n")
    with pytest.raises(FixInput, match="cannot be read"):
        words_of_clips(FILM, str(path))


def test_a_row_of_no_clip_is_not_left_out(tmp_path: Path) -> None:
    """In a sheet, cells that are merged have a value in the first one only."""
    path = tmp_path / "said.csv"
    path.write_text("clip_id,text\nm-0,tea\n,more tea\n", encoding="utf-8")
    with pytest.raises(FixInput) as caught:
        words_of_clips(FILM, str(path))
    (detail,) = caught.value.details
    assert detail.startswith(
        f"{path}:3: column 'clip_id': is empty, but required in each"
    )


WORDS = ["tea", "où", "No,", "it’s", "42", "-", "日本", "♪", "<i>so</i>"]
LINES = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
CUE = st.tuples(st.integers(0, 149), st.integers(0, 60), LINES)
SAID = st.lists(CUE, min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(said=SAID, ending=st.sampled_from([".srt", ".vtt"]))
def test_drawn_cues_say_the_same_in_every_format(tmp_path_factory, said, ending):
    folder = tmp_path_factory.mktemp("drawn")
    forms = {
        ".srt": "1\n0:00:{} --> 0:00:{}\n{}\n\n",
        ".vtt": "00:{} --> 00:{}\n{}\n\n",
    }
    lines = []
    for start, length, text in said:
        times = [f"{tenths / 10:06.3f}" for tenths in (start, start + length)]
        line = forms[ending].format(*times, text)
        lines.append(line.replace(".", ",") if ending == ".srt" else line)
    head = VTT if ending == ".vtt" else ""
    (folder / f"m{ending}").write_text(head + "".join(lines), encoding="utf-8")
    expected = []
    for clip in range(3):
        parts = []
        for start, length, words in said:
            begins, ends, first, last = start, start + length, 50 * clip, 50 * clip + 50
            words = words.replace("<i>so</i>", "so").replace("♪", " ")
            has_words = any(map(str.isalnum, words))
            overlaps = begins < last and (ends > first or begins == ends == first)
            if has_words and overlaps:
                parts += words.split()
        expected.append(sorted(parts))
    if not any(expected):
        with pytest.raises(ObygazeError, match="no clip has any words"):
            words_of_clips(FILM, str(folder))
        return
    texts = words_of_clips(FILM, str(folder)).texts
    assert [sorted(texts[clip.clip_id].split()) for clip in CLIPS] == expected


@pytest.mark.parametrize("time", ["9" * 5000, "1e999", "0:00:01." + "1" * 5000])
def test_a_time_with_more_digits_than_a_number_is_refused(time, tmp_path) -> None:
    table = tmp_path / "texts.csv"
    table.write_text(f"clip_id,text,start_s,end_s\nm-0,Tea,0,{time}\n", "utf-8")
    with pytest.raises(FixInput, match="texts of the clips cannot be read"):
        words_of_clips(FILM, str(table))


@pytest.mark.timeout(60)
def test_tags_that_are_never_closed_take_no_hours(tmp_path: Path) -> None:
    text = f"{VTT}00:01.000 --> 00:02.000\n{'<v ' * 300_000}Tea\n"
    (tmp_path / "m.vtt").write_text(text, "utf-8")
    assert words_of_clips(FILM, str(tmp_path)).texts["m-0"].endswith("Tea")
