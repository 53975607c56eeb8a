"""A withdrawal is of a film and an id: other clips of the id stay, unless nobody knows the film."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.filled_stores import KIND, MANIFEST
from support.stores import made_store

from obygaze_features.core.errors import FixInput
from obygaze_features.core.workspace import Workspace
from obygaze_features.store import Row, open_store
from obygaze_features.store.changing import merge, subset
from obygaze_features.store.describing import describe_store
from obygaze_features.store.filling import plan_filling
from obygaze_features.store.layout import BEFORE
from obygaze_features.store.withdrawals import Withdrawals

REASON = "2026-01-02: asked"
FILMS = ["lake", "pier", "quay"]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with a store of which the clip 5 of the film lake was withdrawn."""
    workspace = Workspace(tmp_path)
    rows = [Row("4", "pier"), Row("5", "lake"), Row("6", "lake")]
    values = {"clip": np.ones((3, 4), np.float32)}
    made_store(tmp_path / "stores" / "films", rows, values)
    other = {"clip": np.full((1, 4), 5, np.float32)}
    made_store(tmp_path / "stores" / "other", [Row("5", "quay")], other)
    made = subset(
        tmp_path / "stores" / "films",
        without=["5"],
        reason="asked",
        workspace=workspace,
    )
    assert [BEFORE in copy.path.name for copy in made.copies] == [True]
    return workspace


def test_a_clip_5_beside_a_withdrawn_clip_5_stays(workspace: Workspace) -> None:
    stores = workspace.root / "stores"
    assert describe_store("other", workspace=workspace).warnings == []
    subset(stores / "films", stores / "pier", films=["pier"])
    made = merge([stores / "pier", stores / "other"], stores / "both")
    assert made.warnings == ()
    merged = open_store(stores / "both")
    assert merged.record.tombstones == open_store(stores / "films").record.tombstones
    assert merged.record.replaces == ()
    assert [row.is_ok for row in merged.rows] == [True, True]
    assert np.asarray(merged.matrix("clip"))[:, 0].tolist() == [1, 5]


def test_a_store_of_another_film_goes_on_after_a_withdrawal(
    workspace: Workspace,
) -> None:
    stores = workspace.root / "stores"
    subset(stores / "films", stores / "pier", films=["pier"])
    part = open_store(stores / "pier")
    for film in ("lake", "quay"):
        plan = {
            "rows": [*part.rows, Row("5", film)],
            "arrays": part.record.arrays,
            "recipe": part.recipe,
            "manifest": MANIFEST,
            "kind": KIND,
            "computed": [False, True],
            "replaces": part.seal,
        }
        if film == "quay":
            plan_filling(stores / "pier", **plan)
            continue
        with pytest.raises(FixInput, match="the clip '5' was withdrawn"):
            plan_filling(stores / "pier", **plan)


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
