"""Refusals of models, protocols and runs that protect and that hardly anybody meets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.experiments import films, planted, quick
from support.joined_stores import joined_stores
from support.stores import a_recipe

from obygaze_features.core.errors import (
    FixInput,
    FixUsage,
    ObygazeError,
)
from obygaze_features.manifest.clip_facts import ClipFacts
from obygaze_features.store import Store
from obygaze_features.store.recipe import space_of_array
from obygaze_features.store.texts import TextTable
from obygaze_models.evaluation import logistic
from obygaze_models.evaluation.permutation import permutation_p
from obygaze_models.models.concepts import NO_DIRECTION, ConceptBank
from obygaze_models.models.primal import hinge_plane
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.training import training_protocol
from obygaze_models.text_vectors import check_spaces, text_pairs
from obygaze_models.zoo import predicting
from obygaze_models.zoo.info import TrainingClips

Case = Callable[[Path], object]
MANIFEST = films(2, 3)
FACTS = ClipFacts.of(["a-1"], ["a"], [None], [None])
TWO = np.array([[0.0], [1.0]])
ONE_LENGTH = "lists of one length, got (2,), (3,) and (2,)"


def found(C: Any) -> object:
    """Find the plane of a concept that its rows do not have on one side."""
    return ConceptBank(C=C).fit([[-1.0], [1.0], [-1.0], [1.0]], [1, 1, 0, 0])


WORDS = ("joy", "fear", "grief")
TEXTS = TextTable(np.eye(3, dtype="f4"), WORDS, WORDS, WORDS, "")
ZERO_SHOT = (
    "models.zero.kind=zero-shot",
    "models.zero.texts=texts.npz",
    "models.zero.positive=joy",
    "models.zero.negative=fear",
    'grid.models=["zero"]',
)
BACKBONE = {"name": "clip-b16", "card_sha256": "ab" * 32, "family": "clip"}
OF_FRAMES = a_recipe(
    backbone={**BACKBONE, "levels": {"frames": "frame-vector"}},
    weights={"tensors": "cd" * 32},
)
TEXTS_OF_CLIP = replace(TEXTS, space_id=space_of_array(OF_FRAMES, "frames") or "")


def of_frames() -> Any:
    """What is asked of a store with a vector for each frame."""
    array = SimpleNamespace(shape=(3, 4))
    return SimpleNamespace(recipe=OF_FRAMES, location="here", array=lambda _: array)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    """Stores of two senses, and the store of both."""
    X = planted(MANIFEST)
    made: dict[str, Store] = joined_stores(
        tmp_path_factory.mktemp("runs"), MANIFEST, {"a": X, "b": X}
    )
    return made


REFUSED: dict[str, Case] = {
    ONE_LENGTH: lambda _: permutation_p([1, 2], [True, False, True]),
    "value 1 is not a finite": lambda _: permutation_p([1, np.nan], [1, 0]),
    "expected 2 rows of targets, got 1": lambda _: ConceptBank().fit(TWO, [1]),
    "a vector that is not finite": lambda _: hinge_plane(
        TWO, TWO[:, 0] > 0, np.ones(2), np.array([1e200, 0])
    ),
    "needs the folds of a published file": lambda _: found("folds"),
    NO_DIRECTION: lambda _: found(0.1),
    "p:yes: expected one score for each of 1 clips": lambda _: TrainingClips(
        FACTS, {"p:yes": np.zeros(2)}
    ),
    "array 'frames' must have one vector per clip": lambda _: check_spaces(
        of_frames(), "frames", TEXTS_OF_CLIP
    ),
    "the texts have 3 attributes: joy, fear, grief": lambda _: text_pairs(TEXTS, []),
    "no visual concept has": lambda _: training_protocol("cav", "EN_S", MANIFEST),
}


@pytest.mark.parametrize("words", REFUSED)
def test_it_is_refused_in_these_words(words: str, tmp_path: Path) -> None:
    with pytest.raises(ObygazeError) as found:
        REFUSED[words](tmp_path)
    assert words in str(found.value)


def test_a_logistic_fit_that_does_not_converge_has_no_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logistic, "MAX_ITERATIONS", 1)
    with pytest.raises(FixInput, match="did not converge"):
        logistic.fit_logistic([[0], [1], [2], [3]], [0, 1, 0, 1])


def test_texts_are_not_compared_with_features_of_two_models(
    stores: dict[str, Store],
) -> None:
    with pytest.raises(FixUsage, match="a model of texts has no meaning"):
        gather(quick("honest", *ZERO_SHOT), MANIFEST, "", {"x": stores["joined"]})


def test_a_list_of_no_clips_is_not_a_table_of_no_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(predicting, "store_to_read", lambda *_: (None, "clip"))
    model: Any = SimpleNamespace(
        info=SimpleNamespace(features=SimpleNamespace(rule=""))
    )
    with pytest.raises(FixUsage, match="lists no clip"):
        predicting.features_for_model(model, model, [])
