"""`obygaze manifest project` and `agree`: experts' segments as clip labels, and how they agree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import (
    ExampleCommand,
    F,
    Session,
    force_option,
    json_option,
    pass_session,
)
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import write_new
from obygaze_features.manifest.projection import (
    Projection,
    as_threshold,
    project_each,
    projection_to_csv,
    threshold_text,
)
from obygaze_features.manifest.projection import project as project_clips
from obygaze_features.manifest.projection_text import (
    agreement_text,
    levels_text,
    summary,
    sweep_text,
)
from obygaze_features.manifest.segments import (
    ClipSpan,
    Segment,
    read_inputs,
    unknown_concepts,
)

Inputs = tuple[tuple[Segment, ...], tuple[ClipSpan, ...]]


def input_options(function: F) -> F:
    """What both commands read: segments, clips, threshold."""
    canonical = click.option(
        "--canonical",
        is_flag=True,
        help="Give concepts their one name; an unknown concept is an error.",
    )
    threshold = click.option(
        "--threshold",
        default="0.2",
        show_default=True,
        help="The least share of the clip that a segment covers to count: 0.2, 1/3.",
    )
    clips = click.option(
        "--clips", required=True, help="CSV with clip_id, movie_id, start_frame, end_frame."
    )
    return click.argument("segments")(clips(threshold(canonical(function))))


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze manifest project segments.csv --clips clips.csv
    obygaze manifest project segments.csv --clips clips.csv --threshold 1/3 -o levels.csv
    obygaze manifest project mobygaze --clips clips.csv --sweep 0.1,0.2,0.3,0.4
    obygaze manifest project mobygaze --clips clips.csv --figure film --movie tt0108160 --fps 23.976
    """,
)
@input_options
@click.option("--sweep", metavar="SHARE,...", help="Count levels at each of these thresholds.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the rows as CSV; a clip without a label has an empty level.",
)
@click.option("--by-annotator", is_flag=True, help="-o: each annotator's rows, not the merge.")
@click.option("--figure", type=click.Path(path_type=Path), help="Draw a film: PATH.svg, PATH.png.")
@click.option("--movie", help="--figure: the film to draw.")
@click.option(
    "--between", type=(int, int), metavar="FIRST LAST", help="--figure: only these frames."
)
@click.option("--fps", type=click.FloatRange(min=1), help="--figure: show time, not frames.")
@force_option
@json_option
@pass_session
def project(
    session: Session,
    segments: str,
    clips: str,
    threshold: str,
    canonical: bool,
    sweep: str | None,
    output: Path | None,
    by_annotator: bool,
    figure: Path | None,
    movie: str | None,
    between: tuple[int, int] | None,
    fps: float | None,
    force: bool,
    as_json: bool,
) -> None:
    """Turn experts' segments into clip labels.

    SEGMENTS is a CSV with movie_id, annotator, start_frame, end_frame (inclusive), level and
    concepts (joined with '|'), or a manifest that has these columns. The highest level of the
    segments that each cover the threshold's share of a clip is the clip's level.
    """
    if figure is None and (movie or between or fps):
        raise FixUsage("these options say how to draw a figure", hint="--figure PATH with them")
    if by_annotator and output is None:
        raise FixUsage("--by-annotator says what -o writes", hint="-o NAME.csv with it")
    share = as_threshold(threshold)
    shares = [as_threshold(text) for text in sweep.split(",")] if sweep is not None else []
    marked, spans = _read(session, segments, clips, canonical)
    made, swept = project_clips(marked, spans, share), project_each(marked, spans, shares)
    _tell_unseen(session, made)
    if figure is not None:
        how = {"between": between, "fps": fps, "force": force}
        _draw(session, (marked, spans), made, figure, movie, how)
    if output is not None:
        write_new(output, projection_to_csv(made, spans, by_annotator=by_annotator), force=force)
        session.console.note(f"wrote {output}")
    if as_json:
        counted = {"sweep": [_sweep_record(one) for one in swept]} if sweep else {}
        session.console.json({**made.as_document(), **counted})
    elif sweep:
        session.console.result(sweep_text(swept))
    else:
        session.console.result(levels_text(made))
        session.console.note(summary(made))


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze manifest agree segments.csv --clips clips.csv
    obygaze manifest agree mobygaze --clips clips.csv --json --permutations 99999
    obygaze manifest agree segments.csv --clips clips.csv --seed 7 --sampled
    """,
)
@input_options
@click.option(
    "--permutations",
    type=click.IntRange(0, 1_000_000),
    default=9999,
    show_default=True,
    help="Draws for each p-value; 0 for none.",
)
@click.option(
    "--sampled",
    type=click.IntRange(1, 1_000_000),
    is_flag=False,
    flag_value=62,
    metavar="[N]",
    help="Sample the expected disorder too, as the paper did: N draws, 62 if no N is given.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Another seed, other draws.",
)
@json_option
@pass_session
def agree(
    session: Session,
    segments: str,
    clips: str,
    threshold: str,
    canonical: bool,
    permutations: int,
    sampled: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Measure how far the annotators agree.

    Gamma is 1 - observed / expected disorder on the clips' levels, by film and pair and as the
    mean over films. Chance is uniform levels, each annotator's own, or those of both pooled.
    """
    from obygaze_features.manifest.agreement import Chance, agreement, pairs_of

    share = as_threshold(threshold)
    marked, spans = _read(session, segments, clips, canonical)
    made = project_clips(marked, spans, share)
    _tell_unseen(session, made)
    pairs = pairs_of(made, spans)
    if not pairs:
        session.console.warn("no film has clips and two annotators, so there is nothing to compare")
    document = agreement(pairs, Chance(permutations, sampled or 0, seed))
    if as_json:
        session.console.json({"threshold": threshold_text(share), **document})
    else:
        session.console.result(agreement_text(document))


