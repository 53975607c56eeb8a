"""Which clips share the index of their film, and when the next film's index is made."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from support.videos import write_video

from obygaze_features.core.files import quick_sha256
from obygaze_features.extraction.clips import PlannedClip, RowJob, ViewedClip
from obygaze_features.extraction.decoding import RowDecoder
from obygaze_features.manifest.windows import Grid
from obygaze_features.video import DecodeJob, DecodePool, PictureView
from obygaze_features.video.container import BadVideo
from obygaze_features.video.worker import DecodeResult

CLIPS = (
    PlannedClip("a-1", "a", "a.avi", 0.0, 5.0),
    PlannedClip("a-2", "a", "a.avi", 5.0, None),
    PlannedClip("b-1", "b", "b.mp4"),
    PlannedClip("b-2", "b", ""),
    PlannedClip("c-1", "c", "c.ts", 0.0, 5.0),
    PlannedClip("d-1", "d", "d.mkv", 0.0, 5.0),
    PlannedClip("d-2", "d", "d.mkv", 9.0, 10.0),
)


NO_FILE = BadVideo("no such file", path="a", reason="missing")


class RecordingPool:
    """Record jobs in the order in which a pool gets them; each is done at once."""

    def __init__(self) -> None:
        self.jobs: list[DecodeJob] = []

    def submit(self, job: DecodeJob) -> Future[DecodeResult]:
        self.jobs.append(job)
        done: Future[DecodeResult] = Future()
        done.set_result(DecodeResult(job, {}, NO_FILE))
        return done


def test_clips_of_one_film_share_its_index() -> None:
    pool: Any = RecordingPool()
    jobs = [RowJob(row, (PictureView(4),)) for row in range(len(CLIPS))]
    settings: dict[str, Any] = {"most_clips": 2, "most_bytes": 10**9}
    decoder = RowDecoder(CLIPS, pool, indexes="indexes", **settings)
    rows = list(decoder.rows(jobs))
    assert [decoded.row for decoded in rows] == list(range(len(CLIPS)))
    # The index of the next film is made beside the clips of the film before it.
    assert [(job.path, len(job.views), job.indexes) for job in pool.jobs] == [
        ("a.avi", 1, "indexes"),
        ("d.mkv", 0, "indexes"),
        ("a.avi", 1, "indexes"),
        ("b.mp4", 1, None),
        ("c.ts", 1, None),
        ("d.mkv", 1, "indexes"),
        ("d.mkv", 1, "indexes"),
    ]


@pytest.mark.parametrize(("most_clips", "most_bytes"), [(3, 10**9), (100, 1)])
def test_no_more_is_decoded_ahead_than_may_wait(
    most_clips: int, most_bytes: int
) -> None:
    """Three clips, or one whatever its size is."""
    pool: Any = RecordingPool()
    most = 1 if most_bytes == 1 else most_clips
    clips = [PlannedClip(f"c-{n}", "c", f"{n}.mp4") for n in range(9)]
    jobs = (RowJob(row, (PictureView(4),)) for row in range(9))
    decoder = RowDecoder(clips, pool, most_clips, most_bytes, indexes="")
    for n_taken, _ in enumerate(decoder.rows(jobs), start=1):
        assert len(pool.jobs) <= n_taken + most


@pytest.mark.parametrize("are_windows", [False, True])
def test_a_video_that_is_replaced_after_it_was_decoded_is_recorded_as_it_was(
    tmp_path: Path, are_windows: bool
) -> None:
    """Features of the old film were recorded as those of the new one, so nobody saw the change."""
    film = tmp_path / "film.mp4"
    new_film = tmp_path / "new.mp4"
    write_video(film, numbers=range(18), size=(64, 48))
    write_video(new_film, numbers=range(100, 140), size=(64, 48))
    before = quick_sha256(film)

    class ReplacedFilm(DecodePool):
        """Decode clips, then replace their film."""

        def submit(self, job: DecodeJob) -> Future[DecodeResult]:
            future = super().submit(job)
            future.result()
            if job.views and new_film.exists():
                new_film.replace(film)
            return future

    grid = Grid(8, 4) if are_windows else None
    window = 0 if are_windows else None
    clips = [PlannedClip("a-1", "a", str(film), window=window)]
    view = PictureView(4)
    with ReplacedFilm(1) as pool:
        indexes = str(tmp_path / "indexes")
        decoder = RowDecoder(clips, pool, 2, 10**9, indexes, grid=grid)
        (decoded,) = decoder.rows([RowJob(0, (view,))])
    assert isinstance(decoded.views[view], ViewedClip)
    assert quick_sha256(film) != before
    n_bytes, quick_hash = before
    assert decoded.source == (n_bytes, quick_hash[:16])


def test_clips_of_one_film_do_not_come_from_two_files(tmp_path: Path) -> None:
    """The film is replaced after its first clip; another film has clips before and after."""
    for name, first in (("a", 0), ("b", 50), ("new", 100)):
        write_video(
            tmp_path / f"{name}.mp4", numbers=range(first, first + 50), size=(64, 48)
        )
    clips = [
        PlannedClip(f"{name}-{n}", name, str(tmp_path / f"{name}.mp4"), n, n + 1)
        for n in range(2)
        for name in ("a", "b")
    ]
    view = PictureView(4)
    with DecodePool(1) as pool:
        decoder = RowDecoder(clips, pool, 1, 0, str(tmp_path / "indexes"))
        rows = decoder.rows(RowJob(row, (view,)) for row in range(4))
        first = next(rows)
        (tmp_path / "new.mp4").replace(tmp_path / "a.mp4")
        others = list(rows)
    assert isinstance(first.views[view], ViewedClip)
    reasons = [row.reasons for row in others]
    assert reasons[0] == reasons[2] == []
    assert reasons[1] == [
        "replaced: the video was changed while its clips were extracted"
    ]
