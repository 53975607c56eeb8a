from concurrent.futures import Future
from typing import Any

import pytest
from support.videos import write_video

from obygaze_features.core.files import quick_sha256
from obygaze_features.extraction.clips import PlannedClip, RowJob, ViewedClip
from obygaze_features.extraction.decoding import RowDecoder
from obygaze_features.video import DecodeJob, DecodePool, PictureView
from obygaze_features.video.container import BadVideo
from obygaze_features.video.worker import DecodeResult

NO_FILE = BadVideo("no such file", path="a", reason="missing")


class RecordingPool:
    """Record jobs in the order in which a pool gets them; each is done at once."""

    workers = 1

    def __init__(self) -> None:
        self.jobs: list[DecodeJob] = []

    def submit(self, job: DecodeJob) -> Future[DecodeResult]:
        self.jobs.append(job)
        done: Future[DecodeResult] = Future()
        done.set_result(DecodeResult(job, {}, NO_FILE))
        return done


@pytest.mark.parametrize(("most_clips", "most_bytes"), [(3, 10**9), (100, 1)])
def test_no_more_is_decoded_ahead_than_may_wait(most_clips, most_bytes) -> None:
    """Three clips, or one whatever its size is."""
    pool: Any = RecordingPool()
    most = 1 if most_bytes == 1 else most_clips
    clips = [PlannedClip(f"c-{n}", "c", f"{n}.mp4") for n in range(9)]
    jobs = (RowJob(row, (PictureView(4),)) for row in range(9))
    decoder = RowDecoder(clips, pool, most_clips, most_bytes, indexes="")
    for n_taken, _ in enumerate(decoder.rows(jobs), start=1):
        assert len(pool.jobs) <= n_taken + most


def test_a_video_that_is_replaced_once_decoded_is_recorded_as_it_was(tmp_path):
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

    clips = [PlannedClip("a-1", "a", str(film))]
    view = PictureView(4)
    with ReplacedFilm(1) as pool:
        indexes = str(tmp_path / "indexes")
        decoder = RowDecoder(clips, pool, 2, 10**9, indexes)
        (decoded,) = decoder.rows([RowJob(0, (view,))])
    assert isinstance(decoded.views[view], ViewedClip)
    assert quick_sha256(film) != before
    n_bytes, quick_hash = before
    assert decoded.source == (n_bytes, quick_hash[:16])
