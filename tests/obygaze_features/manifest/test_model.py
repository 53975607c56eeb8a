from dataclasses import replace
from typing import Any

import pytest

from obygaze_features.core.errors import FixInput, FixUsage, NotFound, ObygazeError
from obygaze_features.manifest.io import check_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest

HEADER = Header(
    "films", {"Look": "visual", "Speech": "speech"}, citation="A & B <2024>"
)
TIMES = {"video": "a.mp4", "start_s": 0.0, "end_s": 2.5}
BOTH = {"level": "S", "concepts": ("Look", "Speech")}
SPEECH = {"level": "HN", "concepts": ("Speech",)}
CLIPS = (
    Clip("tt1-001", "tt1", 1, **TIMES, **BOTH, extra={"fold:k": "0", "n": "x"}),
    Clip("tt1-002", "tt1", None, **SPEECH, extra={"fold:k": "", "n": ""}),
    Clip("tt2-001", "tt2", 7, extra={"fold:k": "1", "n": ""}),
)
MANIFEST = Manifest("films", HEADER, CLIPS, ("fold:k", "n"))


def test_an_unknown_id_is_a_key_error_that_suggests_a_near_one() -> None:
    with pytest.raises(KeyError) as caught:
        MANIFEST["tt1-01"]
    assert isinstance(caught.value, NotFound) and isinstance(caught.value, ObygazeError)
    assert str(caught.value) == (
        "no clip 'tt1-01' (did you mean 'tt1-001'?)\n  in: films\n"
        "  Try: use one of tt1-001, tt1-002, tt2-001"
    )
    with pytest.raises(NotFound, match="no clip 0"):
        MANIFEST[0]  # type: ignore[index]
    with pytest.raises(NotFound, match="it has no clip"):
        MANIFEST.with_clips(())["a"]


def test_a_new_column_is_of_known_clips_has_a_name_of_its_own_and_texts() -> None:
    """`level` is a field of a clip, and the NaN of pandas would be the word `nan`."""
    for column, clip_id in (("level", "tt1-001"), ("mood", "tt9-001")):
        with pytest.raises((FixUsage, NotFound)):
            MANIFEST.with_column(column, {clip_id: "S"})
    nan: Any = float("nan")
    with_nan = [replace(CLIPS[0], extra={"mood": nan})]
    for make in (
        lambda: MANIFEST.with_column("mood", {"tt1-001": nan}),
        lambda: check_manifest(Manifest("m", HEADER, with_nan, ("mood",))),
    ):
        with pytest.raises(FixInput, match="expected text in the column 'mood'"):
            make()


def test_a_data_frame_has_typed_columns() -> None:
    frame = MANIFEST.to_frame()
    assert list(frame.index) == ["tt1-001", "tt1-002", "tt2-001"]
    facts = ["movie_id", "scene", "video", "start_s", "end_s", "level", "concepts"]
    assert list(frame.columns) == [*facts, "fold:k", "n"]
    assert frame["concepts"].tolist() == ["Look|Speech", "Speech", ""]
    assert frame["scene"].isna().tolist() == [False, True, False]
    assert frame["fold:k"].dropna().tolist() == [0, 1]
    assert str(frame["scene"].dtype) == str(frame["fold:k"].dtype) == "Int64"
    assert frame["end_s"].dtype == float and frame["end_s"].iloc[0] == 2.5
    assert len(MANIFEST.with_clips(()).to_frame()) == 0
