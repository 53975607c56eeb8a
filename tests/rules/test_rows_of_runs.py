"""Rule (a) in extractions: a row has the numbers of its own film and times, from one file.

A run is stopped, and others follow. In between, the clips of the manifest get other times or files
of their own, the film is replaced, frames are kept. Pictures carry their number, so that each row
of a store says by itself which file it is of, and when; a refusal is no wrong number.
"""

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("av")

from hypothesis import given, settings
from hypothesis import strategies as st
from support.seeds import amount
from support.videos import read_number, write_video

import obygaze as og
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import file_facts
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import open_store

FPS = 25
N_CLIPS = 3
# The number of the first picture of each file: two versions of a film, and a file a clip.
FIRST = {"film-0": 0, "film-1": 200, "own-0": 400, "own-1": 500, "own-2": 600}
SEEN = "films.descriptors"
KEPT = "films.frames-16x256-nearest-squash"

# What clips are in a manifest: parts of the film, the same a little later, or files of their own.
FORMS = ("parts", "later", "own")
# Parts of files of their own.
OWN_PARTS = "own parts"
Step = tuple[str, str | bool]
# A run that stops, changes, and the same run again.
STOPPED: Sequence[Sequence[Step]] = ([("keep", True)], [("run", True)])
CHANGES = st.one_of(
    st.tuples(st.just("clips"), st.sampled_from(FORMS[1:])),
    st.tuples(st.just("film"), st.just("film-1")),
    st.tuples(st.just("keep"), st.just(False)),
)


def clips_of(form: str) -> tuple[Clip, ...]:
    if form == "own":
        return tuple(Clip(f"m-{n}", "m", n, f"own-{n}.mp4") for n in range(N_CLIPS))
    if form == OWN_PARTS:
        times = {"start_s": 0.2, "end_s": 1.2}
        return tuple(
            Clip(f"m-{n}", "m", n, f"own-{n}.mp4", **times) for n in range(N_CLIPS)
        )
    late_s = 0.4 if form == "later" else 0.0
    return tuple(
        Clip(f"m-{n}", "m", n, "film.mp4", start_s=n + late_s, end_s=n + late_s + 1)
        for n in range(N_CLIPS)
    )


class World:
    """A workspace; a step with True ends at its first row."""

    def __init__(self, folder: Path, videos: Path) -> None:
        self.folder = folder
        self.videos = folder / "videos"
        shutil.copytree(videos, self.videos)
        self.files = {}
        for path in videos.iterdir():
            facts = file_facts(path)
            assert facts is not None
            self.files[facts[1][:16]] = path.stem
        self.take("film", "film-0")
        self.take("clips", "parts")

    def take(self, what: str, value: str | bool) -> None:
        if what == "film":
            shutil.copyfile(self.videos / f"{value}.mp4", self.videos / "film.mp4")
        elif what == "clips":
            header = Header("Films", video_root=str(self.videos))
            self.manifest = Manifest("films", header, clips_of(str(value)))
        elif what == "keep":
            self.extract("frames:descriptors", stops=bool(value))
        else:
            self.extract("descriptors", "frames", stops=bool(value))

    def extract(self, backbone: str, *arrays: str, stops: bool) -> None:
        def watch(row: int, failed: bool) -> None:
            if stops:
                raise KeyboardInterrupt

        with suppress(ObygazeError, KeyboardInterrupt):
            og.extract(
                self.manifest,
                backbone,
                arrays=arrays,
                watch=watch,
                workers=1,
                workspace=self.folder,
            )

    def check(self) -> None:
        for name in (SEEN, KEPT):
            path = self.folder / "stores" / name
            if not (path / "store.json").exists():
                continue
            store = open_store(path)
            rows = [(n, row) for n, row in enumerate(store.rows) if row.is_ok]
            of_parts = {row.video_hash for _, row in rows if row.start_s is not None}
            assert len(of_parts) <= 1
            for number, row in rows:
                file = self.files[row.video_hash]
                expected = ("film-0", "film-1")
                if row.start_s is None:
                    expected = (f"own-{row.clip_id[-1]}",)
                assert file in expected
                start_s = row.start_s or 0.0
                assert store.read("time_s", [number])[0, 0] == pytest.approx(start_s)
                if name == KEPT:
                    (pictures,) = store.read("pictures", [number])
                    first = read_number(pictures[0])
                    assert first == FIRST[file] + round(start_s * FPS)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    for name, first in FIRST.items():
        n_pictures = 100 if name.startswith("film") else 40
        numbers = range(first, first + n_pictures)
        write_video(folder / f"{name}.mp4", numbers=numbers, size=(64, 48))
    return folder


def follow(steps: Sequence[Step], videos: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), videos)
        for step in steps:
            world.take(*step)
            world.check()


@pytest.mark.parametrize(
    "steps",
    [
        [("keep", True), ("clips", "own"), ("keep", False)],
        [("keep", True), ("clips", OWN_PARTS), ("keep", False)],
        [("run", True), ("clips", "later"), ("keep", False), ("run", False)],
    ],
    ids=["own files", "parts of own files", "kept frames"],
)
def test_a_run_that_goes_on_takes_no_other_clip(steps, videos) -> None:
    follow(steps, videos)


def test_a_film_that_is_replaced_after_the_plan_gives_no_row(videos, tmp_path) -> None:
    """A store has rows of a film; the film changes while a run of others goes on."""
    world = World(tmp_path / "world", videos)
    whole = world.manifest
    world.manifest = whole.with_clips(whole.clips[:-1])
    world.take("run", False)
    og.extract(
        whole,
        "descriptors",
        note=lambda _: world.take("film", "film-1"),
        workers=1,
        workspace=world.folder,
    )
    world.check()
    *_, last = open_store(world.folder / "stores" / SEEN).rows
    assert last.reason.startswith("replaced: ")


@pytest.mark.check("a run takes a second")
@given(st.sampled_from(STOPPED), st.lists(CHANGES, min_size=1, max_size=3))
@settings(max_examples=amount(8, 300), deadline=None)
def test_drawn_runs_take_no_other_clip(videos, stopped, changes) -> None:
    (name, _) = stopped[-1]
    follow([*stopped, *changes, (name, False)], videos)
