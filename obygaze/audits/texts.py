"""Read texts and their columns from a table or a folder of files, and read lists of words."""

import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, NotFound, ObygazeWarning, near
from obygaze_features.core.file_names import compose_accents
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.shell import shell_line
from obygaze_features.core.tables import read_table, thousands_text
from obygaze_features.core.unknown_words import (
    UnknownWords,
    no_answer_text,
    word_option,
)
from obygaze_features.manifest.spelling import Spelling

WordLists = Mapping[str, frozenset[str]]
TextSource = str | Path | Sequence[Mapping[str, str]]
# The file names of the captions that Wolfe et al. (2023) published.
NAMES = "{image}_{face}_{group}_{copy}"
_FILE_NAME = re.compile(
    "(?P<image>[^_]+)_(?P<face>[^_]+)_(?P<group>[^_]+)_(?P<copy>[^_]+)"
)
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_POSSESSIVE = re.compile(r"['’]s$")


class CaptionRow(NamedTuple):
    """The cells of one row by column, and the place (file and line) where the row was read.

    `line` is the line in the table; None: the source is no table.
    """

    cells: Mapping[str, str]
    where: str
    line: int | None = None

    def cluster(self, columns: Sequence[str]) -> str:
        """Return the film or image of a row; without columns, each row is its own cluster.

        Raise an error for an empty cell: the row may belong to any cluster.
        """
        if not columns:
            return self.where
        # Accents can be typed in two ways, which must give one name.
        names = [compose_accents(self.cells[column]).strip() for column in columns]
        for column, name in zip(columns, names, strict=True):
            if not name:
                raise FixInput(
                    f"the {column} of this row is missing, so its cluster is unknown",
                    where=self.cells.get("clip_id", self.where),
                    hint="fill in the cell, or remove such rows",
                )
        # Cells have no NUL, so different cells never give the same text.
        return "\0".join(names)


@dataclass(frozen=True)
class LabelledText:
    """A text, its labels (a group, or the things it names), and its film or image."""

    text: str
    labels: frozenset[str]
    cluster: str


def read_captions(
    source: TextSource,
    text: str,
    labels: Callable[[Mapping[str, str]], frozenset[str]],
    *,
    hint: str,
    columns: Sequence[str],
    cluster: Sequence[str],
    words: UnknownWords,
) -> list[LabelledText]:
    """Return the texts of a table, of a folder of .txt files, or of a sequence of rows.

    Args:
        source: The path, or one mapping from column to cell per text.
        text: The column of the text.
        labels: A function that returns the labels of a text from the cells of its row.
        hint: What to do if a column is missing or has no texts.
        columns: The columns that `labels` needs.
        cluster: The columns of the film or image; without them each text is its own cluster.
        words: What the user states about words that may be no answers.
    """
    texts = []
    n_blank = 0
    answers = (text, *columns)
    records = read_records(
        source,
        (*answers, *cluster),
        hint=hint,
        as_written=(text,),
        answers=answers,
        words=words,
    )
    for record in records:
        cells = record.cells
        if not cells[text].strip():
            n_blank += 1  # A row without a caption would lower all rates.
            continue
        labelled = LabelledText(cells[text], labels(cells), record.cluster(cluster))
        texts.append(labelled)
    if not texts:
        raise FixInput(f"no texts in {text!r}", where=source_name(source), hint=hint)
    if n_blank:
        message = f"{source_name(source)}: excluded, because {text!r} is empty: "
        message += count(n_blank, "row")
        warnings.warn(message, ObygazeWarning, stacklevel=3)
    return texts


def read_records(
    source: TextSource,
    columns: Sequence[str],
    *,
    hint: str,
    answers: Sequence[str],
    words: UnknownWords,
    as_written: Sequence[str] = (),
    command: Sequence[str] = (),
) -> Iterator[CaptionRow]:
    """Yield each row of a table, of a folder of .txt files, or of a sequence of rows.

    Raise an error for a missing column. After the last row, raise an error for words such as NA
    whose meaning the user did not state.

    Args:
        source: The table, the folder or the rows.
        columns: The columns that are needed.
        hint: What to do if a column is missing.
        answers: The columns that may have such words. Unknown words are left out.
        words: What the user states about such words.
        as_written: The columns that the reader of tables does not change.
        command: The typed command, without --word; empty: the error has only the options to add.
    """
    asked = Violations(source_name(source))
    likely: dict[str, None] = {}
    for record in _records(source, as_written, words, answers):
        for column in columns:
            if column not in record.cells:
                found = ", ".join(record.cells)
                raise NotFound(
                    f"no column {column!r}{near(column, record.cells)}; columns: {found}",
                    where=record.where,
                    hint=hint,
                )
        cells = dict(record.cells)
        for column in answers:
            for word in words.asked_in([cells[column]]):
                asked.add(record.line, column, no_answer_text(word))
                likely[word] = None
            cells[column] = words.known(cells[column])
        yield record._replace(cells=cells)
    options = " ".join(map(word_option, likely))
    line = f"run the same command with {options}"
    if command:
        line = f"{shell_line(command)} {options}"
    asked.raise_if_any("the meaning of words is not known", line)


