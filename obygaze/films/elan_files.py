"""Write marks, sampled clips and scores as ELAN files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from obygaze.films.exporting import ExportedFiles, export_elan
from obygaze.films.marks import ELAN
from obygaze_features.core import written_tables
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.model import Manifest


def export_marks(
    marks: PathLike | Manifest,
    output: PathLike,
    *,
    into: PathLike | None = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> ExportedFiles:
    """Write marks, or the labels of clips, as ELAN files.

    Each label of a clip becomes a mark with its annotator; an unknown label becomes `?`.

    Args:
        marks: A table of marks (a file, or a name in segments/), or a manifest with labels.
        output: A new file that ends with .eaf; or for several films a new folder.
        into: An ELAN file, or a folder of them, to copy to the output with the marks as new tiers.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    return export_elan(
        marks, _elan_output(output), into=into, force=force, workspace=workspace
    )


def write_blank_files(
    manifest: PathLike | Manifest,
    output: PathLike,
    *,
    people: Sequence[str] = (),
    force: bool = False,
    workspace: PathLike | None = None,
) -> ExportedFiles:
    """Write sampled clips as ELAN files with empty tiers, for people to fill in.

    A tier has an empty annotation for each clip, with the levels to choose from. Labels of the
    clips are not written, so that annotators do not see them.

    Args:
        manifest: Clips that `og.manifest.sample` has drawn.
        output: A new file that ends with .eaf; or for several films a new folder.
        people: The annotators, who get an empty tier each; by default one tier without a name.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    return export_elan(
        manifest,
        _elan_output(output),
        people=people,
        are_blank=True,
        force=force,
        workspace=workspace,
    )


def write_scores(
    manifest: PathLike | Manifest,
    predictions: PathLike,
    output: PathLike,
    *,
    model: str | None = None,
    into: PathLike | None = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> ExportedFiles:
    """Write scores of models as tiers of ELAN files.

    Each model becomes a tier of scores, or several tiers if clips overlap; the tiers are sorted by
    model. Baselines are excluded if a run has models.

    Args:
        manifest: The clips.
        predictions: A table of scores: of `og.predict`, of `og.search`, or the predictions.csv of
            a run.
        output: A new file that ends with .eaf; or for several films a new folder.
        model: The only model whose scores are written, as the column model of the table names it.
        into: An ELAN file, or a folder of them, to copy to the output with the scores as new
            tiers. Nothing else in the files is changed.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    return export_elan(
        manifest,
        _elan_output(output),
        predictions=predictions,
        model=model,
        into=into,
        force=force,
        workspace=workspace,
    )


def _elan_output(output: PathLike) -> Path:
    """Return the path of the output; raise an error for the name of a table."""
    path = Path(output)
    if path.suffix.lower() in written_tables.SUFFIXES:
        raise FixUsage(
            f"expected a name that ends with {ELAN}, or a folder, got {path.name}",
            where=str(path),
            hint=f"for a table of clips: obygaze manifest export NAME {shell_word(path)}",
        )
    return path
