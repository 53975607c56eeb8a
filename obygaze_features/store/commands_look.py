"""`obygaze store ls`, `info`, `verify`, `diff`: look at stores and check them."""

import math
from dataclasses import asdict
from pathlib import Path
from pkgutil import resolve_name

import click

from obygaze_features.core.commands import Session, command
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import FixUsage, ObygazeError
from obygaze_features.store.read.describe import describe, summary
from obygaze_features.store.read.diff import Diff, LevelDiff, diff_stores
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.read.verify import (
    Reextract,
    VerifyReport,
    compare_decoded,
    verify,
)

# These packages import this one, so they are imported by name, when a command needs them. The note
# is how the preset of a backbone differs from the processor on the hub.
NOTE = "obygaze_features.backbones.check:recipe_note"
REEXTRACTOR = "obygaze_features.extraction.recipes:redecoder"
COMPARE_SOURCES = "obygaze_features.extraction.sources:compare_sources"
SHOWN_CLIPS = 20
FILE = click.Path(dir_okay=False, path_type=Path)


@command()
def ls(session: Session) -> None:
    """List the stores of the workspace.

    Examples:
        obygaze store ls
        obygaze -C /data/films store ls --json
    """
    rows = []
    broken = []
    for name in store_names(session):
        try:
            rows.append({"name": name, **summary(open_named(session, name))})
        except (ObygazeError, OSError) as error:
            broken.append(name)
            words = error.what if isinstance(error, ObygazeError) else error.strerror
            session.console.warn(f"{name}: {words} (obygaze store verify {name})")
    if session.console.as_json:
        session.console.json({"stores": rows, "broken": broken})
    elif rows:
        headers = ("name", "backbone", "clips", "ok", "levels", "state", "size")
        lines = [
            (
                *(row["name"], row["backbone"], row["n_clips"], row["counts"]["ok"]),
                *(" ".join(row["levels"]), row["state"], human(row["n_bytes"])),
            )
            for row in rows
        ]
        session.console.result(table(headers, lines))
    elif not broken:
        folder = session.workspace.folder("stores")
        session.console.note(f"no stores in {folder} yet; obygaze extract run --help")


@command()
@click.argument("name")
def info(session: Session, name: str) -> None:
    """Explain what a store holds and how it was made.

    NAME is a store of the workspace, a folder, a packed zip or a URL. Only small files are read.

    Examples:
        obygaze store info obygaze12-xclip
        obygaze store info https://example.org/stores/obygaze12-xclip --json
    """
    found = open_named(session, name)
    note: str = resolve_name(NOTE)(found.recipe.to_json(), session.workspace)
    with found.commits.looked_at_once():
        facts = {**summary(found), "note": note, "recipe": found.recipe.to_json()}
        page = describe(found, note)
    session.console.show({"name": name, **facts}, page)


expect_option = click.option(
    "--expect", metavar="SHA256", help="The sha256 of its seal, from its publisher."
)


@command("verify")
@click.argument("name")
@click.option(
    "--hash", "hashes", is_flag=True, help="Read every byte and compare its sha256."
)
@click.option(
    "--decode",
    "k",
    type=click.IntRange(min=1),
    help="Extract this many clips again and compare.",
)
@click.option("--weights", help="--decode: where the backbone's weights are.")
@click.option(
    "--videos", is_flag=True, help="Compare times and videos with those of the clips."
)
@expect_option
def verify_(
    session: Session,
    name: str,
    hashes: bool,
    k: int | None,
    weights: str | None,
    videos: bool,
    expect: str | None,
) -> None:
    """Check that a store is whole and undamaged.

    Without options, check that every file exists and has its length. If a file is not as it was
    committed, the exit code is 4 and each such file is named. With --videos, the exit code is 5
    and each clip is named whose times in the manifest or whose video file changed.

    A whole store is consistent with what its publisher wrote. Who that is, it cannot say: with
    --expect and the sha256 that `obygaze store info` shows to the publisher, another store ends
    with the exit code 5. An address may end with #sha256=... in place of --expect.

    Examples:
        obygaze store verify obygaze12-xclip
        obygaze store verify obygaze12-xclip --hash
        obygaze store verify obygaze12-xclip --videos
        obygaze store verify obygaze12-xclip --hash --expect 5f0c...
        obygaze store verify obygaze12-xclip --decode 5 --json
    """
    location = session.workspace.existing_store(name)
    with session.console.progress("verify") as progress:
        report = verify(location, hashes=hashes, expect=expect, progress=progress)
    if k is not None and not report.problems:
        store = open_named(session, name)
        again = compare_decoded(store, k, _reextract(session, store, weights))
        report.problems += again.problems
        report.warnings += again.warnings
        report.cosines = again.cosines
    if videos and not report.problems:
        resolve_name(COMPARE_SOURCES)(
            session.workspace, open_named(session, name), report
        )
    _show_report(session, report)
    report.require_whole()
    report.require_unchanged()


