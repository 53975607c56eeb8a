"""Which backbone a pattern of a protocol matches: never that of a join."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from support.experiments import ONE_PAIR, films, planted, quick, run_on, store_of
from support.joined_stores import joined_stores
from support.tables import rows_of

from obygaze_features.store import Recipe
from obygaze_models.evaluation.results import is_backbone
from obygaze_models.protocols.schema import PaperValue


def test_no_pattern_matches_a_join(tmp_path: Path) -> None:
    assert is_backbone("X-CLIP (imported)", "x-clip")
    manifest = films(3, 12, seed=1)
    X = planted(manifest, width=14)
    stores = joined_stores(tmp_path, manifest, {"xclip-b16": X, "xclip-b32": -X})
    # What an importer calls a backbone joins nothing.
    recipe = Recipe.unknown("the importer", {"backbone": "a + b"})
    stores["import"] = store_of(tmp_path / "import", manifest, X, recipe=recipe)
    printed = [PaperValue("ap", 0.5, backbone=one) for one in ("*", "* + *")]
    protocol = quick("honest", *ONE_PAIR, 'grid.models=["ridge"]', replicates=2)
    protocol = replace(protocol, paper=tuple(printed))
    run = run_on(tmp_path, protocol, manifest, stores)
    is_beside_paper = {}
    for row in rows_of(run.results, metric="ap", film="", against_model=""):
        is_beside_paper[row["store"]] = bool(np.isfinite(row["paper"]))
    assert is_beside_paper == {
        "xclip-b16": True,
        "xclip-b32": True,
        "joined": False,
        "import": True,
    }
