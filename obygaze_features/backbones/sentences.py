"""Language models for captions: how probable a text is, and how similar two texts are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.hub import offline
from obygaze_features.backbones.pretrained import from_pretrained, library
from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.extras import need
from obygaze_features.core.schema_check import read_json

BATCH = 32


class LanguageModel:
    """A causal language model: the mean probability it gives to the tokens of a text."""

    def __init__(self, name: str) -> None:
        self.model, self.tokenizer = _load(name, "AutoModelForCausalLM")
        ends = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id)
        known = [token for token in ends if token is not None]
        if not known:
            raise FixInput("this language model has no token for the start of a text", where=name)
        self.begin, self.end = known[0], known[-1]

    def prior(self, text: str) -> float:
        """Return the arithmetic mean of the probabilities of all tokens, the end included.

        The text begins with the model's start token, so that its first word has a probability too.
        """
        import torch

        words = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        ids = torch.tensor([[self.begin, *words, self.end]])
        with torch.inference_mode():
            logits = self.model(input_ids=ids).logits[0, :-1].double()
        chosen = torch.softmax(logits, dim=-1).gather(1, ids[0, 1:, None])
        return float(chosen.mean())


class SentenceEncoder:
    """Computes a vector of each text, by the pooling that the model's folder declares."""

    def __init__(self, name: str) -> None:
        self.model, self.tokenizer = _load(name, "AutoModel")
        self.takes_first = _pools_first(name)

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return vectors of length one."""
        parts = [self._some(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]
        vectors = np.concatenate(parts)
        unit: npt.NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def similarity(self, texts: Sequence[str], others: Sequence[str]) -> list[float]:
        """Return the cosine of each text with the other text of its pair."""
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

    def error(reason: str) -> NotFound:
        return NotFound(
            f"this model cannot be loaded: {reason}",
            where=source,
            hint="use a folder with the files of the hub, or a name of the hub with a network",
        )

    options = {"local_files_only": local or offline()}
    model = from_pretrained(getattr(models, kind), source, error, **options).eval()
    tokenizer = from_pretrained(words.AutoTokenizer, source, error, **options)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def _pools_first(name: str) -> bool:
    path = Path(name).expanduser() / "1_Pooling" / "config.json"
    if not path.is_file():
        return False
    return bool(read_json(path.read_bytes(), str(path)).tree.get("pooling_mode_cls_token"))
