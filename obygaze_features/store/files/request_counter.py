"""Counts the requests and bytes that a way of reading costs; small files are asked for once."""

from __future__ import annotations

from threading import Lock

from obygaze_features.store.files.places import Files, Piece

KEPT_BYTES = 1_000_000


class CountedFiles:
    """Files behind a counter. Whole small files are kept, so that nothing is fetched twice."""

    def __init__(self, inner: Files) -> None:
        self.inner = inner
        self.location, self.is_remote = inner.location, inner.is_remote
        self.n_requests = self.n_bytes = 0
        self._kept: dict[str, Piece] = {}
        self._lock = Lock()

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        """What the inner files answer, counted."""
        kept = self._kept.get(name) if start == 0 and stop is None else None
        if kept is not None:
            return kept
        piece = self.inner.read(name, start, stop)
        with self._lock:
            self.n_requests += 1
            if piece is not None:
                self.n_bytes += len(piece.data)
                if len(piece.data) == piece.total <= KEPT_BYTES and self._is_kept(name):
                    self._kept[name] = piece
        return piece

    def _is_kept(self, name: str) -> bool:
        # Of the arrays only the ids, which are read before it is clear what is wanted.
        return not name.startswith("data.zarr/") or name.split("/")[1] in ("clip_id", "movie_id")

    def names(self, folder: str) -> list[str] | None:
        """What the inner files answer, counted."""
        self.n_requests += 1
        return self.inner.names(folder)
