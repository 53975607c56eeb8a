"""A store against a plain model: whatever is done, in whatever order, it holds the same rows.

The model is a dict of rows, each with its film, its status, its source and its numbers. Sizes of
chunks and of the index are made small, so that a few rows have blocks, shards, pages and an index.
`OBYGAZE_STATEFUL=1000` draws a thousand examples of fifty steps instead of the few of the suite;
`pytest --hypothesis-seed=N` draws others.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.stores import (
    a_recipe,
    partial_copy,
    tree,
)

from obygaze_features.core.errors import AlreadyThere, FixInput, Mismatch, NotFound
from obygaze_features.store import (
    ArraySpec,
    RowSource,
    RowStatus,
    Store,
    StoreWriter,
    TextTable,
    create_store,
    open_store,
    pack,
    pull,
    unpack,
)
from obygaze_features.store.read import commits as commits_module
from obygaze_features.store.read import index_pages as pages_module
from obygaze_features.store.read.diff import diff_stores
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote.files import FolderFiles, open_zip
from obygaze_features.store.write import commit, create
from obygaze_features.store.write import seal as seal_module
from obygaze_features.store.write.edit import merge, subset

N_EXAMPLES = int(os.environ.get("OBYGAZE_STATEFUL", "0"))
OK, MISSING = RowStatus(), RowStatus("missing")
STATUSES = [
    OK,
    OK,
    OK,
    RowStatus("ok", message="a frame repeats"),
    RowStatus.failed(
        "decode", "InvalidDataError", "[Errno 1] wrong, {odd} bytes\nin line 2"
    ),
    RowStatus.failed("forward", "OutOfMemory", "größer"),
    RowStatus.no_video(),
]
DTYPES = ("float16", "float32", "float64", "bool", "uint8", "int32", "int64")
CLIP_IDS = [
    "tt0000001-{}",
    "{}",
    "é {} ü",
    'a,"{}"',
    "a/{}.mp4",
    "🎬{}",
    "x" * 90 + "{}",
    "-{}",
    "={}",
]
FILMS = ["tt0000001", "Зеркало 1979", "a b", "10", "9"]
SOURCES = [
    None,
    RowSource(n_bytes=7, quick_sha256="ab"),
    RowSource(start_s=0.1, end_s=2, n_frames=5),
]


class RemoteFiles(FolderFiles):
    """A folder that counts as remote and cannot be listed, so that its index is used."""

    is_remote = True

    def names(self, folder: str) -> None:
        return None


@dataclass(frozen=True)
class Row:
    """What the model knows of a clip; a row whose block was never committed is missing."""

    film: str
    status: RowStatus = MISSING
    source: RowSource | None = None
    values: Mapping[str, np.ndarray] | None = None


def some_numbers(random: np.random.Generator, spec: ArraySpec) -> np.ndarray:
    """Numbers of a clip, also the least and greatest; NaN and infinities only in no array."""
    if spec.dtype == "bool":
        return random.integers(0, 2, spec.tail_shape).astype(bool)
    if not spec.is_float:
        limits = np.iinfo(spec.dtype)
        odd: list[Any] = [limits.min, limits.max, 0, 1]
    else:
        limits = np.finfo(spec.dtype)
        odd = [
            limits.max,
            limits.min,
            limits.tiny,
            limits.smallest_subnormal,
            0.0,
            -0.0,
            1 / 3,
        ]
        if not spec.is_feature_array:
            odd += [np.nan, np.inf]
    return random.choice(np.array(odd, spec.dtype), spec.tail_shape)


def same(found: np.ndarray, expected: np.ndarray) -> None:
    """Compare bytes, so that -0.0 is not 0.0; each NaN is the same."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found, expected)
    if expected.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def stacked(spec: ArraySpec, rows: Iterable[Row]) -> np.ndarray:
    values = [row.values[spec.name] for row in rows if row.values is not None]
    return np.array(values, spec.dtype).reshape((-1, *spec.tail_shape))


