"""Text towers, whose vectors share a space with vectors of clips, and their prompts."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from obygaze_features.backbones.card import Card, card_recipe
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.families import PRETRAINED
from obygaze_features.backbones.geometry import FeatureArray
from obygaze_features.backbones.placement import (
    Placement,
)
from obygaze_features.backbones.pretrained import (
    PretrainedFamily,
    Text,
    from_pretrained,
    library,
    load_strictly,
    silence_library,
    supported_placement,
)
from obygaze_features.backbones.weight_files import (
    CONFIG,
    TOKENIZERS,
    FileHashes,
    WeightFiles,
)
from obygaze_features.backbones.weights import (
    find_weights,
    is_verified,
)
from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.schema_check import Record, read_toml, record_of
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.recipe import TEXT, TOKENIZER, hash_of_space, space_id_of
from obygaze_features.store.texts import TextTable

SCHEMA = "obygaze-prompts/1"
SHIPPED = {
    path.stem: path
    for path in sorted(Path(__file__).with_name("prompts").glob("*.toml"))
}
BATCH = 32
# Texts are padded to a multiple of this length. For products with fewer rows, MKL adds in another
# order on processors with AVX-512, and the bits of a vector would depend on the batch.
LENGTH_STEP = 16
TokenIds = Sequence[int]
_NOT_VALID = "this prompt set is not valid"


# --- Prompts ---


_Template = Annotated[
    str,
    Meta(
        pattern=r"(?s)^(?!.*\{\}.*\{\}).*\{\}", description="a text with one {} in it"
    ),
]
_Word = Annotated[str, Meta(pattern=r"\S", description="a text")]


class PromptFile(Record, frozen=True):
    """The file of a prompt set."""

    templates: tuple[_Template, ...]
    attributes: Mapping[str, tuple[_Word, ...]]
    templates_of: Mapping[str, tuple[_Template, ...]] = {}
    name: str = ""


class Prompt(NamedTuple):
    """A text, with its template and its attribute."""

    text: str
    template: str
    attribute: str


@dataclass(frozen=True)
class PromptSet:
    """All prompts of a file, by attribute."""

    name: str
    prompts: tuple[Prompt, ...]


def read_prompts(name: str) -> PromptSet:
    """Return a shipped prompt set by name, or a prompt set from a TOML file.

    The prompts are each word of each attribute in each template. In the file, `templates_of`
    replaces the templates of an attribute, for example for "an" before "angry".

    Args:
        name: The name of a shipped set, such as emotion or wolfe2023-emotion, or a path.
    """
    path = SHIPPED.get(name, Path(name))
    if not path.is_file():
        hint = f"use one of {', '.join(SHIPPED)}, or the path of a TOML file"
        raise NotFound(f"no prompt set called {name!r}", where=str(path), hint=hint)
    document = read_toml(path.read_bytes(), str(path))
    document.require_schema(SCHEMA, "prompt set")
    file = record_of(document, PromptFile, _NOT_VALID)
    if not file.attributes:
        document.add("attributes", "must name at least one attribute")
    lists = {"templates": file.templates}
    for attribute, words in file.attributes.items():
        lists[f"attributes.{attribute}"] = words
    for attribute, templates in file.templates_of.items():
        lists[f"templates_of.{attribute}"] = templates
        if attribute not in file.attributes:
            document.add(f"templates_of.{attribute}", "must be one of attributes")
    for key, items in lists.items():
        if not items:
            document.add(key, "must be a list of at least one text")
    document.raise_if_any(_NOT_VALID)
    prompts = []
    for attribute, words in file.attributes.items():
        templates = file.templates_of.get(attribute, file.templates)
        for word in words:
            for template in templates:
                text = template.replace("{}", word)
                prompts.append(Prompt(text, template, attribute))
    return PromptSet(file.name, tuple(prompts))


# --- Towers ---


@dataclass(frozen=True, repr=False)
class TextTower:
    """A text model and its tokenizer, from the same checkpoint.

    `space_id` identifies the space of its vectors. An array of a backbone has vectors in the same
    space, and the same `space_id`. `hashes` are hashes of the weights, the configuration and the
    tokenizer; `verified` is true if they match the checkpoint of the card.
    """

    card: Card
    text: Text
    model: Any
    tokenizer: Any
    max_length: int
    space_id: str
    hashes: FileHashes
    verified: bool

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return one vector for each text, as the model returns it.

        Raise an error for a text that is too long.
        """
        token_ids = self.token_ids(texts)
        for each, ids in zip(texts, token_ids, strict=True):
            if len(ids) > self.max_length:
                raise FixInput(
                    f"expected at most {self.max_length} tokens for the text model, got {len(ids)}:"
                    f" {each[:60]!r}",
                )
        return self._vectors(token_ids, Quiet(), map)

    def embed_long(
        self, texts: Sequence[str], progress: Progress, threads: Executor
    ) -> npt.NDArray[np.float32]:
        """Return one vector for each text of any length.

        A text that is too long for the model is split into pieces. Its vector is the mean over the
        vectors of its pieces, weighted by their numbers of tokens. Equal texts have equal vectors.

        Args:
            texts: The texts.
            progress: Counts the pieces.
            threads: Threads that compute batches, each with one thread of torch.
        """
        unique = list(dict.fromkeys(texts))
        pieces: list[TokenIds] = []
        pieces_of_text = {}
        for text, ids in zip(unique, self.token_ids(unique), strict=True):
            first = len(pieces)
            pieces += self._pieces(text, ids)
            pieces_of_text[text] = slice(first, len(pieces))
        progress.expect(len(pieces), "texts")
        vectors = self._vectors(pieces, progress, threads.map).astype(np.float64)
        n_special = self.tokenizer.num_special_tokens_to_add()
        weights = np.maximum(np.array(list(map(len, pieces))) - n_special, 1)
        rows = []
        for text in texts:
            of_text = pieces_of_text[text]
            rows.append(np.average(vectors[of_text], axis=0, weights=weights[of_text]))
        return np.array(rows, dtype=np.float32)

    def recipe(self) -> dict[str, Any]:
        """Return the settings that change the features of a store of words, as plain values."""
        width = self.embed(["a"]).shape[1]
        array = FeatureArray("clip", TEXT, (f"feature_{width}",), (width,))
        card = self.card
        settings = {"tokens": self.max_length, "normalise": self._normalises}
        return {
            **card_recipe(card, card.geometry, {"clip": array}, self.verified),
            "weights": dict(self.hashes),
            "preprocessing": settings,
            "compute": supported_placement(type(self.model), Placement()).recipe(),
        }

    @property
    def _normalises(self) -> bool:
        return self.card.words is not None and self.card.words.normalise

    def token_ids(self, texts: Sequence[str]) -> list[TokenIds]:
        """Return the token ids of each text."""
        cased = [each.lower() for each in texts] if self.text.lower else list(texts)
        with silence_library():
            ids: list[TokenIds] = self.tokenizer(cased)["input_ids"]
        return ids

    def _pieces(self, text: str, token_ids: TokenIds) -> list[TokenIds]:
        """Return the token ids of the pieces of a text.

        A text that is too long is halved between words, or between letters if it has no blanks.
        Halves that are still too long are halved again.
        """
        if len(token_ids) <= self.max_length:
            return [token_ids]
        words = text.split()
        joint = " " if len(words) > 1 else ""
        parts = words if joint else list(text)
        middle = len(parts) // 2
        halves = [joint.join(parts[:middle]), joint.join(parts[middle:])]
        pieces = []
        for half, ids in zip(halves, self.token_ids(halves), strict=True):
            pieces += self._pieces(half, ids)
        return pieces

    def _vectors(
        self, token_ids: Sequence[TokenIds], progress: Progress, run: Callable[..., Any]
    ) -> npt.NDArray[np.float32]:
        """Return one vector for each text.

        `run` computes the batches: it is `map`, or the method `map` of a pool of threads. Texts of
        equal padded length are computed together. If torch computes with one thread, the bits of a
        vector do not depend on the other texts.
        """
        lengths = [self._padded_length(len(ids)) for ids in token_ids]
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        batches = []
        for _, group in groupby(order, key=lengths.__getitem__):
            numbers = list(group)
            for start in range(0, len(numbers), BATCH):
                batches.append(numbers[start : start + BATCH])
        encoded = []
        for batch in batches:
            with silence_library():
                tokens = self.tokenizer.pad(
                    {"input_ids": [token_ids[number] for number in batch]},
                    padding="max_length",
                    max_length=lengths[batch[0]],
                    return_tensors="pt",
                )
            encoded.append(tokens)
        vectors: dict[int, npt.NDArray[Any]] = {}
        for batch, found in zip(batches, run(self._embed, encoded), strict=True):
            vectors.update(zip(batch, found, strict=True))
            progress.advance(len(batch))
        rows = np.array([vectors[number] for number in range(len(lengths))], np.float32)
        # CLIP returns the vector of the end token, or of the first token if there is no end token.
        # Texts that differ in case only may have the same tokens, and therefore the same vector.
        n_different = len(set(map(tuple, token_ids)))
        if n_different > 1 and (rows == rows[0]).all():
            raise FixInput(
                "every text gets the same vector: the tokenizer does not add an end token",
            )
        return rows

    def _padded_length(self, n_tokens: int) -> int:
        """Return the length to which a text is padded."""
        if self.text.padded:
            return self.max_length
        return min(-(-n_tokens // LENGTH_STEP) * LENGTH_STEP, self.max_length)

    def _embed(self, encoded: Mapping[str, Any]) -> npt.NDArray[Any]:
        import torch

        tokens = {
            key: encoded[key]
            for key in ("input_ids", "attention_mask")
            if key in encoded
        }
        with torch.inference_mode():
            vectors = self.text.embed(self.model, tokens)
            if self._normalises:
                vectors = torch.nn.functional.normalize(vectors, dim=-1)
        array: npt.NDArray[Any] = vectors.float().cpu().numpy()
        return array


def load_text_tower(
    card: Card | str,
    weights: str | Path | None = None,
    *,
    workspace: Workspace | None = None,
) -> TextTower:
    """Return the text model of a backbone.

    Args:
        card: A card, or its name.
        weights: A file or folder of weights, with the tokenizer in the same folder. The default
            is the checkpoint of the card.
        workspace: The workspace. Its cards are read in addition to the cards of obygaze.
    """
    if isinstance(card, str):
        card = find_card(card, workspace)
    family = card.family
    if not isinstance(family, PretrainedFamily) or family.text is None:
        names = [name for name, each in PRETRAINED.items() if each.text]
        raise FixUsage(
            f"{card.name} has no text model that obygaze can load",
            hint=f"use a backbone of the families {', '.join(names)}",
        )
    files = find_weights(card, weights, download=True)
    family.card_of_weights(card, files)
    is_of_words = card.words is not None
    if not is_of_words and "text_config" not in files.configuration:
        raise FixInput(
            "the checkpoint has no text model",
            where=str(files.folder / CONFIG),
        )
    kind = family.model(family.text.model)
    placement = supported_placement(kind, Placement())
    options = family.options if is_of_words else {}
    model, hashes = load_strictly(kind, card, files, placement, **options)
    model.eval().requires_grad_(False)
    config = getattr(model.config, "text_config", model.config)
    tokenizer = _tokenizer(card, files)
    space_hash = hash_of_space(hashes)
    hashes[TOKENIZER] = files.tokenizer_sha256
    if len(tokenizer) > int(config.vocab_size):
        raise FixInput(
            f"expected a tokenizer and a text model of one checkpoint, got {len(tokenizer)} tokens"
            f" in the tokenizer and {config.vocab_size} in the model",
            where=files.origin,
        )
    verified = is_verified(card, files, hashes)
    claim = (card.checkpoint, card.revision) if verified else ("", "")
    space = space_id_of(*claim, space_hash)
    max_length = int(config.max_position_embeddings) - family.text.unused_positions
    if card.words is not None:
        max_length = min(max_length, card.words.tokens)
    return TextTower(
        card, family.text, model, tokenizer, max_length, space, hashes, verified
    )


def embed_prompts(tower: TextTower, prompts: PromptSet) -> TextTable:
    """Return the table of texts that stores contain: the prompts of a set, with their raw vectors.

    Args:
        tower: The text tower.
        prompts: The prompt set.
    """
    texts, templates, attributes = zip(*prompts.prompts, strict=True)
    return TextTable(tower.embed(texts), texts, templates, attributes, tower.space_id)


def _tokenizer(card: Card, files: WeightFiles) -> Any:
    """Return the tokenizer in the folder of the weights."""
    auto = library("models.auto.tokenization_auto").AutoTokenizer
    folder = files.folder
    if not any((folder / name).is_file() for name in TOKENIZERS):
        hint = "copy tokenizer.json of the checkpoint into this folder"
        if files.is_from_hub:
            hint = f"obygaze backbones fetch {shell_word(card.name)}"
        raise NotFound("no tokenizer next to the weights", where=str(folder), hint=hint)
    error = FixInput("this tokenizer cannot be read", where=str(folder))
    return from_pretrained(auto, str(folder), error, local_files_only=True)
