"""The vocabulary of a page: concepts that its annotators add, in a TOML file that they write.

The file `segments/MANIFEST.vocabulary.toml` beside the marks has a name, a definition and a
modality for each concept; an import of the marks reads the modality there, too.
"""

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated

from obygaze_features.core.errors import FixInput
from obygaze_features.core.schema_check import Record, one_of, read_toml
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.vocabulary import MODALITIES, canonical_concept

SCHEMA = "obygaze-vocabulary/1"
_NAME = re.compile(r"[^\s|][^|\x00-\x1f\x7f]{0,118}[^\s|]|[^\s|]")


class Concept(Record, frozen=True):
    """A concept; `modality` may be ""."""

    name: str
    definition: str = ""
    modality: Annotated[str, one_of(("", *MODALITIES))] = ""


class VocabularyFile(Record, frozen=True):
    """The content of a file."""

    concepts: tuple[Concept, ...] = ()


def vocabulary_path(folder: Path, manifest: str) -> Path:
    """Return the file of the vocabulary for a manifest, which may be missing."""
    return folder / f"{manifest}.vocabulary.toml"


def read_vocabulary(path: Path, known: Collection[str] = ()) -> dict[str, Concept]:
    """Return the concepts of a file by name, in their order; none without the file.

    Args:
        path: The file.
        known: The concepts of the manifest, which the file must not have again.
    """
    if not path.is_file():
        return {}
    document = read_toml(path.read_bytes(), path.name)
    document.require_schema(SCHEMA, "vocabulary")
    content = document.check(VocabularyFile)
    concepts: dict[str, Concept] = {}
    written = content.concepts if content else ()
    for number, concept in enumerate(written):
        problem = _problem_of(concept, concepts, known)
        if problem:
            document.add(f"concepts[{number}]", problem)
        concepts[concept.name] = concept
    document.raise_if_any("the vocabulary is not valid")
    return concepts


def _problem_of(
    concept: Concept, before: Collection[str], known: Collection[str]
) -> str:
    """Return what is wrong with a concept, "" for nothing."""
    if not _NAME.fullmatch(concept.name):
        return f"a name has 1 to 120 letters, none of them |, got {concept.name!r}"
    if concept.name in LEVELS:
        return f"{concept.name!r} is a level"
    # Files of other programs come back with the name that the papers use.
    in_papers = canonical_concept(concept.name)
    if in_papers not in (None, concept.name):
        return f"{concept.name!r} is another name of {in_papers!r}"
    if concept.name in (*before, *known):
        return f"{concept.name!r} is there twice"
    return ""


def unknown_concepts(names: Iterable[str], tables: Iterable[Path]) -> list[str]:
    """Return the concepts that neither the papers nor the vocabularies of tables of marks have.

    The vocabulary of `segments/MANIFEST.NAME.csv` is `segments/MANIFEST.vocabulary.toml`.
    """
    unknown = sorted({name for name in names if canonical_concept(name) is None})
    own = modalities_of(tables) if unknown else {}
    return [name for name in unknown if name not in own]


def modalities_of(tables: Iterable[Path]) -> dict[str, str]:
    """Return the concepts of the vocabularies of tables of marks, with modalities or "unknown"."""
    modality_of: dict[str, str] = {}
    for table in tables:
        manifest = table.stem.rpartition(".")[0]
        if not manifest:
            continue
        path = vocabulary_path(table.parent, manifest)
        for name, concept in read_vocabulary(path).items():
            earlier = modality_of.get(name, "unknown")
            modality_of[name] = concept.modality or earlier
            if earlier not in ("unknown", modality_of[name]):
                raise FixInput(
                    f"the concept {name!r} is {earlier} in another vocabulary, and"
                    f" {concept.modality} here",
                    where=str(path),
                    hint="one of the two modalities in both, or another name",
                )
    return modality_of
