"""Findings: what a report shows of an analysis that an extension brings.

The entry points of the group `obygaze.analyses` name functions that take the folder of a run and
return the findings that lie in it, by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.plugins import (
    ANALYSES,
    Plugin,
    call_foreign,
    plugins,
    short_value,
    skip,
)

ReadFindings = Callable[[Path], "Mapping[str, Finding]"]


@dataclass(frozen=True)
class Finding:
    """The result of an analysis as a reader sees it: plain text and values, no markup.

    Each row has a cell for each header. `figure` is an SVG file in the folder of the run; a PNG of
    the same name lies beside it.
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    sentences: tuple[str, ...] = ()
    figure: Path | None = None


def findings_of(run: Path) -> dict[str, Finding]:
    """Return what all installed analyses found in the folder of a run, by name.

    An analysis that does not work is skipped with a warning; an invalid file of a run is an error.
    """
    findings: dict[str, Finding] = {}
    for plugin in plugins(ANALYSES):
        try:
            read = load_analysis(plugin)
        except ObygazeError as error:
            skip(error)
            continue
        returned = call_foreign(partial(read, run), f"{plugin.where} cannot read a run")
        findings.update(_checked(plugin, returned))
    return findings


def load_analysis(plugin: Plugin) -> ReadFindings:
    """Return the function of a plugin; `doctor` checks every plugin with it."""
    read = plugin.load()
    if not callable(read):
        raise plugin.refuse(f"must be a function of a folder, got {short_value(read)}")
    return cast("ReadFindings", read)


def _checked(plugin: Plugin, returned: Any) -> Mapping[str, Finding]:
    """Return the findings of a plugin; an error where they are of another type."""
    if not isinstance(returned, Mapping):
        raise plugin.refuse(
            f"must return a mapping of findings, got {short_value(returned)}"
        )
    for name, finding in returned.items():
        if not isinstance(finding, Finding):
            raise plugin.refuse(f"must return findings, got {short_value(finding)}")
        if any(len(row) != len(finding.headers) for row in finding.rows):
            raise plugin.refuse(
                f"must give each row of {name!r} {len(finding.headers)} cells"
            )
    return returned
