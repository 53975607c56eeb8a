import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.stores import made_store, some_rows, some_values

from obygaze_features.core import console as module
from obygaze_features.core.console import Console, json_text, printable, table
from obygaze_features.core.errors import FixInput
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.untrusted_text import one_line, safe_text
from obygaze_features.store import Recipe, open_store
from obygaze_features.store.card import Terms
from obygaze_features.store.describing import describe
from obygaze_features.store.records import ManifestMark
from obygaze_features.store.rows import FAILED

HOSTILE = (
    "CC0\n\n# Fake heading\n\n---\nlicence      MIT\n[here](javascript:alert(1)) "
    "<script>alert(1)</script> <javascript:alert> ![p](http://evil/p.png) `code` | cell |\n"
    "- item\n1. one\n> quote\n\x1b[2J\x1b[8mhidden\x9b2J\u202egnp.\u2028next\u200bend ~~gone~~"
    " __b__"
)
# What a line of Markdown can become if its text is not only text.
WORDS = ["javascript:", "&lt;", "&#35;", "---", "===", "1. ", "x_y"]
TOKENS = st.sampled_from([*"#*_`[]()<>!|~\\&+-=.1a \n", *WORDS])


def tokens_of(text: str) -> list[Any]:
    """All tokens of a Markdown text, as CommonMark with tables and strikethrough has them."""
    markdown_it = pytest.importorskip("markdown_it")
    parser = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    blocks = parser.parse(text)
    return [*blocks, *(child for block in blocks for child in block.children or [])]


def test_each_medium_by_hand() -> None:
    text = " a\t b\n# c \x1b[31m<b>&'\"_x_ d_e "
    assert safe_text(text, "terminal") == "a b # c \\x1b[31m<b>&'\"_x_ d_e"
    assert safe_text(text, "markdown") == (
        "a b # c \\\\x1b\\[31m&lt;b&gt;&amp;'\"\\_x\\_ d_e"
    )
    for plain, shown in (
        *(("# h", r"\# h"), ("12. one", r"12\. one"), ("- a", r"\- a")),
        *(("1.5 and -2", "1.5 and -2"), ("-0.5", "-0.5")),
    ):
        assert safe_text(plain, "markdown") == shown
    assert safe_text(3, "terminal") == "3"
    titles = "Сталкер 1979 · 羅生門 · می‌شود"
    assert safe_text(titles, "terminal") == titles


@given(st.lists(TOKENS, max_size=12).map("".join))
@example("\\")
@example("\\#\n=")
@example("a\\|b")
@example("--- ---")
@example("-- -")
def test_markdown_shows_exactly_the_text_and_nothing_else(text: str) -> None:
    tokens = tokens_of(safe_text(text, "markdown"))
    kinds = {token.type for token in tokens}
    plain = {"paragraph_open", "paragraph_close", "inline", "text", "text_special"}
    assert kinds <= plain
    shown = "".join(t.content for t in tokens if t.type in ("text", "text_special"))
    assert shown == " ".join(text.split())


@given(st.text(max_size=30))
def test_a_terminal_gets_one_printable_line(text: str) -> None:
    line = safe_text(text, "terminal")
    assert line.replace("\u200c", "").replace("\u200d", "").isprintable()


def store_of(path: Path, text: str) -> Path:
    rows = some_rows(23)
    rows[2] = rows[2]._replace(status=FAILED, reason=one_line(text))
    made_store(
        path,
        rows,
        some_values(23),
        recipe=Recipe.unknown(text, {text: text, "backbone": text}),
        manifest=ManifestMark(text, "12" * 32),
        terms=Terms(text, text),
    )
    return path


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_of(tmp_path_factory.mktemp("hostile") / "s", HOSTILE)


def test_store_info_has_the_lines_of_a_harmless_store(received, tmp_path) -> None:
    harmless = store_of(tmp_path / "s", "x")
    # Other lines go on with the fact above them.
    names = [
        [
            line.split()[0]
            for line in describe(open_store(path)).splitlines()
            if line and not line.startswith(" ")
        ]
        for path in (received, harmless)
    ]
    assert names[0] == names[1]
    text = describe(open_store(received))
    assert all(line.isprintable() for line in text.splitlines())
    assert text.count("\nLicence ") == 1


