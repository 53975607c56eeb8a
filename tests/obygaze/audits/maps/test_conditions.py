"""Maps of two conditions: means by hand, the paired test against all exchanges."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.cli import call_obygaze
from support.experiments import VISUAL, films
from support.maps import GRID, token_store

from obygaze.audits.maps.boxes import covered_shares
from obygaze.audits.maps.conditions import AT_RANDOM, compare_conditions
from obygaze.audits.maps.stores import write_maps
from obygaze_features.core.errors import FixInput
from obygaze_features.store import Reason, open_store

N_PAIRS = 10
NAMES = ("sad person", "random 1", "random 2")
CELL = (0.2, 0.2, 0.4, 0.4)


def values() -> list[NDArray[np.float64]]:
    """Maps of ten pairs: of the first clip of each, more lies in row 1, column 1."""
    rng = np.random.default_rng(3)
    maps = []
    for pair in range(N_PAIRS):
        for amount in (1.0 + pair / 4, 0.5 + (pair % 3) / 4):
            of_clip = rng.random((len(NAMES), *GRID)) / 8
            of_clip[0, :, 1, 1] += amount
            maps.append(of_clip)
    return maps


@pytest.fixture(scope="module")
def maps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conditions")
    source = token_store(folder / "tokens", films(2, 11), VISUAL[:2])
    ids = source.clip_ids[:22].tolist()
    failed = Reason("failed", "OSError: a broken file")
    results = [*values(), failed, values()[0]]
    write_maps(folder / "maps", source, ids, NAMES, {"method": "by hand"}, results)
    return folder / "maps"


def tables(folder: Path, maps: Path) -> tuple[Path, Path]:
    """The conditions of ten pairs, and the same box for each of their clips."""
    ids = open_store(maps).clip_ids.tolist()
    conditions = ["clip_id,condition,pair"]
    boxes = ["clip_id,x0,y0,x1,y1"]
    for number, clip in enumerate(ids[: 2 * N_PAIRS]):
        name = "objectified" if number % 2 == 0 else "not objectified"
        conditions.append(f"{clip},{name},{number // 2}")
        boxes.append(",".join(map(str, (clip, *CELL))))
    (folder / "conditions.csv").write_text("\n".join(conditions))
    (folder / "boxes.csv").write_text("\n".join(boxes))
    return folder / "conditions.csv", folder / "boxes.csv"


def share_by_hand(of_clip: NDArray[np.float64]) -> float:
    """The part of a map above its mean that lies in row 1, column 1, in half precision."""
    stored = of_clip.astype(np.float16).astype(np.float64)
    above = np.maximum(stored - stored.mean(), 0)
    return float(above[:, 1, 1].sum() / above.sum())


def test_the_paired_test_is_that_of_all_exchanges(maps: Path, tmp_path: Path) -> None:
    conditions, boxes = tables(tmp_path, maps)
    audit = compare_conditions(maps, conditions, boxes=boxes)
    names = [condition["name"] for condition in audit["conditions"]]
    assert names == ["objectified", "not objectified"]
    assert audit["n_pairs"] == N_PAIRS and audit["left_out"] == {}
    of_text, at_random = audit["directions"]
    by_hand = np.array([share_by_hand(of_clip[0]) for of_clip in values()])
    x, y = by_hand[::2], by_hand[1::2]
    assert of_text["shares"] == pytest.approx((x.mean(), y.mean()), abs=1e-9)
    differences = x - y
    signs = np.array(list(product((1, -1), repeat=N_PAIRS)))
    exchanged = np.abs(signs @ differences)
    p = np.mean(exchanged >= abs(differences.sum()) - 1e-12)
    assert of_text["p"] == pytest.approx(p) and of_text["method"] == "exact"
    assert of_text["p_holm"] == of_text["p"]  # one direction that is not random
    assert of_text["difference"] == pytest.approx(differences.mean(), abs=1e-9)
    assert at_random["direction"] == AT_RANDOM and at_random["p"] is None
    assert abs(at_random["difference"]) < 0.05 < of_text["difference"]


def test_covered_shares_against_a_fine_grid() -> None:
    rng = np.random.default_rng(0)
    n = 400
    middle = (np.arange(n) + 0.5) / n
    for _ in range(10):
        ends = np.sort(rng.integers(0, n + 1, (3, 2, 2)) / n, axis=1)
        boxes = [(x0, y0, x1, y1) for (x0, y0), (x1, y1) in ends if x0 < x1 and y0 < y1]
        fine = np.zeros((n, n), dtype=bool)
        for x0, y0, x1, y1 in boxes:
            in_rows = (middle > y0) & (middle < y1)
            fine |= in_rows[:, None] & (middle > x0) & (middle < x1)
        coarse = fine.reshape(4, n // 4, 5, n // 5).mean(axis=(1, 3))
        assert covered_shares(boxes, (4, 5)) == pytest.approx(coarse, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("not objectified,0", "objectified,0"), "has two clips of 'objectified'"),
        (("objectified,1", "objectified,"), "has no pair"),
        (("not objectified,2", "third,2"), "expected two conditions, got 3"),
    ],
)
def test_conditions_that_cannot_be(maps, tmp_path, change, message) -> None:
    conditions, _ = tables(tmp_path, maps)
    conditions.write_text(conditions.read_text().replace(*change, 1))
    with pytest.raises(FixInput, match=message):
        compare_conditions(maps, conditions)


def test_the_command_and_its_figure(maps: Path, tmp_path: Path) -> None:
    conditions, boxes = tables(tmp_path, maps)
    done = call_obygaze(
        *("-C", tmp_path, "audit", "maps", maps, conditions),
        *("--boxes", boxes, "--figure", tmp_path / "means.svg", "--json"),
    )
    document = done.ok().json()
    assert document["n_pairs"] == N_PAIRS
    assert np.array(document["directions"][0]["mean_maps"]).shape == (2, 5, 5)
    svg = (tmp_path / "means.svg").read_text("utf-8")
    assert "not objectified (10)" in svg and "sad person" in svg
