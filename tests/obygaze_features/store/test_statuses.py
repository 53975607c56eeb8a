"""What became of a clip is its status, which one table describes: in the code and on the page."""

from pathlib import Path

import numpy as np
from support.cli import call_obygaze
from support.plain_store import COUNTED, array_of, rows_of, write_plain_store
from support.plain_store import STATUSES as WORDS

from obygaze_features.extraction.stored import status_at
from obygaze_features.store.reading import open_store
from obygaze_features.store.rows import STATUSES, RowStatus
from obygaze_features.store.verifying import verify


def test_a_store_with_a_row_of_each_status(tmp_path: Path) -> None:
    """Each is counted once, and only the clip that is ok has features."""
    ids = [f"clip-{number}" for number in range(len(WORDS))]
    given = {row: (word, "why, in words") for row, word in enumerate(WORDS) if row}
    rows = rows_of(ids, ["film"] * len(ids), given)
    values = np.ones((len(ids), 4), np.float32)
    folder = tmp_path / "stores" / "s"
    folder.parent.mkdir()
    write_plain_store(folder, {"clip": values}, rows, arrays=[array_of("clip", values)])
    assert verify(folder, hashes=True).problems == []
    store = open_store(folder)
    assert store.status().counts == dict.fromkeys(WORDS, 1)
    assert [row.status for row in store.rows] == list(STATUSES)
    assert all(isinstance(row.status, RowStatus) for row in store.rows)
    assert store.matrix("clip", missing="drop").clip_ids.tolist() == ["clip-0"]
    info = call_obygaze("-C", tmp_path, "store", "info", "s", "--json").ok().json()
    assert info["counts"] == dict.fromkeys(WORDS, 1)
    state = status_at(folder)
    assert state is not None and state.counts == dict.fromkeys(WORDS, 1)
    known = state.to_json()
    assert [known[key] for key in COUNTED] == [1] * len(WORDS)
    assert known["failures"]["clip-3"] == "silent: why, in words"
    # What is planned for others is no failure.
    assert [*known["failures"]] == ["clip-1", "clip-2", "clip-3", "clip-4"]
