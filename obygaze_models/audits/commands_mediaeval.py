"""`obygaze audit mediaeval`: score and check runs of MediaEval 2015."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import ExampleCommand, Session, pass_session
from obygaze_features.core.errors import FixUsage
from obygaze_models.audits.options import deliver, result_options

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze audit mediaeval --qrels violence.qrels --run run1.txt --json
    obygaze audit mediaeval --annotations MEDIAEVAL-annotations --run violence.txt --run affect.txt
    obygaze audit mediaeval --manifest liris-accede --run affect.txt --figure figures/mediaeval
    """,
)
@click.option("--run", "runs", type=_FILE, multiple=True, required=True, help="A run; repeat.")
@click.option("--qrels", type=_FILE, help="TREC judgements of violence.")
@click.option(
    "--annotations",
    type=click.Path(path_type=Path),
    multiple=True,
    help="The annotation files, or the folder they are in; repeat.",
)
@click.option("--manifest", metavar="NAME", help="A manifest of LIRIS-ACCEDE.")
@click.option("--float64", is_flag=True, help="Compare scores as later trec_eval do, not as 2015.")
@result_options
@pass_session
def mediaeval(
    session: Session,
    /,
    runs: tuple[Path, ...],
    qrels: Path | None,
    annotations: tuple[Path, ...],
    manifest: str | None,
    float64: bool,
    **results: Any,
) -> None:
    """Score runs of MediaEval 2015, and check them against the rules of the task.

    A run is a TREC file for violence, or lines of name, valence class, arousal class. Where the
    official split is known only its test clips are scored. Beside each run stands a JSON file of
    the same name that says `external_data`: at most five runs a subtask, one without.
    """
    from obygaze_features.manifest.io import read_manifest
    from obygaze_models.audits import mediaeval_truth as truths
    from obygaze_models.audits.mediaeval_audit import audit_runs

    if (qrels is not None) + bool(annotations) + (manifest is not None) != 1:
        raise FixUsage("runs are scored against one of --qrels, --annotations, --manifest")
    if qrels is not None:
        truth = truths.truth_of_qrels(qrels)
    elif manifest is not None:
        found = read_manifest(session.workspace.existing_manifest(manifest))
        truth = truths.truth_of_manifest(found)
    else:
        truth = truths.truth_of_annotations(annotations)
    audit = audit_runs(runs, truth, "float64" if float64 else "float32")
    deliver(session, audit, **results)
    for line in audit.broken:
        session.console.warn(f"against the rules of the task: {line}")
