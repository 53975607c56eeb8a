"""Association audits: what is document of films, several tests at once, and the whole command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze

from obygaze.audits.eat import compute, present
from obygaze_models.text_vectors import VectorGroup

A, B = [[1.0, 0.0]], [[0.0, 1.0]]


def at(value: float) -> list[float]:
    """A unit vector whose association with A against B is `value`: cos t - sin t."""
    angle = np.arccos(value / np.sqrt(2)) - np.pi / 4
    return [float(np.cos(angle)), float(np.sin(angle))]


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
    """Clips differ by film alone; X holds more of the films that lean to A."""
    random = np.random.default_rng(5)
    arrays: dict[str, list[object]] = {"X": [], "Y": [], "x_block": [], "y_block": []}
    for film in range(10):
        for i in range(8):
            name = "X" if (i < 6) == (film % 2 == 1) else "Y"
            lean = 0.6 if film % 2 else -0.6
            arrays[name].append(at(lean + 0.2 * random.normal()))
            arrays[f"{name.lower()}_block"].append(film)
    path = save(tmp_path / "v.npz", A=A, B=B, **arrays)
    words = ("audit", "eat", "--vectors", path, "--permutations", "20000")
    figure = tmp_path / "f" / "eat"
    done = call_obygaze(*words, "--figure", figure).ok()
    assert "The difference is between films" in done.stdout
    document = call_obygaze(*words, "--json").ok().json()
    assert document["p"]["two_sided"] < 0.001 < 0.1 < document["p_blocked"]["two_sided"]
    call_obygaze(*words, "--figure", figure).ok()  # the same bytes
    again = call_obygaze(*words, "--tail", "less", "--figure", figure)
    assert (again.code, "--force" in again.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": [[1.0, 0.0]], "A": A, "B": B}, "missing array 'Y'; found X, A, B"),
        ({"X": [["a"]], "Y": [[1.0]], "A": A, "B": B}, "must hold numbers"),
        ({"X": A, "Y": B, "A": A, "B": B, "x_block": [1]}, "both x_block and y_block"),
    ],
)
def test_files_of_vectors_that_cannot_be_tested(
    tmp_path: Path, arrays: dict[str, object], words: str
) -> None:
    done = call_obygaze("audit", "eat", "--vectors", save(tmp_path / "v.npz", **arrays))
    assert (done.code, words in done.stderr) == (1, True), done.stderr
