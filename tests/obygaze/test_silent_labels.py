"""What changes labels or clips without being asked for is said: in a run, its report, a check."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.data import real_data
from support.experiments import films, planted, write_workspace

import obygaze as og
from obygaze_features.core.errors import ObygazeWarning
from obygaze_features.manifest.adapters import obygaze12
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_models.protocols.clips import clip_table
from obygaze_models.protocols.schema import Data

ONE_CELL = (
    *("--set", "report.replicates=20", "--set", 'grid.models=["ridge"]'),
    *("--set", 'grid.train=["EN_S"]', "--set", 'grid.test=["EN_S"]'),
)
LOST = (
    "15 clips with a level but without concepts (3 NS, 12 S; dune): EN in the visual view; "
    "data.view=raw keeps the levels"
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


def test_levels_that_the_visual_view_drops_are_counted_in_run_and_report(
    here: Path,
) -> None:
    run = call_obygaze(
        *("-C", here, "run", "honest", "--store", "x=sig", "-o", "r", *ONE_CELL)
    ).ok()
    assert run.stderr.count(LOST) == 1
    assert f"! {LOST}" in run.stdout
    assert "137 clips of 6 films (made-up, visual view)" in run.stdout
    call_obygaze("-C", here, "report", "r").ok()
    assert LOST in (here / "runs" / "r" / "report.html").read_text("utf-8")
    raw = call_obygaze(
        *("-C", here, "run", "honest", "--store", "x=sig", "-o", "raw", *ONE_CELL),
        *("--set", "data.view=raw"),
    ).ok()
    assert "without concepts" not in raw.stdout + raw.stderr


def test_clips_whose_concepts_are_only_heard_are_counted_in_run_and_training(
    workspace: Path,
) -> None:
    manifest = films(5, 24)
    heard = manifest.header.of_modality("audio")[0]
    rated = [clip for clip in manifest if clip.level in ("HN", "S")]
    chosen = {clip.clip_id for clip in rated[:7]}
    clips = []
    for clip in manifest:
        concepts = (heard,) if clip.clip_id in chosen else clip.concepts
        clips.append(replace(clip, concepts=concepts))
    manifest = manifest.with_clips(clips)
    write_workspace(workspace, manifest, planted(manifest))
    n_s = sum(clip.level == "S" for clip in rated[:7])
    sentence = (
        f"! 7 clips with concepts, but no visual one ({7 - n_s} HN, {n_s} S; {heard}): EN in the "
        "visual view; data.view=raw keeps the levels."
    )
    call = ("-C", workspace)
    words = ("run", "honest", "--store", "x=sig", *ONE_CELL)
    assert sentence in call_obygaze(*call, *words, "-o", "r").ok().stdout
    raw = call_obygaze(*call, *words, "-o", "raw", "--set", "data.view=raw").ok()
    assert "no visual one" not in raw.stdout
    fast = ("--set", "report.replicates=20")
    words = ("train", "ridge", "sig", "made-up", "--task", "EN_S", *fast)
    assert sentence in call_obygaze(*call, *words).ok().stdout


def test_a_training_and_a_dataset_count_them_too(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = call_obygaze(
        *("-C", here, "train", "ridge", "sig", "made-up", "--task", "EN_S"),
        *("--set", "report.replicates=20"),
    ).ok()
    assert trained.stderr.count(LOST) == 1
    monkeypatch.chdir(here)
    with pytest.warns(ObygazeWarning) as caught:
        og.dataset("sig", "made-up", task="EN_S")
    assert [str(warning.message) for warning in caught] == [f"{LOST}."]


@pytest.mark.parametrize(
    ("where", "counted"),
    [
        # By the level of the annotation: the view is why it leaves them out.
        (
            'level == S or title == "Drive"',
            "12 clips with a level but without concepts",
        ),
        # By the level in the view: dune's S and NS clips are EN there.
        (
            "level == EN",
            "15 clips with a level but without concepts (3 NS, 12 S; dune)",
        ),
        ('title == "Drive"', ""),
        # Whether it holds is not known of clips whose cell is empty.
        ("mood == joy or level == EN", "15 clips with a level"),
    ],
)
def test_clips_that_where_selects_before_or_in_the_view_are_counted(
    where: str, counted: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ObygazeWarning)
        remarks = clip_table(with_dune(), Data(view="visual", where=where)).remarks
    assert remarks.get("levels lost", "").startswith(counted)
    assert bool(counted) == ("levels lost" in remarks)


def test_clips_that_are_en_because_their_concepts_are_heard_are_not_counted() -> None:
    manifest = films(2, 8)
    heard = manifest.header.of_modality("audio")[:1]
    clips = [replace(clip, concepts=heard) for clip in manifest]
    assert manifest.with_clips(clips).levels_lost == ""
    bare = [replace(clip, concepts=(), level="HN") for clip in manifest]
    assert manifest.with_clips(bare).levels_lost.startswith("16 clips with a level")


def test_the_published_annotation_has_none() -> None:
    table = real_data("obygaze12", "ObyGaze12_thresh_02.csv")
    published = obygaze12.read(table, name="obygaze12").manifest
    assert published.levels_lost == ""
    assert published.levels_heard.startswith(
        "550 clips with concepts, but no visual one (402 HN, 105 NS, 43 S; "
    )
    fold = dict.fromkeys(published.clip_ids, "0")
    split = published.with_column("fold:02_EN_HN_S", fold)
    remarks = clip_table(split, Data(view="as_published")).remarks
    assert "levels changed" in remarks
    # 550 of its clips become EN: 402 HN, 105 NS and 43 S have concepts that are only heard.
    seen = published.view("visual")
    changed = [
        c for c in published if c.level != "EN" and seen[c.clip_id].level == "EN"
    ]
    assert len(changed) == 550


def test_a_value_that_no_clip_has_is_named(here: Path) -> None:
    warning = (
        "made-up: no clip has 'Amelie' in the column title (did you mean 'Amélie'?)"
    )
    where = "title in {Drive, Amelie}"
    run = call_obygaze(
        *("-C", here, "run", "honest", "--store", "x=sig", "-o", "r", *ONE_CELL),
        *("--set", f"data.where={where}"),
    ).ok()
    assert run.stderr.count(warning) == 1
    assert f"120 clips of 5 films (made-up, visual view) with {where}" in run.stdout
    call_obygaze("-C", here, "report", "r").ok()
    page = (here / "runs" / "r" / "report.html").read_text("utf-8")
    assert "no clip has" in page
    assert "title in" in page
    shown = call_obygaze("-C", here, "manifest", "show", "made-up", "--where", where)
    assert warning in shown.ok().stderr
    left_out = 'title != "Amelie"'
    shown = call_obygaze("-C", here, "manifest", "show", "made-up", "--where", left_out)
    assert warning in shown.ok().stderr


@pytest.mark.parametrize(
    "where", ["level == HN or title == Drive", '"Body" in concept', "not title"]
)
def test_levels_and_concepts_that_no_clip_has_are_no_mistake(
    where: str, recwarn: pytest.WarningsRecorder
) -> None:
    manifest = with_dune()
    only_dune = manifest.where("movie_id == dune").with_clips(
        replace(clip, extra={"title": "Drive"}) for clip in manifest.clips[:17]
    )
    only_dune.where(where)
    assert [str(warning.message) for warning in recwarn] == []
