"""Splits of whole protocols: one fold a clip for all tasks, leaks counted, groups never tested."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs
from support.experiments import films, quick
from support.published import split_file

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_models.evaluation.leakage import Leak
from obygaze_models.evaluation.predictions import NO_ROWS
from obygaze_models.evaluation.tables import Pair
from obygaze_models.protocols.clips import TaskClips, clip_table, task_labels
from obygaze_models.protocols.schedule import with_groups
from obygaze_models.protocols.schema import Protocol
from obygaze_models.protocols.splits import Split, count_folds, rotate_folds
from obygaze_models.runner.heldout import HeldOut, make_folds
from obygaze_models.runner.store_run import StoreRun

Folds = dict[Pair, Sequence[HeldOut]]


def plan(protocol: Protocol, manifest: Manifest) -> tuple[Folds, TaskClips]:
    table = with_groups(clip_table(manifest, protocol.data), protocol.splits)
    labels = {
        name: task_labels(name, task, table) for name, task in protocol.tasks.items()
    }
    everything = np.ones(len(table), dtype=bool)
    return make_folds(protocol, table, labels, everything), table


def leaks(found: Folds, pair: Pair, table: TaskClips) -> list[Leak]:
    run = StoreRun(quick(), table, {}, None, found)
    return [run.leak(pair, held, NO_ROWS) for held in found[pair]]


class TestFixed:
    def test_a_value_that_nobody_has(self) -> None:
        changes = ("splits.kind=fixed", "splits.column=level", 'splits.test=["9"]')
        with pytest.raises(FixInput, match="no clip has '9' in the column level"):
            plan(quick("honest-negatives", *changes), films())

    def test_a_clip_without_a_value_is_refused(self) -> None:
        """It neither trained nor tested, and nothing said so."""
        manifest = films()
        parts = {clip.clip_id: "train" for clip in manifest}
        first, second, third, *_ = parts
        parts |= {first: "", second: "", third: "test"}
        changes = ("splits.kind=fixed", "splits.column=part", 'splits.test=["test"]')
        with pytest.raises(FixInput, match=r"2 of .* have no value in the column part"):
            plan(
                quick("honest-negatives", *changes), manifest.with_column("part", parts)
            )


def released_manifest() -> Manifest:
    """The published population from the split files alone, read by the tests' own reader."""
    names = ("02_EN_S", "02_HN_S", "02_ENHN_S", "02_EN_HN_S")
    tables = {name: split_file(f"{name}.csv") for name in names}
    folds = {
        name: {c: str(f) for c, f in zip(t.ids, t.folds.tolist(), strict=True)}
        for name, t in tables.items()
    }
    whole = tables["02_EN_HN_S"]
    hard = set(tables["02_HN_S"].ids)
    clips = []
    for i, clip in enumerate(whole.ids):
        level = "S" if whole.y[i] else "HN" if clip in hard else "EN"
        clips.append(Clip(clip, whole.films[i], int(whole.scenes[i]), level=level))
    manifest = replace(films(2, 2), name="released").with_clips(clips)
    for name in names:
        manifest = manifest.with_column(f"fold:{name}", folds[name])
    header = structs.replace(manifest.header, view="as_published")
    return replace(manifest, header=header)


class TestPublished:
    def test_leaks_of_the_four_cells(self) -> None:
        """Counted here from the files: test clips in any fold that trains or chooses (0 to 8)."""
        manifest = released_manifest()
        protocol = quick("paper-table2", "splits.scheme=none", "balancing=none")
        found, table = plan(protocol, manifest)
        for (train, test), splits in found.items():
            trained, tested = (
                split_file(f"02_{train}.csv"),
                split_file(f"02_{test}.csv"),
            )
            seen = set(trained.in_folds(*range(9)))
            last = splits[9]
            leak = leaks(found, (train, test), table)[9]
            assert {table.ids[row] for row in last.test} == set(tested.in_folds(9))
            assert leak.is_leaked.sum() == len(seen & set(tested.in_folds(9)))
        counted = {pair: leaks(found, pair, table)[9].is_leaked.sum() for pair in found}
        assert counted["HN_S", "ENHN_S"] == 54
        assert counted["EN_S", "ENHN_S"] == 67
        assert counted["EN_S", "EN_S"] == 0


