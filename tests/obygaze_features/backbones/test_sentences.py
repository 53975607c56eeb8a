import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from obygaze_features.core.errors import FixInput, NotFound

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.words import real_encoder, save_encoder, save_language_model  # noqa: E402

from obygaze_features.backbones.captions import LanguageModel, SentenceEncoder  # noqa: E402


def test_a_prior_is_the_mean_probability_of_all_tokens_and_the_end(tmp_path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = save_language_model(tmp_path / "lm")
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    # The tiny tokenizer itself puts a begin and an end around a text.
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("a man on a bed", return_tensors="pt").input_ids
    assert ids.shape == (1, 7)
    with torch.inference_mode():
        steps = [
            torch.softmax(model(ids[:, :i]).logits[0, -1], -1)[ids[0, i]]
            for i in range(1, 7)
        ]
    expected = float(torch.stack(steps).mean())
    prior = LanguageModel(str(folder)).prior("a man on a bed")
    assert prior == pytest.approx(expected, rel=1e-5)


def test_a_language_without_a_token_for_the_start_is_refused(tmp_path) -> None:
    folder = save_language_model(tmp_path / "lm")
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / name).exists():
            told = json.loads((folder / name).read_text("utf-8"))
            for token in {"bos_token", "eos_token"} & told.keys():
                del told[token]
            write_json(folder / name, told)
    with pytest.raises(FixInput, match="with a token for the start of a text"):
        LanguageModel(str(folder))


TEXTS = ["a man on a bed", "a dog"]
# By hand, for the vectors h[0], h[1], ... of the tokens of one text.
BY_HAND: dict[str, Callable[[Any], Any]] = {
    "pooling_mode_cls_token": lambda h: h[0],
    "pooling_mode_max_tokens": lambda h: h.max(axis=0),
    "pooling_mode_mean_tokens": lambda h: sum(h) / len(h),
}


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")


def as_sentence_transformer(folder: Path, *types: str, **pooling: Any) -> Path:
    """Declare a pooling, and further modules, in the files of the library."""
    start = "sentence_transformers.models."
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{start}Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{start}Pooling"},
    ]
    for number, kind in enumerate(types, start=2):
        names = {"idx": number, "name": str(number), "path": f"{number}_More"}
        modules.append({**names, "type": kind})
        (folder / f"{number}_More").mkdir()
    write_json(folder / "modules.json", modules)
    width = {"word_embedding_dimension": 16}
    write_json(folder / "1_Pooling" / "config.json", {**width, **pooling})
    return folder


def tokens_of(folder: Path, text: str, most: int | None = None) -> Any:
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    options = {"truncation": most is not None, "max_length": most}
    tokens = tokenizer(text, return_tensors="pt", **options)
    model = AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(**tokens).last_hidden_state[0].numpy()


