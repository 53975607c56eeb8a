"""Columns of texts: a million ids of one length are one array of bytes, not a million objects."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Self, TypeAlias, overload

import numpy as np
import numpy.typing as npt

ByteTable: TypeAlias = npt.NDArray[np.uint8]
"""The bytes of texts of one length, a row for each."""

# What a text in an array is made of, by the kind of the array.
_UNITS = {"U": np.uint32, "S": np.uint8}


class TextColumn(Sequence[str]):
    """A column of texts.

    `table` has their bytes if they are ASCII and of one length, as most ids. For other texts, it is
    None.
    """

    def __init__(self, texts: Sequence[str], table: ByteTable | None = None) -> None:
        joined = "".join(texts)
        if joined.isascii() and len(set(map(len, texts))) == 1:
            data = np.frombuffer(joined.encode(), np.uint8)
            table = _without_ends(data.reshape(len(texts), len(texts[0])))
        self.table = table
        self._texts = texts

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """Return texts as a column."""
        return texts if isinstance(texts, cls) else cls(texts)

    @classmethod
    def of_array(cls, array: npt.NDArray[Any]) -> Self | None:
        """Return the column of an array of texts or bytes; None if it would have no table."""
        units = np.ascontiguousarray(array).view(_UNITS[array.dtype.kind])
        table = units.reshape(len(array), array.dtype.itemsize // units.itemsize)
        if not table.size or table.max() > 127 or _without_ends(table) is None:
            return None
        return cls((), table.astype(np.uint8))

    @cached_property
    def texts(self) -> Sequence[str]:
        """The texts as objects."""
        if self._texts or self.table is None:
            return self._texts
        texts = self.table.view(f"S{self.table.shape[1]}").ravel()
        return [text.decode() for text in texts.tolist()]

    @cached_property
    def characters(self) -> set[str]:
        """The characters that are in the texts."""
        if self.table is None:
            return set("".join(self.texts))
        codes: set[int] = set()
        left = self.table.tobytes()
        while left:
            codes.update(left[:4096])
            left = left.translate(None, bytes(codes))
        return set(map(chr, codes))

    def __len__(self) -> int:
        return len(self._texts if self.table is None else self.table)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if self.table is not None and isinstance(place, int):
            return bytes(self.table[place]).decode()
        return self.texts[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)


def _without_ends(table: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """Return a table of texts; None if one ends earlier, or with what ends a text of NumPy."""
    return table if table.size and table[:, -1].all() else None


def side_by_side(*columns: bytes | ByteTable) -> ByteTable:
    """Return tables side by side; bytes alone stand in every row."""
    (n_rows,) = {len(column) for column in columns if isinstance(column, np.ndarray)}
    tables = []
    for column in columns:
        if isinstance(column, bytes):
            row = np.frombuffer(column, np.uint8)
            tables.append(np.broadcast_to(row, (n_rows, len(row))))
        else:
            tables.append(column)
    # Of columns of one character, NumPy would make an array whose columns come first.
    return np.ascontiguousarray(np.concatenate(tables, axis=1))
