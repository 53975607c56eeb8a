"""The recipe of a store: the settings that determine its features, and their fingerprint.

For some backbones, the recipe also names the text space of an array: the space in which its vectors
can be compared with vectors of texts.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.shell import shell_word
from obygaze_features.core.untrusted_text import safe_text

# Machine, batch size and number of workers are not in a recipe: they do not change the numbers.
SECTIONS = (
    "backbone",
    "weights",
    "sampling",
    "decoder",
    "preprocessing",
    "compute",
)
# A key of a recipe's backbone: a checkpoint whose weights were not verified.
UNVERIFIED = "unverified_checkpoint"
CLAIM = ("checkpoint", "revision", UNVERIFIED)

# Keys of a recipe's weights, next to the files: the hash of all tensors, of the configuration, and
# of the files of the tokenizer.
TENSORS = "tensors"
CONFIGURATION = "configuration"
TOKENIZER = "tokenizer"

# The output of a text model, in stores of words.
TEXT = "text"
# The rule of recipes for words that a table states for each clip; other words are in cues.
RULE_OF_TEXTS = "the text of the clip"
# The outputs of each family that its contrastive head compares with text. Other outputs were not
# trained for that.
JOINT_TAPS: Mapping[str, tuple[str, ...]] = {
    "clap": ("vector-mean",),
    "clip": ("frame-vector", "frame-mean"),
    "siglip": ("frame-vector", "frame-mean"),
    "xclip": ("mit-mean",),
}


# What a difference shows for a key that only one of two recipes has.
ABSENT = "(absent)"
# The first word of the title of imported features without a stated backbone.
UNKNOWN_FACT = "unknown"
# The end of the title of imported features with a backbone that the importer stated.
IMPORTED = " (imported)"
# The section of an unknown recipe with the stated facts.
FACTS = "told"
# The fact that describes the files of an import of which no backbone was stated.
ORIGIN = "origin"
# The source of imported features of which a backbone was stated.
STATED = "the importer"


@dataclass(frozen=True)
class Recipe:
    """How features were made. Equal recipes have equal fingerprints, whatever the key order.

    `Recipe.of` makes a recipe in which everything is known. `Recipe.unknown` makes the recipe of
    imported features, with the facts that the user stated.
    """

    canonical: str

    @classmethod
    def of(
        cls,
        *,
        backbone: Mapping[str, Any],
        **sections: Mapping[str, Any],
    ) -> Self:
        """Return a recipe in which everything is known; it must have all `SECTIONS`."""
        if not backbone.get("name"):
            raise FixInput(
                "a recipe must name its backbone",
                where="recipe.backbone.name",
            )
        whole = {name: dict(section) for name, section in sections.items()}
        return cls.from_json({"backbone": dict(backbone), **whole})

    @classmethod
    def unknown(cls, source: str, facts: Mapping[str, Any]) -> Self:
        """Return the recipe of imported features: marked as unknown, with the stated facts."""
        return cls.from_json({"unknown": True, "source": source, FACTS: dict(facts)})

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return a recipe from plain JSON, as in store.json; keys of later versions are kept."""
        try:
            text = canonical_json(value).decode("utf-8")
        except (TypeError, ValueError, RecursionError) as error:
            raise FixInput(
                f"a recipe must be plain JSON without NaN: {error}", where="recipe"
            ) from error
        _check_section("sampling", value.get("sampling", {}))
        is_unknown = value.get("unknown") is True
        if is_unknown:
            # An unknown recipe may have no facts.
            _check_section(FACTS, value.get(FACTS, {}))
            return cls(text)
        for key in SECTIONS:
            if key not in value:
                raise FixInput(f"{key} is missing in the recipe", where="recipe")
            _check_section(key, value[key])
        return cls(text)

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as plain JSON, a new copy each time."""
        value: dict[str, Any] = json.loads(self.canonical)
        return value

    @cached_property
    def _parts(self) -> dict[str, Any]:
        return self.to_json()

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the canonical JSON of the recipe, as 64 hex digits."""
        return sha256_bytes(self.canonical.encode("utf-8"))

    @property
    def is_unknown(self) -> bool:
        """Whether the features were imported, and how they were made is unknown."""
        return self._parts.get("unknown") is True

    @property
    def facts(self) -> Mapping[str, Any]:
        """The stated facts of imported features; empty in a known recipe."""
        facts: Mapping[str, Any] = self._parts.get(FACTS, {})
        return facts

    @property
    def has_local_weights(self) -> bool:
        """Whether the backbone has weights that are not those of a checkpoint on the hub."""
        backbone = self._parts.get("backbone", {})
        return bool(self._parts.get("weights")) and not backbone.get("checkpoint")

    @property
    def medium(self) -> str:
        """The input of the model, which is "pictures", "sound" or "words"; "" if unknown."""
        if "sampling" not in self._parts:
            return ""
        return str(self._parts["sampling"].get("medium", "pictures"))

    @property
    def title(self) -> str:
        """A short title for lists, which names the backbone or the source of imported features."""
        imported_backbone = self.facts.get("backbone")
        if imported_backbone:
            title = f"{imported_backbone}{IMPORTED}"
        elif self.is_unknown:
            title = f"{UNKNOWN_FACT} ({self._parts.get('source', 'imported')})"
        else:
            title = str(self._parts["backbone"].get("name", "?"))
        return safe_text(title, "terminal")

    def as_claimed_by(self, other: Self) -> Self:
        """Return this recipe with the stated checkpoint of `other`, if the weights are equal.

        If the hashes of the weights differ, return this recipe unchanged. Equal weights give equal
        features, whatever checkpoint the user stated.
        """
        ours = self.to_json()
        theirs = other.to_json()
        if not ours.get("weights") or ours["weights"] != theirs.get("weights"):
            return self
        for key in CLAIM:
            ours["backbone"].pop(key, None)
            if key in theirs["backbone"]:
                ours["backbone"][key] = theirs["backbone"][key]
        return self.from_json(ours)

    def diff(
        self, other: Self, sides: tuple[str, str] = ("here", "there")
    ) -> list[tuple[str, str]]:
        """Return the keys (dotted paths) whose values differ, each with a line on both values.

        In these lines, the words of `sides` stand for this recipe and for `other`.
        """
        return list(_differences("", self.to_json(), other.to_json(), sides))

    def require(
        self,
        other: Self,
        *,
        where: str,
        message: str = "the recipes differ",
        hint: str = "choose another store name",
    ) -> None:
        """Raise an error (exit code 5) if the recipes differ; it lists the keys that differ."""
        differences = self.diff(other)
        if differences:
            keys = ", ".join(key for key, _ in differences[:4])
            more = f" and {len(differences) - 4} more" if len(differences) > 4 else ""
            raise Mismatch(
                f"{message}: {keys}{more}",
                where=where,
                hint=hint,
                details=[line for _, line in differences],
            )


