"""A table in four formats: the same numbers, and no name becomes markup."""

from __future__ import annotations

import csv
import io
import re

import pytest

from obygaze_models.report.page import render
from obygaze_models.report.tables import Heading, Number, ResultTable, slug

HOSTILE = r"<script>alert('x')</script> a|b \input{x} $1_2^3 100% #& ~ *bold* [link](http://x)"
TABLE = ResultTable(
    "plain",
    "A table",
    ("model", "clips", "AP", "paper", "leaked"),
    (
        Heading("seen"),
        ("ridge", 12, Number(0.625, 0.25, 0.875), Number(0.79, sd=0.05), 0),
        Heading("unseen", quiet=True),
        ("mlp", 12, Number(None), None, 3),
    ),
    "A note.",
    warn="leaked",
)


def written(table: ResultTable, ending: str) -> str:
    return render(f"table.{ending}", table=table)


def read_csv(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_numbers_show_their_interval_and_missing_ones_a_dash():
    assert str(Number(0.625, 0.25, 0.875)) == "0.62 [0.25, 0.88]"
    assert str(Number(0.5)) == "0.50"
    assert str(Number(-0.001, -0.2, -0.004)) == "0.00 [-0.20, 0.00]"
    assert str(Number(None)) == str(Number(float("nan"))) == "–"
    assert str(Number(0.0004, digits=3, is_p=True)) == "<0.001"
    assert str(Number(0.0006, digits=3, is_p=True)) == "0.001"
    assert str(Number(1.5, 0.5, 2.5, digits=1, mark="*")) == "1.5* [0.5, 2.5]"
    assert [str(Number(0.79, sd=0.05)), str(Number(None, sd=0.05))] == [
        "0.79 (0.05)",
        "–",
    ]


def test_csv_keeps_full_precision_with_intervals_and_groups_in_columns_of_their_own():
    assert read_csv(TABLE.as_csv()) == [
        [
            "group",
            "model",
            "clips",
            "AP",
            "AP low",
            "AP high",
            "paper",
            "paper SD",
            "leaked",
        ],
        ["seen", "ridge", "12", "0.625", "0.25", "0.875", "0.79", "0.05", "0"],
        ["unseen", "mlp", "12", "", "", "", "", "", "3"],
    ]


def test_markdown_has_a_line_a_row_and_a_line_a_group():
    assert written(TABLE, "md").rstrip().splitlines() == [
        "### A table",
        "",
        "| model | clips | AP | paper | leaked |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| **seen** |  |  |  |  |",
        r"| ridge | 12 | 0.62 \[0.25, 0.88\] | 0.79 (0.05) | 0 |",
        "| **unseen** |  |  |  |  |",
        "| mlp | 12 | – | – | 3 |",
        "",
        "A note.",
    ]


def test_latex_is_a_booktabs_table():
    text = written(TABLE, "tex")
    lines = text.splitlines()
    assert lines[2:6] == [
        r"\caption{A table}",
        r"\label{tab:plain}",
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
    ]
    assert r"ridge & 12 & 0.62 {[}0.25, 0.88] & 0.79 (0.05) & 0 \\" in lines
    assert r"mlp & 12 & -- & -- & 3 \\" in lines
    assert r"\multicolumn{5}{l}{\emph{unseen}} \\" in lines
    assert text.count(r"\begin") == text.count(r"\end") == 2


def test_html_marks_warnings_and_quiet_rows():
    page = written(TABLE, "html")
    assert '<tr class="warn"><td data-label="model">mlp</td>' in page
    assert page.count("<tbody") == page.count("</tbody>") == 2
    assert '<tbody class="quiet">\n<tr class="group"><th colspan="5"' in page
    assert '<td class="n" data-label="AP">0.62 <small>0.25–0.88</small></td>' in page
    negative = ResultTable("t", "t", ("x",), [(Number(-0.5, -0.75, -0.25),)])
    assert "-0.50 <small>-0.75 to -0.25</small>" in written(negative, "html")


@pytest.mark.parametrize("where", ["title", "header", "cell", "note", "group"])
def test_names_are_never_markup(where):
    own = {
        "title": "t",
        "header": "h",
        "cell": "c",
        "note": "n",
        "group": "g",
        where: HOSTILE,
    }
    rows = [Heading(own["group"]), (own["cell"], 1)]
    table = ResultTable(HOSTILE, own["title"], (own["header"], "n"), rows, own["note"])
    page = written(table, "html")
    assert "<script" not in page
    assert ("&lt;script" in page) == (where in ("header", "cell", "group"))
    markdown = written(table, "md")
    assert "<script" not in markdown
    assert "](http" not in markdown.replace(r"\]", "")
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    # Two cells and both ends.
    assert {len(re.split(r"(?<!\\)\|", line)) for line in lines} == {4}
    check_latex(written(table, "tex"))
    assert [len(row) for row in read_csv(table.as_csv())] == [3, 3]


def check_latex(text: str) -> None:
    """Nothing that would stop LaTeX: every special character is escaped, braces pair up."""
    bare = re.sub(r"\$\\rightarrow\$", "", text)
    bare = re.sub(r"\\[&%$#_{}]", "", bare)
    assert bare.count("{") == bare.count("}")
    assert not re.search(r"[#$%^~]", bare)
    allowed = "begin|end|centering|caption|label|toprule|midrule|bottomrule|emph|multicolumn|par"
    named = (
        allowed
        + "|smallskip|footnotesize|text(?:backslash|asciitilde|asciicircum|less|greater|bar)"
    )
    assert not re.sub(rf"\\(?:{named})(?![A-Za-z])|\\\\", "", bare).count("\\")
    # An "[" or a "*" after the end of a row would be read as the row's argument.
    assert not re.search(r"\\\\\s*[\[*]", bare)


def test_a_row_may_begin_with_a_bracket_in_latex():
    table = ResultTable("t", "t", ("x",), [("a",), ("[2cm]",), ("*",)])
    check_latex(written(table, "tex"))


def test_names_of_files_are_plain():
    assert slug("../../etc/passwd") == "etc-passwd"
    assert slug("Type of shot") == "Type-of-shot"
    assert slug("<>") == "none"
