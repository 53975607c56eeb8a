"""A sweep decodes several clips of a film in one pass: all is as if each was decoded by itself."""

import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from support.decode_workers import decode_workers_as_they_are
from support.doubtful import INTACT_KINDS, change, draw_films, whole_film
from support.heard_films import noise, write_film
from support.seeds import SEED, amount
from support.video_kinds import KINDS
from support.videos import write_video
from support.written_stores import lasting_bytes

import obygaze as og
from obygaze_features.extraction import costs, extracting
from obygaze_features.extraction.clips import PlannedClip, RowJob
from obygaze_features.extraction.decoding import RowDecoder, choose_sweep_rows
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import layout
from obygaze_features.video import DecodeJob, DecodePool, PictureView
from obygaze_features.video.container import BadVideo
from obygaze_features.video.index import sample_indices
from obygaze_features.video.picture import PictureConverter
from obygaze_features.video.resize import Resize
from obygaze_features.video.worker import DecodeResult, decode_job, decode_sweep

__all__ = ["decode_workers_as_they_are"]

VIEWS = (PictureView(6), PictureView(4, "fps", Resize(48)))
Spans = Sequence[tuple[float, float]]


def facts_of(result: DecodeResult) -> list[object]:
    """All that a row may get of a result."""
    facts: list[object] = []
    for view in result.job.views:
        error = result.failures.get(view, result.error)
        if error is not None:
            facts.append((error.reason, error.message))
            continue
        assert isinstance(view, PictureView)
        clip = result.clips[view]
        arrays = (clip.pictures, clip.index, clip.time_s, clip.asked_s)
        marks = (clip.substituted, clip.mask)
        whole = (clip.total, clip.damaged, clip.is_incomplete, clip.remark)
        facts.append((*(one.tobytes() for one in (*arrays, *marks)), *whole))
    return [*facts, result.file_facts if result.error is None else None]


def marks_of(result: DecodeResult) -> list[object]:
    """The damage that a result reports."""
    marks: list[object] = []
    for view in result.job.views:
        error = result.failures.get(view, result.error)
        if error is not None:
            marks.append(error.reason)
            continue
        assert isinstance(view, PictureView)
        clip = result.clips[view]
        marks.append((clip.substituted.tolist(), clip.is_incomplete))
    return marks


def drawn_spans(draw: random.Random, length_s: float, n_spans: int = 8) -> Spans:
    """Spans that overlap, lie in each other, or end after the film, in any order."""
    spans = []
    for _ in range(n_spans):
        start_s = draw.uniform(0, length_s)
        spans.append((round(start_s, 3), round(start_s + draw.uniform(0.1, 2), 3)))
    return spans


def both_ways(
    path: Path, spans_s: Spans, indexes: Path
) -> tuple[list[DecodeResult], list[DecodeResult]]:
    """The results of single reads, and of a sweep; none if the sweep is refused."""
    job = DecodeJob(path, VIEWS, indexes=str(indexes), parts_s=spans_s)
    return list(map(decode_job, job.parts)), decode_sweep(job)


# Files whose index needs no decoding, and in which nothing is doubtful.
SWEPT = (
    *("mp4_h264_open_groups", "mkv_variable_rate", "mp4_edit_list"),
    "mkv_h264_short_groups",
)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_sweep_has_the_pictures_of_single_reads(kind: str, tmp_path: Path) -> None:
    made = KINDS[kind](tmp_path)
    spans_s = drawn_spans(random.Random(kind), len(made.numbers) / 25)
    single, swept = both_ways(made.path, spans_s, tmp_path / "indexes")
    if kind in SWEPT:
        assert swept
    for one, other in zip(single, swept, strict=bool(swept)):
        assert facts_of(other) == facts_of(one)


def check_damages(n_films: int, seed: int, folder: Path) -> tuple[int, int]:
    """Sweep films with drawn damage; return the number of sweeps, and of other garbage.

    Where the decoder reports nothing either way, wrong pictures may be other wrong pictures.
    """
    n_swept = 0
    n_garbage = 0
    wholes: dict[Any, Any] = {}
    for number, (case, how) in enumerate(draw_films(n_films, seed)):
        if case not in wholes:
            wholes[case] = whole_film(case, folder=folder)
        whole = wholes[case]
        if whole is None:
            continue
        path = folder / f"{number}-{how}.{case.container}"
        try:
            change(whole.path, path, how, seed * 1000 + number)
        except Exception:  # noqa: BLE001 - not every container takes every change
            continue
        spans_s = drawn_spans(random.Random(number), 2.3)
        single, swept = both_ways(path, spans_s, folder / f"indexes-{number}")
        n_swept += bool(swept)
        for one, other in zip(single, swept, strict=bool(swept)):
            assert marks_of(other) == marks_of(one), path.name
            is_other = facts_of(other) != facts_of(one)
            assert not (is_other and how in INTACT_KINDS), path.name
            n_garbage += is_other
        path.unlink()
    return n_swept, n_garbage


