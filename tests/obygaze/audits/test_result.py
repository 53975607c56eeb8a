"""The public audit functions: text, JSON and files, and the values that papers print."""

import csv
import json
import re
from html import escape
from pathlib import Path

import pytest
from support.cli import ROOT

from obygaze.audits import (
    Audit,
    audit_captions,
    audit_cooc,
    audit_eat,
    audit_gender_score,
    audit_mediaeval,
)
from obygaze.audits.printed import published_shares, published_shares_of
from obygaze_features.core.errors import FixUsage

VECTORS = {
    "X": [[1, 0], [1, 0.1]],
    "Y": [[0, 1], [0.1, 1]],
    "A": [[1, 0]],
    "B": [[0, 1]],
}
ROWS = [
    {"caption": text, "group": "ab"[i > 2], "concepts": "Look"}
    for i, text in enumerate(["a sad man", "sad", "a sad woman", "a man", "he", "she"])
]


def test_arrays_are_compared_and_invalid_arguments_are_named() -> None:
    found = audit_eat(vectors=VECTORS)
    # Two above two: one of the six splits is as high, two are as far.
    assert (found["p"]["greater"], found["p"]["two_sided"]) == (1 / 6, 2 / 6)
    for options, problem in (
        ({"vectors": VECTORS, "tail": "upper"}, "unknown tail 'upper'"),
        ({"vectors": VECTORS, "x": "level == S"}, "--x is for a store"),
        ({}, "got neither"),
        ({"store": "films"}, "requires --x, --y and --text"),
    ):
        with pytest.raises(FixUsage, match=problem):
            audit_eat(**options)  # type: ignore[arg-type]


def test_every_audit_prints_and_writes_itself(tmp_path: Path) -> None:
    columns = "caption,lm_man,sim_man,lm_woman,sim_woman,prob"
    (tmp_path / "scores.csv").write_text(f"{columns}\na [MASK],0.25,0,0.1,0,0.5\n")
    (tmp_path / "q").write_text("v 0 a 1\nv 0 b 0\n")
    (tmp_path / "r").write_text("v Q0 a 1 0.9 t\nv Q0 b 2 0.1 t\n")
    audits: list[Audit] = [
        audit_eat(vectors=VECTORS),
        audit_captions(ROWS),
        audit_cooc(ROWS, things="concepts"),
        audit_gender_score(tmp_path / "scores.csv"),
        audit_mediaeval([tmp_path / "r"], qrels=tmp_path / "q"),
    ]
    for i, audit in enumerate(audits):
        assert "\n" not in repr(audit)
        assert len(repr(audit)) <= 120
        assert str(audit).startswith(audit.title)
        folder = tmp_path / str(i)
        report = folder / "report.html"
        written = audit.write(
            table=folder / "t.csv", figure=folder / "figure", report=report
        )
        names = ["t.csv", "figure.svg", "figure.png", "report.html"]
        assert [path.name for path in written] == names
        page = report.read_text("utf-8")
        assert "<svg" in page and "<h2>Limits</h2>" in page
        # In the page, the title is a heading, and not also the title of the figure.
        body = re.sub(r'aria-label="[^"]*"|<title>[^<]*</title>', "", page)
        assert body.count(escape(audit.title)) == 1
        assert not re.search(r">[-−]?0\.\d+</text>", page)
        with pytest.raises(FixUsage, match=r"with the extension \.csv or \.tex"):
            audit.write(table=folder / "t.txt", report=folder / "other.html")
        assert not (folder / "other.html").exists()
        audit.write(table=folder / "t.tex")
        tex = (folder / "t.tex").read_text("utf-8")
        # Columns of numbers are aligned to the right.
        columns = tex.partition(r"\begin{tabular}{")[2].partition("}")[0]
        assert len(columns) == len(audit.headers)
        for place, align in enumerate(columns):
            cells_of_column = [row[place] for row in audit.rows]
            are_numbers = not any(isinstance(cell, str) for cell in cells_of_column)
            assert align == "r" or not are_numbers
            assert align == "l" or are_numbers
        body = tex.partition(r"\midrule")[2].partition(r"\bottomrule")[0]
        lines = body.strip().splitlines()
        assert len(lines) == len(audit.rows)
        for line, row in zip(lines, audit.rows, strict=True):
            cells = line.removesuffix(r" \\").split(" & ")
            for cell, value in zip(cells, row, strict=True):
                if isinstance(value, float):
                    shown = float(cell.replace("--", "-"))
                    assert shown == pytest.approx(value, abs=5e-4)
        assert json.loads(json.dumps(audit.to_json()))
        with written[0].open(encoding="utf-8", newline="") as stream:
            rows = [*csv.DictReader(stream)]
        assert len(rows) == len(audit.rows)
        if "p" in audit.headers:
            assert {float(row["p"]) for row in rows} == {audit["p"]["two_sided"]}


def test_a_group_is_no_formula_in_a_table(tmp_path: Path) -> None:
    rows = [{**row, "group": "=1+1"} for row in ROWS]
    audit_captions(rows).write(table=tmp_path / "t.csv")
    assert ",'=1+1," in (tmp_path / "t.csv").read_text("utf-8")


PRINTED = ROOT / "tests" / "data" / "papers" / "printed.csv"


def cells_of(place: str) -> dict[tuple[str, str], str]:
    """Return the cells of a printed table, by row and column."""
    with PRINTED.open(encoding="utf-8", newline="") as stream:
        rows = [one for one in csv.DictReader(stream) if one["place"] == place]
    return {(one["row"], one["column"]): one["value"] for one in rows}


def test_shares_are_those_of_the_poster() -> None:
    of_models = cells_of("gender bias ratio table")
    shares = published_shares()
    assert len(shares) == 7
    for model, of_model in shares.items():
        name = f"Gender Score, {model}"
        printed = (of_models[name, "to-m"], of_models[name, "to-w"])
        assert of_model == tuple(map(float, printed))
    of_things = cells_of("object bias ratio table")
    for thing in ("skateboard", "kitchen", "motorcycle", "baseball"):
        beside = published_shares_of(thing)
        assert list(beside) == list(shares)
        for model, of_model in beside.items():
            name = f"Object Gender Co-Occ, {model}"
            columns = (f"{thing}, toward men", f"{thing}, toward women")
            printed = [float(of_things[name, column]) for column in columns]
            assert list(of_model) == printed
    assert published_shares_of("baseball bat") == {}
