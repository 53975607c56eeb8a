"""Story 33: I have a table of my own, as it is (German, clock times, typing errors, ratings).

I want a score of my own question in few commands. What the program cannot know of my table, it asks
at once, and writes a file with the likely answers: I look through it, and the next command reads
the table.
"""

from __future__ import annotations

import itertools

import numpy as np

from stories.workspace import Workspace

FILMS = {"L'Été à Nice": "L_Ete_a_Nice", "Müller & Söhne": "Muller_Sohne"}
FILMS |= {"Alba": "Alba", "Ça ira": "Ca_ira", "Brug": "Brug", "Über uns": "Uber_uns"}
N_CLIPS = 8
CLIP_S = 7
SHOTS = [*itertools.product(FILMS, range(1, N_CLIPS + 1))]
RATINGS = {shot: (3 * shot[1] + n // N_CLIPS) % 4 for n, shot in enumerate(SHOTS)}


def clock(seconds: int) -> str:
    return f"{seconds // 60}:{seconds % 60:02d}"


def write_own_table(ws: Workspace) -> None:
    """Write semicolons in Windows-1252; the fifth time has the letter l, and a word is `nien`."""
    lines = ["Film;Nr.;Beginn;Schluss;Urteil;Wertung"]
    for (film, n), rating in RATINGS.items():
        word = "nein" if rating < 2 else "ja"
        cells = [film, n, clock((n - 1) * CLIP_S), clock(n * CLIP_S), word, rating]
        lines.append(";".join(map(str, cells)))
    lines[5] = lines[5].replace("0:28", "0:2l")
    lines[9] = lines[9].replace("nein", "nien").replace("ja", "nien")
    ws.path("own.csv").write_bytes("\r\n".join([*lines, ""]).encode("cp1252"))


def change(ws: Workspace, name: str, before: str, after: str) -> None:
    """Write a word in place of another one, which is there once."""
    data = ws.path(name).read_bytes()
    assert data.count(before.encode()) == 1
    ws.path(name).write_bytes(data.replace(before.encode(), after.encode()))


def test_a_table_becomes_a_score_of_its_own_question(ws: Workspace) -> None:
    write_own_table(ws)
    typed = "manifest import own.csv -o own"
    drafted = ws(f"{typed} --write-mapping own.toml")
    assert "look through the answers in own.toml" in drafted.err
    draft = ws.read("own.toml").splitlines()
    likely = {'times = "m:ss"', 'movie_id = "Film"', 'start_s = "Beginn"'}
    assert {*likely, 'end_s = "Schluss"'} <= {*draft}
    assert "own.csv:6: column 'Beginn': '0:2l' is not a time" in drafted.err
    change(ws, "own.csv", "0:2l", "0:28")
    change(ws, "own.toml", '"{movie_id}-{Nr.}"', '"{movie_id}-{Nr.:02d}"')
    done = ws(f"{typed} --mapping own.toml")
    assert f": {len(SHOTS)} clips of {len(FILMS)} films" in done.out
    assert "nien: 1)" in done.err

    ws("manifest export own export.csv")
    found = []
    for row in ws.read_table("export.csv"):
        times = (float(row["start_s"]), float(row["end_s"]))
        found.append((row["clip_id"], row["movie_title"] or row["movie_id"], *times))
    expected = []
    for film, n in SHOTS:
        times = (float((n - 1) * CLIP_S), float(n * CLIP_S))
        expected.append((f"{FILMS[film]}-{n:02d}", film, *times))
    assert found == expected

    # The answer is planted in one number.
    X = np.random.default_rng(0).normal(size=(len(SHOTS), 8)).astype(np.float32)
    X[:, 0] += [4.0 * (rating >= 2) for rating in RATINGS.values()]
    np.savez(ws.path("x.npz"), clip_id=[row[0] for row in expected], clip=X)
    ws("store import x.npz --manifest own -o own")
    models = """--set 'grid.models=["ridge"]' --set 'grid.baselines=["random"]'"""
    run = ws(
        "run honest --manifest own --store own --task 'Wertung>=2' -o own --jobs 1"
        f" {models} --set report.replicates=50"
    )
    assert "On unseen films, ridge ranks clips" in run.text
    tests = ws.read_table("runs/own/predictions.csv")
    tested = [row for row in tests if row["model"] == "ridge"]
    n_positive = sum(rating >= 2 for rating in RATINGS.values())
    assert sum(int(row["y"]) for row in tested) == n_positive
    assert len(tested) == len(SHOTS)
