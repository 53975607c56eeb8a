"""What the functions of the facade share: paths, workspaces and progress bars."""

from obygaze_features.core.console import ProgressBars as ProgressBars
from obygaze_features.core.console import progress_bars as progress_bars
from obygaze_features.core.workspace import PathLike as PathLike
from obygaze_features.core.workspace import Workspace

workspace_of = Workspace.of
