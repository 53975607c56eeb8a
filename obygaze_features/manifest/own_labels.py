"""Describe the user's own columns for `--task`, and suggest the command of an experiment."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from obygaze_features.core.console import count
from obygaze_features.core.shell import shell_line, shell_word
from obygaze_features.core.tables import is_number
from obygaze_features.manifest.model import Clip, Manifest, own_columns

# The words of yes-no columns; the first word is positive.
YES_AND_NO = (("yes", "no"), ("true", "false"), ("1", "0"))
MOST_WORDS = 12  # a column with more words cannot become a task per word
MOST_COUNTED = 6  # a column with more words is summarised as a number of texts
# A column of numbers has more than 4 numbers for each cell that is not a number.
MOST_NUMBERS = 4


def column_words(clips: Sequence[Clip], column: str) -> str:
    """Return the values of a column: words with counts, a range of numbers, or a count of texts."""
    values = [clip.values(column) for clip in clips]
    n_of_word = Counter(map("|".join, values))
    n_empty = n_of_word.pop("", 0)
    said = [f"empty: {n_empty}"] if n_empty else []
    most = min(MOST_COUNTED, len(clips) / 2)
    cells = list(chain.from_iterable(values))
    if n_of_word.total() > 1 and len(n_of_word) <= most:
        counts = [f"{word}: {n}" for word, n in sorted(n_of_word.items())]
        return ", ".join(counts + said)
    if cells and all(map(is_number, cells)):
        in_order = sorted(cells, key=float)
        return ", ".join([f"numbers from {in_order[0]} to {in_order[-1]}", *said])
    return ", ".join([count(len(set(cells)), "text"), *said])


def has_numbers(cells: Sequence[str]) -> bool:
    """Return whether most cells of a column are numbers; the others may be typing errors."""
    n_numbers = sum(map(is_number, cells))
    return n_numbers > MOST_NUMBERS * (len(cells) - n_numbers)


def even_limit(numbers: Sequence[str]) -> str:
    """Return the limit that splits numbers most evenly: below it, and from it upwards."""
    in_order = sorted(numbers, key=float)

    def unevenness(limit: str) -> int:
        n_below = bisect_left(in_order, float(limit), key=float)
        return abs(2 * n_below - len(in_order))

    # The smallest number would put all into one class; it is used only if all numbers are equal.
    above = [number for number in in_order if float(number) > float(in_order[0])]
    return min(above or in_order, key=unevenness)


def first_command(manifest: Manifest, place: str, stores: Sequence[str]) -> str:
    """Return the command of a first experiment, or without labels, of a prediction.

    Args:
        manifest: The manifest.
        place: The name or the file of the manifest, as it is typed.
        stores: The stores. The command of a prediction has only the first store.
    """
    has_labels = any(clip.level or clip.concepts for clip in manifest)
    if not has_labels and not own_columns(manifest.columns):
        return f"obygaze models predict MODEL {shell_word(stores[0])}"
    line = ["obygaze", "run", "honest", "--manifest", place]
    for store in stores:
        line += ["--store", store]
    if not any(clip.level for clip in manifest):
        line += ["--task", "COLUMN"]
    return shell_line(line)
