"""Opening files and reading their packets: errors of PyAV are skipped, its settings kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import av
import pytest

from obygaze_features.video import container


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


FOR_SOME = [
    *("visual_impaired", "hearing_impaired", "karaoke"),
]
DESCRIPTIONS = [
    *("Audio description", "English (Descriptive)", "Audiodeskription", "Hörfilm"),
    *("Audiodescription", "Audiodescripción", "audiodescrizione", "AUDIODESCRIÇÃO"),
    *("Audiodeskrypcja", "Тифлокомментарий"),
]


@pytest.mark.parametrize(
    "other",
    [
        *(track(0, f"default {flag}") for flag in FOR_SOME),
        *(track(0, "default", title) for title in DESCRIPTIONS),
    ],
)
def test_a_track_for_some_is_taken_where_there_is_no_other(other: Any) -> None:
    assert container.track_of_film([other, track(1), track(2)]).index == 1
    assert container.track_of_film([other]).index == 0


COMMENTARIES = [
    *("Commentary by the director", "Regie-Kommentar", "Audiokommentar"),
    *("Commentaire audio", "COMENTARIOS", "Comentário", "Commento del regista"),
    *("Commenti", "Director's comments", "Kommenttiraita", "Komentarz", "Komentář"),
    *("Комментарии режиссёра", "Коментар", "オーディオコメンタリー"),
]


@pytest.mark.parametrize(
    "other",
    [
        *(track(0, "default", title) for title in COMMENTARIES),
        track(0, "default comment"),
    ],
)
def test_a_commentary_is_never_taken(other: Any) -> None:
    assert container.track_of_film([other, track(1), track(2)]).index == 1
    assert container.track_of_film([other]) is None


@pytest.mark.parametrize("flag", ["hearing_impaired", "visual_impaired"])
def test_a_track_for_some_is_better_than_one_of_another_language(flag: str) -> None:
    for_some = track(0, f"default {flag}", language="eng")
    french = track(1, language="fre")
    english = track(2, language="eng")
    assert container.track_of_film([for_some, french]) is for_some
    assert container.track_of_film([for_some, french, english]) is english


@pytest.mark.parametrize(
    "title",
    [
        *("Director's cut", "Description of a struggle", "No Comment", "documenta"),
        *("Comment c'est loin", "Il commendatore", "Kommissar Rex", "Documentary"),
    ],
)
def test_the_only_track_of_a_film_is_taken_whatever_the_title_of_the_film(
    title: str,
) -> None:
    only = track(0, title=title)
    assert container.track_of_film([only]) is only


def test_the_default_track_is_taken_then_the_first() -> None:
    plain = track(0, title="Comment c'est loin")
    assert container.track_of_film([plain, track(1), track(2)]) is plain
    assert container.track_of_film([plain, track(1), track(2, "default")]).index == 2
    assert container.track_of_film([]) is None
