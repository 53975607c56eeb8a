"""A concept that too few training clips have is no task of concept vectors, with a warning."""

import warnings
from dataclasses import replace

import pytest
from support.experiments import films

from obygaze_features.core.errors import ObygazeWarning
from obygaze_features.manifest.model import Manifest
from obygaze_models.runner.training import training_protocol


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


def test_training_concept_vectors_names_those_without_a_task(
    manifest: Manifest,
) -> None:
    with pytest.warns(ObygazeWarning, match=r"Look \(2 clips of 2 films\)"):
        protocol = training_protocol("cav", "EN_S", manifest)
    assert "Look" not in protocol.tasks
    assert "Body" in protocol.tasks
    (note,) = protocol.report.notes
    assert "Look (2 clips of 2 films)" in note
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not training_protocol("cav", "EN_S", films(5, 40)).report.notes
