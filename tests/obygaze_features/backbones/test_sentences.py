"""Priors and similarities of captions, against the library's own arithmetic."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from obygaze_features.core.errors import FixInput, NotFound

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.words import save_encoder, save_language_model  # noqa: E402

from obygaze_features.backbones.pooling import read_pooling  # noqa: E402
from obygaze_features.backbones.text import LanguageModel, SentenceEncoder  # noqa: E402


def test_a_prior_is_the_mean_probability_of_all_tokens_and_the_end(
    tmp_path: Path,
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = save_language_model(tmp_path / "lm")
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    # The tiny tokenizer itself puts a begin and an end around a text.
    ids = AutoTokenizer.from_pretrained(folder)(
        "a man on a bed", return_tensors="pt"
    ).input_ids
    assert ids.shape == (1, 7)
    with torch.inference_mode():
        steps = [
            torch.softmax(model(ids[:, :i]).logits[0, -1], -1)[ids[0, i]]
            for i in range(1, 7)
        ]
    expected = float(torch.stack(steps).mean())
    assert LanguageModel(str(folder)).prior("a man on a bed") == pytest.approx(
        expected, rel=1e-5
    )


def test_a_similarity_does_not_depend_on_what_else_is_in_the_batch(
    tmp_path: Path,
) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = save_encoder(tmp_path / "bert")
    model, tokenizer = (
        AutoModel.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    texts = ["a man", "a sad woman on a bed"]
    with torch.inference_mode():
        vectors = [
            model(**tokenizer(text, return_tensors="pt"))
            .last_hidden_state[0]
            .mean(0)
            .double()
            for text in texts
        ]
    expected = float(torch.cosine_similarity(vectors[0], vectors[1], dim=0))
    encoder = SentenceEncoder(str(folder))
    found = encoder.similarity([texts[0], texts[0]], [texts[1], texts[0]])
    assert found == pytest.approx([expected, 1.0], abs=1e-6)


TEXTS = ["a man on a bed", "a dog"]
# By hand, for the vectors h[0], h[1], ... of the tokens of one text.
BY_HAND: dict[str, Callable[[Any], Any]] = {
    "pooling_mode_cls_token": lambda h: h[0],
    "pooling_mode_max_tokens": lambda h: h.max(axis=0),
    "pooling_mode_mean_tokens": lambda h: sum(h) / len(h),
    "pooling_mode_mean_sqrt_len_tokens": lambda h: sum(h) / len(h) ** 0.5,
    "pooling_mode_weightedmean_tokens": lambda h: sum(
        (i + 1) * h[i] for i in range(len(h))
    ),
    "pooling_mode_lasttoken": lambda h: h[-1],
}


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")


def as_sentence_transformer(folder: Path, *others: str, **pooling: Any) -> Path:
    """Declare a pooling as the library sentence-transformers does; its modes are true or false."""
    kinds = ("Transformer", "Pooling", *others)
    paths = ["", *(f"{i}_{kind}" for i, kind in enumerate(kinds) if i)]
    start = "sentence_transformers.models."
    modules = [
        {"idx": i, "path": path, "type": f"{start}{kind}"}
        for i, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
    write_json(folder / "modules.json", modules)
    write_json(folder / "1_Pooling" / "config.json", pooling)
    return folder


def tokens_of(folder: Path, text: str, most: int | None = None) -> Any:
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer(
        text, return_tensors="pt", truncation=most is not None, max_length=most
    )
    with torch.inference_mode():
        return (
            AutoModel.from_pretrained(folder)
            .eval()(**tokens)
            .last_hidden_state[0]
            .numpy()
        )


def unit(vector: Any) -> Any:
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("mode", BY_HAND)
def test_an_encoder_pools_as_its_files_declare(mode: str, tmp_path: Path) -> None:
    modes = {**dict.fromkeys(BY_HAND, False), mode: True}
    folder = as_sentence_transformer(
        save_encoder(tmp_path / "bert"), "Normalize", **modes
    )
    found = SentenceEncoder(str(folder)).embed(TEXTS)
    expected = [unit(BY_HAND[mode](tokens_of(folder, text))) for text in TEXTS]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_several_modes_are_joined_and_a_single_key_may_name_them(
    tmp_path: Path,
) -> None:
    folder = as_sentence_transformer(
        save_encoder(tmp_path / "bert"), pooling_mode=["max", "cls"]
    )
    h = tokens_of(folder, TEXTS[0])
    expected = unit(np.concatenate([h[0], h.max(axis=0)]))
    np.testing.assert_allclose(
        SentenceEncoder(str(folder)).embed(TEXTS)[0], expected, atol=1e-6
    )


def test_texts_are_cut_cased_and_prompted_as_the_files_declare(tmp_path: Path) -> None:
    folder = as_sentence_transformer(
        save_encoder(tmp_path / "bert"), pooling_mode="mean"
    )
    write_json(
        folder / "sentence_bert_config.json",
        {"max_seq_length": 4, "do_lower_case": True},
    )
    prompts = {"prompts": {"query": "the "}, "default_prompt_name": "query"}
    write_json(folder / "config_sentence_transformers.json", prompts)
    expected = unit(tokens_of(folder, "the man on a bed", 4).mean(axis=0))
    found = SentenceEncoder(str(folder)).embed(["MAN on a bed"])[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_text_longer_than_the_positions_is_cut_or_refused(tmp_path: Path) -> None:
    # The tiny encoder has 32 positions and a tokenizer without a limit; as in
    # sentence-transformers, the tokens after them do not count.
    folder = save_encoder(tmp_path / "bert")
    long = "a man on a bed " * 20
    expected = unit(tokens_of(folder, long, 32).mean(axis=0))
    found = SentenceEncoder(str(folder)).embed([long])[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    # A prior is of the whole text: 100 words, the begin and the end.
    model = LanguageModel(str(save_language_model(tmp_path / "lm")))
    with pytest.raises(FixInput, match="102 tokens, the language model takes 32"):
        model.prior(long)
    assert 0 < model.prior("a man " * 15) < 1  # 32 tokens


@pytest.mark.parametrize(
    ("others", "pooling", "message"),
    [
        (["Dense"], {"pooling_mode": "mean"}, "modules Transformer, Pooling, Dense"),
        (
            [],
            {"pooling_mode_attention": True},
            "pooling pooling_mode_attention is not known",
        ),
        ([], {"pooling_mode": "median"}, "pooling median is not known"),
        ([], {"pooling_mode_cls_token": False}, "pooling of this encoder is not known"),
        (
            [],
            {"pooling_mode": 3},
            "pooling_mode must be a name or a list of names, got 3",
        ),
        ([], {"pooling_mode": None}, "pooling of this encoder is not known"),
    ],
)
def test_a_pooling_that_is_not_known_is_refused(
    others: list[str], pooling: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = as_sentence_transformer(
        save_encoder(tmp_path / "bert"), *others, **pooling
    )
    with pytest.raises(FixInput, match=message):
        SentenceEncoder(str(folder))


@pytest.mark.parametrize(
    ("file", "settings", "message"),
    [
        (
            "sentence_bert_config.json",
            [512],
            "sentence_bert_config.json is not an object",
        ),
        (
            "config_sentence_transformers.json",
            {"prompts": ["q: "]},
            "prompts of .* not an object",
        ),
    ],
)
def test_settings_of_another_form_are_refused(
    file: str, settings: Any, message: str, tmp_path: Path
) -> None:
    folder = as_sentence_transformer(tmp_path, pooling_mode="mean")
    write_json(folder / file, settings)
    with pytest.raises(FixInput, match=message):
        read_pooling(str(folder))


def test_a_prompt_without_a_text_is_no_prompt(tmp_path: Path) -> None:
    folder = as_sentence_transformer(tmp_path, pooling_mode="mean")
    prompts = {"prompts": {"query": None}, "default_prompt_name": "query"}
    write_json(folder / "config_sentence_transformers.json", prompts)
    assert read_pooling(str(folder)).text("a bed") == "a bed"


def test_a_model_named_by_the_hub_pools_as_its_folder_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = as_sentence_transformer(save_encoder(tmp_path / "bert"), pooling_mode="cls")
    repository = tmp_path / "hub" / "models--lab--bert"
    snapshot = repository / "snapshots" / "c0ffee"
    shutil.copytree(made, snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("c0ffee", "ascii")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # As a first call with a network leaves it: the hub has no such files.
    absent = repository / ".no_exist" / "c0ffee"
    absent.mkdir(parents=True)
    for name in ("sentence_bert_config.json", "config_sentence_transformers.json"):
        (absent / name).touch()
    expected = SentenceEncoder(str(made)).embed(TEXTS)
    np.testing.assert_array_equal(SentenceEncoder("lab/bert").embed(TEXTS), expected)
    (snapshot / "modules.json").unlink()
    with pytest.raises(
        NotFound, match=r"whether lab/bert has a modules\.json is not known"
    ):
        SentenceEncoder("lab/bert")


def test_an_encoder_that_declares_nothing_takes_the_mean(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "bert")
    expected = unit(tokens_of(folder, TEXTS[0]).mean(axis=0))
    np.testing.assert_allclose(
        SentenceEncoder(str(folder)).embed(TEXTS)[0], expected, atol=1e-6
    )


def test_models_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in (str(tmp_path), str(tmp_path / "none"), "./none"):
        with pytest.raises(NotFound):
            LanguageModel(name)
