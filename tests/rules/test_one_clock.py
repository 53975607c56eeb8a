"""One clock: windows, clips, marks, cues and sound of one span are of that span.

Films whose pictures begin later than their sound, at several rates; the times of the pictures and
what is heard are written here, so that nothing is compared with itself.
"""

import csv
import random
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from support.cli import call_obygaze
from support.videos import numbered, read_numbers

from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.clips import RowJob, plan_clips
from obygaze_features.extraction.cut_films import make_windows
from obygaze_features.extraction.decoding import RowDecoder
from obygaze_features.extraction.subtitles import words_of_clips
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Header, Manifest
from obygaze_features.manifest.windows import Grid
from obygaze_features.video import DecodePool, PictureView, decode_clip
from obygaze_features.video.sound import SoundView

SPAN_S = 0.5
PICTURES_S = 4.0
# More than the pictures of a span: all are seen.
PICTURES = PictureView(48)
SOUND = SoundView(16000)
MARKED = 7


def times_of_pictures(late_s: float, rate: Fraction | None) -> list[float]:
    """When each picture is shown, in whole milliseconds; the rate varies where there is none."""
    late_ms = round(1000 * late_s)
    if rate is not None:
        n_pictures = int(PICTURES_S * rate)
        return [(late_ms + round(1000 * n / rate)) / 1000 for n in range(n_pictures)]
    gaps_ms = random.Random(86).choices([20, 33, 40, 41, 90], k=86)
    return [ms / 1000 for ms in accumulate(gaps_ms, initial=late_ms)]


def level_of(span: int) -> float:
    return 0.03 * (span + 1)


def write_film(path: Path, times_s: list[float], rate: Fraction) -> int:
    """Write a film whose sound begins with the file, each span at its level; return the spans."""
    n_spans = int((times_s[-1] + float(1 / rate) + 0.001) / SPAN_S)
    with av.open(str(path), "w") as out:
        video: Any = out.add_stream("libx264", rate=rate, options={"g": "12"})
        video.width, video.height, video.pix_fmt = 160, 120, "yuv420p"
        video.time_base = video.codec_context.time_base = Fraction(1, 1000)
        audio: Any = out.add_stream("flac", rate=SOUND.rate, layout="mono")
        packets = []
        for number, time_s in enumerate(times_s):
            picture = av.VideoFrame.from_ndarray(numbered(number), format="gray")
            frame = picture.reformat(format="yuv420p")
            frame.pts, frame.time_base = round(1000 * time_s), Fraction(1, 1000)
            packets += video.encode(frame)
        packets += video.encode()
        n_samples = round(SPAN_S * SOUND.rate)
        for span in range(n_spans + 1):
            level = np.full((1, n_samples), round(32768 * level_of(span)), np.int16)
            heard = av.AudioFrame.from_ndarray(level, format="s16", layout="mono")
            heard.rate, heard.pts = SOUND.rate, span * n_samples
            packets += audio.encode(heard)
        packets += audio.encode(None)
        for packet in sorted(packets, key=lambda one: one.dts * one.time_base):
            out.mux(packet)
    return n_spans


@pytest.mark.parametrize(
    ("rate", "late_s"), [(Fraction(30000, 1001), 3.0), (None, 0.2)]
)
def test_what_has_one_span_is_of_one_span(rate, late_s, tmp_path) -> None:
    folder = tmp_path / "films"
    folder.mkdir()
    times_s = times_of_pictures(late_s, rate)
    fps = rate or Fraction(25)
    n_spans = write_film(folder / "late.mkv", times_s, fps)
    # Spans without a picture are no windows.
    spans = range(int(late_s / SPAN_S), n_spans)
    starts_s = [SPAN_S * span for span in spans]
    workspace = Workspace(tmp_path)
    grid = Grid(seconds=SPAN_S, every=SPAN_S)
    cut, _ = make_windows(folder, grid, workspace=workspace, name="cut")
    ids = [f"late_{start:.3f}-{start + SPAN_S:.3f}" for start in starts_s]
    assert list(cut.clip_ids) == ids

    # Pictures and sound, of windows and of clips.
    indexes = str(workspace.folder("indexes"))
    video = str(folder / "late.mkv")
    jobs = [RowJob(row, (PICTURES, SOUND)) for row in range(len(spans))]
    with DecodePool(1) as pool:
        decoder = RowDecoder(plan_clips(cut), pool, 8, 10**9, indexes)
        results = [one.views for one in decoder.rows(jobs)]
    for span, start_s, result in zip(spans, starts_s, results, strict=True):
        end_s = start_s + SPAN_S
        shown = {n for n, time_s in enumerate(times_s) if start_s <= time_s < end_s}
        assert {*read_numbers(result[PICTURES].pictures)} == shown != set()
        clip = decode_clip(video, PICTURES, start_s=start_s, end_s=end_s)
        assert {*read_numbers(clip.pictures)} == shown
        samples = result[SOUND].heard.samples
        assert len(samples) == round(SPAN_S * SOUND.rate)
        np.testing.assert_allclose(samples, level_of(span), atol=1e-4)

    # Marks that are projected on the windows, in seconds and, at one rate, in frames.
    write_manifest(cut, tmp_path / "manifests" / "cut.toml")
    start_s, end_s = MARKED * SPAN_S, (MARKED + 1) * SPAN_S
    pictures = [n for n, time_s in enumerate(times_s) if start_s <= time_s < end_s]
    marked = ids[MARKED - spans[0]]
    cells_of_columns = {"start_s,end_s": f"{start_s},{end_s}"}
    if rate is not None:
        cells_of_columns["start_frame,end_frame"] = f"{pictures[0]},{pictures[-1]}"
    for columns, cells in cells_of_columns.items():
        (tmp_path / "marks.csv").write_text(
            f"clip_id,movie_id,annotator,{columns},level,framerate\n"
            f"late-1,late,ada,{cells},S,{float(fps):.5g}\n"
        )
        words = ("marks.csv", "-o", "marks", "--force")
        call_obygaze("manifest", "import", *words, cwd=tmp_path).ok()
        words = ("marks", "--clips", "cut", "-o", "levels", "--force")
        call_obygaze("marks", "clips", *words, cwd=tmp_path).ok()
        with (tmp_path / "manifests/levels.csv").open(encoding="utf-8") as stream:
            levels = {row["clip_id"]: row["level"] for row in csv.DictReader(stream)}
        assert levels == {one: "S" if one == marked else "EN" for one in ids}

    # What is said.
    (tmp_path / "said").mkdir()
    cues = [
        f"{span}\n{clock(start + 0.1)} --> {clock(start + 0.4)}\nword{span}\n"
        for span, start in enumerate(starts_s)
    ]
    (tmp_path / "said" / "late.srt").write_text("\n".join(cues), encoding="utf-8")
    header = Header("clips", video_root=str(folder))
    clips = Manifest("clips", header, tuple(cut))
    said = words_of_clips(clips, str(tmp_path / "said"))
    assert said.texts == {one: f"word{span}" for span, one in enumerate(ids)}


def clock(time_s: float) -> str:
    return f"00:00:{int(time_s):02d},{round(1000 * (time_s % 1)):03d}"
