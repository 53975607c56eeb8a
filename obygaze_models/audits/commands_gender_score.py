"""`obygaze audit gender-score`: how strongly captions lean to a gender."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import ExampleCommand, Session, pass_session
from obygaze_features.core.errors import FixUsage
from obygaze_models.audits.options import deliver, result_options

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    name="gender-score",
    cls=ExampleCommand,
    examples="""
    obygaze audit gender-score captions.csv
    obygaze audit gender-score captions.csv --json
    obygaze audit gender-score captions.csv --compute filled.csv \\
        --lm gpt2 --sim sentence-transformers/all-mpnet-base-v2
    """,
)
@click.argument("table", type=_FILE)
@click.option(
    "--compute", type=_FILE, metavar="FILE", help="First fill prior and similarity, into FILE."
)
@click.option("--lm", metavar="MODEL", help="Language model of --compute: a folder or hub name.")
@click.option("--sim", metavar="MODEL", help="Sentence encoder of --compute, likewise.")
@result_options
@pass_session
def gender_score(
    session: Session,
    /,
    table: Path,
    compute: Path | None,
    lm: str | None,
    sim: str | None,
    **results: Any,
) -> None:
    """Score how strongly captions lean to a gender.

    TABLE has the columns lm, sim, prob (each caption as it is: no ratios), or caption, lm_man,
    sim_man, lm_woman, sim_woman, prob (each caption worded both ways). A row that has no score is
    an error that names its line. With --compute TABLE has the columns caption, visual, prob.
    """
    from obygaze_models.audits.gender_audit import audit_gender

    if compute is not None:
        if lm is None or sim is None:
            raise FixUsage("--compute needs both models: --lm and --sim")
        _fill(table, compute, lm, sim, force=results["force"])
    elif lm or sim:
        raise FixUsage("--lm and --sim go with --compute FILE")
    deliver(session, audit_gender(compute or table), **results)


def _fill(table: Path, filled: Path, lm: str, sim: str, *, force: bool) -> None:
    """Ask the command line for `extract captions`: the zoo itself knows no transformers."""
    ctx = click.get_current_context()
    top = ctx.find_root()
    extract = (
        top.command.get_command(top, "extract") if isinstance(top.command, click.Group) else None
    )
    captions = extract.get_command(ctx, "captions") if isinstance(extract, click.Group) else None
    if captions is None:
        raise FixUsage("captions are filled in by `obygaze extract captions`")
    ctx.invoke(captions, table=table, lm=lm, sim=sim, out=filled, force=force)
