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
    Of ratings and words of your own, see `obygaze audit reliability --help`.

    Args:
        segments: One or more such tables, or names of manifests.
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
        obygaze manifest agree segments/films.ada.csv segments/films.ben.csv --clips c.csv
    """
