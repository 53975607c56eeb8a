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

from obygaze_features.core.errors import Corrupt, FixInput, Mismatch
from obygaze_features.core.schema_check import Record, Sha256, refuse_newer
from obygaze_features.manifest.model import WITHOUT_MANIFEST as WITHOUT_MANIFEST
from obygaze_features.store.layout import (
    CHECKS,
    CLIPS_JSON,
    CRC_BYTES,
    GROUP_JSON,
    MOST_ROWS,
    Array,
    check_arrays,
    check_columns,
    most_whole_bytes,
    names_of_files,
)
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.rows import OK, Row, RowStatus

STORE_FORMAT = "obygaze-store"
PLAN_FORMAT = "obygaze-plan"
VERSION = 1
# Plain JSON takes twenty times its length in memory.
MOST_RECIPE_BYTES = 2**20
# How store.json and rows.json begin; then come 64 digits.
_START = b'{\n "sha256": "'
_ZEROS = b"0" * 64
_Number = Annotated[int, Meta(ge=0)]


SEVERAL_MANIFESTS = "several manifests"


class ManifestMark(Record, frozen=True):
    """The manifest whose clips the rows are: its name, and the hash of its ids.

    A merger of stores of several manifests has no name; `WITHOUT_MANIFEST` is that of none.
    """

    name: str
    sha256: str

    @property
    def text(self) -> str:
        """What a sentence calls it."""
        if self.name == WITHOUT_MANIFEST:
            return "an unknown manifest"
        return f"the manifest {self.name!r}" if self.name else SEVERAL_MANIFESTS


# The version of what decides numbers, beside recipes: raise it with any change that could give
# others. A release alone changes none.
NUMBERS = 1


class Kind(Record, frozen=True):
    """What must be the same for all rows of a store while it is filled."""

    device: str = ""
    precision: str = ""
    numbers: int = 1

    def __str__(self) -> str:
        words = ", ".join(filter(None, (self.device, self.precision)))
        return f"{words}, version {self.numbers} of numbers"


class Maker(Record, frozen=True):
    """What computed some rows."""

    program: str
    device: str = ""
    device_name: str = ""
    precision: str = ""
    versions: Mapping[str, str] = {}

    @property
    def kind(self) -> Kind:
        """What must be the same for all rows of a store while it is filled."""
        return Kind(self.device, self.precision, NUMBERS)


def all_makers(makers: Iterable[Maker]) -> tuple[Maker, ...]:
    """Return makers, each once."""
    different: list[Maker] = []
    for maker in makers:
        if maker not in different:
            different.append(maker)
    return tuple(different)


class Origin(Record, frozen=True):
    """A store of which rows were taken: the name of its folder or its URL, and its seal."""

    place: str
    seal: str


class Counts(Record, frozen=True, omit_defaults=True):
    """How many rows a store has, and how many of each status that occurs.

    So a status of a later version only keeps older readers from the stores that have such rows.
    """

    total: Annotated[int, Meta(ge=1, le=MOST_ROWS)]
    ok: _Number = 0
    failed: _Number = 0
    no_video: _Number = 0
    silent: _Number = 0
    no_words: _Number = 0
    not_extracted: _Number = 0

    @property
    def by_status(self) -> dict[str, int]:
        """How many rows are ok, and have each other status that occurs."""
        counts: dict[str, int] = {
            status: getattr(self, status.key) for status in RowStatus
        }
        return {status: n for status, n in counts.items() if n or status == OK}


class FileMark(Record, frozen=True, array_like=True):
    """The length and the SHA-256 of a file."""

    n_bytes: _Number
    sha256: Sha256


class StoreRecord(Record, frozen=True, kw_only=True):
    """store.json. Its bytes decide the seal; see `seal_of`."""

    format: str = STORE_FORMAT
    version: int = VERSION
    created: str
    program: str
    manifest: ManifestMark
    recipe: dict[str, Any]
    fingerprint: str
    # The table of rows: each column is an array too.
    columns: tuple[Array, ...]
    arrays: tuple[Array, ...]
    rows: Counts
    # All that made its rows; nobody may know.
    makers: tuple[Maker, ...] = ()
    # The seals of the stores whose place it took, the oldest first.
    replaces: tuple[Sha256, ...] = ()
    origins: tuple[Origin, ...] = ()
    files: dict[str, FileMark]

    @property
    def n_bytes(self) -> int:
        """How long the listed files are together: all but store.json and README.md."""
        return sum(mark.n_bytes for mark in self.files.values())

    def array(self, name: str) -> Array | None:
        """Return the array of a name; None if the store has none."""
        for array in self.arrays:
            if array.name == name:
                return array
        return None


class PlanRecord(Record, frozen=True, kw_only=True):
    """plan.json: what a filling computes. Who plans the same writes the same bytes."""

    format: str = PLAN_FORMAT
    version: int = VERSION
    manifest: ManifestMark
    recipe: dict[str, Any]
    fingerprint: str
    arrays: tuple[Array, ...]
    rows: int
    kind: Kind
    replaces: str = ""

    @property
    def block_rows(self) -> int:
        """How many rows a block has: those of one file of each array."""
        return self.arrays[0].file_rows


