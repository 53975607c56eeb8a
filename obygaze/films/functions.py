"""Functions of `obygaze manifest` that compute with marks; other modules do the work."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

from obygaze.films.film_rates import Fps
from obygaze.films.labels import Seconds, Tables
from obygaze_features.core.lazy import done_in
from obygaze_features.core.options import Option
from obygaze_features.core.workspace import PathLike

if TYPE_CHECKING:
    from obygaze.films.agreement import Agreement
    from obygaze.films.sampling import DrawnClips


@done_in("obygaze.films.agreement")
def measure_agreement(
    segments: Tables,
    *,
    clips: PathLike | None = None,
    every: Seconds = None,
    fps: Fps = None,
    threshold: str | float | Fraction = "0.2",
    permutations: Annotated[int, Option(least=0, most=1_000_000)] = 9999,
    workspace: PathLike | None = None,
) -> Agreement:
    """Measure the agreement of the annotators.

    Gamma is 1 - observed / expected disagreement of the levels of clips, for each film and pair
    and as the mean over films. Expected levels are uniform, each annotator's own, or pooled. Gamma
    is '-' where agreement by chance is complete. Krippendorff's alpha is beside it.
    Clips that an annotator has not watched are not compared; see `obygaze manifest project --help`.
    `assumed` in the column `watched`: nothing says whether clips without a mark were watched, and
    they count as watched. Levels are points on a line: EN 0, HN .3, NS .7, S 1.
    Of a manifest whose clips several people annotated, their levels are compared as they are.
    Of ratings and words of your own, see `obygaze audit reliability --help`.

    Args:
        segments: One or more tables of segments, or names of manifests.
        clips: CSV with clip_id, movie_id, start_frame, end_frame (or start_s, end_s in seconds).
        every: Cut the films into clips of this length instead.
        fps: Frames per second of films without a video and a column framerate: 25 for all of them,
            or lake=23.976 for one.
        threshold: The smallest share of a clip that a segment must cover to count: 0.2, 1/3.
        permutations: Number of draws for each p-value; 0 for no p-values.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest agree segments.csv --clips clips.csv
        obygaze manifest agree mobygaze --clips clips.csv --json --permutations 99999
        obygaze manifest agree films
        obygaze manifest agree segments/films.ada.csv segments/films.ben.csv --clips c.csv
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
    alone, and how probable each draw was. It is for `obygaze view NAME --annotate`, which shows no
    scores and no labels of drawn clips, and for `audit share`. The same command with a larger -n
    adds clips to it: what was marked stays.

    Args:
        manifest: The clips or windows of films, which are not changed.
        n_clips: How many clips are drawn, together with those of an earlier draw of this name.
        name: Name of the manifest of the drawn clips.
        by: A column of films: each of its groups gets the same number of clips.
        seed: The seed of the draw.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest sample films -n 200 -o drawn
        obygaze manifest sample films -n 200 --by decade -o by-decade
    """
