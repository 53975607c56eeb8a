"""A real browser: what somebody who sees only the page would say of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.browsers import browser, go, open_page, text, wait
from support.film_pages import film_clips, manifest, page_file, site
from support.run_tables import MANIFEST, Clips, MadeCell, labels_of, made_run

from obygaze_models.runner.answer import sentence_of
from obygaze_models.runner.files import Run

__all__ = ["browser"]
pytest.importorskip("selenium.webdriver")
pytestmark = pytest.mark.check("drives a browser")


def run_of(folder: Path, scores: dict[str, float]) -> Run:
    """A run of one model with these scores of the clips of a film; odd ones are positive."""
    is_odd = np.array([int(name[-1]) % 2 == 1 for name in scores])
    clips = Clips(tuple(scores), ("lake",) * len(scores), is_odd)
    ridge = MadeCell("ridge", clips, np.array([*scores.values()]))
    films = manifest(folder, film_clips("lake", ""))
    about = {**MANIFEST, "name": films.name, "labels": labels_of(films)}
    return made_run(folder / "run", [ridge], manifest=about)


def test_a_score_is_shown_on_its_side_of_the_line(browser: Any, tmp_path: Path) -> None:
    """A score close to 0, where the decision changes, was `0.00`."""
    clips = film_clips("lake", "")
    scores = {clip.clip_id: 0.5 for clip in clips}
    scores |= {"lake-000": -0.00004, "lake-001": -0.5}
    page = site(tmp_path, clips, run=run_of(tmp_path, scores))
    open_page(browser, f"{page_file(page)}#clip=lake-000", "lake-000")
    of_clip = text(browser, "#clip-more")
    assert of_clip.startswith("ridge: score -0.00004, negative: ")


@pytest.mark.parametrize("knows", [False, True])
def test_a_model_with_one_decision_for_all_clips_agrees_with_nothing(
    browser: Any, tmp_path: Path, knows: bool
) -> None:
    clips = film_clips("lake", "")
    scores = {clip.clip_id: -0.5 for clip in clips}
    if knows:
        scores = {name: int(name[-1]) % 2 - 0.5 for name in scores}
    run = run_of(tmp_path, scores)
    page = site(tmp_path, clips, run=run)
    open_page(browser, f"{page_file(page)}#clips=", "lake")
    wait(lambda: text(browser, "#model-text"))
    said = text(browser, "#model-text")
    cards = text(browser, "#grid")
    go(browser, clip="lake-000")
    wait(lambda: browser.title.startswith("lake-000"))
    assert text(browser, "#clip-model").endswith(said)
    of_clip = text(browser, "#clip-more")
    # The sentence of the run stands beside the scores.
    assert said == sentence_of(run, run.models[0])
    if knows:
        assert cards.count("score 0.50, positive\n") == 5 - cards.endswith("positive")
        assert "differs" not in cards
        assert of_clip == "ridge: score -0.50, negative: agrees with the annotation"
        return
    assert cards.count("score -0.50") == 10
    assert cards.count("score -0.50: differs") == 5
    assert "negative" not in cards
    assert of_clip == "ridge: score -0.50; it calls every clip negative"