class PlannedRow(Record, frozen=True, array_like=True):
    """A row of clips.json: a clip of the new store, and whether the filling computes it."""

    clip_id: str
    movie_id: str
    start_s: float | None
    end_s: float | None
    start_frame: int | None
    end_frame: int | None
    framerate: float | None
    computed: bool


class BlockRow(Record, frozen=True, array_like=True):
    """A computed row of a block: its number, its status, and the video that was read."""

    row: int
    status: RowStatus
    reason: str = ""
    video_bytes: int | None = None
    video_hash: str = ""
    pictures: int | None = None
    # When a window begins and ends, which is known when it is decoded.
    span_s: tuple[float, float] | None = None

    def of(self, planned: Row) -> Row:
        """Return the planned row with what was computed."""
        start_s, end_s = self.span_s or (planned.start_s, planned.end_s)
        return planned._replace(
            start_s=start_s,
            end_s=end_s,
            status=self.status,
            reason=self.reason,
            video_bytes=self.video_bytes,
            video_hash=self.video_hash,
            pictures=self.pictures,
        )


class BlockFile(Record, frozen=True, array_like=True):
    """A file of a block: its length, SHA-256, and the CRC32C of each chunk, as hex digits."""

    n_bytes: int
    sha256: Sha256
    checks: Annotated[str, Meta(pattern=r"^([0-9a-f]{8})*\Z")]


class BlockRecord(Record, frozen=True, kw_only=True):
    """rows.json of a finished block. `plan` is the plan to which it belongs: see `Filling`."""

    plan: str
    maker: Maker
    rows: tuple[BlockRow, ...]
    files: dict[str, BlockFile]


_Document = TypeVar("_Document", StoreRecord, PlanRecord)


# What a decoder of JSON raises. A text that is not UTF-8 has an error of its own.
_NOT_A_DOCUMENT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def encode(document: StoreRecord | PlanRecord | BlockRecord) -> bytes:
    """Return the bytes of a document: indented JSON with one final newline.

    Its numbers are spelled as in the canonical JSON over which a fingerprint is computed.
    """
    value = msgspec.to_builtins(document)
    data = _indented(value)
    if len(data) > MOST_RECIPE_BYTES and "recipe" in value:
        _check_recipe(value["recipe"])
    if isinstance(document, PlanRecord):
        # Each block has the hash of its plan.
        return data
    return _with_sha256(data)


def _with_sha256(data: bytes) -> bytes:
    """Return a document with its first key: the SHA-256 of its bytes where its digits are zeros."""
    end = b'",' + data.removeprefix(b"{")
    digits = hashlib.sha256(_START + _ZEROS + end).hexdigest()
    return _START + digits.encode() + end


def _without_sha256(data: bytes, where: str) -> bytes:
    """Return a document without its first key; an error if a byte was changed."""
    end = data[len(_START) + len(_ZEROS) :].removeprefix(b'",')
    document = b"{" + end
    if data != _with_sha256(document):
        raise _damaged(
            "it was changed: `sha256`, its first key, is of other bytes", where
        )
    return document


def _indented(value: dict[str, Any]) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1)
    return f"{text}\n".encode()


def _check_recipe(recipe: dict[str, Any]) -> None:
    """Raise an error for a recipe that no reader takes, as it stands in a document."""
    n_bytes = len(_indented({"recipe": recipe})) - len(_indented({"recipe": 0})) + 1
    if n_bytes > MOST_RECIPE_BYTES:
        raise FixInput(
            f"the recipe has {n_bytes} bytes, expected at most {MOST_RECIPE_BYTES}"
        )


def decode(data: bytes, kind: type[_Document], where: str) -> _Document:
    """Return the document in bytes that may come from a stranger; an error names the wrong key."""
    expected = STORE_FORMAT if kind is StoreRecord else PLAN_FORMAT
    _check_version(data, expected, where)
    if kind is StoreRecord:
        data = _without_sha256(data, where)
    try:
        document = msgspec.json.decode(data, type=kind)
        json.loads(data, object_pairs_hook=_check_keys)
    except _NOT_A_DOCUMENT as error:
        _refuse_newer(data, kind, where)
        raise _damaged(str(error), where) from error
    if not data.endswith(b"\n"):
        raise _damaged("it does not end with a line feed", where)
    try:
        check_arrays(document.arrays, where)
        if isinstance(document, StoreRecord):
            _check_store(document, where)
    except FixInput as error:
        raise Corrupt(error.message, where=where) from error
    return document


def encode_clips(rows: Sequence[Row], computed: Sequence[bool]) -> bytes:
    """Return clips.json: the rows of a new store, and whether the filling computes each."""
    planned = []
    for row, is_computed in zip(rows, computed, strict=True):
        clip = (row.clip_id, row.movie_id, row.start_s, row.end_s)
        frames = (row.start_frame, row.end_frame, row.framerate)
        planned.append(PlannedRow(*clip, *frames, bool(is_computed)))
    return msgspec.json.encode(planned)


