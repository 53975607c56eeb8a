"""All kinds of records, by their name in results.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.protocols.results.concepts import ConceptVectors, Head, Sensitivity
from obygaze_models.protocols.results.differences import Comparison, Contrast
from obygaze_models.protocols.results.levels import AnnotatorDistance, LevelOrder
from obygaze_models.protocols.results.localisation import Localisation
from obygaze_models.protocols.results.record import RunRecord
from obygaze_models.protocols.results.success import SuccessRegression
from obygaze_models.protocols.results.whole_run import (
    Argmax,
    CopiedClips,
    Coverage,
    LearningCurve,
    Remark,
)

KINDS: dict[str, type[RunRecord]] = {
    "cell": CellRecord,
    "baseline": CellRecord,
    "comparison": Comparison,
    "contrast": Contrast,
    "learning": LearningCurve,
    "levels": LevelOrder,
    "annotators": AnnotatorDistance,
    "localisation": Localisation,
    "coverage": Coverage,
    "copies": CopiedClips,
    "argmax": Argmax,
    "analysis": SuccessRegression,
    "remark": Remark,
}
CONCEPT_MODEL = "concept-model"
EARLIER_CONCEPT_MODEL = "anatomy"  # what runs of earlier versions call it
# The parts of records of the kind `CONCEPT_MODEL`.
CONCEPT_PARTS: dict[str, type[RunRecord]] = {
    "concepts": ConceptVectors,
    "head": Head,
    "sensitivity": Sensitivity,
}


@dataclass(frozen=True, eq=False, kw_only=True)
class UnknownRecord(RunRecord):
    """A record of a kind that this version does not know, as it is in the file."""

    kind: str
    document: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the object in the file."""
        return dict(self.document)

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Return the record of an object in a file."""
        return cls(kind=str(document["kind"]), document=document)


def read_record(document: Any) -> RunRecord:
    """Return the record of an object in results.json; ValueError says what is invalid."""
    kind = str(document["kind"])
    if kind == EARLIER_CONCEPT_MODEL:
        kind = CONCEPT_MODEL
        document = {**document, "kind": kind}
    if kind == CONCEPT_MODEL:
        part = str(document.get("part"))
        return CONCEPT_PARTS.get(part, UnknownRecord).from_json(document)
    return KINDS.get(kind, UnknownRecord).from_json(document)
