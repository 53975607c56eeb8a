"""Why a bottleneck decided so: what concepts add sums up to the probability."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.experiments import films, planted, write_workspace

from obygaze.films.page.site import Site
from obygaze.films.page.view import open_site
from obygaze_features.core.errors import FixUsage
from obygaze_models.runner.experiments import train
from obygaze_models.zoo import predict

MANIFEST = films(n_films=4, n_scenes=30)
X = planted(MANIFEST)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Site:
    root = tmp_path_factory.mktemp("workspace")
    write_workspace(root, MANIFEST, X)
    changes = ["report.replicates=20", "model.tolerance=0.01"]
    options: dict[str, Any] = {"task": "EN_S", "output": "mine", "changes": changes}
    train("pcbm-lr", "sig", "made-up", workspace=root, **options)
    options["output"] = "tree"
    train("pcbm-dt", "sig", "made-up", workspace=root, **options)
    train(
        "ridge",
        "sig",
        "made-up",
        workspace=root,
        **{**options, "output": "plain", "changes": changes[:1]},
    )
    return open_site("made-up", model="mine", store="sig", workspace=root)


def logit(probability: float) -> float:
    return float(np.log(probability / (1 - probability)))


@pytest.mark.parametrize("model", ["mine", "tree"])
def test_what_concepts_add_sums_up_to_the_probability(page: Site, model: str) -> None:
    page = open_site("made-up", model=model, store="sig", workspace=page.workspace.root)
    assert page.explainer is not None
    clips = [clip.clip_id for clip in MANIFEST][:6]
    told = predict(
        page.explainer.model, page.explainer.store, clips=clips, in_sample=True
    )
    for row, clip in enumerate(clips):
        why = page.clip(clip)["explanation"]
        total = why["base"] + sum(one["adds"] for one in why["concepts"])
        # What the page says of the sum is what the sum is.
        assert why["sum"] in ("a sum of 0 is 50 %", "the sum is the probability")
        if why["sum"] == "the sum is the probability":
            assert total == pytest.approx(why["probability"], abs=1e-6)
        else:
            assert total == pytest.approx(logit(why["probability"]), abs=1e-6)
        assert why["probability"] == pytest.approx(told.scores[row, -1])


def test_other_models_cannot_be_explained(page: Site) -> None:
    root = page.workspace.root
    with pytest.raises(FixUsage, match="must be a bottleneck") as refused:
        open_site("made-up", model="plain", store="sig", workspace=root)
    assert "--run RUN or --scores TABLE" in str(refused.value.hint)
    with pytest.raises(FixUsage, match="must be a bottleneck, with --store"):
        open_site("made-up", model="mine", workspace=root)
