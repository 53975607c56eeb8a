import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.checkpoints import write_tiny_card
from support.cli import call_obygaze
from support.words import PROMPTS

from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage
from obygaze_features.extraction.text import score_captions
from obygaze_features.store import read_texts


def test_the_command_writes_a_file_and_says_what_is_in_it(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from support.words import save_text_model

    prompts = tmp_path / "p.toml"
    prompts.write_text(PROMPTS, encoding="utf-8")
    weights = save_text_model("xclip", tmp_path / "weights")
    write_tiny_card("xclip", tmp_path / "backbones")
    words = (
        *("-C", tmp_path, "extract", "text", "-b", "tiny-xclip"),
        *("--prompts", prompts, "--weights", weights),
    )
    told = call_obygaze(*words, "--json").ok().json()
    table = read_texts(tmp_path / "texts" / "tiny-xclip.tiny.npz")
    assert table.embeddings.shape == (told["texts"], told["width"]) == (6, 24)
    assert table.space_id == told["space_id"]
    assert table.attribute == ["joy"] * 2 + ["grief"] * 4
    # The name of a prompt set, which may come from somebody else, stays in the folder.
    prompts.write_text(PROMPTS.replace('"tiny"', '"/../../pwned"'), encoding="utf-8")
    other = Path(call_obygaze(*words, "--json").ok().json()["written"])
    assert other.parent == tmp_path / "texts"
    assert other.name.startswith("tiny-xclip.pwned-")


class Made:
    """A stand-in whose numbers show what they were made of."""

    label = "made#1"

    def prior(self, text: str) -> float:
        return len(text) / 100

    def similarity(self, texts: Sequence[str], others: Sequence[str]) -> list[float]:
        pairs = zip(texts, others, strict=True)
        return [len(text) / 10 + len(other) for text, other in pairs]


def fill(folder: Path, text: str) -> list[dict[str, str]]:
    table, out = folder / "t.csv", folder / "o.csv"
    table.write_text(text, encoding="utf-8")
    score_captions(table, out, Made(), Made(), force=True)
    with out.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_spreadsheet_is_refused_before_any_caption_is_scored(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("caption,visual\na dog,x\n", encoding="utf-8")
    unused: Any = None
    with pytest.raises(FixUsage, match=r"expected \.csv, got \.xlsx"):
        score_captions(table, tmp_path / "o.xlsx", unused, unused)


def test_captions_are_worded_both_ways_where_there_is_a_mask(tmp_path: Path) -> None:
    masked = 'id,caption,visual,prob\n7,"a [mask], a [MASK]",ab,0.5\n8,a dog,x,0.5\n'
    rows = fill(tmp_path, masked)
    # "a man, a man" has 12 characters, "a woman, a woman" 16.
    found = [rows[0][name] for name in ("lm_man", "lm_woman", "sim_man")]
    assert found == ["0.12", "0.16", "3.2"]
    assert rows[1]["lm_man"] == rows[1]["lm_woman"] == "0.05"
    rows = fill(tmp_path, "caption,visual,prob\na dog,dog,0.5\n")
    names = ["caption", "visual", "prob", "lm", "sim", "lm_model", "sim_model"]
    assert list(rows[0]) == names
    assert (rows[0]["lm_model"], rows[0]["sim_model"]) == ("made#1", "made#1")


def test_an_empty_cell_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FixInput, match="2 problems") as caught:
        fill(tmp_path, "caption,visual\na dog,\na cat,cat\n ,dog\n")
    first, second = caught.value.details
    assert "t.csv:2: column 'visual': the cell is empty" in first
    assert "t.csv:4: column 'caption': the cell is empty" in second


def test_tables_that_cannot_be_filled(tmp_path: Path) -> None:
    for text in (
        "caption,visual,prob\n",
        "caption,prob\na,1\n",
        "caption,visual,prob,lm\na,b,1,1\n",
    ):
        with pytest.raises(FixInput):
            fill(tmp_path, text)
    fill(tmp_path, "caption,visual,prob\na dog,dog,0.5\n")
    other = "caption,visual,prob\na cat,cat,0.5\n"
    (tmp_path / "t.csv").write_text(other, encoding="utf-8")
    with pytest.raises(AlreadyThere):
        score_captions(tmp_path / "t.csv", tmp_path / "o.csv", Made(), Made())
