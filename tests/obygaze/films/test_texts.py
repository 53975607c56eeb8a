"""Every text of the film page is in the table of its languages."""

from __future__ import annotations

import re

import pytest
from support.page_texts import (
    STATIC,
    PageTexts,
    Script,
    french_texts,
    literals_of,
    script_names,
)

from obygaze_features.core.figures import LEVEL_NAMES
from obygaze_features.manifest import times

NAME = "obygaze"
# Texts that the program sends, and that the page knows.
SENT = (
    *LEVEL_NAMES.values(),
    *(times.IN_FILM, times.IN_FILE, times.IN_A_ROW),
    *("probability of the positive class",),
    *("distance from the boundary of the positive class",),
)


def test_literals_are_read_with_their_values() -> None:
    source = (
        'const a = "one"; // "no"\n'
        'f(t`two ${x ? t`in {${y}}` : "b"} three`, /["`]/.test(z), u`four`);'
    )
    assert [tuple(one) for one in Script(source).literals] == [
        ("one", ""),
        ("in {{0}}", "t"),
        ("b", ""),
        ("two {0} three", "t"),
        ("four", "u"),
    ]


@pytest.mark.parametrize("name", script_names())
def test_each_text_of_a_script_has_french(name: str) -> None:
    table = french_texts()
    texts = [one.text for one in literals_of(name) if one.tag == "t"]
    assert [text for text in texts if text not in table] == []


@pytest.mark.parametrize("name", script_names())
def test_messages_are_texts_of_the_table(name: str) -> None:
    source = (STATIC / name).read_text("utf-8")
    messages = re.findall(r"\b(?:tell|\w+Status|Error)\((?:\"|`[A-Za-z]).*", source)
    assert messages == []


def test_each_text_of_the_html_has_french() -> None:
    table = french_texts()
    texts = [" ".join(text.split()) for text in PageTexts().texts]
    known = [re.sub(r"^Key .+$", "Key {0}", text) for text in texts]
    assert len(known) > 100
    assert [text for text in known if text not in (*table, NAME)] == []


def test_each_text_of_the_table_is_used_and_has_the_same_values() -> None:
    used = {" ".join(text.split()) for text in PageTexts().texts} | {"Key {0}", *SENT}
    for name in script_names():
        used.update(one.text for one in literals_of(name))
    assert [text for text in french_texts() if text not in used] == []
    for english, french in french_texts().items():
        values = [sorted(re.findall(r"\{\d\}", text)) for text in (english, french)]
        assert values[0] == values[1], english


def test_what_the_program_sends_is_in_the_table() -> None:
    assert [text for text in SENT if text not in french_texts()] == []
