"""The rows of a store, their statuses, and the sources from which new stores get rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, Protocol, Self

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from obygaze_features.core.errors import EXIT_SOME_FAILED
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.schema_check import Record
from obygaze_features.manifest.clip_table import FILE_TIMES, FRAME_COLUMNS, ClipTable
from obygaze_features.manifest.model import Clip
from obygaze_features.manifest.spans import (
    FILM_TIMES,
    FrameSpan,
    Span,
    span_in_film,
    stated_frames,
)
from obygaze_features.store.layout import MOST_ROWS, Array
from obygaze_features.store.text_columns import TextColumn, side_by_side

# The values of `RowStatus.tried`: when an extraction computes a row of a status again.
NEVER = "never"
ALWAYS = "always"
WITH_VIDEO = "if the clip has a video or stored frames"
WHEN_ASKED = "with --retry-failed, or if the times or the film changed"


class RowStatus(StrEnum):
    """The status of a row, in the order of the codes in the column `status`.

    Attributes:
        words: The status in a sentence.
        exit_code: The exit code of a command that leaves rows of this status.
        tried: When an extraction computes a row of this status again.
        reason: The reason of a `BadVideo` that gives a row this status; "" for `failed`, which all
            other reasons give, and for statuses without a reason.
    """

    words: str
    exit_code: int
    tried: str
    reason: str

    OK = "ok", "with features", 0, NEVER
    FAILED = "failed", "could not be extracted", EXIT_SOME_FAILED, WHEN_ASKED
    # The manifest names no video, or the file is missing.
    NO_VIDEO = "no-video", "without a video", EXIT_SOME_FAILED, WITH_VIDEO, "missing"
    # The sound of the clip cannot be read. A clip of silence has features.
    SILENT = "silent", "without sound", EXIT_SOME_FAILED, WHEN_ASKED, "no-sound"
    # The words of the clip are unknown. A clip in which nothing is said has features.
    NO_WORDS = "no-words", "without known words", EXIT_SOME_FAILED, NEVER, "no-words"
    # The store was sealed before the row was computed.
    NOT_EXTRACTED = "not-extracted", "not extracted", EXIT_SOME_FAILED, ALWAYS

    def __new__(
        cls, word: str, words: str, exit_code: int, tried: str, reason: str = ""
    ) -> Self:
        """Return the status of a word."""
        status = str.__new__(cls, word)
        status._value_ = word
        status.words = words
        status.exit_code = exit_code
        status.tried = tried
        status.reason = reason
        return status

    def __repr__(self) -> str:
        return repr(self.value)

    @property
    def key(self) -> str:
        """The key of the count of this status, in store.json and in the status of an extraction."""
        return self.value.replace("-", "_")


STATUSES = tuple(RowStatus)
STATUS_OF_WORD: dict[str, RowStatus] = {status.value: status for status in STATUSES}
STATUS_OF_REASON = {status.reason: status for status in STATUSES if status.reason}
OK, FAILED, NO_VIDEO, SILENT, NO_WORDS, NOT_EXTRACTED = STATUSES
OK_CODE = STATUSES.index(OK)
_Number = Annotated[int, Meta(ge=0)]


class Counts(Record, frozen=True, omit_defaults=True):
    """The number of rows, and the number of rows of each status.

    The count of a status without rows is not written. An older version of this program therefore
    refuses a store only if the store has rows of a status that this version does not know.
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
        """The number of ok rows, and of rows of each other status that occurs."""
        counts = zip(RowStatus, self.by_code, strict=True)
        return {str(status): n for status, n in counts if n or status == OK}

    @property
    def by_code(self) -> list[int]:
        """The number of rows of each status, in the order of the codes."""
        return [getattr(self, status.key) for status in RowStatus]


def words_of_status(word: str, *, is_imported: bool) -> str:
    """Return the words for rows of a status, as part of a sentence.

    An import extracts nothing. Its failed rows are therefore "without features", instead of "could
    not be extracted".
    """
    if word == FAILED and is_imported:
        return "without features"
    return STATUS_OF_WORD[word].words


# The digits of the quick hash of a video that a row has.
HASH_DIGITS = 16
# The reason of a row that is not ok, if the writer of the row gave no reason.
NO_REASON = "no reason given"


# The ASCII characters that canonical JSON escapes.
_ESCAPED = frozenset(map(chr, (*range(32), ord('"'), ord("\\"))))


class Reason(NamedTuple):
    """Why a clip has no features: its status, or `missing`, and one sentence."""

    status: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.status}: {self.sentence}" if self.sentence else self.status