@pytest.mark.check("a search")
def test_a_sweep_finds_the_damage_of_single_reads(tmp_path: Path) -> None:
    n_films = amount(40, 500)
    n_swept, n_garbage = check_damages(n_films, SEED, tmp_path)
    # Most damage is found; then each clip is read by itself.
    assert 0 < n_swept < n_films
    assert n_garbage <= n_films // 50


def test_each_picture_is_converted_once(tmp_path: Path, monkeypatch) -> None:
    """Of clips of 2 s, each second, at 25 pictures a second."""
    path = write_video(tmp_path / "a.mp4", numbers=range(250), options={"g": "250"})
    converted: list[int] = []
    convert = PictureConverter.convert

    def counted(self: PictureConverter, frame: Any) -> Any:
        converted.append(frame.pts)
        return convert(self, frame)

    monkeypatch.setattr(PictureConverter, "convert", counted)
    spans_s = [(float(n), n + 2.0) for n in range(9)]
    job = DecodeJob(path, (PictureView(16),), parts_s=spans_s)
    assert len(decode_sweep(job)) == 9
    wanted = {25 * n + int(i * 50 / 16) for n in range(9) for i in range(16)}
    assert len(converted) == len(wanted)
    assert sample_indices(50, 16).tolist() == [int(i * 50 / 16) for i in range(16)]


# ---- which clips share a sweep -------------------------------------------------------------------


class RecordingPool:
    """Record jobs; each is done at once."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.jobs: list[DecodeJob] = []

    def submit(self, job: DecodeJob) -> Future[DecodeResult]:
        self.jobs.append(job)
        error = BadVideo("no such file", path="a", reason="missing")
        result = DecodeResult(job, {}, error)
        if job.parts_s:
            parts = [DecodeResult(part, {}, error) for part in job.parts]
            result = DecodeResult(job, {}, parts=parts)
        done: Future[DecodeResult] = Future()
        done.set_result(result)
        return done


def jobs_of(
    clips: Sequence[PlannedClip],
    *,
    sweep_rows: int = 16,
    workers: int = 2,
    most_bytes: int = 10**11,
    n_taken: int | None = None,
) -> list[DecodeJob]:
    pool: Any = RecordingPool(workers)
    decoder = RowDecoder(clips, pool, 4, most_bytes, "", sweep_rows=sweep_rows)
    rows = decoder.rows(RowJob(row, (PictureView(4),)) for row in range(len(clips)))
    taken = [one.row for one in islice(rows, n_taken)]
    assert taken == list(range(len(taken)))
    rows.close()
    return [job for job in pool.jobs if job.views]


def planned(spans_s: Spans, film: str = "a") -> list[PlannedClip]:
    return [
        PlannedClip(f"{film}-{n}", film, f"{film}.mp4", *span_s)
        for n, span_s in enumerate(spans_s)
    ]


def test_clips_that_are_near_each_other_share_a_sweep() -> None:
    spans_s = [(30.0, 34.0), (0.0, 20.0), (5.0, 6.0), (29.9, 31.0), (44.0, 45.0)]
    clips = [*planned(spans_s), *planned([(0.0, 1.0)], "b")]
    whole_film = PlannedClip("b-9", "b", "b.mp4")
    first, last, other, whole = jobs_of([*clips, whole_film])
    # 29.9 s is less than ten seconds after 20 s, 44 s is ten seconds after 34 s.
    near = [(0.0, 20.0), (5.0, 6.0), (29.9, 31.0), (30.0, 34.0)]
    assert list(first.parts_s) == near
    for job, span_s in (
        (last, (44.0, 45.0)),
        (other, (0.0, 1.0)),
        (whole, (None,) * 2),
    ):
        assert (job.start_s, job.end_s, job.parts_s) == (*span_s, ())


def test_a_sweep_is_inside_its_rows_and_its_memory() -> None:
    spans_s = [(float(n), n + 2.0) for n in range(40)]
    jobs = jobs_of(planned(spans_s))
    assert [len(job.parts_s) for job in jobs] == [16, 16, 8]
    # A clip has four pictures of 1080 x 1920; a sixteenth of the memory is for three.
    three = 16 * 3 * 4 * 1080 * 1920 * 3
    sizes = [len(job.parts_s) for job in jobs_of(planned(spans_s), most_bytes=three)]
    assert sizes == [3, 3, 3, 3, 3, 0, 3, 3, 3, 3, 3, 0, 3, 3, 2]
    assert {job.parts_s for job in jobs_of(planned(spans_s), most_bytes=1)} == {()}


def test_all_workers_have_a_sweep() -> None:
    spans_s = [(float(n), n + 2.0) for n in range(40)]
    for workers, expected in ((1, 16), (2, 16), (8, 4), (40, 1), (64, 1)):
        assert choose_sweep_rows(16, 40, workers) == expected
    assert choose_sweep_rows(4, 1000, 2) == 4
    assert choose_sweep_rows(64, 1000, 2) == 16
    # Before the first row is taken, each worker has a sweep, and one waits.
    begun = jobs_of(planned(spans_s), sweep_rows=4, workers=8, n_taken=1)
    assert [len(job.parts_s) for job in begun] == [4] * 9


# ---- stores --------------------------------------------------------------------------------------

FILM_S = 22


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Clips of 2 s each second of two films with sound, and one that ends after its film."""
    folder = tmp_path_factory.mktemp("films")
    clips = []
    for seed, film in enumerate(("brug", "cirk")):
        write_film(folder / f"{film}.mkv", FILM_S, noise(FILM_S, seed, 0.2), seed=seed)
        for second in range(FILM_S - 10 * seed):
            ids = f"{film}-{second:02d}", film, second, f"{film}.mkv"
            clips.append(Clip(*ids, float(second), second + 2.0))
    header = Header("Films", {}, video_root=str(folder), licence="CC0-1.0")
    return Manifest("films", header, tuple(clips))


