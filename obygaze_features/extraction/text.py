"""Texts: prompts in the space of a backbone's clips, and captions scored by language models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features.backbones.cards import find_card
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.file_names import file_name
from obygaze_features.core.files import csv_bytes, refuse_spreadsheet_name, write_new
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import TableRow, read_table
from obygaze_features.core.workspace import PathLike, Workspace

if TYPE_CHECKING:
    from obygaze_features.backbones.captions import LanguageModel, SentenceEncoder

CAPTION_MASK = re.compile(r"\[mask\]", re.IGNORECASE)
MASK_WORDS = ("man", "woman")


@dataclass(frozen=True)
class WrittenTexts:
    """The file to which texts were written, facts on the texts, and these facts in words."""

    facts: Mapping[str, Any]
    words: str
    written: Path

    def to_json(self) -> dict[str, Any]:
        """Return the facts, and where the texts are."""
        return {**self.facts, "written": str(self.written)}

    def __str__(self) -> str:
        return f"{self.words}\nin {self.written}"


# --- Prompts ---


def embed_texts(
    backbone: str,
    prompts: PathLike,
    *,
    out: PathLike | None = None,
    weights: PathLike | None = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> WrittenTexts:
    """Compute vectors of prompts, in the embedding space of a backbone.

    The vectors are the output of the text model of the backbone, not normalised. The file also
    contains the name of the embedding space. Vectors of X-CLIP are taken before its video prompts,
    so they are the same for every clip.

    Args:
        backbone: Name of a backbone with a text model.
        prompts: Set of prompts: emotion, emotion-contrast, person, profession, wolfe2023-emotion,
            wolfe2023-maps, wolfe2023-profession, or a TOML file.
        out: New .npz file; by default texts/BACKBONE.SET.npz.
        weights: File or folder of weights, with the tokenizer; by default from the hub.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    from obygaze_features.backbones.text import (
        embed_prompts,
        load_text_tower,
        read_prompts,
    )
    from obygaze_features.store.texts import write_texts

    here = Workspace.of(workspace)
    prompt_set = read_prompts(str(prompts))
    path_of_weights = None if weights is None else str(weights)
    tower = load_text_tower(backbone, path_of_weights, workspace=here)
    table = embed_prompts(tower, prompt_set)
    if out is None:
        label = find_card(backbone, here).label.replace("@", "-")
        name = file_name(prompt_set.name or Path(prompts).stem)
        out = here.folder("texts") / f"{label}.{name}.npz"
    written = write_texts(Path(out), table, force=force)
    n_texts, width = table.embeddings.shape
    attributes = list(dict.fromkeys(table.attribute))
    facts = {
        "texts": n_texts,
        "width": width,
        "attributes": attributes,
        "space_id": table.space_id,
    }
    words = (
        f"{n_texts} texts, each a vector of {width} numbers; attributes:"
        f" {', '.join(attributes)}"
    )
    return WrittenTexts(facts, words, written)


# --- Captions ---


def score_captions(
    table: PathLike,
    out: PathLike,
    lm: str | LanguageModel,
    sim: str | SentenceEncoder,
    *,
    force: bool = False,
) -> WrittenTexts:
    """Write a table of captions with their scores by language models.

    The scores are the prior of each caption and its similarity to the visual word, a word for the
    content of the picture. `og.audit.gender_score` needs both. A caption with [MASK] has scores
    with "man" and with "woman" in its place. The columns lm_model and sim_model have the
    name of each model, and the start of a hash of its weights and settings.

    Args:
        table: Table with the columns caption and visual (the visual word).
        out: New CSV file with the columns of TABLE and the scores.
        lm: Causal language model: a folder, or a name on the hub.
        sim: Sentence encoder: a folder, or a name on the hub.
        force: Replace the output if it exists.
    """
    from obygaze_features.backbones.captions import LanguageModel, SentenceEncoder

    path = Path(out)
    if path.resolve() == Path(table).resolve():
        raise FixUsage("-o must not be the input table")
    refuse_spreadsheet_name(path)
    violations = Violations(Path(table))
    columns_of_texts = ("caption", "visual")
    captions = read_table(
        Path(table),
        required=columns_of_texts,
        violations=violations,
        content="captions",
    )
    for row in captions.rows:
        for column in columns_of_texts:
            if not row[column].strip():
                row.add(column, "the cell is empty, and a similarity needs both texts")
    violations.raise_if_any("these captions cannot be scored")
    endings = [""]
    if any(CAPTION_MASK.search(row["caption"]) for row in captions.rows):
        endings = [f"_{word}" for word in MASK_WORDS]
    new_columns = []
    for ending in endings:
        new_columns += [f"lm{ending}", f"sim{ending}"]
    models = ["lm_model", "sim_model"]
    columns = captions.filled_columns
    for column in (*new_columns, *models):
        if column in columns:
            raise FixInput(
                f"the table already has a column {column!r}",
                where=str(table),
            )
    language_model = LanguageModel(lm) if isinstance(lm, str) else lm
    encoder = SentenceEncoder(sim) if isinstance(sim, str) else sim
    scores = _scores(captions.rows, endings, language_model, encoder)
    rows = []
    for number, row in enumerate(captions.rows):
        row_scores = [repr(scores[column][number]) for column in new_columns]
        labels = [language_model.label, encoder.label]
        rows.append([*(row[column] for column in columns), *row_scores, *labels])
    header = [*columns, *new_columns, *models]
    write_new(path, csv_bytes(header, rows), force=force)
    words = count(len(rows), "scored caption")
    return WrittenTexts({"captions": len(rows)}, words, path)


def _scores(
    rows: Sequence[TableRow],
    endings: Sequence[str],
    lm: LanguageModel,
    encoder: SentenceEncoder,
) -> dict[str, list[float]]:
    """Return the columns of scores: for each ending, the priors and the similarities."""
    visual = [row["visual"] for row in rows]
    scores: dict[str, list[float]] = {}
    for ending in endings:
        word = ending.lstrip("_")
        texts = [CAPTION_MASK.sub(word, row["caption"]) for row in rows]
        priors = {text: lm.prior(text) for text in dict.fromkeys(texts)}
        scores[f"lm{ending}"] = [priors[text] for text in texts]
        scores[f"sim{ending}"] = encoder.similarity(texts, visual)
    return scores
