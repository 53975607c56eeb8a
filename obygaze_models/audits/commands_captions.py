"""`obygaze audit captions`: rates of word lists by group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import ExampleCommand, Session, pass_session
from obygaze_models.audits.options import (
    delimiter_option,
    deliver,
    read_records,
    result_options,
    seed_option,
)

NAMES = "{image}_{face}_{group}_{copy}"


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze audit captions captions.csv --group condition --cluster image
    obygaze audit captions captions/ --group group,face --cluster image,face --figure figures/words
    obygaze audit captions captions.csv --words my-words.toml --min-count 10 --json
    """,
)
@click.argument("source")
@click.option("--text", default="caption", show_default=True, help="The column of the captions.")
@click.option("--group", default="group", show_default=True, help="Columns to compare: A or A,B.")
@click.option("--cluster", help="Columns of what is captioned. [default: each caption by itself]")
@click.option("--words", default="emotions", show_default=True, help="Word lists: a name or TOML.")
@click.option("--min-count", type=click.IntRange(0), default=0, help="Leave out rarer words.")
@click.option(
    "--names", default=NAMES, show_default=True, help="What files of a folder are called."
)
@delimiter_option
@seed_option
@result_options
@pass_session
def captions(
    session: Session,
    /,
    source: str,
    text: str,
    group: str,
    cluster: str | None,
    words: str,
    min_count: int,
    names: str,
    delimiter: str,
    seed: int,
    **results: Any,
) -> None:
    """Count how often captions use the words of a list, by group.

    SOURCE is a manifest, a CSV table, or a folder of .txt files with a caption a line, whose names
    tell the columns. Intervals are over clusters (images, films); where there are two groups each
    list is tested between them by exchanging whole clusters.
    """
    from obygaze_models.audits.caption_audit import audit_captions
    from obygaze_models.audits.captions import Caption
    from obygaze_models.audits.texts import columns_of, records_of_folder
    from obygaze_models.audits.words import read_words

    groups, clusters = columns_of(group), columns_of(cluster)
    needed, folder = (text, *groups, *clusters), Path(source)
    found = (
        records_of_folder(folder, names, needed)
        if folder.is_dir()
        else read_records(session, source, needed, delimiter)
    )
    audit = audit_captions(
        [
            Caption(r.cells[text], r.joined(groups), r.joined(clusters) if clusters else r.where)
            for r in found
        ],
        read_words(words),
        min_count=min_count,
        seed=seed,
        source=folder.name,
    )
    deliver(session, audit, **results)
