"""The documentation is true: every block runs, every command is told of, no link is dead."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from support.cli import ROOT, commands
from support.pages import (
    RUN,
    SHOWN,
    Block,
    blocks,
    followed_together,
    pages,
    run_block,
)

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
FOLLOWED = followed_together()


def test_a_page_tells_of_every_command():
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
    told = set(
        re.findall(
            r"[`.]([\w-]+)", page.partition("## Protocols")[2].partition("## Runs")[0]
        )
    )
    sections = [
        Data,
        Splits,
        GridSettings,
        FitSettings,
        ReportSettings,
        Task,
        Feature,
        PaperValue,
    ]
    words = {key.name for section in sections for key in fields(section)}
    words |= {"schema", "name", "leakage", "balancing", *KINDS}
    words |= {setting for kind in KINDS.values() for setting in kind.types}
    assert words - told == set()


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
    "group",
    FOLLOWED,
    ids=[group[0].relative_to(ROOT).as_posix() for group in FOLLOWED],
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


def test_the_tutorial_is_stored_without_outputs():
    notebook = json.loads(
        (ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8")
    )
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) > 5
    assert [
        cell["id"] for cell in code if cell["outputs"] or cell["execution_count"]
    ] == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(
        r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


# ---- the mechanism itself ----------------------------------------------------------------------


def block(text: str, language: str = "console", **marks: str) -> Block:
    named = {name.replace("_", " "): value for name, value in marks.items()}
    return Block("page.md", 1, language, text, named)


@pytest.mark.parametrize(
    "bad",
    [
        block("$ false"),
        block("$ false | cat"),
        block("raise SystemExit(1)", "python"),
        block("$ echo one\ntwo", output_checked=""),
    ],
)
def test_a_block_that_is_not_true_fails(bad, tmp_path):
    with pytest.raises(AssertionError, match=r"page\.md:1"):
        run_block(bad, tmp_path)
