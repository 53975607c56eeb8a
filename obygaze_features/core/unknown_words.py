"""Find the cells of a table that state no answer: `?`, errors of spreadsheets, words such as NA.

`?` means that the answer is unknown. An error such as #N/A is a problem of the table. A word such
as NA may be an answer or none: the user states which, by --word NA=? or --word NA=NA.

>>> is_error("#DIV/0!"), is_no_answer("k.A."), is_no_answer("no")
(True, True, False)
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.shell import shell_word

UNKNOWN = "?"
# Words that usually mean that there is no answer, in lower case.
NO_ANSWERS = (
    *(
        "na",
        "n/a",
        "n.a.",
        "n. a.",
        "nan",
        "null",
        "k.a.",
        "k. a.",
        "n.d.",
        "n. d.",
        "nd",
        "s/d",
    ),
    *("-", "--", "–", "—", "."),
)
# The errors of formulas in English, German, French, Spanish, Italian and Dutch.
ERRORS = (
    *("#N/A", "#NV", "#N/D", "#N/B", "#GETTING_DATA"),
    *("#DIV/0!", "#¡DIV/0!", "#DEEL/0!"),
    *("#VALUE!", "#WERT!", "#VALEUR!", "#¡VALOR!", "#VALORE!", "#WAARDE!"),
    *("#REF!", "#BEZUG!", "#¡REF!", "#RIF!", "#VERW!"),
    *("#NAME?", "#NOM?", "#¿NOMBRE?", "#NOME?", "#NAAM?"),
    *("#NUM!", "#ZAHL!", "#NOMBRE!", "#¡NUM!", "#GETAL!"),
    *("#NULL!", "#NUL!", "#¡NULO!", "#NULLO!", "#LEEG!"),
    *("#SPILL!", "#ÜBERLAUF!", "#PROPAGATION!", "#CALC!", "#KALK!", "#CALCUL!"),
    *("#FIELD!", "#FELD!", "#BLOCKED!", "#UNKNOWN!", "#CONNECT!", "#BUSY!"),
)
# The errors of LibreOffice, and a number or date that is wider than its column.
_OTHER_ERRORS = re.compile(r"Err:[0-9]{3}|#{3,}")

# The beginnings of months in five languages.
_MONTH = (
    "(jan|feb|fév|mar|mär|apr|avr|abr|may|mai|mag|jun|jui|giu|jul|lug|aug|aoû|ago|sep|set|oct|okt"
    r"|ott|nov|dec|dez|déc|dic|gen|ene)[^\W\d]*\.?"
)
# Dates as spreadsheets write them: 2026-05-01, 01.05.2026, 5/1/2026, 1-May, 01. Mai, Mai 54.
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9:.]+)?"
    r"|[0-9]{1,2}([./-])[0-9]{1,2}\2[0-9]{4}|[0-9]{2}([./-])[0-9]{2}\3[0-9]{2}"
    rf"|[0-9]{{1,2}}(-|\. ?){_MONTH}([- ][0-9]{{2,4}})?|{_MONTH}[- ][0-9]{{2,4}}",
    re.IGNORECASE,
)


def is_date(cell: str) -> bool:
    """Return whether a cell is a date, which a spreadsheet may have made of a number.

    >>> is_date("2026-05-01"), is_date("01. Mai"), is_date("1-May"), is_date("1.5")
    (True, True, True, False)
    """
    return _DATE.fullmatch(cell) is not None


def is_error(cell: str) -> bool:
    """Return whether a cell has the error of a formula in place of a value."""
    # Most cells of large tables are numbers.
    if not cell.startswith(("#", "Err:")):
        return False
    return cell in ERRORS or _OTHER_ERRORS.fullmatch(cell) is not None


def is_no_answer(word: str) -> bool:
    """Return whether a word usually means that there is no answer."""
    return word.casefold() in NO_ANSWERS


def no_answer_text(word: str) -> str:
    """Return the sentence that asks what a word such as NA means."""
    kept = shell_word(f"{word}={word}")
    return f"{word!r} usually means that there is no answer; --word {kept} keeps it as an answer"


def word_option(word: str) -> str:
    """Return the option that calls a word unknown."""
    return f"--word {shell_word(f'{word}={UNKNOWN}')}"


@dataclass(frozen=True)
class UnknownWords:
    """What the user states about words that may be no answers.

    Attributes:
        unknown: The words that mean that the answer is unknown, without capitals.
        kept: The words such as NA that are answers, without capitals.
    """

    unknown: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()

    @classmethod
    def of(cls, words: Mapping[str, str]) -> Self:
        """Return what the words of an option --word mean; a meaning is `?` or the word itself."""
        unknown = set()
        kept = set()
        for word, meaning in words.items():
            if meaning == UNKNOWN:
                unknown.add(word.casefold())
            elif meaning == word:
                kept.add(word.casefold())
            else:
                raise FixUsage(
                    f"--word {shell_word(f'{word}={meaning}')}: expected {UNKNOWN}, or the word"
                    " itself to keep it as an answer",
                    hint=f"pass {word_option(word)}",
                )
        return cls(frozenset(unknown), frozenset(kept))

    def without(self, words: Iterable[str]) -> Self:
        """Return what is stated about other words than these, and about words such as NA."""
        others = {word.casefold() for word in words if not is_no_answer(word)}
        return type(self)(self.unknown - others, self.kept)

    def is_unknown(self, word: str) -> bool:
        """Return whether a word is `?`, or has the same meaning."""
        return word == UNKNOWN or word.casefold() in self.unknown

    def is_asked(self, word: str) -> bool:
        """Return whether the user must state what a word means."""
        return is_no_answer(word) and word.casefold() not in self.unknown | self.kept

    def is_answer(self, cell: str) -> bool:
        """Return whether a cell has an answer that shows what its column contains.

        A word such as NA shows nothing, even if it is an answer.
        """
        no_answer = self.is_unknown(cell) or is_no_answer(cell) or is_error(cell)
        return bool(cell) and not no_answer

    def known(self, cell: str) -> str:
        """Return a cell without its unknown words; `|` separates the words of a cell."""
        if not (UNKNOWN in cell or self.unknown):
            return cell
        words = [word for word in cell.split("|") if not self.is_unknown(word.strip())]
        return "|".join(words)

    def asked_in(self, cells: Iterable[str]) -> list[str]:
        """Return the different words of cells that the user must state the meaning of."""
        words: dict[str, None] = {}
        for cell in dict.fromkeys(cells):
            words.update(dict.fromkeys(map(str.strip, cell.split("|"))))
        return [word for word in words if self.is_asked(word)]
