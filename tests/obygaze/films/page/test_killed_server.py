"""Random changes, undone and done again, while the server ends with SIGKILL in the middle."""

from __future__ import annotations

import http.client
import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.film_pages import Answer, ask, change, film_clips, mark, site
from support.killed_server import KilledServer, running
from support.seeds import amount
from support.videos import write_video

from obygaze.films.marks import LEVEL, read_marks

pytestmark = [pytest.mark.check("kills processes"), pytest.mark.timeout(400)]

N_KILLS = amount(30, 200)
MOST_PLACES = 16  # the longest save has fewer; beyond it the server is not killed
# First and last picture, and the level, of a mark.
Mark = tuple[int, int, str]


def on_disk(folder: Path) -> set[Mark]:
    path = folder / "segments" / "films.eva.csv"
    if not path.exists():
        return set()
    rows = [row for row in read_marks([path]) if row.column == LEVEL]
    return {
        (round(25 * row.start_s), round(25 * row.end_s) - 1, row.value) for row in rows
    }


def sent(server: KilledServer, path: str, value: Any) -> Answer | None:
    """Send a change; None where the answer did not come."""
    try:
        return ask(server, path, method="POST", sent=value)  # type: ignore[arg-type]
    except (ConnectionError, http.client.HTTPException):
        return None


def documents(marks: set[Mark]) -> list[dict[str, Any]]:
    return [mark(*one, concepts=[], comment="") for one in marks]


def changed_at_random(
    marks: set[Mark], draw: random.Random
) -> tuple[set[Mark], set[Mark]]:
    """What is taken away and what is new: a mark that is new, changed, moved or deleted."""
    first = draw.randrange(150)
    new = {(first, first + draw.randrange(99), draw.choice(("EN", "HN", "S")))}
    gone = {draw.choice(sorted(marks))} if marks and draw.random() < 0.6 else set()
    if gone and draw.random() < 0.4:
        new = set()
    left = {one[:2] for one in marks - gone}
    return gone, {one for one in new if one[:2] not in left}


def test_no_mark_that_was_answered_is_lost(tmp_path: Path) -> None:
    write_video(tmp_path / "lake.mp4", numbers=range(250))
    page = site(tmp_path, film_clips("lake", "lake.mp4"), "eva")
    page.film("lake")
    draw = random.Random(36)
    marks: set[Mark] = set()
    done: list[tuple[set[Mark], set[Mark]]] = []
    n_changes = n_kills = n_saved_at_a_kill = 0
    places = set()
    while n_kills < N_KILLS:
        with running(page) as server:
            answer = sent(server, "/api/turn", {})
            assert answer is not None
            turn = answer.json()["turn"]
            while answer is not None and n_kills < N_KILLS:
                is_undo = bool(done) and draw.random() < 0.3
                gone, new = (
                    done[-1][::-1] if is_undo else changed_at_random(marks, draw)
                )
                after = (marks - gone) | new
                n_changes += 1
                place = draw.randrange(1, MOST_PLACES) if draw.random() < 0.5 else 0
                server.kill_at(place)
                # This changes nothing: the order before it is read then.
                ask(server, "/api/overview")  # type: ignore[arg-type]
                wanted = change(turn, *documents(new), gone=documents(gone))
                answer = sent(server, "/api/marks", wanted)
                found = on_disk(tmp_path)
                if answer is None:
                    # Nobody was told: all of the change is there, or none of it.
                    n_kills += 1
                    places.add(place)
                    assert found in (marks, after), (n_changes, place)
                    n_saved_at_a_kill += found == after
                else:
                    assert answer.status == 200, answer.body
                    assert found == after, n_changes
                if found == after and is_undo:
                    done.pop()
                elif found == after:
                    done.append((gone, new))
                marks = found
    print(
        f"{n_changes} changes, {n_kills} kills, {n_saved_at_a_kill} saved all the same"
    )
    assert 0 < n_saved_at_a_kill < n_kills
    assert len(places) >= 6
    # The history has every change; only a line of a kill may be cut off.
    n_cut = 0
    history = tmp_path / "segments" / "films.eva.history.jsonl"
    for line in history.read_bytes().splitlines():
        try:
            json.loads(line)
        except ValueError:
            n_cut += bool(line)
    assert n_cut <= n_kills
    # What was left behind is no table that somebody could open by mistake.
    names = {path.name for path in (tmp_path / "segments").iterdir()}
    visible = {name for name in names if not name.startswith(".")}
    assert visible == {"films.eva.csv", "films.eva.history.jsonl"}
