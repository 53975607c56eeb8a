"""Story 28: an audit of one's own, of clips and prompts, and of captions."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from support.closed_form import cronbach

import obygaze as og
from stories.films import import_films
from stories.workspace import Workspace

Vectors = npt.NDArray[np.float64]


def cosines(first: Vectors, second: Vectors) -> Vectors:
    """Return the cosine of each row of the first matrix with each row of the second."""
    first = first / np.linalg.norm(first, axis=1, keepdims=True)
    second = second / np.linalg.norm(second, axis=1, keepdims=True)
    return first @ second.T


# ---- clips of a store, with prompts of one's own ------------------------------------------------

PROMPTS = """
schema = "obygaze-prompts/1"
name = "mine"
templates = ["a {} man", "the {} dog"]
[attributes]
joy = ["happy"]
grief = ["sad", "angry"]
"""
TEXTS = {
    "joy": ["a happy man", "the happy dog"],
    "grief": ["a sad man", "the sad dog", "a angry man", "the angry dog"],
}


def texts_of_clip(weights: Path) -> dict[str, Vectors]:
    """Return the vectors of the texts by attribute, computed by transformers itself."""
    import torch
    from transformers import AutoTokenizer, CLIPModel

    model = CLIPModel.from_pretrained(weights).eval()
    tokenizer = AutoTokenizer.from_pretrained(weights)
    vectors = {}
    for attribute, texts in TEXTS.items():
        rows = []
        for text in texts:
            tokens = tokenizer(text, return_tensors="pt")
            with torch.inference_mode():
                pooled = model.text_model(
                    input_ids=tokens.input_ids, attention_mask=tokens.attention_mask
                ).pooler_output
                rows.append(model.text_projection(pooled)[0].double().numpy())
        vectors[attribute] = np.array(rows)
    return vectors


def blocked_p(values: Vectors, is_x: list[bool], films: list[str]) -> float:
    """Return the one-sided p over all exchanges within films, by trying every one of them."""
    choices = []
    for film in sorted(set(films)):
        rows = [row for row, name in enumerate(films) if name == film]
        n_x = sum(is_x[row] for row in rows)
        choices.append(list(itertools.combinations(rows, n_x)))
    observed = values[is_x].sum()
    n_as_large = 0
    n_all = 0
    for choice in itertools.product(*choices):
        rows = [row for part in choice for row in part]
        n_as_large += values[rows].sum() >= observed - 1e-9
        n_all += 1
    return n_as_large / n_all


def test_two_groups_of_clips_are_audited_with_prompts_of_ones_own(
    ws: Workspace,
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from support.checkpoints import write_tiny_card
    from support.words import save_text_model

    import_films(ws, "harbour", "lake")
    weights = save_text_model("clip", ws.path("weights"))
    write_tiny_card("clip", ws.path("backbones"))
    ws.write("mine.toml", PROMPTS)
    ws("extract run films -b tiny-clip --weights weights --workers 1")
    ws("extract text -b tiny-clip --prompts mine.toml --weights weights -o mine.npz")
    answer = ws(
        "audit eat films.tiny-clip films --x 'level == S' --y 'level == EN'"
        " --text mine.npz --attributes joy grief --tail greater --json"
    )
    document = answer.json()

    store = og.open_store(ws.path("stores/films.tiny-clip"))
    levels = {
        row["clip_id"]: row["level"] for row in ws.read_table("manifests/films.csv")
    }
    rows = [
        row for row, clip in enumerate(store.clip_ids) if levels[clip] in ("S", "EN")
    ]
    clips = np.asarray(store.matrix("clip"), dtype=np.float64)[rows]
    is_x = [levels[store.clip_ids[row]] == "S" for row in rows]
    films = [store.clip_ids[row].split("-")[0] for row in rows]
    texts = texts_of_clip(weights)
    of_joy = cosines(clips, texts["joy"]).mean(axis=1)
    of_grief = cosines(clips, texts["grief"]).mean(axis=1)
    values = of_joy - of_grief
    is_y = [not of_x for of_x in is_x]
    effect = (values[is_x].mean() - values[is_y].mean()) / values.std(ddof=1)
    assert (document["n_x"], document["n_y"]) == (4, 8)
    assert document["effect_size"] == pytest.approx(effect, abs=1e-4)
    expected = blocked_p(values, is_x, films)
    assert document["p_blocked"]["greater"] == pytest.approx(expected)
    alphas = {row["attribute"]: row["cronbach"] for row in document["prompts"]}
    assert alphas["grief"] == pytest.approx(
        cronbach(cosines(clips, texts["grief"])), abs=1e-4
    )


# ---- the Gender Score, from captions alone ------------------------------------------------------


def prior(folder: Path, text: str) -> float:
    """Return the mean probability of the tokens of a text, by transformers itself."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt").input_ids
    probabilities = []
    with torch.inference_mode():
        for length in range(1, ids.shape[1]):
            logits = model(ids[:, :length]).logits[0, -1]
            probability = torch.softmax(logits, -1)[ids[0, length]]
            probabilities.append(float(probability))
    return float(np.mean(probabilities))


def embedded(folder: Path, text: str) -> Vectors:
    """Return the mean of the vectors of the tokens of a text, by transformers itself."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder).eval()
    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.inference_mode():
        vectors = model(**tokens).last_hidden_state[0]
    return np.array(vectors.double().mean(0).numpy()[np.newaxis])


REAL = pytest.param(
    "real", marks=pytest.mark.check("real weights, of a package of 84 MB")
)


@pytest.mark.parametrize("sentences", ["tiny", REAL])
def test_captions_get_a_gender_score_from_two_small_models(
    sentences: str, ws: Workspace
) -> None:
    pytest.importorskip("sentence_transformers")
    from support.words import real_encoder, save_encoder, save_language_model

    language_model = save_language_model(ws.path("gpt2"))
    if sentences == "real":
        encoder = real_encoder()
        ws.path("sentences").symlink_to(encoder)
    else:
        encoder = save_encoder(ws.path("sentences"))
    captions = [
        {"caption": "a [MASK] riding a dog", "visual": "dog", "prob": 0.4},
        {"caption": "the angry [MASK] on a bed", "visual": "bed", "prob": 0.75},
    ]
    ws.write_table("captions.csv", captions)
    ws("extract captions captions.csv --lm gpt2 --sim sentences -o scores.csv")
    ws("audit gender-score scores.csv --table gender.csv")
    rows = ws.read_table("gender.csv")
    for row, given in zip(rows, captions, strict=True):
        scores = {}
        for word in ("man", "woman"):
            text = given["caption"].replace("[MASK]", word)
            first = embedded(encoder, text)
            second = embedded(encoder, given["visual"])
            sim = cosines(first, second).item()
            power = ((1 - sim) / (1 + sim)) ** (1 - given["prob"])
            scores[word] = prior(language_model, text) ** power
        assert float(row["score"]) == pytest.approx(max(scores.values()), rel=1e-4)
        share_of_man = scores["man"] / (scores["man"] + scores["woman"])
        assert float(row["% to man"]) == pytest.approx(100 * share_of_man, rel=1e-4)
