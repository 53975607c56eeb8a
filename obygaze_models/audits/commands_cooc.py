"""`obygaze audit cooc`: which things keep company with which gender."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import ExampleCommand, Session, pass_session
from obygaze_features.core.errors import FixUsage
from obygaze_models.audits.options import (
    delimiter_option,
    deliver,
    read_records,
    result_options,
    seed_option,
)
from obygaze_models.audits.texts import CONCEPTS


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze audit cooc mobygaze --text comment --cluster movie_id --figure figures/company
    obygaze audit cooc captions.csv --things objects.toml --compare predicted.csv
    obygaze audit cooc published.csv --counts --json
    """,
)
@click.argument("source")
@click.option("--text", default="caption", show_default=True, help="The column of the texts.")
@click.option(
    "--things",
    default=CONCEPTS,
    show_default=True,
    help="concepts, or word lists (TOML): a thing each.",
)
@click.option("--words", default="gender", show_default=True, help="Two lists of gendered words.")
@click.option("--cluster", help="Columns, such as movie_id. [default: each text by itself]")
@click.option("--compare", metavar="SOURCE", help="Predictions: does a model lean further?")
@click.option("--counts", is_flag=True, help="SOURCE has the columns man and woman: counts.")
@delimiter_option
@seed_option
@result_options
@pass_session
def cooc(
    session: Session,
    /,
    source: str,
    text: str,
    things: str,
    words: str,
    cluster: str | None,
    compare: str | None,
    counts: bool,
    delimiter: str,
    seed: int,
    **results: Any,
) -> None:
    """Count which things keep company with words of which gender.

    SOURCE is a manifest, or a CSV table. A text with words of both genders counts for both.
    Shares are printed exact and, beside that, cut after two decimals as published tables are.
    """
    from obygaze_models.audits.cooc_audit import audit_cooc, audit_counts
    from obygaze_models.audits.texts import columns_of
    from obygaze_models.audits.words import read_words

    if counts:
        if compare:
            raise FixUsage("--compare needs texts, --counts has none")
        deliver(session, audit_counts(Path(source)), **results)
        return
    clusters = columns_of(cluster)
    needed = (text, *clusters, *((CONCEPTS,) if things == CONCEPTS else ()))
    audit = audit_cooc(
        read_records(session, source, needed, delimiter),
        read_words(words),
        text=text,
        things=None if things == CONCEPTS else read_words(things),
        cluster=clusters,
        compare=read_records(session, compare, needed, delimiter) if compare else None,
        seed=seed,
        source=Path(source).name,
        compared=Path(compare or "").name,
    )
    deliver(session, audit, **results)
