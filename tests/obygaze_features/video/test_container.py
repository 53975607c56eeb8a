"""Opening files and reading their packets: errors of PyAV are skipped, its settings kept."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
from support.videos import write_video

from obygaze_features.video import container
from obygaze_features.video.film import probe


def test_a_stream_that_appears_on_the_way_is_passed_over() -> None:
    class Packet:
        size = 7

    class Container:
        """PyAV raises at a packet of a stream it did not know when it began to read."""

        format = SimpleNamespace(name="mpegts")
        turns = iter([2, 3])

        def demux(self, _: object) -> Any:
            turn = next(self.turns)
            yield from [Packet()] * turn
            if turn == 2:
                raise IndexError("list index out of range")

    assert len(list(container.demux(Container(), None))) == 5


def test_logging_is_as_it_was(tmp_path: Path) -> None:
    path = write_video(tmp_path / "film.mkv", numbers=range(3))
    before = av.logging.get_level()
    probe(path)
    assert av.logging.get_level() == before
