"""The closed list of the names that the files of a store have (docs/format.md, section 2).

A store from another place lists its files. A copy of it writes these names, so any other name, such
as one that git or Python would run, is an error wherever a list is read.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from obygaze_features.core.errors import Corrupt
from obygaze_features.store.format.schema import ID_ARRAYS, TEXT_FOLDER, WORDS

# The files that a seal lists besides those of data.zarr.
DOCUMENTS = (
    "store.json",
    "clips.csv",
    "README.md",
    "sources.json",
    "index/movies.json",
)
# Files with copies of all blocks of an array, one after another.
GATHERED_FOLDER = "gathered"
SHOWN_CHARACTERS = 100
# So few are not worth a set of the usual names.
FEW_NAMES = 20
_BLOCK_FILE = re.compile(r"data\.zarr/([a-z][a-z0-9_]*)/c\.([0-9]{1,9})(?:\.0)*")
_NUMBER = r"(0|[1-9][0-9]{0,8})"
_INDEX_PAGE = re.compile(rf"index/{_NUMBER}\.json")
_TEXT_CHUNK = re.compile(
    rf"{re.escape(TEXT_FOLDER)}/(?:{'|'.join(WORDS)})/c\.{_NUMBER}"
)


def gathered_key(array: str) -> str:
    """Return the file with copies of all blocks of an array, relative to the store."""
    return f"{GATHERED_FOLDER}/{array}"


def gathered_array_of(name: str) -> str:
    """Return the array of whose blocks a file has copies; "" for other files."""
    folder, _, array = name.rpartition("/")
    return array if folder == GATHERED_FOLDER else ""


def block_of(name: str) -> tuple[str, int] | None:
    """Return the array and the block whose file has a name; None for files that have no block."""
    match = _BLOCK_FILE.fullmatch(name)
    return (match[1], int(match[2])) if match else None


@dataclass(frozen=True)
class StoreNames:
    """The names that a store of some arrays may list.

    Args:
        dimensions: By array, the number of dimensions of a row.
        n_clips: The number of rows.
        n_blocks: The number of blocks.
    """

    dimensions: Mapping[str, int]
    n_clips: int
    n_blocks: int

    def block_key(self, array: str, block: int) -> str:
        """Return the one file of a block of an array, relative to the store."""
        return f"data.zarr/{array}/c.{block}" + ".0" * self.dimensions[array]

    @cached_property
    def _without_number(self) -> frozenset[str]:
        texts = [f"{TEXT_FOLDER}/{name}/zarr.json" for name in ("embeddings", *WORDS)]
        arrays = [
            f"data.zarr/{name}/zarr.json" for name in (*ID_ARRAYS, *self.dimensions)
        ]
        group = ["data.zarr/zarr.json", f"{TEXT_FOLDER}/zarr.json"]
        return frozenset(
            [*DOCUMENTS, *group, *arrays, *texts, f"{TEXT_FOLDER}/embeddings/c.0.0"]
        )

    def __contains__(self, name: str) -> bool:
        if name in self._without_number:
            return True
        array_and_block = block_of(name)
        if array_and_block is not None:
            array, number = array_and_block
            if array in ID_ARRAYS:
                return number < self.n_clips and name == f"data.zarr/{array}/c.{number}"
            is_block = array in self.dimensions and number < self.n_blocks
            return is_block and name == self.block_key(array, number)
        gathered_array = gathered_array_of(name)
        if gathered_array:
            return gathered_array in self.dimensions
        page = _INDEX_PAGE.fullmatch(name)
        if page is not None:
            return int(page[1]) < self.n_blocks
        return _TEXT_CHUNK.fullmatch(name) is not None

    def _usual(self, n_blocks: int) -> set[str]:
        """Return names that most files have: without a number, and of the first blocks."""
        usual = set(self._without_number)
        usual.update(f"index/{n}.json" for n in range(n_blocks))
        for array, n_dimensions in self.dimensions.items():
            end = ".0" * n_dimensions
            usual.update(f"data.zarr/{array}/c.{n}{end}" for n in range(n_blocks))
        return usual

    def require(self, names: Collection[str], where: str) -> None:
        """Raise an error that shows the first of `names` that no file of the store can have."""
        # A look into a set takes a tenth of the time of a regular expression.
        usual: Collection[str] = self._without_number
        if len(names) > FEW_NAMES:
            usual = self._usual(min(self.n_blocks, len(names)))
        for name in names:
            if name not in usual and name not in self:
                shown = repr(name[:SHOWN_CHARACTERS])
                raise Corrupt(
                    f"{shown} is listed as a file, and no store has such a file",
                    where=where,
                    hint="another copy of this store, from a source that you trust",
                )
