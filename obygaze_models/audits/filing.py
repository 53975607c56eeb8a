"""Files an audit with a run, where the run's report finds it."""

from __future__ import annotations

import re
from pathlib import Path

from obygaze_features.core.errors import AlreadyThere, NotFound
from obygaze_features.core.files import pretty_json, write_new
from obygaze_models.audits.finding import Audit

FOLDER = "audits"


def file_finding(run: Path, audit: Audit, *, force: bool = False) -> list[Path]:
    """Put the finding, with its figure, into the `audits` folder of a run; what was written."""
    if not (run / "run.json").is_file():
        raise NotFound("no run here", where=str(run), hint="obygaze run --help")
    finding = audit.finding()
    stem = run / FOLDER / (re.sub(r"[^A-Za-z0-9]+", "-", finding.title).strip("-").lower()[:80])
    document = stem.with_name(f"{stem.name}.json")
    drawn = [stem.with_name(f"{stem.name}{end}") for end in (".svg", ".png")]
    if not force and any(path.exists() for path in (document, *drawn)):
        raise AlreadyThere(
            "this run has a finding of this name", where=str(document), hint="--force to replace it"
        )
    audit.draw(stem)
    write_new(document, pretty_json(finding.with_figure(drawn[0]).to_json()), force=force)
    return [document, *drawn]
