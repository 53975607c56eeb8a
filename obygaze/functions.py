"""`obygaze ls`; `obygaze.contents` does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import done_in
from obygaze_features.core.workspace import PathLike

if TYPE_CHECKING:
    from obygaze.contents import WorkspaceList


@done_in("obygaze.contents")
def list_workspace(*, workspace: PathLike | None = None) -> WorkspaceList:
    """List the manifests, stores, runs and models of the workspace.

    A store that is being filled has a row of its own, beside the store of its name.

    Args:
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze ls
        obygaze -C /data/films ls --json
    """
