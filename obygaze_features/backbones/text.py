"""Models of text: towers that share the space of a backbone, and language models for captions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import Card, Placement
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.families import FAMILIES
from obygaze_features.backbones.hub import find_weights
from obygaze_features.backbones.own import own_text_tower
from obygaze_features.backbones.pretrained import (
    PretrainedFamily,
    Text,
    from_pretrained,
    library,
    load_strictly,
    silenced,
    supported,
    with_reason,
)
from obygaze_features.backbones.weight_files import WeightFiles
from obygaze_features.backbones.weights import TENSORS, is_verified
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.lazy import need
from obygaze_features.core.machine import cache_folder, offline
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.schema_check import Table, read_toml
from obygaze_features.core.schema_rules import filled, list_of, matching, text
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.recipe import space_id_of
from obygaze_features.store.texts import TextTable

SCHEMA = "obygaze-prompts/1"
SHIPPED = {
    path.stem: path
    for path in sorted(Path(__file__).with_name("prompts").glob("*.toml"))
}
BATCH = 64
SENTENCES = 32
_TEMPLATE = matching(r"(?s)(?!.*\{\}.*\{\}).*\{\}.*", "a text with one {} in it")
_PROMPTS = Table(
    {
        "name": text,
        "templates": list_of(_TEMPLATE, least=1),
        "attributes": Table(others=list_of(filled, least=1)),
        "templates_of": Table(others=list_of(_TEMPLATE, least=1)),
    },
    ("templates", "attributes"),
)
_TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.json",
    "tokenizer.model",
    "spiece.model",
    "vocab.txt",
)


class Prompt(NamedTuple):
    """One text, with the template it was made of and the attribute it stands for."""

    text: str
    template: str
    attribute: str


@dataclass(frozen=True, repr=False)
class PromptSet:
    """Every prompt of a file, attribute by attribute."""

    name: str
    prompts: tuple[Prompt, ...]

    def __repr__(self) -> str:
        attributes = ", ".join(self.attributes)
        return short_repr(
            "PromptSet", repr(self.name), f"{len(self.prompts)} prompts", attributes
        )

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes, in the order of the file."""
        return tuple(dict.fromkeys(prompt.attribute for prompt in self.prompts))


def read_prompts(name: str) -> PromptSet:
    """Return a prompt set by the name of a shipped one, or by the path of a TOML file.

    Its prompts are each word of each attribute in each template, or in those of `templates_of`
    where it has the attribute ("an" before angry).

    Args:
        name: The name of a shipped set, such as emotion or wolfe2023-emotion, or a path.
    """
    path = SHIPPED.get(name, Path(name))
    if not path.is_file():
        hint = f"one of {', '.join(SHIPPED)}, or the path of a TOML file"
        raise NotFound(f"no prompt set called {name!r}", where=str(path), hint=hint)
    document = read_toml(path.read_bytes(), str(path))
    document.require_schema(SCHEMA, "prompt set")
    values = document.check(_PROMPTS)
    if values and not values["attributes"]:
        document.add("attributes", "must name at least one attribute")
    templates_of = values.get("templates_of", {}) if values else {}
    for attribute in templates_of:
        if attribute not in values["attributes"]:
            document.add(f"templates_of.{attribute}", "is no attribute")
    document.raise_if_any("this prompt set is not valid")
    prompts = []
    for attribute, words in values["attributes"].items():
        templates = templates_of.get(attribute, values["templates"])
        for word in words:
            for template in templates:
                text_of_word = template.replace("{}", word)
                prompts.append(Prompt(text_of_word, template, attribute))
    return PromptSet(values.get("name", ""), tuple(prompts))


