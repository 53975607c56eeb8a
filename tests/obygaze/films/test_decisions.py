"""Whether a model was trained on a clip."""

from __future__ import annotations

import pytest

from obygaze.films.decisions import _is_listed
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_models.zoo.info import TrainingClips


def row(clip_id: str, annotator: str, start_s: float = 0.0) -> Clip:
    extra = {"annotator": annotator}
    return Clip(clip_id, "lake", start_s=start_s, end_s=start_s + 2, extra=extra)


@pytest.mark.parametrize(
    ("trained_on", "is_listed"),
    [("1.ada", True), ("1.ben", True), ("1", True), ("7", True), ("2.ada", False)],
)
def test_a_model_was_trained_on_a_clip_whoever_labelled_it(
    trained_on: str, is_listed: bool
) -> None:
    """The row of another annotator was another clip."""
    rows = (row("1.ada", "ada"), row("1.ben", "ben"), row("7", ""))
    manifest = Manifest("m", Header("m"), (*rows, row("2.ada", "ada", 9.0)))
    listed = TrainingClips((trained_on,))
    assert _is_listed(manifest["1.ada"], manifest, listed) is is_listed
