"""What the tiers of ELAN files are: their roles, and the mapping which says them.

In a file that this program wrote, the linguistic types of tiers say what they are; names of tiers
are only names. Of any other tier a mapping says it: a TOML file, of which an import writes a draft.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

from obygaze.films.mark_tables import WATCHED, plain
from obygaze_features.core.console import count
from obygaze_features.core.files import require_file
from obygaze_features.core.schema_check import Filled, one_of, read_toml
from obygaze_features.manifest.adapters.table_mapping import (
    OPEN,
    WordMapping,
    checked_mapping,
    meanings_of_words,
    separator_of,
)
from obygaze_features.manifest.io import toml_lines, toml_string
from obygaze_features.manifest.model import LEVELS

UNUSED = "unused"
# What a tier can be; the last one is not used.
ROLES = ("levels", "concepts", "comments", WATCHED, UNUSED)
ROLES_UNLINKED = f"not linked to another tier: levels, {WATCHED} or {UNUSED}"
# The linguistic types of the tiers in files that this program writes.
OWN_TYPES = {
    "level": "levels",
    "concept": "concepts",
    "comment": "comments",
    WATCHED: WATCHED,
}
# One word, or several with signs between them; a sentence has blanks without a sign.
SINGLE_WORDS = re.compile(r"\s*\w+(\s*[;,/]\s*\w+)*\s*")
# A draft has the words of tiers without a role that have at most so many.
MOST_WORDS = 20


@dataclass(frozen=True)
class TierMapping(WordMapping):
    """What the tiers of ELAN files are, and the meaning of their words.

    `tiers` has the role of a tier by its name, `annotators` who made it.
    """

    tiers: Mapping[str, Annotated[str, one_of(ROLES)]] = field(default_factory=dict)
    annotators: Mapping[str, Filled] = field(default_factory=dict)


def read_tier_mapping(path: Path) -> TierMapping:
    """Return the mapping in a TOML file, or raise one error of all its violations.

    A line with a `?` says nothing: a draft asks for words of tiers that may not be used.
    """
    require_file(path)
    lines = []
    for line in path.read_bytes().splitlines():
        lines.append(b"" if OPEN.fullmatch(line) else line)
    return checked_mapping(read_toml(b"\n".join(lines), str(path)), TierMapping)


class TierAnnotation(NamedTuple):
    """An annotation with its text: with two time slots, or with the one that it refers to."""

    text: str
    slots: tuple[str, str] | None
    refers_to: str


@dataclass(eq=False)
class Tier:
    """A tier of an ELAN file; `parent` is the tier above it, None if there is none.

    `role` is "" where nothing says what the tier is. In tiers of this program, which `is_own`, an
    annotation is one concept, whatever signs it has.
    """

    name: str
    annotator: str
    annotations: Mapping[str, TierAnnotation]
    role: str
    is_own: bool
    parent: "Tier | None" = None

    @property
    def belongs_to_parent(self) -> bool:
        """Whether its annotations are concepts or comments of the marks above them."""
        if self.parent is None or self.role not in ("concepts", "comments"):
            return False
        return self.parent.role in ("levels", "concepts")

    @property
    def is_lane(self) -> bool:
        """Whether each of its annotations is a mark."""
        return self.role in ("levels", WATCHED)

    def ancestors(self) -> Iterator["Tier"]:
        """Yield the tier above this one, then the one above that, and so on."""
        tier = self.parent
        while tier is not None:
            yield tier
            tier = tier.parent

    def may_be(self, role: str) -> bool:
        """Return whether it has a role in which words need a meaning, or may have it."""
        if self.role:
            return self.role == role and not (role == "concepts" and self.is_own)
        return role == "levels" or self.parent is not None

    @property
    def texts(self) -> list[str]:
        """The texts of its annotations that are not empty."""
        texts = [annotation.text for annotation in self.annotations.values()]
        return [text for text in texts if text]

    def words(self, text: str, separator: str) -> list[str]:
        """Return the words of an annotation of concepts."""
        words = [text] if self.is_own else text.split(separator)
        return [word.strip() for word in words if word.strip()]

    def described(self) -> str:
        """Return how many annotations it has, and the first ones."""
        facts = count(len(self.annotations), "annotation")
        if self.parent is not None:
            facts += f", linked to {plain(self.parent.name)}"
        first = ", ".join(list(dict.fromkeys(self.texts))[:3])
        return textwrap.shorten(f"{facts}: {first}", 60, placeholder=" ...")

    def made_of(self) -> str:
        """Return in words what the import made of the tier."""
        if self.role == UNUSED:
            return "not used"
        if self.belongs_to_parent and self.parent is not None:
            return f"{self.role} of the tier {self.parent.name}"
        if self.role == WATCHED:
            return f"what {self.annotator} has watched"
        return f"{self.role} of {self.annotator}"


def draft_of_tiers(tiers: Sequence[Tier], mapping: TierMapping) -> str:
    """Return the text of a mapping of tiers that cannot be read, with `?` for what is not known.

    Args:
        tiers: The tiers of all files.
        mapping: What is known already.
    """
    lines = [
        "# Write something in place of each ?; lines of words that nothing reads may stay. Then",
        "# import the files again, with this one as --mapping.",
    ]
    texts = []
    for tier in tiers:
        if tier.may_be("concepts"):
            of_tier = [text for text in tier.texts if mapping.concept(text) is None]
            # Without a role it may be a tier of comments, where a comma separates no concepts.
            if not tier.role:
                of_tier = [text for text in of_tier if SINGLE_WORDS.fullmatch(text)]
            texts += of_tier
    sign = separator_of(texts, mapping)
    if sign == mapping.separator:
        lines += toml_lines({"separator": sign})
    else:
        shown = next(text for text in texts if sign in text)
        between = f"{toml_string(sign)} in {toml_string(shown)}"
        lines += ["", f"# Between concepts, such as {between}.", 'separator = "?"']
    lines += [
        "",
        "[tiers]",
        f"# One of {', '.join(ROLES)}. Tiers of concepts and comments are",
        "# linked to one of levels: concepts are a few words that come again, comments any text.",
        "# A table [annotators] may name who made a tier.",
        *toml_lines(mapping.tiers),
    ]
    unknown: dict[str, list[Tier]] = {}
    for tier in tiers:
        if not tier.role:
            unknown.setdefault(tier.name, []).append(tier)
    for name, of_files in unknown.items():
        described = of_files[0].described()
        if len(of_files) > 1:
            described = f"in {len(of_files)} files, the first with {described}"
        # Comments without a mark that they belong to would be refused.
        if any(tier.parent is None for tier in of_files):
            described = f"{ROLES_UNLINKED}; {described}"
        lines.append(f"{toml_lines({name: '?'})[0]}  # {described}")
    if mapping.annotators:
        lines += ["", "[annotators]", *toml_lines(mapping.annotators)]
    lines += [
        "",
        "[levels]",
        "# For the words of tiers of levels alone:",
        f"# One of {', '.join(LEVELS)}.",
        *toml_lines(mapping.levels),
        *_asked_words(tiers, "levels", mapping, sign),
        "",
        "[concepts]",
        "# For the words of tiers of concepts alone:",
        *meanings_of_words(),
        *toml_lines(mapping.concepts),
        *_asked_words(tiers, "concepts", mapping, sign),
    ]
    if mapping.modalities:
        lines += ["", "[modalities]", *toml_lines(mapping.modalities)]
    return "\n".join([*lines, ""])


def _asked_words(
    tiers: Iterable[Tier], role: str, mapping: TierMapping, sign: str
) -> list[str]:
    """Return the lines that ask for the words of tiers that have a role, or may have it."""
    unknown_of: dict[str, dict[str, str]] = {}
    with_role = set()
    for tier in tiers:
        if not tier.may_be(role):
            continue
        words: list[str] = []
        for annotation in tier.annotations.values():
            text = annotation.text
            words += tier.words(text, sign) if role == "concepts" else [text]
        # A tier of one name is the same in all files.
        unknown = unknown_of.setdefault(tier.name, {})
        if tier.role:
            with_role.add(tier.name)
        for word in words:
            is_of_mark = not word and tier.is_own
            if not is_of_mark and not _is_known(word, tier.role, mapping):
                unknown[word] = "?"
    lines = []
    asked: set[str] = set()
    for name, words_of_tier in unknown_of.items():
        unknown = {word: "?" for word in words_of_tier if word not in asked}
        if unknown and (name in with_role or len(unknown) <= MOST_WORDS):
            lines.append(f"# {toml_string(name)}:")
            if "" in unknown:
                lines.append("# Annotations without a text:")
            lines += toml_lines(
                dict(sorted(unknown.items(), key=lambda one: bool(one[0])))
            )
            asked.update(unknown)
        elif unknown:
            many = f"{len(unknown)} words, which a draft has once [tiers] says {role}"
            lines.append(f"# {toml_string(name)}: {many}")
    return lines


def _is_known(word: str, role: str, mapping: TierMapping) -> bool:
    """Return whether a word has a meaning in a tier of a role, or in any tier without a role."""
    is_level = role != "concepts" and mapping.level(word) is not None
    is_concept = role != "levels" and mapping.concept(word) is not None
    return is_level or is_concept