def check_store(
    store: Store,
    rows: Mapping[str, Row],
    specs: Sequence[ArraySpec],
    held: Mapping[str, set[str]] | None = None,
    seed: int = 0,
) -> None:
    """Compare every way to read a store with the model of its rows, in the order of the store.

    `held` has the clips of each array that a partial copy holds.
    """
    random = np.random.default_rng(seed)
    clips = list(rows)
    assert store.clip_ids.tolist() == clips
    assert store.movie_ids.tolist() == [row.film for row in rows.values()]
    if held is None:
        states = [row.status for row in rows.values()]
        status = store.status()
        assert status.is_ok.tolist() == [one.is_ok for one in states]
        status_of_row = {n: one for n, one in enumerate(states) if one != OK}
        assert {n: one.state for n, one in status.status_of_row.items()} == {
            n: one.state for n, one in status_of_row.items()
        }
        assert {
            n: one for n, one in status.status_of_row.items() if one.state != "missing"
        } == {n: one for n, one in status_of_row.items() if one.state != "missing"}
        found = [store.commits.source(n) for n in range(len(clips))]
        assert found == [row.source for row in rows.values()]
    for spec in specs:
        there = {
            clip: row
            for clip, row in rows.items()
            if row.status.is_ok and (held is None or clip in held[spec.name])
        }
        check_reads(store, spec, rows, there, random)


def check_reads(
    store: Store,
    spec: ArraySpec,
    rows: Mapping[str, Row],
    there: Mapping[str, Row],
    random: np.random.Generator,
) -> None:
    clips = list(rows)
    asked = random.choice([*clips, "no such clip"], random.integers(0, 8)).tolist()
    found = store.matrix(spec.name, clips=asked, missing="drop")
    present = [clip for clip in asked if clip in there]
    same(found.values, stacked(spec, (there[clip] for clip in present)))
    assert found.clip_ids.tolist() == present
    assert found.present.tolist() == [clip in there for clip in asked]
    assert set(found.reasons) == set(asked) - set(there)
    if spec.is_float:
        nan = store.matrix(spec.name, clips=asked, missing="nan").values
        same(nan[found.present], found.values)
        assert np.isnan(nan[~found.present]).all()
    if len(present) == len(asked):
        same(store.matrix(spec.name, clips=asked).values, found.values)
    else:
        with pytest.raises(NotFound):
            store.matrix(spec.name, clips=asked)

    films = sorted({row.film for row in rows.values()})
    chosen = random.choice(films, random.integers(1, len(films) + 1)).tolist()
    found = store.matrix(spec.name, films=chosen, missing="drop")
    of_films = [clip for clip, row in there.items() if row.film in chosen]
    assert found.clip_ids.tolist() == of_films
    same(found.values, stacked(spec, (there[clip] for clip in of_films)))

    mask = random.integers(0, 2, len(clips)).astype(bool)
    masked = [
        clip for clip, bit in zip(clips, mask, strict=True) if bit and clip in there
    ]
    parts = list(store.stream(spec.name, mask=mask, missing="drop"))
    assert [clip for part in parts for clip in part.clip_ids.tolist()] == masked
    streamed = [part.values for part in parts] or [stacked(spec, ())]
    same(np.concatenate(streamed), stacked(spec, (there[clip] for clip in masked)))
    assert store.presence(spec.name, clips)[0].tolist() == [
        clip in there for clip in clips
    ]
    if spec.name in store.feature_arrays:
        same(store[spec.name].values, stacked(spec, there.values()))


