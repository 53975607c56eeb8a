"""splits.never: these groups train, all others are tested, and unknown names are refused."""

from __future__ import annotations

import numpy as np
import pytest
from support.experiments import films, quick

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest import Manifest
from obygaze_models.evaluation.tables import Pair
from obygaze_models.protocols.clips import clip_table, task_labels
from obygaze_models.protocols.schedule import with_groups
from obygaze_models.runner.heldout import HeldOut, folds_of

FILMS = films(7, 12)
A, B = "tt0000001", "tt0000005"


def plan(*changes: str, manifest: Manifest = FILMS) -> dict[Pair, list[HeldOut]]:
    protocol = quick("honest", *changes)
    table = with_groups(clip_table(manifest, protocol.data), protocol.splits)
    labels = {
        name: task_labels(name, task, table) for name, task in protocol.tasks.items()
    }
    return folds_of(protocol, table, labels, np.ones(len(table), dtype=bool))


@pytest.mark.parametrize("splits", [(), ("splits.kind=nested", "splits.folds=3")])
def test_a_name_that_no_film_has_is_an_error(splits: tuple[str, ...]) -> None:
    with pytest.raises(
        FixInput, match=r"no clip has the movie_id 'tt000001' \(did you mean"
    ):
        plan(*splits, f"splits.never=['{A}', 'tt000001']")
    with pytest.raises(FixInput, match="names every movie_id"):
        plan(*splits, f"splits.never={list(FILMS.films)}")
    # A film that data.where leaves out is known.
    plan(*splits, f"splits.never=['{A}']", f'data.where=movie_id != "{A}"')


def test_a_group_that_is_a_number_is_named_in_any_spelling() -> None:
    houses = {clip.clip_id: str(int(clip.movie_id[2:]) % 3) for clip in FILMS}
    manifest = FILMS.with_column("house", houses)
    asked = ("splits.kind=nested", "splits.column=house", 'splits.never=["1.0"]')
    for of_pair in plan(*asked, manifest=manifest).values():
        tested = {manifest.clip_ids[row] for held in of_pair for row in held.test}
        assert {houses[clip] for clip in tested} == {"0", "2"}
