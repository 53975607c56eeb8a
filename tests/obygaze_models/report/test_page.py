"""The page: well-formed, without external content, and safe whatever names a run holds."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.cli import call_obygaze
from support.runs import (
    analysis,
    baseline,
    cell,
    concepts,
    head,
    predictions,
    usual,
    write_run,
)

from obygaze_features.core.errors import AlreadyThere, Corrupt, FixUsage, Mismatch
from obygaze_models.report.page import write_report

VOID = {"meta", "link", "img", "br", "hr"}
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>&\"' $_^$"


class Page(HTMLParser):
    """Reads a page strictly: every tag closed in its order, every address noted."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "action", "srcset", "data", "poster"):
                self.links.append(value)
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def page_of(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The files of one report; the page is the first, in the folder of its run."""
    return write_report([write_run(tmp_path_factory.mktemp("runs") / "run", usual())])


def test_page_is_well_formed_and_loads_nothing(whole):
    written = whole
    assert written[0].parts[-2:] == ("run", "report.html")
    page = page_of(written[0])
    assert not {"script", "iframe", "object", "form"} & set(page.tags)
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert not re.search(r"url\(|@import", written[0].read_text("utf-8"))
    inside = [link[1:] for link in page.links if link.startswith("#")]
    assert set(inside) <= set(page.ids) and len(page.ids) == len(set(page.ids))
    assert page.tags.count("img") == 9


def test_drawings_on_the_page_load_nothing(whole):
    drawings = [
        link for link in page_of(whole[0]).links if link.startswith("data:image/svg")
    ]
    for drawing in drawings:
        text = base64.b64decode(drawing.partition(",")[2]).decode("utf-8")
        root = ElementTree.fromstring(text)
        for element in root.iter():
            for name, value in element.attrib.items():
                assert not name.endswith("href") or value.startswith(("#", "data:"))
        # Where the font is missing, one as wide takes its place.
        assert "'DejaVu Sans'" not in text or "Verdana" in text


def hostile_run(folder: Path) -> Path:
    missing = {"clip_id": HOSTILE, "reason": HOSTILE, "tasks": [HOSTILE]}
    coverage = {"kind": "coverage", "feature": HOSTILE, "n_clips": 1, "n_missing": 1}
    printed = {
        "metric": "/../../../evil",
        "mean": 0.5,
        "sd": None,
        "film": None,
        "source": "",
    }
    papers = [printed, {**printed, "metric": "ap", "film": "tt1"}]
    records = [
        cell(HOSTILE, train=HOSTILE, test=HOSTILE, feature=HOSTILE, paper=papers),
        cell("/../../..", feature="/evil", paper=papers),
        {**coverage, "missing": [missing]},
        {**analysis(HOSTILE), "model": HOSTILE},
        {**concepts((HOSTILE, "Look")), "note": HOSTILE},
        {**head("pcbm-dt", (HOSTILE, "Look")), "task": HOSTILE},
        {**head("pcbm-lr", (HOSTILE, "Look")), "model": HOSTILE},
        {"kind": "remark", "text": HOSTILE},
    ]
    protocol = {
        "name": HOSTILE,
        "report": {"title": HOSTILE},
        "tasks": {HOSTILE: {"title": HOSTILE}},
    }
    return write_run(folder, records, predictions({HOSTILE: "tt1"}), protocol=protocol)


def test_names_cannot_become_markup_or_paths(tmp_path):
    written = write_report([hostile_run(tmp_path / "run")])
    page = page_of(written[0])
    assert "script" not in page.tags and not page.handlers
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert HOSTILE in "".join(page.text)
    for path in [*written, *tmp_path.rglob("*evil*")]:
        assert path.resolve().is_relative_to(tmp_path / "run")
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", path.name)
    markdown = (tmp_path / "run" / "report.md").read_text("utf-8")
    assert not re.search(r"(?<!\\)<", markdown)


def test_tables_and_figures_lie_beside_the_page(whole):
    folder = whole[0].parent
    names = {path.relative_to(folder).as_posix() for path in whole}
    for name in (
        *("report.md", "tables/results-EN-S.csv", "tables/results-EN-S.tex"),
        *("tables/paper-ap.tex", "figures/timelines.svg", "figures/timelines.png"),
    ):
        assert name in names
    for name in re.findall(
        r"\]\((figures/[^)]+)\)", (folder / "report.md").read_text("utf-8")
    ):
        assert (folder / name).is_file()
    assert (
        (folder / "tables" / "provenance.csv")
        .read_text("utf-8")
        .startswith("kind,name,")
    )


def test_the_same_run_gives_the_same_page(tmp_path, whole):
    again = write_report([write_run(tmp_path / "run", usual())], formats=["html"])
    assert again[0].read_bytes() == whole[0].read_bytes()


def test_several_runs_share_a_page_and_every_anchor_is_its_own(tmp_path):
    folders = [write_run(tmp_path / name, [cell()]) for name in ("one", "two")]
    written = write_report(folders, tmp_path / "both.html", ["html"])
    page = page_of(written[0])
    assert written[0] == tmp_path / "both.html"
    assert page.tags.count("main") == 2 and len(page.ids) == len(set(page.ids))
    assert {"results-1", "results-2"} <= set(page.ids)
    assert not (tmp_path / "one" / "tables").exists()


def test_invalid_run_or_format_is_an_error(tmp_path):
    folder = write_run(tmp_path / "run", usual(), format="obygaze-run/9")
    with pytest.raises(Mismatch):
        write_report([folder])
    with pytest.raises(FixUsage):
        write_report([folder], formats=["pdf"])
    with pytest.raises(FixUsage):
        write_report([])


def test_a_run_of_baselines_alone_has_a_page(tmp_path):
    folder = write_run(tmp_path / "run", [baseline("random")], stores={})
    (page, *_) = write_report([folder], formats=["html"])
    assert "<dt>leaked test clips</dt><dd>0</dd>" in page.read_text("utf-8")


def test_run_without_predictions_has_no_timelines(tmp_path):
    folder = write_run(tmp_path / "run", [cell()])
    (folder / "predictions.csv").unlink()
    names = [path.name for path in write_report([folder])]
    assert "intervals-EN-S.svg" in names and "timelines.svg" not in names


@pytest.mark.parametrize("lost", ["manifest", "protocol"])
def test_run_with_a_missing_record_is_reported_as_corrupt(tmp_path, lost):
    folder = write_run(tmp_path / "run", [cell()])
    about = json.loads((folder / "run.json").read_text())
    del about[lost]
    (folder / "run.json").write_text(json.dumps(about))
    with pytest.raises(Corrupt, match=lost):
        write_report([folder])


def test_command_finds_runs_by_name_and_lists_files(tmp_path):
    write_run(tmp_path / "runs" / "mine", [cell()])
    done = call_obygaze(
        "-C", tmp_path, "report", "mine", "--format", "csv", "--json"
    ).ok()
    files = done.json()["files"]
    assert str(tmp_path / "runs" / "mine" / "tables" / "films.csv") in files
    lost = call_obygaze("-C", tmp_path, "report", "yours")
    assert lost.code == 1 and "Try: one of mine" in lost.stderr


def test_a_page_replaces_an_earlier_page_and_no_other_file(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [cell()])
    page, thesis = tmp_path / "page.html", tmp_path / "thesis.html"
    thesis.write_text("years")
    write_report([run], page)
    write_report([run], page)
    before = sorted(tmp_path.rglob("*"))
    for taken, why in (
        (thesis, "does not have the generator"),
        (tmp_path, "expected a file"),
    ):
        with pytest.raises(AlreadyThere, match=why):
            write_report([run], taken)
    assert thesis.read_text() == "years"
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "formats", "says"),
    [
        ("lab.md", (), "--format md, which writes into the folder of the run"),
        ("lab.csv", (), "--format csv, which writes"),
        ("lab.pdf", (), "a browser prints the page as PDF"),
        ("lab", (), "a name with .html"),
        ("z.md", ("--format", "md"), "which --format md leaves out"),
        ("z.html", ("--format", "csv"), "which --format csv leaves out"),
    ],
)
def test_the_page_is_html_whatever_name_it_is_given(
    tmp_path: Path, name: str, formats: tuple[str, ...], says: str
) -> None:
    """Of lab.md there was HTML, and -o beside --format md was ignored."""
    write_run(tmp_path / "runs" / "mine", [cell()])
    out = tmp_path / name
    refused = call_obygaze("-C", tmp_path, "report", "mine", "-o", out, *formats)
    assert refused.code == 2
    assert says in refused.stderr
    assert not out.exists()


def test_the_surest_errors_and_every_bar_of_the_timelines_are_listed(tmp_path):
    # The last clip is positive, and the model is surest that it is not.
    text = predictions().replace(
        '"tt3-004",tt3,EN_S,HN_S,EN_S,ridge,clip,0,0,0,0.25,0', LAST
    )
    folder = write_run(tmp_path / "run", usual(), text)
    write_report([folder], formats=["csv"])
    lines = (folder / "tables" / "surest-errors.csv").read_text("utf-8").splitlines()
    assert lines[0] == "group,film,clip,number of the clip,annotated,concepts,score"
    assert lines[1:] == [
        "ridge (clip),tt3,tt3-004,4,S,,0.03125",
        "ridge (clip),tt2,tt2-001,1,S,,0.25",
    ]
    bars = (folder / "tables" / "clips.csv").read_text("utf-8").splitlines()
    assert (
        len(bars) == 13
        and bars[0] == "group,clip,number of the clip,annotated,ridge (clip)"
    )
    assert bars[-1] == "tt3,tt3-004,4,S,0.03 wrong"


LAST = "tt3-004,tt3,EN_S,HN_S,EN_S,ridge,clip,0,0,1,0.03125,0"


def test_several_runs_are_folded_and_one_is_not_and_words_are_explained(
    tmp_path, whole
):
    one = whole[0].read_text("utf-8")
    folders = [write_run(tmp_path / name, [cell()]) for name in ("one", "two")]
    two = write_report(folders, tmp_path / "two.html", ["html"])[0].read_text("utf-8")
    assert (
        two.count('<details class="run">') == 2 and '<details class="run">' not in one
    )
    # An address inside what is folded opens it, one on the fold itself does not.
    assert re.search(
        r'<details class="run">\s*<summary>[^<]*</summary>\s*<main id="run-1">', two
    )
    for page in (one, two):
        assert page.count('<dl id="words">') == 1
        assert all(
            f"<dt>{word}</dt>" in page for word in ("EN", "task", "AP", "interval")
        )


def test_names_that_are_equal_as_file_names_have_files_of_their_own(
    tmp_path: Path,
) -> None:
    """Four tasks whose names differ in one mark, two stores likewise, and one film of a paper."""
    stores = ("a b", "a-b")
    paper = [{"metric": "ap", "mean": 0.5, "sd": None, "film": "tt1", "source": None}]
    records = [
        {**cell(test=test, feature=store), "paper": paper}
        for test in ("EN_S", "EN-S", "EN S", "en_s")
        for store in stores
    ]
    bank = concepts()
    records += [{**bank, "feature": store} for store in stores]
    records += [{**head("pcbm-dt"), "task": task} for task in ("HN_S", "HN-S")]
    folder = write_run(tmp_path / "run", records)
    written = write_report([folder])
    assert len(set(written)) == len(written)
    assert len({str(path).lower() for path in written}) == len(written)
    on_disk = {
        path for part in ("tables", "figures") for path in (folder / part).iterdir()
    }
    assert on_disk == {path for path in written if path.parent != folder}
    tables = [
        path.read_text("utf-8") for path in sorted(folder.glob("tables/results-*.csv"))
    ]
    assert len(tables) == 4
    page = Page((folder / "report.html").read_text("utf-8"))
    assert len(set(page.ids)) == len(page.ids)
