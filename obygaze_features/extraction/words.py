"""`extract words`: make a store of vectors of the spoken words of clips.

Only subtitles are read, so the store is written in one step, like an imported store, and not block
by block. No file of the store contains a word of the subtitles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.card import Card
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.text import TextTower, load_text_tower
from obygaze_features.core.console import ProgressBars, count, few, progress_bars
from obygaze_features.core.cues import n_words
from obygaze_features.core.machine import cpu_name, usable_cores
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.compute import clip_threads
from obygaze_features.extraction.recipes import made_here
from obygaze_features.extraction.subtitles import ClipTexts, words_of_clips
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.own_labels import first_command
from obygaze_features.store.card import Terms
from obygaze_features.store.importing import Imported
from obygaze_features.store.layout import N_WORDS, Array
from obygaze_features.store.making import new_store, write_store
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import ManifestMark
from obygaze_features.store.rows import OK, Row, RowColumns

# The remark on a clip without words, which has the vector of the empty text.
NOTHING_SAID = "no words"
# This number is raised with any change that could give other words for the same subtitles.
DECODER_RULE = 1
PACKAGES = ("numpy", "tokenizers", "torch", "transformers")
# More than an eighth of the words of English texts are in this set, and few words of texts in other
# languages.
ENGLISH = frozenset(
    [
        *("the", "you", "and", "it", "that", "this", "what", "my", "your", "he", "she"),
        *("not", "are", "with", "they", "there", "but", "know", "just"),
        *("don't", "i'm", "it's"),
    ]
)
LEAST_ENGLISH = 0.07
# The number of words that are needed to recognise a language.
FEWEST_WORDS = 100
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


@dataclass(frozen=True)
class WordRows:
    """The rows of a store of words: a source of `write_store`."""

    rows: RowColumns
    values: Mapping[str, npt.NDArray[Any]]

    def columns(self) -> RowColumns:
        """Return the facts of all rows of the new store, as columns."""
        return self.rows

    def read(self, array: Array, first: int, after: int) -> npt.NDArray[Any]:
        """Return the rows of an array from number `first` to number `after - 1`."""
        return self.values[array.name][first:after]


def extract_words(
    manifest: PathLike | Manifest,
    backbone: str,
    subtitles: PathLike,
    *,
    out: PathLike | None = None,
    weights: PathLike | None = None,
    meanings: Mapping[str, str] | None = None,
    progress: bool | ProgressBars = False,
    workspace: PathLike | None = None,
) -> Imported:
    """Make a store of vectors of the spoken words of clips.

    The subtitles are a folder with a file MOVIE_ID.srt or .vtt for each film; or a table of the
    texts of clips (clip_id, text); or the released table of MObyGaze. The text of a clip is every
    cue that overlaps the clip, each cue whole; the model reads a long text in pieces. A clip
    without words has the vector of the empty text. The store has the arrays clip and n_words, and
    contains no words.

    Args:
        manifest: The clips.
        backbone: Name of a model of words, or of a backbone with a text model.
        subtitles: Source of the spoken words.
        out: Name or folder of the new store.
        weights: File or folder of weights, with the tokenizer. The default is from a package or
            the hub.
        meanings: NA=? if a text NA of the table means none, NA=NA if it is a text.
        progress: Whether to show a progress bar on stderr.
        workspace: The workspace, if it is not the current one.
    """
    here = Workspace.of(workspace)
    clips = read_manifest(manifest, workspace=workspace)
    card = find_card(backbone, here)
    name = f"{clips.name}.{card.name}"
    if card.family.medium != "words":
        # The plain name belongs to the store of pictures or sound.
        name = f"{name}-words"
    target = new_store(here, name if out is None else out)
    words = words_of_clips(clips, str(subtitles), meanings)
    weights_path = None if weights is None else str(weights)
    tower = load_text_tower(card, weights_path, workspace=here)
    source = _make_rows(clips, words, tower, progress_bars(progress, "texts"))
    rows = source.rows
    arrays = []
    for array, values in source.values.items():
        arrays.append(Array.of(array, str(values.dtype), values.shape[1:]))
    written = write_store(
        target,
        source,
        arrays=arrays,
        recipe=Recipe.of(
            sampling={"medium": "words", "rule": words.rule},
            decoder={"name": "subtitles", "rule": DECODER_RULE},
            **tower.recipe(),
        ),
        manifest=ManifestMark(clips.name, rows.clips_sha256),
        makers=[made_here("cpu", cpu_name(), "float32", PACKAGES)],
        origins=words.origins,
        terms=Terms(clips.header.licence, clips.header.citation),
    )
    remarks = []
    n_of_words = source.values[N_WORDS]
    n_without_words = int(np.sum(n_of_words == 0)) - len(words.failures)
    if n_without_words:
        remarks.append(f"{count(n_without_words, 'clip')} without words")
    if words.unused:
        named = few(words.unused, 3)
        remarks.append(f"not read, because the manifest does not contain them: {named}")
    if words.in_other_spelling:
        named = few(words.in_other_spelling, 3)
        remarks.append(f"files with the film's name in another spelling: {named}")
    return Imported(
        path=written.path,
        seal=written.seal,
        n_clips=len(rows),
        arrays={array.name: array.shape for array in arrays},
        failed={clip: str(failure) for clip, failure in words.failures.items()},
        not_in_manifest=[],
        remarks=remarks,
        next_command=first_command(clips, clips.name, [written.path.name]),
        warnings=_in_another_language(card, words.texts.values()),
    )


def _in_another_language(card: Card, texts: Iterable[str]) -> list[str]:
    """Return a warning if a model that reads only English gets texts in another language.

    Such texts are recognised by their small share of common English words.
    """
    if card.language != "English":
        return []
    words = _WORD.findall(" ".join(texts).lower().replace("’", "'"))
    n_english = sum(word in ENGLISH for word in words)
    if len(words) < FEWEST_WORDS or n_english >= LEAST_ENGLISH * len(words):
        return []
    return [
        f"{card.label} reads English only, and the subtitles seem to be in a different language;"
        " use minilm-multilingual, which reads 50 languages"
    ]


def _make_rows(
    manifest: Manifest, words: ClipTexts, tower: TextTower, bars: ProgressBars
) -> WordRows:
    """Return the rows of all clips, with the vectors of clips whose words are known."""
    rows = []
    texts = []
    rows_of_texts = []
    for number, clip in enumerate(manifest):
        row = Row.of_clip(clip)
        text = words.texts.get(clip.clip_id)
        if text is None:
            failure = words.failures[clip.clip_id]
            row = row._replace(status=failure.status, reason=failure.reason)
        else:
            remark = "" if n_words(text) else NOTHING_SAID
            row = row._replace(status=OK, reason=remark)
            texts.append(text)
            rows_of_texts.append(number)
        rows.append(row)
    with bars("words", len(texts)) as bar, clip_threads(usable_cores()) as threads:
        vectors = tower.embed_long(texts, bar, threads)
    values = {
        "clip": np.zeros((len(rows), vectors.shape[1]), np.float32),
        N_WORDS: np.zeros(len(rows), np.int32),
    }
    values["clip"][rows_of_texts] = vectors
    values[N_WORDS][rows_of_texts] = [n_words(text) for text in texts]
    return WordRows(RowColumns.of(rows), values)
