"""A caption audit: rates of word lists by group, compared where there are two groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_models.audits.captions import (
    Caption,
    Contrast,
    Rate,
    contrasts,
    frequent_words,
    word_rates,
)
from obygaze_models.audits.finding import Finding, p_text
from obygaze_models.audits.words import WordLists
from obygaze_models.evaluation.compare import holm


@dataclass(frozen=True)
class CaptionAudit:
    """The rate of each list in each group, and each list's test between two groups."""

    rates: tuple[Rate, ...]
    contrasts: tuple[Contrast, ...]
    n_captions: int
    min_count: int = 0
    left_out: int = 0
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        """The rates and tests as records."""
        return {
            "source": self.source,
            "n_captions": self.n_captions,
            "min_count": self.min_count,
            "words_left_out": self.left_out,
            "rates": [rate.to_json() for rate in self.rates],
            "contrasts": [
                {**contrast.to_json(), "p_holm": p}
                for contrast, p in zip(self.contrasts, self.p_holm, strict=True)
            ],
        }

    @property
    def p_holm(self) -> list[float]:
        """The two-sided p of each contrast, corrected for all of them."""
        found = [contrast.p.two_sided for contrast in self.contrasts]
        return [float(p) for p in holm(found)] if found else []

    def finding(self) -> Finding:
        """A row for each list and group; the sentences say which differ."""
        rows = [
            (
                *(rate.words, rate.group, rate.n_captions, rate.n_clusters, rate.occurrences),
                rate.occurrences_per_1000,
                *_ci(rate),
                rate.captions_with_hit_per_1000,
            )
            for rate in self.rates
        ]
        headers = ("words", "group", "captions", "clusters", "count", "per 1000", "low", "high")
        return Finding(
            title=f"Words of {self.n_captions} captions: {self.source}",
            sentences=self._sentences(),
            headers=(*headers, "captions with a hit per 1000"),
            rows=rows,
        )

    def _sentences(self) -> list[str]:
        said = ["Intervals (95 %) are bootstrapped over clusters, not captions."]
        for contrast, p in zip(self.contrasts, self.p_holm, strict=True):
            found = f"two-sided p = {p_text(contrast.p.two_sided)} ({contrast.p.method})"
            said.append(
                f"{contrast.words}, {contrast.first} against {contrast.second}: {found}, "
                f"{p_text(p)} after Holm; whole clusters were exchanged."
            )
        if not self.contrasts and len({rate.group for rate in self.rates}) == 2:
            said.append("Clusters have captions of both groups: no test was made between them.")
        if self.min_count > 0:
            said.append(
                f"{self.left_out} words of the lists occur fewer than {self.min_count} times in "
                "all captions and were left out."
            )
        return said

    def draw(self, stem: Path) -> tuple[Path, Path]:
        """Draw each list's rates by group, with their intervals."""
        from obygaze_models.audits.caption_figure import draw_captions

        return draw_captions(self, stem)


def audit_captions(
    captions: Sequence[Caption],
    lists: WordLists,
    *,
    min_count: int = 0,
    permutations: int = 1_000_000,
    seed: int = 0,
    source: str = "",
) -> CaptionAudit:
    """Rates with intervals, and a test between the groups where there are two of them."""
    rates = word_rates(captions, lists, min_count=min_count, seed=seed)
    kept = frequent_words(captions, lists, min_count)
    found = contrasts(captions, kept, permutations=permutations, seed=seed)
    left_out = len(frozenset().union(*lists.values()) - frozenset().union(*kept.values()))
    return CaptionAudit(tuple(rates), tuple(found), len(captions), min_count, left_out, source)


def _ci(rate: Rate) -> tuple[float | None, float | None]:
    low, high = rate.to_json()["ci"]
    return low, high