class TextModel(Protocol):
    """A text model, and the name of the space of its vectors."""

    @property
    def space_id(self) -> str:
        """The name of the space, which an array of a backbone shares."""

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return one vector for each text."""


@dataclass(frozen=True, repr=False)
class TextTower:
    """A text model with its tokenizer, both from one checkpoint."""

    text: Text
    model: Any
    tokenizer: Any
    max_length: int
    space_id: str

    def __repr__(self) -> str:
        return short_repr(
            "TextTower", self.text.model, f"at most {self.max_length} tokens"
        )

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return one raw vector for each text; raise an error for a text that is too long."""
        import torch

        cased = [each.lower() for each in texts] if self.text.lower else list(texts)
        token_ids = self.tokenizer(cased)["input_ids"]
        for each, ids in zip(texts, token_ids, strict=True):
            if len(ids) > self.max_length:
                problem = f"{len(ids)} tokens, the tower takes {self.max_length}: {each[:60]!r}"
                raise FixInput(problem, hint="use a shorter prompt")
        options: dict[str, Any] = {"return_tensors": "pt", "padding": True}
        if self.text.padded:
            options |= {"padding": "max_length", "max_length": self.max_length}
        parts = []
        for start in range(0, len(texts), BATCH):
            encoded = self.tokenizer(cased[start : start + BATCH], **options)
            tokens = {
                k: encoded[k] for k in ("input_ids", "attention_mask") if k in encoded
            }
            with torch.inference_mode():
                parts.append(self.text.embed(self.model, tokens).float().cpu().numpy())
        vectors: npt.NDArray[np.float32] = np.concatenate(parts).astype(np.float32)
        # CLIP returns the vector of the end token, or of the first token if there is no end token.
        # Texts that differ in capitals only have the same tokens, and so the same vector.
        n_different = len(set(map(tuple, token_ids)))
        if n_different > 1 and (vectors == vectors[0]).all():
            cause = "the tokenizer does not mark the end of texts"
            problem = f"every text gets the same vector: {cause}"
            hint = "put the tokenizer of the same checkpoint beside the weights"
            raise FixInput(problem, hint=hint)
        return vectors


def load_text_tower(
    card: Card | str,
    weights: str | Path | None = None,
    *,
    workspace: Workspace | None = None,
    download: bool = True,
) -> TextModel:
    """Return the text model of a backbone.

    Args:
        card: A card, or its name.
        weights: A file or folder of weights; the tokenizer is beside them, or that of the hub. The
            default is the card's own checkpoint.
        workspace: The workspace whose own cards are found too.
        download: Download what is missing; without, nothing is loaded from the network.
    """
    if isinstance(card, str):
        card = find_card(card, workspace)
    own = own_text_tower(card)
    if own is not None:
        return own
    family = card.family
    if not isinstance(family, PretrainedFamily) or family.text is None:
        families_with_text = [
            name for name, each in FAMILIES.items() if getattr(each, "text", None)
        ]
        problem = f"{card.name} has no text model that obygaze can load"
        raise FixUsage(
            problem,
            hint=f"use a backbone of the families {', '.join(families_with_text)}",
        )
    files = find_weights(card, weights, download=download)
    family.inspect(card, files)
    if "text_config" not in (files.json_file("config.json") or {}):
        problem = "the checkpoint has no text model"
        hint = "use the whole checkpoint, as on the hub"
        raise FixInput(problem, where=str(files.folder / "config.json"), hint=hint)
    kind = family.model(family.text.model)
    model, hashes = load_strictly(kind, card, files, supported(kind, Placement()))
    claim = (
        (card.checkpoint, card.revision)
        if is_verified(card, files, hashes)
        else ("", "")
    )
    config = getattr(model.config, "text_config", model.config)
    words = _tokenizer(card, files, download=download and not offline())
    if len(words) > int(config.vocab_size):
        raise FixInput(
            f"the tokenizer has {len(words)} tokens, the tower {config.vocab_size}:"
            " they are of different checkpoints",
            where=files.origin,
            hint="put the tokenizer of the same checkpoint beside the weights",
        )
    space = space_id_of(*claim, hashes[TENSORS])
    model.eval().requires_grad_(False)
    return TextTower(
        family.text, model, words, int(config.max_position_embeddings), space
    )


def embed_prompts(tower: TextModel, prompts: PromptSet) -> TextTable:
    """Return the texts of a prompt set with their raw vectors, as a store keeps them.

    Args:
        tower: What `load_text_tower` returned.
        prompts: What `read_prompts` returned.
    """
    texts, templates, attributes = zip(*prompts.prompts, strict=True)
    return TextTable(tower.embed(texts), texts, templates, attributes, tower.space_id)


def _tokenizer(card: Card, files: WeightFiles, *, download: bool) -> Any:
    auto = library("models.auto.tokenization_auto").AutoTokenizer
    folder = files.folder
    here = any((folder / name).is_file() for name in _TOKENIZER_FILES)
    if not here and not (card.checkpoint and download):
        hint = "put tokenizer.json of the checkpoint there, as on the hub"
        raise NotFound("no tokenizer beside the weights", where=str(folder), hint=hint)
    source, options = (
        (str(folder), {}) if here else (card.checkpoint, {"revision": card.revision})
    )
    error = FixInput("this tokenizer cannot be read", where=source)
    return from_pretrained(auto, source, error, local_files_only=here, **options)


