"""Made-up clips, features and segments, drawn with NumPy: small, and the same on each machine."""

from typing import Any

import numpy as np
import numpy.typing as npt
from support.published import CONCEPTS as VISUAL

Row = dict[str, Any]
Floats = npt.NDArray[np.float64]

# The ids that the papers' protocols name; the last two are those that they never test.
FILMS = ("tt0108160", "tt0110912", "tt0119822", "tt0467406", "tt0212338", "tt1142988")
NOT_VISUAL = ("Speech", "Voice")
PUBLISHED = ("02_EN_S", "02_HN_S", "02_ENHN_S", "02_EN_HN_S")
BY_MOVIE = ("by_movie_HN_S", "by_movie_ENHN_S")
DIRECTORS = ("Ephron", "Tarantino", "Brooks")
LEVELS = {"EN": 0.33, "HN": 0.27, "NS": 0.08, "S": 0.32}


def labelled_clips(per_film: int, seed: int = 84) -> list[Row]:
    draws = np.random.default_rng(seed)
    rows = []
    for film in FILMS:
        for scene in range(1, per_film + 1):
            level = str(draws.choice(list(LEVELS), p=list(LEVELS.values())))
            row = {"clip_id": f"{film}-{scene:03d}", "movie_id": film, "scene": scene}
            concepts = "|".join(drawn_concepts(draws, level))
            row |= {"level": level, "concepts": concepts}
            row["rating"] = int(draws.integers(0, 5))
            row["mood"] = str(draws.choice(["calm", "tense", ""], p=[0.5, 0.4, 0.1]))
            row["director"] = DIRECTORS[FILMS.index(film) % 3]
            rows.append(row)
    add_published_folds(rows)
    return rows


def drawn_concepts(draws: np.random.Generator, level: str) -> list[str]:
    """Draw the concepts of a clip: a sure one has more, and some hard ones are only heard."""
    if level == "EN":
        return []
    if level == "HN" and draws.random() < 0.15:
        return ["Speech"]
    n_visual = {"HN": 2, "NS": 2, "S": 3}[level]
    concepts = list(draws.choice(VISUAL, n_visual, replace=False))
    if draws.random() < 0.2:
        concepts.append(str(draws.choice(NOT_VISUAL)))
    return sorted(map(str, concepts))


def add_published_folds(rows: list[Row]) -> None:
    """Give each clip its folds of the published splits, as even within a class as these."""
    for number, name in enumerate(PUBLISHED):
        levels = name.removeprefix("02_").replace("ENHN", "EN_HN").split("_")
        draws = np.random.default_rng([84, number])
        for row in rows:
            row[f"fold:{name}"] = ""
        for level in levels:
            of_level = [row for row in rows if row["level"] == level]
            for place, at in enumerate(draws.permutation(len(of_level))):
                of_level[at][f"fold:{name}"] = place % 10
    for name in BY_MOVIE:
        levels = name.removeprefix("by_movie_").replace("ENHN", "EN_HN").split("_")
        for row in rows:
            is_in = row["level"] in levels
            row[f"fold:{name}"] = FILMS.index(row["movie_id"]) if is_in else ""


def seen_features(rows: list[Row], seed: int = 1, width: int = 12) -> Floats:
    X = np.random.default_rng(seed).normal(size=(len(rows), width))
    for row, x in zip(rows, X, strict=True):
        x[0] += 0.7 * (row["level"] == "S")
        for column, concept in enumerate(VISUAL, start=1):
            x[column] += 0.6 * (concept in row["concepts"].split("|"))
    return X


def coarse_features(rows: list[Row], seed: int = 2) -> Floats:
    """Return features of few different values, so that many clips have the same score."""
    X = seen_features(rows, seed, width=10)
    return np.clip(np.round(X), -1, 2)


def frame_features(rows: list[Row], seed: int = 3, n_frames: int = 3) -> Floats:
    draws = np.random.default_rng(seed)
    X = draws.normal(size=(len(rows), n_frames, 5))
    for row, frames in zip(rows, X, strict=True):
        frames[draws.integers(n_frames), 0] += 1.5 * (row["level"] == "S")
    return X


MOBYGAZE_LEVELS = {"EN": "Easy Negative", "HN": "Hard Negative", "NS": "Not Sure"}
MOBYGAZE_LEVELS |= {"S": "Sure"}
ANNOTATORS = ("annotator1", "annotator2")
RATE = 24


