"""What is said of a wrong function or order of names, and of settings that were chosen."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.experiments import films, planted, write_workspace

QUICK = ("--set", "report.replicates=20")


@pytest.fixture
def here(workspace: Path) -> Path:
    manifest = films(5, 24)
    write_workspace(workspace, manifest, planted(manifest))
    return workspace


def test_the_error_of_a_metric_says_what_a_metric_gets(here: Path) -> None:
    (here / "mine.py").write_text("def specificity(y, pred):\n    return y\n", "utf-8")
    name = f"{here / 'mine.py'}:specificity"
    refused = call_obygaze(
        *("-C", here, "run", "honest", "--store", "x=sig", "--trust", name, *QUICK),
        *("--set", 'grid.models=["ridge"]'),
        *("--set", f'report.metrics=["{name}"]'),
    )
    assert refused.code == 1
    assert "missing 1 required positional argument: 'pred'" in refused.stderr
    assert "counts.tp, counts.fp, counts.fn and counts.tn" in refused.stderr
    assert "docs/own-parts.md" in refused.stderr


def test_chosen_settings_are_printed_and_on_the_card(here: Path) -> None:
    trained = call_obygaze(
        *("-C", here, "train", "logistic", "sig", "made-up", "-o", "m", *QUICK),
        *("--set", "model.C.grid=[0.5]"),
    ).ok()
    assert "chosen settings: C = 0.5" in trained.stdout
    shown = call_obygaze("-C", here, "models", "show", "m").ok()
    assert "The settings that training films chose: `C = 0.5`" in shown.stdout


def test_without_a_choice_nothing_is_said(here: Path) -> None:
    trained = call_obygaze(
        *("-C", here, "train", "logistic", "sig", "made-up", "-o", "m", *QUICK),
        *("--set", "model.C=1.0"),
    ).ok()
    assert "chosen settings" not in trained.stdout
    shown = call_obygaze("-C", here, "models", "show", "m").ok()
    assert "training films chose" not in shown.stdout
