"""Functions of `obygaze manifest` that compute with marks; other modules do the work."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

from obygaze.films.parameters import OrderWords, Seconds, Tables
from obygaze_features.core.lazy import done_in
from obygaze_features.core.options import Option
from obygaze_features.core.workspace import PathLike

if TYPE_CHECKING:
    from obygaze.films.agreement import Agreement
    from obygaze.films.labels import ProjectedLabels
    from obygaze.films.sampling import DrawnClips


@done_in("obygaze.films.labels")
def project_marks(
    marks: Tables,
    *,
    clips: PathLike | None = None,
    every: Seconds = None,
    threshold: str | float | Fraction = "0.2",
    orders: OrderWords = None,
    rule: Annotated[str, Option(metavar="RULE")] = "highest",
    name: Annotated[
        str | None, Option("-o --output", metavar="NAME", group="Output")
    ] = None,
    force: Annotated[bool, Option(group="Output")] = False,
    workspace: PathLike | None = None,
) -> ProjectedLabels:
    """Turn marks in films into clips with labels.

    MARKS is a table of marks of the workspace, as `manifest import marks.eaf` writes it, or
    a file: movie_id, start_s, end_s, column, value, annotator; or a manifest of segments.

    A value counts for a clip if it covers the threshold's share of it. The highest level that
    counts is the clip's, with the concepts of its marks; so it is in columns with --order. In other
    columns the value that covers most is the clip's. Where nothing counts, the clip is EN, in other
    columns `none`, if the person has seen four fifths of it, else it has no label. Marks in the
    column `watched` say what was seen. Without any, that is the whole film, and a warning says so;
    but of clips that were drawn, one without a mark has no label.

    Args:
        marks: One or more tables of marks.
        clips: A manifest or table of clips with times in their films.
        every: Cut the films into clips of this length instead.
        threshold: The smallest share of a clip that a value must cover to count: 0.2, 1/3.
        orders: The words of a column from the lowest: Gewalt=schwach,stark.
        rule: How one label is made of those of several people: highest, agreed, majority, mean or
            by:NAME. What each said is in a table beside.
        name: Name of the manifest to write; without it, the labels are printed.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest project coded --clips films
        obygaze manifest project coded --clips films --order Gewalt=schwach,stark -o labels
        obygaze manifest project mobygaze --every 30 -o mobygaze-30
    """


@done_in("obygaze.films.agreement")
def measure_agreement(
    marks: Tables,
    *,
    clips: PathLike | None = None,
    every: Seconds = None,
    threshold: str | float | Fraction = "0.2",
    column: Annotated[str, Option(metavar="COLUMN")] = "level",
    orders: OrderWords = None,
    workspace: PathLike | None = None,
) -> Agreement:
    """Measure the agreement of the annotators.

    Gamma is 1 - observed / expected disagreement on clips, for each film and pair and as the mean
    over films. Expected words are uniform, each annotator's own, or pooled. Gamma is '-' where
    agreement by chance is complete. Krippendorff's alpha is beside it.

    Marks are put on clips as by `obygaze manifest project`. Clips that an annotator has not watched
    are not compared. Levels are points on a line: EN 0, HN .3, NS .7, S 1; words with --order have
    equal steps, other words are the same or not.

    Of a manifest whose clips several people annotated, what they say is compared as it is. Of
    ratings, see `obygaze audit reliability --help`.

    Args:
        marks: One or more tables of marks; or a manifest with annotators, without --clips.
        clips: A manifest or table of clips with times in their films.
        every: Cut the films into clips of this length instead.
        threshold: The smallest share of a clip that a value must cover to count: 0.2, 1/3.
        column: The column in which the people are compared.
        orders: The words of a column from the lowest: Gewalt=schwach,stark.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest agree coded --clips films
        obygaze manifest agree coded --clips films --column Gewalt
        obygaze manifest agree mobygaze --every 30 --json
        obygaze manifest agree films
    """


@done_in("obygaze.films.sampling")
def sample_clips(
    manifest: PathLike,
    n_clips: Annotated[int, Option("-n", metavar="CLIPS", least=1)],
    name: Annotated[str, Option("-o --output", metavar="NAME")],
    *,
    by: Annotated[str | None, Option(metavar="COLUMN")] = None,
    seed: Annotated[int, Option(least=0)] = 0,
    force: bool = False,
    workspace: PathLike | None = None,
) -> DrawnClips:
    """Draw clips within films at random, to be marked.

    Each film gets the same number of clips, if it has so many. The new manifest has the drawn clips
    alone, and how probable each draw was. It is for `manifest export`, whose files of ELAN have an
    empty annotation for each of them and no labels, and for `audit share`.

    Args:
        manifest: The clips or windows of films, which are not changed.
        n_clips: How many clips are drawn.
        name: Name of the manifest of the drawn clips.
        by: A column of films: each of its groups gets the same number of clips.
        seed: The seed of the draw.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest sample films -n 200 -o drawn
        obygaze manifest sample films -n 200 --by decade -o by-decade
    """
