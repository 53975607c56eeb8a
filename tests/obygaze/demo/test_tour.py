"""The whole tour, as a newcomer takes it: from two experts' marks to a page that can be read."""

import csv
import json
import re
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.demo import demo


def _table(folder: Path, name: str, run: str = "first") -> list[dict[str, str]]:
    path = folder / "runs" / run / "tables" / f"{name}.csv"
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


@pytest.mark.check("the whole tour, in half a minute")
def test_the_page_shows_the_planted_concept_and_not_the_other(tmp_path: Path) -> None:
    shutil.copytree(demo(), tmp_path, dirs_exist_ok=True)
    folder = tmp_path / "demo"
    document = json.loads((tmp_path / "stdout").read_text("utf-8"))
    said = (tmp_path / "stderr").read_text("utf-8")
    report_path = "demo/runs/first/report.html"
    made_in = document["page"].removesuffix(f"/{report_path}")
    page = (tmp_path / report_path).read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)
    # The first screen answers the question, and says which of the two concepts is found.
    first_screen = page[page.index("<header>") : page.index("</header>")]
    assert "Yes. ridge ranks clips better than a random order (p" in first_screen
    assert "12 of 12" in page
    assert "show 1 of 2 concepts (Body); not shown: Look." in page
    assert (
        "12 clips (12 S) have only concepts that cannot be seen (Voice)" in first_screen
    )
    assert first_screen.count("<li>") == 3, "no other warning applies"
    # Both models are better than a random order.
    rows = [row for row in _table(folder, "results") if row["best baseline"]]
    assert [row["model"] for row in rows] == ["ridge", "pcbm-lr"]
    assert rows[0]["better?"] == "yes"
    assert all(float(row["AP low"]) > float(row["AP of the baseline"]) for row in rows)
    concepts = {row["concept"]: row for row in _table(folder, "concepts")}
    body = concepts["Body"]
    look = concepts["Look"]
    assert float(body["p (Holm)"]) < 0.01
    assert float(body["AP low"]) > float(body["share"]) + 0.15
    assert float(look["p (Holm)"]) > 0.1
    assert float(look["AP low"]) < float(look["share"]) < float(look["AP high"])
    # What can only be heard is missed by pictures, and found by sound.
    page = (folder / "runs" / "heard" / "report.html").read_text(encoding="utf-8")
    assert "Concepts that can only be heard: Voice (36 clips)." in page
    assert "The store desc has features of pictures" in page
    is_better = {
        row["model"]: row["better?"]
        for row in _table(folder, "results", "heard")
        if row["best baseline"]
    }
    assert is_better == {"ridge (desc)": "not shown", "ridge (sound)": "yes"}
    # Of two concepts, pictures show one and sound has the other.
    page = (folder / "runs" / "joined" / "report.html").read_text(encoding="utf-8")
    first_screen = page[page.index("<header>") : page.index("</header>")]
    assert (
        "Yes. pictures and sound together are better than pictures (p" in first_screen
    )
    gains = _table(folder, "differences", "joined")[:2]
    assert [(row["first"], row["second"]) for row in gains] == [
        ("ridge (joined)", "ridge (pictures)"),
        ("ridge (joined)", "ridge (sound)"),
    ]
    assert all(float(row["difference low"]) > 0 for row in gains)
    # Each printed command works as it is typed.
    last = document["commands"][-1].replace(made_in, str(tmp_path))
    assert call_obygaze(*shlex.split(last)[1:], cwd=tmp_path).code == 0
    assert all(f"$ {command}\n" in said for command in document["commands"])
    # The guide on maps goes on with these weights.
    has_torch = find_spec("torch") is not None and find_spec("transformers") is not None
    assert (folder / "weights" / "model.safetensors").is_file() == has_torch
    # Neither progress bars nor warnings.
    assert "%|" not in said
    assert "Warning" not in said


def test_a_folder_with_work_in_it_is_left_alone(tmp_path: Path) -> None:
    work = tmp_path / "demo" / "thesis.txt"
    work.parent.mkdir()
    work.write_text("years", encoding="utf-8")
    refused = call_obygaze("-C", tmp_path, "demo")
    assert refused.code == 1
    assert "remove it, or choose another folder with -o" in refused.stderr
    assert work.read_text(encoding="utf-8") == "years"
    assert list(work.parent.iterdir()) == [work]


def test_without_pyav_nothing_is_written(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    without = call_obygaze("-C", tmp_path, "demo")
    assert without.code == 2
    assert (
        without.stderr.splitlines()[-1]
        == '  Try: in the clone of obygaze: pip install -e ".[video]"'
    )
    assert not any(tmp_path.iterdir())
