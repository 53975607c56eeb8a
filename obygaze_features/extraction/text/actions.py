"""Embed prompts in the space of clips, and score captions with language models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from obygaze_features.backbones.cards import find_card
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.file_names import file_name
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.options import Option
from obygaze_features.core.workspace import Workspace

if TYPE_CHECKING:
    from obygaze_features.backbones.text import LanguageModel, SentenceEncoder
    from obygaze_features.store import TextTable


@dataclass(frozen=True, repr=False)
class EmbeddedTexts:
    """Prompts in the space of clips, and the store and the file that they were written to."""

    table: TextTable
    written: tuple[str, ...]

    @property
    def attributes(self) -> list[str]:
        """Return the attributes of the prompts, each once."""
        return list(dict.fromkeys(self.table.attribute))

    def to_json(self) -> dict[str, Any]:
        """Return the size of the vectors, their attributes and space, and where they are."""
        n_texts, width = self.table.embeddings.shape
        return {
            "texts": n_texts,
            "width": width,
            "attributes": self.attributes,
            "space_id": self.table.space_id,
            "written": list(self.written),
        }

    def __str__(self) -> str:
        n_texts, width = self.table.embeddings.shape
        names = ", ".join(self.attributes)
        paths = " and ".join(self.written)
        return f"{n_texts} texts of {width} numbers: {names}\nin {paths}"

    def __repr__(self) -> str:
        return short_repr("EmbeddedTexts", *self.written)


@dataclass(frozen=True)
class ScoredCaptions:
    """How many captions were scored, and the table that was written."""

    n_captions: int
    written: Path

    @property
    def notes(self) -> list[str]:
        """Return what was written."""
        return [f"wrote {self.n_captions} captions to {self.written}"]

    def to_json(self) -> dict[str, Any]:
        """Return the number of captions, and the table."""
        return {"captions": self.n_captions, "written": str(self.written)}

    def __str__(self) -> str:
        return ""  # the table is the result


def embed_texts(
    backbone: Annotated[str, Option("-b --backbone", metavar="NAME")],
    prompts: Annotated[str | Path, Option("--prompts", metavar="SET")],
    *,
    store: Annotated[str | Path | None, Option(metavar="STORE")] = None,
    out: Annotated[str | Path | None, Option("-o --output", is_file=True)] = None,
    weights: Annotated[str | Path | None, Option(metavar="PATH")] = None,
    force: bool = False,
    workspace: str | Path | None = None,
) -> EmbeddedTexts:
    """Embed prompts in the space of a backbone's clips.

    The vectors are the output of the backbone's text model, not normalised, with the name of the
    embedding space. Those of X-CLIP are taken before its video prompts, so they are the same for
    every clip. Texts can be added to a store until it is sealed.

    Args:
        backbone: A backbone with a text model.
        prompts: emotion, emotion-contrast, person, profession; wolfe2023-emotion, -maps or
            -profession; or TOML.
        store: Add them to a store that is not sealed.
        out: An npz file. [default: texts/BACKBONE.SET.npz]
        weights: Weights and tokenizer. [default: the hub's]
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze extract text -b clip-b16 --prompts emotion --store obygaze12.clip-b16
        obygaze extract text -b xclip-b16-k600-zs --prompts my-prompts.toml -o texts.npz
        obygaze extract text -b clip-b16 --prompts person --weights folder --json
    """
    from obygaze_features.backbones.text import (
        embed_prompts,
        load_text_tower,
        read_prompts,
    )
    from obygaze_features.extraction.text.texts import add_texts, write_texts

    chosen_workspace = Workspace.of(workspace)
    folder = None
    if store is not None:
        folder = Path(chosen_workspace.existing_store(str(store)))
    prompt_set = read_prompts(str(prompts))
    path_of_weights = None if weights is None else str(weights)
    tower = load_text_tower(backbone, path_of_weights, workspace=chosen_workspace)
    table = embed_prompts(tower, prompt_set)
    written = []
    if folder is not None:
        written.append(str(add_texts(folder, table)))
    if out is not None or folder is None:
        name = prompt_set.name or Path(prompts).stem
        path = Path(out or _texts_file(backbone, name, chosen_workspace))
        written.append(str(write_texts(path, table, force=force)))
    return EmbeddedTexts(table, tuple(written))


def _texts_file(backbone: str, prompt_set: str, workspace: Workspace) -> Path:
    """Return the file in the workspace for a backbone's vectors of a set of prompts."""
    label = find_card(backbone, workspace).label.replace("@", "-")
    return workspace.folder("texts") / f"{label}.{file_name(prompt_set)}.npz"


def score_captions(
    table: str | Path,
    out: Annotated[str | Path, Option("-o --output", is_file=True)],
    lm: Annotated[str | LanguageModel, Option("--lm", metavar="MODEL")],
    sim: Annotated[str | SentenceEncoder, Option("--sim", metavar="MODEL")],
    *,
    force: bool = False,
) -> ScoredCaptions:
    """Score captions with language models.

    Adds the prior of each caption and its similarity to the visual word, which `obygaze audit
    gender-score` needs. TABLE has the columns caption and visual (the word for what is seen).
    Captions with [MASK] are scored with "man" and with "woman" in its place.

    Args:
        table: A CSV file with the columns caption and visual.
        out: The table to write.
        lm: Causal language model: folder or name.
        sim: Sentence encoder: folder or name.
        force: Replace the output if it exists.

    Commands:
        obygaze extract captions captions.csv --sim sentence-transformers/all-mpnet-base-v2 \\
            --lm gpt2 -o filled.csv
        obygaze extract captions captions.csv --lm models/gpt2 --sim models/sbert -o filled.csv
    """
    from obygaze_features.backbones.text import LanguageModel, SentenceEncoder
    from obygaze_features.extraction.text.texts import score_table

    path = Path(out)
    if path.resolve() == Path(table).resolve():
        raise FixUsage("-o must not be the input table")
    language_model = LanguageModel(lm) if isinstance(lm, str) else lm
    encoder = SentenceEncoder(sim) if isinstance(sim, str) else sim
    n_captions = score_table(Path(table), path, language_model, encoder, force=force)
    return ScoredCaptions(n_captions, path)
