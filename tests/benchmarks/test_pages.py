"""The page of all benchmarks: its order, its words, and what happens when a benchmark fails."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import pages
from benchmarks.__main__ import main
from benchmarks.pages import (
    BENCHMARKS,
    Page,
    Section,
    chosen,
    measure_here,
    measure_section,
)
from benchmarks.timing import NotMeasured, Settings
from obygaze_features.core.errors import FixInput, FixUsage

pytestmark = pytest.mark.check("benchmarks")

DEFAULT = [name for name, one in BENCHMARKS.items() if one.is_default]


@pytest.fixture
def stand_ins(monkeypatch):
    """Replace the processes: return the arguments of each call; the benchmark `rivals` fails."""
    calls = []

    def run_apart(target, *, limit_s, **arguments):
        calls.append(arguments)
        name = arguments["name"]
        if name == "rivals":
            raise FixInput("'rivals' failed (4)", hint="Corrupt: other bytes")
        if name == "zoo":
            return {"why_not": "no torch"}, 0
        return {"text": f"figures of {name}\n", "result": {"name": name}}, 0

    monkeypatch.setattr(pages, "run_apart", run_apart)
    return calls


def call(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_a_function_and_has_its_sentence(name):
    module, function = BENCHMARKS[name].function.split(":")
    assert callable(getattr(importlib.import_module(module), function))
    meaning = BENCHMARKS[name].meaning
    assert meaning.endswith(".") and "\n" not in meaning


def test_benchmarks_are_in_the_order_of_the_registry():
    assert chosen(["zoo", "rivals", "startup"]) == ["startup", "rivals", "zoo"]
    assert chosen([]) == DEFAULT
    assert chosen(["codings"]) == ["codings"]
    with pytest.raises(FixUsage, match="no benchmark called none") as caught:
        chosen(["startup", "none"])
    assert "one of startup, decode" in caught.value.hint


def test_a_benchmark_that_fails_has_its_reason_and_the_others_are_complete(
    stand_ins, tmp_path
):
    page = tmp_path / "page.md"
    done = call("-o", page)
    assert done.exit_code == 1
    assert "Error: rivals failed" in done.stderr
    text = page.read_text(encoding="utf-8")
    titles = [
        line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")
    ]
    assert titles == DEFAULT
    assert "**Failed:** 'rivals' failed (4): Corrupt: other bytes" in text
    assert "```text\nfigures of overlap\n```" in text
    assert "**Not measured:** no torch" in text
    assert f"startup (1 of {len(DEFAULT)}) ..." in done.stderr


def test_one_document_holds_them_all(stand_ins):
    done = call("--json", "overlap", "startup", "zoo")
    assert done.exit_code == 0
    sections = json.loads(done.stdout)["sections"]
    assert [section["name"] for section in sections] == ["startup", "overlap", "zoo"]
    assert sections[0]["result"] == {"name": "startup"}
    assert (sections[2]["result"], sections[2]["failed"]) == (None, False)


def test_settings_reach_every_benchmark(stand_ins):
    assert call("startup", "--rounds", "7", "--quick").exit_code == 0
    assert stand_ins == [{"name": "startup", "quick": True, "rounds": 7}]
    assert call("startup", "--rounds", "0").exit_code == 2


def test_a_benchmark_runs_in_a_process_of_its_own(monkeypatch):
    section = measure_section("startup", Settings(rounds=1))
    assert "python -c pass" in section.text
    assert section.result["reference"] == "python -c 'import click'"
    assert not section.failed
    limited = replace(pages.BENCHMARKS["startup"], limit_s=0.01)
    monkeypatch.setitem(pages.BENCHMARKS, "startup", limited)
    stopped = measure_section("startup", Settings(rounds=1))
    assert stopped.failed
    assert (
        stopped.why_not == "'benchmarks.pages:measure_here' has not ended after 0.01 s"
    )


def test_what_cannot_be_measured_here_is_no_failure(monkeypatch):
    def measure(settings):
        raise NotMeasured(f"no GPU for {settings.rounds} rounds")

    monkeypatch.setattr("benchmarks.startup.measure", measure)
    assert measure_here("startup", rounds=3) == {"why_not": "no GPU for 3 rounds"}


def test_the_page_as_it_is_written():
    sections = [
        Section("a", "What it means.", 65.0, "figures\n"),
        Section("b", "b", 1.0, why_not="no " * 50),
    ]
    text = Page(sections, "a machine", "2026-11-20").as_markdown()
    assert text.startswith(pages.HEAD)
    assert "\nMade 2026-11-20 in 1 minute on a machine.\n" in text
    assert "## a\n\nWhat it means.\n\n```text\nfigures\n```\n" in text
    assert max(map(len, text.splitlines())) <= 100
    quick = Page(sections, "a machine", "2026-11-20", is_quick=True).as_markdown()
    assert "only shows that everything works" in " ".join(quick.split())


def test_the_benchmarks_are_not_installed():
    import tomllib

    root = Path(pages.__file__).resolve().parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    from setuptools import find_packages

    include = project["tool"]["setuptools"]["packages"]["find"]["include"]
    found = find_packages(str(root), include=include)
    assert found and not [name for name in found if name.startswith("benchmarks")]
    assert "benchmarks" in find_packages(str(root))
