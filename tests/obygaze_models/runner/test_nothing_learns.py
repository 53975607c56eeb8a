"""Nothing learns from what is held out: for every model, kind of split and way of learning.

Features, classes, levels and concepts of what is held out are replaced by others. The fits, asked
for the original rows, must answer with the same bits.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path

import numpy as np
import pytest
from support.held_out_fits import (
    MODELS_OF_FRAMES,
    OWN_CLASS,
    QUICK_MODELS,
    Way,
    answers,
    baseline_learns,
    fit,
    learns,
    must_not_be_learned,
    way_of,
    way_of_sentences,
)
from support.seeds import amount

from obygaze_features.core.user_code import trust
from obygaze_models.models.registry import KINDS
from obygaze_models.protocols.kinds import candidates
from obygaze_models.runner.heldout import HeldOut

FIXED = ("splits.kind=fixed", 'splits.test=["test"]')
PUBLISHED = (
    "splits.kind=published",
    "tasks.EN_S.folds=02_EN_HN_S",
    "tasks.ENHN_S.folds=02_EN_HN_S",
    "data.view=as_published",
)
PUBLISHED_BY_FILM = (
    "splits.kind=published",
    "tasks.EN_S.folds=grouped",
    "tasks.ENHN_S.folds=grouped",
)
SCHEME = "splits.scheme=obygaze_models.protocols.paper_splits"
BY_THE_CODE = (
    *(f"{SCHEME}:code_splits", "balancing=rotated", "models.mlp.keep=last"),
    *("models.mlp.double_softmax=true", "models.pcbm-dt.best_of_folds=true"),
    *("models.pcbm-lr.best_of_folds=true", "models.pcbm-lr.tolerance=published"),
    "models.pcbm-lr.cross_fit=0",
)
BY_THE_TEXT = (
    f"{SCHEME}:text_splits",
    "balancing=rotated",
    "models.pcbm-lr.tolerance=folds",
    "models.pcbm-lr.balance=subsample",
    "models.pcbm-lr.against=EN",
    "models.pcbm-lr.cross_fit=0",
)
# The changes of a protocol, and whether its splits are by film.
SPLITS: dict[str, tuple[tuple[str, ...], bool]] = {
    "nested": ((), True),
    "each film validates": (("splits.kind=nested", "splits.validation=each"), True),
    "groups of films": (("splits.kind=nested", "splits.folds=2"), True),
    "groups of a column": (("splits.column=fold:pairs",), True),
    "fixed, by film": ((*FIXED, "splits.column=whole"), True),
    "fixed, by clip": ((*FIXED, "splits.column=scenes"), False),
    "by clip": (("splits.kind=kfold", "splits.folds=3"), False),
    "published": (PUBLISHED, False),
    "published, by film": (PUBLISHED_BY_FILM, True),
    "published, by the code": ((*PUBLISHED, *BY_THE_CODE), False),
    "published, by the text": ((*PUBLISHED, *BY_THE_TEXT), False),
}
# Ways of learning, beside the fits themselves.
LEARNING: dict[str, tuple[str, ...]] = {
    "plain": (),
    "scaled": ("data.scale=standard",),
    # Factors of the parts of joined features.
    "joined": (),
    "chosen settings": (
        "models.logistic.C.grid=[0.01, 10.0]",
        "models.svm.C.grid=[0.01, 10.0]",
        "models.mlp.hidden={grid=[[4], [8]]}",
        'models.ridge.class_weight.grid=["none", "balanced"]',
        "models.nb.var_smoothing.grid=[1e-9, 1.0]",
        "models.own.shrinks.grid=[0.0, 0.5]",
        "models.pcbm-lr.C.grid=[0.01, 10.0]",
        "models.pcbm-h.residual_C.grid=[0.001, 1.0]",
        "models.pcbm-dt.max_depth.grid=[1, 3]",
    ),
}
BOTTLENECKS = ("pcbm-lr", "pcbm-dt", "pcbm-h")
# Vectors of one tolerance, and margins of two parts: these take most of the time.
QUICK_VECTORS = tuple(
    f"models.{name}.{setting}"
    for name in BOTTLENECKS
    for setting in ("tolerance=0.01", "cross_fit=2")
)


def case(folder, splits, learning="plain", *more, inner=False) -> Way:
    """The inputs of one kind of split and one way of learning."""
    vectors = () if inner else QUICK_VECTORS
    own_class = trusted(folder, "own_class", OWN_CLASS, "Nearest")
    return way_of(
        folder,
        *QUICK_MODELS,
        f"models.own.kind={own_class}",
        *vectors,
        *SPLITS[splits][0],
        *LEARNING[learning],
        *more,
        joined=learning == "joined",
    )


def trusted(folder: Path, module: str, code: str, name: str) -> str:
    """Write a file of user code, which is trusted; return the name of a part of it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{module}.py"
    path.write_text(code, encoding="utf-8")
    trust([f"{path}:{name}"])
    return f"{path}:{name}"


