"""A draft of a mapping asks for every tier and word of ELAN files that others made.

Names and words have signs of TOML. Filled in, the draft reads the marks that were drawn.
"""

from __future__ import annotations

import json
import tomllib
from html import escape
from pathlib import Path
from random import Random

import pytest

from obygaze.films.exchange import import_segments
from obygaze_features.core.errors import FixInput

LEVELS = ("EN", "HN", "NS", "S")
CONCEPTS = ("Look", "Body", "visual", "audio")
NAMES = ("Ada", "?", 'a "b"', "[tiers]", "x = ?", "#1", "ü \\", "levels", "1")
WORDS = ("sûr", "?", '"?"', "= ?", "# no", "1.5", "S und HN", "[levels]", "\\n", "'")
# What an annotation is: its time in s, its text.
Texts = list[tuple[int, str]]


def tier_text(name: str, texts: Texts, parent: str, first_id: int) -> str:
    """A tier as ELAN writes it: on a root with times, below it with references."""
    above = f' PARENT_REF="{escape(parent)}"' if parent else ""
    parts = [f'<TIER TIER_ID="{escape(name)}" LINGUISTIC_TYPE_REF="t"{above}>']
    for second, text in texts:
        tag = f'REF_ANNOTATION ANNOTATION_REF="a{second}"'
        if not parent:
            slots = f'TIME_SLOT_REF1="t{second}" TIME_SLOT_REF2="t{second + 1}"'
            tag = f"ALIGNABLE_ANNOTATION {slots}"
        own_id = first_id + second
        value = f"<ANNOTATION_VALUE>{escape(text)}</ANNOTATION_VALUE>"
        parts.append(f'<ANNOTATION><{tag} ANNOTATION_ID="a{own_id}">{value}')
        parts.append(f"</{tag.split()[0]}></ANNOTATION>")
    return "".join([*parts, "</TIER>"])


def filled(draft: str, answers: dict[str, dict[str, str]]) -> str:
    """The draft with an answer for each question that has one."""
    lines = []
    for section, values in tomllib.loads(draft).items():
        if isinstance(values, str):
            lines.append(f"{section} = {json.dumps(values)}")
            continue
        lines.append(f"[{section}]")
        for name, value in values.items():
            answer = answers[section].get(name, value)
            lines.append(f"{json.dumps(name)} = {json.dumps(answer)}")
    return "\n".join(lines)


def is_question_of(name: str, line: str) -> bool:
    """Whether a line of a draft asks for a name."""
    return tomllib.loads(line) == {name: "?"}


@pytest.mark.parametrize("seed", range(40))
def test_a_draft_asks_for_all_and_reads_what_was_drawn(
    seed: int, tmp_path: Path
) -> None:
    draw = Random(seed)
    marked, below, other = draw.sample(NAMES, 3)
    words = draw.sample(WORDS, 8)
    # An annotation without a text is asked for as a word.
    level_of = {word: draw.choice(LEVELS) for word in ("", *words[:4])} | {"HN": "HN"}
    concept_of = {word: draw.choice(CONCEPTS) for word in words[4:]} | {"Look": "Look"}
    seconds = range(draw.randint(2, 9))
    levels = [(second, draw.choice(list(level_of))) for second in seconds]
    concepts = [(second, draw.choice(list(concept_of))) for second in seconds]
    notes = [(second, draw.choice(WORDS)) for second in seconds]
    slots = "".join(
        f'<TIME_SLOT TIME_SLOT_ID="t{second}" TIME_VALUE="{1000 * second}"/>'
        for second in range(11)
    )
    tiers = tier_text(marked, levels, "", 0) + tier_text(below, concepts, marked, 100)
    parent_of_other = draw.choice(("", marked))
    unused = tier_text(other, notes, parent_of_other, 200)
    tiers += unused
    schema = "http://www.w3.org/2001/XMLSchema-instance"
    path = tmp_path / "lake.eaf"
    path.write_text(
        f'<ANNOTATION_DOCUMENT xmlns:x="{schema}" x:noNamespaceSchemaLocation="x">'
        f"<HEADER/><TIME_ORDER>{slots}</TIME_ORDER>{tiers}"
        '<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="t"/></ANNOTATION_DOCUMENT>',
        "utf-8",
    )
    draft = tmp_path / "draft.toml"
    with pytest.raises(FixInput, match="are not known") as caught:
        import_segments([path], "marks", 25, write_mapping=draft)
    assert len(caught.value.details) == 3
    answers = {
        "tiers": {marked: "levels", below: "concepts", other: "unused"},
        "levels": level_of,
        "concepts": concept_of,
    }
    asked = tomllib.loads(draft.read_text("utf-8"))
    assert set(asked["tiers"]) == {marked, below, other}
    # Concepts and comments belong to the marks that their tier is linked to.
    of_tiers = draft.read_text("utf-8").partition("\n[levels]")[0].splitlines()
    lines_of_other = [line for line in of_tiers if is_question_of(other, line)]
    (has_note,) = ["not linked to another tier" in line for line in lines_of_other]
    assert has_note == (not parent_of_other)
    draft.write_text(filled(draft.read_text("utf-8"), answers), "utf-8")
    clips = import_segments([path], "marks", 25, mapping=draft).manifest
    found = [(clip.start_s, clip.level, clip.concepts) for clip in clips]
    expected = []
    for (second, level), (_, word) in zip(levels, concepts, strict=True):
        concept = concept_of[word]
        own = word if concept in ("visual", "audio") else concept
        expected.append((float(second), level_of[level], (own,)))
    assert found == expected
    # The file of another person may lack what is not used.
    path.write_text(path.read_text("utf-8").replace(unused, ""), "utf-8")
    again = import_segments([path], "marks", 25, mapping=draft).manifest
    assert [clip.level for clip in again] == [clip.level for clip in clips]
