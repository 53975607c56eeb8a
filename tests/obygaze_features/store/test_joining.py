"""Stores that have the vectors of several stores side by side; `tests/rules` draws random ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.plain_store import reseal
from support.stores import a_recipe, made_store, some_rows, some_values
from support.written_stores import files_of

from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    FixUsage,
    Mismatch,
    ObygazeError,
)
from obygaze_features.core.workspace import Workspace
from obygaze_features.store import Array, Recipe, Store, open_store
from obygaze_features.store.card import Terms
from obygaze_features.store.changing import join
from obygaze_features.store.importing.features import import_features
from obygaze_features.store.joining import (
    JoinedPart,
    part_names,
    recipe_of_parts,
    split_array,
)
from obygaze_features.store.recipe import (
    joined_parts,
)
from obygaze_features.store.rows import FAILED

N_ROWS = 10
SEEN = a_recipe(backbone={"name": "xclip-b16"})
HEARD = a_recipe(backbone={"name": "wav2vec2"}, sampling={"medium": "sound"})


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    (tmp_path / "stores").mkdir()
    return Workspace(tmp_path)


def seen_store(here: Workspace, name: str = "seen", **more: Any) -> Store:
    """A store of pictures: of two films, with vectors and frames."""
    arrays = (
        Array.of("pooled", "float16", (3,)),
        Array.of("frames", "float32", (2, 3)),
    )
    values = some_values(N_ROWS, arrays, seed=1)
    rows = more.pop("rows", some_rows(N_ROWS))
    path = here.root / "stores" / name
    return made_store(path, rows, values, **({"recipe": SEEN} | more))


def heard_store(here: Workspace, name: str = "heard", **more: Any) -> Store:
    """A store of sound: one clip has none, and another one is not there."""
    rows = more.pop("rows", None)
    if rows is None:
        rows = some_rows(N_ROWS)
        rows[2] = rows[2]._replace(status=FAILED, reason="no-sound: no sound")
        del rows[4]
    arrays = (Array.of("clip", "float32", (2,)),)
    values = some_values(len(rows), arrays, seed=2)
    path = here.root / "stores" / name
    return made_store(path, rows, values, **({"recipe": HEARD} | more))


def both(here: Workspace, name: str = "both") -> Store:
    """The join of both."""
    seen_store(here)
    heard_store(here)
    join(["seen", "heard"], name, workspace=here.root)
    return open_store(here.root / "stores" / name)


def test_the_terms_are_those_of_all_parts(here: Workspace) -> None:
    seen_store(here, terms=Terms("CC-BY-4.0", "One."))
    heard_store(here, terms=Terms("MIT", "Two."))
    with pytest.raises(Mismatch, match=r"have different licences: .*heard: MIT"):
        join(["seen", "heard"], "both", workspace=here.root)
    join(["seen", "heard"], "both", licence="CC-BY-4.0", workspace=here.root)
    terms = open_store(here.root / "stores/both").terms
    assert terms == Terms("CC-BY-4.0", "Two. | One.")


Refusal = tuple[Callable[[Workspace], object], str]
REFUSALS: dict[str, Refusal] = {
    "one part": (
        lambda here: join(["seen"], "x", workspace=here.root),
        "a join needs at least two parts",
    ),
    "the same part": (
        lambda here: join(["seen", "seen:pooled"], "x", workspace=here.root),
        "this is the same part as .*seen",
    ),
    "a join of a join": (
        lambda here: join(["both", "seen"], "x", workspace=here.root),
        "this store joins wav2vec2, xclip-b16",
    ),
    "windows with clips": (
        lambda here: join(["windows", "heard"], "x", workspace=here.root),
        "do not say that both have clips, or windows that were cut in the same way",
    ),
    "other clips": (
        lambda here: join(["other", "heard"], "x", workspace=here.root),
        "no clip has features in all of other, wav2vec2",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused(here: Workspace, name: str) -> None:
    both(here)
    grid = {"rule": "grid", "grid": {"seconds": 2, "window": 16}}
    seen_store(here, "windows", recipe=a_recipe(sampling=grid))
    other = [row._replace(clip_id=f"x{row.clip_id}") for row in some_rows(N_ROWS)]
    seen_store(here, "other", rows=other, recipe=a_recipe(backbone={"name": "other"}))
    refused, words = REFUSALS[name]
    before = files_of(here.root)
    with pytest.raises(ObygazeError, match=words):
        refused(here)
    assert files_of(here.root) == before


def parts_of_recipe(*titles: str) -> list[dict[str, Any]]:
    """Parts as they stand in a recipe."""
    parts = []
    for title in titles:
        part = JoinedPart(title, a_recipe().fingerprint, title, "float32", 2, "")
        parts.append(part)
    return list(recipe_of_parts(parts)["joined"])


@pytest.mark.parametrize(
    "joined",
    [
        *("parts", [1, 2]),
        parts_of_recipe("a"),
        parts_of_recipe("b", "a"),
        [{**part, "width": 0} for part in parts_of_recipe("a", "b")],
        [{**part, "dtype": "float64"} for part in parts_of_recipe("a", "b")],
        [{**part, "fingerprint": "a"} for part in parts_of_recipe("a", "b")],
        [{**part, "more": 1} for part in parts_of_recipe("a", "b")],
        # The array has five numbers.
        parts_of_recipe("a", "b"),
    ],
)
def test_a_strangers_parts_are_checked(here: Workspace, joined: Any) -> None:
    both(here)
    folder = here.root / "stores/both"

    def spoil(document: dict[str, Any]) -> None:
        document["recipe"] = {"joined": joined}

    reseal(folder, spoil)
    with pytest.raises((FixInput, Corrupt)):
        _ = open_store(folder).recipe


def test_a_strangers_windows_are_checked(here: Workspace) -> None:
    parts = joined_parts(both(here).recipe)
    for sampling in ("a", 1, [1]):
        with pytest.raises(FixInput, match="sampling has an invalid value"):
            Recipe.from_json({**recipe_of_parts(parts), "sampling": sampling})
    folder = here.root / "stores/both"

    def spoil(document: dict[str, Any]) -> None:
        recipe = Recipe.from_json(recipe_of_parts(parts, {"unit": "window"}))
        document |= {"recipe": recipe.to_json(), "fingerprint": recipe.fingerprint}

    reseal(folder, spoil)
    with pytest.raises(Corrupt, match="has the array clip of all their vectors"):
        _ = open_store(folder).recipe


def test_names_of_parts_are_different() -> None:
    first, second = "1" * 64, "2" * 64
    parts = [
        JoinedPart("a", first, "clip", "float32", 2, ""),
        JoinedPart("b", first, "clip", "float32", 2, ""),
        JoinedPart("b", first, "pooled", "float32", 2, ""),
        JoinedPart("c", first, "clip", "float32", 2, ""),
        JoinedPart("c", second, "clip", "float32", 2, ""),
    ]
    names = ["a", "b:clip", "b:pooled", "c:clip@11111111", "c:clip@22222222"]
    assert part_names(parts) == names


@pytest.mark.parametrize(
    ("text", "store", "array"),
    [
        ("films:clip", "films", "clip"),
        (
            "https://example.org:8000/films:clip",
            "https://example.org:8000/films",
            "clip",
        ),
        (f"films#sha256={'a' * 64}:clip", f"films#sha256={'a' * 64}", "clip"),
        (":clip", ":clip", ""),
        ("films:", "films:", ""),
    ],
)
def test_a_store_is_named_with_its_array(text: str, store: str, array: str) -> None:
    assert split_array(text) == (store, array)


def test_a_name_does_not_make_a_joined_store(here: Workspace) -> None:
    np.savez(here.root / "a.npz", clip_id=["a-1"], X=np.ones((1, 3)))
    with pytest.raises(FixUsage, match="would be taken for the features of joined"):
        import_features(
            here.root / "a.npz",
            "x",
            arrays={"clip": "X"},
            backbone="joined: a + b",
            workspace=here.root,
        )
