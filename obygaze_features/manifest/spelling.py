"""One spelling of each word of a table, where a table is read: inside, words are compared as is.

A word that was typed in several ways is one word, and so is the name of a person: accents are in
their letters, blanks are single, 4.0 and 04 are 4, and of two words that differ by capitals alone
the first one stands. Ids, names of files, comments and times stay as they are.

>>> spelling = Spelling()
>>> spelling.cell("Calm|sad", "mood"), spelling.cell("calm ", "mood"), spelling.cell("04", "mood")
('Calm|sad', 'Calm', '4')
"""

from obygaze_features.manifest.expression import OF_NAMES, plain_value

# The columns of names and sentences, and those of numbers that mean something to the program.
_AS_WRITTEN = (
    *OF_NAMES,
    *("framerate", "start_frame", "end_frame", "film_start_s", "film_end_s"),
    *("draw_probability", "draw_clips"),
)


class Spelling:
    """The words of each column in the spelling that was read first."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}

    def word(self, word: str, column: str) -> str:
        """Return a word of a column in its one spelling."""
        plain = plain_value(word, column)
        return self._first.setdefault((column, plain.lower()), plain)

    def cell(self, cell: str, column: str) -> str:
        """Return a cell, whose words are joined with '|', in its one spelling."""
        if not cell or column in _AS_WRITTEN:
            return cell
        words = dict.fromkeys(self.word(word, column) for word in cell.split("|"))
        return "|".join(filter(None, words))