def mobygaze_table(n_films: int = 4, n_segments: int = 11, seed: int = 5) -> list[Row]:
    draws = np.random.default_rng(seed)
    rows: list[Row] = []
    for film in FILMS[:n_films]:
        for annotator in ANNOTATORS:
            start = 0
            for _ in range(n_segments):
                level = str(draws.choice(list(LEVELS), p=list(LEVELS.values())))
                concepts = drawn_concepts(draws, level)
                after = start + int(draws.integers(10, 45))
                number, last = FILMS.index(film) + 1, after - 1
                row = {"": len(rows), "clip_index": f"id_{len(rows)}"}
                row |= {"movie_id": number, "annotator": annotator}
                row |= {"label": MOBYGAZE_LEVELS[level], "concepts": str(concepts)}
                row |= {"comment": "[]", "start_frame": start, "end_frame": last}
                row |= {"imdb_key": film, "movie_title": f"Film {number}"}
                row |= {"framerate": RATE, "subtitle": ""}
                row |= {"start_clip": start // 16, "end_clip": last // 16}
                rows.append(row)
                start = after
    return rows


def brightness_of(film: str, segments: list[Row], seed: int = 6) -> Floats:
    """Return the brightness of each picture of a film: those of sure segments are brighter."""
    of_film = [row for row in segments if row["imdb_key"] == film]
    n_pictures = max(row["end_frame"] for row in of_film) + 1
    draws = np.random.default_rng([seed, FILMS.index(film)])
    brightness = draws.normal(100, 20, n_pictures)
    for row in of_film:
        if row["label"] == "Sure":
            brightness[row["start_frame"] : row["end_frame"] + 1] += 8
    return brightness


def accede_excerpts(n_films: int = 8, per_film: int = 8, seed: int = 7) -> list[Row]:
    draws = np.random.default_rng(seed)
    rows = []
    for number in range(n_films * per_film):
        is_test = number >= 5 * per_film
        family = "MEDIAEVAL" if is_test else "ACCEDE"
        row = {"number": number, "family": family, "name": f"{family}{number:05d}"}
        row |= {"film": f"film {number // per_film}", "is_test": is_test}
        row["violence"] = int(draws.random() < 0.35)
        row["valence"] = int(draws.integers(-1, 2))
        row["arousal"] = int(draws.integers(-1, 2))
        rows.append(row)
    return rows


def accede_features(rows: list[Row], seed: int = 8) -> Floats:
    X = np.random.default_rng(seed).normal(size=(len(rows), 6))
    for column, name in enumerate(("violence", "valence", "arousal")):
        X[:, column] += [0.8 * row[name] for row in rows]
    return X


def accede_files(rows: list[Row]) -> dict[str, str]:
    """Return the annotation files of LIRIS-ACCEDE, as its own readme describes them."""
    files = {}
    for family in ("ACCEDE", "MEDIAEVAL"):
        affect = ["id\tname\tvalenceClass\tarousalClass"]
        violence = ["id\tname\tviolenceClass"]
        media = []
        for row in rows:
            if row["family"] != family:
                continue
            number, video = row["number"], f"{row['name']}.mp4"
            affect.append(f"{number}\t{video}\t{row['valence']}\t{row['arousal']}")
            violence.append(f"{number}\t{video}\t{row['violence']}")
            media.append(
                f"<media><id>{number}</id><name>{video}</name>"
                f"<movie>{row['film']}.mp4</movie><start>0</start><end>99</end></media>"
            )
        files[f"{family}affect.txt"] = "\n".join(affect) + "\n"
        files[f"{family}violence.txt"] = "\n".join(violence) + "\n"
        files[f"{family}description.xml"] = f"<library>{''.join(media)}</library>\n"
    for part, is_test in (("devset", False), ("testset", True)):
        names = [row for row in rows if row["is_test"] == is_test]
        lines = [f"{7000 + row['number']}\t{row['name']}" for row in names]
        files[f"shots-{part}-nl.txt"] = "\n".join(lines) + "\n"
    return files


# ---- marks, ratings, and clips to draw from ------------------------------------------------------

MARKED_FILMS = ("alba", "brug", "cirk")
PEOPLE = ("ada", "ben", "cleo")


def mark(
    film, person: str, first: int, last: int, level: str, concepts: str = ""
) -> Row:
    """Return a mark from a first to a last picture, at 25 pictures a second."""
    row = {"movie_id": film, "annotator": person, "start_frame": first}
    row |= {"end_frame": last, "level": level, "concepts": concepts}
    return {**row, "framerate": 25}


def drawn_marks(seed: int = 11, n_pictures: int = 1250) -> list[Row]:
    """Return marks of three people in three films; two of them see much alike."""
    draws = np.random.default_rng(seed)
    rows = []
    for film in MARKED_FILMS:
        for person in PEOPLE:
            at = 0 if person != "cleo" else int(draws.integers(60))
            while at < n_pictures - 120:
                length = int(draws.integers(20, 160))
                level = str(draws.choice([*LEVELS], p=[0.3, 0.2, 0.2, 0.3]))
                concepts = ""
                if level != "EN":
                    concepts = str(draws.choice(["Look", "Body|Look"]))
                rows.append(mark(film, person, at, at + length - 1, level, concepts))
                if person == "ada" and draws.random() < 0.7:
                    first = at + int(draws.integers(5))
                    last = first + length - 1
                    rows.append(mark(film, "ben", first, last, level, concepts))
                at += length + int(draws.integers(8, 40))
    return [row for row in rows if not overlaps_own(row, rows)]


def overlaps_own(row: Row, rows: list[Row]) -> bool:
    for other in rows:
        if other is row:
            return False
        is_own = other["movie_id"] == row["movie_id"]
        is_own &= other["annotator"] == row["annotator"]
        begins_before = other["start_frame"] <= row["end_frame"]
        if is_own and begins_before and row["start_frame"] <= other["end_frame"]:
            return True
    return False


def watched_spans() -> list[Row]:
    """Return what each person has watched: all of a film, its first half, or its second."""
    spans = {"ada": (0, 1249), "ben": (0, 699), "cleo": (500, 1249)}
    rows = []
    for film in MARKED_FILMS:
        for person, (first, last) in spans.items():
            rows.append(mark(film, person, first, last, "watched"))
    return rows


def ratings(n_items: int = 36, seed: int = 12) -> list[Row]:
    """Return the ratings of three people and the words of two, of items in six films."""
    draws = np.random.default_rng(seed)
    rows = []
    for number in range(n_items):
        first = int(draws.integers(1, 6))
        row = {"item": f"item{number:02d}", "film": f"film{number % 6}", "ada": first}
        row["ben"] = min(5, first + int(draws.integers(0, 2)))
        row["cleo"] = int(draws.integers(1, 6)) if number % 9 else ""
        row["word1"] = str(draws.choice(["sad", "gay", "calm"]))
        row["word2"] = "sad" if first > 3 else str(draws.choice(["sad", "gay"]))
        rows.append(row)
    return rows


def clips_to_draw(n_films: int = 12, per_film: int = 15, seed: int = 13) -> list[Row]:
    draws = np.random.default_rng(seed)
    rows = []
    for film in range(n_films):
        decade = "1980s" if film < n_films // 2 else "2010s"
        share = 0.25 if decade == "1980s" else 0.55
        for number in range(per_film):
            is_marked = draws.random() < 0.9
            is_sure = draws.random() < share
            level, name = "S" if is_sure else "EN", f"film{film:02d}"
            row = {"clip_id": f"{name}-{number:02d}", "movie_id": name}
            row |= {"start_s": 2 * number, "end_s": 2 * number + 2, "decade": decade}
            row["level"] = level if is_marked else ""
            row["concepts"] = "Look" if is_marked and is_sure else ""
            row["rating"] = int(draws.integers(0, 4))
            rows.append(row)
    return rows


def scores_of(clips: list[Row], seed: int = 14) -> list[Row]:
    """Return predictions of all clips, higher where the level is S."""
    draws = np.random.default_rng(seed)
    rows = []
    for clip in clips:
        score = draws.normal() + 2.0 * (clip["level"] == "S")
        row = {"clip_id": clip["clip_id"], "movie_id": clip["movie_id"]}
        rows.append({**row, "basis": "unseen", "score:S": round(float(score), 6)})
    return rows


def coded_clips(seed: int = 85) -> list[Row]:
    """Return rows of three people, who differ in levels, concepts, moods and ratings of clips."""
    draws = np.random.default_rng(seed)
    rows: list[Row] = []
    for film in FILMS[:3]:
        for scene in range(1, 9):
            for name in ("ada", "ben", "cleo"):
                level = str(draws.choice(list(LEVELS), p=list(LEVELS.values())))
                says = draws.random(3) < (0.9, 0.8, 0.8)
                row = {"clip_id": f"{film}-{scene:03d}", "movie_id": film}
                row |= {"start_s": 10 * scene, "end_s": 10 * scene + 8}
                row |= {"annotator": name, "level": level if says[0] else ""}
                row["concepts"] = "|".join(drawn_concepts(draws, level))
                moods = ["calm", "odd", "tense"]
                row["mood"] = str(draws.choice(moods)) if says[1] else ""
                row["rating"] = str(draws.integers(0, 4)) if says[2] else ""
                rows.append(row)
    return rows


def annotated_clips(seed: int = 18) -> list[Row]:
    draws = np.random.default_rng(seed)
    rows = []
    for row in labelled_clips(per_film=10):
        own = {"level": row["level"], "rating": row["rating"], "mood": row["mood"]}
        if draws.random() < 0.3:
            own |= {"level": "S" if row["level"] == "NS" else "NS"}
            own |= {"rating": (row["rating"] + 1) % 5, "mood": "tense"}
        rows += [{**row, "annotator": "ada"}, {**row, **own, "annotator": "ben"}]
    return rows
