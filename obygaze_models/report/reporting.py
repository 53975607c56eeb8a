"""Compare runs. What is needed is imported when a function is called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.core.written_tables import check_table_name

if TYPE_CHECKING:
    from obygaze_models.report.comparison import ComparedRuns
    from obygaze_models.runner.files import Run

LATEX = ".tex"


def compare(
    *runs: PathLike | Run,
    models: Sequence[str] = (),
    metric: str | None = None,
    workspace: PathLike | None = None,
) -> ComparedRuns:
    """Compare runs on their common clips and tasks.

    The table has the value of each model in each run and its difference from the first run, on the
    clips that all runs with this model tested. Runs of other folds have no difference: their values
    are of another kind, and the table says so. A difference of AP or AUC has an interval over films
    and a p that is corrected for all differences of the table. Runs must hold out the same units:
    films, or groups of one column. Models are matched by store only if a run has several stores,
    and by name only if a run has several models. The result can be written as
    CSV, .xlsx or LaTeX (.tex).

    Args:
        runs: Names of runs of the workspace, or their folders. The first run is the reference.
        models: The model to compare; or a model for each run.
        metric: The metric, such as ap or auc.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> compared = og.compare("first", "first")
        >>> compared.warnings
        []
    """
    from obygaze_models.report.comparison import compare_runs
    from obygaze_models.report.lookup import open_runs

    place = Workspace.of(workspace)
    known = set(place.names("stores")) - set(place.names("runs"))
    if runs and all(isinstance(name, str) and name in known for name in runs):
        stores = " ".join(f"--store {shell_word(name)}" for name in runs)
        raise FixUsage(
            f"expected runs, got the stores {' and '.join(map(str, runs))}",
            hint=f"obygaze run honest {stores}",
        )
    return compare_runs(open_runs(runs, workspace), metric, models)


def check_compared(output: str | Path | None) -> None:
    """Raise an error unless a comparison can be written to the file that -o names, if any."""
    if output is not None and Path(output).suffix.lower() != LATEX:
        check_table_name(output)
