"""The functions of `obygaze explain` and `og.explain`; other modules do the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from obygaze_features.core.lazy import done_in
from obygaze_features.core.options import Option
from obygaze_features.core.workspace import PathLike

if TYPE_CHECKING:
    from obygaze.audits.maps.drawing import MapSheets
    from obygaze.audits.maps.stores import WrittenMaps
    from obygaze.audits.result import Audit
    from obygaze_features.manifest.model import Manifest
    from obygaze_features.store.reading import Store


@done_in("obygaze.audits.maps.concept_maps")
def write_concept_maps(
    path: Annotated[PathLike, Option("-o --output", metavar="NAME")],
    store: PathLike | Store,
    manifest: PathLike | Manifest,
    *,
    workspace: PathLike | None = None,
) -> WrittenMaps:
    """Project concept vectors on the stored tokens of each clip.

    For each film, obygaze uses directions that were fitted without this film. Needs no film and no
    weights.

    A map is the projection on the direction, of length 1, of each token less the mean of the clips.
    A clip without maps has the reason.

    Args:
        path: The new store.
        store: A store with tokens, and with an array of the same width to fit on.
        manifest: The clips and their labels.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze explain concepts films.xclip-b16-k400 films -o concept-maps
    """


@done_in("obygaze.audits.maps.conditions")
def compare_conditions(
    maps: PathLike | Store,
    conditions: PathLike,
    *,
    boxes: PathLike | None = None,
    workspace: PathLike | None = None,
) -> Audit:
    """Compare the maps of two conditions: mean maps, and what lies in boxes.

    CONDITIONS is a CSV file with clip_id, condition (two names; the first is X) and pair, which two
    clips of different conditions share. With boxes, the share of the maps in them is tested between
    conditions, by exchanging the clips of each pair.

    Args:
        maps: A store of maps.
        conditions: The conditions of the clips.
        boxes: A CSV file with clip_id, x0, y0, x1, y1 (shares of the picture that the model sees)
            and perhaps frame, a number from 0. A box without a frame is on all frames.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze explain conditions emotion-maps conditions.csv --figure figures/means
        obygaze explain conditions emotion-maps conditions.csv --boxes heads.csv
    """


@done_in("obygaze.audits.maps.drawing")
def draw_maps(
    maps: PathLike | Store,
    clips: Annotated[str | Sequence[str], Option(is_repeated=True)],
    folder: Annotated[PathLike, Option("-o --output", metavar="PATH")],
    *,
    force: bool = False,
    workspace: PathLike | None = None,
) -> MapSheets:
    """Draw the maps of clips over their exact pictures: a sheet for each clip and direction.

    All maps of a clip are drawn on one scale. The first random direction, if the store has some, is
    drawn too: it shows what chance paints.

    Args:
        maps: A store of maps.
        clips: The clips, whose frames are decoded again.
        folder: A folder.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one: it has the manifest of the store.

    Commands:
        obygaze explain draw concept-maps tt1-001 tt1-002 -o sheets
    """


@done_in("obygaze.audits.maps.saliency")
def write_saliency(
    path: Annotated[PathLike, Option("-o --output", metavar="NAME")],
    store: PathLike | Store,
    clips: Sequence[str] = (),
    *,
    text: Annotated[PathLike, Option(metavar="FILE")],
    weights: str | None = None,
    workspace: PathLike | None = None,
) -> WrittenMaps:
    """Compute where CLIP or X-CLIP looks for a text: Grad-CAM.

    The frames of CLIPS, by default all, are decoded again by exactly the recipe of the store.

    Args:
        path: The new store.
        store: The store of the clips; model and frames are those of its recipe.
        clips: The clips.
        text: Texts of `extract text`, by attribute.
        weights: The file or folder of the weights.
        workspace: The workspace, if it is not the current one: it has the manifest of the store.

    Commands:
        obygaze explain model films.clip-b16 tt1-001 --text emotion.npz -o emotion-maps
    """
