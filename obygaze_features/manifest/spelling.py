"""Give each word of a table one spelling when the table is read.

Code that compares words after that needs no other normalisation.

Words and names of annotators are normalised: accents are composed, blanks are single, and 4.0 and
04 become 4. If words differ only in capitals, the first spelling is used. Ids, names of files,
comments and times are not changed. The word `?` is no word: the annotator could not tell. When all
words are read, equal numbers get one spelling in columns in which all words are numbers.

>>> spelling = Spelling()
>>> spelling.cell("Calm|sad", "mood"), spelling.cell("calm ", "mood"), spelling.cell("04", "mood")
('Calm|sad', 'Calm', '4')
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping

from obygaze_features.core.unknown_words import UNKNOWN, is_no_answer
from obygaze_features.manifest.expression import (
    OF_NAMES,
    OF_NUMBERS,
    plain_number,
    plain_value,
)

# The columns that are not changed: names, sentences, and numbers that the program reads.
_AS_WRITTEN = (
    *OF_NAMES,
    *OF_NUMBERS,
    *("draw_probability", "draw_clips"),
)

# Numbers with an end of 0 behind a point, or in a form such as .5, +1 or 1e3.
_MAYBE_LONGER = re.compile(r"[^.]*\.\d*0|\d+\.|[+-]?\.\d+|\+.*|.*\d[eE].*")


class Spelling:
    """The first spelling of each word, by column."""

    def __init__(self) -> None:
        self._first: dict[str, dict[str, str]] = defaultdict(dict)

    def word(self, word: str, column: str) -> str:
        """Return the first spelling of a word in a column."""
        plain = plain_value(word, column)
        return self._first[column].setdefault(plain.lower(), plain)

    def cell(self, cell: str, column: str) -> str:
        """Return a cell with the spelling of each of its words, which are joined with '|'.

        `?` is left out.
        """
        if not cell or column in _AS_WRITTEN:
            return cell
        words = dict.fromkeys(self.word(word, column) for word in cell.split("|"))
        return "|".join(word for word in words if word not in ("", UNKNOWN))

    def equal_numbers(self) -> dict[str, dict[str, str]]:
        """Return the new spelling of words of columns of numbers, by column: 1.5 for 1.50.

        A column without such words is not listed.
        """
        numbers = {}
        for column, first in self._first.items():
            words = {*first.values()} - {"", UNKNOWN}
            # Most columns have no such word, so only these are looked for in all of them.
            if column != "annotator" and any(map(_MAYBE_LONGER.fullmatch, words)):
                spelled = _spelled_numbers(words)
                if spelled:
                    numbers[column] = spelled
        return numbers


def _spelled_numbers(words: Collection[str]) -> dict[str, str]:
    """Return the new spelling of numbers that change; none if a word is not a number.

    A word such as NA, kept as an answer, does not make a column of numbers one of words.
    """
    spelled = {}
    for word in words:
        if is_no_answer(word):
            continue
        number = plain_number(word)
        if number is None:
            return {}
        if number != word:
            spelled[word] = number
    return spelled


def respell(cell: str, spelling: Mapping[str, str]) -> str:
    """Return a cell with a new spelling of some of its words."""
    words = [spelling.get(word, word) for word in cell.split("|")]
    return "|".join(dict.fromkeys(words))
