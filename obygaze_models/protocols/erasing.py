"""`obygaze erase`: what is lost when concepts are removed from features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from obygaze_features.core.console import ProgressBars, progress_bars
from obygaze_features.core.function_commands import command_of
from obygaze_features.core.options import Option
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.model import View
from obygaze_features.store import Store, open_store
from obygaze_models.models.erasure import EraserName
from obygaze_models.protocols.experiments import check_order
from obygaze_models.protocols.kinds import DEFAULT_TASK

if TYPE_CHECKING:
    from obygaze_models.protocols.erasure_report import ErasureReport


def erase(
    store: PathLike | Store,
    manifest: PathLike | Manifest,
    *concepts: str | Sequence[str],
    eraser: EraserName = "leace",
    task: str = DEFAULT_TASK,
    view: View | None = None,
    array: str | None = None,
    output: Annotated[
        PathLike | None, Option("-o --output", metavar="NAME", shown_default="none")
    ] = None,
    n_jobs: Annotated[int, Option("--jobs", least=0, shown_default="one a core")] = 0,
    progress: bool | ProgressBars = False,
    workspace: PathLike | None = None,
) -> ErasureReport:
    """Remove concepts from features, and measure on unseen films what is lost.

    Each film is tested by an eraser and by probes that were fitted on the other films. The report
    has the AUC within films of the concepts that are erased, of all others and of a task, before
    and after. For each erased concept there is a perceptron beside the linear probe, because what
    is not linear stays; the probe that learnt before erasing; and new probes, which learn from
    films that the eraser has not seen.

    Args:
        store: The features.
        manifest: The clips and labels.
        concepts: The concepts to remove, all together; in Python also a list of them.
        eraser: leace changes the features least; mean removes the directions between class means.
        task: The task to test: EN_S, HN_S or ENHN_S.
        view: The view of the annotations, as in a protocol.
        array: The array of the store, as in a protocol.
        output: Also write a store of the erased features, by an eraser fitted on all clips.
        n_jobs: Processes that train.
        progress: Show a progress bar on stderr, or a function that makes the bar.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> report = og.erase("mine", "films", "Look")
        >>> report.of("Look", "linear").after.value
        0.5

    Commands:
        obygaze erase obygaze12-xclip obygaze12 Look
        obygaze erase obygaze12-xclip obygaze12 Look Body --eraser mean -o xclip-erased
    """
    from obygaze_models.protocols.erasure_report import (
        read_clips,
        report_of,
        write_erased,
    )

    check_order("obygaze erase", workspace, store, manifest)
    source = open_store(store, workspace=workspace)
    clips = read_manifest(manifest, workspace=workspace)
    target = None if output is None else Workspace.of(workspace).new_store(output)
    named_concepts: list[str] = []
    for concept in concepts:
        named_concepts.extend([concept] if isinstance(concept, str) else concept)
    data = read_clips(source, clips, named_concepts, task, eraser, view, array)
    written = None if target is None else write_erased(data, source, target)
    with progress_bars(progress, "films")("erase", len(data.film_names)) as bar:
        return report_of(data, written, n_jobs, bar)


command = command_of(erase, "erase", unit="films")
