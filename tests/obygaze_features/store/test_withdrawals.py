"""A withdrawal is of a film and an id: other clips of the id stay, unless nobody knows the film."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stores import made_store

from obygaze_features.store import Row
from obygaze_features.store.withdrawals import Withdrawals

REASON = "2026-01-02: asked"
FILMS = ["lake", "pier", "quay"]


@pytest.mark.parametrize(
    ("withdrawn", "asked", "is_withdrawn"),
    [
        ("lake", "lake", True),
        ("lake", "quay", False),
        ("lake", "", True),
        ("", "quay", True),
        ("", "", True),
    ],
)
def test_a_film_that_is_not_stated_is_not_asked(
    withdrawn: str, asked: str, is_withdrawn: bool
) -> None:
    withdrawals = Withdrawals({(withdrawn, "5"): REASON})
    assert withdrawals.reason("5", asked) == (REASON if is_withdrawn else "")
    assert withdrawals.reason("6", asked) == ""


@settings(max_examples=20, deadline=None)
@given(
    films=st.lists(st.sampled_from(FILMS), min_size=1, max_size=8),
    whole=st.sets(st.sampled_from([*FILMS, "elsewhere"])),
    clips=st.sets(
        st.tuples(st.sampled_from("01234567"), st.sampled_from(["", *FILMS]))
    ),
)
def test_the_withdrawn_rows_of_a_store_are_those_of_a_plain_loop(
    tmp_path_factory: pytest.TempPathFactory,
    films: list[str],
    whole: set[str],
    clips: set[tuple[str, str]],
) -> None:
    named = [*((film, "") for film in whole), *((film, id) for id, film in clips)]
    withdrawals = Withdrawals(dict.fromkeys(named, REASON))
    rows = [Row(str(number), film) for number, film in enumerate(sorted(films))]
    rows[0] = rows[0]._replace(status="failed", reason="damaged")
    rows.append(Row("last", "last"))
    values = {"clip": np.ones((len(rows), 4), np.float32)}
    store = made_store(tmp_path_factory.mktemp("drawn") / "s", rows, values)
    expected = []
    for number, row in enumerate(rows):
        of_clip = {(row.clip_id, row.movie_id), (row.clip_id, "")} & clips
        if row.is_ok and (of_clip or row.movie_id in whole):
            expected.append(number)
    assert [*withdrawals.rows_in(store)] == expected
