"""A co-occurrence audit: which things keep company with which gender, and what a model adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import FixInput
from obygaze_features.core.schema_check import Violations
from obygaze_features.manifest.tables import read_table, whole_number
from obygaze_models.audits.cooccurrence import (
    Amplification,
    CoOccurrence,
    Text,
    bias_amplification,
    count_pairs,
)
from obygaze_models.audits.finding import Finding
from obygaze_models.audits.texts import CONCEPTS, Record
from obygaze_models.audits.words import WordLists, tokens

TRUNCATED = (
    "Shares under 'cut' are cut after two decimals, as the published tables are, so that the two "
    "of a row may sum to .99; 'share' is exact."
)


@dataclass(frozen=True)
class CoocAudit:
    """The company of each thing, and how a second set of texts differs from it."""

    things: tuple[CoOccurrence, ...]
    genders: tuple[str, ...]
    n_texts: int | None = None
    amplification: Amplification | None = None
    source: str = ""
    compared: str = ""

    def to_json(self) -> dict[str, Any]:
        """The counts, shares and what the predictions add."""
        return {
            "source": self.source,
            "n_texts": self.n_texts,
            "genders": list(self.genders),
            "things": [thing.to_json() for thing in self.things],
            "note": TRUNCATED,
            "amplification": self.amplification.to_json() if self.amplification else None,
        }

    def finding(self) -> Finding:
        """A row a thing, the most gendered counts first."""
        first, second = self.genders
        added = self.amplification.by_thing if self.amplification else {}
        headers = ["thing", first, second, f"share {first}", "low", "high"]
        headers += [f"cut {first}", f"cut {second}"]
        rows = [
            (*_row(thing), *_added(thing, added, bool(self.amplification))) for thing in self.things
        ]
        title = "Co-occurrence" + (f": {self.source}" if self.source else "")
        if self.amplification:
            headers.append("amplified")
        return Finding(title, self._sentences(), headers, rows)

    def _sentences(self) -> list[str]:
        said = [TRUNCATED]
        if all(thing.share is None for thing in self.things):
            said.append(f"No text of any thing has a word of {' or '.join(self.genders)}.")
        if any(thing.interval for thing in self.things):
            said.append(
                "Intervals (95 %) are bootstrapped over clusters; a text with both counts twice."
            )
        if self.amplification and self.amplification.mean is not None:
            more = "further from even than" if self.amplification.mean > 0 else "no further than"
            said.append(
                f"Mean bias amplification over {len(self.amplification.by_thing)} things: "
                f"{self.amplification.mean:+.3f}. {self.compared} leans {more} {self.source}."
            )
        elif self.amplification:
            said.append("No thing has gendered texts on both sides: nothing to compare.")
        return said

    def draw(self, stem: Path) -> tuple[Path, Path]:
        """Draw each thing's share with its interval, and where the predictions move it."""
        from obygaze_models.audits.cooc_figure import draw_cooc

        return draw_cooc(self, stem)


def audit_cooc(
    records: Sequence[Record],
    genders: WordLists,
    *,
    text: str,
    things: WordLists | None = None,
    cluster: Sequence[str] = (),
    compare: Sequence[Record] | None = None,
    seed: int = 0,
    source: str = "",
    compared: str = "",
) -> CoocAudit:
    """Count the company of things: the `concepts` of a row, or lists of words found in its text."""
    texts = [_text(record, text, things, cluster) for record in records]
    pairs = _known(count_pairs(texts, genders, seed=seed), source)
    added = None
    if compare is not None:
        other = [_text(record, text, things, cluster) for record in compare]
        added = bias_amplification(_counts(pairs), _counts(count_pairs(other, genders, seed=seed)))
    names = tuple(genders)
    return CoocAudit(tuple(pairs), names, len(texts), added, source, compared)


def audit_counts(path: Path, genders: tuple[str, str] = ("man", "woman")) -> CoocAudit:
    """Shares from counts that somebody else made: a table with a column for each gender."""
    violations = Violations(path)
    table = read_table(path, required=genders, violations=violations)
    titles = [name for name in table.columns if name not in genders]
    things = []
    for row in table.rows:
        counts = {name: whole_number(row[name]) for name in genders}
        for name, count in counts.items():
            if count is None or count < 0:
                violations.add(row.line, name, f"{row[name]!r} is not a count")
        known = {name: count or 0 for name, count in counts.items()}
        total, first = sum(known.values()), known[genders[0]]
        title = " ".join(row[name] for name in titles) or f"row {row.line}"
        things.append(CoOccurrence(title, known, first / total if total else None, None))
    violations.raise_if_any("this is not a table of counts")
    return CoocAudit(tuple(_known(things, str(path))), genders, source=path.name)


def _known(things: list[CoOccurrence], source: str) -> list[CoOccurrence]:
    if not things:
        raise FixInput("no text names any thing", where=source, hint="--things, --text")
    return things


def _text(record: Record, column: str, things: WordLists | None, cluster: Sequence[str]) -> Text:
    words = record.cells[column]
    if things is None:
        found = frozenset(
            name.strip() for name in record.cells[CONCEPTS].split("|") if name.strip()
        )
    else:
        said = set(tokens(words))
        found = frozenset(name for name, listed in things.items() if said & listed)
    return Text(words, found, record.joined(cluster) if cluster else record.where)


def _counts(pairs: Sequence[CoOccurrence]) -> dict[str, tuple[int, int]]:
    counts = {}
    for pair in pairs:
        first, second = pair.counts.values()
        counts[pair.thing] = (first, second)
    return counts


def _row(thing: CoOccurrence) -> tuple[object, ...]:
    told = thing.to_json()
    low, high = told["ci"] or (None, None)
    cut = [f"{value:.2f}" for value in told["printed"]] if told["printed"] else [None, None]
    return thing.thing, *thing.counts.values(), thing.share, low, high, *cut


def _added(thing: CoOccurrence, added: Mapping[str, float], shown: bool) -> tuple[object, ...]:
    return (added.get(thing.thing),) if shown else ()