class Row(NamedTuple):
    """One row of a store: a clip, its status, and the facts of its video.

    Args:
        clip_id: The id of the clip.
        movie_id: The id of the film of the clip.
        start_s: The requested start of the clip in its video, in seconds; None: the start of the
            file.
        end_s: The requested end of the clip in its video, in seconds; None: the end of the file.
        status: The status.
        reason: Why the row is not ok, in one sentence; a row that is ok may have a remark.
        start_frame: The first frame of the clip in its film; None if the manifest has no frames.
        end_frame: The last frame of the clip in its film; None if the manifest has no frames.
        framerate: The frames per second by which the manifest counts; None if it states none.
        video_bytes: The length of the video file that was read, in bytes; None: unknown.
        video_hash: The quick hash of the video file that was read, 16 hex digits; "": unknown.
        pictures: The number of pictures of the clip in the video; None: unknown.
        film_start_s: The start of the clip in its film, in seconds, if its video is not the film.
        film_end_s: The end of the clip in its film, in seconds, if its video is not the film.
    """

    clip_id: str
    movie_id: str
    start_s: float | None = None
    end_s: float | None = None
    status: RowStatus = OK
    reason: str = ""
    start_frame: int | None = None
    end_frame: int | None = None
    framerate: float | None = None
    video_bytes: int | None = None
    video_hash: str = ""
    pictures: int | None = None
    film_start_s: float | None = None
    film_end_s: float | None = None

    @classmethod
    def of_clip(cls, clip: Clip) -> Self:
        """Return the row of a clip of a manifest, without facts of its video."""
        row = cls(clip.clip_id, clip.movie_id, clip.start_s, clip.end_s)
        return row.with_film_times(span_in_film(clip)).with_frames(
            stated_frames(clip.extra)
        )

    def with_film_times(self, span: Span | None) -> Self:
        """Return the row with the times in the film, unless `start_s` and `end_s` state them."""
        if span is None or span == (self.start_s, self.end_s):
            return self
        return self._replace(film_start_s=span[0], film_end_s=span[1])

    def with_frames(self, span: FrameSpan | None) -> Self:
        """Return the row with the frames of `span`; unchanged if `span` is None."""
        if span is None:
            return self
        rate = None if span.rate is None else float(span.rate)
        return self._replace(
            start_frame=span.first, end_frame=span.last, framerate=rate
        )

    @property
    def as_planned(self) -> Self:
        """The row without the facts that are known only after its computation."""
        return self._replace(
            status=OK, reason="", video_bytes=None, video_hash="", pictures=None
        )

    @property
    def is_ok(self) -> bool:
        """Whether the row has features."""
        return self.status == OK


def table_of_rows(rows: Sequence[Row]) -> ClipTable:
    """Return the clips of rows, with their times, frames and videos, as a table."""
    names = (*FILE_TIMES, *FILM_TIMES, *FRAME_COLUMNS, "video_bytes", "video_hash")
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    return ClipTable.of(
        [row.clip_id for row in rows], [row.movie_id for row in rows], **columns
    )


@dataclass(frozen=True)
class RowColumns:
    """All rows of a new store: a column for each field of `Row`, in the order of the format.

    With columns, an import of a million rows does not make a million objects.
    """

    clip_ids: TextColumn
    movie_ids: TextColumn
    start_s: Sequence[float | None]
    end_s: Sequence[float | None]
    statuses: Sequence[RowStatus]
    reasons: Sequence[str]
    start_frames: Sequence[int | None]
    end_frames: Sequence[int | None]
    framerates: Sequence[float | None]
    video_bytes: Sequence[int | None]
    video_hashes: Sequence[str]
    pictures: Sequence[int | None]
    film_start_s: Sequence[float | None]
    film_end_s: Sequence[float | None]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Self:
        """Return the columns of rows."""
        columns: list[Any] = [[] for _ in Row._fields]
        if rows:
            columns = list(map(list, zip(*rows, strict=True)))
        clip_ids, movie_ids, *others = columns
        return cls(TextColumn(clip_ids), TextColumn(movie_ids), *others)

    @classmethod
    def of_clips(cls, clip_ids: Sequence[str], movie_ids: Sequence[str]) -> Self:
        """Return the columns of ok rows of which only clip and film are known."""
        others: list[Any] = []
        for value in Row._field_defaults.values():
            others.append([value] * len(clip_ids))
        return cls(TextColumn.of(clip_ids), TextColumn.of(movie_ids), *others)

    @property
    def clips_sha256(self) -> str:
        """The hash of the clip and film ids in the order of the rows, for the `ManifestMark`.

        Labels, folds, times and links to videos do not change it.
        """
        clips = self.clip_ids.table
        films = self.movie_ids.table
        characters = self.clip_ids.characters | self.movie_ids.characters
        if clips is None or films is None or not characters.isdisjoint(_ESCAPED):
            pairs = zip(self.clip_ids, self.movie_ids, strict=True)
            items = b",".join(map(msgspec.json.encode, pairs))
        else:
            items = side_by_side(b'["', clips, b'","', films, b'"],').tobytes()[:-1]
        # Canonical JSON.
        return sha256_bytes(b"[" + items + b"]")

    def __len__(self) -> int:
        return len(self.clip_ids)

    def __getitem__(self, number: int) -> Row:
        columns: tuple[Any, ...] = tuple(vars(self).values())
        return Row(*(column[number] for column in columns))


class RowSource(Protocol):
    """The source of the rows of a new store: files, stores or finished blocks."""

    def columns(self) -> RowColumns:
        """Return the facts of all rows of the new store, as columns.

        This method is called before `read`.
        """

    def read(self, array: Array, first: int, after: int) -> npt.NDArray[np.generic]:
        """Return the rows of an array from number `first` to number `after - 1`.

        The values of rows whose status is not ok are ignored: the store has the fill value there.
        """
