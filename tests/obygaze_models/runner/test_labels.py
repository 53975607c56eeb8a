"""Whether the labels of a run are those of its manifest today."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from support.experiments import (
    films,
    planted,
    quick,
    run_on,
    store_of,
    without_models,
)

import obygaze as og
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_models.protocols.schema import Protocol
from obygaze_models.runner.files import Run
from obygaze_models.runner.labels import labels_since


@pytest.fixture(scope="module")
def before() -> Manifest:
    made = films(3, 12)
    values = {clip.clip_id: str(i % 2) for i, clip in enumerate(made)}
    return made.with_column("bright", values)


def protocol_of_levels_and_a_column() -> Protocol:
    protocol = quick("honest", 'grid.train=["EN_S"]', 'grid.test=["EN_S"]')
    task = replace(
        protocol.tasks["EN_S"], classes={}, column="bright", values={"0": 0, "1": 1}
    )
    tasks = {**protocol.tasks, "bright": task}
    grid = replace(protocol.grid, train=("EN_S", "bright"), test=("EN_S", "bright"))
    return without_models(replace(protocol, tasks=tasks, grid=grid), "prevalence")


@pytest.fixture(scope="module")
def run(before: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("run")
    return run_on(path, protocol_of_levels_and_a_column(), before, {})


def linked(manifest: Manifest) -> Manifest:
    clips = [replace(clip, video=f"{clip.movie_id}.mp4") for clip in manifest]
    return manifest.with_clips(clips).with_column("mood", {})


def of_other_level(manifest: Manifest) -> Manifest:
    first, *others = manifest.clips
    other = "S" if first.level != "S" else "HN"
    return manifest.with_clips(
        [replace(first, level=other, concepts=("Look",)), *others]
    )


def of_other_concepts(manifest: Manifest) -> Manifest:
    clips = list(manifest)
    number = next(i for i, clip in enumerate(clips) if len(clip.concepts) > 1)
    clips[number] = replace(clips[number], concepts=clips[number].concepts[:1])
    return manifest.with_clips(clips)


def of_other_column(manifest: Manifest) -> Manifest:
    values = {clip.clip_id: clip.extra["bright"] for clip in manifest}
    first = manifest.clip_ids[0]
    values[first] = "1" if values[first] == "0" else "0"
    return manifest.with_column("bright", values)


def of_other_modality(manifest: Manifest) -> Manifest:
    """The rows are the same, and clips with this concept alone become EN in the visual view."""
    concepts = {**manifest.header.concepts, "Look": "speech"}
    header = structs.replace(manifest.header, concepts=concepts)
    return replace(manifest, header=header)


def linked_to_own_files(manifest: Manifest) -> Manifest:
    """Once clips have files of their own, their times in the film are in other columns."""
    clips = []
    for clip in manifest:
        times = {"film_start_s": repr(clip.start_s), "film_end_s": repr(clip.end_s)}
        extra = {**clip.extra, **times, "video_name": ""}
        of_file = replace(clip, video=f"{clip.clip_id}.mp4", extra=extra)
        clips.append(replace(of_file, start_s=None, end_s=None))
    return manifest.with_clips(clips)


def of_other_times(manifest: Manifest) -> Manifest:
    first, *others = manifest.clips
    return manifest.with_clips([replace(first, end_s=first.end_s + 1), *others])


def of_other_film(manifest: Manifest) -> Manifest:
    first, *others = manifest.clips
    film = others[-1].movie_id
    return manifest.with_clips([replace(first, movie_id=film), *others])


@pytest.mark.parametrize(
    ("change", "is_noticed"),
    [
        (linked, False),
        (linked_to_own_files, False),
        (of_other_times, True),
        (of_other_film, True),
        (of_other_level, True),
        (of_other_concepts, True),
        (of_other_column, True),
        (of_other_modality, True),
    ],
)
def test_changed_labels_are_noticed_and_links_are_no_change(
    run: Run,
    before: Manifest,
    change: Callable[[Manifest], Manifest],
    is_noticed: bool,
) -> None:
    now = labels_since(run, change(before))
    assert now.manifest is not None and now.manifest.header.view == "visual"
    assert ("were changed after the run" in now.changed) == is_noticed


def test_a_manifest_that_is_gone_or_of_another_view_says_so(
    run: Run, before: Manifest, tmp_path: Path
) -> None:
    published = structs.replace(before.header, view="as_published")
    named = {**run.about["manifest"], "path": str(tmp_path / "gone.toml")}
    for now in (
        labels_since(replace(run, about={**run.about, "manifest": named})),
        labels_since(run, replace(before, header=published)),
    ):
        assert now.manifest is None and "moved or changed" in now.changed


def test_a_manifest_in_memory_is_found_if_it_is_saved_and_else_not_called_changed(
    tmp_path: Path,
) -> None:
    manifest = films(3, 12)
    changes = ["report.replicates=2", 'grid.models=["ridge"]']
    protocol: Any = {"changes": changes, "workspace": tmp_path}
    store = store_of(tmp_path / "stores" / "sig", manifest, planted(manifest))
    unsaved = og.run("honest", store, manifest, output="a", **protocol)
    assert "was in memory, not in a file" in labels_since(unsaved).changed
    write_manifest(manifest, tmp_path / "manifests" / "made-up.toml")
    saved = og.run("honest", store, manifest, output="b", **protocol)
    assert labels_since(saved).changed == ""
    fewer = manifest.with_clips(manifest.clips[:-1])
    others = og.run("honest", store, fewer, output="c", **protocol)
    assert "was in memory, not in a file" in labels_since(others).changed
