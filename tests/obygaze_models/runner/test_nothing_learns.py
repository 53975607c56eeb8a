"""Nothing learns from what is held out: for every model, kind of split and way of learning.

Features, classes, levels and concepts of what is held out are replaced by others. The fits, asked
for the original rows, must answer with the same bits.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path

import numpy as np
import pytest
from support.held_out_fits import (
    MODELS_OF_FRAMES,
    OWN_BASELINE,
    OWN_CLASS,
    OWN_SPLITS,
    QUICK_MODELS,
    Way,
    baseline_learns,
    learns,
    must_not_be_learned,
    way_of,
    way_of_sentences,
)
from support.seeds import amount

from obygaze_features.core.parts import trust
from obygaze_models.models.registry import KINDS
from obygaze_models.protocols.kinds import candidates
from obygaze_models.runner import heldout
from obygaze_models.runner.heldout import HeldOut, folds_of, with_few_films

FIXED = ("splits.kind=fixed", 'splits.test=["test"]', 'splits.choose=["choose"]')
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
    f"{SCHEME}:code_splits",
    "balancing=rotated",
    "models.mlp.keep=last",
    "models.mlp.double_softmax=true",
    "models.pcbm-dt.best_of_folds=true",
    "models.pcbm-lr.best_of_folds=true",
    "models.pcbm-lr.tolerance=published",
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
    "each film validates": (
        ("splits.kind=nested", "splits.validation=each"),
        True,
    ),
    "groups of films": (("splits.kind=nested", "splits.folds=2"), True),
    "groups of a column": (("splits.column=fold:pairs",), True),
    "fixed, by film": ((*FIXED, "splits.column=whole"), True),
    "fixed, by clip": ((*FIXED, "splits.column=scenes"), False),
    "by clip": (("splits.kind=kfold", "splits.folds=3"), False),
    "published": (PUBLISHED, False),
    "published, by film": (PUBLISHED_BY_FILM, True),
    "published, by the code": ((*PUBLISHED, *BY_THE_CODE), False),
    "published, by the text": ((*PUBLISHED, *BY_THE_TEXT), False),
    "own": ((), True),
}
# Ways of learning, beside the fits themselves.
LEARNING: dict[str, tuple[str, ...]] = {
    "plain": (),
    "scaled": ("data.scale=standard",),
    "erased": ('data.erase=["Body"]',),
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
LINEAR_VECTORS = tuple(
    f"models.{name}.tolerance=1.0" for name in ("pcbm-lr", "pcbm-dt", "pcbm-h")
)


def case(
    folder: Path, splits: str, learning: str = "plain", *more: str, inner: bool = False
) -> Way:
    """The inputs of one kind of split and one way of learning."""
    # Tolerances that are chosen inside take most of the time: one case has them.
    vectors = () if inner else LINEAR_VECTORS
    own_class = trusted(folder, "own_class", OWN_CLASS, "Nearest")
    return way_of(
        folder,
        *QUICK_MODELS,
        f"models.own.kind={own_class}",
        *vectors,
        *changes_of(folder, splits),
        *LEARNING[learning],
        *more,
        joined=learning == "joined",
    )


def changes_of(folder: Path, splits: str) -> tuple[str, ...]:
    """The changes of a protocol that make these splits."""
    if splits == "own":
        name = trusted(folder, "own_splits", OWN_SPLITS, "some_films")
        return (f"splits.kind={name}", "splits.folds=5")
    return SPLITS[splits][0]


def trusted(folder: Path, module: str, code: str, name: str) -> str:
    """Write a file of own code, which is trusted; return the name of a part of it."""
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
SOME_SPLITS = ("nested", "by clip", "published, by the code", "own")


@pytest.mark.parametrize("splits", amount(SOME_SPLITS, tuple(SPLITS)))
def test_no_model_learns_from_what_is_held_out(tmp_path: Path, splits: str) -> None:
    must_learn_nothing(tmp_path, splits, "plain")


OTHER_SPLITS = [name for name in SPLITS if name not in SOME_SPLITS]
OTHER_WAYS = [name for name in LEARNING if name != "plain"]
# Each other kind of split with one of the other ways of learning, or all with all of them.
PAIRS = amount(
    list(zip(OTHER_SPLITS, cycle(OTHER_WAYS), strict=False)),
    list(product(SPLITS, OTHER_WAYS)),
)


@pytest.mark.check("takes a minute")
@pytest.mark.parametrize(("splits", "learning"), PAIRS)
def test_no_other_way_of_learning_learns_from_it(
    tmp_path: Path, splits: str, learning: str
) -> None:
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
    assert len(tried - set(KINDS)) == 2  # a class of scikit-learn, and one of own code
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


@pytest.mark.parametrize("splits", ["nested", "by clip"])
def test_no_chosen_tolerance_learns_from_what_is_held_out(
    tmp_path: Path, splits: str
) -> None:
    way = case(tmp_path, splits, inner=True)
    held = folds_to_try(way)[0].joined()
    rows = must_not_be_learned(way, held, by_film=SPLITS[splits][1])
    assert learns(way, "pcbm-lr", held, rows) == []


@pytest.mark.parametrize("splits", amount(("nested", "by clip"), tuple(SPLITS)))
def test_no_model_of_frames_learns_from_what_is_held_out(
    tmp_path: Path, splits: str
) -> None:
    way = way_of(tmp_path, *MODELS_OF_FRAMES, *of_vectors(tmp_path, splits), frames=4)
    assert all_learn_nothing(way, splits) >= 4


@pytest.mark.parametrize("splits", amount(("nested", "by clip"), tuple(SPLITS)))
def test_no_model_of_sentences_learns_from_what_is_held_out(
    tmp_path: Path, splits: str
) -> None:
    way = way_of_sentences(tmp_path, *of_vectors(tmp_path, splits))
    assert all_learn_nothing(way, splits) >= 2


def of_vectors(folder: Path, splits: str) -> list[str]:
    """The changes that make these splits, but those of models that are not there."""
    changes = changes_of(folder, splits)
    return [change for change in changes if not change.startswith("models.")]


@pytest.mark.parametrize("splits", SPLITS)
def test_no_baseline_learns_from_what_is_held_out(tmp_path: Path, splits: str) -> None:
    way = case(tmp_path, splits)
    held = folds_to_try(way)[0].joined()
    rows = must_not_be_learned(way, held, by_film=SPLITS[splits][1])
    own = trusted(tmp_path, "own_baseline", OWN_BASELINE, "share_of_scenes")
    for name in ("prevalence", "film_prior", "neighbour", "oracle", own):
        assert not baseline_learns(way, name, held, rows), name


@pytest.mark.parametrize("splits", ["nested", "by clip", "fixed, by film"])
def test_fits_inside_learn_nothing_from_the_clips_that_choose(
    tmp_path: Path, splits: str
) -> None:
    """A fit that chooses a setting is tested on inner clips, and learns nothing of their films."""
    way = case(tmp_path, splits)
    held = folds_to_try(way)[0].joined()
    films = np.unique(held.films[held.train])
    inner_rows = held.train[held.films[held.train] == films[0]]
    inside = held.inner(np.setdiff1d(held.train, inner_rows), inner_rows)
    features = way.run.features
    assert features is not None
    rows = np.zeros(len(way.run.table), dtype=np.bool_)
    rows[inner_rows] = True
    if SPLITS[splits][1]:
        rows = way.run.table.films == films[0]
    for name in ("logistic", "pcbm-lr", "pcbm-h"):
        changed = learns(way, name, inside, rows)
        # The inner scores are those of the replaced clips themselves.
        assert not set(changed) - {"inner", "recalibrated"}, name


def test_films_that_a_learning_curve_leaves_out_teach_nothing(tmp_path: Path) -> None:
    way = case(tmp_path, "nested")
    held = with_few_films(way.run.folds, 2, 0, heldout.HeldOut.joined)[way.pair][0]
    drawn = np.unique(held.films[held.train])
    assert len(drawn) == 2
    rows = ~np.isin(way.run.table.films, drawn)
    for name in ("ridge", "mlp", "pcbm-lr"):
        assert learns(way, name, held, rows) == [], name


def models_of(way: Way) -> list[str]:
    return list(way.run.models)


@pytest.mark.parametrize("splits", ["nested", "by clip"])
def test_the_test_sees_one_held_out_row_that_trains(
    tmp_path: Path, splits: str
) -> None:
    way = case(tmp_path, splits)
    whole = folds_to_try(way)[0]
    for name in models_of(way):
        held = way.run.for_model(way.run.models[name], whole)
        rows = must_not_be_learned(way, held, by_film=SPLITS[splits][1])
        labels = way.run.labels[way.pair[0]]
        one = held.test[labels[held.test] >= 0][0]
        leaking = replace(held, train=np.union1d(held.train, [one]))
        assert learns(way, name, leaking, rows), name


@pytest.mark.parametrize("splits", ["nested", "by clip"])
def test_the_test_sees_one_held_out_clip_that_finds_concept_vectors(
    tmp_path: Path, splits: str
) -> None:
    way = case(tmp_path, splits)
    held = folds_to_try(way)[0].joined()
    rows = must_not_be_learned(way, held, by_film=SPLITS[splits][1])
    one = held.test[np.isin(way.run.table.levels[held.test], ("EN", "S"))][0]
    may_learn = held.may_learn
    may_learn[one] = True
    not_learned = np.flatnonzero(~may_learn)
    leaking = replace(held, hidden=held.hidden[:0], excluded=not_learned)
    for name in ("pcbm-lr", "pcbm-dt", "pcbm-h"):
        assert learns(way, name, leaking, rows), name


# Each rule of `heldout.py`: a line, what it is changed to, and the splits that see the change.
RULES = [
    (
        "        hidden=np.unique(units[tested]),\n",
        "        hidden=NO_ROWS,\n",
        "nested",
    ),
    (
        "        units = table.group_numbers\n",
        "        units = np.arange(len(units))\n",
        "own",
    ),
    (
        "        units = table.group_numbers\n        tested = test_fold\n",
        "        units = np.arange(len(table))\n",
        "nested",
    ),
    (
        "    return not np.isin(films[test_fold], films[others]).any()\n",
        "    return False\n",
        "fixed, by film",
    ),
    (
        "    if split_kind(splits.kind).by_clip or splits.follow_scheme:\n",
        "    if split_kind(splits.kind).by_clip or split_kind(splits.kind).by_task:\n",
        "published, by film",
    ),
    (
        "    tested = test\n",
        "    tested = test[:0]\n",
        "by clip",
    ),
    (
        "        may_learn[self.excluded] = False\n",
        "",
        "published, by the code",
    ),
]


@pytest.mark.parametrize(("line", "other", "splits"), RULES)
def test_each_rule_that_is_taken_out_is_seen(
    tmp_path: Path, line: str, other: str, splits: str
) -> None:
    source = inspect.getsource(heldout)
    assert source.count(line) == 1
    changed = types.ModuleType("changed_heldout")
    changed.__dict__["__name__"] = heldout.__name__
    exec(compile(source.replace(line, other), "heldout.py", "exec"), changed.__dict__)
    # Clips of the tested fold that are in no class of the test task are held out, too.
    way = case(tmp_path, splits, "plain", 'grid.test=["EN_S"]')
    table = way.run.table
    usable = way.inputs.usable(way.run.features)
    inputs = (way.inputs.protocol, table, way.inputs.labels, usable)

    def is_seen(whole: HeldOut) -> bool:
        held = whole.joined()
        if not len(held.test):
            return False
        rows = must_not_be_learned(way, held, by_film=SPLITS[splits][1])
        return any(learns(way, name, held, rows) for name in ("ridge", "pcbm-lr"))

    changed_folds = changed.folds_of(*inputs)[way.pair]
    numbers = range(len(changed_folds))
    first = next(number for number in numbers if is_seen(changed_folds[number]))
    assert not is_seen(folds_of(*inputs)[way.pair][first])


INSIDE = [
    (
        "        return inside.apart()\n",
        "        return inside\n",
    ),
    (
        "        hidden = np.union1d(self.hidden, self.units[self.validation])\n",
        "        hidden = self.hidden\n",
    ),
    (
        "        return replace(self, train=train, excluded=excluded)\n",
        "        return replace(self, train=train)\n",
    ),
    (
        "        train = self.train[stays[self.train]]\n",
        "        train = self.train\n",
    ),
]


@pytest.mark.parametrize(("line", "other"), INSIDE)
def test_each_rule_of_folds_inside_that_is_taken_out_is_seen(
    tmp_path: Path, line: str, other: str
) -> None:
    source = inspect.getsource(heldout)
    assert source.count(line) == 1
    changed = types.ModuleType("changed_heldout")
    changed.__dict__["__name__"] = heldout.__name__
    exec(compile(source.replace(line, other), "heldout.py", "exec"), changed.__dict__)
    way = case(tmp_path, "nested")
    table = way.run.table
    usable = way.inputs.usable(way.run.features)
    found = []
    for module in (heldout, changed):
        folds = module.folds_of(way.inputs.protocol, table, way.inputs.labels, usable)
        held = folds[way.pair][0].joined()
        films = np.unique(held.films[held.train])
        is_first = held.films[held.train] == films[0]
        inside = held.inner(held.train[~is_first], held.train[is_first])
        of_first = learns(way, "pcbm-lr", inside, table.films == films[0])
        joined = module.HeldOut.joined
        few = module.with_few_films({way.pair: [held]}, 2, 0, joined)[way.pair][0]
        drawn = np.random.default_rng([0, 0]).permutation(films)[:2]
        of_others = learns(way, "pcbm-lr", few, ~np.isin(table.films, drawn))
        found.append("scores" in of_first or bool(of_others))
    assert found == [False, True]
