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
    sure = [row for row, clip in enumerate(clips) if clip.level == "S"]
    first = [row for row in sure if clips[row].movie_id == "tt0000001"]
    last = [row for row in sure if clips[row].movie_id == "tt0000005"]
    look = [first[0], last[0]]
    body = [*first[1:4], last[1]]
    for row in (*look, *body):
        name = "Look" if row in look else "Body"
        clips[row] = replace(clips[row], concepts=(*clips[row].concepts, name))
    return replace(manifest, clips=tuple(clips))


def test_training_concept_vectors_names_those_without_a_task() -> None:
    manifest = with_two_rare_concepts()
    with pytest.warns(ObygazeWarning, match=r"Look \(2 clips of 2 films\)"):
        protocol = training_protocol("cav", "EN_S", manifest)
    assert "Look" not in protocol.tasks
    assert "Body" in protocol.tasks
    (note,) = protocol.report.notes
    assert "Look (2 clips of 2 films)" in note
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not training_protocol("cav", "EN_S", films(5, 40)).report.notes
