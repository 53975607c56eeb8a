"""A store's own JSON files (store.json, markers, the seal ...), typed, with their own checksum.

The first key of each file is `sha256`: the digest of its bytes with those 64 digits replaced by
zeros, so that one flipped bit is found when the file is read.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, get_type_hints

from obygaze_features.core.errors import Corrupt, FixInput, FixUsage, Mismatch
from obygaze_features.core.files import (
    compact_json,
    parse_json,
    pretty_json,
    sha256_bytes,
)
from obygaze_features.core.schema_check import (
    Converted,
    Document,
    Rows,
    Table,
    table_of,
)
from obygaze_features.core.schema_rules import whole
from obygaze_features.store.format.makers import Kind, Makers
from obygaze_features.store.format.names import (
    StoreNames,
    block_of,
    gathered_array_of,
)
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.format.schema import (
    FORMAT,
    ID_ARRAYS,
    MASK,
    VERSION,
    ArraySpec,
    FileMark,
    RowSource,
    RowStatus,
)

# An upper bound; a larger number means a corrupt file.
MAX_CLIPS = 100_000_000
MAX_ARRAYS = 1_000
MAX_FILE_BYTES = 2**60
# The same for JSON that would take far more memory than its bytes: in a store's own files a value
# takes more bytes than this.
MIN_VALUE_BYTES = 4
MANY_VALUES = 1_000_000
# From here on the number of rows is compared with the bytes of the ids before it is believed: each
# has its length, and at least one character.
MANY_ROWS = 1_000_000
MIN_ID_BYTES = 5
README_FILE = "README.md"
CLIPS_FILE = "clips.csv"
_HEAD = b'{\n "sha256": "'
_ZEROS = "0" * 64
_DIGITS = slice(len(_HEAD), len(_HEAD) + 64)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FETCH_AGAIN = "fetch this store again; its files must never be edited"


def marker_key(block: int) -> str:
    """Return the file name of a block's marker, relative to the store."""
    return f"commits/block-{block:05d}.json"


def with_checksum(value: Mapping[str, Any], *, is_compact: bool = False) -> bytes:
    """Return the bytes of a JSON file that has its own sha256; compact is without indentation."""
    if is_compact:
        data = bytearray(_HEAD + _ZEROS.encode("ascii") + b'",')
        data += compact_json(value)[1:] + b"\n"
    else:
        data = bytearray(pretty_json({"sha256": _ZEROS, **value}))
    data[_DIGITS] = sha256_bytes(bytes(data)).encode("ascii")
    return bytes(data)


