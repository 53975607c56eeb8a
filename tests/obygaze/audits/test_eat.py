"""Association audits: several tests at once, files of vectors, and stores with texts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cli import Result, call_obygaze
from support.stores import a_recipe, made_store, some_ids, some_rows

from obygaze.audits.eat import compute, present
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store.recipe import space_id_of
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
def test_files_of_vectors_that_cannot_be_tested(tmp_path, arrays, words) -> None:
    done = call_obygaze("audit", "eat", "--vectors", save(tmp_path / "v.npz", **arrays))
    assert (done.code, words in done.stderr) == (1, True), done.stderr


# ---- stores ------------------------------------------------------------------------------------

HASH = "ef" * 32
SPACE = space_id_of("toy/clip", "main", HASH)
N = 20


def texts(path: Path, space_id: str | None = SPACE, width: int = 2) -> str:
    """Write a file of three texts; None as the space: the file does not name it."""
    vectors = np.eye(width, dtype=np.float32)[[0, 1, 0]]
    vectors[2] += np.float32(0.1)
    arrays = {"embeddings": vectors, "attribute": np.array(["up", "down", "up"])}
    if space_id is not None:
        arrays["space_id"] = np.array(space_id)
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return str(path)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store, a file of texts, and the manifest: S leans to "up", EN to "down"."""
    clips, films = some_ids(N)
    levels = ["S" if i % 2 else "EN" for i in range(N)]
    rows = []
    for clip, film, level in zip(clips, films, levels, strict=True):
        rows.append(Clip(clip, film, level=level))
    path = tmp_path / "manifests" / "toy.toml"
    write_manifest(Manifest("toy", Header("toy"), tuple(rows)), path)
    lean = np.array([[1.0, 0.2] if level == "S" else [0.2, 1.0] for level in levels])
    noise = np.random.default_rng(0).normal(size=lean.shape)
    values = (lean + 0.05 * noise).astype(np.float32)
    backbone = {"name": "toy", "family": "clip", "levels": {"clip": "frame-mean"}}
    backbone |= {"checkpoint": "toy/clip", "revision": "main"}
    weights = {"model.safetensors": "cd" * 32, "tensors": HASH}
    recipe = a_recipe(backbone=backbone, weights=weights)
    store = tmp_path / "stores" / "toy"
    made_store(store, some_rows(N), {"clip": values}, recipe=recipe)
    texts(tmp_path / "texts.npz")
    return tmp_path


def eat(place, *words, x="level == S", y="level == EN") -> Result:
    if "--text" not in words:
        words = (*words, "--text", str(place / "texts.npz"))
    return call_obygaze(
        "-C", place, "audit", "eat", "toy", *words, "--x", x, "--y", y, "--json"
    )


def test_groups_by_expression_and_by_lists_are_tested_within_films(place: Path) -> None:
    document = eat(place, "toy", "--attributes", "up", "down").ok().json()
    assert (document["n_x"], document["n_y"]) == (10, 10)
    # Four films of five clips, 2 or 3 of them S: 10 ** 4 splits within films, one as far up.
    assert document["p_blocked"]["greater"] == 1 / 10**4
    assert document["blocks"]["n_shared"] == 4
    clips, _ = some_ids(N)
    lists = []
    for name, ids in (("x", clips[1::2]), ("y", clips[0::2])):
        lists.append(str(place / f"{name}.csv"))
        Path(lists[-1]).write_text("\n".join(["clip_id", *ids, ""]), "utf-8")
    # The texts have two attributes: they need not be named.
    listed = eat(place, x=lists[0], y=lists[1]).ok().json()
    assert listed["effect_size"] == document["effect_size"]
    done = eat(place, x=lists[0], y=lists[0])
    assert (done.code, "10 clips are in both groups" in done.stderr) == (1, True)
    done = eat(place, y=lists[0])
    assert (done.code, "needs a manifest to select clips" in done.stderr) == (2, True)


def test_groups_of_windows_are_moved_along_their_films(place: Path) -> None:
    """Four films of five windows: of 5 ** 4 moves, few have all S where "up" is near."""
    manifest = read_manifest("toy", workspace=place)
    groups = ("--x", "level == S", "--y", "level == EN")
    words = (*groups, "--text", place / "texts.npz")
    apart = call_obygaze("-C", place, "audit", "eat", "toy", "toy", *words).ok()
    assert "the times of some clips in their films are not known" in apart.stdout
    windows = []
    start_of: dict[str, float] = {}
    for clip in manifest:
        start_s = start_of.get(clip.movie_id, 0.0)
        start_of[clip.movie_id] = start_s + 2
        windows.append(replace(clip, start_s=start_s, end_s=start_s + 2))
    write_manifest(manifest.with_clips(windows), place / "manifests" / "near.toml")
    done = eat(place, "near").ok().json()
    assert (done["verdict"], done["p"]) == ("moved", None)
    near_up = np.array([clip.level == "S" for clip in windows])
    chances = []
    for film in start_of:
        is_x = near_up[[clip.movie_id == film for clip in windows]]
        # All S are near "up": as far up as observed are moves that change nothing.
        moves = [np.roll(is_x, number) for number in range(len(is_x))]
        chances.append(np.mean([np.array_equal(moved, is_x) for moved in moves]))
    assert done["p_blocked"]["greater"] == pytest.approx(np.prod(chances))
    near = call_obygaze("-C", place, "audit", "eat", "toy", "near", *words).ok()
    assert "the groups are moved along the clips of each film" in near.stdout


def test_texts_of_another_space_or_width_are_refused(place: Path) -> None:
    pinned = texts(place / "p.npz", space_id_of("toy/clip", "0123abc", HASH))
    assert eat(place, "toy", "--text", pinned).code == 0
    other = texts(place / "o.npz", space_id_of("toy/clip", "main", "00" * 32))
    silent = texts(place / "s.npz", None)
    wide = texts(place / "w.npz", width=3)
    for words, code, message in (
        (("--text", other), 5, "different embedding spaces"),
        (("--text", silent), 5, "does not name the embedding space"),
        (("--text", wide), 5, "expected texts with 2 dimensions"),
        (("--text", "none.npz"), 1, "no such file"),
        (("--attributes", "up", "sideways"), 1, "got 'sideways'"),
        (("--vectors", "v.npz"), 2, "got both"),
    ):
        done = eat(place, "toy", *words)
        assert (done.code, message in done.stderr) == (code, True), done.stderr
