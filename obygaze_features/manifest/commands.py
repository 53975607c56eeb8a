"""`obygaze manifest`: show, count, link and split manifests; commands_import makes them."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any

import click

from obygaze_features.core.commands import LazyGroup, Session, command, force_option
from obygaze_features.core.console import count, few, table
from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
    ObygazeError,
)
from obygaze_features.core.figures import figure_stem
from obygaze_features.core.outside import safe_text
from obygaze_features.manifest.figures import draw_stats
from obygaze_features.manifest.io import manifest_sha256, read_manifest, update_manifest
from obygaze_features.manifest.link import link
from obygaze_features.manifest.model import (
    FOLD_PREFIX,
    LEVELS,
    VIEWS,
    Clip,
    Manifest,
    clock,
)
from obygaze_features.manifest.stats import compute_stats
from obygaze_features.manifest.vocabulary import concept_meaning, film_facts

_HERE = "obygaze_features.manifest"
COMMANDS = {
    "import": (
        f"{_HERE}.commands_import:import_",
        "Make a manifest from a data set's own files.",
    ),
    "join": (
        f"{_HERE}.commands_import:join",
        "Add the columns of a table to the clips of a manifest.",
    ),
    "windows": (
        "obygaze_features.extraction.commands:windows",
        "Cut whole films into windows.",
    ),
    "ls": (f"{_HERE}.commands:ls", "List the manifests of the workspace."),
    "show": (f"{_HERE}.commands:show", "Show a manifest's header and clips."),
    "check": (f"{_HERE}.commands:check", "Check manifests against the schema."),
    "stats": (f"{_HERE}.commands:stats", "Count levels, concepts, films and folds."),
    "link": (f"{_HERE}.commands:link_", "Find the video of each clip under a folder."),
    "folds": (f"{_HERE}.commands:folds", "Assign each clip to one fold."),
}


SHOWN_CLIPS = 20
FOLD_KINDS = ("stratified", "grouped", "leave-one-movie-out")


@click.group(cls=LazyGroup, table=COMMANDS)
def manifest() -> None:
    """Import, inspect and edit manifests: clips, labels, splits."""


@command()
def ls(session: Session) -> None:
    """List the manifests of the workspace.

    Examples:
        obygaze manifest ls
        obygaze manifest ls --json
    """
    rows = []
    broken = []
    for name in session.workspace.names("manifests"):
        try:
            manifest = read_manifest(session.workspace.manifest(name))
        except (ObygazeError, OSError) as error:
            broken.append(name)
            words = error.what if isinstance(error, ObygazeError) else error.strerror
            session.console.warn(f"{name}: {words} (obygaze manifest check {name})")
        else:
            rows.append(_summary(manifest))
    if session.console.as_json:
        session.console.json({"manifests": rows, "broken": broken})
    elif rows:
        headers = (
            "name",
            "dataset",
            "unit",
            "view",
            "clips",
            "movies",
            "videos found",
            "folds",
        )
        keys = ("name", "dataset", "unit", "view", "clips", "movies", "videos_found")
        lines = []
        for row in rows:
            cells = [row[key] for key in keys]
            lines.append([*cells, len(row["folds"])])
        session.console.result(table(headers, lines))
    elif not broken:
        folder = session.workspace.folder("manifests")
        session.console.note(
            f"no manifests in {folder} yet; obygaze manifest import --help"
        )


@command()
@click.argument("name")
@click.option("--movie", "movie_id", help="Only the clips of this film.")
@click.option("--clip", "clip_id", help="Only the clip of this id.")
@click.option(
    "--level", type=click.Choice(LEVELS), help="Only the clips of this level."
)
@click.option("--concept", help="Only the clips with this concept.")
@click.option(
    "--where", metavar="EXPRESSION", help="Only the clips for which this holds."
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help="Show at most this many clips; 0 shows all. [default: 20; with --json all]",
)
def show(
    session: Session,
    /,
    name: str,
    where: str | None,
    limit: int | None,
    **wanted: str | None,
) -> None:
    """Show a manifest's header and clips.

    An EXPRESSION tests columns, as in the files of experiments: level == S and annotator == A1.

    Examples:
        obygaze manifest show obygaze12
        obygaze manifest show obygaze12 --movie tt0108160 --level S --limit 0
        obygaze manifest show obygaze12 --concept Clothing
        obygaze manifest show obygaze12 --where 'level in {HN, S} and Body in concept'
        obygaze manifest show obygaze12 --clip tt0108160-011 --json
    """
    manifest = read_manifest(session.workspace.existing_manifest(name))
    tests = _tests(where, wanted)
    selection = manifest
    for test in tests:
        selection = selection.where(test)
    if tests and not len(selection):
        raise NotFound(
            f"no clip with {' and '.join(tests)}",
            where=manifest.name,
            hint=f"obygaze manifest stats {name} lists films, levels and concepts",
        )
    if limit is None:
        limit = 0 if session.console.as_json else SHOWN_CLIPS
    shown = selection.clips[: limit or None]
    if session.console.as_json:
        document = {**_summary(manifest), "clips": [vars(clip) for clip in shown]}
        session.console.json(document)
        return
    session.console.result(_describe(manifest))
    concept = wanted["concept"] or ""
    meaning = concept_meaning(concept)
    if meaning:
        session.console.result(f"{concept}: {meaning}\n")
    session.console.result(_clip_table(shown))
    n_hidden = len(selection) - len(shown)
    if n_hidden:
        session.console.note(f"{n_hidden} more clips; --limit 0 shows all")


@command()
@click.argument("names", nargs=-1, required=True)
def check(session: Session, names: tuple[str, ...]) -> None:
    """Check manifests against the schema.

    Every violation is listed with its file, line and column. The exit code is 1 if there is one.

    Examples:
        obygaze manifest check obygaze12
        obygaze manifest check manifests/*.toml --json
    """
    violations: dict[str, list[str]] = {}
    for name in names:
        try:
            read_manifest(session.workspace.existing_manifest(name))
            violations[name] = []
        except (FixInput, NotFound, Mismatch) as error:
            violations[name] = list(error.details) or [f"{error.where}: {error.what}"]
    if session.console.as_json:
        is_valid = not any(violations.values())
        session.console.json({"valid": is_valid, "violations": violations})
    for name, lines in violations.items():
        if not session.console.as_json:
            session.console.result("\n".join(lines) or f"{name}: valid")
    n_bad = sum(bool(lines) for lines in violations.values())
    if n_bad:
        raise FixInput(
            f"{n_bad} of {len(violations)} manifests are not valid",
            hint="correct what is listed, then check again",
        )


@command()
@click.argument("name")
@click.option(
    "--view", type=click.Choice(VIEWS), help="View to count. [default: as stored]"
)
@click.option(
    "--figure",
    type=click.Path(path_type=Path),
    help="Draw the counts as PATH.svg and PATH.png.",
)
@force_option
def stats(
    session: Session, name: str, view: str | None, figure: Path | None, force: bool
) -> None:
    """Count levels, concepts, films and folds.

    Examples:
        obygaze manifest stats obygaze12 --view visual
        obygaze manifest stats obygaze12 --view as_published --json
        obygaze manifest stats obygaze12 --view visual --figure figures/concepts
    """
    manifest = read_manifest(session.workspace.existing_manifest(name))
    seen = manifest.view(view or manifest.header.view)
    counted = compute_stats(seen)
    if figure is not None:
        title = f"{manifest.header.dataset}, {seen.header.view.replace('_', ' ')} view"
        for path in draw_stats(counted, figure_stem(figure), title, force=force):
            session.console.note(f"wrote {path}")
    session.console.show(counted.to_json(), counted.to_text())


@command("link")
@click.argument("name")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def link_(session: Session, name: str, folder: Path) -> None:
    """Find the video of each clip under a folder.

    A clip's own file is found by its name, whatever its extension; else the clip is a part of
    its film's file, by its times. No video is opened. Clips without a video are listed.

    Examples:
        obygaze manifest link obygaze12 /data/moviegraphs/clips
        obygaze manifest link obygaze12 /data/films --json
    """
    path = session.workspace.existing_manifest(name)
    manifest = read_manifest(path)
    report = link(manifest, folder)
    if not (report.by_name or report.by_time or report.ambiguous):
        raise NotFound(
            "no file matches a clip",
            where=str(folder),
            hint="give the folder of the videos",
        )
    update_manifest(manifest, report.manifest, path)
    if report.unusable:
        names = few([ascii(name) for name in report.unusable], 3)
        session.console.warn(f"not used, because of characters in their names: {names}")
    if session.console.as_json:
        session.console.json(report.to_json())
        return
    session.console.result(
        f"{len(report.by_name)} clips have a file of their own, {len(report.by_time)} are parts of"
        f" films, {len(report.without)} have no video, {len(report.ambiguous)} match several files"
    )
    for clip_id, files in report.ambiguous.items():
        session.console.note(f"{clip_id}: not linked, matches {', '.join(files)}")
    for clip_id in report.without:
        session.console.detail(f"{clip_id}: no video")


@command()
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(FOLD_KINDS),
    default="grouped",
    help="How clips are assigned to folds.",
)
@click.option("-k", "k", default=5, help="Number of folds.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    help="Seed of the random assignment.",
)
@click.option("--as", "column", help="Name of the split. [default: the kind]")
@click.option("--force", is_flag=True, help="Replace a split of that name.")
def folds(
    session: Session,
    /,
    name: str,
    kind: str,
    column: str | None,
    force: bool,
    **settings: int,
) -> None:
    """Assign each clip to one fold.

    A clip has the same fold in every task, so that no task trains on another's test clips. `obygaze
    manifest join` adds folds of your own: a column fold:NAME of a table of clips.

    Examples:
        obygaze manifest folds obygaze12 --kind grouped -k 6 --as by-film
        obygaze manifest folds obygaze12 --kind leave-one-movie-out --as unseen
    """
    path = session.workspace.existing_manifest(name)
    manifest = read_manifest(path)
    split = kind if column is None else column
    if not split.replace("-", "").replace("_", "").isalnum():
        raise FixUsage(f"--as must be letters, digits, - and _, got {split!r}")
    if split in manifest.folds and not force:
        raise AlreadyThere(
            f"{name} already has a split {split!r}", hint="--as NAME, or --force"
        )
    from obygaze_features.manifest.folds import KINDS

    deal, names = KINDS[kind]
    dealt = deal(manifest, **{name: settings[name] for name in names})
    made = {clip: str(fold) for clip, fold in dealt.items()}
    split_manifest = manifest.with_column(FOLD_PREFIX + split, made)
    update_manifest(manifest, split_manifest, path)
    counted = compute_stats(split_manifest).folds[split]
    document = {"split": split, "without_fold": len(manifest) - len(made)}
    document["folds"] = {fold: asdict(stats) for fold, stats in counted.items()}
    rows = [(fold, stats.clips, stats.positive) for fold, stats in counted.items()]
    session.console.show(document, table(("fold", "clips", "S"), rows))


def _tests(where: str | None, wanted: Mapping[str, str | None]) -> list[str]:
    """Return the expressions that hold for the wanted clips."""
    tests = []
    if where is not None:
        tests.append(where)
    for column, value in wanted.items():
        if value is not None:
            mark = "'" if '"' in value else '"'
            tests.append(f"{column} == {mark}{value}{mark}")
    return tests


def _summary(manifest: Manifest) -> dict[str, Any]:
    """Return the facts of a manifest; of its videos, how many are files on this machine."""
    with_video = [clip.video for clip in manifest if clip.video]
    existing = _existing_files(Path(manifest.header.video_root), set(with_video))
    n_found = sum(video in existing for video in with_video)
    return {
        "name": manifest.name,
        "dataset": manifest.header.dataset,
        "unit": manifest.header.unit,
        "view": manifest.header.view,
        "clips": len(manifest),
        "movies": len(manifest.movies),
        "with_video": len(with_video),
        "videos_found": n_found if manifest.header.video_root else 0,
        "folds": list(manifest.folds),
        "licence": manifest.header.licence,
        "citation": manifest.header.citation,
        "sources": [vars(source) for source in manifest.header.sources],
        "sha256": manifest_sha256(manifest),
    }


def _existing_files(root: Path, names: Collection[str]) -> set[str]:
    """Return which of the files under a folder exist; each folder is listed once."""
    existing: set[str] = set()
    for folder in {PurePosixPath(name).parent for name in names}:
        try:
            with os.scandir(root / folder) as entries:
                files = [entry.name for entry in entries if entry.is_file()]
        except OSError:
            continue
        existing.update(str(folder / file) for file in files)
    return existing.intersection(names)


def _clip_table(clips: Sequence[Clip]) -> str:
    """Return the clips as a table; a column that no clip has a value for is left out."""
    columns: dict[str, list[Any]] = {
        "clip_id": [clip.clip_id for clip in clips],
        "title": [_title(clip) for clip in clips],
        "annotator": [clip.extra.get("annotator") for clip in clips],
        "scene": [clip.scene for clip in clips],
        "start": [_time(clip.start_s) for clip in clips],
        "end": [_time(clip.end_s) for clip in clips],
        "level": [clip.level for clip in clips],
        "concepts": [", ".join(clip.concepts) for clip in clips],
        "video": [clip.video for clip in clips],
    }
    filled = {name: cells for name, cells in columns.items() if any(cells)}
    return table(tuple(filled), zip(*filled.values(), strict=True))


def _title(clip: Clip) -> Any:
    """Return the title of a clip's film, None where it is unknown."""
    return clip.extra.get("movie_title") or film_facts(clip.movie_id).get("title")


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else clock(seconds, 1)


def _describe(manifest: Manifest) -> str:
    header = manifest.header
    n_clips = count(len(manifest), header.unit)
    n_films = count(len(manifest.movies), "film")
    lines = [
        f"{manifest.name}: {n_clips} of {n_films}"
        f" ({safe_text(header.dataset, 'terminal')}, {header.view} view)"
    ]
    if header.licence:
        lines.append(f"  licence: {safe_text(header.licence, 'terminal')}")
    if header.citation:
        lines.append(f"  cite: {safe_text(header.citation, 'terminal')}")
    lines += [f"  note: {safe_text(note, 'terminal')}" for note in header.notes]
    if manifest.folds:
        lines.append(f"  folds: {', '.join(manifest.folds)}")
    return "\n".join([*lines, ""])
