"""A table as text, CSV and LaTeX."""

import csv
import io
import math

from obygaze_models.report.tables import (
    NumberCell,
    PValueCell,
    ResultTable,
    latex_text,
    render_template,
    slug,
)

TABLE = ResultTable(
    "results",
    "AP of 50 % & more",
    ("model", "AP", "clips", "p"),
    (
        "A → B",
        ("ridge", NumberCell(0.123456, 0.1, 0.2), 12, PValueCell(0.0004)),
        ("[x]", NumberCell(0.5, sd=0.25), 3, PValueCell(math.nan)),
    ),
    "A note_with marks.",
)


def test_numbers_show_their_interval_and_missing_ones_a_dash() -> None:
    assert str(NumberCell(0.123456, 0.1, 0.2)) == ".12 [.10, .20]"
    assert str(NumberCell(0.5, sd=0.25)) == ".50 (.25)"
    assert str(NumberCell(math.nan)) == "–"
    assert str(NumberCell(-0.001)) == ".00"
    # Two ends that would look equal have more decimals.
    assert str(NumberCell(0.5, 0.4996, 0.5004)) == ".50 [.4996, .5004]"
    assert [str(PValueCell(p)) for p in (0.0004, 0.04, 1.0)] == [
        "<.001",
        ".040",
        "1.000",
    ]


def test_an_end_below_zero_that_rounds_to_it_keeps_its_sign() -> None:
    """An interval that has 0 in it seemed to begin at 0, beside the words "not shown"."""
    assert str(NumberCell(0.31, -0.001, 0.6)) == ".31 [-.00, .60]"
    assert str(NumberCell(0.31, -0.0, 0.6)) == ".31 [.00, .60]"


def test_columns_of_one_name_are_all_in_the_csv() -> None:
    """A column of a person's own may be called as one of the table, such as `--task group`."""
    rows = ("A", ("ridge", NumberCell(0.5, 0.25, 0.75), 3, NumberCell(0.125)))
    table = ResultTable("results", "AP", ("group", "AP", "group", "AP"), rows)
    lines = [*csv.reader(io.StringIO(table.as_csv().decode("utf-8")))]
    assert lines == [
        ["group", "group", "AP", "AP low", "AP high", "group", "AP"],
        ["A", "ridge", "0.5", "0.25", "0.75", "3", "0.125"],
    ]


def test_text_in_csv_is_no_formula() -> None:
    table = ResultTable("x", "x", ("name",), (("=1+1",),))
    (row,) = csv.DictReader(io.StringIO(table.as_csv().decode("utf-8")))
    assert not row["name"].startswith("=")


def test_latex_is_a_booktabs_table() -> None:
    text = render_template("table.tex", table=TABLE, run="my_run")
    assert r"\caption{AP of 50 \% \& more}" in text
    # Two runs in one paper have labels of their own.
    assert rf"\label{{tab:my-run-{TABLE.key}}}" in text
    assert r"\begin{tabular}{lrrr}" in text
    assert r"\multicolumn{4}{l}{\emph{A $\rightarrow$ B}} \\" in text
    assert r"ridge & .12 {[}.10, .20] & 12 & \textless{}.001 \\" in text
    assert r"{[}x] & .50 (.25) & 3 & -- \\" in text
    assert r"A note\_with marks." in text
    assert r"\end{tabular}" in text and text.rstrip().endswith(r"\end{table}")


def test_names_of_files_are_plain() -> None:
    """They are made of names that a person typed, and must not leave the folder."""
    assert slug("a/b", "..", "c d") == "a-b-c-d"
    assert slug("/..") == "none"
    assert slug("réponse=oui", "Sœur") == "reponse-oui-Soeur"


def test_quotes_in_latex_are_text_in_every_language() -> None:
    """Babel reads `"a` as a letter with two dots in German, and as an error elsewhere."""
    text = latex_text('Gewalt == "stark" & `x` #1 {50 %} ~^\\')
    assert text == (
        "Gewalt == ''stark'' \\& \\`{}x\\`{} \\#1 \\{50 \\%\\}"
        r" \textasciitilde{}\textasciicircum{}\textbackslash{}"
    )
    title = 'level == "S"'
    table = ResultTable("x", title, (title,), ((title,), title, (title,)), title)
    written = render_template("table.tex", table=table, run="x")
    assert '"' not in written
    assert written.count("level == ''S''") == 6