PICTURES = ("descriptors", "frames:descriptors")
SOUND = "sound-descriptors"


def stores_of(
    films: Manifest,
    folder: Path,
    monkeypatch: Any,
    *,
    is_swept: bool,
    backbones: Sequence[str] = (*PICTURES, SOUND),
) -> Mapping[str, object]:
    """Extract in one pass, with sweeps or without; return all files of the stores."""
    with monkeypatch.context() as patch:
        if not is_swept:
            patch.setattr(extracting, "choose_sweep_rows", lambda *_: 1)
        og.extract(films, backbones, workspace=folder, workers=2)
    paths = sorted((folder / "stores").iterdir())
    assert len(paths) == len(backbones)
    return {path.name: lasting_bytes(path) for path in paths}


def with_other_order(films: Manifest) -> Manifest:
    draw = random.Random(SEED)
    scenes = list(range(len(films)))
    draw.shuffle(scenes)
    clips = [
        replace(clip, scene=scene) for clip, scene in zip(films, scenes, strict=True)
    ]
    return films.with_clips(clips)


# Blocks smaller and larger than a sweep; the run that is killed has those of 16 clips.
@pytest.mark.parametrize("block, is_shuffled", [(4, False), (32, True)])
def test_stores_have_the_bytes_of_single_reads(
    films: Manifest, tmp_path: Path, monkeypatch: Any, block: int, is_shuffled: bool
) -> None:
    monkeypatch.setattr(layout, "CLIPS_OF_A_BLOCK", block)
    manifest = with_other_order(films) if is_shuffled else films
    single = stores_of(manifest, tmp_path / "single", monkeypatch, is_swept=False)
    swept = stores_of(manifest, tmp_path / "swept", monkeypatch, is_swept=True)
    assert swept == single


def test_sound_alone_has_the_bytes_of_single_reads(
    films: Manifest, tmp_path: Path, monkeypatch: Any
) -> None:
    single, swept = (
        stores_of(
            films, tmp_path / name, monkeypatch, is_swept=is_swept, backbones=[SOUND]
        )
        for name, is_swept in (("single", False), ("swept", True))
    )
    assert swept == single


# Kill a run, with its workers, at its 20th row: the fourth one of its second sweep.
KILLED_RUN = """\
import os
import signal
import sys

import obygaze as og
from obygaze_features.extraction.decoding import RowDecoder

row_of = RowDecoder._row
rows = []


def row_or_kill(decoder, job, result):
    rows.append(job.row)
    if len(rows) == 20:
        os.killpg(0, signal.SIGKILL)
    return row_of(decoder, job, result)


RowDecoder._row = row_or_kill
og.extract("films", sys.argv[2:], workspace=sys.argv[1], workers=2)
"""


