"""No interval of zero width: what too few clips cannot say is not printed as if it were sure."""

from __future__ import annotations

from pathlib import Path

from support.experiments import films, planted, quick, run_on, store_of

from obygaze_features.core.console import digits_of
from obygaze_models.runner.text import result_text
from obygaze_models.report.tables import Number


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
        (cell,) = run.cells
        remarks = [r["text"] for r in run.of("remark") if r["about"] == "no interval"]
        if name == "enough":
            low, high = cell["ap"]["ci"]
            assert low < high and "no_interval" not in cell and not remarks
        else:
            assert cell["ap"]["ci"] == [None, None] and cell["no_interval"]
            assert (
                "2 films with positive clips, 5 positive and 5 negative clips"
                in remarks[0]
            )
            assert remarks[0] in result_text(run)
            assert "clips of one film are in several folds" not in result_text(run)
        if name == "right":
            assert cell["ap"]["value"] == 1
            reason = "the values do not differ from film to film"
            assert f"ridge on s (ENHN_S -> ENHN_S): {reason}." in remarks[0]
        if name == "few":
            n_positive = cell["n_positive"]
            assert n_positive < 5
            few_clips = f"{n_positive} positive clips"
            assert f"ridge on s (ENHN_S -> ENHN_S): only {few_clips}." in remarks[0]
        for record in (*run.cells, *run.baselines, *run.of("comparison")):
            for metric in ("ap", "auc", "f1_binary", "recall", "ci"):
                ends = record.get(metric)
                low, high = (
                    ends["ci"] if isinstance(ends, dict) else ends or (None, None)
                )
                assert low is None or high - low > 1e-9, (record["kind"], metric)


def test_ends_that_look_equal_are_printed_with_more_digits() -> None:
    assert digits_of(0.7, 0.8) == 2
    assert digits_of(0.9961, 1.0) == 3
    assert digits_of(0.9981, 0.9984) == 4
    assert str(Number(0.999, 0.9981, 0.9984)) == "1.00 [0.9981, 0.9984]"
