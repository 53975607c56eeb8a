import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.filled_stores import next_block
from support.seeds import SEED, amount
from support.written_stores import MANIFEST, ArraySource, a_recipe, check_all, files_of

from obygaze_features.core.errors import AlreadyThere, Mismatch
from obygaze_features.store.changing import merge, subset
from obygaze_features.store.copying import pull, push
from obygaze_features.store.filling import plan_filling
from obygaze_features.store.layout import Array
from obygaze_features.store.making import write_store
from obygaze_features.store.reading import open_store
from obygaze_features.store.records import ComputeSetup, Maker
from obygaze_features.store.rows import FAILED, OK, Row
from obygaze_features.store.sealing import seal

KIND = ComputeSetup("cpu", "float32")
VERSIONS = ("2.8", "2.9", "2.10")
# Files of a block of 16, with one chunk and several.
ARRAYS = (
    Array("pooled", "float32", (4,), ("d4",), 4, 16),
    Array("frames", "float32", (2, 4), ("t2", "d4"), 1, 16),
    Array("tokens", "float32", (3, 4), ("p3", "d4"), 16, 16),
)
STEPS = ("add_clips", "retry", "leave_out", "merge", "subset", "push", "pull")


@dataclass(frozen=True)
class Clip:
    """A row of the model: its numbers, or why it has none."""

    film: str
    status: str
    values: dict[str, np.ndarray] = field(default_factory=dict)

    def row(self, name: str) -> Row:
        reason = "" if self.status == OK else "no picture"
        return Row(name, self.film, status=self.status, reason=reason)


@dataclass(frozen=True)
class Model:
    """A store: its clips in their order, and the versions of torch that made its rows."""

    clips: dict[str, Clip]
    made_by: frozenset[str]

    def select(self, holds: Callable[[Clip], bool]) -> "Model":
        clips = {name: clip for name, clip in self.clips.items() if holds(clip)}
        return replace(self, clips=clips)


def maker_of(version: str) -> Maker:
    return Maker("p 1", "cpu", "a cpu", "float32", {"torch": version})


