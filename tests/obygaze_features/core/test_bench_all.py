"""The page of all benches: its order, its words, and what becomes of a bench that fails."""

from __future__ import annotations

import json
import sys
import types

import click
import pytest
from support.cli import call_obygaze

from obygaze_features.core import bench_all, bench_page
from obygaze_features.core.bench_all import QUICK, no_gpu, run_section
from obygaze_features.core.bench_commands import COMMANDS, bench
from obygaze_features.core.bench_page import MEANINGS, Page, Section, in_order

BENCHES = [name for name in COMMANDS if name != "all"]


@pytest.fixture
def stand_ins(monkeypatch):
    """Benches that answer at once: what they were called with, and one that fails."""
    called = []

    def call(options):
        called.append(options)
        name = options[options.index("bench") + 1]
        if name == "store":
            return "It ended with exit code 4: Error: odd bytes", ""
        document = json.dumps({"bench": name})
        return "", document if "--json" in options else f"figures of {name}\n"

    monkeypatch.setattr(bench_all, "_call", call)
    monkeypatch.setattr(bench_all, "no_gpu", lambda: "Nothing here: no GPU.")
    return called


def test_every_bench_has_its_place_and_its_sentence():
    assert set(MEANINGS) == set(BENCHES)
    assert all(text.endswith(".") and "\n" not in text for text in MEANINGS.values())


def test_benches_come_in_the_order_of_the_page():
    assert in_order(["growth", "store", "startup"], COMMANDS) == ["startup", "store", "growth"]
    # One that nobody has written a sentence for is not lost.
    assert in_order(["newest", "startup"], {"newest": 1, "startup": 1}) == ["startup", "newest"]


@pytest.mark.parametrize("name", BENCHES)
def test_the_quick_words_are_words_of_their_bench(name):
    ctx = click.Context(bench)
    command = bench.get_command(ctx, name)
    quick = [option for param in command.params for option in param.opts if option == "--quick"]
    words = quick or list(QUICK[name])
    command.make_context(name, [*words, "--json"], parent=ctx)


def test_a_bench_that_fails_is_said_so_and_the_others_stay(stand_ins, tmp_path):
    page = tmp_path / "page.md"
    done = call_obygaze("bench", "all", "-o", page)
    assert done.code == 1
    assert "store failed; the other sections are whole" in done.stderr
    text = page.read_text(encoding="utf-8")
    titles = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert titles == [*MEANINGS, "On a GPU"]
    assert "**Failed.** It ended with exit code 4: Error: odd bytes" in text
    assert "```text\nfigures of growth\n```" in text
    assert "Nothing here: no GPU." in text
    assert "bench startup (1 of 9) ..." in done.stderr


def test_one_document_holds_them_all(stand_ins):
    done = call_obygaze("bench", "all", "--json", "--only", "growth,startup,gpu").ok()
    told = done.json()["sections"]
    assert [section["name"] for section in told] == ["startup", "growth", "gpu"]
    assert told[0]["result"] == {"bench": "startup"}
    assert (told[2]["result"], told[2]["failed"]) == (None, False)


def test_rounds_are_passed_to_those_that_have_them(stand_ins):
    call_obygaze("bench", "all", "--rounds", "7", "--only", "startup,growth").ok()
    assert [words[4:] for words in stand_ins] == [["startup", "--rounds", "7"], ["growth"]]
    stand_ins.clear()
    call_obygaze("bench", "all", "--quick", "--only", "startup,growth").ok()
    assert [words[4:] for words in stand_ins] == [
        ["startup", "--rounds", "1"],
        ["growth", "--quick"],
    ]


def test_words_that_do_not_go_together(stand_ins, tmp_path):
    assert call_obygaze("bench", "all", "--only", "startup,none").code == 2
    assert call_obygaze("bench", "all", "--json", "-o", tmp_path / "page.md").code == 2
    assert stand_ins == []


def test_a_real_bench_is_a_process_of_its_own():
    section = run_section("startup", ["bench", "startup", "--rounds", "1"])
    assert "python -c pass" in section.output
    assert not section.failed
    odd = run_section("startup", ["bench", "no-such-bench"])
    assert odd.failed
    assert odd.why_not.startswith("It ended with exit code 2: Error: No such command")


def test_why_there_is_nothing_from_a_gpu(monkeypatch):
    def torch(there: bool, cuda: str | None) -> None:
        module = types.ModuleType("torch")
        module.__version__ = "2.9"
        module.cuda = types.SimpleNamespace(is_available=lambda: there)
        module.version = types.SimpleNamespace(cuda=cuda)
        monkeypatch.setitem(sys.modules, "torch", module)

    torch(False, None)
    assert "is built without CUDA" in no_gpu()
    assert "`obygaze bench extract --device cuda --real-size" in no_gpu()
    torch(False, "12.8")
    assert "sees no GPU" in no_gpu()
    torch(True, "12.8")
    assert no_gpu() == ""
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "not installed" in no_gpu()


def test_the_page_as_it_is_written():
    sections = [Section("a", "a", "What it means.", 65.0, "figures\n"), Section("b", "b", "", 1.0)]
    text = Page(sections, "a machine", "2026-11-20").as_markdown()
    assert text.startswith(bench_page.HEAD)
    assert "\nMade 2026-11-20 in 1 minute on a machine.\n" in text
    assert "## a\n\nWhat it means.\n\n```text\nfigures\n```\n" in text
    assert max(map(len, text.splitlines())) <= 100
