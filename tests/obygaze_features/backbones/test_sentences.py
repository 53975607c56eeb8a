"""Priors and similarities of captions, against the library's own arithmetic."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze

from obygaze_features.core.errors import AlreadyThere, FixInput, NotFound
from obygaze_features.extraction.texts import score_captions

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.words import save_encoder, save_language_model  # noqa: E402

from obygaze_features.backbones.text import LanguageModel, SentenceEncoder  # noqa: E402


def test_a_prior_is_the_mean_probability_of_all_tokens_and_the_end(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = save_language_model(tmp_path / "lm")
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    # The tiny tokenizer itself puts a begin and an end around a text.
    ids = AutoTokenizer.from_pretrained(folder)("a man on a bed", return_tensors="pt").input_ids
    assert ids.shape == (1, 7)
    with torch.inference_mode():
        steps = [torch.softmax(model(ids[:, :i]).logits[0, -1], -1)[ids[0, i]] for i in range(1, 7)]
    expected = float(torch.stack(steps).mean())
    assert LanguageModel(str(folder)).prior("a man on a bed") == pytest.approx(expected, rel=1e-5)


def test_a_similarity_does_not_depend_on_what_else_is_in_the_batch(tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = save_encoder(tmp_path / "bert")
    model, tokenizer = (
        AutoModel.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    texts = ["a man", "a sad woman on a bed"]
    with torch.inference_mode():
        vectors = [
            model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0).double()
            for text in texts
        ]
    expected = float(torch.cosine_similarity(vectors[0], vectors[1], dim=0))
    encoder = SentenceEncoder(str(folder))
    found = encoder.similarity([texts[0], texts[0]], [texts[1], texts[0]])
    assert found == pytest.approx([expected, 1.0], abs=1e-6)


def test_an_encoder_pools_as_its_folder_declares(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "bert")
    mean = SentenceEncoder(str(folder)).embed(["a man on a bed"])
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}', "utf-8")
    first = SentenceEncoder(str(folder))
    assert first.takes_first
    assert np.abs(first.embed(["a man on a bed"]) - mean).max() > 1e-3


def test_models_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in (str(tmp_path), str(tmp_path / "none"), "./none"):
        with pytest.raises(NotFound):
            LanguageModel(name)


class Made:
    """A stand-in whose numbers show what they were made of."""

    def prior(self, text: str) -> float:
        return len(text) / 100

    def similarity(self, texts: Sequence[str], others: Sequence[str]) -> list[float]:
        return [len(text) / 10 + len(other) for text, other in zip(texts, others, strict=True)]


def fill(folder: Path, text: str) -> list[dict[str, str]]:
    table, out = folder / "t.csv", folder / "o.csv"
    table.write_text(text, encoding="utf-8")
    score_captions(table, out, Made(), Made(), force=True)
    with out.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_captions_are_worded_both_ways_where_there_is_a_mask(tmp_path: Path) -> None:
    rows = fill(tmp_path, 'id,caption,visual,prob\n7,"a [MASK], a [MASK]",ab,0.5\n8,a dog,x,0.5\n')
    assert list(rows[0]) == [
        *("id", "caption", "visual", "prob", "lm_man", "sim_man", "lm_woman", "sim_woman")
    ]
    # "a man, a man" has 12 characters, "a woman, a woman" 16.
    assert (rows[0]["lm_man"], rows[0]["lm_woman"], rows[0]["sim_man"]) == ("0.12", "0.16", "3.2")
    assert rows[1]["lm_man"] == rows[1]["lm_woman"] == "0.05"
    rows = fill(tmp_path, "caption,visual,prob\na dog,dog,0.5\n")
    assert list(rows[0]) == ["caption", "visual", "prob", "lm", "sim"]


def test_tables_that_cannot_be_filled(tmp_path: Path) -> None:
    for text in (
        "caption,visual,prob\n",
        "caption,prob\na,1\n",
        "caption,visual,prob,lm\na,b,1,1\n",
    ):
        with pytest.raises(FixInput):
            fill(tmp_path, text)
    fill(tmp_path, "caption,visual,prob\na dog,dog,0.5\n")
    (tmp_path / "t.csv").write_text("caption,visual,prob\na cat,cat,0.5\n", encoding="utf-8")
    with pytest.raises(AlreadyThere):
        score_captions(tmp_path / "t.csv", tmp_path / "o.csv", Made(), Made())


def test_what_was_filled_is_told_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = "obygaze_features.backbones.text"
    monkeypatch.setattr(f"{sentences}.LanguageModel", lambda name: Made())
    monkeypatch.setattr(f"{sentences}.SentenceEncoder", lambda name: Made())
    table, out = tmp_path / "t.csv", tmp_path / "o.csv"
    table.write_text("caption,visual,prob\na dog,dog,0.5\na cat,cat,0.5\n", encoding="utf-8")
    words = ("extract", "captions", table, "--lm", "a", "--sim", "b", "-o", out, "--json")
    assert call_obygaze(*words).ok().json() == {
        "json_version": 1,
        "captions": 2,
        "written": str(out),
    }
    assert len(out.read_text(encoding="utf-8").splitlines()) == 3