def _reextract(session: Session, store: Store, weights: str | None) -> Reextract:
    try:
        make = resolve_name(REEXTRACTOR)
    except ModuleNotFoundError as error:
        raise FixUsage(
            "--decode extracts clips again, which needs the extra 'extract'",
            hint="pip install 'obygaze[extract]', on a machine that has the videos",
        ) from error
    reextract: Reextract = make(session.workspace, store, weights)
    return reextract


def _show_report(session: Session, report: VerifyReport) -> None:
    if session.console.as_json:
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
        extent = "partial copy, whole in what it holds" if report.partial else "whole"
        session.console.result(
            f"{extent}: {report.n_files} files, {human(report.n_bytes)} ({report.how}); {counts}"
        )
        for line in report.made_by:
            session.console.result(f"made by {line}")
        session.console.result(_consistency(report))


def _consistency(report: VerifyReport) -> str:
    """Return, in words, what a verification without problems has shown."""
    if not report.sealed:
        return "consistent with what was committed so far; not sealed, so more can be added"
    if report.expected:
        return f"the expected store: its seal has the sha256 {report.seal_sha256}"
    return (
        "consistent with what its publisher wrote; who that is was not checked (--expect)\n"
        f"seal_sha256: {report.seal_sha256}"
    )


@command()
@click.argument("first")
@click.argument("second")
def diff(session: Session, first: str, second: str) -> None:
    """Compare two stores: recipes, clips, movies, numbers and their formats.

    Numbers are compared over the clips that are ok in both: of features, the cosine of each clip's
    vector; of times and masks, how many clips are identical. The order of the rows does not matter.

    Examples:
        obygaze store diff obygaze12-xclip obygaze12-xclip-bf16
        obygaze store diff stores/a https://example.org/stores/b --json
    """
    one = open_named(session, first)
    other = open_named(session, second)
    with session.console.progress("compare") as progress:
        found = diff_stores(one, other, progress=progress)
    facts = {**asdict(found), "common": len(found.common), "same": found.same}
    session.console.show(facts, _diff_text(found))


def _diff_text(found: Diff) -> str:
    made_by = _made_by_text(found)
    if found.same:
        return "\n".join(
            [f"the same: recipe, {len(found.common)} clips, every number", *made_by]
        )
    lines = [f"recipe: {difference}" for difference in found.recipe] or [
        "recipe: the same"
    ]
    lines.append(
        f"clips: {len(found.common)} in both, {len(found.only_first)} only in the first, "
        f"{len(found.only_second)} only in the second"
    )
    for differing in (found.states, found.movies):
        pairs = list(differing.items())
        lines += [
            f"  {clip}: {here} here, {there} there"
            for clip, (here, there) in pairs[:SHOWN_CLIPS]
        ]
        if len(pairs) > SHOWN_CLIPS:
            lines.append(f"  ... and {len(pairs) - SHOWN_CLIPS} more")
    lines += [f"{name}: only in one of them" for name in found.arrays]
    lines += [
        f"{name}: {here} here, {there} there"
        for name, (here, there) in found.formats.items()
    ]
    if found.texts_differ:
        lines.append("texts: not the same")
    lines += made_by
    headers = (
        "array",
        "clips",
        "identical",
        "least cosine",
        "median",
        "greatest difference",
    )
    rows = [
        (
            level.level,
            level.n_clips,
            level.n_identical,
            _cosine(level.least_cosine),
            _cosine(level.median_cosine),
            f"{_difference(level)} {level.note}".rstrip(),
        )
        for level in found.levels
    ]
    return "\n".join([*lines, table(headers, rows)]) if rows else "\n".join(lines)


def _difference(level: LevelDiff) -> str:
    return f"{level.greatest_difference:.3g}" if level.n_clips else "-"


def _made_by_text(found: Diff) -> list[str]:
    """Return what made the clips of both stores, if that is not the same."""
    here, there = found.made_by
    if here == there:
        return []
    pairs = [("first", line) for line in here] + [("second", line) for line in there]
    return [f"made by, {which}: {line}" for which, line in pairs]


def _cosine(cosine: float) -> str:
    return "-" if math.isnan(cosine) else f"{cosine:.6f}"


def store_names(session: Session) -> list[str]:
    """Return the bare names of the workspace's stores: folders with a store.json, packed zips."""
    folder = session.workspace.folder("stores")
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [path for path in found if not path.name.startswith(".")]
    folders = {path.name for path in found if (path / "store.json").is_file()}
    packed = {path.stem for path in found if path.suffix == ".zip" and path.is_file()}
    return sorted(folders | packed)


def open_named(session: Session, name: str) -> Store:
    """Return the store of a bare name, path or URL."""
    return open_store(session.workspace.existing_store(name))
