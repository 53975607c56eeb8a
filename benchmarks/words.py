"""Words to vectors: CPU seconds and tokens a second of MiniLM, beside sentence-transformers.

The texts are made up, in the form of MObyGaze's: some segments say nothing, most some sentences, a
few more than the model takes at once. sentence-transformers cuts those off; obygaze reads them
whole, so that each is measured by the tokens that it read. torch has one thread: what more of them
wait for each other is CPU time, too.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.text import TextTower, load_text_tower
from obygaze_features.backbones.weights import find_weights
from obygaze_features.core.console import Quiet, table
from obygaze_features.core.lazy import import_optional
from obygaze_features.core.machine import this_machine
from obygaze_features.extraction.compute import clip_threads

N_TEXTS = 6_072
N_ALONE = 300
SILENT = 0.2
# Of the words of a segment in which something is said.
MEDIAN_WORDS = 14
SPREAD = 1.1
BATCH = 32
PACKAGES = ("torch", "transformers", "sentence-transformers")


def texts_of(n_texts: int, tower: TextTower) -> list[str]:
    """Return made-up texts of English words, which are those that the model has a token for."""
    rng = np.random.default_rng(0)
    tokens = sorted(tower.tokenizer.get_vocab())
    words = [token for token in tokens if token.isascii() and token.isalpha()]
    vocabulary = rng.permutation(words)[:2_000]
    shares = 1 / np.arange(1, len(vocabulary) + 1)
    texts = []
    for number in range(n_texts):
        n_words = int(MEDIAN_WORDS * np.exp(SPREAD * rng.normal()))
        said = rng.choice(vocabulary, n_words, p=shares / shares.sum())
        texts.append("" if rng.random() < SILENT else f"{number} {' '.join(said)}")
    return texts


def measure(quick: bool) -> str:
    """Return the table of CPU seconds and tokens a second."""
    tower = load_text_tower("minilm")
    texts = texts_of(60 if quick else N_TEXTS, tower)
    alone = texts[: 20 if quick else N_ALONE]
    folder = find_weights(find_card("minilm")).folder
    theirs = _sentence_transformer(folder)
    most = int(theirs.max_seq_length)

    short = [text for text in texts if len(text.split()) < most // 3]
    with clip_threads(1) as threads:

        def embed(some: Sequence[str]) -> NDArray[np.float32]:
            return tower.embed_long(some, Quiet(), threads)

        def each_alone() -> None:
            for text in alone:
                embed([text])

        def in_batches() -> None:
            theirs.encode(texts, batch_size=BATCH)

        rows = [
            _row("obygaze", lambda: embed(texts), tower, texts),
            _row("obygaze, one by one", each_alone, tower, alone),
            _row("sentence-transformers", in_batches, tower, texts, most),
        ]
        difference = embed(short) - theirs.encode(short, batch_size=BATCH)
    apart = float(np.abs(difference).max())
    headers = ["", "texts", "tokens", "CPU s", "wall s", "tokens a CPU s"]
    return (
        f"{table(headers, rows)}\n\nShort texts differ by {apart:.1e} at most."
        f" {this_machine(PACKAGES).line()}"
    )


def _sentence_transformer(folder: Path) -> Any:
    package = import_optional("sentence_transformers", "captions", "this comparison")
    return package.SentenceTransformer(str(folder), device="cpu")


def _row(
    name: str,
    work: Callable[[], object],
    tower: TextTower,
    texts: Sequence[str],
    most: int | None = None,
) -> list[object]:
    """Return the measured row of one way; equal texts are read once, but they are few."""
    n_tokens = 0
    for ids in tower.token_ids(texts):
        n_tokens += len(ids) if most is None else min(len(ids), most)
    before = (time.process_time(), time.perf_counter())
    work()
    cpu_s = time.process_time() - before[0]
    wall_s = time.perf_counter() - before[1]
    rate = n_tokens / max(cpu_s, 1e-6)
    figures = [f"{cpu_s:.1f}", f"{wall_s:.1f}", f"{rate:.0f}"]
    return [name, len(texts), n_tokens, *figures]
