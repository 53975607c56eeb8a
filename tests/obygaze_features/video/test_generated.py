from pathlib import Path

import pytest
from support.generated_videos import CODECS, Case, Tally, compare, draw, make
from support.seeds import amount

from obygaze_features.video import film

# Kinds of files that once gave wrong pictures without a mark, or an error that was none of ours.
FAILED = [
    # What is decoded before the first key frame was not marked.
    "flv1 no-b flv uneven after-key none",
    "wmv2 no-b avi 25 after-key negative",
    "ffv1 keys avi 25 before-key none",
    # B pictures that are shown before the first key frame, but stored after it.
    "mpeg4 b mkv ntsc before-key none",
    # Films that begin at a key frame of an open group; Matroska has no times below 0.
    "hevc open mkv 25 key at-zero",
    "hevc open ts 25 key late",
    "h264 open mkv 25 key at-zero",
    "mpeg2 open ts 25 key none",
    # Intra refresh: a recovery point is not a key frame.
    "h264 refresh flv ntsc end at-zero",
    "h264 refresh mkv 25 before-key truncated",
    "h264 refresh mp4 uneven key none",
    # No packet is flagged as a key frame, although the first one is.
    "h264 refresh avi uneven whole none",
    # Reading after seeking fails in the library.
    "h264 pyramid nut ntsc after-key none",
    # Recordings that were joined: the first pictures of the second build on others.
    "mpeg1 open mpg uneven before-key twice",
    "mpeg2 no-b mpg 25 after-key twice",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cases of one codec and group are copies of one encoded film, which stays there."""
    return tmp_path_factory.mktemp("generated")


@pytest.mark.parametrize(("number", "name"), [*enumerate(FAILED)])
def test_kinds_that_were_wrong(number, name, folder, monkeypatch) -> None:
    """Every second film is read again from the disk, by a kept index."""
    is_read_again = number % 2 == 1
    if is_read_again:
        monkeypatch.setattr(film, "KEEP_BYTES", 0)
    monkeypatch.setattr(film, "_FILMS", {})
    case = Case(*name.split())
    path = make(case, folder)
    assert path is not None
    tally = Tally()
    compare(case, path, folder / "indexes" if is_read_again else None, tally)
    assert tally.wrong == []
    assert tally.n_right + tally.n_marked + tally.refused.total() > 0


@pytest.mark.check("many files")
@pytest.mark.parametrize("codec", CODECS)
def test_the_exact_picture_or_a_reason(codec, folder, monkeypatch) -> None:
    tally = Tally()
    cases = [case for case in draw(200, seed=38) if case.codec == codec]
    cases = cases[: amount(2, 200)]
    for number, case in enumerate(cases):
        # Every third film is read again from the disk, every second from a kept index.
        monkeypatch.setattr(film, "KEEP_BYTES", 0 if number % 3 == 0 else 2**28)
        monkeypatch.setattr(film, "_FILMS", {})
        path = make(case, folder)
        if path is None:
            continue
        indexes = folder / "indexes" if number % 2 else None
        compare(case, path, indexes, tally)
    assert tally.wrong == []
    assert tally.n_files > len(cases) / 2 and tally.n_right > 10 * tally.n_files
