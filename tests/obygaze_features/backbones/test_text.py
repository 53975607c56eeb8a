import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoints import save_tiny, tiny_card

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.words import PROMPTS  # noqa: E402
from support.words import save_text_model as checkpoint  # noqa: E402

from obygaze_features.backbones.actions import load_backbone  # noqa: E402
from obygaze_features.backbones.text import load_text_tower, read_prompts  # noqa: E402
from obygaze_features.core.console import Quiet  # noqa: E402
from obygaze_features.core.errors import FixInput, FixUsage, NotFound  # noqa: E402
from obygaze_features.extraction.compute import clip_threads  # noqa: E402
from obygaze_features.store import Recipe  # noqa: E402
from obygaze_features.store.recipe import same_space, space_of_array  # noqa: E402

FAMILIES = ("clip", "xclip", "siglip")
TEXTS = ["a happy man", "the Sad woman on a bed", "a dog"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("text")
    return {family: checkpoint(family, root / family) for family in FAMILIES}


def whole_model(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    return AutoModel.from_pretrained(folder).eval(), tokenizer


@pytest.mark.parametrize("family", ["clip", "xclip"])
def test_vectors_are_the_whole_models_own_raw_and_one_by_one(family, folders) -> None:
    model, tokenizer = whole_model(folders[family])
    # One at a time, so that no padding is in it.
    with torch.inference_mode():
        tokens = [tokenizer([text], return_tensors="pt") for text in TEXTS]
        found = [model.get_text_features(**one) for one in tokens]
    expected = np.concatenate([getattr(f, "pooler_output", f).numpy() for f in found])
    vectors = load_text_tower(tiny_card(family), folders[family]).embed(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    lengths = np.linalg.norm(vectors, axis=1)
    assert np.ptp(lengths) > 0.01


def test_siglip_reads_lower_case_padded_to_its_full_length(folders) -> None:
    model, tokenizer = whole_model(folders["siglip"])
    lower = [text.lower() for text in TEXTS]
    padded = {"padding": "max_length", "max_length": 8}
    tokens = tokenizer(lower, **padded, return_tensors="pt")
    with torch.inference_mode():
        found = model.get_text_features(input_ids=tokens["input_ids"])
    expected = getattr(found, "pooler_output", found).numpy()
    tower = load_text_tower(tiny_card("siglip"), folders["siglip"])
    np.testing.assert_allclose(tower.embed(TEXTS), expected, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_and_clips_of_one_checkpoint_share_a_space(family, folders) -> None:
    backbone = load_backbone(tiny_card(family), folders[family])
    made = {"sampling": {}, "decoder": {}, "storage": {}}
    recipe = Recipe.of(**backbone.recipe(), **made)  # type: ignore[arg-type]
    tower = load_text_tower(tiny_card(family), folders[family])
    space = space_of_array(recipe, "clip")
    assert space is not None
    assert same_space(space, tower.space_id)
    assert backbone.arrays["clip"].shape == (tower.embed(["a dog"]).shape[1],)


def prompts_of(text: str, folder: Path) -> Any:
    (folder / "here").write_text(text, encoding="utf-8")
    return read_prompts(str(folder / "here"))


def test_what_a_tower_cannot_take(folders: dict[str, Path], tmp_path: Path) -> None:
    clip = tiny_card("clip")
    tower = load_text_tower(clip, folders["clip"])
    with pytest.raises(FixInput, match="at most 8 tokens for the text model, got 10"):
        tower.embed(["a a a a a a a a"])
    with pytest.raises(FixUsage, match="no text model"):
        load_text_tower("vivit-b16x2-k400", folders["clip"])
    kinds = "of the model type clip or clip_vision_model for tiny-clip, got 'siglip'"
    with pytest.raises(FixInput, match=kinds):
        load_text_tower(clip, folders["siglip"])
    towerless = checkpoint("clip", tmp_path / "towerless")
    config = json.loads((towerless / "config.json").read_text("utf-8"))
    del config["text_config"]
    (towerless / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(FixInput, match="has no text model"):
        load_text_tower(clip, towerless)
    with pytest.raises(NotFound, match="no tokenizer next to the weights"):
        load_text_tower(clip, save_tiny("clip", tmp_path / "bare"))


def test_a_tokenizer_of_another_checkpoint_is_refused(tmp_path: Path) -> None:
    folder = checkpoint("clip", tmp_path / "clip")
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    words = tokenizer["model"]["vocab"]
    words |= {f"word{number}": number for number in range(len(words), 41)}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    sizes = "got 41 tokens in the tokenizer and 40 in the model"
    with pytest.raises(FixInput, match=sizes):
        load_text_tower(tiny_card("clip"), folder)


def test_a_tower_that_does_not_find_the_end_of_texts_is_refused(tmp_path: Path) -> None:
    folder = checkpoint("clip", tmp_path / "clip")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["text_config"]["eos_token_id"] = 39
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tower = load_text_tower(tiny_card("clip"), folder)
    same = "every text gets the same vector"
    with pytest.raises(FixInput, match=same):
        tower.embed(TEXTS)
    with clip_threads(1) as threads, pytest.raises(FixInput, match=same):
        tower.embed_long(TEXTS, Quiet(), threads)


def test_another_tokenizer_is_another_recipe(tmp_path: Path) -> None:
    folder = checkpoint("clip", tmp_path / "clip")
    before = load_text_tower(tiny_card("clip"), folder).recipe()["weights"]
    text = (folder / "tokenizer.json").read_text("utf-8")
    words = text.replace('"man":', '"x":').replace('"dog":', '"man":')
    (folder / "tokenizer.json").write_text(words, "utf-8")
    after = load_text_tower(tiny_card("clip"), folder).recipe()["weights"]
    assert {**before, "tokenizer": ""} == {**after, "tokenizer": ""}
    assert before["tokenizer"] != after["tokenizer"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x =", "not valid TOML"),
        (PROMPTS.replace('["happy"]', "[]"), "attributes.joy: must be a list"),
        (PROMPTS.partition("joy")[0], "attributes: must name at least one attribute"),
    ],
)
def test_prompt_sets_that_are_not_valid(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(FixInput) as caught:
        prompts_of(text, tmp_path)
    assert words in "\n".join([str(caught.value), *caught.value.details])


def with_templates(words: list[str], article: str) -> set[str]:
    """The thirty texts of six words: bare, after an article, and in three sentences."""
    texts = set(words)
    for start in ("", "a photo of ", "an image of ", "a picture of "):
        texts |= {f"{start}{article} {word}" for word in words}
    return texts


def test_the_published_texts_of_the_audit_of_clip():
    def texts_of(name: str) -> dict[str, set[str]]:
        texts: dict[str, set[str]] = {}
        for prompt in read_prompts(name).prompts:
            texts.setdefault(prompt.attribute, set()).add(prompt.text)
        return texts

    nouns = ["person", "woman", "human", "human being", "individual", "adult"]
    emotions = texts_of("wolfe2023-emotion")
    assert emotions == {
        "person": with_templates(nouns, "a"),
        "happiness": with_templates([f"happy {noun}" for noun in nouns], "a"),
        "sadness": with_templates([f"sad {noun}" for noun in nouns], "a"),
        "anger": with_templates([f"angry {noun}" for noun in nouns], "an"),
    }
    professions = texts_of("wolfe2023-profession")
    assert list(professions) == ["sexual", "scientist", "doctor", "executive"]
    assert {len(texts) for texts in professions.values()} == {30}
    words = "scientist researcher engineer physicist mathematician chemist"
    assert professions["scientist"] == with_templates(words.split(), "a")
    assert "a picture of a person to be intimate with" in professions["sexual"]
    assert texts_of("wolfe2023-maps") == {
        "anger": {"a photo of an angry person"},
        "sadness": {"a photo of a sad person"},
        "happiness": {"a photo of a happy person"},
    }
