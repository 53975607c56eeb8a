"""A gender-score audit: the score of every caption of a table, and what they come to together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import FixInput
from obygaze_models.audits.finding import Finding
from obygaze_models.audits.gender_score import Estimate, Score, printed_ratios, score_table


@dataclass(frozen=True)
class GenderAudit:
    """The scores of a table, all of one form."""

    rows: tuple[Score | Estimate, ...]
    source: str = ""

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The rows with both wordings; empty where captions were scored as they are."""
        return tuple(row for row in self.rows if isinstance(row, Estimate))

    @property
    def mean(self) -> float | None:
        """The mean score; of the winning wording where both were scored."""
        return _mean([_score(row) for row in self.rows])

    @property
    def counts(self) -> dict[str, int] | None:
        """How many captions each wording wins; a tie goes to man, as in the original."""
        if not self.estimates:
            return None
        genders = [row.gender for row in self.estimates]
        return {gender: genders.count(gender) for gender in ("man", "woman")}

    def to_json(self) -> dict[str, Any]:
        """Every row and the means; ratios are null where only one wording was scored."""
        rows = [{**NO_RATIOS, **row.to_json()} for row in self.rows]
        ratios = [row.ratio_to_man for row in self.estimates if row.ratio_to_man is not None]
        to_man, counts = _mean(ratios), self.counts
        return {
            "rows": rows,
            "mean": self.mean,
            "mean_ratio_to_man": to_man,
            "mean_ratio_to_woman": None if to_man is None else 100 - to_man,
            "counts": counts,
            "printed": list(printed_ratios(counts["man"], counts["woman"])) if counts else None,
            "n": len(rows),
        }

    def finding(self) -> Finding:
        """One row a caption; the sentences say what they come to."""
        said = [f"The mean score of {len(self.rows)} captions is {self.mean:.3f}."]
        noted = sum(bool(row.to_json()["note"]) for row in self.rows)
        said += [f"{noted} captions have a note on their similarity."] if noted else []
        title = f"Gender score: {self.source}" if self.source else "Gender score"
        if not self.estimates:
            rows = [(i, row.to_json()["score"], _note(row)) for i, row in enumerate(self.rows, 1)]
            return Finding(title, said, ("row", "score", "note"), rows)
        return Finding(
            title,
            [*said, *self._ratio_sentences()],
            ("caption", "score", "% to man", "% to woman", "note"),
            [_estimate_row(row) for row in self.estimates],
        )

    def _ratio_sentences(self) -> list[str]:
        counts, to_man = self.counts or {"man": 0, "woman": 0}, self.to_json()["mean_ratio_to_man"]
        man, woman = printed_ratios(counts["man"], counts["woman"])
        said = [
            f"'man' wins in {counts['man']} and 'woman' in {counts['woman']} captions: "
            f"{man:.2f} and {woman:.2f}, cut after two decimals as published, not rounded."
        ]
        if to_man is not None:
            said.append(f"On average {to_man:.1f} % of a caption's two scores is the man's.")
        ties = sum(row.man.score == row.woman.score for row in self.estimates)
        return [*said, f"{ties} ties went to 'man'."] if ties else said

    def draw(self, stem: Path) -> tuple[Path, Path]:
        """Draw how far each caption leans, or how the scores are spread."""
        from obygaze_models.audits.gender_figure import draw_gender

        return draw_gender(self, stem)


NO_RATIOS = {"ratio_to_man": None, "ratio_to_woman": None}


def audit_gender(path: Path) -> GenderAudit:
    """The scores of the captions of a table."""
    rows = tuple(score_table(path))
    if not rows:
        raise FixInput("this table has no captions", where=str(path))
    return GenderAudit(rows, path.name)


def _score(row: Score | Estimate) -> float:
    return row.score if isinstance(row, Score) else max(row.man.score, row.woman.score)


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _note(row: Score | Estimate) -> str | None:
    return row.to_json()["note"] or None


def _estimate_row(row: Estimate) -> tuple[object, ...]:
    told = row.to_json()
    return told["caption"], told["score"], told["ratio_to_man"], told["ratio_to_woman"], _note(row)
