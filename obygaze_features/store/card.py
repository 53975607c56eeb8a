"""The card of a store, README.md: what the store is in words, and under which terms.

Licence and citation stand in the YAML head of the card, outside what is sealed, so that they can be
stated or corrected later.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from obygaze_features.core.console import human, listed
from obygaze_features.core.errors import AlreadyThere
from obygaze_features.core.outside import safe_text, visible
from obygaze_features.core.rendering import SafeText, render
from obygaze_features.store.layout import Array, default_array
from obygaze_features.store.recipe import (
    FACTS,
    SECTIONS,
    UNVERIFIED,
    Recipe,
)
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
_HASH = re.compile(r"[0-9a-f]{40,64}")
_SECTION = re.compile(r"^Licence: .*\n\r?\n.*\n", re.MULTILINE)
_BOM = "\ufeff"
_IN_QUOTES = re.compile(r"""("(?:[^"\\]+|\\.)*+"|'(?:[^']+|'')*+')(?:\s+#.*)?""")
# Keys of the head that the program writes, whatever a person has edited.
_TERMS_KEYS = ("license", "license_name", "citation")


# --- Licence and citation ---


class Terms(NamedTuple):
    """Under which licence features may be used, and what to cite for them; "" if not stated."""

    licence: str = ""
    citation: str = ""

    def or_else(self, others: Self) -> Self:
        """Return these terms, and of others those that are not stated here."""
        return self._replace(
            licence=self.licence or others.licence,
            citation=self.citation or others.citation,
        )

    def require_same(self, stated: Self, where: str) -> None:
        """Raise an error if others are stated already, however their licence is spelled."""
        pairs = [
            ("licence", _spelled(self.licence), _spelled(stated.licence)),
            ("citation", _one_line(self.citation), _one_line(stated.citation)),
        ]
        for name, value, there in pairs:
            if value and there and value != there:
                raise AlreadyThere(
                    f"another {name} is stated already: {there}",
                    where=where,
                    hint="edit the head of README.md of the store",
                )


def spdx_of(licence: str) -> str:
    """Return the SPDX identifier of a licence, "" where none is known here.

    >>> spdx_of("cc-by-4.0"), spdx_of("odbl"), spdx_of("by hand")
    ('CC-BY-4.0', 'ODbL-1.0', '')
    """
    folded = licence.lower()
    for identifier in LICENCES:
        if identifier.lower() in (folded, f"{folded}-1.0"):
            return identifier
    return ""


def _spelled(licence: str) -> str:
    """Return a licence by its SPDX identifier, if it has one."""
    return spdx_of(licence) or licence


def read_terms(card: bytes) -> Terms:
    """Return the terms in the head of a card, which a person may have edited."""
    values = _head_values(card.decode("utf-8", "replace"))
    licence = values.get("license", "")
    if licence == "other":
        licence = values.get("license_name", "")
    elif licence == "unknown":
        licence = ""
    return Terms(_spelled(licence), values.get("citation", ""))


def with_terms(card: bytes, terms: Terms) -> bytes:
    """Return a card with other terms, in its head and in its section on them."""
    # A person may have edited it in an editor that does not write UTF-8.
    head, body = _split(card.decode("utf-8", "surrogateescape"))
    kept = []
    for key, lines in _keys_of(head):
        if key not in _TERMS_KEYS:
            kept += lines
    section = (
        f"Licence: {safe_text(terms.licence, 'markdown') or 'not stated'}\n\n"
        f"{citation_text(terms)}\n"
    )
    body = _SECTION.sub(lambda _: section, body, count=1)
    lines = ["---", *terms_lines(terms), *kept, "---", body]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def has_head(card: bytes) -> bool:
    """Return whether a text begins with a head, as every card that the program writes."""
    return card.decode("utf-8", "replace").removeprefix(_BOM).startswith("---")


