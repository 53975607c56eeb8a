"""Random edits with undo and redo, while the server ends with SIGKILL in the middle of saves."""

from __future__ import annotations

import http.client
import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.film_pages import Answer, ask, site, table
from support.killed_server import KilledServer, running
from support.seeds import amount

from obygaze.films.page.site import Site
from obygaze_features.manifest.model import Clip

pytestmark = [pytest.mark.check("kills processes"), pytest.mark.timeout(400)]

N_FRAMES = 2500
N_EDITS = amount(60, 500)
MOST_PLACES = 16  # the longest save has fewer; beyond it the server is not killed
# First and last picture, level and comment of a mark, by its id.
Marks = dict[str, tuple[int, int, str, str]]


def long_film(folder: Path) -> Site:
    clips = [Clip("lake-1", "lake", 1, "", 0.0, 100.0, "S", (), {"framerate": "25"})]
    return site(folder, clips, "eva")


def id_of(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def on_disk(folder: Path, page: Site) -> Marks:
    """The marks of the table, read anew by nobody's server."""
    read = table(folder, page.manifest, "eva").read()
    return {
        name: (one["start_frame"], one["end_frame"], one["level"], one["comment"])
        for name, one in read.marks.items()
    }


def sent(server: KilledServer, path: str, value: Any) -> Answer | None:
    """Send a change; None where the answer did not come."""
    try:
        return ask(server, path, method="POST", sent=value)  # type: ignore[arg-type]
    except (ConnectionError, http.client.HTTPException):
        return None


def edited(marks: Marks, draw: random.Random, number: int) -> Marks:
    """The marks after one change at random: new, changed, moved or deleted."""
    after = dict(marks)
    name = draw.choice(("new", "new", "change", "move", "delete"))
    if name == "new" or not marks:
        first = draw.randrange(N_FRAMES - 100)
        last = first + draw.randrange(99)
        after[id_of(number)] = (first, last, draw.choice(("EN", "HN", "S")), "")
        return after
    chosen = draw.choice(sorted(marks))
    first, last, level, comment = marks[chosen]
    if name == "change":
        after[chosen] = (first, last, level, f'é "{draw.randrange(999)}", x')
    elif name == "move":
        by = draw.randrange(-min(first, 40), 40)
        by = min(by, N_FRAMES - 1 - last)
        after[chosen] = (first + by, last + by, level, comment)
    elif name == "delete":
        del after[chosen]
    return after


def change_between(
    before: Marks, after: Marks, shown: dict[str, str]
) -> dict[str, Any] | None:
    """What the page sends to come from one state to the next; None where both are equal."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        first, last, level, comment = after.get(name) or before[name]
        return {
            "mark": name,
            "movie_id": "lake",
            "start_frame": first,
            "end_frame": last,
            "level": level,
            "concepts": [],
            "comment": comment,
            "state": shown.get(name),
            "deleted": name not in after,
        }
    return None


def test_random_edits_with_kills_leave_the_table_as_before_or_after(
    tmp_path: Path,
) -> None:
    page, draw = long_film(tmp_path), random.Random(36)
    states: list[Marks] = [{}]
    at = 0
    n_edits = n_kills = n_saved_at_a_kill = 0
    places = set()
    while n_edits < N_EDITS:
        with running(page) as server:
            while n_edits < N_EDITS:
                step = draw.choices(("edit", "undo", "redo"), weights=(5, 3, 2))[0]
                goal = at + {"edit": 1, "undo": -1, "redo": 1}[step]
                if step == "edit":
                    after = edited(states[at], draw, n_edits + 1)
                elif 0 <= goal < len(states):
                    after = states[goal]
                else:
                    continue
                read = table(tmp_path, page.manifest, "eva").read().marks
                shown = {name: one["state"] for name, one in read.items()}
                wanted = change_between(states[at], after, shown)
                if wanted is None:
                    continue
                n_edits += 1
                place = draw.randrange(1, MOST_PLACES) if draw.random() < 0.5 else 0
                server.kill_at(place)
                wait_for_orders(server)
                answer = sent(server, "/api/marks", wanted)
                found = on_disk(tmp_path, page)
                if answer is None:
                    # Nobody was told: all of the change is there, or none of it.
                    n_kills += 1
                    places.add(place)
                    assert found in (states[at], after), (n_edits, step, place)
                    n_saved_at_a_kill += found == after
                else:
                    assert answer.status == 200, answer.body
                    assert found == after, (n_edits, step)
                if found == after and step == "edit":
                    states = [*states[: at + 1], after]
                if found == after:
                    at = goal
                if answer is None:
                    break
    assert n_kills > N_EDITS / 5
    assert 0 < n_saved_at_a_kill < n_kills
    assert len(places) >= 6
    # The history has every state that the table had; only a line of a kill may be cut off.
    history = tmp_path / "segments" / "films.eva.history.jsonl"
    n_cut = 0
    for line in history.read_bytes().splitlines():
        try:
            json.loads(line)
        except ValueError:
            n_cut += 1
    assert n_cut <= n_kills
    # What was left behind is no table that somebody could open by mistake.
    names = {path.name for path in (tmp_path / "segments").iterdir()}
    visible = {name for name in names if not name.startswith(".")}
    assert visible == {
        "films.eva.csv",
        "films.eva.history.jsonl",
        "films.eva.watched.csv",
    }


def wait_for_orders(server: KilledServer) -> None:
    """Ask for something that changes nothing, so that the order before it was read."""
    ask(server, "/api/overview")  # type: ignore[arg-type]
