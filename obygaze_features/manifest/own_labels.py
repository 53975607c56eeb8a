"""What `--task` can ask of the columns of a person's own, as it is typed."""

import re
import shlex
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from obygaze_features.core.console import count
from obygaze_features.core.shell import shell_word
from obygaze_features.manifest.expression import NUMBER
from obygaze_features.manifest.model import Clip, Manifest, ascii_id, own_columns

# What `manifest project` writes of the mark that made a level: how much of the clip it covers.
COVERED = "covered"
# The columns of predictions and of `search`: what a model says of a clip is no label.
BASIS = "basis"
OF_PREDICTIONS = re.compile(
    r"(basis|decision|score|cosine)$|(p|score|margin|contribution):"
)
# The words of a column of yes and no; the first of them is positive.
YES_AND_NO = (("yes", "no"), ("true", "false"), ("1", "0"))
MOST_WORDS = 12  # of a column that becomes a task for each word
MOST_COUNTED = 6  # of a column whose words are counted in a line
# A column with this many numbers for each other word is one of numbers.
MOST_NUMBERS = 4


def own_tasks(clips: Sequence[Clip]) -> list[str]:
    """Return a task for each own column that may be a label; clips have the same columns."""
    return [task for _, task, _ in _ranked_tasks(clips)]


def label_columns(clips: Sequence[Clip]) -> list[str]:
    """Return the own columns that may be labels."""
    return [column for _, _, column in _ranked_tasks(clips)]


def _ranked_tasks(clips: Sequence[Clip]) -> list[tuple[int, str, str]]:
    """Return rank, task and column of each own column that may be a label, in their order.

    Yes or no and ratings come first, then ratings of which some cells are no numbers, which a run
    lists; then columns of other words, which may be remarks, and numbers with decimals, which may
    be lengths.
    """
    ranked: list[tuple[int, str, str]] = []
    columns = own_columns(clips[0].extra) if clips else []
    for column in columns:
        is_predicted = BASIS in columns and OF_PREDICTIONS.match(column)
        if column == COVERED or is_predicted:
            continue
        cells: list[str] = []
        values_of_film: dict[str, list[str]] = defaultdict(list)
        for clip in clips:
            of_clip = clip.values(column)
            cells += of_clip
            values_of_film[clip.movie_id] += set(of_clip)
        if not any(map(_may_be_labels, values_of_film.values())):
            continue
        words = sorted(set(cells))
        # What few clips have is a remark.
        are_labels = 2 * sum(bool(clip.values(column)) for clip in clips) > len(clips)
        if is_yes_and_no(words):
            ranked.append((0, column, column))
        elif has_numbers(cells):
            numbers = [cell for cell in cells if NUMBER.fullmatch(cell)]
            if len(set(map(float, numbers))) < 2:
                continue
            is_measure = any("." in cell for cell in numbers)
            rank = MOST_WORDS + 2 if is_measure else 1
            is_to_correct = len(numbers) < len(cells)
            task = f"{column}>={limit_of(numbers)}"
            ranked.append((rank + is_to_correct, task, column))
        elif are_labels and 2 < len(words) <= MOST_WORDS:
            ranked.append((len(words) + 1, column, column))
        elif are_labels and len(words) == 2:
            # The rarer word is most often what is looked for, and not its negation.
            rarer = min(reversed(words), key=cells.count)
            ranked.append((3, f"{column}={rarer}", column))
    return sorted(ranked, key=lambda one: one[0])


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


def first_command(manifest: Manifest, place: str, stores: Sequence[str]) -> str:
    """Return the first experiment with vectors; without labels, how they are predicted.

    Args:
        manifest: The manifest.
        place: Its name or its file, as it is typed.
        stores: The stores, of which the first is predicted where clips have no label.
    """
    tasks = [] if manifest.has_honest_tasks else _level_tasks(manifest)
    if not manifest.has_honest_tasks:
        tasks += own_tasks(manifest.clips)
    if not tasks and not manifest.has_honest_tasks:
        return f"obygaze models predict MODEL {shell_word(stores[0])}"
    line = ["obygaze", "run", "honest", "--manifest", place]
    for store in stores:
        line += ["--store", store]
    for task in tasks[:1]:
        line += ["--task", task]
    if not manifest.has_films:
        # Splits of `honest` hold out films.
        line += ["--set", "splits.kind=kfold", "--set", "splits.folds=10"]
    return shlex.join(line)


def _level_tasks(manifest: Manifest) -> list[str]:
    """Return the tasks of `honest` that two of its three levels allow."""
    levels = set()
    if not manifest.without_modality:
        levels = {clip.level for clip in manifest.view()}
    return [f"{level}_S" for level in ("EN", "HN") if {level, "S"} <= levels]


def _may_be_labels(values: Collection[str]) -> bool:
    """Return whether the clips of a film have few values: not all the same, and not all others."""
    return 1 < len(set(values)) < len(values)


def is_yes_and_no(words: Collection[str]) -> bool:
    """Return whether the words of a column are yes and no, in any of their forms."""
    written = {word.lower() for word in words}
    return len(words) == 2 and any(written == set(pair) for pair in YES_AND_NO)


def words_alike(clips: Sequence[Clip]) -> list[str]:
    """Return a sentence on words of a column that differ by accents, blanks or such alone."""
    sentences = []
    for column in label_columns(clips):
        groups: dict[str, set[str]] = {}
        for clip in clips:
            for word in clip.values(column):
                groups.setdefault(ascii_id(word).casefold(), set()).add(word)
        for words in groups.values():
            if len(words) > 1:
                sentences.append(
                    f"the column {column} has {' and '.join(map(repr, sorted(words)))}, which count"
                    " as different words: write them alike if they mean the same"
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
