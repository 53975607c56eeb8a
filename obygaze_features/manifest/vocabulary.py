"""Look up the canonical names of annotation levels and concepts, and the titles of films."""

import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

Level = Literal["EN", "HN", "NS", "S"]
LEVELS: tuple[str, ...] = get_args(Level)
VOCABULARY = "vocabulary.toml"
# The visual view keeps only "visual" concepts, and needs one of these modalities for each concept.
MODALITIES = ("visual", "speech", "audio", "narrative")


@cache
def read_packaged(name: str) -> dict[str, Any]:
    """Return the content of a TOML file of this package."""
    return tomllib.loads(files(__package__).joinpath(name).read_text("utf-8"))


def concepts() -> dict[str, str]:
    """Return the canonical concepts in their order, each with its modality."""
    return {
        entry["name"]: entry["modality"]
        for entry in read_packaged(VOCABULARY)["concepts"]
    }


def subconstructs() -> dict[str, tuple[str, ...]]:
    """Return the sub-constructs in their order, each with the concepts that have instances of it.

    >>> subconstructs()["male gaze"]
    ('Type of shot', 'Look')
    """
    members: dict[str, list[str]] = {}
    for entry in read_packaged(VOCABULARY)["subconstructs"]:
        members[entry["name"]] = []
    for concept in read_packaged(VOCABULARY)["concepts"]:
        for instance in concept.get("instances", ()):
            for name in instance["subconstructs"]:
                if concept["name"] not in members[name]:
                    members[name].append(concept["name"])
    return {name: tuple(names) for name, names in members.items()}


def canonical_concept(spelling: str) -> str | None:
    """Return the canonical name of a concept, or None for an unknown word.

    >>> canonical_concept("type of plan")
    'Type of shot'
    """
    return _canonical()[0].get(_key(spelling))


def canonical_level(spelling: str) -> str | None:
    """Return EN, HN, NS or S for a spelling of an annotation level, or None if it is unknown.

    >>> canonical_level("Easy Neg")
    'EN'
    """
    return _canonical()[1].get(_key(spelling))


def concept_meaning(name: str) -> str:
    """Return the meaning of a canonical concept or a sub-construct, or "" if it is unknown.

    >>> concept_meaning("Soundtrack").partition(" For")[0]
    'Music or sounds that underline that somebody is on view.'
    """
    for entry in read_packaged(VOCABULARY)["subconstructs"]:
        if entry["name"] == name:
            return str(entry["definition"])
    for entry in read_packaged(VOCABULARY)["concepts"]:
        if entry["name"] == name:
            return f"{entry['definition']} For example: {'; '.join(entry['examples'])}."
    return ""


def film_facts(movie_id: str) -> dict[str, Any]:
    """Return title, year and genres of a film of ObyGaze12 or MObyGaze, or {} for other films.

    >>> film_facts("tt0467406")
    {'title': 'Juno', 'year': 2007, 'genres': ['Comedy', 'Drama']}
    """
    # A copy is returned, so that no caller changes the cached table.
    return deepcopy(read_packaged("films.toml").get(movie_id, {}))


def _key(spelling: str) -> str:
    """Return a spelling in lower case, with single blanks in place of blanks and underscores."""
    return " ".join(spelling.replace("_", " ").split()).casefold()


@cache
def _canonical() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the canonical concepts, and the canonical levels, by `_key` of each spelling."""
    spellings = {}
    for entry in read_packaged(VOCABULARY)["concepts"]:
        spellings[entry["name"]] = entry["aliases"]
    return _by_key(spellings), _by_key(read_packaged(VOCABULARY)["levels"])


def _by_key(spellings: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the canonical names by `_key` of each spelling."""
    name_of_key = {}
    for name, others in spellings.items():
        for word in (name, *others):
            name_of_key[_key(word)] = name
    return name_of_key
