"""Columns of texts: a million ids of one length are one array of bytes, not a million objects."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

ByteTable: TypeAlias = npt.NDArray[np.uint8]
"""The bytes of texts of one length: a row for each text."""


class TextColumn(Sequence[str]):
    """A column of texts.

    If all texts are printable ASCII of one length, as most ids are, `table` has their bytes, with a
    row for each text. If not, `table` is None.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self.table: ByteTable | None = None
        joined = "".join(texts)
        is_plain = joined.isascii() and joined.isprintable()
        if is_plain and len(set(map(len, texts))) == 1 and joined:
            data = np.frombuffer(joined.encode(), np.uint8)
            self.table = data.reshape(len(texts), len(texts[0]))

    @classmethod
    def of_table(cls, table: ByteTable) -> Self:
        """Return a column of the texts in a table of bytes; texts are decoded on first use."""
        column = cls(())
        column.table = table
        return column

    @cached_property
    def texts(self) -> Sequence[str]:
        """The texts as Python strings."""
        if self._texts or self.table is None:
            return self._texts
        return self.some(np.arange(len(self.table)))

    def some(self, places: npt.NDArray[np.int64]) -> list[str]:
        """Return the texts with these numbers."""
        if self.table is None:
            return [self._texts[place] for place in places.tolist()]
        table = self.table[places]
        texts = table.view(f"S{table.shape[1]}").reshape(len(places)).tolist()
        return [text.decode() for text in texts]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """Return texts as a column."""
        return texts if isinstance(texts, cls) else cls(texts)

    @cached_property
    def characters(self) -> set[str]:
        """The characters that are in the texts."""
        if self.table is None:
            return set("".join(self.texts))
        return set(map(chr, np.flatnonzero(np.bincount(self.table.ravel()))))

    def __len__(self) -> int:
        return len(self._texts if self.table is None else self.table)

    def __getitem__(self, place: Any) -> Any:
        return self.texts[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)


def side_by_side(*columns: bytes | ByteTable) -> ByteTable:
    """Return tables side by side, as one table; an argument of bytes is repeated in every row."""
    (n_rows,) = {len(column) for column in columns if isinstance(column, np.ndarray)}
    tables = []
    for column in columns:
        if isinstance(column, bytes):
            row = np.frombuffer(column, np.uint8)
            tables.append(np.broadcast_to(row, (n_rows, len(row))))
        else:
            tables.append(column)
    # For columns of one character, NumPy would return an array in Fortran order.
    return np.ascontiguousarray(np.concatenate(tables, axis=1))
