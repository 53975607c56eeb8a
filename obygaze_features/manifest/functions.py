"""Functions of `obygaze manifest` that compute with arrays; other modules do the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from obygaze_features.core.lazy import done_in
from obygaze_features.core.options import Option
from obygaze_features.core.workspace import PathLike

if TYPE_CHECKING:
    from obygaze_features.manifest.folds import SplitReport


@done_in("obygaze_features.manifest.folds")
def assign_folds(
    manifest: PathLike,
    *,
    kind: Literal["grouped", "leave-one-film-out"] = "grouped",
    k: Annotated[int | None, Option("-k --folds", shown_default="5")] = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> SplitReport:
    """Assign each film, with all its clips, to one fold.

    A clip has the same fold in every task, so that no task trains on another's test clips. `obygaze
    manifest join` adds folds of your own: a column fold:NAME of a table of clips.

    Args:
        manifest: The manifest, which is written anew with the split.
        kind: How clips are assigned to folds.
        k: Number of folds of the kind grouped; leave-one-film-out has one for each film.
        force: Replace the folds of this kind that the manifest has.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest folds obygaze12 --kind grouped -k 6
        obygaze manifest folds obygaze12 --kind leave-one-film-out
    """