class GroupNames:
    """A function from the cells of a text to the name of its group.

    It raises an error if two groups get the same name. `record_cells` has for each name the cells
    of the group columns.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.record_cells: dict[str, tuple[str, ...]] = {}
        self._spelling = Spelling()

    def __call__(self, cells: Mapping[str, str]) -> frozenset[str]:
        """Return the name of the group of a text, or no name if one of its cells is empty."""
        group = tuple(
            self._spelling.cell(cells[column], column).strip()
            for column in self.columns
        )
        if not all(group):
            return frozenset()
        name = " ".join(group)
        first = self.record_cells.setdefault(name, group)
        if first != group:
            first_shown = " + ".join(map(repr, first))
            second_shown = " + ".join(map(repr, group))
            raise FixInput(
                f"two groups have the name {name!r}: {first_shown} and {second_shown}",
                where=f"the columns {', '.join(self.columns)}",
                hint="rename one of these values",
            )
        return frozenset({name})


def by_label(texts: Sequence[LabelledText]) -> dict[str, list[LabelledText]]:
    """Return for each label the texts that have it; the labels are sorted."""
    groups: dict[str, list[LabelledText]] = {}
    for text in texts:
        for label in text.labels:
            groups.setdefault(label, []).append(text)
    return dict(sorted(groups.items()))


def _records(
    source: TextSource,
    as_written: Sequence[str],
    words: UnknownWords,
    answers: Sequence[str],
) -> Iterator[CaptionRow]:
    if isinstance(source, str | Path):
        path = Path(source)
        if path.is_dir():
            yield from _of_folder(path)
            return
        table = read_table(path, required=(), as_written=as_written, words=words)
        for column, cell in table.maybe_thousands.items():
            if column in answers:
                message = f"{path.name}: {thousands_text(column, cell)}"
                warnings.warn(message, ObygazeWarning, stacklevel=4)
        for row in table.rows:
            yield CaptionRow(row.cells, f"{path}:{row.line}", row.line)
        return
    for number, cells in enumerate(source, start=1):
        yield CaptionRow(cells, f"row {number}")


def source_name(source: TextSource) -> str:
    """Return a short name of a source for titles."""
    return Path(source).name if isinstance(source, str | Path) else "rows"


def _of_folder(folder: Path) -> Iterator[CaptionRow]:
    """Yield the captions of the .txt files of a folder; the other columns are in the file names."""
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() != ".txt" or not path.is_file():
            continue
        match = _FILE_NAME.fullmatch(path.stem)
        if match is None:
            raise FixInput(
                f"{path.name} does not match the pattern {NAMES}",
                where=str(folder),
            )
        try:
            # A byte order mark would become a part of the first word.
            text = path.read_text("utf-8-sig")
        except UnicodeDecodeError:
            raise FixInput("expected a file in UTF-8", where=str(path)) from None
        # Only line breaks end a caption: splitlines() would also cut at a form feed or U+2028.
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            cells = {**match.groupdict(), "file": path.stem, "caption": line}
            yield CaptionRow(cells, f"{path}:{number}")


def column_names(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of a comma-separated text or of a sequence, without blanks around them."""
    parts = names.split(",") if isinstance(names, str) else names or ()
    return tuple(part.strip() for part in parts if part.strip())


def tokens(caption: str) -> list[str]:
    """Return the tokens of Wolfe et al. (2023): lower case, without . and , and cut at blanks.

    A word next to another punctuation mark, as in `sad!`, is a different token than the word alone.

    >>> tokens("A man, smiling.")
    ['a', 'man', 'smiling']
    """
    plain = caption.lower().replace(".", "").replace(",", "")
    # A line break in a cell of a table counts as a blank.
    return re.sub(r"[\r\n]", " ", plain).split(" ")


def words_of_caption(caption: str) -> list[str]:
    """Return the words of a caption, in lower case, without any punctuation marks and 's.

    >>> words_of_caption("The man's hat: (sad!)")
    ['the', 'man', 'hat', 'sad']
    """
    return [_POSSESSIVE.sub("", word) for word in _WORD.findall(caption.lower())]


def count_words(caption: str, words: frozenset[str]) -> Counter[str]:
    """Return how often the tokens of a caption are words of a list.

    >>> count_words("A sad, sad man", frozenset({"sad"}))
    Counter({'sad': 2})
    """
    return Counter(token for token in tokens(caption) if token in words)


def read_words(name: str) -> WordLists:
    """Return the word lists of a file of this package: "emotions" or "gender"."""
    path = files(__package__).joinpath("words", f"{name}.toml")
    lists = tomllib.loads(path.read_text(encoding="utf-8"))["lists"]
    return {title: frozenset(words) for title, words in lists.items()}
