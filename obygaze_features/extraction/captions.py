"""Fills a table of captions with what the gender score is made of: priors and similarities."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import write_new
from obygaze_features.manifest.tables import read_table

MASK = "[MASK]"
WORDINGS = ("man", "woman")


class Prior(Protocol):
    """A language model, as far as captions need it."""

    def prior(self, text: str) -> float:
        """How likely a text is."""


class Likeness(Protocol):
    """A sentence encoder, as far as captions need it."""

    def similarity(self, texts: Sequence[str], others: Sequence[str]) -> list[float]:
        """How close each text is to the one it is paired with."""


def fill_captions(
    table: Path,
    out: Path,
    lm: Prior,
    encoder: Likeness,
    progress: Progress | None = None,
    *,
    force: bool = False,
) -> int:
    """Write the table with lm and sim, or both wordings' where captions have [MASK]; the rows."""
    progress = progress or Quiet()
    read = read_table(table, required=("caption", "visual", "prob"))
    if not read.rows:
        raise FixInput("this table has no captions", where=str(table))
    masked = any(MASK in row["caption"] for row in read.rows)
    endings = [f"_{word}" for word in WORDINGS] if masked else [""]
    new = [f"{name}{ending}" for ending in endings for name in ("lm", "sim")]
    taken = [name for name in new if name in read.columns]
    if taken:
        raise FixInput(f"this table has a column {taken[0]!r} already", where=str(table))
    visual = [row["visual"] for row in read.rows]
    filled: dict[str, list[float]] = {}
    for ending in endings:
        texts = [row["caption"].replace(MASK, ending.lstrip("_")) for row in read.rows]
        priors = {text: lm.prior(text) for text in dict.fromkeys(texts)}
        filled[f"lm{ending}"] = [priors[text] for text in texts]
        filled[f"sim{ending}"] = encoder.similarity(texts, visual)
        progress.advance()
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*read.columns, *new])
    for i, row in enumerate(read.rows):
        writer.writerow([*row.cells.values(), *(repr(filled[name][i]) for name in new)])
    write_new(out, stream.getvalue().encode("utf-8"), force=force)
    return len(read.rows)
