"""`obygaze manifest project`, `agree`, `export` and `import segments`: what annotators marked."""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from obygaze.extensions.annotate import exchange
from obygaze.extensions.annotate.projection import (
    ClipLevel,
    ClipSpan,
    Projection,
    Segment,
    as_threshold,
    projection_to_csv,
    read_inputs,
    threshold_text,
)
from obygaze.extensions.annotate.projection import project as project_clips
from obygaze_features.core.commands import (
    Session,
    command,
    force_option,
    json_option,
    option_group,
)
from obygaze_features.core.console import count, few, table
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import write_all_new, write_new
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.vocabulary import canonical_concept

FILE = click.Path(path_type=Path)
_LENGTH = re.compile(r"(?=.*[1-9])[0-9]{1,6}(\.[0-9]{1,6})?")
Inputs = tuple[tuple[Segment, ...], tuple[ClipSpan, ...]]


input_options = option_group(
    "Options",
    click.argument("segments", nargs=-1, required=True),
    click.option(
        "--clips",
        help="CSV with clip_id, movie_id, start_frame, end_frame (or start_s, end_s in seconds).",
    ),
    click.option(
        "--every",
        metavar="SECONDS",
        help="Cut the films into clips of this length instead.",
    ),
    click.option(
        "--fps",
        metavar="RATE",
        help="Frames per second, to convert seconds where SEGMENTS has no column framerate.",
    ),
    click.option(
        "--threshold",
        default="0.2",
        help="The smallest share of a clip that a segment must cover to count: 0.2, 1/3.",
    ),
)


@command()
@input_options
@option_group(
    "Output",
    click.option(
        "-o",
        "--output",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write the rows as CSV, print the counts; a clip without a label has an empty level.",
    ),
    click.option(
        "--by-annotator", is_flag=True, help="-o: each annotator's rows, not the merge."
    ),
    force_option,
    json_option,
)
def project(
    session: Session,
    /,
    threshold: str,
    output: Path | None,
    by_annotator: bool,
    force: bool,
    **source: Any,
) -> None:
    """Turn experts' segments into clip labels.

    SEGMENTS is a CSV with movie_id, annotator, start_frame, end_frame (inclusive), level and
    concepts (joined with '|'), or a manifest that has these columns. The highest level of the
    segments that each cover the threshold's share of a clip is the clip's level.

    A clip without a mark is EN where the annotator has watched it: segments with the level
    `watched`, here or in SEGMENTS.watched.csv, say where. Without any, that is the whole film.

    Examples:
        obygaze manifest project segments.csv --clips clips.csv
        obygaze manifest project segments.csv --clips clips.csv --threshold 1/3 -o levels.csv
        obygaze manifest project mobygaze --every 30 -o levels.csv
    """
    if by_annotator and output is None:
        raise FixUsage("--by-annotator needs -o", hint="-o NAME.csv with it")
    inputs, made = _project(session, as_threshold(threshold), **source)
    if output is not None:
        data = projection_to_csv(made, inputs[1], by_annotator=by_annotator)
        write_new(output, data, force=force)
        session.console.note(f"wrote {output}")
    if session.console.as_json:
        session.console.json(made.to_json())
    else:
        if output is None:
            session.console.result(_levels_text(made))
        counts = ", ".join(f"{level} {n}" for level, n in made.counts().items())
        unlabelled = f"without a label {len(made.unlabelled)}"
        session.console.note(
            f"{count(len(made.merged), 'clip')}: {counts}, {unlabelled}"
        )


@command()
@input_options
@click.option(
    "--permutations",
    type=click.IntRange(0, 1_000_000),
    default=9999,
    help="Number of draws for each p-value; 0 for no p-values.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, help="Seed of the random draws."
)
def agree(
    session: Session, /, threshold: str, permutations: int, seed: int, **source: Any
) -> None:
    """Measure the agreement of the annotators.

    Gamma is 1 - observed / expected disagreement of the levels of clips, for each film and pair
    and as the mean over films. Expected levels are uniform, each annotator's own, or pooled. Gamma
    is '-' where agreement by chance is complete. Clips that an annotator has not watched are not
    compared; see `obygaze manifest project --help`.

    Examples:
        obygaze manifest agree segments.csv --clips clips.csv
        obygaze manifest agree mobygaze --clips clips.csv --json --permutations 99999
        obygaze manifest agree segments/films.ada.csv segments/films.ben.csv --clips c.csv
    """
    from obygaze.extensions.annotate.agreement import agreement, pairs_of

    share = as_threshold(threshold)
    inputs, made = _project(session, share, **source)
    pairs = pairs_of(made, inputs[1])
    if not any(pair.n for pair in pairs):
        tables = ", ".join(source["segments"])
        if pairs:
            raise FixInput(
                "agreement needs clips that two annotators have labelled, got none",
                where=tables,
                hint="obygaze manifest project shows the label of each annotator",
            )
        raise FixInput(
            "agreement needs two annotators of the same film, got one of each",
            where=tables,
            hint="name the tables of both: agree ada.csv ben.csv --clips clips.csv",
        )
    document = agreement(pairs, permutations, seed)
    session.console.show(
        {"threshold": threshold_text(share), **document}, _agreement_text(document)
    )


