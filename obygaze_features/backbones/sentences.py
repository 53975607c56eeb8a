"""Two small language tools: how likely a caption is, and how close two texts are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.hub import offline
from obygaze_features.backbones.library import library, silenced
from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.extras import need

BATCH = 32


class LanguageModel:
    """A causal language model: the mean probability it gives to the tokens of a text."""

    def __init__(self, name: str) -> None:
        self.model, self.tokenizer = _load(name, "AutoModelForCausalLM")
        ends = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id)
        known = [token for token in ends if token is not None]
        if not known:
            raise FixInput("this language model has no token for where a text begins", where=name)
        self.begin, self.end = known[0], known[-1]

    def prior(self, text: str) -> float:
        """The arithmetic mean of the probabilities of all tokens, the end of the text included.

        The text begins where texts begin for the model, so that its first word is judged too.
        """
        import torch

        words = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        ids = torch.tensor([[self.begin, *words, self.end]])
        with torch.inference_mode():
            logits = self.model(input_ids=ids).logits[0, :-1].double()
        chosen = torch.softmax(logits, dim=-1).gather(1, ids[0, 1:, None])
        return float(chosen.mean())


class Encoder:
    """A sentence encoder: one vector for each text, by the pooling that its folder declares."""

    def __init__(self, name: str) -> None:
        self.model, self.tokenizer = _load(name, "AutoModel")
        self.takes_first = _pools_first(name)

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Vectors of length one."""
        parts = [self._some(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]
        vectors = np.concatenate(parts)
        unit: npt.NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def similarity(self, texts: Sequence[str], others: Sequence[str]) -> list[float]:
        """The cosine of each text with the one it is paired with."""
        unique = list(dict.fromkeys([*texts, *others]))
        row = dict(zip(unique, self.embed(unique), strict=True))
        pairs = zip(texts, others, strict=True)
        return [float(row[text] @ row[other]) for text, other in pairs]

    def _some(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        import torch

        tokens = self.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            hidden = self.model(**tokens).last_hidden_state.double()
        if self.takes_first:
            pooled = hidden[:, 0]
        else:
            mask = tokens["attention_mask"][:, :, None].double()
            pooled = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
        vectors: npt.NDArray[np.float64] = pooled.numpy()
        return vectors


def _load(name: str, kind: str) -> tuple[Any, Any]:
    need("torch", "extract", "scoring captions")
    models, words = library("models.auto.modeling_auto"), library("models.auto.tokenization_auto")
    folder = Path(name).expanduser()
    local = folder.is_dir()
    if not local and ("\\" in name or name.count("/") > 1 or name.startswith((".", "~", "/"))):
        raise NotFound("no such model folder", where=str(folder))
    source = str(folder) if local else name
    with silenced():
        try:
            how = {"local_files_only": local or offline()}
            model = getattr(models, kind).from_pretrained(source, **how).eval()
            tokenizer = words.AutoTokenizer.from_pretrained(source, **how)
        except Exception as error:
            # Whatever the library refuses is something about the files, or about reaching them.
            told = (str(error).splitlines() or [type(error).__name__])[0]
            raise NotFound(
                f"this model cannot be loaded: {told[:160]}",
                where=source,
                hint="a folder as the hub has it, or a name of the hub where there is a network",
            ) from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def _pools_first(name: str) -> bool:
    path = Path(name).expanduser() / "1_Pooling" / "config.json"
    if not path.is_file():
        return False
    try:
        told = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise FixInput(f"not JSON: {error}", where=str(path)) from error
    return bool(isinstance(told, dict) and told.get("pooling_mode_cls_token"))
