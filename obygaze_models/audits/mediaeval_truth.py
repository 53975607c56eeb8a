"""What runs of MediaEval 2015 are scored against: TREC judgements, annotation files, a manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.adapters import liris_accede
from obygaze_features.manifest.model import Manifest
from obygaze_models.audits.mediaeval import read_qrels

SPLIT = "mediaeval2015"
TEST = 0


@dataclass(frozen=True)
class Truth:
    """Judgements by topic, and true classes by clip, as far as they are known."""

    violence: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    valence: Mapping[str, int] = field(default_factory=dict)
    arousal: Mapping[str, int] = field(default_factory=dict)
    # Annotation files name clips with and without their ending; TREC files are to the letter.
    by_stem: bool = False

    def judged(self, topic: str, returned: Iterable[str]) -> dict[str, dict[str, int]]:
        """The judgements for a run's topic, under the names that the run gives the clips."""
        if not self.by_stem:
            return {name: dict(judged) for name, judged in self.violence.items()}
        return {topic: self._named(self.violence.get("", {}), returned)}

    def classes(self, subtask: str, returned: Iterable[str]) -> dict[str, int]:
        """The true classes of valence or arousal, under the names that the run gives the clips."""
        known: Mapping[str, int] = getattr(self, subtask)
        return self._named(known, returned) if self.by_stem else dict(known)

    @staticmethod
    def _named(known: Mapping[str, int], returned: Iterable[str]) -> dict[str, int]:
        names: dict[str, str] = {}
        for name in returned:
            other = names.setdefault(PurePosixPath(name).stem, name)
            if other != name:
                raise FixInput(f"{name!r} and {other!r} in a run are one clip")
        return {names.get(stem, stem): value for stem, value in known.items()}


def truth_of_qrels(path: Path) -> Truth:
    """The judgements of a TREC file."""
    return Truth(violence=read_qrels(path))


def truth_of_annotations(files: Sequence[Path]) -> Truth:
    """The classes of the annotation files; with the shots files, of the official test clips."""
    return truth_of_manifest(liris_accede.read(files).manifest)


def truth_of_manifest(manifest: Manifest) -> Truth:
    """The classes a manifest holds of its official test clips, or of all where it has no split."""
    official = SPLIT in manifest.folds
    clips = [clip for clip in manifest if not official or clip.fold(SPLIT) == TEST]

    def column(name: str) -> dict[str, int]:
        cells = {PurePosixPath(clip.clip_id).stem: clip.extra.get(name, "") for clip in clips}
        try:
            return {stem: int(cell) for stem, cell in cells.items() if cell}
        except ValueError:
            raise FixInput(f"the column {name!r} must hold classes", where=manifest.name) from None

    violence, valence = column("violence"), column("valence_class")
    arousal = column("arousal_class")
    if not (violence or valence or arousal):
        raise FixInput(
            "no clip has a class: no violence, valence_class or arousal_class",
            where=manifest.name,
            hint="obygaze manifest import liris-accede FOLDER",
        )
    return Truth({"": violence} if violence else {}, valence, arousal, by_stem=True)
