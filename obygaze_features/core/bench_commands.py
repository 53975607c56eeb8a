"""`obygaze bench`: the side-by-side measurements, one small command each."""

from __future__ import annotations

import click

from obygaze_features.core.commands import LazyGroup

COMMANDS = {
    "startup": (
        "obygaze_features.core.bench_startup:startup",
        "How soon the command line answers.",
    ),
    "decode": (
        "obygaze_features.video.bench:bench_decode",
        "What exact pictures cost, beside other readers.",
    ),
    "extract": (
        "obygaze_features.extraction.bench:bench_extract",
        "The pipeline against its own stages and against one clip at a time.",
    ),
    "engines": (
        "obygaze_features.extraction.bench_engines:bench_engines",
        "What an engine adds to a block's own work, and two workers against one.",
    ),
    "store": (
        "obygaze_features.store.bench:bench_store",
        "Reading, writing and opening stores, beside other layouts and over http.",
    ),
    "zoo": (
        "obygaze_models.bench:bench_zoo",
        "Tables 2 and 4 from stores to tables, beside a plain PyTorch loop.",
    ),
    "audits": (
        "obygaze_models.audits.bench:bench_audits",
        "Exact and drawn permutation tests beside a plain Python loop.",
    ),
    "growth": (
        "obygaze_features.core.bench_growth:bench_growth",
        "How costs grow with clips, dimensions, folds, concepts, models and workers.",
    ),
    "all": (
        "obygaze_features.core.bench_all:bench_all",
        "Every bench in one run, as one page.",
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def bench() -> None:
    """The side-by-side measurements.

    Every bench runs its contestants in turns on this machine and reports medians and ratios, so
    that the numbers of two machines can be compared.
    """
