"""No interval of zero width: what too few clips cannot say is not printed as if it were sure."""

from __future__ import annotations

from pathlib import Path

from support.experiments import films, planted, quick, run_on, store_of
from support.tables import models, rows_of

from obygaze_features.core.console import digits_of
from obygaze_models.runner.limits import limits_of
from obygaze_models.runner.text import result_text


def test_an_interval_needs_clips_of_both_classes_films_and_draws_that_differ(
    tmp_path: Path,
) -> None:
    """A model that is always right, and few clips, have no interval, and a line says so."""
    manifest = films(6, 30, seed=8)
    sure = [clip for clip in manifest if clip.level == "S"]
    others = [clip for clip in manifest if clip.level != "S"]
    cases = {
        "right": (manifest, 40.0),
        "few": (manifest.with_clips([*others, *sure[::16]]), 0.7),
        "enough": (manifest, 0.7),
    }
    for name, (clips, strength) in cases.items():
        store = store_of(tmp_path / name, clips, planted(clips, strength=strength))
        changes = (
            'grid.models=["ridge"]',
            'grid.train=["ENHN_S"]',
            'grid.test=["ENHN_S"]',
        )
        changes += ("report.contrast=[]", "report.concepts=false")
        run = run_on(
            tmp_path, quick("honest", *changes, replicates=200), clips, {"s": store}
        )
        (cell,) = models(run)
        said = [w.text for w in limits_of(run) if w.name == "no interval"]
        if name == "enough":
            low, high = cell.ends("ap")
            assert low < high and not said
        else:
            assert not cell.has_interval("ap") and not cell.has_interval("auc")
            assert said[0] in result_text(run)
        if name == "right":
            assert cell.value("ap") == 1
            assert said[0].endswith(": the values do not differ from film to film.")
        if name == "few":
            assert cell.n_positive < 5
            few_clips = f"tests {cell.n_positive} positive clips"
            assert few_clips in said[0] and "5 of each are needed" in said[0]
        for row in rows_of(run.results):
            assert not row["high"] - row["low"] <= 1e-9, row


def test_ends_that_look_equal_are_printed_with_more_digits() -> None:
    assert digits_of(0.7, 0.8) == 2
    assert digits_of(0.9961, 1.0) == 3
    assert digits_of(0.9981, 0.9984) == 4