class TestTasks:
    def test_a_task_without_one_class_is_refused(self) -> None:
        protocol = quick(
            "honest-negatives",
            "tasks.X.positive=level == S and not concept",
            'grid.test=["X"]',
        )
        with pytest.raises(FixInput) as caught:
            plan(protocol, films())
        expression = "level == S and not concept"
        assert (
            caught.value.message == f"the task X has no clip of class 1 ({expression})"
        )
        levels = [clip.level for clip in films()]
        assert f"S: {levels.count('S')}" in (caught.value.hint or "")
        with pytest.raises(
            FixInput, match=r"the task HN_S has no clip of class 0 \(HN\)"
        ):
            plan(
                quick("honest-negatives"),
                films().with_clips(c for c in films() if c.level != "HN"),
            )


class TestSplit:
    def test_rows_are_sorted_and_unlike(self) -> None:
        assert Split("s", [3, 1], [], [2]).train.tolist() == [1, 3]
        with pytest.raises(FixInput, match="train has a row twice"):
            Split("s", [1, 1], [], [])


# Rows 0 to 5 are three folds with both classes, row 6 a fold of one class, row 7 is in no fold.
FOLDS = np.array([0, 0, 1, 1, 2, 2, 3, -1])
LABELS = np.array([0, 1, 0, 1, 0, 1, 1, 1])


def test_a_fold_that_never_tests_and_rows_that_do_not_train() -> None:
    trains = np.arange(8) != 3  # so that fold 1 cannot validate
    splits = rotate_folds(FOLDS, LABELS, trains, never=[3])
    assert [[part.tolist() for part in one.rows] for one in splits] == [
        [[2, 4, 5, 6], [], [0, 1]],
        [[0, 1, 6], [4, 5], [2, 3]],
        [[0, 1, 2, 6], [], [4, 5]],
    ]


def test_number_of_folds() -> None:
    assert count_folds(np.array([-1, 0, 4])) == 5
    with pytest.raises(FixInput, match="no clip"):
        count_folds(np.array([-1]))


FILMS = films(7, 12)
A = "tt0000001"


@pytest.mark.parametrize("splits", [(), ("splits.kind=nested", "splits.folds=3")])
def test_a_name_that_no_film_has_is_an_error(splits: tuple[str, ...]) -> None:
    with pytest.raises(
        FixInput, match=r"no clip has the movie_id 'tt000001' \(did you mean"
    ):
        plan(
            quick("honest-negatives", *splits, f"splits.never=['{A}', 'tt000001']"),
            FILMS,
        )
    with pytest.raises(FixInput, match="names every movie_id"):
        plan(
            quick("honest-negatives", *splits, f"splits.never={list(FILMS.films)}"),
            FILMS,
        )
    # A film that data.where leaves out is known.
    plan(
        quick(
            "honest-negatives",
            *splits,
            f"splits.never=['{A}']",
            f'data.where=movie_id != "{A}"',
        ),
        FILMS,
    )


def test_a_group_that_is_a_number_is_named_in_any_spelling() -> None:
    houses = {clip.clip_id: str(int(clip.movie_id[2:]) % 3) for clip in FILMS}
    manifest = FILMS.with_column("house", houses)
    asked = ("splits.kind=nested", "splits.column=house", 'splits.never=["1.0"]')
    found, _ = plan(quick("honest-negatives", *asked), manifest)
    for of_pair in found.values():
        tested = {manifest.clip_ids[row] for held in of_pair for row in held.test}
        assert {houses[clip] for clip in tested} == {"0", "2"}
