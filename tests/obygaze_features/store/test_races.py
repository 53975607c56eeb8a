import multiprocessing
import os
import random
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from support import paused_push
from support.seeds import SEED, amount
from support.servers import wait_until
from support.store_servers import s3_server
from support.stores import sealed_store
from support.written_stores import files_of

from obygaze_features.store.reading import open_store
from obygaze_features.store.targets import open_target
from obygaze_features.store.verifying import verify
from obygaze_models.models.linear import LogisticProbe
from obygaze_models.zoo.info import FeatureSpec, ModelInfo, TrainingData
from obygaze_models.zoo.saving import save_model
from obygaze_models.zoo.sharing import pull_model

pytestmark = pytest.mark.check("pushes in processes of their own")

pytest.importorskip("obstore")
N_RACES = amount(1, 40)
# Their imports are done once.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["support.paused_push"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with s3_server(tmp_path_factory.mktemp("moto")) as environment:
        yield environment


@pytest.fixture
def bucket(server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    boto3 = pytest.importorskip("boto3")
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    made = boto3.resource("s3", endpoint_url=server["AWS_ENDPOINT_URL"]).Bucket("films")
    made.create()
    return "s3://films"


class Push:
    """A push in a process of its own, which stops itself before a step."""

    def __init__(self, source: Path, target: str, stop_at: int = 0) -> None:
        self.log = source.parent / f"{len(list(source.parent.glob('*.log')))}.log"
        self.log.touch()
        variables = {k: v for k, v in os.environ.items() if k.startswith("AWS_")}
        given = (str(source), target, stop_at, str(self.log), variables)
        self.process = PROCESSES.Process(target=paused_push.main, args=given)
        self.process.start()

    def __repr__(self) -> str:
        return f"{self.code} {self.text}"

    def is_stopped(self) -> bool:
        if not self.process.is_alive():
            return True
        stat = Path(f"/proc/{self.process.pid}/stat").read_text("ascii")
        return stat.rpartition(")")[2].split()[0] == "T"

    def end(self) -> "Push":
        """Let it go on, and wait for its end."""
        if self.process.is_alive():
            os.kill(self.process.pid, signal.SIGCONT)
        self.process.join(120)
        self.code = self.process.exitcode
        n_steps, _, self.text = self.log.read_text("utf-8").partition(" ")
        self.n_steps = int(n_steps)
        return self


def race(first: Path, second: Path, target: str, stop_at: int) -> list[Push]:
    """Stop a push before a step; send another store meanwhile, then let the first one go on."""
    paused = Push(first, target, stop_at)
    wait_until(paused.is_stopped, "a push to stop itself", 120)
    other = Push(second, target).end()
    return [paused.end(), other]


def place_of(kind: str, bucket: str, folder: Path) -> str:
    """The address of a folder, or of one of this name in the bucket."""
    if kind == "folder":
        return str(folder)
    return f"{bucket}/{folder.parent.name}/{folder.name}"


# How many steps a push has, by what is pushed and where.
N_STEPS: dict[tuple[str, str], int] = {}


def drawn_race(
    kind: str, bucket: str, sources: Sequence[Path], number: int
) -> tuple[str, list[Push]]:
    """Race for a place of its own, with the first push stopped before a step that is drawn."""
    folder = sources[0].parent
    key = (kind, sources[0].name)
    if key not in N_STEPS:
        whole = place_of(kind, bucket, folder / "whole")
        N_STEPS[key] = Push(sources[0], whole).end().n_steps
    target = place_of(kind, bucket, folder / "raced")
    stop_at = random.Random(f"{SEED} {number}").randint(1, N_STEPS[key])
    return target, race(sources[0], sources[-1], target, stop_at)


in_each_place = pytest.mark.parametrize("kind", ["folder", "bucket"])
each_race = pytest.mark.parametrize("number", range(N_RACES))


def save_toy(folder: Path, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 4)).astype(np.float32)
    info = ModelInfo(
        name="toy",
        kind="logistic",
        task="EN_S",
        classes=("HN", "S"),
        features=FeatureSpec("toy", "clip", "float32", 4, "00" * 32),
        training=TrainingData("toy", "00" * 32, "raw", 20, 1),
    )
    y = np.arange(20) % 2
    return save_model(LogisticProbe().fit(X, y), info, folder, X)


@in_each_place
@each_race
def test_no_place_is_of_two_stores(kind, number, bucket, tmp_path) -> None:
    sources = [tmp_path / "one", tmp_path / "other"]
    for n_clips, source in zip((20, 12), sources, strict=True):
        sealed_store(source, n_clips)
    target, both = drawn_race(kind, bucket, sources, number)
    # One ends well, and what is there then is this store alone.
    codes = [pushed.code for pushed in both]
    assert sorted(codes) == [0, 1], both
    winner = sources[codes.index(0)]
    report = verify(target, hashes=True)
    assert report.problems == [] and report.warnings == [], both
    assert open_store(target).seal == open_store(winner).seal
    assert {*open_target(target).names()} == files_of(winner).keys()


@in_each_place
@each_race
def test_no_place_is_of_two_models(kind, number, bucket, tmp_path) -> None:
    sources = [save_toy(tmp_path / f"toy{seed}", seed) for seed in (0, 1)]
    target, both = drawn_race(kind, bucket, sources, number)
    codes = [pushed.code for pushed in both]
    assert sorted(codes) == [0, 1], both
    pull_model(target, tmp_path / "got" / "toy")
    assert files_of(tmp_path / "got" / "toy") == files_of(sources[codes.index(0)])


@in_each_place
@each_race
def test_the_same_store_is_pushed_twice_at_once(kind, number, bucket, tmp_path) -> None:
    sealed_store(tmp_path / "one", 20)
    target, both = drawn_race(kind, bucket, [tmp_path / "one"], number)
    assert [pushed.code for pushed in both] == [0, 0], both
    assert verify(target, hashes=True).problems == []