class History:
    """A workspace with one store that changes, a shared copy and a pulled copy of it."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.version = VERSIONS[0]
        self.n_names = 0
        self.arrays = self.random.choice([ARRAYS[:2], ARRAYS])
        self.path = self.new_path()
        self.model = self.new_model(self.random.randint(1, 40))
        self.write(self.path, self.model)

    def new_path(self) -> Path:
        self.n_names += 1
        return self.root / f"store-{self.n_names}"

    def new_model(self, n_clips: int) -> Model:
        clips = {}
        for _ in range(n_clips):
            name = f"clip {self.numbers.integers(2**40)}"
            clips[name] = self.computed(f"film-{self.random.randint(0, 9)}")
        return Model(clips, frozenset([self.version]))

    def computed(self, film: str) -> Clip:
        if self.random.random() < 0.15:
            return Clip(film, FAILED)
        values = {}
        for array in self.arrays:
            numbers = self.numbers.standard_normal(array.shape)
            values[array.name] = numbers.astype("float32")
        return Clip(film, OK, values)

    def write(self, path: Path, model: Model) -> None:
        rows = [clip.row(name) for name, clip in model.clips.items()]
        values = {}
        for array in self.arrays:
            nothing = np.zeros(array.shape, "float32")
            clips = model.clips.values()
            of_clips = [clip.values.get(array.name, nothing) for clip in clips]
            values[array.name] = np.stack(of_clips)
        makers = [maker_of(version) for version in sorted(model.made_by)]
        given = {"recipe": a_recipe(), "manifest": MANIFEST, "makers": makers}
        write_store(path, ArraySource(rows, values), arrays=self.arrays, **given)

    # The steps.

    def fill(self, clips: dict[str, Clip], computed: set[str]) -> None:
        """Let a filling compute some clips, so that the store has these."""
        names = list(clips)
        filling = plan_filling(
            self.path,
            [Row(name, clip.film) for name, clip in clips.items()],
            arrays=self.arrays,
            recipe=a_recipe(),
            manifest=MANIFEST,
            kind=KIND,
            computed=[name in computed for name in names],
            replaces=open_store(self.path).seal,
        )
        start = self.random.randint(0, 5)
        while (block := next_block(filling, start)) is not None:
            writer = filling.begin(block, maker_of(self.version))
            assert writer is not None
            with writer:
                for number in writer.rows:
                    clip = clips[names[number]]
                    values = [clip.values] if clip.status == OK else []
                    writer.add(clip.row(names[number]), *values)
                assert writer.commit()
        seal(self.path)
        self.model = Model(clips, self.model.made_by | {self.version})

    def add_clips(self) -> None:
        new = self.new_model(self.random.randint(1, 30)).clips
        self.fill({**self.model.clips, **new}, set(new))

    def retry(self) -> None:
        failed = self.model.select(lambda clip: clip.status == FAILED).clips
        again = {name: self.computed(clip.film) for name, clip in failed.items()}
        if failed:
            self.fill({**self.model.clips, **again}, set(failed))

    def leave_out(self) -> None:
        """Make a store without a film: no file of it has anything of the film."""
        film = self.random.choice([clip.film for clip in self.model.clips.values()])
        rest = self.model.select(lambda clip: clip.film != film)
        if not rest.clips:
            return
        part = self.new_path()
        subset(self.path, part, without=[film])
        data = b"".join(files_of(part).values())
        assert film.encode() not in data
        gone = self.model.select(lambda clip: clip.film == film)
        for name, clip in gone.clips.items():
            assert name.encode() not in data
            for values in clip.values.values():
                assert values.tobytes()[:16] not in data
        self.another(part, rest)

    def merge(self) -> None:
        """Merge with a store of other clips; one of the same is refused."""
        new = self.new_model(self.random.randint(1, 10))
        other, both = self.new_path(), self.new_path()
        self.write(other, new)
        stores = [(self.path, self.model), (other, new)]
        self.random.shuffle(stores)
        merge([path for path, _ in stores], both)
        with pytest.raises(Mismatch, match="of this store are also in"):
            merge([both, other], self.new_path())
        # A filling plans the rows of the store in their order.
        clips = {**stores[0][1].clips, **stores[1][1].clips}
        self.another(both, Model(clips, self.model.made_by | new.made_by))

    def subset(self) -> None:
        films = sorted({clip.film for clip in self.model.clips.values()})
        chosen = self.random.sample(films, self.random.randint(1, len(films)))
        part = self.new_path()
        subset(self.path, part, films=chosen)
        self.another(part, self.model.select(lambda clip: clip.film in chosen))

    def another(self, path: Path, model: Model) -> None:
        """Check a new store; often go on with it, and forget the one before."""
        self.check(path, model)
        if self.random.random() < 0.5:
            self.path, self.model = path, model

    def push(self) -> None:
        self.copy(partial(push, no_licence=True), self.root / "shared")

    def pull(self) -> None:
        self.copy(pull, self.root / "pulled")

    def copy(self, copy: Callable[[Path, Path], object], target: Path) -> None:
        """No store takes the place of another one; then it starts anew."""
        if target.exists() and open_store(target).seal != open_store(self.path).seal:
            with pytest.raises(AlreadyThere):
                copy(self.path, target)
            shutil.rmtree(target)
        copy(self.path, target)
        self.check(target, self.model)

    def check(self, path: Path, model: Model) -> None:
        check_all(path)
        store = open_store(path)
        assert {row.clip_id for row in store.rows} == set(model.clips)
        for row in store.rows:
            clip = model.clips[row.clip_id]
            assert (row.movie_id, row.status) == (clip.film, clip.status)
        made_by = [maker.versions["torch"] for maker in store.record.makers]
        assert sorted(made_by) == sorted(model.made_by)
        names = [name for name, clip in model.clips.items() if clip.status == OK]
        assert store.record.arrays == tuple(self.arrays)
        for array in store.feature_arrays:
            values = store.matrix(array, clips=names).values
            for name, vector in zip(names, values, strict=True):
                np.testing.assert_array_equal(vector, model.clips[name].values[array])


@pytest.mark.parametrize("number", range(amount(3, 60)))
def test_random_histories(tmp_path: Path, number: int) -> None:
    history = History(tmp_path, 60 * SEED + number)
    before = list(history.model.clips)
    for _ in range(history.random.randint(3, 8)):
        step = history.random.choice(STEPS)
        print(step)
        path = history.path
        history.version = history.random.choice(VERSIONS)
        getattr(history, step)()
        history.check(history.path, history.model)
        # Rows keep their numbers while a store changes.
        clips = open_store(history.path).clip_ids.tolist()
        if history.path == path:
            assert clips[: len(before)] == before
        before = clips
