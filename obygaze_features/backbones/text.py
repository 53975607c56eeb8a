"""The text towers of CLIP, X-CLIP and SigLIP: prompts in, raw vectors of the shared space out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import Placement
from obygaze_features.backbones.cards import Card
from obygaze_features.backbones.families import FAMILIES
from obygaze_features.backbones.hub import WeightFiles, fetch_weights, find_weights, offline
from obygaze_features.backbones.identity import check_hashes, is_verified
from obygaze_features.backbones.library import library, silenced
from obygaze_features.backbones.prompts import PromptSet
from obygaze_features.backbones.registry import find_card
from obygaze_features.backbones.transformer import configured, load_pretrained
from obygaze_features.backbones.weights import hash_weights, read_tensors, refuse
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.format.space import space_id_of
from obygaze_features.store.read.text import TextTable

if TYPE_CHECKING:
    from torch import Tensor

BATCH = 64
_TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "tokenizer.model", "spiece.model", "vocab.txt")


@dataclass(frozen=True)
class TextFamily:
    """The text side of one architecture: its class, and the vector it lays beside the video's."""

    module: str
    model: str
    embed: Callable[[Any, Any], Tensor]
    # The towers of SigLIP were trained on lower case, padded to their full length, unmasked.
    padded: bool = False
    lower: bool = False


def _clip(model: Any, tokens: Any) -> Tensor:
    embeds: Tensor = model(**tokens).text_embeds
    return embeds


def _xclip(model: Any, tokens: Any) -> Tensor:
    # The model's own logits use text that its video prompts have changed: this is before that.
    embeds: Tensor = model.text_projection(model.text_model(**tokens)[1])
    return embeds


def _siglip(model: Any, tokens: Any) -> Tensor:
    embeds: Tensor = model(input_ids=tokens["input_ids"]).pooler_output
    return embeds


TEXT_FAMILIES: Mapping[str, TextFamily] = {
    "clip": TextFamily("models.clip.modeling_clip", "CLIPTextModelWithProjection", _clip),
    "xclip": TextFamily("models.x_clip.modeling_x_clip", "XCLIPModel", _xclip),
    "siglip": TextFamily(
        "models.siglip.modeling_siglip", "SiglipTextModel", _siglip, padded=True, lower=True
    ),
}