def folds_to_try(way: Way) -> Sequence[HeldOut]:
    """The last fold with clips to test; `make torture` tries the first fold of films, too."""
    tested = [held for held in way.folds if len(held.test)]
    last = tested[-1:]
    both = tested[:1] + tested[1:][-1:]
    return amount(last, both if tested[0].is_by_film else last)


# Kinds of splits that hold out films, clips, and a part of all films; `make check` has each of the
# others with another way of learning.
SOME_SPLITS = ("nested", "by clip", "published, by the code", "fixed, by film")


@pytest.mark.parametrize("splits", amount(SOME_SPLITS, tuple(SPLITS)))
def test_no_model_learns_from_what_is_held_out(tmp_path: Path, splits: str) -> None:
    must_learn_nothing(tmp_path, splits, "plain")


OTHER_SPLITS = [name for name in SPLITS if name not in SOME_SPLITS]
OTHER_WAYS = [name for name in reversed(LEARNING) if name != "plain"]
# In two or three groups of films, too few train to choose settings.
FEW_GROUPS = ("groups of films", "groups of a column")
# Each other kind of split with one of the other ways of learning, or all with all of them.
PAIRS = amount(
    list(zip(OTHER_SPLITS, cycle(OTHER_WAYS), strict=False)),
    sorted(
        {*product(SPLITS, OTHER_WAYS)} - {*product(FEW_GROUPS, ["chosen settings"])}
    ),
)


@pytest.mark.check("many fits")
@pytest.mark.parametrize(("splits", "learning"), PAIRS)
def test_no_other_way_of_learning_learns_from_it(tmp_path, splits, learning) -> None:
    must_learn_nothing(tmp_path, splits, learning)


def test_every_kind_is_tried(tmp_path: Path) -> None:
    plain = case(tmp_path / "plain", "nested")
    of_frames = way_of(tmp_path / "frames", *MODELS_OF_FRAMES, frames=4)
    of_sentences = way_of_sentences(tmp_path / "sentences")
    tried = {
        model.kind
        for way in (plain, of_frames, of_sentences)
        for model in way.run.models.values()
    }
    assert set(KINDS) <= tried
    assert len(tried - set(KINDS)) == 2  # a class of scikit-learn, and one of user code
    grids = case(tmp_path / "grids", "nested", "chosen settings")
    for name, model in grids.run.models.items():
        assert len(candidates(model)) == 2, name


def must_learn_nothing(tmp_path: Path, splits: str, learning: str) -> None:
    way = case(tmp_path, splits, learning)
    assert len(way.run.models) == 9
    assert all_learn_nothing(way, splits) >= 9


def all_learn_nothing(way: Way, splits: str) -> int:
    """Check each model in some folds; return the number of fits."""
    by_film = SPLITS[splits][1]
    n_fitted = 0
    for whole in folds_to_try(way):
        for name, model in way.run.models.items():
            held = way.run.for_model(model, whole)
            rows = must_not_be_learned(way, held, by_film=by_film)
            assert rows.sum() >= len(held.test) / 2
            assert learns(way, name, held, rows) == [], (name, held.name)
            n_fitted += 1
    return n_fitted


