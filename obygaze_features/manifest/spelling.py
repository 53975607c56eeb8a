"""Give each word of a table one spelling when the table is read.

Code that compares words after that needs no other normalisation.

Words and names of annotators are normalised: accents are composed, blanks are single, and 4.0 and
04 become 4. If words differ only in capitals, the first spelling is used. Ids, names of files,
comments and times are not changed. The word `?` is no word: the annotator could not tell.

>>> spelling = Spelling()
>>> spelling.cell("Calm|sad", "mood"), spelling.cell("calm ", "mood"), spelling.cell("04", "mood")
('Calm|sad', 'Calm', '4')
"""

from obygaze_features.manifest.expression import OF_NAMES, OF_NUMBERS, plain_value

# The word of an annotator who could not tell.
UNKNOWN = "?"
# The columns that are not changed: names, sentences, and numbers that the program reads.
_AS_WRITTEN = (
    *OF_NAMES,
    *OF_NUMBERS,
    *("draw_probability", "draw_clips"),
)


class Spelling:
    """The first spelling of each word, by column."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}

    def word(self, word: str, column: str) -> str:
        """Return the first spelling of a word in a column."""
        plain = plain_value(word, column)
        return self._first.setdefault((column, plain.lower()), plain)

    def cell(self, cell: str, column: str) -> str:
        """Return a cell with the spelling of each of its words, which are joined with '|'.

        `?` is left out.
        """
        if not cell or column in _AS_WRITTEN:
            return cell
        words = dict.fromkeys(self.word(word, column) for word in cell.split("|"))
        return "|".join(word for word in words if word not in ("", UNKNOWN))
