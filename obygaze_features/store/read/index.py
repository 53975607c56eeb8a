"""The index of a large sealed store: the rows of each film, and the seal in pages of some blocks.

A reader of one film needs a page or two of it, in place of the seal and the ids of all clips.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from operator import lt
from typing import Self

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import Corrupt, Mismatch
from obygaze_features.store.format.makers import Makers
from obygaze_features.store.format.records import (
    NeighbouringRuns,
    Partial,
    Plan,
    Record,
    Seal,
)
from obygaze_features.store.format.schema import (
    FileMark,
    RowSource,
    RowStatus,
)
from obygaze_features.store.remote.files import (
    Files,
    read_listed,
    read_or_none,
    read_record,
)

Rows = npt.NDArray[np.int64]

# Below this the seal and the ids are so small that an index saves nothing.
INDEX_ROWS = 16_384


@dataclass(frozen=True, kw_only=True)
class FilmIndex(Record):
    """index/movies.json: the rows of each film, and the marks of the pages and of the texts.

    `films` has the first row and the row after the last, of each run of rows of a film, and
    `store_version` the number of the version of the store, 0 for the first.
    """

    FILE = "index/movies.json"
    IS_COMPACT = True
    plan: str
    page_blocks: int
    films: Mapping[str, Sequence[tuple[int, int]]]
    files: Mapping[str, FileMark]
    store_version: int = 0

    @property
    def format_version(self) -> int:
        """2, since most films have the number of their rows in place of a run."""
        return 2


@dataclass(frozen=True, kw_only=True)
class IndexPage(Record):
    """index/N.json: what the seal lists of the blocks of page N, and the ids of their clips."""

    IS_COMPACT = True
    clip_id: Sequence[str]
    status_of_row: Mapping[int, RowStatus]
    sources: Mapping[int, RowSource] = field(default_factory=dict)
    makers: Makers = field(default_factory=Makers)
    files: Mapping[str, FileMark]
    crc32c: Mapping[str, str] = field(default_factory=dict)


def runs_of(
    movie_ids: npt.NDArray[np.str_],
) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return the runs of rows of each film."""
    changes = np.flatnonzero(movie_ids[1:] != movie_ids[:-1]) + 1
    bounds = [0, *changes.tolist(), len(movie_ids)]
    runs: dict[str, list[tuple[int, int]]] = {}
    for first, after in pairwise(bounds):
        runs.setdefault(str(movie_ids[first]), []).append((first, after))
    return {film: tuple(of_film) for film, of_film in runs.items()}


class Index:
    """The index of a store in another place, of which only the needed pages are read."""

    def __init__(self, files: Files, plan: Plan, films: FilmIndex) -> None:
        self.files = files
        self.plan = plan
        self.listed = films
        self.films = films.films
        self._pages: dict[int, IndexPage] = {}
        self._lock = threading.Lock()
        where = f"{files.location}/{FilmIndex.FILE}"
        if films.plan != plan.sha256:
            raise Mismatch("this index is of another store", where=where)
        plan.names.require(films.files, where)
        if films.page_blocks < 1 or not _has_each_row_once(films, plan.n_clips):
            raise Corrupt("this index does not list each row once", where=where)

    @classmethod
    def find(cls, files: Files, plan: Plan) -> Self | None:
        """Return the index of a store; None where it has none, or it may not be used."""
        # A seal that was interrupted has left an index, but no seal.
        if files.read(Seal.FILE, 0, 1) is None or read_or_none(files, Partial.FILE):
            return None
        films = read_record(files, FilmIndex)
        return None if films is None else cls(files, plan, films)

    def page(self, block: int) -> IndexPage:
        """Return the page with a block."""
        number = block // self.listed.page_blocks
        with self._lock:
            if number not in self._pages:
                self._pages[number] = self._load_page(number)
            return self._pages[number]

    def _load_page(self, number: int) -> IndexPage:
        """Read a page; raise an error unless it is of the rows and blocks of its number."""
        plan = self.plan
        step = self.listed.page_blocks
        name = f"index/{number}.json"
        where = f"{self.files.location}/{name}"
        mark = self.listed.files.get(name)
        if mark is None:
            raise Corrupt(f"{FilmIndex.FILE} does not list {name}", where=where)
        page = IndexPage.from_bytes(read_listed(self.files, name, mark), where)
        blocks = range(number * step, min((number + 1) * step, plan.n_blocks))
        rows = range(blocks.start * plan.block_rows, plan.block_range(blocks[-1])[1])
        if not _is_page_of(page, plan, blocks, rows):
            raise Corrupt(f"page {number} of the index is not of its rows", where=where)
        return page

    def clip_ids(self, rows: Rows) -> npt.NDArray[np.str_]:
        """Return the clips of some rows."""
        step = self.plan.block_rows
        page_rows = step * self.listed.page_blocks
        clips = [
            self.page(row // step).clip_id[row % page_rows] for row in rows.tolist()
        ]
        return np.array(clips, dtype=np.str_)

    def movie_ids(self, rows: Rows) -> npt.NDArray[np.str_]:
        """Return the film of each of some rows."""
        starts = []
        for film, runs in self.films.items():
            starts += [(first, film) for first, _ in runs]
        starts.sort()
        first_rows = [first for first, _ in starts]
        run_of_row = np.searchsorted(first_rows, rows, side="right") - 1
        return np.array([starts[run][1] for run in run_of_row], dtype=np.str_)

    def rows(self, films: Iterable[str]) -> Rows:
        """Return the rows of some films, in the store's order."""
        parts = [np.empty(0, np.int64)]
        for film in dict.fromkeys(films):
            parts += [np.arange(first, after) for first, after in self.films[film]]
        return np.sort(np.concatenate(parts))


def _has_each_row_once(films: FilmIndex, n_clips: int) -> bool:
    """Return whether the runs of all films are the rows of a store, one after another."""
    if isinstance(films.films, NeighbouringRuns):
        return films.films.n_rows == n_clips
    runs = sorted(chain.from_iterable(films.films.values()))
    firsts = [first for first, _ in runs]
    ends = [after for _, after in runs]
    follow = firsts == [0, *ends[:-1]] and all(map(lt, firsts, ends))
    return follow and ends[-1] == n_clips


def _is_page_of(page: IndexPage, plan: Plan, blocks: range, rows: range) -> bool:
    """Return whether a page lists only these rows, only files of these blocks, and a clip a row."""
    if not all(row in rows for row in (*page.status_of_row, *page.sources)):
        return False
    if len(page.clip_id) != len(rows):
        return False
    if set(map(type, page.clip_id)) != {str}:
        return False
    if page.makers.between(rows.start, rows.stop) != page.makers:
        return False
    names: set[str] = set()
    for block in blocks:
        names.update(plan.block_key(spec.name, block) for spec in plan.arrays)
    return page.files.keys() <= names