def _check_section(key: str, section: Any) -> None:
    """Raise an error unless a section of a recipe is a mapping."""
    if not isinstance(section, Mapping):
        raise FixInput(f"{key} must be a table in the recipe", where="recipe")


def _differences(
    path: str, ours: Any, theirs: Any, sides: tuple[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the path of each key whose values differ, with a line that shows both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            # Messages show the facts of an import as keys of the recipe itself.
            inner = f"{path}.{key}" if path not in ("", FACTS) else key
            pair = ours.get(key, ABSENT), theirs.get(key, ABSENT)
            yield from _differences(inner, *pair, sides)
    elif canonical_json(ours) != canonical_json(theirs):
        here, there = sides
        yield path, f"{path}: {_shortened(ours)} {here}, {_shortened(theirs)} {there}"


def _shortened(value: Any) -> str:
    text = value if isinstance(value, str) else canonical_json(value).decode("utf-8")
    text = safe_text(text, "terminal")
    return text if len(text) <= 60 else text[:57] + "..."


def hash_of_space(weights: Mapping[str, str]) -> str:
    """Return the hash of the text space of a model, from its tensors and its configuration."""
    tensors = weights[TENSORS]
    if CONFIGURATION not in weights:
        return tensors
    return sha256_bytes(canonical_json([tensors, weights[CONFIGURATION]]))


def space_id_of(checkpoint: str, revision: str, space_hash: str) -> str:
    """Return the name of a text space, made of the checkpoint, the revision and `space_hash`."""
    return f"{checkpoint or 'local'}@{revision or 'main'}#{space_hash}"


def same_space(first: str, second: str) -> bool:
    """Return whether two names mean one space.

    If both names end in a hash, compare only the hashes. If not, compare the whole names.
    """
    hashes = [name.rpartition("#")[2] for name in (first, second) if "#" in name]
    return hashes[0] == hashes[1] if len(hashes) == 2 else first == second


def space_of_array(recipe: Recipe, array: str) -> str | None:
    """Return the text space of an array, or None if the recipe does not determine it.

    The vectors of a text space can be compared with vectors of texts. Raise an error for an array
    that its backbone was not trained to compare with text: cosines between this array and texts
    would mean nothing.
    """
    whole = recipe.to_json()
    backbone: Mapping[str, Any] = whole.get("backbone", {})
    weights: Mapping[str, str] = whole.get("weights", {})
    taps = backbone.get("levels")
    family = backbone.get("family")
    if not isinstance(taps, dict) or TENSORS not in weights or array not in taps:
        return None
    joint_taps = (TEXT, *JOINT_TAPS.get(str(family), ()))
    joint = [name for name, tap in taps.items() if tap in joint_taps]
    if array not in joint:
        instead = (
            f"pass --array {shell_word(joint[0])}"
            if joint
            else "use a store of CLIP, SigLIP, X-CLIP or CLAP"
        )
        raise Mismatch(
            f"the array {array!r} of {backbone.get('name')} cannot be compared with text",
            hint=instead,
        )
    return space_id_of(
        str(backbone.get("checkpoint", "")),
        str(backbone.get("revision", "")),
        hash_of_space(weights),
    )
