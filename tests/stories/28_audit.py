"""Story 28: an audit of one's own, of clips and prompts, and of captions."""

import numpy as np
import numpy.typing as npt
import pytest
from support.closed_form import cronbach

import obygaze as og
from stories.films import import_films

Vectors = npt.NDArray[np.float64]


def cosines(first: Vectors, second: Vectors) -> Vectors:
    first = first / np.linalg.norm(first, axis=1, keepdims=True)
    second = second / np.linalg.norm(second, axis=1, keepdims=True)
    return first @ second.T


# ---- clips of a store, with prompts of one's own ------------------------------------------------


def test_two_groups_of_clips_are_audited_with_prompts_of_ones_own(ws) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from support.checkpoints import write_tiny_card
    from support.words import PROMPTS, save_text_model

    import_films(ws, "harbour", "lake")
    save_text_model("clip", ws.path("weights"))
    write_tiny_card("clip", ws.path("backbones"))
    ws.write("mine.toml", PROMPTS)
    ws("extract run films -b tiny-clip --weights weights --workers 1")
    ws("extract text -b tiny-clip --prompts mine.toml --weights weights -o mine.npz")
    answer = ws(
        "audit eat films.tiny-clip films --x 'level == S' --y 'level == EN'"
        " --text mine.npz --attributes joy grief --tail greater --json"
    )
    document = answer.json()

    # Store and texts, read by NumPy.
    store = og.open_store(ws.path("stores/films.tiny-clip"))
    levels = {
        row["clip_id"]: row["level"] for row in ws.read_table("manifests/films.csv")
    }
    of_clip = np.array([levels[clip] for clip in store.clip_ids])
    with np.load(ws.path("mine.npz")) as texts:
        table = cosines(np.asarray(store.matrix("clip"), float), texts["embeddings"])
        of_grief = table[:, texts["attribute"] == "grief"]
        values = table[:, texts["attribute"] == "joy"].mean(1) - of_grief.mean(1)
    x, y = values[of_clip == "S"], values[of_clip == "EN"]
    effect = (x.mean() - y.mean()) / np.concatenate([x, y]).std(ddof=1)
    assert (document["n_x"], document["n_y"]) == (len(x), len(y)) == (4, 8)
    assert document["effect_size"] == pytest.approx(effect, abs=1e-4)
    alphas = {row["attribute"]: row["cronbach"] for row in document["prompts"]}
    in_groups = of_grief[np.isin(of_clip, ("S", "EN"))]
    assert alphas["grief"] == pytest.approx(cronbach(in_groups), abs=1e-4)


# ---- the Gender Score, from captions alone ------------------------------------------------------


def test_captions_get_a_gender_score_from_two_small_models(ws) -> None:
    pytest.importorskip("sentence_transformers")
    from support.words import save_encoder, save_language_model

    save_language_model(ws.path("gpt2"))
    save_encoder(ws.path("sentences"))
    captions = [
        {"caption": "a [MASK] riding a dog", "visual": "dog", "prob": 0.4},
        {"caption": "the angry [MASK] on a bed", "visual": "bed", "prob": 0.75},
    ]
    ws.write_table("captions.csv", captions)
    ws("audit caption-scores captions.csv --lm gpt2 --sim sentences -o scores.csv")
    ws("audit gender-score scores.csv --table gender.csv")
    rows = ws.read_table("gender.csv")
    for row, given in zip(rows, ws.read_table("scores.csv"), strict=True):
        scores = {}
        for word in ("man", "woman"):
            sim = float(given[f"sim_{word}"])
            power = ((1 - sim) / (1 + sim)) ** (1 - float(given["prob"]))
            scores[word] = float(given[f"lm_{word}"]) ** power
        assert float(row["score"]) == pytest.approx(max(scores.values()), rel=1e-4)
        share_of_man = scores["man"] / (scores["man"] + scores["woman"])
        assert float(row["% to man"]) == pytest.approx(100 * share_of_man, rel=1e-4)
