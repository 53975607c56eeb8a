from pathlib import Path

import numpy as np
import pytest
from support.plain_store import array_of, rows_of, write_plain_store
from support.stores import a_recipe, made_store

from obygaze_features.core.errors import FixInput, ObygazeWarning
from obygaze_features.manifest.model import Clip
from obygaze_features.store.layout import Array
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.rows import Row

FPS = 24000 / 1001
SECTIONS = ("weights", "decoder", "preprocessing", "compute")


def windows_store(
    path: Path,
    films: dict[str, int],
    window: int = 16,
    stride: int = 16,
    status_of_row: dict | None = None,
    chunk_rows: int = 4,
) -> tuple[Store, np.ndarray]:
    """A store of windows: `films` maps each film to its number of windows; and its vectors."""
    ids = [(film, n) for film, count in films.items() for n in range(count)]
    sampling = {"unit": "window", "grid": {"window": window, "stride": stride}}
    recipe = {"backbone": {"name": "toy"}, "sampling": sampling}
    recipe |= {section: {} for section in SECTIONS}
    vectors = np.random.default_rng(1).standard_normal((len(ids), 3)).astype("float32")
    arrays = [
        array_of("clip", vectors, chunk_rows=chunk_rows, file_rows=2 * chunk_rows)
    ]
    names = [f"{film}:{n:06d}" for film, n in ids]
    rows = rows_of(names, [film for film, _ in ids], status_of_row)
    for row, (_, n) in zip(rows, ids, strict=True):
        if row["status"] == "ok":
            row["start_s"] = n * stride / FPS
            row["end_s"] = (n * stride + window) / FPS
    write_plain_store(path, {"clip": vectors}, rows, arrays=arrays, recipe=recipe)
    return open_store(path), vectors


def segment(name: str, film: str, first: int, last: int, fps: float = FPS) -> Clip:
    """A segment of whole pictures, the last one included."""
    return Clip(name, film, None, "", first / fps, (last + 1) / fps)


def by_loop(
    window: int, stride: int, n: int, first: int, last: int, rule: str
) -> list[int]:
    """The windows of the pictures first to last, from the definition, in whole pictures."""
    pictures = set(range(first, last + 1))
    found = []
    for number in range(n):
        own = range(number * stride, number * stride + window)
        twice_centre = 2 * number * stride + window
        holds = {
            "touch": bool(pictures & set(own)),
            "centre": 2 * first <= twice_centre < 2 * (last + 1),
            "within": set(own) <= pictures,
        }[rule]
        found += [number] if holds else []
    return found


@pytest.mark.parametrize("rule", ["touch", "centre", "within"])
@pytest.mark.parametrize(("window", "stride"), [(16, 4), (8, 12)])
def test_a_rule_is_its_definition(rule, window, stride, tmp_path) -> None:
    store, values = windows_store(tmp_path / "s", {"a": 40, "b": 25}, window, stride)
    random = np.random.default_rng(2)
    segments, expected = [], {}
    for number in range(200):
        film = "ab"[number % 2]
        first = int(random.integers(0, 40 * stride))
        last = first + int(random.integers(0, 6 * stride))
        segments.append(segment(f"s{number}", film, first, last))
        n, base = (40, 0) if film == "a" else (25, 40)
        rows = [base + w for w in by_loop(window, stride, n, first, last, rule)]
        if rows:
            expected[f"s{number}"] = values[rows]
    found = store.segments(segments, "clip", rule=rule)
    assert found.clip_ids.tolist() == list(expected)
    for i, clip_id in enumerate(found.clip_ids.tolist()):
        own = found.values[found.offsets[i] : found.offsets[i + 1]]
        np.testing.assert_array_equal(own, expected[clip_id])
    assert found.reasons.keys() == {s.clip_id for s in segments} - expected.keys()
    assert found.present.tolist() == [s.clip_id in expected for s in segments]
    reducers = {
        "max": lambda v: v.max(axis=0),
        "mean": lambda v: v.astype(np.float64).mean(axis=0).astype(np.float32),
        "first": lambda v: v[0],
        "last": lambda v: v[-1],
    }
    for name, reducer in reducers.items():
        reduced = store.segments(segments, "clip", rule=rule, reduce=name)
        assert reduced.clip_ids.tolist() == list(expected)
        hand = np.array([reducer(v) for v in expected.values()])
        np.testing.assert_allclose(reduced.values, hand, rtol=1e-6)
        assert reduced.offsets.tolist() == found.offsets.tolist()


