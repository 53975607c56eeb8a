"""`obygaze manifest`: commands that show manifests; commands_* import and change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import LazyGroup, Session, command, force_option
from obygaze_features.core.console import count, table
from obygaze_features.core.errors import FixInput, Mismatch, NotFound, ObygazeError
from obygaze_features.core.figures import figure_stem
from obygaze_features.manifest.io import manifest_sha256, read_manifest
from obygaze_features.manifest.model import LEVELS, VIEWS, Clip, Manifest
from obygaze_features.manifest.stats import FoldStats, Stats, compute_stats, draw_stats
from obygaze_features.manifest.vocabulary import concept_meaning, film_facts

FIELDS = ("movie_id", "clip_id", "level")
FILTERS = (*FIELDS, "concept", "where")
_HERE = "obygaze_features.manifest"
COMMANDS = {
    "import": (f"{_HERE}.commands_import:import_", "Make a manifest from a data set's own files."),
    "windows": (
        "obygaze_features.extraction.commands_windows:windows",
        "Cut whole films into windows.",
    ),
    "ls": (f"{_HERE}.commands:ls", "List the manifests of the workspace."),
    "show": (f"{_HERE}.commands:show", "Show a manifest's header and clips."),
    "check": (f"{_HERE}.commands:check", "Check manifests against the schema."),
    "stats": (f"{_HERE}.commands:stats", "Count levels, concepts, films and folds."),
    "link": (f"{_HERE}.commands_edit:link_", "Find the video of each clip under a folder."),
    "folds": (f"{_HERE}.commands_edit:folds", "Split the clips into folds, one fold a clip."),
    "project": (f"{_HERE}.commands_projection:project", "Turn experts' segments into clip labels."),
    "agree": (f"{_HERE}.commands_projection:agree", "Measure the agreement of the annotators."),
}


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
    rows, broken = [], []
    for name in session.workspace.names("manifests"):
        try:
            found = read_manifest(session.workspace.manifest(name))
        except (ObygazeError, OSError) as error:
            broken.append(name)
            words = error.what if isinstance(error, ObygazeError) else error.strerror
            session.console.warn(f"{name}: {words} (obygaze manifest check {name})")
        else:
            rows.append(_summary(found))
    if session.console.as_json:
        session.console.json({"manifests": rows, "broken": broken})
    elif rows:
        headers = ("name", "dataset", "unit", "view", "clips", "movies", "videos found", "folds")
        keys = ("name", "dataset", "unit", "view", "clips", "movies", "videos_found")
        lines = [[*(row[key] for key in keys), len(row["folds"])] for row in rows]
        session.console.result(table(headers, lines))
    elif not broken:
        folder = session.workspace.folder("manifests")
        session.console.note(f"no manifests in {folder} yet; obygaze manifest import --help")


@command()
@click.argument("name")
@click.option("--movie", "movie_id", help="Only the clips of this film.")
@click.option("--clip", "clip_id", help="Only the clip of this id.")
@click.option("--level", type=click.Choice(LEVELS), help="Only the clips of this level.")
@click.option("--concept", help="Only the clips with this concept.")
@click.option("--where", metavar="EXPRESSION", help="Only the clips for which this holds.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    help="Show at most this many clips; 0 shows all.",
)
def show(session: Session, /, name: str, limit: int, **wanted: str | None) -> None:
    """Show a manifest's header and clips.

    An EXPRESSION is over `level` and `concept`, as in the files of experiments.

    Examples:
        obygaze manifest show obygaze12
        obygaze manifest show obygaze12 --movie tt0108160 --level S --limit 0
        obygaze manifest show obygaze12 --concept Clothing
        obygaze manifest show obygaze12 --where 'level in {HN, S} and Body in concept'
        obygaze manifest show obygaze12 --clip tt0108160-011 --json
    """
    found = read_manifest(session.workspace.existing_manifest(name))
    chosen = {key: value for key in FILTERS if (value := wanted[key]) is not None}
    kept = found.where(chosen["where"]) if "where" in chosen else found
    if "concept" in chosen:
        kept = kept.where(f"{_quoted(chosen['concept'])} in concept")
    fields = [key for key in FIELDS if key in chosen]
    clips = [one for one in kept if all(getattr(one, key) == chosen[key] for key in fields)]
    if chosen and not clips:
        words = ", ".join(f"{key} {value}" for key, value in chosen.items())
        hint = f"obygaze manifest stats {name} lists films, levels and concepts"
        raise NotFound(f"no clip with {words}", where=found.name, hint=hint)
    shown = clips if limit <= 0 else clips[:limit]
    if session.console.as_json:
        session.console.json({**_summary(found), "clips": [vars(clip) for clip in shown]})
        return
    session.console.result(_describe(found))
    if meaning := concept_meaning(wanted["concept"] or ""):
        session.console.result(f"{wanted['concept']}: {meaning}\n")
    session.console.result(_clip_table(shown))
    if len(shown) < len(clips):
        session.console.note(f"{len(clips) - len(shown)} more clips; --limit 0 shows all")


@command()
@click.argument("names", nargs=-1, required=True)
def check(session: Session, names: tuple[str, ...]) -> None:
    """Check manifests against the schema.

    Every violation is listed with its file, line and column. The exit code is 1 if there is one.

    Examples:
        obygaze manifest check obygaze12
        obygaze manifest check manifests/*.toml --json
    """
    found: dict[str, list[str]] = {}
    for name in names:
        try:
            read_manifest(session.workspace.existing_manifest(name))
            found[name] = []
        except (FixInput, NotFound, Mismatch) as error:
            found[name] = list(error.details) or [f"{error.where}: {error.what}"]
    if session.console.as_json:
        session.console.json({"valid": not any(found.values()), "violations": found})
    for name, lines in found.items():
        if not session.console.as_json:
            session.console.result("\n".join(lines) if lines else f"{name}: valid")
    n_bad = sum(bool(lines) for lines in found.values())
    if n_bad:
        raise FixInput(
            f"{n_bad} of {len(found)} manifests are not valid",
            hint="correct what is listed, then check again",
        )


@command()
@click.argument("name")
@click.option("--view", type=click.Choice(VIEWS), help="View to count. [default: as stored]")
@click.option(
    "--figure", type=click.Path(path_type=Path), help="Draw the counts as PATH.svg and PATH.png."
)
@force_option
def stats(session: Session, name: str, view: str | None, figure: Path | None, force: bool) -> None:
    """Count levels, concepts, films and folds.

    Examples:
        obygaze manifest stats obygaze12 --view visual
        obygaze manifest stats obygaze12 --view as_published --json
        obygaze manifest stats obygaze12 --view visual --figure figures/concepts
    """
    found = read_manifest(session.workspace.existing_manifest(name))
    seen = found.view(view or found.header.view)
    counted = compute_stats(seen)
    if figure is not None:
        title = f"{found.header.dataset}, {seen.header.view.replace('_', ' ')} view"
        for path in draw_stats(counted, figure_stem(figure), title, force=force):
            session.console.note(f"wrote {path}")
    session.console.show(counted.to_json(), _text(counted))


def _text(counted: Stats) -> str:
    unit = counted.unit
    levels = [
        (level, n, _percent(counted.share[level]), counted.concepts_per_clip.get(level))
        for level, n in counted.levels.items()
    ]
    classes = [
        (column, name or "(none)", n)
        for column, counts in counted.classes.items()
        for name, n in counts.items()
    ]
    movies = [_film_row(counted, movie) for movie in counted.by_movie]
    annotators = [
        f"{name}\n{_concept_table(own.concepts, own.levels)}"
        for name, own in counted.by_annotator.items()
    ]
    folds = [_fold_row(name, list(each.values())) for name, each in counted.folds.items() if each]
    parts = [
        f"{count(counted.clips, unit)} of {count(counted.movies, 'film')},"
        f" {counted.without_video} without video",
        table(("level", "clips", "share", f"concepts a {unit}"), levels),
        _concept_table(counted.concepts) if any(counted.concepts.values()) else "",
        *annotators,
        table(("column", "class", f"{unit}s"), classes) if classes else "",
        table(("film", f"{unit}s", *LEVELS, "title", "year", "genres"), movies),
        table(("split", "folds", "clips", "share of S by fold"), folds) if folds else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _concept_table(
    concepts: Mapping[str, Mapping[str, int]], levels: Mapping[str, int] | None = None
) -> str:
    """Return the concepts by level as a table, below all clips of each level if these are given."""
    names = sorted({name for counts in concepts.values() for name in counts})
    rows = [[name, *(concepts[level].get(name, 0) for level in LEVELS)] for name in names]
    first = [["all", *levels.values()]] if levels else []
    return table(("concept", *LEVELS), [*first, *rows])


def _film_row(counted: Stats, movie: str) -> list[Any]:
    n, facts = counted.by_movie[movie], counted.films.get(movie, {})
    genres = ", ".join(facts.get("genres", ()))
    return [movie, sum(n.values()), *n.values(), facts.get("title"), facts.get("year"), genres]


def _fold_row(name: str, folds: Sequence[FoldStats]) -> tuple[str, int, int, str]:
    shares = [fold.positive / fold.clips for fold in folds]
    n_clips = sum(fold.clips for fold in folds)
    return name, len(folds), n_clips, f"{min(shares):.3f} to {max(shares):.3f}"


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f} %"


def _summary(found: Manifest) -> dict[str, Any]:
    return {
        "name": found.name,
        "dataset": found.header.dataset,
        "unit": found.header.unit,
        "view": found.header.view,
        "clips": len(found),
        "movies": len(found.movies),
        "with_video": sum(bool(clip.video) for clip in found),
        "videos_found": _videos_found(found),
        "folds": list(found.folds),
        "licence": found.header.licence,
        "citation": found.header.citation,
        "sources": [vars(source) for source in found.header.sources],
        "sha256": manifest_sha256(found),
    }


def _videos_found(found: Manifest) -> int:
    """Return how many clips have a video that is a file on this machine."""
    root = found.header.video_root
    exists = {video: Path(root, video).is_file() for clip in found if (video := clip.video)}
    return sum(exists.get(clip.video, False) for clip in found) if root else 0


def _clip_table(clips: Sequence[Clip]) -> str:
    """Return the clips as a table; a column that no clip has a value for is left out."""
    columns: dict[str, list[Any]] = {
        "clip_id": [clip.clip_id for clip in clips],
        "title": [_title(clip) for clip in clips],
        "annotator": [clip.extra.get("annotator") for clip in clips],
        "scene": [clip.scene for clip in clips],
        "start": [_clock(clip.start_s) for clip in clips],
        "end": [_clock(clip.end_s) for clip in clips],
        "level": [clip.level for clip in clips],
        "concepts": [", ".join(clip.concepts) for clip in clips],
        "video": [clip.video for clip in clips],
    }
    shown = {name: cells for name, cells in columns.items() if any(one for one in cells)}
    return table(tuple(shown), zip(*shown.values(), strict=True))


def _title(clip: Clip) -> str:
    return clip.extra.get("movie_title") or film_facts(clip.movie_id).get("title", "")


def _clock(seconds: float | None) -> str | None:
    """Return a time as hours, minutes and seconds: 0:01:10.0."""
    if seconds is None:
        return None
    tenths = round(10 * seconds)
    hours, minutes = tenths // 36000, tenths // 600 % 60
    return f"{hours}:{minutes:02d}:{tenths % 600 / 10:04.1f}"


def _quoted(name: str) -> str:
    return f"'{name}'" if '"' in name else f'"{name}"'


def _describe(found: Manifest) -> str:
    header = found.header
    lines = [
        f"{found.name}: {count(len(found), header.unit)} of {count(len(found.movies), 'film')}"
        f" ({header.dataset}, {header.view} view)"
    ]
    lines += [f"  licence: {header.licence}"] if header.licence else []
    lines += [f"  cite: {header.citation}"] if header.citation else []
    lines += [f"  note: {note}" for note in header.notes]
    lines += [f"  folds: {', '.join(found.folds)}"] if found.folds else []
    return "\n".join([*lines, ""])
