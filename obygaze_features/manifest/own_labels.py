"""What `--task` can ask of the columns of a person's own, as it is typed."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence

from obygaze_features.core.console import count
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.shell import shell_line, shell_word
from obygaze_features.manifest.expression import NUMBER
from obygaze_features.manifest.model import Clip, Manifest, own_columns

# The words of a column of yes and no; the first of them is positive.
YES_AND_NO = (("yes", "no"), ("true", "false"), ("1", "0"))
MOST_WORDS = 12  # of a column that becomes a task for each word
MOST_COUNTED = 6  # of a column whose words are counted in a line
# A column with this many numbers for each other word is one of numbers.
MOST_NUMBERS = 4


def counted_words(clips: Sequence[Clip], column: str) -> str:
    """Return how many clips have each word of a column, if it has few words, each several times."""
    n_of_word = Counter("|".join(clip.values(column)) for clip in clips)
    n_empty = n_of_word.pop("", 0)
    if n_of_word.total() < 2 or len(n_of_word) > min(MOST_COUNTED, len(clips) / 2):
        return ""
    counts = [f"{word}: {n}" for word, n in sorted(n_of_word.items())]
    if n_empty:
        counts.append(f"empty: {n_empty}")
    return ", ".join(counts)


def column_words(clips: Sequence[Clip], column: str) -> str:
    """Return what a column has: its words with their counts, its numbers, or how many texts."""
    counted = counted_words(clips, column)
    if counted:
        return counted
    cells: list[str] = []
    n_empty = 0
    for clip in clips:
        of_clip = clip.values(column)
        cells += of_clip
        n_empty += not of_clip
    empty = f", empty: {n_empty}" if n_empty else ""
    if cells and all(map(NUMBER.fullmatch, cells)):
        return f"numbers from {min(cells, key=float)} to {max(cells, key=float)}{empty}"
    return f"{count(len(set(cells)), 'text')}{empty}"


def words_alike(clips: Sequence[Clip]) -> list[str]:
    """Return a sentence on words of a column that differ by accents, blanks or such alone."""
    sentences = []
    columns = own_columns(clips[0].extra) if clips else ()
    for column in columns:
        words: set[str] = set()
        for clip in clips:
            words.update(clip.values(column))
        if len(words) > MOST_WORDS:
            continue
        alike: dict[str, list[str]] = defaultdict(list)
        for word in sorted(words):
            alike[ascii_id(word).casefold()].append(word)
        for group in alike.values():
            if len(group) > 1:
                sentences.append(
                    f"the column {column} has {' and '.join(map(repr, group))}, which count as"
                    " different words: write them alike if they mean the same"
                )
    return sentences


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
