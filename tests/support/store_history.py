"""A history of random changes of a store, beside a plain model of it in memory."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from obygaze_features.store import (
    ArraySpec,
    RowSource,
    RowStatus,
    StoreWriter,
    create_store,
    derive,
    merge,
    open_store,
    pack,
    pull,
    purge,
    push,
    store_log,
    unpack,
    upgrade,
    verify,
    withdraw,
)
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.write import gathering
from obygaze_features.store.write.added_levels import add_levels
from obygaze_features.store.write.growth import add_rows
from support.stores import a_recipe, block_of

ARRAYS = (ArraySpec("clip", (3,)), ArraySpec("frames", (2, 3), dtype="float16"))
# One that a store gets later.
LATER_ARRAY = ArraySpec("tokens", (4, 2), dtype="float16")
BLOCK_ROWS = 3
FAILED = RowStatus.failed("decode", "BadVideo", "broken")
Row = dict[str, np.ndarray]


def _recipe_of(arrays: Sequence[ArraySpec]) -> Recipe:
    """The recipe of a store with these arrays."""
    return a_recipe(
        levels=sorted(spec.name for spec in arrays),
        storage={spec.name: spec.dtype for spec in arrays},
    )


@dataclass
class Model:
    """What a version of a store holds: its clips in order, and why some have no numbers."""

    films: dict[str, str] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    # The arrays of features that were extracted.
    arrays: tuple[ArraySpec, ...] = ARRAYS
    # By name, the array it was made of and how.
    derived: dict[str, tuple[str, str]] = field(default_factory=dict)

    def with_derived(self, row: Row) -> Row:
        """A row with the arrays that are made of others."""
        whole = dict(row)
        for name, (source, by) in self.derived.items():
            vectors = row[source].astype(np.float64)
            if by == "mean":
                whole[name] = vectors.mean(axis=0).astype(np.float32)
            else:
                whole[name] = vectors.max(axis=0).astype(row[source].dtype)
        return whole


class History:
    """A store, the models of its versions, and changes of both."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.folder = folder
        self.n_made = 0
        self.n_clips = 0
        self.newest = Model()
        # Whether the store is one of an earlier program, which gathers no array.
        self.is_old = False
        # By its number, what each version holds; None for one that this copy does not have.
        self.versions: dict[int, Model | None] = {}
        self.path = self._new_path("first")
        model = Model()
        source = self._new_rows(model, self._new_clips(4), self.path)
        self._make_store(StoreWriter(source).seal)
        self._begin(model)

    def _new_path(self, what: str) -> Path:
        self.n_made += 1
        return self.folder / f"{self.n_made:03d}-{what}"

    def _make_store(self, make: Callable[[], Any]) -> None:
        """Make a new store, by this program or by an earlier one."""
        self.is_old = self.random.random() < 0.4
        self._in_program(self.is_old, make)

    @staticmethod
    def _in_program(is_old: bool, work: Callable[[], Any]) -> Any:
        """Do something as this program does, or as one that gathers no array."""
        if not is_old:
            return work()
        with mock.patch.object(gathering, "MIN_BLOCKS", 10**6):
            return work()

    def _work(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return what makes a version of the store, by the program that made the store."""
        work = partial(function, *args, **kwargs)
        return partial(self._in_program, self.is_old, work)

    def _begin(self, model: Model, number: int = 1) -> None:
        """Take a store as a new one, of one version."""
        self.newest = model
        self.versions = {number: copy.deepcopy(model)}

    def _add_version(self) -> None:
        self.versions[max(self.versions) + 1] = copy.deepcopy(self.newest)

    def _new_clips(self, n_clips: int) -> dict[str, str]:
        films = {}
        for _ in range(n_clips):
            film = f"tt{self.random.randrange(4):04d}"
            films[f"{film}-{self.n_clips:04d}"] = film
            self.n_clips += 1
        return films

    def _new_rows(self, model: Model, films: dict[str, str], path: Path) -> Path:
        """Put new values of some clips into a model, and into a store that is not sealed."""
        create_store(
            path,
            recipe=_recipe_of(model.arrays),
            manifest_name="random",
            manifest_sha256="12" * 32,
            clip_ids=list(films),
            movie_ids=list(films.values()),
            arrays=model.arrays,
            licence="CC0-1.0",
            citation="",
            block_rows=BLOCK_ROWS,
        )
        values = self._values(model.arrays, len(films))
        statuses = []
        for index, (clip, film) in enumerate(films.items()):
            is_failed = self.random.random() < 0.2
            statuses.append(FAILED if is_failed else RowStatus())
            if model.states.get(clip) == "withdrawn":
                continue
            model.films[clip] = film
            model.states[clip] = "failed" if is_failed else "ok"
            model.rows.pop(clip, None)
            if not is_failed:
                row = {name: values[name][index] for name in values}
                model.rows[clip] = model.with_derived(row)
        writer = StoreWriter(path)
        for block in range(writer.plan.n_blocks):
            first, after = writer.plan.block_range(block)
            sources = [RowSource(float(self.random.randrange(10**9)))] * (after - first)
            writer.commit_block(
                block,
                block_of(values, (first, after)),
                statuses[first:after],
                sources=sources,
            )
        return path

    def _values(
        self, arrays: Sequence[ArraySpec], n_clips: int
    ) -> dict[str, np.ndarray]:
        return {
            spec.name: self.numbers.standard_normal((n_clips, *spec.tail_shape)).astype(
                spec.dtype
            )
            for spec in arrays
        }

    # The changes.

    def add_clips(self) -> Callable[[], Any]:
        """Clips that the store does not have."""
        source = self._new_rows(
            self.newest,
            self._new_clips(self.random.randint(1, 4)),
            self._new_path("rows"),
        )
        self._add_version()
        return self._work(add_rows, self.path, source, reason="clips were added")

    def replace_rows(self) -> Callable[[], Any] | None:
        """Clips that the store has, made again."""
        states = self.newest.states
        clips = [clip for clip in self.newest.films if states[clip] == "ok"]
        if not clips:
            return None
        chosen = self.random.sample(clips, min(len(clips), 2))
        films = {clip: self.newest.films[clip] for clip in chosen}
        source = self._new_rows(self.newest, films, self._new_path("rows"))
        self._add_version()
        return self._work(add_rows, self.path, source, reason="rows were made again")

    def withdraw(self) -> Callable[[], Any] | None:
        """Clips that are taken away."""
        states = self.newest.states
        clips = [clip for clip in self.newest.films if states[clip] != "withdrawn"]
        if len(clips) < 2:
            return None
        chosen = self.random.sample(clips, self.random.randint(1, 2))
        for clip in chosen:
            self.newest.states[clip] = "withdrawn"
            self.newest.rows.pop(clip, None)
        self._add_version()
        return self._work(
            withdraw, self.path, clips=chosen, reason="they were withdrawn"
        )

    def derive(self) -> Callable[[], Any] | None:
        """An array that is made of another one."""
        by = self.random.choice(["mean", "max"])
        name = f"frames_{by}"
        if name in self.newest.derived:
            return None
        self.newest.derived[name] = ("frames", by)
        for clip, row in self.newest.rows.items():
            self.newest.rows[clip] = self.newest.with_derived(row)
        self._add_version()
        return self._work(derive, self.path, array="frames", by=by)

    def add_level(self) -> Callable[[], Any] | None:
        """An array that is extracted later, of the clips that have features, in another order."""
        if LATER_ARRAY in self.newest.arrays or not self.newest.rows:
            return None
        self.newest.arrays = (*self.newest.arrays, LATER_ARRAY)
        clips = self.random.sample(list(self.newest.rows), len(self.newest.rows))
        values = self._values([LATER_ARRAY], len(clips))
        source = self._new_path("level")
        create_store(
            source,
            recipe=_recipe_of([LATER_ARRAY]),
            manifest_name="random",
            manifest_sha256="12" * 32,
            clip_ids=clips,
            movie_ids=[self.newest.films[clip] for clip in clips],
            arrays=[LATER_ARRAY],
            licence="CC0-1.0",
            citation="",
            block_rows=2,
        )
        writer = StoreWriter(source)
        for block in range(writer.plan.n_blocks):
            writer.commit_block(block, block_of(values, writer.plan.block_range(block)))
        for index, clip in enumerate(clips):
            later = {LATER_ARRAY.name: values[LATER_ARRAY.name][index]}
            self.newest.rows[clip] = {**self.newest.rows[clip], **later}
        self._add_version()
        return self._work(add_levels, self.path, source, reason="a level was wanted")

    def upgrade(self) -> Callable[[], Any] | None:
        """What this program would have written for the store of an earlier one."""
        n_blocks = -(-len(self.newest.films) // BLOCK_ROWS)
        if not self.is_old or n_blocks < gathering.MIN_BLOCKS:
            before = open_store(self.path).seal_sha256
            assert not upgrade(self.path).is_new
            assert open_store(self.path).seal_sha256 == before
            return None
        self.is_old = False
        self._add_version()
        return self._work(upgrade, self.path)

    def purge(self) -> None:
        """Go on with a store without withdrawn features."""
        if "withdrawn" not in self.newest.states.values():
            return
        purged = self._new_path("purged")
        self._make_store(partial(purge, self.path, purged))
        for path in purged.rglob("*"):
            data = path.read_bytes() if path.is_file() else b""
            assert not any(pattern in data for pattern in self._withdrawn_patterns())
        self.path = purged
        self._begin(self.newest)

    def _withdrawn_patterns(self) -> list[bytes]:
        """The bytes of rows that some version had of clips that are withdrawn now."""
        patterns = []
        for model in self.versions.values():
            for clip, row in (model.rows if model else {}).items():
                if self.newest.states[clip] == "withdrawn":
                    patterns.append(row["clip"].tobytes())
        return patterns

    def merge(self) -> None:
        """Go on with a store of this one and of clips that it does not have."""
        if self.newest.derived:
            return
        source = self._new_rows(self.newest, self._new_clips(2), self._new_path("rows"))
        StoreWriter(source).seal()
        merged = self._new_path("merged")
        self._make_store(partial(merge, [self.path, source], merged))
        order = open_store(merged).clip_ids.tolist()
        self.newest.films = {clip: self.newest.films[clip] for clip in order}
        self.path = merged
        self._begin(self.newest)

    def pack(self) -> None:
        """Go on with what was packed and unpacked."""
        packed = self._new_path("packed").with_suffix(".zip")
        pack(self.path, packed)
        self._check(packed, self._sent_versions())
        unpacked = self._new_path("unpacked")
        unpack(packed, unpacked)
        self.path = unpacked
        self.versions = self._sent_versions()

    def copy(self) -> None:
        """Go on with a copy, pulled or pushed."""
        target = self._new_path("copy")
        send = self.random.choice([push, pull])
        send(self.path, target)
        self.path = target
        self.versions = self._sent_versions()

    def copy_of_before(self) -> None:
        """Go on with a copy of an earlier version that is brought up to date."""
        sent = self._sent_versions()
        held = [number for number, model in sent.items() if model is not None]
        number = self.random.choice(held)
        target = self._new_path("before")
        pull(f"{self.path}@{number}", target)
        self._check(target, {number: self.versions[number]})
        pull(self.path, target)
        of_before = {n: m for n, m in self.versions.items() if n == number}
        self.path = target
        self.versions = {**self._sent_versions(), **of_before}

    def _sent_versions(self) -> dict[int, Model | None]:
        """The versions that a copy has: those from the last withdrawal on."""
        first = 1
        for version in store_log(self.path).versions:
            if version.change == "withdrawn":
                first = max(first, version.number)
        return {
            number: model if number >= first else None
            for number, model in self.versions.items()
        }

    # The comparison.

    def check(self) -> None:
        """Every version reads as its model."""
        self._check(self.path, self.versions)

    def check_either(self) -> int:
        """The newest version is the last of the models or the one before; return which."""
        number = open_store(self.path).version
        last = max(self.versions)
        assert number in (last, last - 1)
        versions = {n: m for n, m in self.versions.items() if n <= number}
        self._check(self.path, versions, is_finished=False)
        return number

    def _check(
        self, path: Path, versions: dict[int, Model | None], *, is_finished: bool = True
    ) -> None:
        newest = max(versions)
        for number, model in versions.items():
            if model is None:
                continue
            location = str(path) if number == newest else f"{path}@{number}"
            store = open_store(location)
            assert store.version == number
            assert_reads(store, model)
            report = verify(location, hashes=True)
            assert not report.problems, report.problems
            assert not (is_finished and report.warnings), report.warnings


def assert_reads(store: Any, model: Model) -> None:
    """A store has the clips, the states and the numbers of a model."""
    clips = list(model.films)
    assert store.clip_ids.tolist() == clips
    assert store.movie_ids.tolist() == list(model.films.values())
    names = [*(spec.name for spec in model.arrays), *model.derived]
    assert sorted(store.feature_arrays) == sorted(names)
    for name in names:
        matrix = store.matrix(name, missing="drop")
        present = [clip for clip in clips if model.states[clip] == "ok"]
        assert matrix.clip_ids.tolist() == present
        for clip, values in zip(present, matrix.values, strict=True):
            assert values.tobytes() == model.rows[clip][name].tobytes(), (name, clip)
        states = {clip: reason.state for clip, reason in matrix.reasons.items()}
        absent = {c: s for c, s in model.states.items() if s != "ok"}
        assert states == absent


VERSION_CHANGES = (
    "add_clips",
    "replace_rows",
    "withdraw",
    "derive",
    "add_level",
    "upgrade",
)
STORE_CHANGES = ("purge", "merge", "pack", "copy", "copy_of_before")
# How often each is tried.
WEIGHTS = (4, 4, 3, 2, 2, 2, 1, 1, 1, 1, 2)


def next_change(history: History) -> tuple[str, Callable[[], Any] | None]:
    """Choose a change, and make it in the model; return what makes it in the store.

    None where it is made already, or cannot be.
    """
    (name,) = history.random.choices((*VERSION_CHANGES, *STORE_CHANGES), WEIGHTS)
    work = getattr(history, name)()
    return name, work if name in VERSION_CHANGES else None


def run_history(folder: Path, seed: int, n_changes: int) -> list[str]:
    """Make random changes and compare after each; return their names."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    history = History(folder, seed)
    history.check()
    names = []
    for _ in range(n_changes):
        before = history.path
        name, work = next_change(history)
        if work is not None:
            work()
        names.append(name)
        history.check()
        if history.path != before:
            shutil.rmtree(before)
    return names
