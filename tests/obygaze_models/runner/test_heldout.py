"""What each fold holds out, on clips that are few enough to check by hand."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from support.experiments import planted, quick, store_of

from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.vocabulary import concepts
from obygaze_models.evaluation.leakage import find_leak, number_names
from obygaze_models.evaluation.predictions import NO_ROWS
from obygaze_models.protocols.clips import clip_table, task_labels
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner.heldout import HeldOut, make_folds
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.store_run import store_runs

ONE_PAIR = ('grid.train=["EN_S"]', 'grid.test=["EN_S"]', "report.contrast=[]")
# Four films of four clips: EN, S, HN, NS.
LEVELS = ("EN", "S", "HN", "NS")


def clips(parts: dict[str, str]) -> Manifest:
    """Clips a0 to d3 of the films a to d, with a column `part`."""
    rows = []
    for film in "abcd":
        for number, level in enumerate(LEVELS):
            name = f"{film}{number}"
            extra = {"part": parts.get(name, parts.get(film, ""))}
            rows.append(
                Clip(name, film, scene=number, level=level, video="v", extra=extra)
            )
    return Manifest("few", Header("few", concepts()), tuple(rows), ("part",))


def folds(manifest: Manifest, *changes: str) -> list[HeldOut]:
    protocol = load_protocol("honest", [*ONE_PAIR, "data.view=raw", *changes])
    table = clip_table(manifest, protocol.data)
    labels = {"EN_S": task_labels("EN_S", protocol.tasks["EN_S"], table)}
    usable = np.ones(len(table), dtype=np.bool_)
    (of_pair,) = make_folds(protocol, table, labels, usable).values()
    return list(of_pair)


def names(manifest: Manifest, rows: np.ndarray) -> str:
    return " ".join(manifest.clips[row].clip_id for row in rows.tolist())


def seen(of_pair: Sequence[HeldOut]) -> set[str]:
    """What folds have seen of the films of their tested clips."""
    return {
        str(word)
        for held in of_pair
        for word in find_leak(
            *(held.train, held.validation, held.test, NO_ROWS),
            np.full(len(held.films), -1),
            number_names(held.films.tolist()),
        ).seen
    }


def test_published_folds_of_whole_films_are_by_film() -> None:
    manifest = clips({})
    cells = {clip.clip_id: str("abcd".index(clip.movie_id)) for clip in manifest}
    published = ("splits.kind=published", "tasks.EN_S.folds=grouped")
    first, *others = folds(manifest.with_column("fold:grouped", cells), *published)
    assert len(others) == 3
    assert names(manifest, first.test) == "a0 a1"
    # HN and NS of the tested film find no concept vector.
    assert names(manifest, np.flatnonzero(~first.may_learn)) == "a0 a1 a2 a3"
    assert seen([first, *others]) == {"unseen"}
    # One clip of a tested film in another fold: models know the film.
    divided = manifest.with_column("fold:grouped", {**cells, "a0": "1"})
    first, second, *others = folds(divided, *published)
    assert seen([first]) == {"film"} and seen(others) == {"unseen"}
    # No clip of the film b trains where b0 and b1 are tested, though b2 and b3 may find vectors.
    assert names(manifest, second.test) == "a0 b0 b1"
    assert seen([second]) == {"film", "unseen"}


def test_a_fold_names_its_own_films() -> None:
    manifest = clips({})
    fold_of = {"a": "0", "b": "2", "c": "4", "d": ""}
    cells = {clip.clip_id: fold_of[clip.movie_id] for clip in manifest}
    published = ("splits.kind=published", "tasks.EN_S.folds=gaps")
    found = folds(manifest.with_column("fold:gaps", cells), *published)
    assert [held.hidden_films for held in found] == [["a"], [], ["b"], [], ["c"]]
    # Nothing learns from the film in no fold, and it is no part of the empty folds.
    for held in found:
        assert set(names(manifest, np.flatnonzero(~held.may_learn)).split()) >= {"d0"}


def test_a_film_without_clips_that_can_validate_makes_no_fit(tmp_path: Path) -> None:
    """Fits without validation clips ran through all epochs, and counted as others."""
    manifest = clips({})
    rows = [clip for clip in manifest if clip.movie_id != "b"]
    some = manifest.with_clips(rows)
    store = store_of(tmp_path / "store", some, planted(some))
    # The clips of c have features, and no class of the task.
    unlabelled = [
        replace(clip, level="NS") if clip.movie_id == "c" else clip for clip in manifest
    ]
    asked = manifest.with_clips(unlabelled)
    protocol = quick("honest", *ONE_PAIR, "data.view=raw", "splits.validation=each")
    for one, films, missing in ((manifest, "acd", "b"), (asked, "ad", "b, c")):
        inputs = gather(protocol, one, "", {"x": store})
        (run,) = store_runs(inputs)
        (found,) = run.folds.values()
        tested = {}
        for held in found:
            assert len(held.validation)
            for film in set(held.films[held.test].tolist()):
                tested[film] = tested.get(film, 0) + 1
        assert tested == dict.fromkeys(films, len(films) - 1)
        remark = inputs.table.remarks["without validation"]
        assert f"has both features and a class: {missing}." in remark
