"""Association audits: what is document of films, several tests at once, and the whole command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze

from obygaze.audits.eat import compute, present, run_tests
from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.group_tests import GroupTest
from obygaze_models.text_vectors import VectorGroup

A, B = [[1.0, 0.0]], [[0.0, 1.0]]


def at(value: float) -> list[float]:
    """A unit vector whose association with A against B is `value`: cos t - sin t."""
    angle = np.arccos(value / np.sqrt(2)) - np.pi / 4
    return [float(np.cos(angle)), float(np.sin(angle))]


def only_films() -> tuple[VectorGroup, VectorGroup]:
    """Clips that differ by film alone; X holds more of the films that lean to A."""
    random = np.random.default_rng(5)
    sides: dict[str, tuple[list[list[float]], list[str]]] = {
        "X": ([], []),
        "Y": ([], []),
    }
    for film in range(10):
        lean = 0.6 if film % 2 else -0.6
        for i in range(8):
            name = "X" if (i < 6) == (film % 2 == 1) else "Y"
            sides[name][0].append(at(lean + 0.2 * random.normal()))
            sides[name][1].append(f"tt{film:07d}")
    return VectorGroup("X", *sides["X"]), VectorGroup("Y", *sides["Y"])


PAIR = [(VectorGroup("A", A), VectorGroup("B", B))]


def only_test(x: VectorGroup, y: VectorGroup) -> GroupTest:
    (test,) = run_tests(x, y, PAIR, permutations=20_000)
    return test


def test_groups_with_other_films_than_vectors_are_refused() -> None:
    with pytest.raises(FixInput, match=r"blocks of shape \(1,\) for 2 rows"):
        VectorGroup("X", [[1.0], [2.0]], [1])


def test_difference_within_films_hidden_across_films_is_found() -> None:
    x = [at(lean + 0.05) for lean in (-0.8, -0.3, 0.3, 0.8) for _ in range(3)]
    y = [at(lean - 0.05) for lean in (-0.8, -0.3, 0.3, 0.8) for _ in range(3)]
    films = [film for film in range(4) for _ in range(3)]
    test = only_test(VectorGroup("X", x, films), VectorGroup("Y", y, films))
    assert test.across.two_sided > 0.3
    # In each of four films all three of X are above all three of Y: both ends of 20 ** 4 splits.
    assert test.within is not None
    assert test.within.two_sided == 2 / 20**4
    assert "hidden across films" in test.to_json()["why"]


def test_tests_of_one_call_are_corrected_together() -> None:
    x = VectorGroup("X", [at(0.5 + 0.01 * i) for i in range(4)])
    y = VectorGroup("Y", [at(0.1 + 0.01 * i) for i in range(4)])
    pairs = [
        (VectorGroup("A", A), VectorGroup("B", B)),
        (VectorGroup("B", B), VectorGroup("A", A)),
    ]
    same = (VectorGroup("A", A), VectorGroup("A", A))
    result = present(compute((x, y, [*pairs, same])), "made up")
    # Four above four: two of 70 splits are as far; no difference at all has p = 1.
    tests = result["tests"]
    assert [test["p"]["two_sided"] for test in tests] == [2 / 70, 2 / 70, 1.0]
    assert [test["p_holm"] for test in tests] == pytest.approx([6 / 70, 6 / 70, 1.0])
    document = result.to_json()
    assert "effect_size" not in document
    assert document["tests"][0]["effect_size"] == -document["tests"][1]["effect_size"]
    assert "Holm's correction is over these 3 tests." in result.answers


# ---- the command -------------------------------------------------------------------------------


def save(path: Path, **arrays: object) -> Path:
    np.savez(path, **{name: np.asarray(array) for name, array in arrays.items()})
    return path


def test_command_explains_difference_within_and_across_films(tmp_path: Path) -> None:
    x, y = only_films()
    codes = {name: i for i, name in enumerate(sorted({*x.blocks, *y.blocks}))}  # type: ignore[misc]
    path = save(
        tmp_path / "v.npz",
        **{"X": x.vectors, "Y": y.vectors, "A": A, "B": B},
        x_block=[codes[film] for film in x.blocks or ()],
        y_block=[codes[film] for film in y.blocks or ()],
    )
    words = ("audit", "eat", "--vectors", path, "--permutations", "20000")
    rows, figure = tmp_path / "t.csv", tmp_path / "f" / "eat"
    done = call_obygaze(*words, "--table", rows, "--figure", figure).ok()
    assert "The difference is between films" in done.stdout
    document = call_obygaze(*words, "--json").ok().json()
    assert document["p"]["two_sided"] < 0.001 < 0.1 < document["p_blocked"]["two_sided"]
    assert rows.read_text("utf-8").startswith("X,Y,")
    assert (tmp_path / "f" / "eat.svg").read_bytes().startswith(b"<?xml")
    assert (tmp_path / "f" / "eat.png").read_bytes().startswith(b"\x89PNG")
    call_obygaze(*words, "--figure", figure).ok()  # the same bytes
    again = call_obygaze(*words, "--tail", "less", "--figure", figure)
    assert (again.code, "--force" in again.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": [[1.0, 0.0]], "A": A, "B": B}, "missing array 'Y'; found X, A, B"),
        ({"X": [["a"]], "Y": [[1.0]], "A": A, "B": B}, "must hold numbers"),
        (
            {"X": [[0.0, 0.0]], "Y": [[1.0, 0.0]], "A": A, "B": B},
            "vector 0 of X is zero",
        ),
        (
            {"X": A, "Y": B, "A": A, "B": B, "x_block": [1]},
            "both x_block and y_block or neither",
        ),
        (
            {"X": A, "Y": B, "A": A, "B": B, "x_block": [1, 2], "y_block": [1]},
            "for 1 rows",
        ),
        (
            {"X": A, "Y": [[1.0, 0.0, 0.0]], "A": A, "B": B},
            "the same number of dimensions",
        ),
    ],
)
def test_files_of_vectors_that_cannot_be_tested(
    tmp_path: Path, arrays: dict[str, object], words: str
) -> None:
    done = call_obygaze("audit", "eat", "--vectors", save(tmp_path / "v.npz", **arrays))
    assert (done.code, words in done.stderr) == (1, True), done.stderr
