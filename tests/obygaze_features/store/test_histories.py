"""Random histories of stores, compared after each step with a plain model in memory."""

import random
import shutil
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.filled_stores import next_block
from support.seeds import SEED, amount
from support.written_stores import MANIFEST, ArraySource, a_recipe, check_all, files_of

from obygaze_features.core.errors import AlreadyThere, Mismatch
from obygaze_features.core.workspace import Workspace
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
STEPS = ("add clips", "retry", "leave out", "merge", "subset", "push", "pull")


@dataclass(frozen=True)
class Clip:
    """A row of the model: its numbers, or why it has none."""

    film: str
    status: str
    values: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """A store: its clips in their order, its arrays, and the changes that led to it.

    `made_by` are the versions of torch that made its rows.
    """

    clips: dict[str, Clip]
    arrays: tuple[str, ...]
    history: tuple[int, ...]
    made_by: frozenset[str]


def maker_of(versions: str) -> Maker:
    """What has computed a row."""
    return Maker("p 1", "cpu", "a cpu", "float32", {"torch": versions})


class History:
    """A workspace with one store that changes, a shared copy and a pulled copy of it."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.workspace = Workspace(root)
        self.version = VERSIONS[0]
        self.n_names = 0
        self.n_changes = 0
        self.path = self.new_path()
        made_by = frozenset([self.version])
        self.model = Model({}, ("pooled", "frames"), (self.change(),), made_by)
        self.shared: Model | None = None
        self.pulled: Model | None = None
        rows = self.new_clips(self.random.randint(1, 40), self.model.arrays)
        self.model = replace(self.model, clips=rows)
        self.write(self.path, self.model)

    def new_path(self) -> Path:
        self.n_names += 1
        return self.root / f"store-{self.n_names}"

    def change(self) -> int:
        self.n_changes += 1
        return self.n_changes

    def new_clips(self, n_clips: int, arrays: tuple[str, ...]) -> dict[str, Clip]:
        clips = {}
        for _ in range(n_clips):
            name = f"clip {self.numbers.integers(2**40)}"
            film = f"film-{self.random.randint(0, 9)}"
            clips[name] = self.computed(film, arrays)
        return clips

    def computed(self, film: str, arrays: tuple[str, ...]) -> Clip:
        if self.random.random() < 0.15:
            return Clip(film, FAILED)
        values = {name: self.vector(name) for name in arrays}
        return Clip(film, OK, values)

    def vector(self, name: str) -> np.ndarray:
        (array,) = (array for array in ARRAYS if array.name == name)
        return self.numbers.standard_normal(array.shape).astype("float32")

    def write(self, path: Path, model: Model) -> None:
        """Write a store at once."""
        arrays = [array for array in ARRAYS if array.name in model.arrays]
        rows = [self.row(name, clip) for name, clip in model.clips.items()]
        values = {}
        for array in arrays:
            nothing = np.zeros(array.shape, "float32")
            values[array.name] = np.stack(
                [clip.values.get(array.name, nothing) for clip in model.clips.values()]
            )
        write_store(
            path,
            ArraySource(rows, values),
            arrays=arrays,
            recipe=a_recipe(),
            manifest=MANIFEST,
            makers=[maker_of(version) for version in sorted(model.made_by)],
        )

    def row(self, name: str, clip: Clip) -> Row:
        reason = "" if clip.status == OK else "no picture"
        return Row(name, clip.film, status=clip.status, reason=reason)

    # The steps.

    def fill(self, model: Model, computed: set[str]) -> None:
        """Let a filling compute some clips, so that the store becomes the model."""
        names = list(model.clips)
        filling = plan_filling(
            self.path,
            [Row(name, clip.film) for name, clip in model.clips.items()],
            arrays=[array for array in ARRAYS if array.name in model.arrays],
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
                    name = names[number]
                    clip = model.clips[name]
                    row = self.row(name, clip)
                    if clip.status == OK:
                        values = {name: clip.values[name] for name in model.arrays}
                        writer.add(row, values)
                    else:
                        writer.add(row)
                assert writer.commit()
        seal(self.path)
        self.changed(model)

    def changed(self, model: Model) -> None:
        made_by = model.made_by | {self.version}
        history = (*self.model.history, self.change())
        self.model = replace(model, history=history, made_by=made_by)

    def add_clips(self) -> None:
        new = self.new_clips(self.random.randint(1, 30), self.model.arrays)
        model = replace(self.model, clips={**self.model.clips, **new})
        self.fill(model, set(new))

    def retry(self) -> None:
        failed = {n for n, clip in self.model.clips.items() if clip.status == FAILED}
        if failed:
            clips = dict(self.model.clips)
            for name in failed:
                clips[name] = self.computed(clips[name].film, self.model.arrays)
            model = replace(self.model, clips=clips)
            self.fill(model, failed)

    def leave_out(self) -> None:
        """Make a store without a film: no file of it has anything of the film."""
        film = self.random.choice([clip.film for clip in self.model.clips.values()])
        clips = {n: c for n, c in self.model.clips.items() if c.film != film}
        if not clips:
            return
        part = self.new_path()
        subset(self.path, part, without=[film])
        data = b"".join(files_of(part).values())
        assert film.encode() not in data
        for name, clip in self.model.clips.items():
            if clip.film == film:
                assert name.encode() not in data
                for values in clip.values.values():
                    assert values.tobytes()[:16] not in data
        self.another(part, replace(self.model, clips=clips))

    def merge(self) -> None:
        """Merge with a store of other clips; one of the same is refused."""
        clips = self.new_clips(self.random.randint(1, 10), self.model.arrays)
        other = self.new_path()
        made_by = frozenset([self.version])
        self.write(other, replace(self.model, clips=clips, made_by=made_by))
        both = self.new_path()
        is_turned = self.random.random() < 0.5
        merge([other, self.path] if is_turned else [self.path, other], both)
        # A filling plans the rows of the store in their order.
        merged = {**self.model.clips, **clips}
        if is_turned:
            merged = {**clips, **self.model.clips}
        made_by |= self.model.made_by
        with pytest.raises(Mismatch, match="of this store are in"):
            merge([both, other], self.new_path())
        self.another(both, replace(self.model, clips=merged, made_by=made_by))

    def subset(self) -> None:
        films = sorted({clip.film for clip in self.model.clips.values()})
        chosen = self.random.sample(films, self.random.randint(1, len(films)))
        clips = {n: c for n, c in self.model.clips.items() if c.film in chosen}
        part = self.new_path()
        subset(self.path, part, films=chosen)
        self.another(part, replace(self.model, clips=clips))

    def another(self, path: Path, model: Model) -> None:
        """Check a new store; often go on with it, and forget the one before."""
        check(path, model)
        if self.random.random() < 0.5:
            self.path = path
            self.model = replace(model, history=(self.change(),))

    def push(self) -> None:
        send = partial(push, no_licence=True)
        self.shared = self.copied(send, self.root / "shared", self.shared)

    def pull(self) -> None:
        self.pulled = self.copied(pull, self.root / "pulled", self.pulled)

    def copied(self, copy, target: Path, there: Model | None) -> Model:
        # No store takes the place of another one.
        if there is None or there.history == self.model.history:
            copy(self.path, target)
            return self.model
        with pytest.raises(AlreadyThere):
            copy(self.path, target)
        # Start anew.
        shutil.rmtree(target)
        copy(self.path, target)
        return self.model

    def step(self, name: str) -> None:
        self.version = self.random.choice(VERSIONS)
        getattr(self, name.replace(" ", "_"))()
        check(self.path, self.model)

    def finish(self) -> None:
        for name, model in (("shared", self.shared), ("pulled", self.pulled)):
            if model is not None and model.history == self.model.history:
                check(self.root / name, self.model)


def check(path: Path, model: Model) -> None:
    """Compare a store with the model."""
    check_all(path)
    store = open_store(path)
    assert {row.clip_id for row in store.rows} == set(model.clips)
    for row in store.rows:
        clip = model.clips[row.clip_id]
        assert (row.movie_id, row.status) == (clip.film, clip.status)
    made_by = [maker.versions["torch"] for maker in store.record.makers]
    assert sorted(made_by) == sorted(model.made_by)
    names = [name for name, clip in model.clips.items() if clip.status == OK]
    assert {array.name for array in store.record.arrays} == set(model.arrays)
    for array in model.arrays:
        values = store.matrix(array, clips=names).values
        for name, vector in zip(names, values, strict=True):
            np.testing.assert_array_equal(vector, model.clips[name].values[array])


def run(root: Path, seed: int) -> None:
    """One history of a few steps."""
    root.mkdir()
    history = History(root, seed)
    order = []
    before = list(history.model.clips)
    for _ in range(history.random.randint(3, 8)):
        step = history.random.choice(STEPS)
        order.append(step)
        path = history.path
        try:
            history.step(step)
        except BaseException:
            print(seed, order)
            raise
        # Rows keep their numbers while a store changes.
        clips = open_store(history.path).clip_ids.tolist()
        if history.path == path:
            assert clips[: len(before)] == before
        before = clips
    history.finish()
    shutil.rmtree(root)


@pytest.mark.parametrize("number", range(amount(3, 60)))
def test_random_histories(tmp_path: Path, number: int) -> None:
    run(tmp_path / "history", 60 * SEED + number)
