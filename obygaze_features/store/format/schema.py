"""The parts of a store: arrays, the status and the source of a row, marks of files, texts."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.outside import one_line

FORMAT = "obygaze-store"
# The latest version of the format; files have the lowest one that describes them.
VERSION = 2
Bytes = npt.NDArray[np.uint8]
ID_ARRAYS = ("clip_id", "movie_id")
TIME_ARRAYS = ("time_s", "asked_s")
# The start and the end of a window in its film.
SPAN_ARRAYS = ("start_s", "end_s")
# Whether each frame is real, and not the padding of a short clip.
MASK = "mask"
DTYPES = ("float16", "float32", "float64", "bool", "uint8", "int32", "int64")
ROW_DIM = "row"
# An upper bound; a larger number means a corrupt file.
MAX_ROW_BYTES = 10**30
# The files of earlier versions of a store, each under its sha256.
VERSIONS_FOLDER = "versions"
KEPT_FOLDER = f"{VERSIONS_FOLDER}/files"
# The texts that go with a store: their folder, and what is known of each besides its embedding.
TEXT_FOLDER = "data.zarr/text"
WORDS = ("prompt", "template", "attribute")
# Pictures of films (uint8). A store with this array is private: it is not sent, packed or exported.
PICTURES = "pictures"

State = Literal["ok", "failed", "no-video", "withdrawn", "missing"]
# A missing row is in no file.
STORED_STATES = ("ok", "failed", "no-video", "withdrawn")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True)
class ArraySpec:
    """One array of a store: rows by `tail_shape`. Dimensions without names get size-named ones."""

    name: str
    tail_shape: tuple[int, ...]
    dims: tuple[str, ...] = ()
    dtype: str = "float32"
    # Of an array that was made of another one: its name, and what was made of its vectors.
    derived_from: str = ""
    derived_by: str = ""

    def __post_init__(self) -> None:
        if any(int(size) != size for size in self.tail_shape):
            raise FixInput(
                f"shape {self.tail_shape} is not of whole numbers", where=self.name
            )
        object.__setattr__(
            self, "tail_shape", tuple(int(size) for size in self.tail_shape)
        )
        object.__setattr__(
            self, "dims", tuple(self.dims) or _default_dims(self.tail_shape)
        )
        if not isinstance(self.dtype, str) or self.dtype not in DTYPES:
            object.__setattr__(self, "dtype", str(np.dtype(self.dtype)))
        self._check()

    def _check(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in (*ID_ARRAYS, "text"):
            raise FixInput(
                f"{self.name!r} cannot be the name of an array",
                where="array specs",
                hint="lower case letters, digits and _, but not 'text' or a name of ids",
            )
        if self.dtype not in DTYPES:
            known = ", ".join(DTYPES)
            raise FixInput(
                f"dtype must be one of {known}, got {self.dtype}", where=self.name
            )
        if any(size < 1 for size in self.tail_shape) or len(self.dims) != len(
            self.tail_shape
        ):
            raise FixInput(
                f"shape {self.tail_shape} does not match the dimensions {self.dims}",
                where=self.name,
            )
        if self.row_bytes > MAX_ROW_BYTES:
            raise FixInput(
                f"one clip has more than {MAX_ROW_BYTES:.0e} bytes", where=self.name
            )

    @property
    def row_bytes(self) -> int:
        """The bytes of one clip."""
        return math.prod(self.tail_shape) * np.dtype(self.dtype).itemsize

    @property
    def is_float(self) -> bool:
        """Whether a missing row can be shown as NaN."""
        return np.dtype(self.dtype).kind == "f"

    @property
    def is_feature_array(self) -> bool:
        """Whether this holds features or pictures, not times or masks that go with them."""
        return self.holds_pictures or (
            self.is_float and self.name not in (*TIME_ARRAYS, *SPAN_ARRAYS)
        )

    @property
    def holds_pictures(self) -> bool:
        """Whether this holds pictures of films."""
        return (self.name, self.dtype) == (PICTURES, "uint8")

    def to_json(self) -> dict[str, Any]:
        """Return the array as in store.json."""
        document = {
            "name": self.name,
            "tail_shape": list(self.tail_shape),
            "dims": list(self.dims),
            "dtype": self.dtype,
        }
        if self.derived_from:
            document["derived_from"] = self.derived_from
            document["derived_by"] = self.derived_by
        return document

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return an array of store.json."""
        dims = tuple(map(str, value["dims"]))
        dtype = value["dtype"]
        if dtype not in DTYPES:  # NumPy would interpret other texts
            raise ValueError(
                f"dtype must be one of {', '.join(DTYPES)}, got {str(dtype)[:100]}"
            )
        return cls(
            str(value["name"]),
            tuple(value["tail_shape"]),
            dims,
            dtype,
            derived_from=str(value.get("derived_from", "")),
            derived_by=str(value.get("derived_by", "")),
        )


def _default_dims(tail_shape: Sequence[int]) -> tuple[str, ...]:
    # The size is in the name, so that two arrays never share a name for two sizes (xarray refuses).
    letters = {0: "", 1: "d", 2: "td", 3: "tpd"}.get(
        len(tail_shape), "x" * len(tail_shape)
    )
    names = [
        f"{letter}{size}" for letter, size in zip(letters, tail_shape, strict=True)
    ]
    return tuple(
        f"{name}_{i}" if names.index(name) != i else name
        for i, name in enumerate(names)
    )


