"""Models that score captions: the probability of a sentence, and the similarity of two texts."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.pretrained import (
    add_reason,
    from_pretrained,
    library,
    silence_library,
)
from obygaze_features.backbones.weight_files import (
    remove_names,
)
from obygaze_features.backbones.weights import (
    tensors_sha256,
)
from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.lazy import import_optional
from obygaze_features.core.machine import cache_folder, offline

SENTENCES = 32


class LanguageModel:
    """A causal language model, which gives a mean probability over the tokens of a text.

    Code in the files of the model is never run.
    """

    def __init__(self, name: str) -> None:
        torch = import_optional("torch", "extract", "scoring captions")
        models = library("models.auto.modeling_auto")
        words = library("models.auto.tokenization_auto")
        source, is_local, error = _source(name)
        options = {
            "local_files_only": is_local or offline(),
            "cache_dir": str(cache_folder()),
            "trust_remote_code": False,
        }
        kind = models.AutoModelForCausalLM
        # The default precision depends on the version of the library.
        self.model = from_pretrained(
            kind, source, error, dtype=torch.float32, **options
        ).eval()
        kind = words.AutoTokenizer
        self.tokenizer = from_pretrained(kind, source, error, **options)
        ends = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id)
        boundary_tokens = [token for token in ends if token is not None]
        if not boundary_tokens:
            raise FixInput(
                "expected a language model with a token for the start of a text",
                where=name,
            )
        self.begin = boundary_tokens[0]
        self.end = boundary_tokens[-1]
        self.label = _label(name, self.model, self.model.config, self.tokenizer)

    def prior(self, text: str) -> float:
        """Return the arithmetic mean of the probabilities of the tokens of a text.

        The end token counts as a token of the text. The start token of the model is added before
        the text, because without it the first word has no probability.
        """
        import torch

        words = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        n_tokens = len(words) + 2
        most = getattr(self.model.config, "max_position_embeddings", None)
        # Some models do not state their number of positions.
        if isinstance(most, int) and 0 < most < n_tokens:
            raise FixInput(
                f"expected at most {most} tokens for the language model, got {n_tokens}:"
                f" {text[:60]!r}",
                hint="shorten this caption, or use a different --lm",
            )
        ids = torch.tensor([[self.begin, *words, self.end]])
        with torch.inference_mode():
            logits = self.model(input_ids=ids).logits[0, :-1].double()
        chosen = torch.softmax(logits, dim=-1).gather(1, ids[0, 1:, None])
        return float(chosen.mean())


class SentenceEncoder:
    """An encoder of texts, computed by the library sentence-transformers.

    The files of a model define the pooling of its tokens. Code in the files is never run.
    """

    def __init__(self, name: str) -> None:
        package = import_optional(
            "sentence_transformers", "captions", "comparing captions"
        )
        torch = import_optional("torch", "captions", "comparing captions")
        source, is_local, error = _source(name)
        options: dict[str, Any] = {
            "device": "cpu",
            "trust_remote_code": False,
            "model_kwargs": {"dtype": torch.float32},
        }
        if not is_local:
            options |= {"cache_folder": str(cache_folder())}
        with silence_library():
            try:
                self.model = package.SentenceTransformer(
                    source, local_files_only=is_local or offline(), **options
                )
            except Exception as reason:
                # Each exception here means that files are invalid or cannot be reached.
                raise add_reason(error, reason) from reason
        transformer = self.model[0].auto_model
        self.label = _label(name, self.model, transformer.config, self.model.tokenizer)

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return one vector of length 1 for each text."""
        vectors = self.model.encode(
            list(texts), batch_size=SENTENCES, show_progress_bar=False
        ).astype(np.float64)
        unit: npt.NDArray[np.float64] = vectors / np.linalg.norm(
            vectors, axis=1, keepdims=True
        )
        return unit

    def similarity(self, texts: Sequence[str], others: Sequence[str]) -> list[float]:
        """Return the cosine of each text with its partner in `others`."""
        unique = list(dict.fromkeys([*texts, *others]))
        row = dict(zip(unique, self.embed(unique), strict=True))
        pairs = zip(texts, others, strict=True)
        return [float(row[text] @ row[other]) for text, other in pairs]


def _label(name: str, model: Any, config: Any, tokenizer: Any) -> str:
    """Return the name of a model, with the start of a hash of its weights and settings."""
    settings = json.loads(config.to_json_string())
    backend = getattr(tokenizer, "backend_tokenizer", None)
    texts = tokenizer.get_vocab() if backend is None else backend.to_str()
    # str(model) lists its modules, such as the pooling, with their settings.
    parts = [
        tensors_sha256(model.state_dict()),
        remove_names(settings),
        texts,
        str(model),
    ]
    return f"{Path(name).name}#{sha256_bytes(canonical_json(parts))[:16]}"


def _source(name: str) -> tuple[str, bool, NotFound]:
    """Return the folder or name of a model, whether it is a folder, and an error.

    The caller raises the error if the model cannot be loaded.
    """
    folder = Path(name).expanduser()
    is_local = folder.is_dir()
    is_name = "\\" not in name and name.count("/") <= 1
    if not is_local and (not is_name or name.startswith((".", "~", "/"))):
        raise NotFound("no such model folder", where=str(folder))
    source = str(folder) if is_local else name
    hint = (
        "use a folder with the files of a model, or the name of a model on the hub (with a"
        " network)"
    )
    error = NotFound("this model cannot be loaded", where=source, hint=hint)
    return source, is_local, error
