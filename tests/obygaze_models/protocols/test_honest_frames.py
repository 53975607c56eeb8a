"""The protocol honest-frames on planted frames: who finds a signal, and the gain over the mean."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.experiments import cell_of, films, quick, run_on, store_of

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_models.models import common
from obygaze_models.protocols.clips import clip_table
from obygaze_models.protocols.runner import features
from obygaze_models.protocols.runner.features import join
from obygaze_models.protocols.schema import Data
from obygaze_models.report.lookup import ReportRun
from obygaze_models.report.page import sections_of


def marked(manifest: Any) -> Any:
    """Frames of noise: in sure clips A comes before B, in the others B before A."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(len(manifest), 6, 8)).astype(np.float32)
    for row, clip in enumerate(manifest):
        first, second = np.sort(rng.choice(6, 2, replace=False))
        a, b = (first, second) if clip.level == "S" else (second, first)
        X[row, a, 0] += 5
        X[row, b, 1] += 5
    return X


def test_a_bottleneck_over_time_shows_its_rules(tmp_path: Path) -> None:
    """Sure clips have Look before Body or after it, hard ones one of both: concepts to find."""
    rng = np.random.default_rng(1)
    clips, X = [], rng.normal(size=(240, 6, 8)).astype(np.float32)
    for row, clip in enumerate(films(6, 40)):
        level = ("S", "S", "HN", "EN")[row % 4]
        names = {
            "S": ("Look", "Body"),
            "HN": ("Look",) if row % 8 < 4 else ("Body",),
            "EN": (),
        }
        order = ("LB", "BL", "", "")[row % 4]
        places = np.sort(rng.choice(6, 2, replace=False))
        places = places[::-1] if order == "BL" else places
        for column, (name, place) in enumerate(
            zip(("Look", "Body"), places, strict=True)
        ):
            X[row, place, column] += 6 * (name in names[level])
        clips.append(
            replace(clip, level=level, concepts=names[level], extra={"order": order})
        )
    manifest = replace(films(6, 40), clips=tuple(clips), columns=("order",))
    store = store_of(tmp_path / "frames", manifest, X, array="frames")
    protocol = quick(
        *(
            "honest-frames",
            "tasks.order.positive=order == LB",
            "tasks.order.negative=order == BL",
        ),
        *(
            'grid.train=["order", "EN_S"]',
            'grid.test=["order", "EN_S"]',
            'grid.models=["mean", "pcbm-time"]',
        ),
        "models.pcbm-time.tolerance=0.1",
    )
    run = run_on(tmp_path, protocol, manifest, {"x": store})
    ap = {
        m: cell_of(run.cells, model=m, test="order")["ap"]
        for m in ("mean", "pcbm-time")
    }
    assert ap["pcbm-time"]["value"] > 0.9 and ap["mean"]["value"] < 0.65
    head, binary = (r for r in run.of("concept-model") if r["part"] == "head")
    rules = dict(zip(head["concepts"], head["rules"], strict=True))
    assert rules == {"Look": "before Body", "Body": "before Look"}
    assert head["weights"]["coef"][head["concepts"].index("Look")] > 0
    assert head["interventions"] == []  # every clip of the task has both concepts
    assert [curve["order"] for curve in binary["interventions"]] == ["greedy", "random"]
    (bank,) = [r for r in run.of("concept-model") if r["part"] == "concepts"]
    for concept in bank["concepts"]:  # found, and not from random frames
        assert concept["auc"]["value"] > 0.8 > concept["noise"]["auc"]
    text = "".join(
        table.as_csv() for s in sections_of(ReportRun.of_run(run)) for table in s.tables
    )
    assert "before Look" in text


def test_frames_are_those_of_the_store(tmp_path: Path) -> None:
    manifest = films(3, 20)
    X = marked(manifest)
    bad, gone = manifest.clips[4].clip_id, manifest.clips[9].clip_id
    store = store_of(
        tmp_path / "s", manifest, X, array="frames", failed=[bad], without=[gone]
    )
    table = clip_table(manifest, Data())
    found = join("x", store, table, Data(array=("frames",)), frames=True)
    assert sorted(found.missing) == sorted([bad, gone])
    rows = np.array([3, 12, 0])
    np.testing.assert_array_equal(found.of(rows), X[rows])
    with pytest.raises(FixInput, match="one vector"):
        join("x", store, table, Data(array=("frames",)))
    with pytest.raises(FixInput, match="unscaled frames"):
        join("x", store, table, Data(array=("frames",), scale="unit"), frames=True)


def test_frames_are_held_in_memory_once(tmp_path: Path) -> None:
    manifest = films(3, 20)
    X = np.zeros((60, 16, 4096), dtype=np.float32)
    store = store_of(tmp_path / "s", manifest, X, array="frames")
    table = clip_table(manifest, Data())
    tracemalloc.start()
    found = join("x", store, table, Data(array=("frames",)), frames=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # With what decoding takes; copies for a selection and for the checksum were two more.
    assert found.X.nbytes == X.nbytes and peak < 2.5 * X.nbytes


def run_on_tokens(place: Path, values: Any) -> tuple[bytes, int]:
    """Run attention on a store of tokens; return the records, and the most bytes that were held."""
    manifest = films(4, 50)
    store = store_of(
        place / "tokens", manifest, values, array="tokens", failed=["tt0000002-007"]
    )
    protocol = quick(
        *("honest-frames", 'data.array=["tokens"]', 'grid.models=["attention"]'),
        *(
            "grid.baselines=[]",
            "models.attention.max_passes=2",
            'grid.train=["EN_S"]',
            'grid.test=["EN_S"]',
        ),
    )
    tracemalloc.start()
    folder = run_on(place, protocol, manifest, {"x": store}).folder
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (folder / "results.json").read_bytes(), peak


@pytest.mark.check("holds large tokens and traces all memory")
def test_tokens_that_are_large_stay_in_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).normal(size=(200, 4, 16, 512)).astype(np.float32)
    monkeypatch.setattr(common, "CLIPS_A_BLOCK", 10)
    whole, most = run_on_tokens(tmp_path / "whole", values)
    monkeypatch.setattr(features, "LARGE_BYTES", values.nbytes - 1)
    streamed, peak = run_on_tokens(tmp_path / "streamed", values)
    assert streamed == whole
    # Blocks of the store have 64 clips. A run that holds all 200 holds some of them twice.
    assert peak < 0.8 * values.nbytes < values.nbytes < most


def test_models_of_frames_and_of_clips_are_not_mixed(tmp_path: Path) -> None:
    manifest = films(3, 20)
    store = store_of(tmp_path / "s", manifest, marked(manifest), array="frames")
    protocol = quick("honest-frames", "models.ridge.kind=ridge")
    with pytest.raises(FixUsage, match="a protocol each"):
        run_on(tmp_path, protocol, manifest, {"x": store})