def _checked_json(data: bytes, where: str) -> dict[str, Any]:
    n_values = (
        sum(map(data.count, (b",", b"[", b"{"))) if len(data) > MANY_VALUES else 0
    )
    if n_values > max(MANY_VALUES, len(data) // MIN_VALUE_BYTES):
        raise Corrupt(
            "more values than a file of a store can have",
            where=where,
            hint=_FETCH_AGAIN,
        )
    try:
        value = parse_json(data)
    except ValueError as error:
        raise Corrupt(
            f"invalid JSON: {error}", where=where, hint=_FETCH_AGAIN
        ) from error
    if not isinstance(value, dict):
        raise Corrupt("not a JSON object", where=where, hint=_FETCH_AGAIN)
    # First, since a later version may have another kind of checksum and is not damaged.
    _check_version(value, where)
    plain = bytearray(data)
    plain[_DIGITS] = _ZEROS.encode("ascii")
    if not data.startswith(_HEAD) or sha256_bytes(bytes(plain)) != value.pop(
        "sha256", None
    ):
        raise Corrupt(
            "its bytes do not match its sha256", where=where, hint=_FETCH_AGAIN
        )
    return value


def _check_version(value: Mapping[str, Any], where: str) -> None:
    if value.get("format") != FORMAT:
        raise Mismatch(
            f"format must be {FORMAT!r}, got {value.get('format')!r}",
            where=where,
            hint="check the path; obygaze store ls lists the stores of the workspace",
        )
    version = value.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise Mismatch(
            f"expected format version {VERSION} or lower, got {version!r}",
            where=where,
            hint="pip install --upgrade obygaze",
        )


def _row_range(value: Any) -> tuple[int, int]:
    first, after = value
    return int(first), int(after)


def _arrays(value: Sequence[Any]) -> tuple[ArraySpec, ...]:
    if len(value) > MAX_ARRAYS:
        raise ValueError(f"{len(value)} arrays, expected at most {MAX_ARRAYS}")
    arrays = tuple(ArraySpec.from_json(item) for item in value)
    if not arrays or len({spec.name for spec in arrays}) < len(arrays):
        raise ValueError("no arrays, or two of one name")
    return arrays


def _sorted_mapping(
    load: Callable[[Any], Any], dump: Callable[[Any], Any]
) -> Converted:
    """Return the rule of a mapping that is written in the order of its keys."""
    return Converted(
        load, lambda values: {str(key): dump(values[key]) for key in sorted(values)}
    )


def _marks(value: Mapping[str, Any]) -> dict[str, FileMark]:
    for name in value:
        if "\\" in name or not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise ValueError(f"invalid file name {name[:100]!r}")
    return {name: _mark(name, mark) for name, mark in value.items()}


def _mark(name: str, mark: Sequence[Any]) -> FileMark:
    n_bytes, sha256 = mark
    is_length = isinstance(n_bytes, int) and 0 <= n_bytes <= MAX_FILE_BYTES
    if not is_length or not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise ValueError(f"invalid length or sha256 of {name[:100]!r}")
    return FileMark(n_bytes, sha256)


def _statuses(value: Mapping[str, Any]) -> dict[int, RowStatus]:
    rows = {int(row): RowStatus.from_json(status) for row, status in value.items()}
    for row, status in rows.items():
        if status.why_not_stored:
            raise ValueError(f"row {row} {status.why_not_stored}")
    return rows


def _sources(value: Mapping[str, Any]) -> dict[int, RowSource]:
    return {int(row): RowSource.from_json(source) for row, source in value.items()}


def _blocks(value: Mapping[str, Any]) -> dict[str, frozenset[int]]:
    return {
        str(name): frozenset(map(int, blocks)) for name, blocks in dict(value).items()
    }


class NeighbouringRuns(Mapping[str, tuple[tuple[int, int], ...]]):
    """By name, a single run of rows, which begins after the last row of the name before.

    A run is made when it is asked for, since a reader of one film asks for one of thousands.
    """

    def __init__(self, n_rows_of: Mapping[str, int]) -> None:
        if min(n_rows_of.values()) < 1:
            raise ValueError("a number of rows is less than 1")
        self._n_rows_of = n_rows_of
        ends = accumulate(n_rows_of.values())
        self._end_of = dict(zip(n_rows_of, ends, strict=True))

    def __getitem__(self, name: str) -> tuple[tuple[int, int], ...]:
        end = self._end_of[name]
        return ((end - self._n_rows_of[name], end),)

    def __iter__(self) -> Iterator[str]:
        return iter(self._n_rows_of)

    def __len__(self) -> int:
        return len(self._n_rows_of)

    @property
    def n_rows(self) -> int:
        """The number of rows in all runs."""
        return sum(self._n_rows_of.values())


def _runs(value: Mapping[str, Any]) -> Mapping[str, tuple[tuple[int, int], ...]]:
    """Return runs of rows as read; a number is that of the rows after those of the name before."""
    if set(map(type, value.values())) == {int}:
        return NeighbouringRuns(value)
    runs_of: dict[str, tuple[tuple[int, int], ...]] = {}
    after = 0
    for name, rows in value.items():
        if type(rows) is int:
            runs_of[name] = ((after, after + rows),)
            after += rows
            continue
        ranges = tuple(map(_row_range, rows))
        runs_of[name] = ranges
        if ranges:
            after = ranges[-1][1]
    return runs_of


def _short_runs(
    runs_of: Mapping[str, Sequence[tuple[int, int]]],
) -> dict[str, int | list[list[int]]]:
    """Return runs of rows as written: most names have one, which follows that of the one before."""
    short: dict[str, int | list[list[int]]] = {}
    end = 0
    for name, runs in runs_of.items():
        first, after = runs[0]
        if len(runs) == 1 and first == end:
            short[name] = after - first
        else:
            short[name] = [list(run) for run in runs]
        end = runs[-1][1]
    return short


@dataclass(frozen=True)
class Origin:
    """The store of which another store is a part, and which part it is.

    Args:
        store_sha256: The sha256 of its store.json.
        seal_sha256: The sha256 of its seal; "" where its index was read in place of the seal.
        levels: The levels that were asked for; None for all.
        films: The films that were asked for; None for all.
    """

    store_sha256: str
    seal_sha256: str
    levels: tuple[str, ...] | None
    films: tuple[str, ...] | None


# What a version changes; the first one is `created`.
CHANGES = ("created", "clips", "levels", "rows", "withdrawn", "format")
# An upper bound; a larger number means a corrupt file.
MAX_VERSIONS = 1_000_000


@dataclass(frozen=True)
class StoreVersion:
    """Which version of a store this is, and why it was made.

    Args:
        number: The number of the version; the first is 1.
        change: What it changes, one of `CHANGES`.
        reason: Why it was made.
        author: Who made it; "" where that was not stated.
        date: When it was made.
        numbers: How many clips, films, levels, arrays or rows were changed.
        rows: The rows that it changed or added, as runs: the first row, and the one after the last.
        previous: The mark of the entry of the version before it; None for the first.
        made_by: What made the levels that it adds: program, device and precision.
    """

    number: int
    change: str
    reason: str
    author: str
    date: str
    numbers: Mapping[str, int] = field(default_factory=dict)
    rows: tuple[tuple[int, int], ...] = ()
    previous: FileMark | None = None
    made_by: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the version as in a seal and in the entry of an earlier version."""
        previous = None
        if self.previous is not None:
            previous = list(self.previous)
        document = {
            **vars(self),
            "numbers": dict(self.numbers),
            "rows": [list(run) for run in self.rows],
            "previous": previous,
        }
        if not self.made_by:
            del document["made_by"]
        return document

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return a version as read; keys of later versions of this program are ignored."""
        number = value["number"]
        if type(number) is not int or not 1 <= number <= MAX_VERSIONS:
            raise ValueError(f"invalid number of a version: {number!r}")
        texts = {key: value[key] for key in ("change", "reason", "author", "date")}
        texts["made_by"] = value.get("made_by", "")
        if not all(isinstance(text, str) for text in texts.values()):
            raise ValueError(f"version {number} has values that are not text")
        numbers = value.get("numbers", {})
        if not all(type(count) is int for count in numbers.values()):
            raise ValueError(f"version {number} has counts that are not whole numbers")
        rows = tuple(map(_row_range, value.get("rows", ())))
        previous = value.get("previous")
        if (previous is None) != (number == 1):
            raise ValueError(f"version {number} has no place after another one")
        if previous is not None:
            previous = _mark("previous", previous)
        return cls(number, **texts, numbers=dict(numbers), rows=rows, previous=previous)

    def changes_row(self, row: int) -> bool:
        """Return whether this version changed or added a row."""
        return any(first <= row < after for first, after in self.rows)


def runs_of_rows(rows: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return rows as runs: the first row of each, and the one after its last."""
    runs: list[tuple[int, int]] = []
    for row in sorted(set(rows)):
        if runs and runs[-1][1] == row:
            runs[-1] = (runs[-1][0], row + 1)
        else:
            runs.append((row, row + 1))
    return tuple(runs)


@dataclass(frozen=True)
class Replaced:
    """The version of a store in whose place a store without withdrawn features was made.

    Args:
        store_sha256: The sha256 of its store.json.
        seal_sha256: The sha256 of its seal.
        version: Its number.
        reason: Why it was made; of the newest version, why clips are withdrawn.
    """

    store_sha256: str
    seal_sha256: str
    version: int
    reason: str


@dataclass(frozen=True)
class LicenceStatement:
    """A licence and a citation that were stated for a store: when, and by which software."""

    licence: str
    citation: str
    stated: str
    stated_by: str


def _rows_of(kind: type, least: int = 0) -> Rows:
    """Return the rule of a list of objects; keys of later versions are ignored."""
    return Rows(replace(table_of(kind), ignore_unknown=True), least)


def _rows_of_origins() -> Rows:
    """Return the rule of a list of origins, whose films are called `movies` in the file."""
    keys = dict(table_of(Origin).keys)
    keys["movies"] = keys.pop("films")
    return Rows(Table(keys, list(keys), ignore_unknown=True, build=_origin))


def _origin(movies: tuple[str, ...] | None, **values: Any) -> Origin:
    return Origin(films=movies, **values)


def _texts(value: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()}


def _array_list(specs: Sequence[ArraySpec]) -> list[dict[str, Any]]:
    return [spec.to_json() for spec in specs]


# The rules of fields by their type; other types have those of the schema checker.
_RULES: Mapping[Any, Converted | Rows] = {
    tuple[Origin, ...]: _rows_of_origins(),
    tuple[Replaced, ...]: _rows_of(Replaced),
    tuple[LicenceStatement, ...]: _rows_of(LicenceStatement, least=1),
    Sequence[str]: Converted(list, list),
    tuple[int, int]: Converted(_row_range, list),
    tuple[ArraySpec, ...]: Converted(_arrays, _array_list),
    Recipe: Converted(Recipe.from_json, Recipe.to_json),
    Makers: Converted(Makers.from_json, Makers.to_json),
    StoreVersion: Converted(StoreVersion.from_json, StoreVersion.to_json),
    StoreVersion | None: Converted(StoreVersion.from_json, StoreVersion.to_json),
    FileMark: Converted(lambda mark: _mark("a file", mark), list),
    Mapping[int, RowStatus]: _sorted_mapping(_statuses, RowStatus.to_json),
    Mapping[int, RowSource]: _sorted_mapping(_sources, RowSource.to_json),
    Mapping[str, FileMark]: _sorted_mapping(_marks, list),
    Mapping[str, frozenset[int]]: _sorted_mapping(_blocks, sorted),
    Mapping[str, Sequence[tuple[int, int]]]: Converted(_runs, _short_runs),
    Mapping[str, str]: Converted(_texts, dict),
    Mapping[str, Sequence[str]]: Converted(dict, dict),
    Mapping[str, float]: Converted(dict, dict),
    Mapping[str, int]: Converted(dict, dict),
    Mapping[str, Any]: Converted(dict, dict),
}
_N_CLIPS = whole(1, MAX_CLIPS)
# For fields that are in the file under another key than their name.
_KEYS = {
    "manifest_name": ("manifest", "name"),
    "manifest_sha256": ("manifest", "sha256"),
    "blocks": ("arrays",),
    "status_of_row": ("noted",),
    "of_rows": ("sources",),
    "films": ("movies",),
    "replaced_versions": ("replaces",),
}
# Fields that are left out of the file where they are empty. Those without a default must be there.
_OPTIONAL = frozenset(
    (
        "sources",
        "plan",
        "plan_id",
        "origins",
        "replaced_versions",
        "crc32c",
        "makers",
        "store_version",
    )
)


def _make_table(kind: Any) -> Table:
    """Return the table of a kind of file, by the names of its fields."""
    hints = get_type_hints(kind, include_extras=True)
    rules = {name: _RULES[hint] for name, hint in hints.items() if hint in _RULES}
    table = table_of(kind, **rules)
    required = {*table.required, *(table.keys.keys() - _OPTIONAL)}
    return replace(table, required=sorted(required), ignore_unknown=True)


_table_of: Callable[[Any], Table] = cache(_make_table)


class Derivation(NamedTuple):
    """The identity of a store that is a part of another: the same part is the same store.

    Args:
        plan_id: Made of the sha256 of the other store.json, and what was asked for.
        created: When the other store was planned.
        created_by: The software that planned it.
        origins: The other store, as the last; before it the one that it is a part of, and so on.
        replaced_versions: The version of a store that it replaces, as the last, and before it
            what that one replaced.
    """

    plan_id: str
    created: str
    created_by: str
    origins: tuple[Origin, ...]
    replaced_versions: tuple[Replaced, ...] = ()


def _in_file(rule: Any, value: Any) -> Any:
    """Return the value of a field as it is in the file."""
    if isinstance(rule, Converted):
        return rule.dump(value)
    if isinstance(rule, Rows):
        return [_row_in_file(vars(item)) for item in value]
    return value


def _row_in_file(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the fields of a row by their keys in the file."""
    return {_KEYS.get(name, (name,))[-1]: value for name, value in values.items()}


def _by_field(tree: Mapping[str, Any], table: Table) -> dict[str, Any]:
    """Return the values of a file by the names of the fields; one that is missing is left out."""
    values = {}
    for name in table.keys:
        *outer, key = _KEYS.get(name, (name,))
        inner: Any = tree
        for part in outer:
            inner = inner.get(part) if isinstance(inner, Mapping) else None
        if isinstance(inner, Mapping) and key in inner:
            values[name] = inner[key]
    return values


class Terms(NamedTuple):
    """The licence of a store, and what to cite for it; empty where none is stated."""

    licence: str = ""
    citation: str = ""


class Record:
    """A JSON file of a store; its fields are in the order in which they are in the file."""

    # The name of the file, if a store has only one of this kind.
    FILE = ""
    # Whether the file is written without indentation: those of the index are read over networks.
    IS_COMPACT = False
    # The sha256 in the file, by which other files refer to it; empty if it was not read from one.
    checksum = ""

    @property
    def format_version(self) -> int:
        """The lowest version of the format whose readers can read the file."""
        return 1

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        document: dict[str, Any] = {"format": FORMAT, "version": self.format_version}
        for name, rule in _table_of(type(self)).keys.items():
            value = getattr(self, name)
            if name in _OPTIONAL and not value:
                continue
            if isinstance(value, Recipe):
                document["fingerprint"] = value.fingerprint
            inner = document
            *outer, key = _KEYS.get(name, (name,))
            for part in outer:
                inner = inner.setdefault(part, {})
            inner[key] = _in_file(rule, value)
        return with_checksum(document, is_compact=self.IS_COMPACT)

    @classmethod
    def load(cls, root: Path) -> Self:
        """Read the file of a store on this machine."""
        return cls.from_bytes((root / cls.FILE).read_bytes(), str(root / cls.FILE))

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Self:
        """Read a file; refuse one that is damaged, of a later version, or has invalid values."""
        tree = _checked_json(data, where)
        table = _table_of(cls)
        document = Document(_by_field(tree, table), where)
        record: Self = document.check(table)
        if "recipe" in table.keys and "fingerprint" not in tree:
            document.add("fingerprint", "required key is missing")
        problems = document.violations.lines
        if problems:
            first = problems[0].removeprefix(f"{where}: ")
            version = tree["version"]
            raise Corrupt(f"invalid for format {version} ({first})", where=where)
        recipe = getattr(record, "recipe", None)
        if recipe is not None and recipe.fingerprint != tree.get("fingerprint"):
            raise Mismatch(
                "the fingerprint is not that of the recipe beside it", where=where
            )
        object.__setattr__(record, "checksum", data[_DIGITS].decode("ascii"))
        return record


@dataclass(frozen=True, kw_only=True)
class Plan(Record):
    """store.json: the plan of a store, which never changes."""

    FILE = "store.json"
    created: str
    created_by: str
    # Random, so that two stores are never the same plan, even if they were made in one second.
    plan_id: str = ""
    manifest_name: str
    manifest_sha256: str
    licence: str
    citation: str
    # Of a part of another store: where it is from, the first publisher first.
    origins: tuple[Origin, ...] = ()
    # Of a store without withdrawn features: the versions in whose place it is.
    replaced_versions: tuple[Replaced, ...] = ()
    n_clips: Annotated[int, _N_CLIPS]
    block_rows: Annotated[int, _N_CLIPS]
    compressor: str | None
    arrays: tuple[ArraySpec, ...]
    recipe: Recipe
    files: Mapping[str, FileMark]
    zarr: Mapping[str, Any]
    # The bytes of the file; empty for a plan that was not read from one.
    data = b""

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Self:
        """Read store.json, and keep its bytes: markers and the seal are bound to their sha256."""
        plan = super().from_bytes(data, where)
        object.__setattr__(plan, "data", data)
        plan.names.require(plan.files, where)
        if plan.n_clips <= MANY_ROWS:
            return plan
        for name in ID_ARRAYS:
            n_bytes = sum(mark.n_bytes for mark in plan.id_files(name).values())
            if n_bytes < plan.n_clips * MIN_ID_BYTES:
                raise Corrupt(
                    f"the files of {name} have {n_bytes} bytes, too few for {plan.n_clips} ids",
                    where=where,
                    hint=_FETCH_AGAIN,
                )
        return plan

    @cached_property
    def sha256(self) -> str:
        """The sha256 of the whole file, as in a seal's `files`; empty if there is no file."""
        return sha256_bytes(self.data) if self.data else ""

    @property
    def terms(self) -> "Terms":
        """The licence and the citation with which the store was planned."""
        return Terms(self.licence, self.citation)

    @property
    def holds_pictures(self) -> bool:
        """Whether this is a store of pictures of films, which is private."""
        return any(spec.holds_pictures for spec in self.arrays)

    def refuse_pictures(self, where: str) -> None:
        """Raise an error for a store of pictures, which is not sent, packed or exported."""
        if self.holds_pictures:
            raise FixUsage(
                "this store holds pictures of films; it is private",
                where=where,
                hint="features can be shared; to move pictures to another machine of yours, copy "
                "the folder",
            )

    def id_files(self, name: str) -> dict[str, FileMark]:
        """Return the files of the ids of clips or films."""
        prefix = f"data.zarr/{name}/c."
        return {
            file: mark for file, mark in self.files.items() if file.startswith(prefix)
        }

    def require_own(self, marker: "Marker", block: int, where: str) -> None:
        """Raise an error unless a marker is of a block of this store."""
        self.recipe.require(
            marker.recipe,
            where=where,
            message=f"block {block} was committed with another recipe",
        )
        # A store with a `plan_id` is of a version whose markers name their plan.
        is_unbound = not marker.plan and not self.plan_id
        if marker.plan != self.sha256 and not is_unbound:
            raise Mismatch(
                f"block {block} was committed to another store of the same recipe",
                where=where,
                hint="obygaze store merge joins two stores",
            )
        if marker.block != block or marker.rows != self.block_range(block):
            raise Corrupt(
                f"this marker is of block {marker.block}, expected block {block}",
                where=where,
            )
        foreign = marker.files.keys() - {
            self.block_key(spec.name, block) for spec in self.arrays
        }
        if foreign:
            raise Corrupt(f"{min(foreign)} is not a file of block {block}", where=where)

    @property
    def n_blocks(self) -> int:
        """The number of blocks of rows."""
        return -(-self.n_clips // self.block_rows)

    def block_range(self, block: int) -> tuple[int, int]:
        """Return the first row of a block, and the row after its last."""
        if not 0 <= block < self.n_blocks:
            raise FixInput(f"block must be 0 to {self.n_blocks - 1}, got {block}")
        first = block * self.block_rows
        return first, min(first + self.block_rows, self.n_clips)

    def array(self, name: str) -> ArraySpec:
        """Return the array of that name, or raise an error that lists the arrays."""
        spec = self._array_of.get(name)
        if spec is None:
            raise FixInput(
                f"this store has no array {name!r}",
                hint="one of " + ", ".join(self._array_of),
            )
        return spec

    def mask_of(self, name: str) -> ArraySpec | None:
        """Return the array that tells which frames of an array are real; None if there is none."""
        mask = self._array_of.get(MASK)
        dims = self.array(name).dims
        if (
            mask is None
            or mask.is_feature_array
            or len(dims) < 2
            or dims[0] != mask.dims[0]
        ):
            return None
        return mask

    def with_masks(self, names: Iterable[str]) -> list[str]:
        """Return the names of arrays, each once, and of the mask that they need."""
        chosen = list(dict.fromkeys(names))
        if MASK not in chosen and any(
            self.mask_of(name) is not None for name in chosen
        ):
            chosen.append(MASK)
        return chosen

    @cached_property
    def _array_of(self) -> dict[str, ArraySpec]:
        return {spec.name: spec for spec in self.arrays}

    @cached_property
    def names(self) -> StoreNames:
        """The names that files of this store can have."""
        dimensions = {spec.name: len(spec.tail_shape) for spec in self.arrays}
        return StoreNames(dimensions, self.n_clips, self.n_blocks)

    def block_key(self, name: str, block: int) -> str:
        """Return the one file that holds a block of an array, relative to the store."""
        return self.names.block_key(self.array(name).name, block)


@dataclass(frozen=True, kw_only=True)
class Marker(Record):
    """commits/block-XXXXX.json: marks a block as whole; its files, rows and versions."""

    block: int
    rows: tuple[int, int]
    revision: int = 0
    replaces: str = ""
    status_of_row: Mapping[int, RowStatus]
    sources: Mapping[int, RowSource] = field(default_factory=dict)
    # What made its rows, where it is known.
    makers: Makers = field(default_factory=Makers)
    files: Mapping[str, FileMark]
    # The sha256 of store.json; by array, the CRC32C values of the block's file, as hex.
    plan: str = ""
    crc32c: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    host: str = ""
    recipe: Recipe


@dataclass(frozen=True, kw_only=True)
class FirstKind(Record):
    """commits/kind.json: the program, device and precision of the first clips of a store.

    Written exclusively, so that processes that begin at the same time agree on one.
    """

    FILE = "commits/kind.json"
    # The sha256 of store.json.
    plan: str
    program: str
    device: str
    precision: str

    @property
    def kind(self) -> Kind:
        """The three together."""
        return Kind(self.program, self.device, self.precision)


@dataclass(frozen=True)
class TextMarker(Record):
    """commits/text.json: marks the texts of a store as whole, and lists their files."""

    FILE = "commits/text.json"
    files: Mapping[str, FileMark]


@dataclass(frozen=True, kw_only=True)
class Seal(Record):
    """seal.json: the status of every row and the mark of every file of a complete store."""

    FILE = "seal.json"
    fingerprint: str
    counts: Mapping[str, int]
    status_of_row: Mapping[int, RowStatus]
    # What made the rows, where it is known; hosts are numbers.
    makers: Makers = field(default_factory=Makers)
    versions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, FileMark]
    # By array, the CRC32C values of each block, separated by spaces.
    crc32c: Mapping[str, str] = field(default_factory=dict)
    # None for the first version.
    store_version: StoreVersion | None = None

    @property
    def format_version(self) -> int:
        """2 for a store that lists copies of blocks, which readers of version 1 do not know."""
        return 2 if any(map(gathered_array_of, self.files)) else 1

    @property
    def version_number(self) -> int:
        """The number of this version of the store."""
        return 1 if self.store_version is None else self.store_version.number


@dataclass(frozen=True, kw_only=True)
class VersionEntry(Record):
    """versions/files/SHA256: an earlier version of a store, and where the one before it is.

    The seal of the newest version has the mark of the entry of the one before, and each entry that
    of the next earlier one: nothing can be changed in the past without another newest seal.
    """

    seal: FileMark
    store: FileMark
    store_version: StoreVersion


@dataclass(frozen=True)
class Sources(Record):
    """sources.json: what the rows of a sealed store were made from, as far as it was recorded.

    A file of its own, since readers of features do not need it.
    """

    FILE = "sources.json"
    of_rows: Mapping[int, RowSource]


@dataclass(frozen=True)
class Partial(Record):
    """partial.json: which blocks of which arrays a copy of a sealed store holds.

    Earlier versions wrote it; such copies can still be read. A copy that has this file keeps
    store.json and seal.json of the whole; the rest of the files in the seal was never fetched, and
    is missing rather than lost.
    """

    FILE = "partial.json"
    blocks: Mapping[str, frozenset[int]]

    def holds(self, array: str, block: int) -> bool:
        """Return whether a block of an array was fetched."""
        return block in self.blocks.get(array, ())

    def holds_file(self, name: str) -> bool:
        """Return whether a file of the store, by its name, was fetched."""
        array_and_block = block_of(name)
        if array_and_block is None:
            return True
        array, block = array_and_block
        return array in ID_ARRAYS or self.holds(array, block)


@dataclass(frozen=True, kw_only=True)
class LicenceHistory(Record):
    """licence.json: licences stated after the store was planned, the oldest first.

    The last one counts, in place of those of store.json. The seal does not list this file, since a
    licence can be stated for a sealed store too.
    """

    FILE = "licence.json"
    # The sha256 of store.json.
    plan: str
    statements: tuple[LicenceStatement, ...]

    @property
    def terms(self) -> Terms:
        """The licence and the citation that count."""
        last = self.statements[-1]
        return Terms(last.licence, last.citation)

    def continues(self, earlier: "LicenceHistory") -> bool:
        """Return whether this is an earlier history, or that one and what was stated later."""
        return self.statements[: len(earlier.statements)] == earlier.statements