@dataclass(frozen=True)
class RowStatus:
    """Whether a clip has features, and why not; a clip that is ok may have a message too."""

    state: State = "ok"
    stage: str = ""
    error: str = ""
    message: str = ""
    # Of a clip that was withdrawn: when.
    date: str = ""

    @classmethod
    def failed(cls, stage: str, error: str, message: str) -> Self:
        """Return the status of a clip whose features could not be made."""
        return cls("failed", stage, error, message)

    @classmethod
    def no_video(cls, message: str = "") -> Self:
        """Return the status of a clip whose video does not exist."""
        return cls("no-video", message=message)

    @classmethod
    def withdrawn(cls, reason: str, date: str) -> Self:
        """Return the status of a clip whose features were taken away."""
        return cls("withdrawn", message=reason, date=date)

    @property
    def is_withdrawn(self) -> bool:
        """Whether the features were taken away; they are never made again."""
        return self.state == "withdrawn"

    @property
    def is_ok(self) -> bool:
        """Whether the row holds features."""
        return self.state == "ok"

    @property
    def why_not_stored(self) -> str:
        """Why no file of a store may have this status; "" if it may."""
        words = vars(self).values()
        if not all(isinstance(word, str) for word in words):
            return "has a status with values that are not text"
        # An unknown state is an error and never counts as ok.
        if self.state not in STORED_STATES:
            return f"has the unknown state {self.state!r}"
        try:
            "".join(words).encode("utf-8")
        except UnicodeEncodeError:
            return "has a status with characters that UTF-8 does not have"
        return ""

    def __str__(self) -> str:
        """Return the status in one line."""
        words: list[str] = [self.state]
        if self.date:
            words[0] += f" on {self.date}"
        if self.stage or self.error:
            words.append(f"{self.stage} {self.error}".strip())
        return one_line(": ".join([*words, self.message] if self.message else words))

    def to_json(self) -> dict[str, str]:
        """Return the status as in markers and seals."""
        return {name: value for name, value in vars(self).items() if value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return a status as read; keys of later versions are ignored, the state must be there."""
        known_values = {
            name: value[name] for name in cls.__dataclass_fields__ if name in value
        }
        return cls(**{**known_values, "state": value["state"]})


OK = RowStatus()
MISSING = RowStatus("missing", message="its block was never committed")
NOT_FETCHED = RowStatus("missing", message="this copy is partial and does not hold it")
NOT_IN_STORE = RowStatus("missing", message="no clip of that name in this store")


@dataclass(frozen=True)
class RowSource:
    """The source of a row: the times of the clip, its video file, how many frames it has.

    A file is known by its size and its quick hash, wherever it lies. None: not recorded, or, for
    a time, the start or the end of the file.
    """

    start_s: float | None = None
    end_s: float | None = None
    n_bytes: int | None = None
    quick_sha256: str | None = None
    n_frames: int | None = None

    def __post_init__(self) -> None:
        for key, value in self._by_key().items():
            kind = _SOURCE_KINDS.get(key, int)
            if value is not None and (
                not isinstance(value, kind) or isinstance(value, bool)
            ):
                raise ValueError(f"invalid {key} of a source: {value!r}")

    def _by_key(self) -> dict[str, Any]:
        """Return the values by their keys in the file, where a count of frames is `pictures`."""
        values = dict(vars(self))
        values["pictures"] = values.pop("n_frames")
        return values

    def to_json(self) -> dict[str, Any]:
        """Return the source as in markers and in sources.json."""
        values = self._by_key()
        return {key: value for key, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return a source as read; keys of later versions are ignored."""
        return cls(
            start_s=value.get("start_s"),
            end_s=value.get("end_s"),
            n_bytes=value.get("n_bytes"),
            quick_sha256=value.get("quick_sha256"),
            n_frames=value.get("pictures"),
        )


# Of the fields that are not whole numbers.
_SOURCE_KINDS: Mapping[str, Any] = {
    "start_s": int | float,
    "end_s": int | float,
    "quick_sha256": str,
}


class FileMark(NamedTuple):
    """What a file must be: its length and its sha256."""

    n_bytes: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return the mark of a file with these bytes."""
        return cls(len(data), sha256_bytes(data))

    @property
    def kept_name(self) -> str:
        """The name of this file in a store, where a later version has another one in its place."""
        return f"{KEPT_FOLDER}/{self.sha256}"


@dataclass(frozen=True)
class TextTable:
    """Texts and their embeddings, one row each, as the model gave them: not normalised.

    `space_id` names the space that the embeddings share with an array of the store.
    """

    embeddings: npt.NDArray[np.float32]
    prompt: Sequence[str]
    template: Sequence[str]
    attribute: Sequence[str]
    space_id: str

    def __post_init__(self) -> None:
        values = np.ascontiguousarray(self.embeddings, dtype=np.float32)
        object.__setattr__(self, "embeddings", values)
        lengths = {len(values), *(len(getattr(self, name)) for name in WORDS)}
        if values.ndim != 2 or not values.size or len(lengths) != 1:
            raise FixInput(
                "each row must have an embedding, a prompt, a template, an attribute"
            )
        wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(wrong):
            raise FixInput(f"the embedding of row {wrong[0]} contains NaN or infinity")