def decode_clips(
    data: bytes, plan: PlanRecord, where: str
) -> tuple[list[Row], list[bool]]:
    """Return the rows in clips.json, and for each whether it is computed."""
    try:
        planned = msgspec.json.decode(data, type=list[PlannedRow])
        if len(planned) != plan.rows:
            raise msgspec.ValidationError(f"{len(planned)} rows, expected {plan.rows}")
    except _NOT_A_DOCUMENT as error:
        raise Corrupt(
            f"{CLIPS_JSON} is damaged: {error}",
            where=where,
            hint="remove the folder that it is in, to fill the store anew",
        ) from error
    rows = []
    for one in planned:
        row = Row(one.clip_id, one.movie_id, one.start_s, one.end_s)
        rows.append(
            row._replace(
                start_frame=one.start_frame,
                end_frame=one.end_frame,
                framerate=one.framerate,
            )
        )
    return rows, [one.computed for one in planned]


def decode_block(data: bytes, where: str) -> BlockRecord:
    """Return the rows.json in these bytes; an error if a byte was changed."""
    document = _without_sha256(data, where)
    try:
        return msgspec.json.decode(document, type=BlockRecord)
    except _NOT_A_DOCUMENT as error:
        _refuse_newer(document, BlockRecord, where)
        raise _damaged(str(error), where) from error


def _refuse_newer(data: bytes, kind: type, where: str) -> None:
    """Raise Mismatch for a document with a field that this program does not know."""
    with suppress(*_NOT_A_DOCUMENT):
        refuse_newer(msgspec.json.decode(data), kind, where)


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    """Raise ValidationError for an object with a key twice: readers may take either value."""
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise msgspec.ValidationError("an object has a key twice")


class _Head(msgspec.Struct):
    """The keys that say whether the other keys can be read."""

    format: str
    version: int
    recipe: msgspec.Raw = msgspec.Raw(b"")


def _check_version(data: bytes, expected: str, where: str) -> None:
    try:
        head = msgspec.json.decode(data, type=_Head)
    except _NOT_A_DOCUMENT as error:
        raise _damaged(str(error), where) from error
    if head.format != expected:
        raise _damaged(f"format must be {expected!r}", where)
    if head.version != VERSION:
        raise Mismatch(
            f"this is version {head.version} of the format, and this program reads {VERSION}",
            where=where,
        )
    if len(head.recipe) > MOST_RECIPE_BYTES:
        raise _damaged(
            f"`recipe` has {len(head.recipe)} bytes, expected at most"
            f" {MOST_RECIPE_BYTES}",
            where,
        )


def _check_store(store: StoreRecord, where: str) -> None:
    """Raise an error unless the fingerprint, the counts and the list of files are right."""
    if Recipe.from_json(store.recipe).fingerprint != store.fingerprint:
        raise _damaged("`fingerprint` is not that of the recipe", where)
    rows = store.rows
    if sum(rows.by_status.values()) != rows.total:
        raise _damaged("the counts in `rows` do not add up", where)
    check_columns(store.columns, rows.total, where)
    _check_files(store, where)


def _check_files(store: StoreRecord, where: str) -> None:
    """Raise an error unless `files` has the names of a store, and lengths that can be read."""
    n_rows = store.rows.total
    arrays = (*store.columns, *store.arrays)
    # A stranger's number of rows must not decide how long a list becomes.
    n_files = 2 + sum(1 + array.n_files(n_rows) for array in arrays)
    if n_files != len(store.files):
        raise _damaged(
            f"`files` has {len(store.files)} names, expected {n_files}", where
        )
    strange = sorted(store.files.keys() - set(names_of_files(arrays, n_rows)))
    if strange:
        raise _damaged(f"`files` has {strange[0]!r}, which no store has", where)
    # They are read whole: a stranger's length must not decide how much memory that takes.
    n_rows_of_file = {GROUP_JSON: n_rows}
    for array in arrays:
        n_rows_of_file[array.zarr_json] = n_rows
        for number in range(array.n_files(n_rows) if array.is_text else 0):
            n_rows_of_file[array.file_name(number)] = min(array.file_rows, n_rows)
    for name, n_rows_of_it in n_rows_of_file.items():
        n_bytes = store.files[name].n_bytes
        most_bytes = most_whole_bytes(n_rows_of_it)
        if n_bytes > most_bytes:
            raise _damaged(
                f"`files.{name}` has {n_bytes} bytes, expected at most {most_bytes}",
                where,
            )
    n_chunks = sum(array.n_chunks(n_rows) for array in arrays)
    if store.files[CHECKS].n_bytes != CRC_BYTES * n_chunks:
        raise _damaged(f"`files.{CHECKS}` does not have 4 bytes for each chunk", where)


def _damaged(message: str, where: str) -> Corrupt:
    return Corrupt(f"this is not a document of a store: {message}", where=where)


def seal_of(store_json: bytes) -> str:
    """Return the seal of a store: the SHA-256 of its store.json."""
    return hashlib.sha256(store_json).hexdigest()