def test_a_card_has_the_headings_and_links_of_a_harmless_store(received, tmp_path):
    yaml = pytest.importorskip("yaml")

    def shape(card: str) -> list[tuple[str, str]]:
        tokens = tokens_of(card.split("---\n", 2)[2])
        return [
            (token.type, token.tag)
            for token in tokens
            if not token.type.startswith("text")
        ]

    card = (received / "README.md").read_text("utf-8")
    harmless = (store_of(tmp_path / "s", "x") / "README.md").read_text("utf-8")
    assert shape(card) == shape(harmless)
    assert "# Fake heading\n" not in card
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["license"] == "other"
    assert front["license_name"].startswith("CC0 | # Fake")


def test_errors_and_tables_and_reprs_have_no_line_from_outside() -> None:
    error = FixInput(HOSTILE, where=HOSTILE, hint=HOSTILE, details=[HOSTILE, HOSTILE])
    assert len(printable(str(error)).splitlines()) == 3
    assert all(len(printable(line).splitlines()) == 1 for line in error.details)
    assert len(table((HOSTILE, "b"), [(HOSTILE, 1), ("x", 2)]).splitlines()) == 3
    assert "\x1b[8m" not in printable(HOSTILE)  # concealed
    assert short_repr("Store", HOSTILE).isprintable()


def test_json_on_stdout_has_null_for_what_json_cannot_say(capsys):
    Console().json(
        {
            "nan": float("nan"),
            "inf": [float("inf"), (1.5, -float("inf"))],
            "numpy": np.array([1.0, np.nan], dtype=np.float32),
            "count": np.int64(3),
            "flag": np.bool_(True),
            1: "é",
        }
    )
    out = capsys.readouterr().out
    assert json.loads(out) == {
        "json_version": 1,
        "nan": None,
        "inf": [None, [1.5, None]],
        "numpy": [1.0, None],
        "count": 3,
        "flag": True,
        "1": "é",
    }
    assert "é" in out
    assert "NaN" not in out


@pytest.mark.parametrize(
    "verbosity, told", [(-1, "warn"), (0, "note warn"), (1, "note detail warn")]
)
def test_talk_goes_to_stderr_and_results_to_stdout(capsys, verbosity, told):
    console = Console(verbosity=verbosity)
    console.result("result")
    console.note("note")
    console.detail("detail")
    console.warn("warn")
    captured = capsys.readouterr()
    assert captured.out == "result\n"
    assert captured.err.replace("Warning: ", "").split() == told.split()


def test_a_log_gets_a_line_every_half_minute(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with Console().progress("extract", 100, "clips") as progress:
        for _ in range(40):
            now[0] += 1.0
            progress.remark("GPU waits")
            progress.advance()
    # 30 of 100 clips in 30 s leave 70 s for the other 70.
    captured = capsys.readouterr()
    assert captured.err == "extract: 30 of 100 clips, 30 s, 70 s to go GPU waits\n"
    assert captured.out == ""


def test_control_characters_are_shown_and_colours_kept() -> None:
    hostile = "a\x1b]0;title\x07b\x1b[2Jc\x9b1Ad\re\u202ef"
    assert printable(hostile) == r"a\x1b]0;title\x07b\x1b[2Jc\x9b1Ad\x0de\u202ef"
    coloured = "\x1b[31m\x1b[1mred\x1b[0m\tand\nplain é"
    assert printable(coloured) == coloured
    text = json_text({"name": "a\x9b\x7f\u202eb", "n": [1, "é"]})
    assert text == r'{"name": "a\u009b\u007f\u202eb", "n": [1, "é"]}'
    assert json.loads(text)["name"] == "a\x9b\x7f\u202eb"


def test_a_number_that_rounds_to_zero_has_no_sign() -> None:
    assert table(("p",), [(-1e-9,), (-0.0006,)]).split() == ["p", "0.000", "-0.001"]
