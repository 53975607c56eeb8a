"""The documents of a store and of its filling, as typed records.

docs/store.md describes them in sections 2 and 7.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from obygaze_features.core.console import join_names
from obygaze_features.core.errors import Corrupt, FixInput, Mismatch
from obygaze_features.core.schema_check import Record, Sha256, refuse_newer
from obygaze_features.manifest.model import WITHOUT_MANIFEST as WITHOUT_MANIFEST
from obygaze_features.store.layout import (
    CHECKS,
    CLIPS_JSON,
    CRC_BYTES,
    GROUP_JSON,
    Array,
    check_arrays,
    check_columns,
    most_whole_bytes,
    names_of_files,
)
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.rows import Counts, Row

STORE_FORMAT = "obygaze-store"
PLAN_FORMAT = "obygaze-plan"
VERSION = 1
# The recipe of an untrusted document is bounded: decoded JSON takes twenty times its length.
MOST_RECIPE_BYTES = 2**20
# The first bytes of store.json and rows.json, before the 64 digits of the hash.
_START = b'{\n "sha256": "'
_ZEROS = b"0" * 64
_Number = Annotated[int, Meta(ge=0)]


SEVERAL_MANIFESTS = "several manifests"


class ManifestMark(Record, frozen=True):
    """The manifest of the rows of a store: its name, and the hash of the clip and film ids.

    If the rows come from several manifests, the name is "". If they come from none, it is
    `WITHOUT_MANIFEST`.
    """

    name: str
    sha256: str

    @property
    def text(self) -> str:
        """The manifest as words of a sentence."""
        if self.name == WITHOUT_MANIFEST:
            return "an unknown manifest"
        return f"the manifest {self.name!r}" if self.name else SEVERAL_MANIFESTS


# The version of the code that computes features. Raise it with each change of this code that could
# change a feature and that recipes do not record. A release alone does not raise it.
NUMBERS = 1


class ComputeSetup(Record, frozen=True):
    """The device, precision and version that compute rows; equal for all rows of a filling."""

    device: str = ""
    precision: str = ""
    numbers: int = 1

    def __str__(self) -> str:
        words = ", ".join(filter(None, (self.device, self.precision)))
        return f"{words}, version {self.numbers} of numbers"


class Maker(Record, frozen=True):
    """The program and device that computed rows."""

    program: str
    device: str = ""
    device_name: str = ""
    precision: str = ""
    versions: Mapping[str, str] = {}

    @property
    def kind(self) -> ComputeSetup:
        """The device, precision and version, which must be equal for all rows of a filling."""
        return ComputeSetup(self.device, self.precision, NUMBERS)


def all_makers(makers: Iterable[Maker]) -> tuple[Maker, ...]:
    """Return the makers without duplicates."""
    different: list[Maker] = []
    for maker in makers:
        if maker not in different:
            different.append(maker)
    return tuple(different)


class Origin(Record, frozen=True):
    """The source of rows: a store (its folder name or URL, and its seal) or an imported file.

    For an imported file or folder, `place` is its name and `seal` is its hash.
    """

    place: str
    seal: str


class FileMark(Record, frozen=True, array_like=True):
    """The length and the SHA-256 of a file."""

    n_bytes: _Number
    sha256: Sha256


class StoreRecord(Record, frozen=True, kw_only=True):
    """The content of store.json. The seal is the SHA-256 of the file; see `seal_of`."""

    format: str = STORE_FORMAT
    version: int = VERSION
    created: str
    program: str
    manifest: ManifestMark
    # The other manifests from which the rows of a store come that has grown, oldest first.
    earlier_manifests: tuple[str, ...] = ()
    recipe: dict[str, Any]
    fingerprint: str
    # The columns of the table of rows: each column is stored as an array.
    columns: tuple[Array, ...]
    arrays: tuple[Array, ...]
    rows: Counts
    # The makers of the rows; empty if unknown.
    makers: tuple[Maker, ...] = ()
    # The seals of the stores that this store replaced, oldest first.
    replaces: tuple[Sha256, ...] = ()
    origins: tuple[Origin, ...] = ()
    files: dict[str, FileMark]

    @property
    def manifests_text(self) -> str:
        """The manifests of the rows as words of a sentence."""
        if not self.earlier_manifests:
            return self.manifest.text
        earlier = join_names([repr(name) for name in self.earlier_manifests])
        return f"{self.manifest.text}, and earlier of {earlier}"

    @property
    def n_bytes(self) -> int:
        """The bytes of all listed files, which are all files except store.json and README.md."""
        return sum(mark.n_bytes for mark in self.files.values())

    def array(self, name: str) -> Array | None:
        """Return the array with this name, or None if there is none."""
        for array in self.arrays:
            if array.name == name:
                return array
        return None


class PlanRecord(Record, frozen=True, kw_only=True):
    """plan.json: what a filling computes. Equal plans have equal bytes."""

    format: str = PLAN_FORMAT
    version: int = VERSION
    manifest: ManifestMark
    recipe: dict[str, Any]
    fingerprint: str
    arrays: tuple[Array, ...]
    rows: int
    kind: ComputeSetup
    replaces: str = ""
    licence: str = ""

    @property
    def block_rows(self) -> int:
        """The number of rows of a block, which has one file of each array."""
        return self.arrays[0].file_rows


class BlockFile(Record, frozen=True, array_like=True):
    """A file of a block: its length, SHA-256, and the CRC32C of each chunk, as hex digits."""

    n_bytes: int
    sha256: Sha256
    checks: Annotated[str, Meta(pattern=r"^([0-9a-f]{8})*\Z")]

    @property
    def crcs(self) -> bytes:
        """The CRC32C of each chunk, 4 bytes each."""
        return bytes.fromhex(self.checks)


class BlockRecord(Record, frozen=True, kw_only=True):
    """rows.json of a finished block. `plan` is the digest of its plan: see `Filling.digest`."""

    plan: str
    maker: Maker
    # The computed rows of the block, in their order.
    rows: tuple[Row, ...]
    files: dict[str, BlockFile]


_Document = TypeVar("_Document", StoreRecord, PlanRecord, BlockRecord)


# The exceptions of JSON decoders; UnicodeDecodeError is raised for text that is not UTF-8.
_NOT_A_DOCUMENT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def encode(document: StoreRecord | PlanRecord | BlockRecord) -> bytes:
    """Return the bytes of a document: indented JSON with one final newline.

    Numbers have the same digits as in the canonical JSON of which the fingerprint is the hash.
    """
    value = msgspec.to_builtins(document)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1)
    data = f"{text}\n".encode()
    if len(data) > MOST_RECIPE_BYTES and "recipe" in value:
        _check_recipe(data)
    # A plan needs no hash: each block has the hash of its plan.
    return data if isinstance(document, PlanRecord) else _with_sha256(data)


def _with_sha256(data: bytes) -> bytes:
    """Return a document with `sha256` as its first key.

    The value is the SHA-256 of the document with 64 zeros in place of the value.
    """
    end = b'",' + data.removeprefix(b"{")
    digits = hashlib.sha256(_START + _ZEROS + end).hexdigest()
    return _START + digits.encode() + end


def _without_sha256(data: bytes, where: str) -> bytes:
    """Return a document without its key `sha256`; raise an error if a byte was changed."""
    end = data[len(_START) + len(_ZEROS) :].removeprefix(b'",')
    document = b"{" + end
    if data != _with_sha256(document):
        raise _damaged(
            "the document was changed: the key `sha256` does not match the bytes", where
        )
    return document


def decode(data: bytes, kind: type[_Document], where: str) -> _Document:
    """Return the document in untrusted bytes; the error for a wrong document names the key."""
    if kind is not BlockRecord:
        _check_head(data, STORE_FORMAT if kind is StoreRecord else PLAN_FORMAT, where)
    if kind is not PlanRecord:
        data = _without_sha256(data, where)
    try:
        document = msgspec.json.decode(data, type=kind)
        json.loads(data, object_pairs_hook=_check_keys)
    except _NOT_A_DOCUMENT as error:
        with suppress(*_NOT_A_DOCUMENT):
            refuse_newer(msgspec.json.decode(data), kind, where)
        raise _damaged(str(error), where) from error
    if not data.endswith(b"\n"):
        raise _damaged("the document does not end with a line feed", where)
    try:
        if not isinstance(document, BlockRecord):
            check_arrays(document.arrays, where)
        if isinstance(document, StoreRecord):
            _check_store(document, where)
    except FixInput as error:
        raise Corrupt(error.message, where=where) from error
    return document


def encode_clips(rows: Sequence[Row], computed: Sequence[bool]) -> bytes:
    """Return clips.json: the rows of a new store, and whether each row is computed."""
    return msgspec.json.encode((rows, computed))


def decode_clips(
    data: bytes, plan: PlanRecord, where: str
) -> tuple[list[Row], list[bool]]:
    """Return the rows in clips.json, and whether each row is computed."""
    try:
        rows, computed = msgspec.json.decode(data, type=tuple[list[Row], list[bool]])
        if not len(rows) == len(computed) == plan.rows:
            raise msgspec.ValidationError(f"expected {plan.rows} rows, got {len(rows)}")
    except _NOT_A_DOCUMENT as error:
        raise Corrupt(
            f"{CLIPS_JSON} is damaged: {error}",
            where=where,
            hint="remove the folder, and extract the store again",
        ) from error
    return rows, computed


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    """Raise ValidationError for a duplicate key: programs differ in which value they read."""
    if len(dict(pairs)) < len(pairs):
        raise msgspec.ValidationError("an object has a key twice")


class _Head(msgspec.Struct):
    """The format and the version, which decide whether a document can be read, and the recipe."""

    format: str = ""
    version: int = 0
    recipe: msgspec.Raw = msgspec.Raw(b"")


def _check_head(data: bytes, expected: str, where: str) -> None:
    """Raise an error for an unknown format or version, or a recipe that needs too much memory."""
    try:
        head = msgspec.json.decode(data, type=_Head)
    except _NOT_A_DOCUMENT as error:
        raise _damaged(str(error), where) from error
    if head.format != expected:
        raise _damaged(f"format must be {expected!r}", where)
    if head.version != VERSION:
        raise Mismatch(
            f"expected version {VERSION} of the format, got {head.version}",
            where=where,
        )
    try:
        _check_recipe(data)
    except FixInput as error:
        raise _damaged(error.message, where) from error


def _check_recipe(data: bytes) -> None:
    """Raise an error if the recipe of a document is longer than readers allow."""
    n_bytes = len(msgspec.json.decode(data, type=_Head).recipe)
    if n_bytes > MOST_RECIPE_BYTES:
        raise FixInput(
            f"the recipe has {n_bytes} bytes, expected at most {MOST_RECIPE_BYTES}"
        )


def _check_store(store: StoreRecord, where: str) -> None:
    """Raise an error unless the fingerprint, the counts and the list of files are right.

    A file that is read as a whole must not be longer than its number of rows allows.
    """
    if Recipe.from_json(store.recipe).fingerprint != store.fingerprint:
        raise _damaged("`fingerprint` does not match the recipe", where)
    n_rows = store.rows.total
    if sum(store.rows.by_code) != n_rows:
        raise _damaged("the counts in `rows` do not add up", where)
    check_columns(store.columns, n_rows, where)
    arrays = (*store.columns, *store.arrays)
    # An untrusted number of rows must not decide the length of a list.
    n_files = 2 + sum(1 + array.n_files(n_rows) for array in arrays)
    names = names_of_files(arrays, n_rows) if n_files == len(store.files) else []
    if store.files.keys() != set(names):
        strange = sorted(store.files.keys() - set(names))
        raise _damaged(
            f"`files` must list exactly the {n_files} files of the format: {strange[:1]}",
            where,
        )
    n_chunks = sum(array.n_chunks(n_rows) for array in arrays)
    if store.files[CHECKS].n_bytes != CRC_BYTES * n_chunks:
        raise _damaged(f"expected 4 bytes for each chunk in `files.{CHECKS}`", where)
    # An untrusted length must not decide how much memory a file takes.
    rows_of_file = {GROUP_JSON: n_rows}
    for array in arrays:
        rows_of_file[array.zarr_json] = n_rows
        for number in range(array.n_files(n_rows) if array.is_text else 0):
            rows_of_file[array.file_name(number)] = min(array.file_rows, n_rows)
    for name, n_rows_of_file in rows_of_file.items():
        n_bytes = store.files[name].n_bytes
        most_bytes = most_whole_bytes(n_rows_of_file)
        if n_bytes > most_bytes:
            raise _damaged(
                f"expected at most {most_bytes} bytes for `files.{name}`, got {n_bytes}",
                where,
            )


def _damaged(message: str, where: str) -> Corrupt:
    return Corrupt(f"this is not a document of a store: {message}", where=where)


def seal_of(store_json: bytes) -> str:
    """Return the seal of a store: the SHA-256 of its store.json."""
    return hashlib.sha256(store_json).hexdigest()
