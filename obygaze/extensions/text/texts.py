"""Write embedded prompts to a store or a file; add prior and similarity to a captions table."""

import io
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.text import (
    LanguageModel,
    SentenceEncoder,
    embed_prompts,
    load_text_tower,
    read_prompts,
)
from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
)
from obygaze_features.core.file_names import file_name
from obygaze_features.core.files import csv_bytes, write_new
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.options import Option
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.tables import read_table
from obygaze_features.store import StoreWriter, TextTable
from obygaze_features.store.format.recipe import same_space, space_of_level
from obygaze_features.store.format.records import Plan

MASK = "[MASK]"
MASK_WORDS = ("man", "woman")


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
        places = " and ".join(self.written)
        return f"{n_texts} texts of {width} numbers: {names}\nin {places}"

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
    backbone: Annotated[str, Option("-b", metavar="NAME")],
    prompts: Annotated[str | Path, Option("--prompts", metavar="SET")],
    *,
    store: Annotated[str | Path | None, Option(metavar="STORE")] = None,
    out: Annotated[str | Path | None, Option("-o", is_file=True)] = None,
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
        prompts: emotion, emotion-contrast, person, profession, or TOML.
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


def add_texts(store: Path, table: TextTable) -> Path:
    """Add texts to a store of the same embedding space, once, before the store is sealed."""
    if not (store / Plan.FILE).is_file():
        raise NotFound(
            "no store here", where=str(store), hint="obygaze store ls lists the stores"
        )
    writer = StoreWriter(store)
    recipe = writer.plan.recipe
    spaces = []
    for level in recipe.to_json().get("levels", []):
        with suppress(Mismatch):
            spaces.append(space_of_level(recipe, level))
    if not spaces:
        raise Mismatch(
            "no level of this store can be compared with texts",
            where=str(store),
            hint="use a store of a backbone with a text model, such as clip-b16",
        )
    known = [space for space in spaces if space is not None]
    if known and not any(same_space(space, table.space_id) for space in known):
        raise Mismatch(
            "the texts are in another embedding space than the store's clips",
            where=str(store),
            hint="use the backbone and weights of the store",
            details=[f"clips: {known[0]}", f"texts: {table.space_id}"],
        )
    try:
        writer.add_text(table)
    except AlreadyThere as error:
        hint = "-o FILE.npz instead of --store, and --text FILE.npz with the audit"
        raise AlreadyThere(error.what, where=error.where, hint=hint) from error
    return store


def write_texts(path: Path, table: TextTable, *, force: bool = False) -> Path:
    """Write a table of texts as an npz file, with the names of a store's arrays."""
    stream = io.BytesIO()
    arrays: dict[str, Any] = {
        name: np.asarray(value) for name, value in vars(table).items()
    }
    np.savez(stream, **arrays)
    write_new(path, stream.getvalue(), force=force)
    return path


def score_captions(
    table: str | Path,
    out: Annotated[str | Path, Option("-o", is_file=True)],
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
    path = Path(out)
    if path.resolve() == Path(table).resolve():
        raise FixUsage("-o must not be the input table")
    language_model = LanguageModel(lm) if isinstance(lm, str) else lm
    encoder = SentenceEncoder(sim) if isinstance(sim, str) else sim
    captions = read_table(Path(table), required=("caption", "visual"))
    if not captions.rows:
        raise FixInput(
            "the table has no captions (no row after the header)", where=str(table)
        )
    endings = [""]
    if any(MASK in row["caption"] for row in captions.rows):
        endings = [f"_{word}" for word in MASK_WORDS]
    new_columns = []
    for ending in endings:
        new_columns += [f"lm{ending}", f"sim{ending}"]
    for column in new_columns:
        if column in captions.columns:
            raise FixInput(
                f"the table already has a column {column!r}",
                where=str(table),
                hint="rename or remove the column",
            )
    visual = [row["visual"] for row in captions.rows]
    scores: dict[str, list[float]] = {}
    for ending in endings:
        word = ending.lstrip("_")
        texts = [row["caption"].replace(MASK, word) for row in captions.rows]
        priors = {text: language_model.prior(text) for text in dict.fromkeys(texts)}
        scores[f"lm{ending}"] = [priors[text] for text in texts]
        scores[f"sim{ending}"] = encoder.similarity(texts, visual)
    rows = []
    for number, row in enumerate(captions.rows):
        row_scores = [repr(scores[column][number]) for column in new_columns]
        rows.append([*row.cells.values(), *row_scores])
    write_new(path, csv_bytes([*captions.columns, *new_columns], rows), force=force)
    return ScoredCaptions(len(captions.rows), path)