def test_a_run_that_is_killed_in_a_sweep_goes_on_to_the_bytes_of_single_reads(
    films: Manifest, tmp_path: Path, monkeypatch: Any
) -> None:
    backbones = (*PICTURES, SOUND)
    killed = tmp_path / "killed"
    write_manifest(films, killed / "manifests" / "films.toml")
    command = [sys.executable, "-c", KILLED_RUN, str(killed), *backbones]
    done = subprocess.run(
        command, start_new_session=True, capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert not list((killed / "stores").glob("*/store.json"))
    resumed = stores_of(films, killed, monkeypatch, is_swept=True)
    single = stores_of(films, tmp_path / "single", monkeypatch, is_swept=False)
    assert resumed == single


def test_the_plan_times_the_clips_of_a_sweep(
    films: Manifest, tmp_path: Path, monkeypatch: Any
) -> None:
    jobs: list[DecodeJob] = []

    class ListingPool(DecodePool):
        """List the jobs."""

        def submit(self, job: DecodeJob) -> Future[DecodeResult]:
            jobs.append(job)
            return super().submit(job)

    monkeypatch.setattr(costs, "DecodePool", ListingPool)
    cost = costs.plan_extraction(films, "descriptors", workspace=tmp_path, workers=2)
    assert cost.decode_s is not None
    # The twelfth clip of 22 is in the first block of 16 clips.
    alone, together = [job for job in jobs if job.views]
    assert (alone.start_s, alone.end_s, alone.parts_s) == (11.0, 13.0, ())
    assert list(together.parts_s) == [(float(n), n + 2.0) for n in range(16)]


@pytest.fixture
def film_of_numbers(tmp_path: Path) -> Path:
    return write_video(tmp_path / "a.mp4", numbers=range(100), options={"g": "100"})


def test_a_worker_that_is_killed_in_a_sweep_changes_nothing(film_of_numbers) -> None:
    spans_s = [(0.0, 2.0), (1.0, 3.0), (1.5, 1.7)]
    job = DecodeJob(film_of_numbers, VIEWS, parts_s=spans_s)

    class KillingPool(DecodePool):
        """Kill the worker of each sweep."""

        n_killed = 0

        def _result(self, worker: Any, job: DecodeJob) -> DecodeResult:
            if job.parts_s:
                worker.process.kill()
                worker.process.wait()
                self.n_killed += 1
            return super()._result(worker, job)

    with KillingPool(1) as pool:
        result = pool.submit(job).result()
        assert pool.n_killed == 2
    expected = [facts_of(decode_job(part)) for part in job.parts]
    assert [facts_of(part) for part in result.parts] == expected


def test_a_sweep_that_exceeds_the_time_limit_is_read_clip_by_clip(film_of_numbers):
    job = DecodeJob(film_of_numbers, VIEWS, parts_s=[(0.0, 2.0), (1.0, 3.0)])

    class LatePool(DecodePool):
        """Every sweep is late."""

        def _result(self, worker: Any, job: DecodeJob) -> DecodeResult:
            if job.parts_s:
                raise TimeoutError
            return super()._result(worker, job)

    with LatePool(1) as pool:
        result = pool.submit(job).result()
    expected = [facts_of(decode_job(part)) for part in job.parts]
    assert [facts_of(part) for part in result.parts] == expected


def test_the_time_limit_begins_again_with_each_clip_of_a_sweep(film_of_numbers) -> None:
    reports: list[None] = []
    spans_s = [(0.0, 1.0), (0.5, 2.0), (3.0, 4.0)]
    job = DecodeJob(film_of_numbers, (PictureView(4),), parts_s=spans_s)
    assert decode_sweep(job, progress=lambda: reports.append(None))
    one = DecodeJob(film_of_numbers, (PictureView(4),), parts_s=spans_s[:1])
    n_of_three = len(reports)
    reports.clear()
    assert decode_sweep(one, progress=lambda: reports.append(None))
    # All else is equal: the index of the film was made anew each time.
    assert n_of_three - len(reports) == 2


def test_a_film_that_is_replaced_is_read_clip_by_clip(
    film_of_numbers: Path, monkeypatch: Any
) -> None:
    job = DecodeJob(film_of_numbers, VIEWS, parts_s=[(0.0, 2.0), (1.0, 3.0)])
    facts: Iterator[tuple[int, str]] = iter([(1, "a"), (1, "a"), (2, "b")])
    name = "obygaze_features.video.worker.file_facts"
    monkeypatch.setattr(name, lambda path: next(facts))
    assert decode_sweep(job) == []


def test_an_error_of_a_film_is_that_of_single_reads(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"no film")
    job = DecodeJob(tmp_path / "a.mp4", VIEWS, parts_s=[(0.0, 2.0), (1.0, 3.0)])
    assert decode_sweep(job) == []
    with DecodePool(1) as pool:
        result = pool.submit(job).result()
    expected = [facts_of(decode_job(part)) for part in job.parts]
    assert [facts_of(part) for part in result.parts] == expected
