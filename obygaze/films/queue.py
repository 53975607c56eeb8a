"""Clips to be judged one after another, in recorded orders and in arms drawn at random.

A queue is drawn once for an annotator and kept in `segments/MANIFEST.NAME.queue.csv`. Each clip has
an order, by which it was chosen, and an arm: in the arm `assisted` the page shows what a model
suggests, in the arm `blind` it does not. Arms are drawn at random, so that the difference between
them is what the suggestion does to the annotator, and not which clips it was shown for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import csv_bytes, locked, write_atomic
from obygaze_features.manifest.tables import read_table

# By chance; nearest to the cut-off of a model; where most models and fits contradict each other;
# least like those before.
ORDERS = ("random", "uncertain", "disagreed", "diverse")
BLIND = "blind"
ASSISTED = "assisted"


@dataclass(frozen=True)
class Suggestion:
    """What a model says of a clip: its levels on the side of the decision, and on the other one.

    Levels are joined with '|'.
    """

    model: str
    score: float
    suggested: str
    otherwise: str


@dataclass(frozen=True)
class QueuedClip:
    """A clip of a queue; without a suggestion the last four are empty."""

    clip_id: str
    movie_id: str
    order: str
    arm: str
    model: str = ""
    score: str = ""
    suggested: str = ""
    otherwise: str = ""


COLUMNS = tuple(field.name for field in fields(QueuedClip))


def is_judgement(cells: Mapping[str, str]) -> bool:
    """Return whether the further cells of a mark are those of a clip that was judged in a queue.

    A table of marks may have a column of somebody else that is called `order` too.
    """
    names = ("clip_id", "suggested", "otherwise", "seconds")
    return cells.get("order") in ORDERS and all(name in cells for name in names)


def random_order(clip_ids: Sequence[str], generator: np.random.Generator) -> list[str]:
    """Return clips in a random order."""
    return [clip_ids[place] for place in generator.permutation(len(clip_ids))]


def uncertain_order(scores: Mapping[str, float], cut_off: float) -> list[str]:
    """Return clips by the distance of their scores from the cut-off, the nearest first."""
    return sorted(scores, key=lambda clip: (abs(scores[clip] - cut_off), clip))


def disagreed_order(decisions: Mapping[str, Sequence[bool]]) -> list[str]:
    """Return clips by the share of decisions that most others contradict, the largest first."""

    def order(clip: str) -> tuple[float, str]:
        share = float(np.mean(decisions[clip]))
        return -min(share, 1 - share), clip

    return sorted(decisions, key=order)


def diverse_order(
    clip_ids: Sequence[str], vectors: NDArray[np.float64]
) -> Iterator[str]:
    """Yield the clip next to the mean, then always the one that is least like those before.

    Args:
        clip_ids: The clips.
        vectors: A vector of length 1 for each clip.
    """
    if not len(clip_ids):
        return
    place = int((vectors @ vectors.mean(axis=0)).argmax())
    likeness = np.full(len(clip_ids), -np.inf)
    for _ in clip_ids:
        yield clip_ids[place]
        likeness = np.maximum(likeness, vectors @ vectors[place])
        likeness[place] = np.inf
        place = int(likeness.argmin())


def draw_queue(
    rankings: Mapping[str, Sequence[str]],
    film_of: Mapping[str, str],
    suggestions: Mapping[str, Suggestion],
    generator: np.random.Generator,
) -> list[QueuedClip]:
    """Return the clips of all orders, in a random sequence of the orders, each clip once.

    Of each two clips that an order chose one after the other, one is in each arm. Clips without a
    suggestion are in the arm `blind`.

    Args:
        rankings: The clips of each order, the first to be watched first.
        film_of: The film of each clip.
        suggestions: What the model suggests, by clip.
        generator: The source of chance.
    """
    remaining = {order: iter(clips) for order, clips in rankings.items()}
    arm_of_next: dict[str, str] = {}
    queue: dict[str, QueuedClip] = {}
    while remaining:
        names = list(remaining)
        order = names[int(generator.integers(len(names)))]
        clip = next((clip for clip in remaining[order] if clip not in queue), None)
        if clip is None:
            del remaining[order]
            continue
        suggestion = suggestions.get(clip)
        if suggestion is None:
            queue[clip] = QueuedClip(clip, film_of[clip], order, BLIND)
            continue
        arm = arm_of_next.pop(order, "")
        if not arm:
            arms = (BLIND, ASSISTED)
            first = int(generator.integers(2))
            arm = arms[first]
            arm_of_next[order] = arms[1 - first]
        facts = asdict(suggestion) | {"score": f"{suggestion.score:.4f}"}
        queue[clip] = QueuedClip(clip, film_of[clip], order, arm, **facts)
    return list(queue.values())


def queue_path(table: Path) -> Path:
    """Return the file of the queue of an annotator, beside the table of the marks."""
    return table.with_suffix(".queue.csv")


def read_queue(path: Path) -> list[QueuedClip]:
    """Return the clips of a queue in their order; an error where the file is no queue."""
    table = read_table(path, required=COLUMNS, delimiter=",", skip_blank=True)
    queue = []
    for row in table.rows:
        for name, known in (("order", ORDERS), ("arm", (BLIND, ASSISTED))):
            if row[name] not in known:
                row.add(name, f"expected one of {', '.join(known)}, got {row[name]!r}")
        queue.append(QueuedClip(*(row[name] for name in COLUMNS)))
    if not queue:
        raise FixInput("this queue has no clips", where=str(path))
    table.rows[0].violations.raise_if_any("this queue cannot be read")
    return queue


def keep_queue(path: Path, queue: Sequence[QueuedClip]) -> None:
    """Write a queue; an error if there is one already."""
    if not queue:
        raise FixInput(
            "no clip can be in a queue: each needs a place in its film, and what the order asks for"
        )
    with locked(path.parent):
        if path.exists():
            raise FixUsage("there is a queue already", where=str(path))
        write_atomic(path, csv_bytes(COLUMNS, [astuple(clip) for clip in queue]))