def _read(session: Session, segments: str, clips: str, canonical: bool) -> Inputs:
    paths = [_table_path(session, name) for name in (segments, clips)]
    read = read_inputs(paths[0], paths[1], canonical=canonical)
    unknown = unknown_concepts(read[0])
    if unknown:
        session.console.warn(f"concepts not in the vocabulary, kept as they are: {few(unknown, 5)}")
    return read


def _table_path(session: Session, name: str) -> Path:
    """A table's own path, or the rows of a manifest of that name."""
    path = Path(name)
    if path.suffix != ".toml" and (path.suffix == ".csv" or path.parent.name or path.exists()):
        return path
    return session.workspace.existing_manifest(name).with_suffix(".csv")


def _tell_unseen(session: Session, made: Projection) -> None:
    if made.unseen:
        session.console.warn(
            f"{count(len(made.unseen), 'clip')} in films that nobody marked, without a row:"
            f" {few(made.unseen, 5)}"
        )


def _draw(
    session: Session,
    inputs: Inputs,
    made: Projection,
    figure: Path,
    movie: str | None,
    how: Mapping[str, Any],
) -> None:
    from obygaze_features.core.figures import figure_stem
    from obygaze_features.manifest.timeline_figure import draw_timeline

    segments, spans = inputs
    films = sorted({span.movie_id for span in spans} & {one.movie_id for one in segments})
    if movie is None and len(films) != 1:
        raise FixUsage(
            f"there are {len(films)} films with clips and segments", hint=f"--movie {few(films)}"
        )
    drawn = draw_timeline(segments, spans, made, movie or films[0], figure_stem(figure), **how)
    for path in drawn:
        session.console.note(f"wrote {path}")


def _sweep_record(made: Projection) -> dict[str, Any]:
    return {
        "threshold": threshold_text(made.threshold),
        "levels": made.counts(),
        "unlabelled": len(made.unlabelled),
    }