ENOUGH_GROUPS = [splits for splits in SPLITS if splits not in FEW_GROUPS]


@pytest.mark.parametrize("splits", amount(["nested", "by clip"], ENOUGH_GROUPS))
def test_no_model_of_frames_or_sentences_learns_from_it(tmp_path, splits) -> None:
    # But those of models that are not there.
    changes = [one for one in SPLITS[splits][0] if not one.startswith("models.")]
    way = way_of(tmp_path / "frames", *MODELS_OF_FRAMES, *changes, frames=4)
    assert all_learn_nothing(way, splits) >= 4
    way = way_of_sentences(tmp_path / "sentences", *changes)
    assert all_learn_nothing(way, splits) >= 2


@pytest.mark.parametrize("splits", SPLITS)
def test_no_baseline_learns_from_what_is_held_out(tmp_path: Path, splits: str) -> None:
    way = case(tmp_path, splits)
    held = folds_to_try(way)[0].merge_validation()
    rows = must_not_be_learned(way, held, by_film=SPLITS[splits][1])
    for name in ("prevalence", "film_prior", "neighbour", "oracle"):
        assert not baseline_learns(way, name, held, rows), name


# A film that chooses with all of its clips, and clips that choose.
INSIDE = amount(
    [("nested", "joined"), ("by clip", "plain")],
    [*product(("nested", "by clip", "fixed, by film"), LEARNING)],
)


@pytest.mark.parametrize(("splits", "learning"), INSIDE)
def test_fits_inside_learn_nothing_from_the_clips_that_choose(
    tmp_path, splits, learning
):
    """A fit that chooses a setting is tested on inner clips, and learns nothing of their films."""
    way = case(tmp_path, splits, learning)
    held = folds_to_try(way)[0].merge_validation()
    films = np.unique(held.films[held.train])
    inner_rows = held.train[held.films[held.train] == films[0]]
    inside = np.setdiff1d(held.train, inner_rows), inner_rows
    rows = np.zeros(len(way.run.table), dtype=np.bool_)
    rows[inner_rows] = True
    if SPLITS[splits][1]:
        rows = way.run.table.films == films[0]
    for name in ("logistic", "own", "pcbm-lr", "pcbm-h"):
        assert learns(way, name, held, rows, inside) == [], name


@pytest.mark.parametrize("splits", amount(("nested",), SOME_SPLITS))
def test_what_fits_share_is_that_of_the_fold(tmp_path: Path, splits: str) -> None:
    assert not of_another_fold(case(tmp_path, splits))


def of_another_fold(way: Way) -> list[tuple[str, str]]:
    """The fits, with their folds, that are others after fits of all models in another fold."""
    task = way.pair[0]
    X = way.run.of_store.X
    shared = replace(way.run)
    tried = [held for held in way.folds if len(held.test)][:2]
    others = []
    n_fits = 0
    for whole in tried:
        for name, model in shared.models.items():
            held = shared.for_model(model, whole)
            after_others = answers(fit(shared, name, held, task), X)
            alone = answers(fit(replace(way.run), name, held, task), X)
            n_fits += "scores" in alone
            if after_others != alone:
                others.append((name, held.name))
    assert n_fits == len(tried) * len(shared.models) >= 9
    return others


def test_the_test_sees_one_held_out_row_that_trains(tmp_path: Path) -> None:
    way = case(tmp_path, "nested")
    whole = folds_to_try(way)[0]
    for name, model in way.run.models.items():
        held = way.run.for_model(model, whole)
        rows = must_not_be_learned(way, held, by_film=True)
        labels = way.run.labels[way.pair[0]]
        one = held.test[labels[held.test] >= 0][0]
        leaking = replace(held, train=np.union1d(held.train, [one]))
        assert learns(way, name, leaking, rows), name
