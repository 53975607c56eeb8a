"""Which array of a store answers: the default one, named in the terminal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.experiments import ONE_PAIR, films, planted, quick, run_on
from support.stores import made_store

from obygaze_features.store import Row
from obygaze_models.runner.text import result_text

RIDGE = ('grid.models=["ridge"]', "report.concepts=false")


def test_the_first_array_answers_unless_another_is_asked_for(tmp_path: Path) -> None:
    manifest = films(3, 12)
    rows = [Row(clip.clip_id, clip.movie_id) for clip in manifest]
    signal = planted(manifest, strength=2.0)
    noise = np.random.default_rng(5).standard_normal(signal.shape).astype(np.float32)
    seen = made_store(tmp_path / "seen", rows, {"pooled": signal, "clip": noise})
    said = made_store(tmp_path / "said", rows, {"words": noise})
    aps = []
    for stores, asked, shown in (
        ({"seen": seen}, (), "array pooled"),
        ({"seen": seen}, ('data.array=["clip"]',), "array clip"),
        ({"seen": seen, "said": said}, (), "array pooled of seen, array words of said"),
    ):
        protocol = quick("honest", *ONE_PAIR, *RIDGE, *asked, replicates=2)
        run = run_on(tmp_path, protocol, manifest, stores)
        assert result_text(run).splitlines()[1].endswith(f"visual view), {shown}")
        aps.append(run.models[0].value("ap"))
    assert aps[0] == aps[2] > aps[1]
