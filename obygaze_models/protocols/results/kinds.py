"""All kinds of records, by their name in results.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.protocols.results.concepts import ConceptVectors, Head, Sensitivity
from obygaze_models.protocols.results.differences import Comparison, Contrast
from obygaze_models.protocols.results.levels import AnnotatorDistance, LevelOrder
from obygaze_models.protocols.results.localisation import Localisation
from obygaze_models.protocols.results.record import Record
from obygaze_models.protocols.results.success import SuccessRegression
from obygaze_models.protocols.results.whole_run import (
    Argmax,
    CopiedClips,
    Coverage,
    LearningCurve,
    Remark,
)

# Records of one kind may have several parts.
KINDS: dict[tuple[str, str], type[Record]] = {
    ("cell", ""): CellRecord,
    ("baseline", ""): CellRecord,
    ("comparison", ""): Comparison,
    ("contrast", ""): Contrast,
    ("learning", ""): LearningCurve,
    ("levels", ""): LevelOrder,
    ("annotators", ""): AnnotatorDistance,
    ("localisation", ""): Localisation,
    ("coverage", ""): Coverage,
    ("copies", ""): CopiedClips,
    ("argmax", ""): Argmax,
    ("analysis", ""): SuccessRegression,
    ("anatomy", "concepts"): ConceptVectors,
    ("anatomy", "head"): Head,
    ("anatomy", "sensitivity"): Sensitivity,
    ("remark", ""): Remark,
}


@dataclass(frozen=True, eq=False, kw_only=True)
class UnknownRecord(Record):
    """A record of a kind that this version does not know, as it is in the file."""

    document: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the object in the file."""
        return dict(self.document)


def read_record(document: Any) -> Record:
    """Return the record of an object in results.json; ValueError says what is invalid."""
    if not isinstance(document, Mapping) or "kind" not in document:
        raise ValueError("expected an object with a kind")
    kind = (str(document["kind"]), str(document.get("part", "")))
    if kind not in KINDS:
        return UnknownRecord(document=document)
    return KINDS[kind].from_json(document)