class LanguageModel:
    """A causal language model: the mean probability it gives to the tokens of a text."""

    def __init__(self, name: str) -> None:
        self.model, self.tokenizer = _load(name)
        ends = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id)
        boundary_tokens = [token for token in ends if token is not None]
        if not boundary_tokens:
            raise FixInput(
                "this language model has no token for the start of a text", where=name
            )
        self.begin = boundary_tokens[0]
        self.end = boundary_tokens[-1]

    def prior(self, text: str) -> float:
        """Return the arithmetic mean of the probabilities of all tokens, the end included.

        The text begins with the model's start token, so that its first word has a probability too.
        """
        import torch

        words = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        n_tokens = len(words) + 2
        most = _positions(self.model)
        if most is not None and n_tokens > most:
            raise FixInput(
                f"{n_tokens} tokens, the language model takes {most}: {text[:60]!r}",
                hint="shorten this caption, or use another --lm",
            )
        ids = torch.tensor([[self.begin, *words, self.end]])
        with torch.inference_mode():
            logits = self.model(input_ids=ids).logits[0, :-1].double()
        chosen = torch.softmax(logits, dim=-1).gather(1, ids[0, 1:, None])
        return float(chosen.mean())


class SentenceEncoder:
    """Computes a vector of each text, by the library sentence-transformers.

    The files of a model say how the vectors of its tokens become one. Code in them is never run.
    """

    def __init__(self, name: str) -> None:
        package = need("sentence_transformers", "captions", "comparing captions")
        source, is_local, error = _source(name)
        options = {"device": "cpu", "trust_remote_code": False}
        if not is_local:
            options |= {"cache_folder": str(cache_folder())}
        with silenced():
            try:
                self.model = package.SentenceTransformer(
                    source, local_files_only=is_local or offline(), **options
                )
            except Exception as reason:
                # Every exception here means that the files are wrong or cannot be reached.
                raise with_reason(error, reason) from reason

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return vectors of length one."""
        vectors = self.model.encode(
            list(texts), batch_size=SENTENCES, show_progress_bar=False
        ).astype(np.float64)
        unit: npt.NDArray[np.float64] = vectors / np.linalg.norm(
            vectors, axis=1, keepdims=True
        )
        return unit

    def similarity(self, texts: Sequence[str], others: Sequence[str]) -> list[float]:
        """Return the cosine of each text with the other text of its pair."""
        unique = list(dict.fromkeys([*texts, *others]))
        row = dict(zip(unique, self.embed(unique), strict=True))
        pairs = zip(texts, others, strict=True)
        return [float(row[text] @ row[other]) for text, other in pairs]


def _positions(model: Any) -> int | None:
    """Return the most tokens that a model has positions for; None if it does not say."""
    most = getattr(model.config, "max_position_embeddings", None)
    return most if isinstance(most, int) and most > 0 else None


def _source(name: str) -> tuple[str, bool, NotFound]:
    """Return the folder or the name of a model, whether it is a folder, and what to raise."""
    folder = Path(name).expanduser()
    is_local = folder.is_dir()
    is_name = "\\" not in name and name.count("/") <= 1
    if not is_local and (not is_name or name.startswith((".", "~", "/"))):
        raise NotFound("no such model folder", where=str(folder))
    source = str(folder) if is_local else name
    hint = "use a folder with the files of the hub, or a name of the hub with a network"
    error = NotFound("this model cannot be loaded", where=source, hint=hint)
    return source, is_local, error


def _load(name: str) -> tuple[Any, Any]:
    """Return a language model and its tokenizer."""
    need("torch", "extract", "scoring captions")
    models = library("models.auto.modeling_auto")
    words = library("models.auto.tokenization_auto")
    source, is_local, error = _source(name)
    options = {
        "local_files_only": is_local or offline(),
        "cache_dir": str(cache_folder()),
    }
    model = from_pretrained(models.AutoModelForCausalLM, source, error, **options)
    tokenizer = from_pretrained(words.AutoTokenizer, source, error, **options)
    return model.eval(), tokenizer
