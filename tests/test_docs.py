"""The documentation is true: every block runs, every command is on a page, no link is dead."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from support.cli import ROOT, commands
from support.pages import RUN, SHOWN, Block, blocks, followed_together, pages, run_block

from obygaze import cli
from obygaze_models.models.registry import KINDS
from obygaze_models.protocols.schema import (
    Data,
    Feature,
    FitSettings,
    GridSettings,
    PaperValue,
    ReportSettings,
    Splits,
    Task,
)

PAGES = pages()
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]
FOLLOWED = [group for group in followed_together() if group[0].suffix == ".md"]


def test_every_command_is_on_a_page():
    text = " ".join(" ".join(page.read_text("utf-8") for page in PAGES).split())
    paths = {words for words, _ in commands(cli.root)}
    assert len(paths) > 2
    missing = [
        words
        for words in sorted(paths)
        if not re.search(rf"obygaze {re.escape(words)}(?![\w-])", text)
    ]
    assert missing == []


def test_every_word_of_a_protocol_is_explained():
    page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    section = page.partition("## Protocols")[2].partition("## Runs")[0]
    explained = set(re.findall(r"[`.]([\w-]+)", section))
    sections = [Data, Splits, GridSettings, FitSettings, ReportSettings]
    sections += [Task, Feature, PaperValue]
    words = {key.name for section in sections for key in fields(section)}
    words |= {"schema", "name", "leakage", "balancing", *KINDS}
    words |= {setting for kind in KINDS.values() for setting in kind.types}
    assert words - explained == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_no_page_edits_a_file_by_the_sed_of_gnu(page):
    """The sed of macOS reads the word after -i as an ending."""
    for block in blocks(page):
        assert "sed -i " not in block.commands, block.where


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_block_says_what_it_is(page):
    for block in blocks(page):
        assert block.language in (*RUN, *SHOWN), (
            f"{block.where}: a block of {block.language!r}"
        )
        if block.language == "console" and "file" not in block.marks:
            assert block.commands, f"{block.where}: no line starts with '$ '"
        assert block.marks.get("not run", "reason"), (
            f"{block.where}: not run, but no reason"
        )


@pytest.mark.check("runs every page of the documentation")
@pytest.mark.timeout(3600)  # the guide is long, and a machine may be busy
@pytest.mark.parametrize(
    "group", FOLLOWED, ids=[group[0].relative_to(ROOT).as_posix() for group in FOLLOWED]
)
def test_every_page_can_be_followed_word_for_word(group, workspace):
    for page in group:
        for block in blocks(page):
            run_block(block, workspace)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_no_link_is_dead(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(there), f"{page.name}: {target}"


@pytest.mark.check("runs the tutorial")
def test_the_outputs_of_the_tutorial_are_those_of_today(tmp_path):
    """`scripts/make-pictures tutorial` writes them."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(ROOT / "docs" / "tutorial.ipynb", 4)
    code = "\n".join(cell.source for cell in notebook.cells)
    assert "obygaze_" not in code and "pip install obygaze" not in code
    stored = printed_by(notebook)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, resources=resources).execute()
    # Words may change, and last digits differ among processors.
    number = re.compile(r"\d*\.\d+")
    wanted = sorted(float(text) for text in number.findall(stored))
    found = sorted(float(text) for text in number.findall(printed_by(notebook)))
    assert len(wanted) > 20
    assert found == pytest.approx(wanted, abs=0.011)


def printed_by(notebook) -> str:
    """Return the texts that the cells of a notebook print."""
    outputs = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type != "stream" or output.name == "stdout"
    ]
    return "".join(
        output.text if output.output_type == "stream" else output.data["text/plain"]
        for output in outputs
    )


def anchors(page: Path) -> set[str]:
    headings = re.findall(
        r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


@pytest.mark.parametrize(
    ("text", "language", "marks"),
    [
        ("$ false | cat", "console", {}),
        ("raise SystemExit(1)", "python", {}),
        ("$ echo one\ntwo", "console", {"output checked": ""}),
    ],
)
def test_a_block_that_is_not_true_fails(text, language, marks, tmp_path):
    with pytest.raises(AssertionError, match=r"page\.md:1"):
        run_block(Block("page.md", 1, language, text, marks), tmp_path)
