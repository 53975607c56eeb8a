"""The card of a store, README.md: a description of the store, and its terms.

The licence and the citation are in the YAML header at the top of the card. The seal does not cover
the card, so they can be added or corrected later.
"""

import codecs
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple, Self

from obygaze_features.core.console import count, human, join_names
from obygaze_features.core.errors import AlreadyThere, FixUsage
from obygaze_features.core.untrusted_text import safe_text, visible
from obygaze_features.store.layout import PICTURES, Array, default_array
from obygaze_features.store.recipe import UNVERIFIED, Recipe
from obygaze_features.store.records import Maker, StoreRecord
from obygaze_features.store.rows import NO_REASON, OK, RowColumns

HERE = "obygaze_features.store"
SHOWN_REASONS = 20
MOST_CARD_BYTES = 10_000_000
# The licences that the hub and Zenodo know, by their SPDX identifiers.
LICENCES = (
    "Apache-2.0",
    "BSD-3-Clause",
    "CC-BY-4.0",
    "CC-BY-NC-4.0",
    "CC-BY-NC-ND-4.0",
    "CC-BY-NC-SA-4.0",
    "CC-BY-SA-4.0",
    "CC0-1.0",
    "MIT",
    "ODbL-1.0",
)
_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28,52}\b")
# An editor may write a byte order mark before the head.
_HEAD = re.compile(
    r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
# A key of the head with the lines of its text; lines may be empty or indented.
_TERM = re.compile(
    r"^(license|license_name|citation):(.*\n(?:(?:[ \t-].*)?\r?\n)*)", re.MULTILINE
)
# The first line of a text of several lines, such as `|` or `>-`, or the sign of a list.
_BLOCK = re.compile(r"[|>][-+0-9]*[ \t]*(?:#.*)?\r?$|-(?:\s|$)", re.MULTILINE)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SINGLE_QUOTED = re.compile(r"'((?:[^']|'')*)'")
# A list of one value, as some cards of the hub have it.
_LIST_OF_ONE = re.compile(r"\[([^],]*)\]\s*(?:#.*)?")
_JSON = json.JSONDecoder()
_SECTION = re.compile(r"^Licence: .*\n\r?\n.*\n", re.MULTILINE)


# --- Licence and citation ---


class Terms(NamedTuple):
    """The licence and the citation of features; "" if not stated."""

    licence: str = ""
    citation: str = ""

    def or_else(self, others: Self) -> Self:
        """Return these terms; a term that is not stated is taken from `others`."""
        return self._replace(
            licence=self.licence or others.licence,
            citation=self.citation or others.citation,
        )

    @property
    def spelled(self) -> Self:
        """These terms as they are compared, and as a card has them: each in a printable line."""
        return self._replace(
            licence=_spdx_or_same(_printable_line(self.licence)),
            citation=_printable_line(self.citation),
        )

    def are_part_of(self, stated: Self) -> bool:
        """Return whether `stated` has each of these terms that is stated."""
        theirs = stated.spelled
        return self.spelled.or_else(theirs) == theirs

    def require_same(self, stated: Self, where: str) -> None:
        """Raise an error if `stated` has a different licence or citation.

        Spellings of one licence are equal. A term that only one of both states is no difference.
        """
        ours = self.spelled
        theirs = stated.spelled
        # A term that only one of both states is not a difference.
        if ours.or_else(theirs) != theirs.or_else(ours):
            raise AlreadyThere(
                f"a different licence or citation is stated already: {' '.join(theirs)}",
                where=where,
                hint="edit the YAML header of README.md in the store",
            )


def spdx_of(licence: str) -> str:
    """Return the SPDX identifier of a licence, or "" if it is unknown.

    >>> spdx_of("cc-by-4.0"), spdx_of("odbl"), spdx_of("by hand")
    ('CC-BY-4.0', 'ODbL-1.0', '')
    """
    folded = licence.lower()
    for identifier in LICENCES:
        if identifier.lower() in (folded, f"{folded}-1.0"):
            return identifier
    return ""


def _spdx_or_same(licence: str) -> str:
    """Return the SPDX identifier of a licence, or the licence itself."""
    return spdx_of(licence) or licence


def has_head(card: bytes) -> bool:
    """Return whether a card begins with a YAML header, as all cards of this program do."""
    return _HEAD.match(_text_of(card)) is not None


def _text_of(card: bytes) -> str:
    """Return the text of a card, which an editor may have saved in another encoding than UTF-8.

    Bytes that are not UTF-8 are kept: they become surrogates.
    """
    if card.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return card.decode("utf-16", "replace")
    return card.decode("utf-8", "surrogateescape")


def _is_utf8(text: str) -> bool:
    """Return whether no byte of a text was kept as a surrogate."""
    return not _SURROGATE.search(text)


def read_terms(card: bytes) -> Terms:
    """Return the terms in the YAML header of a card, which users may have edited."""
    head = _HEAD.match(_text_of(card))
    values = dict.fromkeys(("license", "license_name", "citation"), "")
    for key, value in _TERM.findall(head[1]) if head else ():
        values[key] = _parse_text(value)
    named = {"other": values["license_name"], "unknown": ""}
    licence = named.get(values["license"], values["license"])
    return Terms(_spdx_or_same(licence), values["citation"])


def _parse_text(value: str) -> str:
    """Return the text of a YAML value, in the notations that this program writes or users type."""
    text = value.strip()
    if not _is_utf8(text):
        text = text.encode("utf-8", "surrogateescape").decode("cp1252", "replace")
    listed = _LIST_OF_ONE.fullmatch(text)
    if listed:
        text = listed[1].strip()
    if text.startswith(("'", '"')):
        # Programs write a long text in quotes on several lines.
        text = re.sub(r"\s*\n\s*", " ", text)
    if text.startswith('"'):
        with suppress(ValueError):
            return str(_JSON.raw_decode(text)[0])
    quoted = _SINGLE_QUOTED.match(text)
    if quoted:
        return quoted[1].replace("''", "'")
    block = _BLOCK.match(text)
    text = text[block.end() :] if block else text
    # In a text of several lines, # begins no comment.
    if block is None or block[0].startswith("-"):
        text = re.sub(r"(^|\s)#.*", "", text).strip(' "')
    words = " ".join(text.split())
    return "" if words in ("~", "null") else words


def with_terms(card: bytes, terms: Terms) -> bytes:
    """Return a card with these terms in its YAML header and in its section on terms."""
    text = _text_of(card)
    section = (
        f"Licence: {safe_text(terms.spelled.licence, 'markdown') or 'not stated'}\n\n"
        f"{citation_text(terms)}\n"
    )
    head = _HEAD.match(text)
    header = head[0] if head else ""
    body = _SECTION.sub(lambda _: section, text[len(header) :], count=1)
    # A header that states these terms keeps its notation.
    if read_terms(card) != terms:
        kept = _TERM.sub("", head[1]) if head else ""
        new_head = "\n".join(terms_lines(terms))
        header = f"---\n{new_head}\n{kept}---\n"
    return (header + body).encode("utf-8", "surrogateescape")


def terms_lines(terms: Terms, label_licence: str | None = None) -> list[str]:
    """Return the lines of the YAML header that state the terms, with the keys of Hugging Face.

    Hugging Face shows one licence. If the labels have a different licence than the features, the
    value of `license` is `other`, and `license_name` states both licences.
    """
    licence = spdx_of(terms.spelled.licence).lower().replace("odbl-1.0", "odbl")
    name = terms.licence
    if label_licence not in (None, terms.licence):
        licence = ""
        of_features = terms.licence or "not stated"
        name = f"features: {of_features}, labels: {label_licence or 'not stated'}"
    lines = [f"license: {licence or ('other' if name else 'unknown')}"]
    if name and not licence:
        lines.append(f"license_name: {_yaml_text(name)}")
    if terms.citation:
        lines.append(f"citation: {_yaml_text(terms.citation)}")
    return lines


def _yaml_text(text: str) -> str:
    """Return a text as JSON, which is also YAML; raise an error for bytes that are not UTF-8."""
    if not _is_utf8(text):
        raise FixUsage(
            f"the licence or the citation is not UTF-8: {text!r}",
            hint="type the text in UTF-8",
        )
    return json.dumps(_printable_line(text), ensure_ascii=False)


def _printable_line(text: str) -> str:
    """Return a text in one line, with escapes for characters that are not printable."""
    return visible(_one_line(text))


def _one_line(text: str) -> str:
    """Return the lines of a text in one line, with ` | ` between them.

    The citation of a merged store has one line for each citation of the stores.
    """
    return " | ".join(line.strip() for line in text.splitlines() if line.strip())


def citation_text(terms: Terms) -> str:
    """Return the citation in one line, or a sentence that none was given, as text of a card.

    Characters of the citation that Markdown would interpret are escaped.
    """
    citation = safe_text(_one_line(terms.citation), "markdown")
    return citation or "No citation was given."


# --- The card ---


def card_of_store(
    record: StoreRecord, rows: RowColumns, terms: Terms, seal: str
) -> str:
    """Return the card of a store.

    Args:
        record: The record of the store.
        rows: All rows of the store.
        terms: The licence and the citation of the features.
        seal: The seal of the store.
    """
    recipe = Recipe.from_json(record.recipe)
    manifest = record.manifest.name or "several manifests"
    title = visible(f"{manifest} {recipe.title}")
    counts = [f"{n:,} {status}" for status, n in record.rows.by_status.items() if n]
    has_pictures = record.array(PICTURES) is not None
    what = "pictures" if has_pictures else "features"
    arrays = []
    for array in record.arrays:
        name, *facts = array_facts(array, len(rows))
        arrays.append(f"| `{_code(name)}` | {' | '.join(map(_markdown, facts))} |")
    history = [
        f"History: replaced the store with the seal {_markdown(one)}"
        for one in record.replaces
    ]
    for origin in record.origins:
        history.append(
            f"Made from: {_markdown(origin.place)} ({_markdown(origin.seal)})"
        )
    page = files(HERE).joinpath("templates/card.md").read_text("utf-8")
    # Not a template of jinja2: its import and its compiler take longer than all else here.
    return Template(page).substitute(
        terms_lines="\n".join(terms_lines(terms.spelled)),
        pretty_name=json.dumps(title, ensure_ascii=False),
        seal=_code(seal),
        What=what.capitalize(),
        what=what,
        manifest=_markdown(manifest),
        title=_markdown(recipe.title),
        manifests=_markdown(record.manifests_text),
        n_rows=f"{len(rows):,}",
        counts=_markdown(join_names(counts)),
        made_with=_markdown(recipe_text(recipe)),
        arrays="\n".join(arrays),
        array=_code(default_array(record.arrays) or record.arrays[0].name),
        makers=_makers_section(record.makers),
        reasons=_reasons_section(rows),
        limits=_limits(recipe, has_pictures=has_pictures),
        licence=_markdown(terms.spelled.licence) or "not stated",
        citation=citation_text(terms),
        recipe_lines="\n".join(f"- {_markdown(line)}" for line in recipe_lines(recipe)),
        fingerprint=_code(recipe.fingerprint),
        history="".join(f"\n{line}\n" for line in history),
    )


def _markdown(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    return safe_text(text, "markdown")


def _code(text: str) -> str:
    """Return a text for a span or a block of code in Markdown."""
    return safe_text(text, "terminal").replace("`", "'")


def _makers_section(makers: Sequence[Maker]) -> str:
    """Return the section on the makers of the features, or "" if they are unknown."""
    if not makers:
        return ""
    lines = [f"- {_markdown(_maker_line(maker))}\n" for maker in makers]
    return f"## What made it\n\n{''.join(lines)}\n"


def _reasons_section(rows: RowColumns) -> str:
    """Return the section on rows without features, or "" if all rows are ok."""
    pairs = zip(rows.statuses, rows.reasons, strict=True)
    reasons = Counter(pair for pair in pairs if pair[0] != OK)
    if not reasons:
        return ""
    lines = []
    for (status, reason), n_of_reason in reasons.most_common(SHOWN_REASONS):
        lines.append(
            f"| {n_of_reason} | {status} | {_markdown(reason or NO_REASON)} |\n"
        )
    return (
        "## Rows without features\n\n"
        "| rows | status | reason |\n"
        "|---|---|---|\n"
        f"{''.join(lines)}\n"
        "The array `reason` has the reason of each row, and `obygaze store info STORE --clips`"
        " lists them.\n\n"
    )


def _limits(recipe: Recipe, *, has_pictures: bool) -> str:
    """Return what the numbers are, what is inside, and what is not."""
    if has_pictures:
        return (
            "The numbers are the pictures themselves, resized: no model made them. They can be"
            " compared with pictures of the same fingerprint only. A clip that failed has no"
            " pictures: it is absent, not black.\n\n"
            "## What is inside\n\n"
            "Pictures of films are part of this store: the array `pictures` has the frames of each"
            " clip. No sound and no subtitle is part of it. Whoever has the store can see the films"
            " and the people in them, and the rights of the films hold for it: obygaze neither"
            " exports nor sends it."
        )
    compared = "They can be compared with features of the same fingerprint only."
    inside = (
        "No film, no image, no sound and no subtitle is part of this store: it holds numbers"
        " computed from clips, and the ids of the clips."
    )
    if recipe.is_unknown:
        compared = (
            "How these numbers were made is not known, so they can be neither made again nor"
            " compared with others."
        )
        inside = (
            "It is not known whether the imported numbers are pictures. No other film, image, sound"
            " or subtitle is part of this store, which also holds the ids of the clips."
        )
    return (
        f"Features are what models made of {_markdown(recipe.medium or 'clips')}. They carry what"
        " these models learned from their own data, stereotypes of gender and of bodies included,"
        f" and say nothing about the people in a film. {compared} A clip that failed has no"
        " features: it is absent, not zero.\n\n"
        "## What is not inside\n\n"
        f"{inside} Features are not anonymous: part of a picture can be recovered from them."
    )


def with_text_of_people(card: str, generated: str, edited: bytes) -> bytes:
    """Return a card with what people changed in the card of the store that it replaces.

    Lines that they wrote are kept, each behind the line that it followed. A line that they removed
    is left out, unless the new card has another line in its place.

    Args:
        card: The card of the new store.
        generated: The card of the store before, as this program writes it.
        edited: The card of the store before, as it is now.
    """
    lines = [line.rstrip() for line in card.splitlines()]
    before = [line.rstrip() for line in generated.splitlines()]
    now = [line.rstrip() for line in _text_of(edited).splitlines()]
    # What people wrote, by the line of the card before that follows it.
    written: dict[int, list[str]] = defaultdict(list)
    removed: set[int] = set()
    for change in _changes(before, now):
        removed.update(range(change.first, change.after))
        written[change.after] += now[change.first_new : change.after_new]
    merged: list[str] = []
    place = 0
    end = _Change(len(before), len(before), len(lines), len(lines))
    for change in (*_changes(before, lines), end):
        for number in range(place, change.first):
            merged += written.pop(number, [])
            if number not in removed:
                merged.append(before[number])
        merged += lines[change.first_new : change.after_new]
        for number in range(change.first, change.after):
            merged += written.pop(number, [])
        place = change.after
    merged += written.pop(len(before), [])
    text = "\n".join([*merged, ""])
    return text.encode("utf-8", "surrogateescape")


class _Change(NamedTuple):
    """Lines `first` to `after - 1` that became lines `first_new` to `after_new - 1`."""

    first: int
    after: int
    first_new: int
    after_new: int


def _changes(before: Sequence[str], now: Sequence[str]) -> list[_Change]:
    """Return the changes between two lists of lines."""
    matcher = SequenceMatcher(None, before, now, autojunk=False)
    return [
        _Change(*places) for tag, *places in matcher.get_opcodes() if tag != "equal"
    ]


def array_facts(array: Array, n_rows: int) -> tuple[str, str, str, str]:
    """Return the name, shape, data type and size of an array, as cells of a table of arrays."""
    shape = " x ".join(map(str, array.shape)) or "one number"
    return array.name, shape, array.dtype, human(array.row_bytes * n_rows)


def _maker_line(maker: Maker) -> str:
    """Return what made features, with versions of packages, as a line of the card."""
    return ", ".join(filter(None, (maker_text(maker), versions_text(maker))))


def maker_text(maker: Maker) -> str:
    """Return the program, device and precision that made features, in one line."""
    device = f"on {maker.device}" if maker.device else ""
    if device and maker.device_name:
        device = f"{device} ({maker.device_name})"
    made = " ".join(filter(None, (maker.program, device)))
    return ", ".join(filter(None, (made, maker.precision)))


def versions_text(maker: Maker) -> str:
    """Return the versions of the packages that made features, in one line."""
    versions = [f"{name} {version}" for name, version in sorted(maker.versions.items())]
    return ", ".join(versions)


# --- The recipe in words ---


def recipe_text(recipe: Recipe) -> str:
    """Return how features were made in a few words: the model, its input, its precision."""
    if recipe.is_unknown:
        return f"{recipe.title}; how they were made is not known"
    sections = recipe.to_json()
    backbone = sections["backbone"]
    sampling = sections["sampling"]
    parts = [recipe.title]
    if backbone.get(UNVERIFIED):
        parts.append(f"weights of {backbone[UNVERIFIED]}, not verified")
    n_frames = sampling.get("frames")
    if n_frames:
        parts.append(f"{count(n_frames, 'frame')} a clip")
    if recipe.medium and recipe.medium != "pictures":
        parts.append(recipe.medium)
    parts.append(str(sections["compute"].get("dtype", "")))
    return ", ".join(filter(None, parts))


def recipe_lines(recipe: Recipe) -> list[str]:
    """Return the whole recipe, a line `key: value` for each value, with short hashes."""
    return [f"{key}: {text}" for key, text in flat_values(recipe.to_json())]


def flat_values(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each value of nested tables as text, after the dotted path of its keys."""
    if isinstance(value, Mapping) and value:
        for name, one in value.items():
            yield from flat_values(one, f"{key}.{name}" if key else name)
        return
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    yield key, _HASH.sub(r"\1...", text)