def unit(vector: Any) -> Any:
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("mode", BY_HAND)
def test_an_encoder_pools_as_its_files_declare(mode: str, tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    modes = {**dict.fromkeys(BY_HAND, False), mode: True}
    normalise = "sentence_transformers.models.Normalize"
    bert = save_encoder(tmp_path / "bert")
    folder = as_sentence_transformer(bert, normalise, **modes)
    found = SentenceEncoder(str(folder)).embed(TEXTS)
    expected = [unit(BY_HAND[mode](tokens_of(folder, text))) for text in TEXTS]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_texts_are_cut_cased_and_prompted_as_the_files_declare(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    bert = save_encoder(tmp_path / "bert")
    folder = as_sentence_transformer(bert, pooling_mode="mean")
    cut = {"max_seq_length": 4, "do_lower_case": True}
    write_json(folder / "sentence_bert_config.json", cut)
    prompts = {"prompts": {"query": "the "}, "default_prompt_name": "query"}
    write_json(folder / "config_sentence_transformers.json", prompts)
    expected = unit(tokens_of(folder, "the man on a bed", 4).mean(axis=0))
    found = SentenceEncoder(str(folder)).embed(["MAN on a bed"])[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_text_longer_than_the_positions_is_cut_or_refused(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    # The tiny encoder has 32 positions: the tokens after them do not count.
    folder = save_encoder(tmp_path / "bert")
    long = "a man on a bed " * 20
    expected = unit(tokens_of(folder, long, 32).mean(axis=0))
    found = SentenceEncoder(str(folder)).embed([long])[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    # A prior is of the whole text: 100 words, the begin and the end.
    model = LanguageModel(str(save_language_model(tmp_path / "lm")))
    most = "at most 32 tokens for the language model, got 102"
    with pytest.raises(FixInput, match=most):
        model.prior(long)
    assert 0 < model.prior("a man " * 15) < 1  # 32 tokens


def test_files_of_half_precision_are_computed_in_single_precision(tmp_path) -> None:
    pytest.importorskip("sentence_transformers")
    from transformers import AutoModel, AutoModelForCausalLM

    of_words = save_language_model(tmp_path / "lm")
    of_texts = save_encoder(tmp_path / "bert")
    for kind, folder in ((AutoModelForCausalLM, of_words), (AutoModel, of_texts)):
        kind.from_pretrained(folder).to(torch.bfloat16).save_pretrained(folder)
    language_model = LanguageModel(str(of_words))
    encoder = SentenceEncoder(str(of_texts))
    prior = language_model.prior(TEXTS[0])
    vectors = encoder.embed(TEXTS)
    language_model.model.float()
    encoder.model.float()
    assert prior == language_model.prior(TEXTS[0])
    np.testing.assert_array_equal(vectors, encoder.embed(TEXTS))


def test_code_that_a_model_names_is_never_run(tmp_path, monkeypatch) -> None:
    pytest.importorskip("sentence_transformers")
    monkeypatch.chdir(tmp_path)
    bert = save_encoder(tmp_path / "bert")
    folder = as_sentence_transformer(bert, "trap.Module", pooling_mode="mean")
    code = f"open({str(tmp_path / 'sprung')!r}, 'w')\nclass Module: pass\n"
    for place in (folder, tmp_path):
        (place / "trap.py").write_text(code, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NotFound, match=r"this model cannot be loaded: .*trap\.Module"):
        SentenceEncoder(str(folder))
    assert not (tmp_path / "sprung").exists()


def test_code_that_a_language_model_names_is_never_run(tmp_path, monkeypatch) -> None:
    folder = save_language_model(tmp_path / "lm")
    settings = json.loads((folder / "config.json").read_text("utf-8"))
    classes = {"AutoConfig": "trap.Module", "AutoModelForCausalLM": "trap.Module"}
    settings |= {"model_type": "trap", "auto_map": classes}
    write_json(folder / "config.json", settings)
    code = f"open({str(tmp_path / 'sprung')!r}, 'w')\nclass Module: pass\n"
    (folder / "trap.py").write_text(code, "utf-8")
    # Transformers asks, and runs the code of those who answer yes.
    monkeypatch.setattr("builtins.input", lambda question: "y")
    with pytest.raises(NotFound, match="this model cannot be loaded"):
        LanguageModel(str(folder))
    assert not (tmp_path / "sprung").exists()


@pytest.mark.check("real weights, of a package of 84 MB")
def test_real_weights_give_the_similarities_that_their_authors_published() -> None:
    pytest.importorskip("sentence_transformers")
    encoder = SentenceEncoder(str(real_encoder()))
    weather = "The weather is lovely today."
    sunny = "It's so sunny outside!"
    stadium = "He drove to the stadium."
    found = encoder.similarity([weather, weather, sunny], [sunny, stadium, stadium])
    # From the page of sentence-transformers on all-MiniLM-L6-v2.
    assert found == pytest.approx([0.6660, 0.1046, 0.1411], abs=1e-4)


def test_the_label_of_a_model_has_what_decides_its_numbers(tmp_path: Path) -> None:
    """The same tensors with another activation, or other numbers of words, are another model."""
    pytest.importorskip("sentence_transformers")
    kinds = (
        (LanguageModel, save_language_model(tmp_path / "lm"), "activation_function"),
        (SentenceEncoder, save_encoder(tmp_path / "bert"), "hidden_act"),
    )
    for kind, folder, activation in kinds:
        labels = [kind(str(folder)).label, kind(str(folder)).label]
        settings = json.loads((folder / "config.json").read_text("utf-8"))
        write_json(folder / "config.json", {**settings, activation: "relu"})
        labels.append(kind(str(folder)).label)
        text = (folder / "tokenizer.json").read_text("utf-8")
        words = text.replace('"man":', '"x":').replace('"dog":', '"man":')
        (folder / "tokenizer.json").write_text(words, "utf-8")
        labels.append(kind(str(folder)).label)
        assert labels[0] == labels[1]
        assert len(set(labels)) == 3
        assert all(label.startswith(f"{folder.name}#") for label in labels)