class TextTower:
    """A text tower with its tokenizer, both from one checkpoint."""

    def __init__(
        self, family: TextFamily, model: Any, tokenizer: Any, max_length: int, space_id: str
    ) -> None:
        self.family, self.model, self.tokenizer = family, model, tokenizer
        self.max_length, self.space_id = max_length, space_id

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One raw vector for each text; a text too long for the tower is an error, never cut."""
        import torch

        parts = []
        for start in range(0, len(texts), BATCH):
            tokens = self._tokens(texts[start : start + BATCH])
            with torch.inference_mode():
                parts.append(self.family.embed(self.model, tokens).float().cpu().numpy())
        vectors: npt.NDArray[np.float32] = np.concatenate(parts).astype(np.float32)
        # CLIP reads its vector where the text ends, and at the start where it finds no end.
        if len(set(texts)) > 1 and (vectors == vectors[0]).all():
            raise FixInput(
                "every text gets the same vector: the tokenizer does not end texts as it should",
                hint="--tokenizer FOLDER of the same checkpoint",
            )
        return vectors

    def _tokens(self, texts: Sequence[str]) -> dict[str, Any]:
        worded = [text.lower() for text in texts] if self.family.lower else list(texts)
        for text, ids in zip(texts, self.tokenizer(worded)["input_ids"], strict=True):
            if len(ids) > self.max_length:
                what = f"{len(ids)} tokens, the tower takes {self.max_length}: {text[:60]!r}"
                raise FixInput(what, hint="a shorter prompt")
        how: dict[str, Any] = {"padding": True}
        if self.family.padded:
            how = {"padding": "max_length", "max_length": self.max_length}
        found = self.tokenizer(worded, return_tensors="pt", **how)
        return {name: found[name] for name in ("input_ids", "attention_mask") if name in found}


def load_text_tower(
    card: Card | str,
    weights: str | Path | None = None,
    *,
    tokenizer: str | Path | None = None,
    workspace: Workspace | None = None,
) -> TextTower:
    """A backbone's text tower: from the weights that are named, or the card's own.

    The tokenizer lies beside the weights, or in a folder that is named, or at the hub.
    """
    if isinstance(card, str):
        card = find_card(card, workspace)
    family = TEXT_FAMILIES.get(card.family)
    if family is None:
        raise FixUsage(
            f"{card.name} has no text tower that is read here",
            hint=f"a backbone of the families {', '.join(TEXT_FAMILIES)}",
        )
    found = find_weights(card, weights) if weights is not None else fetch_weights(card)
    hashes = hash_weights(found, read_tensors(found.files))
    model = _model(card, family, found)
    configured(card, found)
    check_hashes(card, found, hashes)
    claim = (card.checkpoint, card.revision) if is_verified(card, found, hashes) else ("", "")
    length = int(getattr(model.config, "text_config", model.config).max_position_embeddings)
    space = space_id_of(*claim, hashes.tensors)
    words = _tokenizer(card, found, tokenizer)
    _check_vocabulary(words, model, found)
    return TextTower(family, model, words, length, space)


def embed_prompts(tower: TextTower, prompts: PromptSet) -> TextTable:
    """The texts of a prompt set as a store keeps them: raw vectors with what they stand for."""
    return TextTable(
        embeddings=tower.embed([prompt.text for prompt in prompts.prompts]),
        prompt=[prompt.text for prompt in prompts.prompts],
        template=[prompt.template for prompt in prompts.prompts],
        attribute=[prompt.attribute for prompt in prompts.prompts],
        space_id=tower.space_id,
    )


def _model(card: Card, text: TextFamily, files: WeightFiles) -> Any:
    """The tower with every weight it needs; the other tower's are left over, as they must."""
    config = files.small_file("config.json") or {}
    kinds = FAMILIES[card.family].model_types
    if config.get("model_type") not in kinds or "text_config" not in config:
        raise FixInput(
            f"a checkpoint without a text tower of the family {card.family}",
            where=str(files.folder / "config.json"),
            hint="the whole checkpoint, as the hub has it",
        )
    kind = getattr(library(text.module), text.model)
    family = replace(FAMILIES[card.family], module=text.module, model=text.model)
    attention = "sdpa" if getattr(kind, "_supports_sdpa", False) else "eager"
    model, info = load_pretrained(kind, family, files, Placement(attention=attention))
    missing = sorted(map(str, info["missing_keys"])) + sorted(map(str, info["mismatched_keys"]))
    if missing:
        told = f"{len(missing)} tensors of the text tower are missing or of another shape"
        raise refuse(told, missing, files.origin, "fetch the checkpoint again")
    return model.eval().requires_grad_(False)


def _tokenizer(card: Card, files: WeightFiles, named: str | Path | None) -> Any:
    auto = library("models.auto.tokenization_auto").AutoTokenizer
    folder = Path(named).expanduser() if named is not None else files.folder
    here = any((folder / name).is_file() for name in _TOKENIZER_FILES)
    if not here and (named is not None or not card.checkpoint or offline()):
        raise NotFound(
            "there is no tokenizer beside the weights",
            where=str(folder),
            hint="--tokenizer FOLDER with tokenizer.json, as the hub has it",
        )
    source, how = (str(folder), {}) if here else (card.checkpoint, {"revision": card.revision})
    with silenced():
        try:
            return auto.from_pretrained(source, local_files_only=here, **how)
        except Exception as error:
            # Whatever the library refuses is something about the files.
            told = (str(error).splitlines() or [type(error).__name__])[0]
            raise FixInput(f"this tokenizer cannot be read: {told[:160]}", where=source) from error


def _check_vocabulary(tokenizer: Any, model: Any, files: WeightFiles) -> None:
    known = int(getattr(model.config, "text_config", model.config).vocab_size)
    if len(tokenizer) > known:
        raise FixInput(
            f"the tokenizer has {len(tokenizer)} words, the tower {known}: not of one checkpoint",
            where=files.origin,
            hint="--tokenizer FOLDER of the same checkpoint",
        )