class StoreMachine(RuleBasedStateMachine):
    """Every step is done to the store and to the model; after each, both hold the same."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="obygaze-stateful-"))
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(create, "ONE_CHUNK_BYTES", 150)
        self.patch.setattr(create, "INNER_CHUNK_BYTES", 60)
        self.patch.setattr(create, "SMALL_CHUNK_BYTES", 20)
        self.patch.setattr(create, "ID_CHUNK_ROWS", 7)
        self.patch.setattr(pages_module, "PAGE_ROWS", 6)
        for module in (commits_module, seal_module):
            self.patch.setattr(module, "INDEX_ROWS", 9)
        self.n_made = 0
        self.sealed = False
        self.text: TextTable | None = None

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.folder)

    def new_path(self) -> Path:
        self.n_made += 1
        return self.folder / f"made{self.n_made}"

    @property
    def path(self) -> Path:
        return self.folder / "s"

    def rows_of(self, block: int) -> list[str]:
        first, after = self.plan.block_range(block)
        return list(self.rows)[first:after]

    @property
    def committed(self) -> list[int]:
        blocks = range(self.plan.n_blocks)
        return [
            b for b in blocks if self.rows[self.rows_of(b)[0]].status.state != "missing"
        ]

    @property
    def pending(self) -> list[int]:
        return [b for b in range(self.plan.n_blocks) if b not in self.committed]

    # -- making it

    @initialize(data=st.data(), seed=st.integers(0, 2**32 - 1))
    def plan_it(self, data: st.DataObject, seed: int) -> None:
        n_clips = data.draw(st.integers(1, 30), "clips")
        name = st.sampled_from(["clip", "pooled", "texture", "frames", "c", "level_2"])
        tails = st.lists(st.integers(1, 5), max_size=3).map(tuple)
        names = data.draw(st.lists(name, min_size=1, max_size=3, unique=True), "levels")
        self.specs = [
            ArraySpec(n, data.draw(tails), dtype=data.draw(st.sampled_from(DTYPES[:3])))
            for n in names
        ]
        for extra in data.draw(
            st.lists(st.sampled_from(DTYPES), max_size=2, unique=True), "extra"
        ):
            other = "time_s" if extra.startswith("float") else f"of_{extra}"
            if other not in {spec.name for spec in self.specs}:
                self.specs.append(ArraySpec(other, data.draw(tails), dtype=extra))
        forms = data.draw(
            st.lists(st.sampled_from(CLIP_IDS), min_size=1, max_size=3), "ids"
        )
        random = np.random.default_rng(seed)
        clips = [forms[i % len(forms)].format(i) for i in range(n_clips)]
        films = random.choice(
            FILMS[: data.draw(st.integers(1, 5), "films")], n_clips
        ).tolist()
        if data.draw(st.booleans(), "sorted"):
            films.sort()
        self.rows = {clip: Row(film) for clip, film in zip(clips, films, strict=True)}
        self.facts: dict[str, Any] = {
            "recipe": a_recipe(),
            "manifest_name": "made-up",
            "manifest_sha256": "12" * 32,
            "clip_ids": clips,
            "movie_ids": films,
            "arrays": self.specs,
            "block_rows": data.draw(st.integers(1, 35), "block rows"),
            "compressor": data.draw(
                st.sampled_from([None, "zstd", "blosc"]), "compressor"
            ),
            "licence": "CC0-1.0",
            "citation": "",
        }
        self.plan = create_store(self.path, **self.facts)
        self.writers = [StoreWriter(self.path), StoreWriter(self.path)]
        self.opened_first = open_store(self.path)

    @rule()
    def plan_it_again(self) -> None:
        assert create_store(self.path, **self.facts) == self.plan

    def drawn_block(
        self, block: int, seed: int
    ) -> tuple[dict[str, np.ndarray], list[Row]]:
        """Draw what a block is committed with: numbers, perhaps in a wider type, and its rows."""
        random = np.random.default_rng(seed)
        rows = []
        for clip in self.rows_of(block):
            status = STATUSES[random.integers(len(STATUSES))]
            source = SOURCES[random.integers(len(SOURCES))]
            values = {spec.name: some_numbers(random, spec) for spec in self.specs}
            rows.append(Row(self.rows[clip].film, status, source, values))
        given = {spec.name: stacked(spec, rows) for spec in self.specs}
        for spec in self.specs:
            wider = {"float16": "float32", "float32": "float64", "int32": "int64"}
            if spec.dtype in wider and random.integers(2):
                given[spec.name] = given[spec.name].astype(wider[spec.dtype])
        return given, rows

    def keep(self, block: int, rows: Sequence[Row]) -> None:
        for clip, row in zip(self.rows_of(block), rows, strict=True):
            self.rows[clip] = row

    @rule(
        place=st.integers(0, 99), seed=st.integers(0, 2**32 - 1), turn=st.integers(0, 1)
    )
    def commit_block(self, place: int, seed: int, turn: int) -> None:
        block = place % self.plan.n_blocks
        is_new = block in self.pending
        given, rows = self.drawn_block(block, seed)
        statuses, sources = [row.status for row in rows], [row.source for row in rows]
        if is_new:
            assert self.writers[turn].commit_block(
                block, given, statuses, sources=sources
            )
            self.keep(block, rows)
        old = [self.rows[clip] for clip in self.rows_of(block)]
        again = {spec.name: stacked(spec, old) for spec in self.specs}
        of_old = [row.status for row in old]
        assert not self.writers[1 - turn].commit_block(block, again, of_old)
        other = [RowStatus.failed("decode", "Other", "other"), *of_old[1:]]
        with pytest.raises(Mismatch):
            self.writers[turn].commit_block(block, again, other)

    @precondition(lambda self: self.committed and not self.sealed)
    @rule(
        place=st.integers(0, 99), seed=st.integers(0, 2**32 - 1), turn=st.integers(0, 1)
    )
    def retry_rows(self, place: int, seed: int, turn: int) -> None:
        block = self.committed[place % len(self.committed)]
        chosen, given, rows = self.drawn_retry(block, seed)
        if not chosen:
            return
        statuses, sources = [row.status for row in rows], [row.source for row in rows]
        self.writers[turn].replace_rows(block, chosen, given, statuses, sources=sources)
        self.keep_retried(chosen, rows)

    def drawn_retry(
        self, block: int, seed: int
    ) -> tuple[list[int], dict[str, np.ndarray], list[Row]]:
        """Draw rows of a block that may be replaced, and what with."""
        random = np.random.default_rng(seed)
        given, rows = self.drawn_block(block, seed)
        first, _ = self.plan.block_range(block)
        places = []
        for place, clip in enumerate(self.rows_of(block)):
            old, new = self.rows[clip], rows[place]
            has_other_source = (
                None not in (old.source, new.source) and old.source != new.source
            )
            if (not old.status.is_ok or has_other_source) and random.integers(4):
                places.append(place)
        random.shuffle(places)
        given = {name: values[places] for name, values in given.items()}
        return (
            [first + place for place in places],
            given,
            [rows[place] for place in places],
        )

    def keep_retried(self, chosen: Sequence[int], rows: Sequence[Row]) -> None:
        clips = list(self.rows)
        for row, new in zip(chosen, rows, strict=True):
            self.rows[clips[row]] = new

    @precondition(lambda self: self.committed and not self.sealed)
    @rule(place=st.integers(0, 99))
    def rows_that_are_ok_are_not_replaced(self, place: int) -> None:
        block = self.committed[place % len(self.committed)]
        first, _ = self.plan.block_range(block)
        for row, clip in enumerate(self.rows_of(block), first):
            old = self.rows[clip]
            if old.status.is_ok:
                given = {spec.name: stacked(spec, [old]) for spec in self.specs}
                with pytest.raises(FixInput, match="not replaced"):
                    self.writers[0].replace_rows(
                        block, [row], given, [OK], sources=[old.source]
                    )

    @precondition(lambda self: not self.sealed)
    @rule(
        place=st.integers(0, 99),
        seed=st.integers(0, 2**32 - 1),
        steps=st.integers(0, 3),
    )
    def a_writer_is_killed_after_its_claim(
        self, place: int, seed: int, steps: int
    ) -> None:
        """What was claimed is what the block becomes, by whoever comes next."""
        block = place % self.plan.n_blocks
        writer = StoreWriter(self.path)
        if block in self.pending:
            given, rows = self.drawn_block(block, seed)
            statuses, sources = (
                [row.status for row in rows],
                [row.source for row in rows],
            )
            marker, data = writer._encoded(
                block, given, statuses, sources, None, None, None
            )
            first, after = self.plan.block_range(block)
            chosen = list(range(first, after))
        else:
            chosen, given, rows = self.drawn_retry(block, seed)
            if not chosen:
                return
            old = writer.marker(block)
            assert old is not None
            statuses, sources = (
                [row.status for row in rows],
                [row.source for row in rows],
            )
            whole = writer._with_rows_replaced(
                old, chosen, given, statuses, sources, None
            )
            marker, data = writer._encoded(block, *whole, None, None)
            marker = replace(marker, revision=old.revision + 1, replaces=old.checksum)
        with commit.prepared(self.path, marker, data) as attempt:
            tag = attempt.name.partition(".")[2]
            assert commit.claim(attempt)
        claim = self.path / f"staging/block-{block:05d}"
        if steps > 0:
            assert commit._decide(self.path, claim, marker, tag)
        if steps > 1:
            commit._move_into_store(self.path, claim, marker, tag)
        if steps > 2:
            commit._publish(self.path, claim, marker, tag)
        self.check_after_a_kill(chosen)
        if seed % 3:
            assert self.writers[0].clean_litter() > 0
        else:  # the next writer of the block finishes it
            everything = {
                spec.name: np.zeros(
                    (len(self.rows_of(block)), *spec.tail_shape), spec.dtype
                )
                for spec in self.specs
            }
            gone = [RowStatus.failed("decode", "Late", "late")] * len(
                self.rows_of(block)
            )
            with pytest.raises((Mismatch, AlreadyThere)):
                self.writers[0].commit_block(block, everything, gone)
            self.writers[1].clean_litter()
        self.keep_retried(chosen, rows)

    def check_after_a_kill(self, chosen: Sequence[int]) -> None:
        """Rows that are not replaced are read as before; the store verifies."""
        clips = list(self.rows)
        others = [
            clip
            for row, clip in enumerate(clips)
            if row not in chosen and self.rows[clip].status.is_ok
        ]
        for store in (open_store(self.path), open_store(RemoteFiles(self.path))):
            for spec in self.specs:
                found = store.matrix(spec.name, clips=others)
                same(found.values, stacked(spec, (self.rows[clip] for clip in others)))
        assert not verify(self.path, hashes=True).problems

    @precondition(lambda self: not self.sealed)
    @rule()
    def clean(self) -> None:
        assert self.writers[0].clean_litter() == 0

    @precondition(lambda self: self.text is None and not self.sealed)
    @rule(n=st.integers(1, 3))
    def add_text(self, n: int) -> None:
        words = {
            name: [f"{name} {i}" for i in range(n)] for name in ("prompt", "template")
        }
        embeddings = np.arange(n * 3, dtype=np.float32).reshape(n, 3)
        self.text = TextTable(
            embeddings=embeddings, attribute=[""] * n, space_id="s", **words
        )
        assert self.writers[1].add_text(self.text)

    @rule()
    def seal(self) -> None:
        if self.pending:
            with pytest.raises(FixInput, match="not committed"):
                self.writers[0].seal()
        else:
            self.writers[0].seal()
            self.sealed = True

    @rule(seed=st.integers(0, 2**32 - 1))
    def complete(self, seed: int) -> None:
        for block in self.pending:
            self.commit_block(block, seed + block, 0)

    # -- looking at it

    @invariant()
    def the_writer_knows_what_is_missing(self) -> None:
        if hasattr(self, "plan"):
            assert self.writers[0].pending_blocks() == self.pending
            assert self.writers[1].sealed == self.sealed

    @rule(seed=st.integers(0, 2**32 - 1), where=st.integers(0, 1))
    def read(self, seed: int, where: int) -> None:
        store = open_store([self.path, RemoteFiles(self.path)][where])
        check_store(store, self.rows, self.specs, seed=seed)
        assert store.sealed == self.sealed
        text = store.text()
        assert (text is None) == (self.text is None)
        if text is not None and self.text is not None:
            same(text.embeddings, self.text.embeddings)
            assert list(text.prompt) == list(self.text.prompt)

    @rule(seed=st.integers(0, 2**32 - 1), where=st.integers(0, 1))
    def read_by_film_first(self, seed: int, where: int) -> None:
        """By the index, where the store has one; the seal is read only by what follows."""
        store = open_store([self.path, RemoteFiles(self.path)][where])
        film = list(self.rows.values())[seed % len(self.rows)].film
        there = [
            row for row in self.rows.values() if row.film == film and row.status.is_ok
        ]
        for spec in self.specs:
            found = store.matrix(spec.name, films=[film], missing="drop")
            same(found.values, stacked(spec, there))
        check_store(store, self.rows, self.specs, seed=seed)

    @precondition(lambda self: self.sealed)
    @rule(seed=st.integers(0, 2**32 - 1))
    def read_with_a_store_that_was_opened_first(self, seed: int) -> None:
        check_store(self.opened_first, self.rows, self.specs, seed=seed)

    @rule(hashes=st.booleans(), where=st.integers(0, 1))
    def verify_it(self, hashes: bool, where: int) -> None:
        report = verify([self.path, RemoteFiles(self.path)][where], hashes=hashes)
        assert (report.problems, report.warnings) == ([], [])
        assert report.sealed == self.sealed

    # -- copying it

    def check_copy(self, path: Path, seed: int) -> None:
        store = open_store(path)
        check_store(store, self.rows, self.specs, seed=seed)
        found = diff_stores(open_store(self.path), store)
        assert found.same
        assert [one.n_identical for one in found.compared] == [
            sum(row.status.is_ok for row in self.rows.values())
        ] * len(self.specs)
        assert not verify(path, hashes=True).problems
        assert (store.text() is None) == (self.text is None)

    @rule(seed=st.integers(0, 2**32 - 1))
    def pack_and_unpack(self, seed: int) -> None:
        packed, folder = self.new_path().with_suffix(".zip"), self.new_path()
        pack(open_store(self.path), packed)
        check_store(open_store(open_zip(packed)), self.rows, self.specs, seed=seed)
        self.check_copy(packed, seed)
        unpack(packed, folder)
        self.check_copy(folder, seed)

    @rule(seed=st.integers(0, 2**32 - 1))
    def pull_all(self, seed: int) -> None:
        path = self.new_path()
        pull(RemoteFiles(self.path), path)
        self.check_copy(path, seed)

    @rule(data=st.data(), seed=st.integers(0, 2**32 - 1))
    def take_a_subset(self, data: st.DataObject, seed: int) -> None:
        clips = data.draw(
            st.lists(st.sampled_from(list(self.rows)), min_size=1), "clips"
        )
        names = [spec.name for spec in self.specs if spec.is_feature_array]
        arrays = data.draw(
            st.none() | st.sets(st.sampled_from(names), min_size=1), "levels"
        )
        path = self.new_path()
        made = subset(
            open_store(self.path),
            path,
            clips=clips,
            arrays=None if arrays is None else [*arrays],
        )
        specs = [
            s
            for s in self.specs
            if arrays is None or s.name in arrays or not s.is_feature_array
        ]
        rows = {clip: row for clip, row in self.rows.items() if clip in clips}
        size = (
            made.n_clips
            if made.n_clips < self.plan.block_rows
            else self.plan.block_rows
        )
        rows = missing_by_block(rows, open_store(path).plan.block_rows)
        assert size <= open_store(path).plan.block_rows
        assert made.sealed == all(
            row.status.state != "missing" for row in rows.values()
        )
        check_store(open_store(path), rows, specs, seed=seed)
        assert not verify(path, hashes=True).problems

    @precondition(lambda self: len(self.rows) > 1)
    @rule(data=st.data(), seed=st.integers(0, 2**32 - 1))
    def merge_parts(self, data: st.DataObject, seed: int) -> None:
        clips = list(self.rows)
        of_first = data.draw(st.sets(st.sampled_from(clips), min_size=1), "first")
        of_second = data.draw(st.sets(st.sampled_from(clips), min_size=1), "second")
        source, paths = open_store(self.path), [self.new_path() for _ in range(3)]
        for path, chosen in zip(paths, (of_first, of_second), strict=False):
            subset(source, path, clips=sorted(chosen))
        parts = [open_store(path) for path in paths[:2]]
        made = merge(parts, paths[2])
        store = open_store(paths[2])
        # A part has lost the rows of a block of its own in which one is missing.
        there = {}
        for part in parts:
            for clip, is_ok in zip(
                part.clip_ids.tolist(), part.status().is_ok, strict=True
            ):
                is_there = part.commits.statuses(part.feature_arrays)
                row = part.clip_ids.tolist().index(clip)
                if is_ok or is_there[row].state != "missing":
                    there[clip] = self.rows[clip]
        rows = {
            clip: there.get(clip, Row(self.rows[clip].film))
            for clip in store.clip_ids.tolist()
        }
        assert set(rows) == of_first | of_second
        assert made.n_differing == 0
        check_store(
            store, missing_by_block(rows, store.plan.block_rows), self.specs, seed=seed
        )
        assert not verify(paths[2], hashes=True).problems

    @precondition(lambda self: self.sealed)
    @rule(data=st.data(), seed=st.integers(0, 2**32 - 1))
    def pull_a_part(self, data: st.DataObject, seed: int) -> None:
        """A store of its own of some arrays and films, by the seal or by the index."""
        arrays, films = self.draw_part(data)
        part = [
            spec
            for spec in self.specs
            if spec.name in arrays or not spec.is_feature_array
        ]
        if not any(spec.is_feature_array for spec in part):
            return
        rows = {
            clip: row
            for clip, row in self.rows.items()
            if films is None or row.film in films
        }
        trees = []
        for remote in (False, True):
            path = self.new_path()
            place = RemoteFiles(self.path) if remote else self.path
            for _ in range(2):  # the same again changes nothing
                pull(place, path, arrays=sorted(arrays), films=films)
                trees.append(tree(path / "data.zarr"))
            check_store(open_store(path), rows, part, seed=seed)
            assert open_store(path).sealed
            assert not verify(path, hashes=True).problems
        assert all(one == trees[0] for one in trees)

    def draw_part(self, data: st.DataObject) -> tuple[set[str], list[str] | None]:
        names = [spec.name for spec in self.specs]
        films = sorted({row.film for row in self.rows.values()})
        arrays = data.draw(st.sets(st.sampled_from(names), min_size=1), "arrays")
        chosen = data.draw(
            st.none() | st.sets(st.sampled_from(films), min_size=1), "films"
        )
        return arrays, None if chosen is None else sorted(chosen)

    @precondition(lambda self: self.sealed)
    @rule(data=st.data(), seed=st.integers(0, 2**32 - 1))
    def read_a_partial_copy(self, data: st.DataObject, seed: int) -> None:
        """What earlier versions made in one folder, each time adding arrays or films."""
        path = self.new_path()
        held: dict[str, set[str]] = {spec.name: set() for spec in self.specs}
        block_of = {clip: n // self.plan.block_rows for n, clip in enumerate(self.rows)}
        for _ in range(data.draw(st.integers(1, 3), "parts")):
            arrays, films = self.draw_part(data)
            partial_copy(self.path, path, arrays=sorted(arrays), films=films)
            blocks = {
                block_of[clip]
                for clip, row in self.rows.items()
                if films is None or row.film in films
            }
            for name in arrays:
                held[name] |= {clip for clip in self.rows if block_of[clip] in blocks}
            store = open_store(path)
            check_store(store, self.rows, self.specs, held, seed)
            assert store.feature_arrays == tuple(
                spec.name
                for spec in self.specs
                if spec.is_feature_array and held[spec.name]
            )
            assert not verify(path, hashes=True).problems
            if store.feature_arrays and seed % 2:
                self.check_subset_of_partial(store, held, seed)
        pull(self.path, path)
        self.check_copy(path, seed)

    def check_subset_of_partial(
        self, store: Store, held: Mapping[str, set[str]], seed: int
    ) -> None:
        specs = [spec for spec in self.specs if held[spec.name]]
        clips = set(self.rows).intersection(*(held[spec.name] for spec in specs))
        path = self.new_path()
        if not clips:
            with pytest.raises(FixInput, match="no clip"):
                subset(store, path)
            return
        assert subset(store, path).sealed
        rows = {clip: row for clip, row in self.rows.items() if clip in clips}
        check_store(open_store(path), rows, specs, seed=seed)
        assert not verify(path, hashes=True).problems


def missing_by_block(rows: Mapping[str, Row], block_rows: int) -> dict[str, Row]:
    """Return the rows of a copy: a block with a row that its source does not have is pending."""
    clips, found = list(rows), dict(rows)
    for first in range(0, len(clips), block_rows):
        block = clips[first : first + block_rows]
        if any(rows[clip].status.state == "missing" for clip in block):
            found |= {clip: Row(rows[clip].film) for clip in block}
    return found


def test_a_store_and_a_plain_model_hold_the_same_whatever_is_done() -> None:
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=N_EXAMPLES or 12,
            stateful_step_count=50 if N_EXAMPLES else 12,
            # The suite has the same examples each time, and prints a failing one as it is.
            derandomize=not N_EXAMPLES,
            phases=list(Phase) if N_EXAMPLES else [Phase.generate],
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
