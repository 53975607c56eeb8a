from types import SimpleNamespace
from typing import Any

import av

from obygaze_features.video import container


def test_a_stream_that_appears_on_the_way_is_passed_over() -> None:
    class Packet:
        size = 7

        def has_sidedata(self, _: str) -> bool:
            return False

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


def track(index: int, flags: str = "", title: str = "", language: str = "") -> Any:
    disposition = av.stream.Disposition(0)
    for flag in flags.split():
        disposition |= av.stream.Disposition[flag]
    return SimpleNamespace(
        index=index,
        disposition=disposition,
        metadata={"title": title},
        language=language,
    )


DESCRIPTIONS = ["English (Descriptive)", "AUDIODESCRIÇÃO", "Тифлокомментарий"]
COMMENTARIES = ["Regie-Kommentar", "Commento del regista", "オーディオコメンタリー"]


def test_a_track_for_some_is_taken_last_and_a_commentary_never() -> None:
    for_some = [track(0, f"default {flag}") for flag in ("visual_impaired", "karaoke")]
    for_some += [track(0, "default", title) for title in DESCRIPTIONS]
    commentaries = [track(0, "default", title) for title in COMMENTARIES]
    for other in (*for_some, *commentaries, track(0, "default comment")):
        assert container.track_of_film([other, track(1), track(2)]).index == 1
        alone = container.track_of_film([other])
        assert alone is (other if other in for_some else None)


def test_a_track_for_some_is_better_than_one_of_another_language() -> None:
    for_some = track(0, "default hearing_impaired", language="eng")
    french = track(1, language="fre")
    english = track(2, language="eng")
    assert container.track_of_film([for_some, french]) is for_some
    assert container.track_of_film([for_some, french, english]) is english


def test_the_default_track_is_taken_then_the_first() -> None:
    plain = track(0, title="Comment c'est loin")
    assert container.track_of_film([plain, track(1), track(2)]) is plain
    assert container.track_of_film([plain, track(1), track(2, "default")]).index == 2
    assert container.track_of_film([]) is None
    # The titles of films are not kinds of tracks.
    for title in ("Description of a struggle", "No Comment", "Il commendatore"):
        only = track(0, title=title)
        assert container.track_of_film([only]) is only
