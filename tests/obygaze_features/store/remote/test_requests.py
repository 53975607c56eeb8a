"""How many requests and bytes it takes to read parts of a store from a web server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support.store_servers import web_server
from support.stores import plan_store, some_ids

from obygaze_features.store import ArraySpec, Store, StoreWriter, open_store

pytest.importorskip("obstore")
TOKENS = ArraySpec("tokens", (4, 25, 512), dtype="float16")
POOLED = ArraySpec("pooled", (512,))


def filled(path: Path, n_clips: int, arrays: tuple[ArraySpec, ...], rows: int) -> None:
    """Make a sealed store in which each number of a clip is that of its row, at most 2047."""
    clips, films = some_ids(n_clips, per_film=160)
    plan_store(
        path, block_rows=rows, arrays=arrays, clip_ids=clips, movie_ids=films, n_clips=1
    )
    writer = StoreWriter(path)
    for block in range(writer.plan.n_blocks):
        first, after = writer.plan.block_range(block)
        writer.commit_block(
            block,
            {spec.name: numbers(spec, np.arange(first, after)) for spec in arrays},
        )
    writer.seal()


def numbers(spec: ArraySpec, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values of some rows: all numbers of a clip are its row."""
    tail = [1] * len(spec.tail_shape)
    of_row = (rows % 2048).astype(spec.dtype).reshape(-1, *tail)
    return np.broadcast_to(of_row, (len(rows), *spec.tail_shape))


def cost(
    root: Path, name: str, read: Callable[[Store], npt.NDArray[Any]]
) -> tuple[int, int, npt.NDArray[Any]]:
    """Return requests, bytes and what was read."""
    with web_server(root) as server:
        values = read(open_store(f"{server.url}/{name}"))
        return len(server.requests), server.n_bytes, values


@pytest.fixture(scope="module")
def with_tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """160 clips with tokens, in blocks of 16, whose pooled vectors are ten blocks."""
    root = tmp_path_factory.mktemp("tokens")
    filled(root / "s", 160, (POOLED, TOKENS), 16)
    return root


def test_pooled_vectors_of_many_blocks_are_four_requests(with_tokens: Path) -> None:
    n_requests, n_bytes, values = cost(
        with_tokens, "s", lambda store: store.matrix("pooled").values
    )
    assert n_requests == 4  # store.json, partial.json, seal.json, the vectors
    assert n_bytes < 160 * POOLED.row_bytes + 40_000
    np.testing.assert_array_equal(values, numbers(POOLED, np.arange(160)))


def test_random_clips_of_tokens_are_read_by_row(with_tokens: Path) -> None:
    rows = np.random.default_rng(0).permutation(160)[:40]
    clips = [some_ids(160, per_film=160)[0][row] for row in rows.tolist()]
    n_requests, n_bytes, values = cost(
        with_tokens, "s", lambda store: store.matrix("tokens", clips=clips).values
    )
    assert n_bytes <= 1.3 * len(rows) * TOKENS.row_bytes
    assert n_requests <= len(rows) + 4
    np.testing.assert_array_equal(values, numbers(TOKENS, rows))


@pytest.mark.check("fills a store of 250 MB")
def test_one_film_of_many_clips(tmp_path: Path) -> None:
    n_clips = 250_000
    pooled = ArraySpec("pooled", (256,))
    filled(tmp_path / "s", n_clips, (pooled,), None)  # type: ignore[arg-type]
    folders: dict[Path, int] = {}
    for path in (tmp_path / "s").rglob("*"):
        if path.is_file():
            folders[path.parent] = folders.get(path.parent, 0) + 1
    assert sum(folders.values()) <= 2_000
    assert max(folders.values()) <= 1_000
    film = "tt0001100"
    rows = np.arange(1_000 * 160, 1_001 * 160)
    n_requests, n_bytes, values = cost(
        tmp_path, "s", lambda store: store.matrix("pooled", films=[film]).values
    )
    assert n_requests <= 12
    assert n_bytes <= 500_000
    np.testing.assert_array_equal(values, numbers(pooled, rows))
