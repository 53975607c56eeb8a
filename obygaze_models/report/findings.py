"""Findings: what a report shows of an analysis that an extension brings.

The entry points of the group `obygaze.analyses` name functions that take the folder of a run and
return the findings that lie in it, by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from obygaze_features.core.errors import Corrupt, ObygazeError
from obygaze_features.core.plugins import (
    ANALYSES,
    Plugin,
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
    package: str = ""


def findings_of(run: Path) -> dict[str, Finding]:
    """Return what all installed analyses found in the folder of a run, by name.

    An analysis that does not work is skipped with a warning, so that the report has everything
    else; an invalid file of the run (`Corrupt`) is an error. Of two findings of one name, that of
    the second package has the name of its plugin and package too.
    """
    findings: dict[str, Finding] = {}
    for plugin in plugins(ANALYSES):
        try:
            findings_of_plugin = _findings_of_plugin(plugin, run)
        except ObygazeError as error:
            if isinstance(error.__cause__, Corrupt):
                raise error.__cause__ from None
            skip(error)
            continue
        for name, finding in findings_of_plugin.items():
            if name in findings:
                package = plugin.package.partition(" ")[0]
                name = f"{name} of {plugin.name} in {package}"
            findings[name] = finding
    return findings


def load_analysis(plugin: Plugin) -> ReadFindings:
    """Return the function of a plugin; `doctor` checks every plugin with it."""
    read = plugin.load()
    if not callable(read):
        raise plugin.refuse(f"must be a function of a folder, got {short_value(read)}")
    return cast("ReadFindings", read)


def _findings_of_plugin(plugin: Plugin, run: Path) -> Mapping[str, Finding]:
    """Return the findings of one analysis; an error, which names the plugin, if it fails."""
    read = load_analysis(plugin)
    returned: Any = plugin.call(partial(read, run), "failed on this run")
    if not isinstance(returned, Mapping):
        raise plugin.refuse(
            f"must return a mapping of findings, got {short_value(returned)}"
        )
    findings = {}
    for name, finding in returned.items():
        if not isinstance(name, str):
            raise plugin.refuse(f"must name findings by text, got {short_value(name)}")
        if not isinstance(finding, Finding):
            raise plugin.refuse(f"must return findings, got {short_value(finding)}")
        _check_texts(plugin, name, finding)
        figure = finding.figure
        if figure is not None:
            figure = _checked_figure(plugin, name, figure, run)
        findings[name] = replace(finding, figure=figure, package=plugin.package)
    return findings


def _check_texts(plugin: Plugin, name: str, finding: Finding) -> None:
    """Raise an error unless title, headers and sentences are text, and rows have all cells."""
    if not isinstance(finding.title, str):
        raise plugin.refuse(
            f"must give {name!r} a title, got {short_value(finding.title)}"
        )
    for noun, texts in (
        ("headers", finding.headers),
        ("sentences", finding.sentences),
    ):
        are_listed = isinstance(texts, tuple | list)
        if not are_listed or not all(isinstance(text, str) for text in texts):
            raise plugin.refuse(
                f"must give {name!r} {noun} as a tuple of strings, got {short_value(texts)}"
            )
    if not isinstance(finding.rows, tuple | list):
        raise plugin.refuse(
            f"must give {name!r} rows as a tuple, got {short_value(finding.rows)}"
        )
    for row in finding.rows:
        if not isinstance(row, tuple | list) or len(row) != len(finding.headers):
            raise plugin.refuse(
                f"must give each row of {name!r} {len(finding.headers)} cells,"
                f" got {short_value(row)}"
            )


def _checked_figure(plugin: Plugin, name: str, figure: object, run: Path) -> Path:
    """Return the path of a figure below the folder of a run; an error unless SVG and PNG exist."""
    if not isinstance(figure, Path) or figure.suffix != ".svg":
        raise plugin.refuse(
            f"must give {name!r} the pathlib.Path of an SVG file, got {short_value(figure)}"
        )
    resolved_run = run.resolve()
    resolved_figure = figure.resolve()
    if not resolved_figure.is_relative_to(resolved_run):
        raise plugin.refuse(
            f"must write the figure of {name!r} into the folder of the run, got {figure}"
        )
    for file in (figure, figure.with_suffix(".png")):
        if not file.is_file():
            raise plugin.refuse(f"names a figure of {name!r} that is missing: {file}")
    read_text = partial(figure.read_text, "utf-8")
    plugin.call(read_text, f"has a figure of {name!r} that cannot be read")
    return run / resolved_figure.relative_to(resolved_run)
