"""The index of a large sealed store: the rows of each movie, and the seal in pages of some blocks.

A reader of one movie needs a page or two of it, in place of the seal and the ids of all clips.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import Corrupt, Mismatch
from obygaze_features.core.files import sha256_bytes
from obygaze_features.store.format.records import Plan, Record, Seal
from obygaze_features.store.format.schema import FileMark, RowSource, RowStatus
from obygaze_features.store.format.text import TEXT_FOLDER

INDEX_FILE = "index/movies.json"
# Below this the seal and the ids are so small that an index saves nothing.
INDEX_ROWS = 16_384
PAGE_ROWS = 4096


@dataclass(frozen=True, kw_only=True)
class MovieIndex(Record):
    """index/movies.json: the rows of each movie, and the marks of the pages and of the texts.

    `movies` has the first row and the row after the last, of each run of rows of a movie.
    """

    plan: str
    page_blocks: int
    movies: Mapping[str, Sequence[tuple[int, int]]]
    files: Mapping[str, FileMark]


@dataclass(frozen=True, kw_only=True)
class IndexPage(Record):
    """index/N.json: what the seal lists of the blocks of page N, and the ids of their clips."""

    clip_id: Sequence[str]
    noted: Mapping[int, RowStatus]
    sources: Mapping[int, RowSource] = field(default_factory=dict)
    files: Mapping[str, FileMark]
    crc32c: Mapping[str, str] = field(default_factory=dict)


def page_key(page: int) -> str:
    """Return the file name of a page, relative to the store."""
    return f"index/{page}.json"


def index_records(
    plan: Plan,
    seal: Seal,
    sources: Mapping[int, RowSource],
    clip_ids: npt.NDArray[np.str_],
    movie_ids: npt.NDArray[np.str_],
) -> dict[str, Record]:
    """Return the files of the index of a store, by name; the first is the list of movies."""
    blocks = max(1, PAGE_ROWS // plan.block_rows)
    firsts = range(0, plan.n_blocks, blocks)
    words = {name: text.split() for name, text in seal.crc32c.items()}
    pages: dict[str, Record] = {}
    for page, first in enumerate(firsts):
        own = range(first, min(first + blocks, plan.n_blocks))
        rows = range(own[0] * plan.block_rows, plan.block_range(own[-1])[1])
        names = (plan.block_key(spec.name, block) for block in own for spec in plan.arrays)
        pages[page_key(page)] = IndexPage(
            clip_id=clip_ids[rows.start : rows.stop].tolist(),
            noted={row: seal.noted[row] for row in rows if row in seal.noted},
            sources={row: sources[row] for row in rows if row in sources},
            files={name: seal.files[name] for name in names if name in seal.files},
            crc32c={name: " ".join(words[name][own.start : own.stop]) for name in words},
        )
    texts = {n: mark for n, mark in seal.files.items() if n.startswith(f"{TEXT_FOLDER}/")}
    data = {name: page.to_bytes() for name, page in pages.items()}
    marks = {name: FileMark(len(d), sha256_bytes(d)) for name, d in data.items()}
    movies = MovieIndex(
        plan=plan.sha256, page_blocks=blocks, movies=runs_of(movie_ids), files={**marks, **texts}
    )
    return {INDEX_FILE: movies, **pages}


def runs_of(movie_ids: npt.NDArray[np.str_]) -> dict[str, list[tuple[int, int]]]:
    """Return the runs of rows of each movie."""
    starts = [0, *(np.flatnonzero(movie_ids[1:] != movie_ids[:-1]) + 1).tolist(), len(movie_ids)]
    found: dict[str, list[tuple[int, int]]] = {}
    for first, after in pairwise(starts):
        found.setdefault(str(movie_ids[first]), []).append((first, after))
    return found


def check_index(index: MovieIndex, plan: Plan, where: str) -> None:
    """Raise an error unless an index is of a store, and of rows that it has."""
    if index.plan != plan.sha256:
        raise Mismatch("this index is of another store", where=where)
    runs = [run for runs in index.movies.values() for run in runs]
    ends = [0, *(after for _, after in sorted(runs))]
    if index.page_blocks < 1 or sorted(runs) != [*pairwise(ends)] or ends[-1] != plan.n_clips:
        raise Corrupt("this index does not list each row once", where=where)


def check_page(page: IndexPage, index: MovieIndex, number: int, plan: Plan, where: str) -> None:
    """Raise an error unless a page is of the rows and blocks of its number."""
    blocks = range(number * index.page_blocks, (number + 1) * index.page_blocks)
    blocks = range(blocks.start, min(blocks.stop, plan.n_blocks))
    rows = range(blocks.start * plan.block_rows, plan.block_range(blocks[-1])[1])
    names = {plan.block_key(spec.name, block) for block in blocks for spec in plan.arrays}
    noted = all(row in rows for row in (*page.noted, *page.sources))
    strings = len(page.clip_id) == len(rows) and all(isinstance(one, str) for one in page.clip_id)
    if not (noted and strings) or page.files.keys() - names:
        raise Corrupt(f"page {number} of the index is not of its rows", where=where)


def movies_of(index: MovieIndex, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.str_]:
    """Return the movie of each of some rows."""
    runs = sorted((first, movie) for movie, own in index.movies.items() for first, _ in own)
    places = np.searchsorted([first for first, _ in runs], rows, side="right") - 1
    return np.array([runs[place][1] for place in places], dtype=np.str_)


def rows_of(index: MovieIndex, movies: Iterable[str]) -> npt.NDArray[np.int64]:
    """Return the rows of some movies, in the store's order."""

    def runs() -> Iterator[npt.NDArray[np.int64]]:
        for movie in dict.fromkeys(movies):
            for first, after in index.movies[movie]:
                yield np.arange(first, after)

    return np.sort(np.concatenate([*runs(), np.empty(0, np.int64)]))
