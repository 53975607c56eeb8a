"""Refusals of commands that hardly anybody meets: each is one sentence and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.cli import call_obygaze
from support.experiments import films

from obygaze.audits.gender import cut_shares
from obygaze_features.backbones import captions
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.own_results import REPORT, check_file
from obygaze_features.manifest.clip_facts import ClipFacts
from obygaze_features.manifest.expression import parse
from obygaze_features.manifest.io import write_manifest
from obygaze_features.video.decode import decode_views
from obygaze_features.video.pool import DecodePool
from obygaze_models.models.linear_solvers import Gram
from obygaze_models.runner.store_run import StoreRun
from obygaze_models.zoo import predicting


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    manifest = films(2, 3).with_column("mood", {})
    write_manifest(manifest, tmp_path / "manifests" / "films.toml")
    (tmp_path / "runs").mkdir()
    (tmp_path / "words.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nOh\n")
    (tmp_path / "folder").mkdir()
    for ending in ("toml", "csv"):
        files = tmp_path / "manifests"
        (files / f"imported.{ending}").write_bytes(
            (files / f"films.{ending}").read_bytes()
        )
    clip_id = manifest.clips[0].clip_id
    (tmp_path / "more.csv").write_text(f"clip_id,mood,level\n{clip_id},calm,S\n")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("manifest stats films --where level==NS", "no clip with level==NS"),
        ("manifest import words.srt --as table -o words", "this is no table"),
        ("models show folder", "no model here: no model.json"),
        (
            "view films --run first --scores scores.csv",
            "one source of scores, got both",
        ),
        ("manifest show imported", "a manifest cannot be called 'imported'"),
        ("manifest join films more.csv", "the manifest has these columns already"),
        ("manifest labels films --rule agreed -o labels", "there is no table of annot"),
    ],
)
def test_a_command_is_refused(workspace: Path, line: str, sentence: str) -> None:
    before = sorted(workspace.rglob("*"))
    done = call_obygaze(*line.split(), cwd=workspace)
    assert 1 <= done.code <= 5
    assert sentence in done.stderr
    assert sorted(workspace.rglob("*")) == before


def years_of_words() -> object:
    asked = parse("year > 1990", vocabulary={})
    return asked.holds(lambda column: ["about 1990"])


def closed_pool() -> object:
    pool = DecodePool(1)
    pool.close()
    job: Any = None
    return pool.submit(job)


def times_that_are_no_seconds() -> object:
    return ClipFacts.of_cells([{"clip_id": "a", "start_s": "0:10", "end_s": ""}])


def prediction_of_no_features() -> object:
    matrix: Any = SimpleNamespace(values=np.empty((0, 2)), clip_ids=[], reasons={})
    store: Any = SimpleNamespace(location="seen")
    model: Any = None
    return predicting._predicted(model, store, matrix, (), None, in_sample=False)


def plane_of_no_numbers() -> object:
    gram = Gram(np.array([[1.0], [2.0], [3.0], [4.0]]))
    gram.prepare()
    gram.X = np.full((4, 1), np.inf)
    return gram.svm(np.arange(4), np.array([True, False, True, False]), 1.0)


def language_without_a_start() -> object:
    tokenizer = SimpleNamespace(bos_token_id=None, eos_token_id=None)
    loaded: Any = SimpleNamespace(eval=lambda: None)
    with pytest.MonkeyPatch.context() as patch:
        read = iter([loaded, tokenizer])
        patch.setattr(captions, "from_pretrained", lambda *_, **__: next(read))
        return captions.LanguageModel("tiny")


def run_without_store() -> object:
    run: Any = SimpleNamespace(features=None)
    return StoreRun.of_store.fget(run)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (years_of_words, "expected numbers in the column year, got 'about 1990'"),
        (run_without_store, "a model needs a store"),
        (lambda: cut_shares(0, 0), "expected counts with a positive sum"),
        (lambda: DecodePool(0), "workers must be 1 to"),
        (lambda: DecodePool(1, timeout_s=0), "timeout_s must be above 0, got 0"),
        (closed_pool, "the decode pool is closed"),
        (prediction_of_no_features, "none of these clips has features"),
        (plane_of_no_numbers, "a vector that is not finite"),
        (language_without_a_start, "has no token for the start of a text"),
        (times_that_are_no_seconds, "start_s of the clip 'a' is '0:10', expected"),
        (lambda: list(decode_views(Path("x.mp4"), [])), "at least one view"),
        (
            lambda: check_file(Path(__file__).parent, REPORT),
            "expected a file, got a folder",
        ),
    ],
)
def test_a_call_is_refused(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ObygazeError, match=sentence):
        call()
