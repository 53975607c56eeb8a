"""The segments of one film in frames, and the label that the texts of an annotation give it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from obygaze.films.projection import WATCHED, Segment
from obygaze_features.manifest.vocabulary import canonical_concept, canonical_level

# A text of an annotation with its kind: level, concept, comment, or any other word.
Text = tuple[str, str]
# Film and annotator, "" if the file does not name them; start and end in seconds; texts.
Mark = tuple[str, str, Fraction, Fraction, Sequence[Text]]
# Levels, concepts, comment.
Label = tuple[list[str], tuple[str, ...], str]


@dataclass(frozen=True)
class FilmSegments:
    """The segments of one film."""

    movie_id: str
    fps: Fraction
    video: Path | None
    segments: list[Segment] = field(default_factory=list)

    def ms(self, frame: int) -> int:
        """Return the first whole millisecond at which a frame is shown."""
        return math.ceil(1000 * frame / self.fps)

    def without_watched(self) -> "FilmSegments":
        """Return the film with its marks alone, without the time that was only watched."""
        marks = [segment for segment in self.segments if not segment.is_watched]
        return replace(self, segments=marks)

    def lanes(self) -> dict[str, list[Segment]]:
        """Return the segments of each annotator in order; overlapping ones in further lanes.

        What an annotator has watched is not among the levels: it has lanes of its own.
        """
        lanes: dict[str, list[Segment]] = {}
        for segment in sorted(
            self.segments, key=lambda s: (s.annotator, s.start_frame, s.end_frame)
        ):
            for number in range(1, len(self.segments) + 1):
                name = segment.annotator
                if segment.is_watched:
                    name = f"{name} {WATCHED}"
                if number > 1:
                    name = f"{name} #{number}"
                lane = lanes.setdefault(name, [])
                if not lane or lane[-1].end_frame < segment.start_frame:
                    lane.append(segment)
                    break
        return lanes


def plain(text: str) -> str:
    """Return text on one line, without characters that cannot be printed."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def label_of(texts: Iterable[Text]) -> Label:
    """Return levels, concepts and comment; text of another kind is what its words say it is."""
    levels: list[str] = []
    names: list[str] = []
    comments: list[str] = []
    for kind, written in texts:
        if not written.strip():
            continue
        text = plain(written)
        level = canonical_level(text)
        concept = canonical_concept(text)
        if kind == "concept":
            names.append(concept or text)
        elif kind == "comment":
            comments.append(text)
        elif level:
            levels.append(level)
        elif concept:
            names.append(concept)
        else:
            comments.append(text)
    concepts_marked = dict.fromkeys(name.replace("|", "/") for name in names)
    return list(dict.fromkeys(levels)), tuple(concepts_marked), " ".join(comments)
