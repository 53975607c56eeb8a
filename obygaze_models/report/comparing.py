"""`obygaze compare`: several runs side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from obygaze_features.core.function_commands import command_of
from obygaze_features.core.options import Option
from obygaze_features.core.parts import trust
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.core.written_tables import Listing, check_output
from obygaze_models.protocols.runner.records import Run, listed_runs, read_folder

if TYPE_CHECKING:
    from obygaze_models.report.compared_runs import ComparedRuns


def compare(
    *runs: PathLike | Run,
    metric: Annotated[
        str | None, Option(shown_default="the primary one of the first run")
    ] = None,
    workspace: PathLike | None = None,
) -> ComparedRuns:
    """Show runs side by side: what differs in them, and by how much.

    The settings and inputs that are not the same in all runs come first. Then each cell has a
    value for each run, and the difference of each run to the first one, computed on the clips that
    both tested. A difference of AP or AUC has an interval over films, and a p that allows for all
    differences that are shown. Cells of runs with one store each are compared whatever the names of
    the stores are; where a run has several, cells of stores of the same name are compared.

    Args:
        runs: Names of runs of the workspace, or their folders; the first is compared with.
        metric: The metric, such as ap or auc, or an own one that a run has.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> compared = og.compare("first", "first")
        >>> compared.settings
        {}

    Commands:
        obygaze compare honest-xclip honest-vivit
        obygaze compare honest-xclip honest-vivit honest-lsmdc --metric auc
        obygaze compare honest-xclip honest-vivit -o compared.xlsx
    """
    from obygaze_models.report.compared_runs import compare_runs

    if metric is not None:
        trust([metric])
    place = Workspace.of(workspace)
    opened = [
        run if isinstance(run, Run) else read_folder(place.existing("runs", run))
        for run in listed_runs(runs)
    ]
    return compare_runs(opened, metric)


command = command_of(
    compare, "compare", then=Listing.write, then_group="Options", check=check_output
)
