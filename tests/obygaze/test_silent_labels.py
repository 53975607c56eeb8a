"""What changes labels or clips without being asked for is said: in a run, its report, a check."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.experiments import films, planted, write_workspace

from obygaze_features.core.errors import ObygazeWarning
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_models.protocols.clips import clip_table
from obygaze_models.protocols.schema import Data

ONE_CELL = (
    *("--set", "report.replicates=20", "--set", 'grid.models=["ridge"]'),
    *("--set", 'grid.train=["EN_S"]', "--set", 'grid.test=["EN_S"]'),
)
LOST = (
    "15 clips (3 NS, 12 S) have no concept (dune), so they count as EN in the visual view; "
    "pass --set data.view=raw to keep the levels"
)


def with_dune() -> Manifest:
    """Five films with concepts, and dune without: 12 S, 3 NS, 2 EN."""
    manifest = films(5, 24)
    levels = ["S"] * 12 + ["NS"] * 3 + ["EN"] * 2
    dune = [
        Clip(f"dune-{scene:03d}", "dune", scene, level=level)
        for scene, level in enumerate(levels, 1)
    ]
    clips = [*dune, *manifest.clips]
    titled = [
        replace(clip, extra={"title": "Amélie" if clip.movie_id == "dune" else "Drive"})
        for clip in clips
    ]
    moods = [replace(clip, extra={**clip.extra, "mood": ""}) for clip in titled]
    return replace(manifest, clips=tuple(moods), columns=("title", "mood"))


@pytest.fixture
def here(workspace: Path) -> Path:
    manifest = with_dune()
    write_workspace(workspace, manifest, planted(manifest))
    return workspace


def test_levels_that_the_visual_view_drops_are_counted_in_run_and_report(here) -> None:
    run = call_obygaze(
        *("-C", here, "run", "honest", "--store", "x=sig", "-o", "r", *ONE_CELL)
    ).ok()
    assert run.stderr.count(LOST) == 1
    assert f"! {LOST}" in run.stdout
    assert "of 6 films, manifest made-up (137 clips), visual view" in run.stdout
    call_obygaze("-C", here, "report", "r").ok()
    assert LOST in (here / "runs" / "r" / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("where", "counted"),
    [
        # By the level of the annotation: the view is why it leaves them out.
        (
            'level == S or title == "Drive"',
            "12 clips (12 S) have no concept",
        ),
        # By the level in the view: dune's S and NS clips are EN there.
        (
            "level == EN",
            "15 clips (3 NS, 12 S) have no concept (dune)",
        ),
        ('title == "Drive"', ""),
    ],
)
def test_clips_that_where_selects_before_or_in_the_view_are_counted(where, counted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ObygazeWarning)
        remarks = clip_table(with_dune(), Data(view="visual", where=where)).remarks
    assert remarks.get("levels lost", "").startswith(counted)
    assert bool(counted) == ("levels lost" in remarks)
