"""A concept that too few training clips have leaves a bottleneck with a warning."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from support.experiments import films, planted, quick, store_of

from obygaze_features.core.errors import ObygazeWarning
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store
from obygaze_models.runner.concepts import rare_concepts
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.store_run import store_runs
from obygaze_models.runner.training import training_protocol

ONLY = 'grid.models=["pcbm-lr"]'


def with_two_rare_concepts() -> Manifest:
    """Five films; Look is in a clip of the first and of the last, Body in three and one."""
    manifest = films(5, 40)
    clips = []
    for clip in manifest:
        common = tuple(name for name in clip.concepts if name not in ("Look", "Body"))
        clips.append(replace(clip, concepts=common))
    rows = {
        film: [
            i
            for i, clip in enumerate(clips)
            if clip.movie_id == film and clip.level == "S"
        ]
        for film in ("tt0000001", "tt0000005")
    }
    first = rows["tt0000001"]
    last = rows["tt0000005"]
    for name, chosen in (
        ("Look", [first[0], last[0]]),
        ("Body", [*first[1:4], last[1]]),
    ):
        for row in chosen:
            clips[row] = replace(clips[row], concepts=(*clips[row].concepts, name))
    return replace(manifest, clips=tuple(clips))


@pytest.fixture
def manifest() -> Manifest:
    return with_two_rare_concepts()


@pytest.fixture
def store(tmp_path: Path, manifest: Manifest) -> Store:
    return store_of(tmp_path / "s", manifest, planted(manifest))


def rare_on(
    store: Store, manifest: Manifest, *changes: str
) -> dict[str, dict[str, int]]:
    """The rare concepts of a protocol on a store."""
    inputs = gather(quick("honest", *changes), manifest, "", {"s": store})
    (run,) = store_runs(inputs)
    return rare_concepts(run)


def test_concepts_that_leave_a_bottleneck_are_counted_by_fold(
    manifest: Manifest, store: Store
) -> None:
    # Without the first or the last film one clip with Look is left, and without the first one of
    # Body; the other clips that are sure lack them.
    assert rare_on(store, manifest, ONLY) == {
        "Look": {"folds": 5, "of": 5, "least": 1},
        "Body": {"folds": 1, "of": 5, "least": 1},
    }


def test_training_concept_vectors_names_those_without_a_task(
    manifest: Manifest,
) -> None:
    with pytest.warns(ObygazeWarning, match=r"Look \(2 clips of 2 films\)"):
        protocol = training_protocol("cav", "EN_S", manifest)
    assert "Look" not in protocol.tasks
    assert "Body" in protocol.tasks
    note, note_on_levels = protocol.report.notes
    assert "Look (2 clips of 2 films)" in note
    n_not_sure = sum(clip.level == "NS" for clip in manifest)
    assert note_on_levels.startswith(f"{n_not_sure} clips of other levels than EN")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (note,) = training_protocol("cav", "EN_S", films(5, 40)).report.notes
        assert "of other levels" in note
