"""A manifest of clips that several people annotated."""

from collections.abc import Mapping, Sequence
from typing import Any

from obygaze_features.manifest.model import Annotation, Clip, Header, Manifest


def annotated(
    said: Mapping[str, Mapping[str, Mapping[str, Any]]],
    concepts: Sequence[str] = (),
    name: str = "films",
) -> Manifest:
    """The clips of films without labels; `said` has what each person said, by clip FILM-NUMBER."""
    annotations = []
    clip_ids: dict[str, None] = {}
    for annotator, of_clips in said.items():
        for clip_id, cells in of_clips.items():
            own = {key: cells[key] for key in cells if key not in ("level", "concepts")}
            label = cells.get("level", ""), tuple(cells.get("concepts", ()))
            annotations.append(Annotation(clip_id, annotator, *label, own))
            clip_ids[clip_id] = None
    clips = [Clip(one, one.partition("-")[0]) for one in sorted(clip_ids)]
    header = Header("made up", dict.fromkeys(concepts, "visual"))
    return Manifest(name, header, tuple(clips), annotations=tuple(annotations))
