"""The front door: its examples run, its objects are short to look at, importing it is light."""

import doctest
import inspect
from dataclasses import replace

import pytest
from support.cli import ROOT
from support.extraction import film_folder
from support.pages import blocks, run_block

import obygaze as og
from obygaze_features.manifest import write_manifest

QUICK = ["grid.models=['ridge']", "report.replicates=20"]
STORE_IS_MADE = "og.store.import_("


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """The manifest `films` and the store `mine` of docs/python.md, and three clips with videos."""
    folder = tmp_path_factory.mktemp("workspace")
    for block in blocks(ROOT / "docs" / "python.md"):
        run_block(block, folder)
        if STORE_IS_MADE in block.text:
            break
    clips = replace(film_folder(folder, 3, bad={1: b"not a video"}), name="trailers")
    write_manifest(clips, folder / "manifests" / "trailers.toml")
    return folder


@pytest.fixture
def here(workspace, monkeypatch):
    monkeypatch.chdir(workspace)
    return workspace


@pytest.fixture(scope="module")
def run(workspace):
    """A run of the store `mine`, with a long name for it."""
    stores = {"n" * 200: "mine"}
    return og.run(
        "honest", stores, "films", changes=QUICK, output="framed", workspace=workspace
    )


# In an order in which each finds what those before it have made.
FUNCTIONS_WITH_EXAMPLES = (
    *("read_manifest", "open_store", "search", "load_backbone", "extract"),
    *("load_demo", "dataset", "run", "read_run", "evaluate", "train", "load_model"),
    *("predict", "report"),
    "compare",
)


@pytest.mark.check("an experiment and an extraction")
def test_the_example_of_each_function_is_what_it_returns(here):
    # What these give depends on the machine, or is on the disk.
    without_example = {"check_up", "ls", "view", "write_demo"}
    functions = {
        name for name in og.__all__ if inspect.isfunction(getattr(og, name))
    } - without_example
    of_core = {
        name
        for name in functions
        if not getattr(og, name).__module__.startswith("obygaze.audits.")
    }
    assert of_core == set(FUNCTIONS_WITH_EXAMPLES)
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    report: list[str] = []
    for name in FUNCTIONS_WITH_EXAMPLES:
        (test,) = finder.find(getattr(og, name), name, globs={"og": og})
        assert test.examples, name
        runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)