def _keys_of(head: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the lines of a head by their keys, in order; those of comments have the key ""."""
    keys: list[tuple[str, list[str]]] = []
    for line in head:
        # A text of several lines may have empty ones.
        if keys and (not line.strip() or line[0].isspace() or line.startswith("-")):
            keys[-1][1].append(line)
        else:
            key = "" if line.startswith("#") else line.partition(":")[0].strip()
            keys.append((key, [line]))
    return keys


def _split(text: str) -> tuple[list[str], str]:
    """Return the lines of the head of a card, without the lines of ---, and the rest."""
    text = text.removeprefix(_BOM)
    lines = text.split("\n")
    if lines[0].strip() == "---":
        for number, line in enumerate(lines[1:], start=1):
            if line.strip() == "---":
                return lines[1:number], "\n".join(lines[number + 1 :])
    return [], text


def _head_values(text: str) -> dict[str, str]:
    """Return the keys at the left of the head with their texts; of YAML, what people type."""
    values: dict[str, str] = {}
    head, _ = _split(text)
    for key, (first, *others) in _keys_of(head):
        text_of_key = first.partition(":")[2].strip()
        if re.fullmatch("[|>][-+]?", text_of_key):
            text_of_key = ""
        words = [text_of_key, *map(str.strip, others)]
        values[key] = _unquoted(" ".join(filter(None, words)))
    return values


def _unquoted(value: str) -> str:
    """Return the text of a value in YAML, behind which a comment may stand."""
    in_quotes = _IN_QUOTES.fullmatch(value)
    if in_quotes:
        value = in_quotes[1]
    if value.startswith('"'):
        try:
            text = json.loads(value)
        except ValueError:
            return value.strip('"')
        return str(text)
    if in_quotes:
        return value[1:-1].replace("''", "'")
    plain = value.partition(" #")[0].strip()
    return "" if plain in ("~", "null") else plain


def terms_lines(terms: Terms, label_licence: str | None = None) -> list[str]:
    """Return the lines of the head with the terms, as the hub reads them.

    The hub shows one licence: where labels have another one, none holds for the whole.
    """
    licence = spdx_of(terms.licence).lower().replace("odbl-1.0", "odbl")
    name = terms.licence
    if label_licence not in (None, terms.licence):
        licence = ""
        of_features = terms.licence or "not stated"
        name = f"features: {of_features}, labels: {label_licence or 'not stated'}"
    if licence:
        lines = [f"license: {licence}"]
    elif name:
        lines = ["license: other", f"license_name: {quoted(name)}"]
    else:
        lines = ["license: unknown"]
    if terms.citation:
        lines.append(f"citation: {quoted(_one_line(terms.citation))}")
    return lines


def quoted(text: str) -> str:
    """Return a text as JSON, which is YAML too."""
    return json.dumps(visible(_one_line(text)), ensure_ascii=False)


def _one_line(text: str) -> str:
    """Return a text in one line; a merged store has the citations of its sources."""
    return " | ".join(line.strip() for line in text.splitlines() if line.strip())


def citation_text(terms: Terms) -> str:
    """Return what to cite, safe for the text of a card."""
    citation = safe_text(_one_line(terms.citation), "markdown")
    return citation or "No citation was given."


# --- The card ---


def card_of_store(
    record: StoreRecord,
    rows: RowColumns,
    terms: Terms,
    seal: str,
) -> str:
    """Return the card of a store.

    Args:
        record: What the store says of itself.
        rows: All rows.
        terms: Licence and citation.
        seal: Its seal.
    """
    recipe = Recipe.from_json(record.recipe)
    counts = [f"{n:,} {status}" for status, n in record.rows.by_status.items() if n]
    reasons = _reasons_of(rows) if record.rows.ok < len(rows) else []
    return render(
        "card.md",
        HERE,
        manifest=record.manifest,
        recipe=recipe,
        terms=terms,
        terms_lines=[SafeText(line) for line in terms_lines(terms)],
        n_rows=f"{len(rows):,}",
        counts=listed(counts) or "none",
        recipe_sentences=recipe_sentences(recipe),
        arrays=[array_facts(array, len(rows)) for array in record.arrays],
        array=default_array(record.arrays) or record.arrays[0].name,
        makers=list(map(maker_text, record.makers)),
        reasons=reasons,
        citation=SafeText(citation_text(terms)),
        replaces=record.replaces,
        seal=seal,
    )


def _reasons_of(rows: RowColumns) -> list[tuple[int, str, str]]:
    """Return how many rows have each status and reason, the most frequent first."""
    pairs = zip(rows.statuses, rows.reasons, strict=True)
    n_of_reason = Counter(pair for pair in pairs if pair[0] != OK)
    reasons: list[tuple[int, str, str]] = []
    for (status, reason), n_rows in n_of_reason.most_common(SHOWN_REASONS):
        reasons.append((n_rows, status, reason or NO_REASON))
    n_others = n_of_reason.total() - sum(n_rows for n_rows, _, _ in reasons)
    if n_others:
        reasons.append((n_others, "", "other reasons"))
    return reasons


def array_facts(array: Array, n_rows: int) -> tuple[str, str, str, str]:
    """Return name, shape, type and size of an array, for a table."""
    shape = " x ".join(map(str, array.shape)) or "one number"
    return array.name, shape, array.dtype, human(array.row_bytes * n_rows)


def maker_text(maker: Maker) -> str:
    """Return what computed rows, in one line."""
    text = maker.program
    if maker.device:
        text += f" on {maker.device}"
    if maker.device_name:
        text += f" ({maker.device_name})"
    if maker.precision:
        text += f", {maker.precision}"
    for package, version in sorted(maker.versions.items()):
        text += f", {package} {version}"
    return text


# --- The recipe in words ---

# What only the program itself reads in a recipe; `obygaze store info --json` has it.
_INTERNAL = ("card_sha256", "family", "geometry", "levels")
PREPARED = {"pictures": "Pixels", "sound": "Samples", "words": "Texts"}


def recipe_sentences(recipe: Recipe) -> list[str]:
    """Return how the numbers were made, one sentence for each section."""
    value = recipe.to_json()
    if recipe.is_unknown:
        facts = _words(value.get(FACTS, {})) or "nothing"
        return [
            "How they were made is not known: they were imported. Stated at the import:"
            f" {facts}."
        ]
    backbone = dict(value["backbone"])
    unverified = backbone.pop(UNVERIFIED, "")
    for key in _INTERNAL:
        backbone.pop(key, None)
    sampling = dict(value["sampling"])
    rule = sampling.pop("rule", "")
    medium = recipe.medium
    sampling.pop("medium", "")
    taken = f"{sampling.pop('frames', 'Some')} frames of each clip were taken"
    if medium == "sound":
        n_parts = sampling.pop("parts", "several")
        taken = f"The sound of each clip has {n_parts} parts"
    elif medium == "words":
        taken = "The words of each clip were taken"
    sentences = [f"They were made by the backbone {_named(backbone)}."]
    hashes = [f"{name} (sha256 {_word(sha)})" for name, sha in value["weights"].items()]
    if hashes:
        claim = f"; they were not verified to be {unverified}" if unverified else ""
        sentences.append(f"Its weights are {listed(hashes) or 'none'}{claim}.")
    else:
        sentences.append("It has no weights.")
    by_rule = f" by the rule {rule}" if rule else ""
    rest = f", with {_words(sampling)}" if _words(sampling) else ""
    sentences.append(f"{taken}{by_rule}{rest}.")
    if medium != "words":
        sentences.append(f"Videos were decoded by {_named(value['decoder'])}.")
    prepared = PREPARED.get(medium, "Inputs")
    settings = _words(value["preprocessing"])
    sentences.append(f"{prepared} were prepared with {settings}.")
    sentences.append(f"The features were computed with {_words(value['compute'])}.")
    others = {key: value[key] for key in value if key not in SECTIONS}
    if others:
        sentences.append(f"Also recorded: {_words(others)}.")
    return sentences


def _named(section: Mapping[str, Any]) -> str:
    facts = _words({key: value for key, value in section.items() if key != "name"})
    name = str(section.get("name", "unknown"))
    return f"{name} ({facts})" if facts else name


def _words(section: Mapping[str, Any]) -> str:
    """Return the keys and values of a section, without the empty ones."""
    phrases = []
    for key, value in section.items():
        if value in ("", None, {}, []):
            continue
        name = key.replace("_", " ")
        if isinstance(value, Mapping):
            phrases.append(f"{name} ({_words(value)})")
        else:
            phrases.append(f"{name} {_word(value)}")
    return ", ".join(phrases)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return f"({_words(value)})"
    if isinstance(value, list | tuple):
        sign = " x " if all(isinstance(item, int) for item in value) else " "
        return sign.join(_word(item) for item in value)
    text = str(value)
    return text[:12] + "..." if _HASH.fullmatch(text) else text
