"""`obygaze store verify`, `diff`: whether a store is whole, and what tells two apart."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from typing import Any

import click

from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import FixUsage
from obygaze_features.store.commands_look import open_named
from obygaze_features.store.read.diff import Diff, common_levels, diff_stores
from obygaze_features.store.read.verify import (
    Redecode,
    Report,
    compare_decoded,
    n_bytes_promised,
    verify,
)

# Extraction knows stores, never the other way round; it is called by name, where it is there.
REDECODE = "obygaze_features.extraction.recipes:redecoder"
COMPARE_SOURCES = "obygaze_features.extraction.sources:compare_sources"


@click.command(
    "verify",
    cls=ExampleCommand,
    examples="""
    obygaze store verify obygaze12-xclip
    obygaze store verify obygaze12-xclip --hash
    obygaze store verify obygaze12-xclip --videos
    obygaze store verify obygaze12-xclip --decode 5 --json
    """,
)
@click.argument("name")
@click.option("--hash", "hashes", is_flag=True, help="Read every byte and compare its sha256.")
@click.option(
    "--decode", "k", type=click.IntRange(min=1), help="Extract this many clips again and compare."
)
@click.option("--weights", help="--decode: where the backbone's weights are.")
@click.option("--videos", is_flag=True, help="Compare times and videos with those of the clips.")
@json_option
@pass_session
def verify_(
    session: Session,
    name: str,
    hashes: bool,
    k: int | None,
    weights: str | None,
    videos: bool,
    as_json: bool,
) -> None:
    """Check that a store is whole and undamaged.

    Without options: that every file is there and has its length. The exit code is 4, and each
    file is named, where something is not as it was committed. With --videos it is 5, and each clip
    is named, where the manifest has other times now or the video is another file.
    """
    location = session.workspace.store(name)
    total = _n_bytes(session, name) if hashes else 0
    with session.console.progress("verify", total, "B") as progress:
        report = verify(location, hashes=hashes, progress=progress if hashes else None)
    if k is not None and not report.problems:
        again = compare_decoded(open_named(session, name), k, _redecode(session, name, weights))
        report.problems += again.problems
        report.warnings += again.warnings
        report.cosines = again.cosines
    if videos and not report.problems:
        _compare_sources(session, name, report)
    _show_report(session, report, as_json)
    report.require_whole()
    report.require_unchanged()


def _n_bytes(session: Session, name: str) -> int:
    from obygaze_features.core.errors import ObygazeError

    try:
        return n_bytes_promised(open_named(session, name))
    except ObygazeError:
        return 0  # what is wrong is for the verification to say


def _compare_sources(session: Session, name: str, report: Report) -> None:
    module, attribute = COMPARE_SOURCES.split(":")
    getattr(import_module(module), attribute)(session.workspace, open_named(session, name), report)


def _redecode(session: Session, name: str, weights: str | None) -> Redecode:
    module, attribute = REDECODE.split(":")
    try:
        make = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise FixUsage(
            "--decode extracts clips again, which this installation cannot",
            hint="pip install 'obygaze[extract]', on a machine that has the videos",
        ) from error
    redecode: Redecode = make(session.workspace, open_named(session, name), weights)
    return redecode


def _show_report(session: Session, report: Report, as_json: bool) -> None:
    if as_json:
        session.console.json({**asdict(report), "whole": not report.problems})
        return
    for warning in report.warnings:
        session.console.warn(warning)
    for level, found in report.cosines.items():
        session.console.result(
            f"{level}: least cosine {found['least']:.6f}, median {found['median']:.6f}"
        )
    if not report.problems and not report.changed:
        counts = ", ".join(f"{n} {state}" for state, n in report.counts.items())
        session.console.result(
            f"whole: {report.n_files} files, {human(report.n_bytes)} ({report.how}); {counts}"
        )


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze store diff obygaze12-xclip obygaze12-xclip-bf16
    obygaze store diff stores/a https://example.org/stores/b --json
    """,
)
@click.argument("first")
@click.argument("second")
@json_option
@pass_session
def diff(session: Session, first: str, second: str, as_json: bool) -> None:
    """Compare two stores: recipes, clips, features.

    Features are compared over the clips that are ok in both: the cosine of each clip's vector.
    """
    one, other = open_named(session, first), open_named(session, second)
    total = len(common_levels(one, other)) * one.n_clips
    with session.console.progress("compare", total) as progress:
        found = diff_stores(one, other, progress=progress)
    if as_json:
        session.console.json(_diff_json(found))
    else:
        session.console.result(_diff_text(found))


def _diff_json(found: Diff) -> dict[str, Any]:
    return {**asdict(found), "common": len(found.common), "same": found.same}


def _diff_text(found: Diff) -> str:
    if found.same:
        return f"the same: recipe, {len(found.common)} clips, every number"
    lines = [f"recipe: {difference}" for difference in found.recipe] or ["recipe: the same"]
    lines.append(
        f"clips: {len(found.common)} in both, {len(found.only_first)} only in the first, "
        f"{len(found.only_second)} only in the second"
    )
    lines += [f"  {clip}: {here} here, {there} there" for clip, (here, there) in _few(found)]
    lines += [f"level {name}: only in one of them" for name in found.arrays]
    headers = ("level", "clips", "identical", "least cosine", "median", "greatest difference")
    rows = [
        (
            level.level,
            level.n_clips,
            level.n_identical,
            f"{level.least_cosine:.6f}",
            f"{level.median_cosine:.6f}",
            f"{level.greatest_difference:.3g} {level.note}".rstrip(),
        )
        for level in found.levels
    ]
    return "\n".join([*lines, table(headers, rows)]) if rows else "\n".join(lines)


def _few(found: Diff) -> list[tuple[str, tuple[str, str]]]:
    return list(found.states.items())[:20]
