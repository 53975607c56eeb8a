"""Rows to clips: decoded ahead by worker processes, handed over in the order of the rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from obygaze_features.core.machine import package_version
from obygaze_features.extraction.pipeline import Decoded
from obygaze_features.extraction.plan import Row
from obygaze_features.extraction.sources import source_of
from obygaze_features.store.format.schema import RowSource, RowStatus
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decode import DecodedClip, View
from obygaze_features.video.pool import DecodeJob, DecodePool

NO_VIDEO = RowStatus.no_video("the manifest names no video")
Jobs = Sequence[tuple[int, tuple[View, ...]]]


@dataclass(frozen=True)
class DecodeSettings:
    """How many decoders, how long each may take for a clip, how much damage is let through."""

    workers: int
    timeout_s: float
    max_substituted: float
    ahead: int


def decode_rows(
    rows: Sequence[Row], jobs: Jobs, settings: DecodeSettings, pool: DecodePool | None = None
) -> Iterator[Decoded]:
    """Decode rows in order; one that cannot be decoded comes with its reason in place of clips.

    Decoders of a `pool` are used and left running; else some are started for these rows.
    """
    with_video = (
        DecodeJob(rows[row].video, views, rows[row].start_s, rows[row].end_s)
        for row, views in jobs
        if rows[row].video
    )
    with contextlib.ExitStack() as stack:
        if pool is None:
            own = DecodePool(settings.workers, timeout_s=settings.timeout_s)
            pool = stack.enter_context(own)
        results = pool.map(with_video, ahead=settings.ahead)
        for row, views in jobs:
            if not rows[row].video:
                yield Decoded(row, dict.fromkeys(views, NO_VIDEO))
                continue
            found = next(results)
            if found.clips is None:
                status = _failed(found.error)
                clips: Mapping[View, DecodedClip | RowStatus] = dict.fromkeys(views, status)
                # The file is left alone: reading it may be what failed, or what hung.
                source: RowSource | None = RowSource(rows[row].start_s, rows[row].end_s)
            else:
                clips = {
                    view: _checked(clip, settings.max_substituted)
                    for view, clip in found.clips.items()
                }
                source = source_of(rows[row])
            yield Decoded(row, clips, found.seconds, source)


def decoder_versions() -> dict[str, str]:
    """The packages that a block was made with."""
    names = ("av", "numpy", "torch", "transformers", "zarr")
    return {name: version for name in names if (version := package_version(name)) is not None}


def _checked(clip: DecodedClip, max_substituted: float) -> DecodedClip | RowStatus:
    try:
        return clip.check(max_substituted)
    except BadVideo as error:
        return _failed(error)


def _failed(error: BadVideo | None) -> RowStatus:
    if error is None:
        return RowStatus.failed("decode", "unknown", "the decoder gave neither clip nor error")
    return RowStatus.failed(error.stage, error.reason, error.what)