def test_touch_is_the_slice_of_mobygaze_though_its_rate_is_rounded(tmp_path) -> None:
    """The authors slice start_frame // 16 to end_frame // 16, with both, at a rate of 23.976."""
    n = 8000
    store, values = windows_store(tmp_path / "s", {"tt1": n}, chunk_rows=512)
    random = np.random.default_rng(3)
    first = random.integers(0, 16 * n - 600, 500)
    last = first + random.integers(0, 500, 500)
    # Borders that are those of a window as well.
    first[:100], last[100:200] = first[:100] // 16 * 16, last[100:200] // 16 * 16 + 15
    last = np.maximum(first, last)
    pairs = enumerate(zip(first.tolist(), last.tolist(), strict=True))
    segments = [segment(f"s{i}", "tt1", a, b, fps=23.976) for i, (a, b) in pairs]
    found = store.segments(segments, "clip", rule="touch")
    for i, (a, b) in enumerate(zip(first, last, strict=True)):
        own = found.values[found.offsets[i] : found.offsets[i + 1]]
        np.testing.assert_array_equal(own, values[a // 16 : b // 16 + 1])


def test_a_segment_without_a_window_says_why(tmp_path: Path) -> None:
    failed = dict.fromkeys((2, 3, 4), ("failed", "no"))
    store, values = windows_store(tmp_path / "s", {"a": 10}, status_of_row=failed)
    segments = [
        *(segment("late", "a", 200, 300), segment("fine", "a", 16, 90)),
        *(segment("failed", "a", 33, 70), segment("film", "z", 0, 20)),
        *(Clip("none", "a"), segment("short", "a", 5, 10)),
    ]
    with pytest.warns(ObygazeWarning, match="3 windows of these films without feat"):
        found = store.segments(segments, "clip", rule="touch", reduce="max")
    assert found.clip_ids.tolist() == ["fine", "short"]
    # Windows 1 to 5 touch it; 2, 3 and 4 failed.
    np.testing.assert_array_equal(found.values, [values[[1, 5]].max(axis=0), values[0]])
    reasons = {name: str(why) for name, why in found.reasons.items()}
    assert list(reasons) == ["late", "failed", "film", "none"]
    without_window = "missing: no window with features touches it"
    assert reasons["late"] == reasons["failed"] == without_window
    assert "film" in reasons["film"] and "no times" in reasons["none"]
    assert len(store.segments([], "clip")) == 0
    assert len(store.segments([], "clip", reduce="mean")) == 0
    for wrong in ({"rule": "near"}, {"reduce": "median"}, {"reduce": ""}):
        with pytest.raises(FixInput, match="must be one of"):
            store.segments(segments, "clip", **wrong)
    write_plain_store(tmp_path / "c", {"x": np.ones((1, 1))}, rows_of(["a"], ["f"]))
    with pytest.raises(FixInput, match="expected a store of windows"):
        open_store(tmp_path / "c").segments(segments, "x")


def test_padding_of_windows_is_in_no_vector(tmp_path: Path) -> None:
    """The last of three windows has one frame of two."""
    frames = np.full((3, 2, 4), -1, np.float32)
    frames[2, 1] = 0
    mask = np.ones((3, 2), bool)
    mask[2, 1] = False
    arrays = [
        Array.of("frames", "float32", (2, 4), ("frame", "width")),
        Array.of("mask", "bool", (2,), ("frame",)),
    ]
    rows = [Row(f"a:{n}", "a", float(n), n + 1.0) for n in range(3)]
    recipe = a_recipe(sampling={"unit": "window", "grid": {"window": 2}})
    values = {"frames": frames, "mask": mask}
    store = made_store(tmp_path / "s", rows, values, arrays=arrays, recipe=recipe)
    clips = [Clip("x", "a", start_s=0.0, end_s=2.0)]
    found = store.segments(clips, "frames", reduce="max")
    np.testing.assert_array_equal(found.values, frames[:1])
    longer = [Clip("y", "a", start_s=0.0, end_s=3.0)]
    assert len(store.segments(longer, "frames").values) == 3
    with pytest.raises(FixInput, match="frames has windows with padding"):
        store.segments(longer, "frames", reduce="max")


def test_the_windows_of_a_film_may_be_in_any_order(tmp_path: Path) -> None:
    """Two stores of a film may have been merged, the later part first."""
    store, vectors = windows_store(tmp_path / "s", {"a": 20})
    order = [*range(12, 20), *range(12)]
    numbers = np.array(order, "int32")[:, None]
    values = {"clip": store.read("clip", order), "number": numbers}
    rows = rows_of([f"a:{n:06d}" for n in order], ["a"] * 20)
    for row, n in zip(rows, order, strict=True):
        row |= {"start_s": store.rows[n].start_s, "end_s": store.rows[n].end_s}
    write_plain_store(
        tmp_path / "turned",
        values,
        rows,
        arrays=[array_of(*one, chunk_rows=4, file_rows=8) for one in values.items()],
        recipe=store.recipe.to_json(),
    )
    turned = open_store(tmp_path / "turned")
    first_two = [segment("x", "a", 0, 31)]
    mean = turned.segments(first_two, "number", reduce="mean").values
    assert mean.tolist() == [[0.5]]
    for first in range(0, 19 * 16, 16):
        found = turned.segments([segment("x", "a", first, first + 31)], "clip").values
        np.testing.assert_array_equal(found, vectors[first // 16 : first // 16 + 2])


def test_a_segment_shorter_than_a_picture_touches_the_window_that_it_is_in(tmp_path):
    store, values = windows_store(tmp_path / "s", {"a": 4})
    border = 16 / FPS
    instant = Clip("i", "a", None, "", border + 0.001, border + 0.002)
    found = store.segments([instant], "clip", rule="touch")
    np.testing.assert_array_equal(found.values, values[[1]])
