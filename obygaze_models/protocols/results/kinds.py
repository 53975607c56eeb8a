"""All kinds of records, by their name in results.json."""

from typing import Any

from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.protocols.results.concepts import ConceptVectors, Head
from obygaze_models.protocols.results.differences import Comparison, Contrast
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
    "coverage": Coverage,
    "copies": CopiedClips,
    "argmax": Argmax,
    "analysis": SuccessRegression,
    "remark": Remark,
}
CONCEPT_MODEL = "concept-model"
# The parts of records of the kind `CONCEPT_MODEL`.
CONCEPT_PARTS: dict[str, type[RunRecord]] = {
    "concepts": ConceptVectors,
    "head": Head,
}


def read_record(document: Any) -> RunRecord:
    """Return the record of an object in results.json; ValueError says what is invalid."""
    kind = str(document["kind"])
    if kind == CONCEPT_MODEL:
        part = str(document.get("part"))
        if part not in CONCEPT_PARTS:
            raise ValueError(
                f"a record of the kind {kind!r} has the unknown part {part!r}"
            )
        return CONCEPT_PARTS[part].from_json(document)
    if kind not in KINDS:
        raise ValueError(f"unknown kind of record {kind!r}")
    return KINDS[kind].from_json(document)
