"""The rate of a manifest beside that of the linked video."""

from fractions import Fraction
from pathlib import Path

import pytest
from msgspec import structs
from support.videos import write_video

from obygaze.films.exchange import films_of
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Clip, Header, Manifest


@pytest.mark.parametrize(("rate", "is_same"), [("23.976", True), ("24", False)])
def test_the_rate_of_the_manifest_must_be_that_of_the_video(
    tmp_path: Path, rate: str, is_same: bool
) -> None:
    """Times were counted at the rate of the manifest beside a film of another one."""
    write_video(tmp_path / "lake.mp4", numbers=range(48), tick=Fraction(1001, 24000))
    clip = Clip("a", "lake", 1, "lake.mp4", 0.0, 1.0, "S", extra={"framerate": rate})
    header = structs.replace(Header("films"), video_root=str(tmp_path))
    manifest = Manifest("films", header, (clip,), ("framerate",))
    if is_same:
        ((film,), _) = films_of(manifest)
        assert film.segments[0].end_frame == 23
        return
    with pytest.raises(FixInput, match=r"at 24 per second, its video has 23\.976"):
        films_of(manifest)
