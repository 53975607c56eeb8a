"""Analyses of other packages: one that does not work is skipped, and the report has the rest."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from support.runs import cell, write_run

from obygaze_features.core import plugins as plugins_module
from obygaze_features.core.errors import Corrupt, FixInput, ObygazeWarning
from obygaze_features.core.plugins import Plugin
from obygaze_models.report import findings
from obygaze_models.report.findings import Finding, findings_of
from obygaze_models.report.page import write_report

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"/>'


def finding(title: str = "Title", **fields: Any) -> Finding:
    return Finding(title, ("a", "b"), ((1, 2),), **fields)


def raises(run: Path) -> Mapping[str, Finding]:
    raise KeyError("oops")


def refuses(run: Path) -> Mapping[str, Finding]:
    raise FixInput("no table here")


def no_mapping(run: Path) -> Any:
    return [finding()]


def ragged(run: Path) -> Mapping[str, Finding]:
    return {"ragged": Finding("Ragged", ("a", "b"), ((1,), (1, 2, 3)))}


def numbered(run: Path) -> Any:
    return {3: finding()}


def rows_of_numbers(run: Path) -> Any:
    return {"numbers": Finding("Numbers", ("a",), (1, 2))}  # type: ignore[arg-type]


def one_sentence(run: Path) -> Any:
    return {"text": finding(sentences="One.")}


def no_svg(run: Path) -> Mapping[str, Finding]:
    return {"drawn": finding(figure=run / "figures" / "absent.svg")}


def no_png(run: Path) -> Mapping[str, Finding]:
    (run / "only.svg").write_text(SVG, encoding="utf-8")
    return {"drawn": finding(figure=run / "only.svg")}


def figure_elsewhere(run: Path) -> Mapping[str, Finding]:
    return {"drawn": finding(figure=run.parent / "elsewhere.svg")}


def works(run: Path) -> Mapping[str, Finding]:
    return {"calibration": finding("It works", sentences=("A <sentence>.",))}


def draws(run: Path) -> Mapping[str, Finding]:
    folder = run / "drawings"
    folder.mkdir(exist_ok=True)
    (folder / "mine.svg").write_text(SVG, encoding="utf-8")
    (folder / "mine.png").write_bytes(b"PNG")
    return {"calibration": finding("It draws", figure=folder / "mine.svg")}


def corrupt(run: Path) -> Mapping[str, Finding]:
    raise Corrupt("not valid JSON", where=str(run / "audits" / "a.json"))


@pytest.fixture(autouse=True)
def fresh_warnings() -> Iterator[None]:
    plugins_module.warn_once.cache_clear()
    yield
    plugins_module.warn_once.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, *functions: Callable[[Path], Any]) -> None:
    """Let each function be the analysis of a package of its own."""
    installed = []
    for function in functions:
        name = function.__name__
        point = EntryPoint(name, f"{__name__}:{name}", "obygaze.analyses")
        package = f"of-{name} 1.0"
        installed.append(Plugin(point, name, package, f"{name} ({package})"))
    by_name = {function.__name__: function for function in functions}
    monkeypatch.setattr(Plugin, "load", lambda plugin: by_name[plugin.name])
    monkeypatch.setattr(findings, "plugins", lambda group: installed)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (raises, "failed on this run: KeyError: 'oops'"),
        (refuses, "failed on this run: no table here"),
        (no_mapping, "must return a mapping of findings"),
        (ragged, "must give each row of 'ragged' 2 cells, got (1,)"),
        (numbered, "must name findings by text, got 3"),
        (rows_of_numbers, "must give each row of 'numbers' 1 cells, got 1"),
        (one_sentence, "must give 'text' sentences as a tuple of strings"),
        (no_svg, "names a figure of 'drawn' that is missing"),
        (no_png, "names a figure of 'drawn' that is missing"),
        (figure_elsewhere, "into the folder of the run"),
    ],
)
def test_an_analysis_that_does_not_work_is_skipped_with_one_warning(
    broken: Callable[[Path], Any],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, broken, works)
    folder = write_run(tmp_path / "run", [cell()])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (page, *_) = write_report([folder])
    (warning,) = [
        str(each.message) for each in caught if each.category is ObygazeWarning
    ]
    assert reason in warning
    assert f"({broken.__name__} (of-{broken.__name__} 1.0))" in warning or (
        warning.startswith(f"a plugin is skipped: {broken.__name__} (of-")
    )
    text = page.read_text(encoding="utf-8")
    assert "It works" in text and "A &lt;sentence&gt;." in text
    assert "only.png" not in (folder / "report.md").read_text(encoding="utf-8")
    assert (folder / "tables" / "audit-calibration.csv").is_file()


def test_findings_of_one_name_from_two_packages_are_both_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, draws, works)
    folder = write_run(tmp_path / "run", [cell()])
    assert list(findings_of(folder)) == [
        "calibration",
        "calibration of works in of-works",
    ]
    (page, *written) = write_report([folder])
    text = page.read_text(encoding="utf-8")
    assert "It works" in text and "It draws" in text
    tables = {path.name for path in written if path.name.startswith("audit-")}
    assert {
        "audit-calibration.csv",
        "audit-calibration-of-works-in-of-works.csv",
    } <= tables
    assert folder / "drawings" / "mine.png" in written
    assert "(drawings/mine.png)" in (folder / "report.md").read_text(encoding="utf-8")


def test_an_analysis_is_called_once_for_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(run: Path) -> Mapping[str, Finding]:
        calls.append(run)
        return works(run)

    install(monkeypatch, counted)
    folder = write_run(tmp_path / "run", [cell()])
    write_report([folder])
    assert calls == [folder]


def test_an_invalid_file_of_the_run_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, corrupt, works)
    folder = write_run(tmp_path / "run", [cell()])
    with pytest.raises(Corrupt) as broken:
        findings_of(folder)
    assert str(broken.value.where).endswith("a.json")
