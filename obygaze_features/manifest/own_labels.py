"""What `--task` can ask of the columns of a person's own, as it is typed."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from obygaze_features.core.console import count
from obygaze_features.core.shell import shell_line, shell_word
from obygaze_features.manifest.expression import NUMBER
from obygaze_features.manifest.model import Clip, Manifest

# The words of a column of yes and no; the first of them is positive.
YES_AND_NO = (("yes", "no"), ("true", "false"), ("1", "0"))
MOST_WORDS = 12  # of a column that becomes a task for each word
MOST_COUNTED = 6  # of a column whose words are counted in a line
# A column with this many numbers for each other word is one of numbers.
MOST_NUMBERS = 4


def column_words(clips: Sequence[Clip], column: str) -> str:
    """Return what a column has: its words with their counts, its numbers, or how many texts."""
    values = [clip.values(column) for clip in clips]
    n_of_word = Counter(map("|".join, values))
    n_empty = n_of_word.pop("", 0)
    said = [f"empty: {n_empty}"] if n_empty else []
    most = min(MOST_COUNTED, len(clips) / 2)
    cells = list(chain.from_iterable(values))
    if n_of_word.total() > 1 and len(n_of_word) <= most:
        counts = [f"{word}: {n}" for word, n in sorted(n_of_word.items())]
        return ", ".join(counts + said)
    if cells and all(map(NUMBER.fullmatch, cells)):
        in_order = sorted(cells, key=float)
        return ", ".join([f"numbers from {in_order[0]} to {in_order[-1]}", *said])
    return ", ".join([count(len(set(cells)), "text"), *said])


def has_numbers(cells: Sequence[str]) -> bool:
    """Return whether a column is one of numbers, some of which may be typing errors."""
    n_numbers = sum(NUMBER.fullmatch(cell) is not None for cell in cells)
    return n_numbers > MOST_NUMBERS * (len(cells) - n_numbers)


def limit_of(numbers: Sequence[str]) -> str:
    """Return the number that parts the numbers of a column most evenly; some are below it."""
    in_order = sorted(numbers, key=float)

    def unevenness(limit: str) -> int:
        n_below = bisect_left(in_order, float(limit), key=float)
        return abs(2 * n_below - len(in_order))

    # The smallest number would make one class of all; there is no other if all are 1 and 01.
    above = [number for number in in_order if float(number) > float(in_order[0])]
    return min(above or in_order, key=unevenness)


def first_command(manifest: Manifest, place: str, stores: Sequence[str]) -> str:
    """Return the first experiment with vectors; of windows, how they are predicted.

    Args:
        manifest: The manifest.
        place: Its name or its file, as it is typed.
        stores: The stores, of which the first is predicted where rows are windows.
    """
    if manifest.header.unit == "window":
        return f"obygaze models predict MODEL {shell_word(stores[0])}"
    line = ["obygaze", "run", "honest", "--manifest", place]
    for store in stores:
        line += ["--store", store]
    if not any(clip.level for clip in manifest):
        line += ["--task", "COLUMN"]
    return shell_line(line)