def _project(
    session: Session,
    share: Fraction,
    *,
    segments: Sequence[str],
    clips: str | None,
    every: str | None,
    **options: Any,
) -> tuple[Inputs, Projection]:
    """Read both tables and project the segments; warn of concepts and clips that cannot be used."""
    if (clips is None) == (every is None):
        raise FixUsage(
            "expected one of --clips and --every", hint="--clips FILE or --every 30"
        )
    if every is not None and not _LENGTH.fullmatch(every):
        raise FixUsage(
            f"--every must be a number of seconds, got {every!r}", hint="--every 30"
        )
    cut = Fraction(every) if every is not None else _table_path(session, clips or "")
    inputs = read_inputs(
        [_table_path(session, name) for name in segments], cut, **options
    )
    concepts = {concept for segment in inputs[0] for concept in segment.concepts}
    unknown = sorted(
        concept for concept in concepts if canonical_concept(concept) is None
    )
    if unknown:
        session.console.warn(f"unknown concepts, kept unchanged: {few(unknown, 5)}")
    made = project_clips(*inputs, share)
    if made.assumed:
        named = few([f"{annotator} in {movie}" for movie, annotator in made.assumed], 3)
        session.console.warn(
            f"not known what was watched, unmarked clips count as EN: {named}"
        )
    if made.unseen:
        n_clips = count(len(made.unseen), "clip")
        session.console.warn(
            f"{n_clips} in films without segments, skipped: {few(made.unseen, 5)}"
        )
    if not made.merged and clips:
        raise FixInput(
            "no clip lies in a film with segments",
            where=clips,
            hint="use the same movie_id in both tables",
        )
    if not made.merged:
        raise FixInput(
            "the segments span no whole clip",
            where=", ".join(segments),
            hint="use a smaller number for --every",
        )
    return inputs, made


def _table_path(session: Session, name: str) -> Path:
    """Return the path of a table, or that of the rows of a manifest of that name."""
    path = Path(name)
    is_table = path.suffix == ".csv" or bool(path.parent.name) or path.is_file()
    if is_table and path.suffix != ".toml":
        return path
    return session.workspace.existing_manifest(name).with_suffix(".csv")


def _levels_text(made: Projection) -> str:
    """Return a table of clips: the level from each annotator, and the merged level."""
    annotators = list(made.by_annotator)
    levels_of: dict[str, dict[str, str]] = {}
    for annotator, clip_levels in made.by_annotator.items():
        levels_of[annotator] = {row.clip_id: _level_text(row) for row in clip_levels}
    rows = []
    for row in made.merged:
        share = None
        if row.ratio is not None:
            overlap_frames, clip_frames = row.ratio
            share = f"{100 * overlap_frames / clip_frames:.1f} %"
        levels = [levels_of[annotator].get(row.clip_id) for annotator in annotators]
        concepts = ", ".join(row.concepts)
        rows.append((row.clip_id, *levels, _level_text(row), share, concepts))
    return table(("clip", *annotators, "level", "share", "concepts"), rows)


def _level_text(row: ClipLevel) -> str:
    return row.level if row.labelled else "none"


def _agreement_text(document: Mapping[str, Any]) -> str:
    """Return the measures under each null, then gamma of each film and pair."""
    from obygaze.extensions.annotate.agreement import NULLS

    measures = []
    for name, means in sorted(document.items()):
        if isinstance(means, Mapping) and tuple(means) == NULLS:
            values = means.values()
            # A p-value is never 0, and must not be shown as 0.
            cells = [
                f"{value:.6g}" if value and "p_value" in name else value
                for value in values
            ]
            measures.append((name.replace("_", " ").replace("ns", "NS"), *cells))
    pairs = [
        (
            pair["movie_id"],
            " / ".join(pair["annotators"]),
            pair["n"],
            *pair["gamma"].values(),
            pair["alpha"],
            pair["without_ns"]["n"],
            *pair["without_ns"]["gamma"].values(),
        )
        for pair in document["pairs"]
    ]
    headers = ("film", "pair", "clips", *NULLS, "alpha", "without NS", *NULLS)
    return f"{table(('mean', *NULLS), measures)}\n\n{table(headers, pairs)}"


@command()
@click.argument("kind", metavar="FORMAT", type=click.Choice([*exchange.FORMATS]))
@click.argument("name")
@click.option(
    "--predictions", type=FILE, help="CSV of clips with scores, instead of the levels."
)
@click.option(
    "--fps", metavar="RATE", help="Frames per second of clips: 25, 23.976, 24000/1001."
)
@click.option("-o", "folder", type=FILE, default=".", help="The folder for the files.")
@force_option
def export(
    session: Session, kind: str, name: str, folder: Path, force: bool, **given: Any
) -> None:
    """Write segments for other programs.

    FORMAT is elan, vtt, otio, edl, webannotation or csv; each film becomes a file. --predictions
    takes what `models predict` and `search` write with -o, and the predictions.csv of a run.

    Examples:
        obygaze manifest export elan mobygaze -o elan
        obygaze manifest export vtt films --predictions predicted.csv -o subtitles
    """
    found = read_manifest(session.workspace.existing_manifest(name))
    films, without = exchange.films_of(found, **given)
    files = exchange.export(films, kind, folder)
    write_all_new(files, force=force)
    if without:
        session.console.warn(
            f"{count(len(without), 'clip')} without times: {few(without, 5)}"
        )
    document = {"written": [str(path) for path in files], "without_times": without}
    session.console.show(document, "\n".join(map(str, files)))
