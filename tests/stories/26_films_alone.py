"""Story 26: I have a folder of films and nothing else, and want to find and to see things in them.

The films are cut into windows, the windows get features, and a search finds them by another window.
A model that somebody trained gives scores along a new film. A contact sheet shows the
pictures that were asked for. Every picture of these films carries its number.
"""

from pathlib import Path
from random import Random

import numpy as np
from PIL import Image
from support.videos import read_number, write_video

from stories.workspace import Workspace

RATE = 25


def write_film(path: Path, numbers: list[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_video(path, numbers=numbers, options={"g": str(RATE)})


def write_three_films(ws: Workspace) -> None:
    """Write two films, and one whose second second quotes the third second of `lake`."""
    write_film(ws.path("videos/harbour.mp4"), list(range(150)))
    write_film(ws.path("videos/lake.mp4"), list(range(250, 400)))
    quoted = list(range(300, 325))
    write_film(ws.path("videos/quote.mp4"), [*range(500, 525), *quoted])


def begin_with_windows(ws: Workspace) -> None:
    """Begin with the three films and the manifest `cut` of their windows of a second."""
    write_three_films(ws)
    ws("manifest windows videos -o cut --seconds 1 --every 1")


def ids_found(ws: Workspace, line: str) -> list[str]:
    return [clip["clip_id"] for clip in ws(f"{line} --json").json()["clips"]]


def test_films_are_cut_into_windows_of_equal_length(ws: Workspace) -> None:
    begin_with_windows(ws)
    shown = ws("manifest show cut --limit 0 --json").json()["clips"]
    found = [(clip["movie_id"], clip["start_s"], clip["end_s"]) for clip in shown]
    expected = []
    for film, n_seconds in (("harbour", 6), ("lake", 6), ("quote", 2)):
        for second in range(n_seconds):
            expected.append((film, float(second), float(second + 1)))
    assert found == expected
    # Of 50 pictures, windows of 16 pictures begin at 0, 8, 16, 24 and 32.
    ws("manifest windows videos -o by-picture --window 16 --stride 8")
    shown = ws("manifest show by-picture --film quote --limit 0 --json").json()["clips"]
    starts = [round(clip["start_s"] * RATE) for clip in shown]
    assert starts == [0, 8, 16, 24, 32]


def test_the_window_that_another_film_quotes_ranks_first(ws: Workspace) -> None:
    begin_with_windows(ws)
    ws("extract run cut -b descriptors --workers 1")
    found = ids_found(ws, "search cut.descriptors --like lake_2.000-3.000 --top 3")
    assert found[0] == "quote_1.000-2.000"
    assert len(found) == 3
    assert "lake_2.000-3.000" not in found
    text = ws(
        "search cut.descriptors --like quote_1.000-2.000 --top 3 -o like.csv"
    ).text
    rows = ws.read_table("like.csv")
    assert rows[0]["clip_id"] == "lake_2.000-3.000"
    assert (float(rows[0]["start_s"]), float(rows[0]["end_s"])) == (2.0, 3.0)
    assert "wrote like.csv" in text


# ---- the scores of a model along a film ----------------------------------------------------------

SEED = 26
TRAINING_FILMS = ("harbour", "lake", "night")


def numbers_of_seconds(first: int, levels: list[str]) -> list[int]:
    """Return the pictures of a film that moves in the seconds of level S, and stands else."""
    numbers = []
    for second, level in enumerate(levels):
        start = first + RATE * second
        if level == "S":
            numbers += range(start, start + RATE)
        else:
            numbers += [start] * RATE
    return numbers


LEVELS_OF_NEW_FILM = ["EN", "EN", "S", "S", "S", "EN"]


def write_training_films(ws: Workspace) -> list[dict[str, object]]:
    draw = Random(SEED)
    rows: list[dict[str, object]] = []
    for number, film in enumerate(TRAINING_FILMS):
        levels = ["S", "EN"] * 3
        draw.shuffle(levels)
        numbers = numbers_of_seconds(200 * number, levels)
        write_film(ws.path(f"training/{film}.mp4"), numbers)
        for second, level in enumerate(levels):
            ids = {"clip_id": f"{film}-{second}", "movie_id": film, "level": level}
            rows.append({**ids, "start_s": second, "end_s": second + 1})
    write_film(ws.path("new/pier.mp4"), numbers_of_seconds(800, LEVELS_OF_NEW_FILM))
    return rows


def decided(rows: list[dict[str, str]]) -> list[str]:
    return ["S" if row["decision"] == "positive" else "EN" for row in rows]


def test_a_saved_model_gives_scores_along_a_new_film(ws: Workspace) -> None:
    ws.import_table(write_training_films(ws), "clips")
    ws("manifest link clips training")
    ws("extract run clips -b descriptors --workers 1")
    settings = "--jobs 1 --set report.replicates=20"
    ws(f"train ridge --store clips.descriptors --manifest clips -o motion {settings}")
    ws("manifest windows new -o new --seconds 1")
    ws("extract run new -b descriptors --workers 1")
    said = ws("models predict motion new.descriptors -o scores.csv").text
    scores = ws.read_table("scores.csv")
    assert decided(scores) == LEVELS_OF_NEW_FILM
    assert {row["basis"] for row in scores} == {"unseen"}
    assert "trained on clips of" not in said
    assert [row["movie_id"] for row in scores] == ["pier"] * 6
    assert [float(row["start_s"]) for row in scores] == list(range(6))
    values = np.array([float(row["score:positive"]) for row in scores])
    is_s = np.array([level == "S" for level in LEVELS_OF_NEW_FILM])
    assert values[is_s].min() > values[~is_s].max()
    # A film that was replaced has the scores of the film before, and it is said.
    write_film(ws.path("new/pier.mp4"), numbers_of_seconds(900, ["S", "EN"]))
    said = ws("models predict motion new.descriptors").text
    assert "replaced after their features were extracted: pier.mp4" in said


# ---- the pictures --------------------------------------------------------------------------------


def pictures_of_sheet(path: Path) -> list[np.ndarray]:
    """Return the pictures of a contact sheet, which has a light border around each."""
    sheet = np.asarray(Image.open(path).convert("RGB"))
    is_drawn = sheet.max(axis=2) < 240
    pictures = []
    for top, bottom in bands(is_drawn.mean(axis=1) > 0.5):
        for left, right in bands(is_drawn.mean(axis=0) > 0.5):
            pictures.append(sheet[top:bottom, left:right])
    return pictures


def bands(is_inside: np.ndarray) -> list[tuple[int, int]]:
    changes = np.flatnonzero(np.diff([0, *is_inside.astype(int), 0]))
    return list(zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True))


def test_a_contact_sheet_shows_the_pictures_that_were_asked_for(ws: Workspace) -> None:
    write_film(ws.path("videos/lake.mp4"), list(range(250, 400)))
    part = "videos/lake.mp4 --start 2 --end 4 --count 8"
    told = ws(f"video frames {part} -o sheet.png --json").json()
    # Eight of the 50 pictures of these two seconds, at equal distances from the first one on.
    expected = [50 + k * 50 // 8 for k in range(8)]
    assert told["index"] == expected
    numbers = [
        read_number(picture) for picture in pictures_of_sheet(ws.path("sheet.png"))
    ]
    # The last row of the sheet has one place without a picture.
    assert [number for number in numbers if number >= 0] == [
        250 + index for index in expected
    ]
