"""An extraction ends with the command that comes next, where that command works."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from obygaze_features.extraction.planning import ExtractionPlan
from obygaze_features.extraction.results import next_steps
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.own_labels import own_tasks
from obygaze_features.store import Array

SHAPES: dict[str, tuple[str, tuple[int, ...]]] = {
    "pooled": ("float32", (4,)),
    "frames": ("float32", (3, 4)),
    "pictures": ("uint8", (3, 8, 8, 3)),
}


@pytest.mark.parametrize(
    ("array", "levels", "n_ok", "expected"),
    [
        (
            "pooled",
            ("EN", "HN", "S"),
            3,
            ["next: obygaze run honest --manifest m --store a/s"],
        ),
        ("pictures", ("EN", "HN", "S"), 3, ["next: obygaze store info a/s"]),
        ("frames", ("EN", "HN", "S"), 3, ["next: obygaze store info a/s"]),
        (
            "pooled",
            ("EN", "S", "S"),
            3,
            ["next: obygaze run honest --manifest m --store a/s --task EN_S"],
        ),
        ("pooled", ("", "", ""), 3, ["next: obygaze models predict MODEL a/s"]),
        # The command would have nothing to read.
        ("pooled", ("EN", "HN", "S"), 0, []),
    ],
)
def test_an_experiment_comes_next_where_array_and_levels_allow_one(
    array: str, levels: tuple[str, ...], n_ok: int, expected: list[str]
) -> None:
    clips = [
        Clip(f"c{i}", "f", level=level, concepts=("Look",))
        for i, level in enumerate(levels)
    ]
    manifest = Manifest("m", Header("made up", {"Look": "visual"}), tuple(clips))
    store: Any = SimpleNamespace(
        target=SimpleNamespace(store="a/s", backbone="own"),
        path=Path("a/s"),
        seal="1",
        view=None,
        arrays=[Array.of(array, *SHAPES[array])],
        work=SimpleNamespace(rows=(), computed=()),
    )
    state: Any = SimpleNamespace(store="a/s", seal="1", ok=n_ok, failures={})
    plan = ExtractionPlan("m", (), None, [store])
    assert next_steps(plan, [state], manifest) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["non", "non", "oui", "non"], "oui"), (["non", "oui", "oui", "non"], "oui")],
)
def test_the_rarer_of_two_words_is_asked_for(words: list[str], expected: str) -> None:
    clips = [
        Clip(f"c{i}", "f", extra={"smoking": word}) for i, word in enumerate(words)
    ]
    assert own_tasks(clips) == [f"smoking={expected}"]


def test_columns_of_few_words_come_before_lengths() -> None:
    """The length of a clip came first, because it was the first column."""
    columns = {
        "length": ("1.2", "1.2", "2.5", "2.5", "1", "?", "1", "1", "1", "1"),
        "seconds": ("1.2", "1.2", "2.5", "2.5", "1", "1", "1", "1", "1", "1"),
        "shot": ("close", "far", "half", "far", "wide", "far"),
        "desired": ("ja", "nein", "Ja", "ja", "nein", "ja"),
        "remark": ("ask Ida", "dark", "ask Ida"),
        "smoking": ("yes", "no", "no", "yes"),
        "rated": ("1", "0", "0", "1"),
    }
    clips = []
    for number in range(10):
        extra = {
            name: cells[number] if number < len(cells) else ""
            for name, cells in columns.items()
        }
        clips.append(Clip(f"c{number}", "f", extra=extra))
    expected = ["smoking", "rated", "desired", "shot", "seconds>=1.2", "length>=1.2"]
    assert own_tasks(clips) == expected


def test_a_rating_is_asked_for_before_remarks_though_a_cell_is_to_be_corrected() -> (
    None
):
    ratings = ["0", "1", "2", "3", "2?", "0", "1", "2", "3", "3"]
    clips = []
    for number, rating in enumerate(ratings):
        extra = {
            "remark": "dark" if number < 3 else "loud",
            "rating (0-3)": rating,
            "age": "7" if number < 5 else "70",
        }
        clips.append(Clip(f"c{number}", "f", extra=extra))
    assert own_tasks(clips) == ["age>=70", "rating (0-3)>=2", "remark=dark"]
