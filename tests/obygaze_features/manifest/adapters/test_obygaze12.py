import ast
import csv
import re
from pathlib import Path

import pytest
from support.data import real_data

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.adapters import ImportedManifest
from obygaze_features.manifest.adapters.obygaze12 import read
from obygaze_features.manifest.stats import compute_stats

HEADER = (
    "idx;util;clip;label;overlap_ratio;concepts;id;movie;srt_name;video_name;graph_number\r\n"
    ";;;;;;;;;;\r\n"
)
SPLIT_HEADER = ";clip;id;movie;srt_name;video_name;graph_number;label;reason;fold\n"


def row(
    number: int,
    label: str,
    concepts: str,
    *,
    film: str = "tt01",
    shots: tuple[int, int] = (1, 2),
    video: str | None = None,
    ratio: str = "1.00",
) -> str:
    scene = f"scene-{number:03d}.ss-{shots[0]:04d}.es-{shots[1]:04d}"
    video = f"{film}_scene_{number}.avi" if video is None else video
    clip = (str(number), "1", film + scene, label, ratio, concepts)
    names = (f"{film}-{number:03d}", film, f"{scene}.srt", video, str(number - 1))
    return ";".join((*clip, *names)) + "\r\n"


def split_row(
    number: int, label: str, reason: str, fold: int, film: str = "tt01"
) -> str:
    return f"{number};c;{film}-{number:03d};{film};s;v;0;{label};{reason};{fold}\n"


ROWS = (
    row(1, "Easy Neg", "['']"),
    row(2, "Hard Neg", "['Speech', ' Exp of  emotion']", shots=(53, 56), ratio="0.25"),
    row(3, "Not Sure", "['Speech']", video=""),
    row(4, "Sure", "['Type of plan', ' Clothes', ' Look']", video="tt01_scene_4.mkv"),
)


def places_of(error: FixInput, path: Path) -> list[tuple[int, str]]:
    """Return line and column of each violation of a file, in order."""
    found = []
    for line in error.details:
        place = re.match(rf"{re.escape(str(path))}:(\d+): column '(\w+)': .", line)
        if place:
            found.append((int(place[1]), place[2]))
    return found


def write(folder: Path, *rows: str, name: str = "main.csv") -> Path:
    path = folder / name
    path.write_bytes((HEADER + "".join(rows)).encode())
    return path


def write_split(folder: Path, name: str, *rows: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(SPLIT_HEADER + "".join(rows), encoding="utf-8")
    return path


def test_everything_wrong_with_the_rows_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        row(1, "Hard", "['']"),
        row(2, "Sure", "['Looks']"),
        row(3, "Sure", "Look"),
        row(4, "Sure", "['Look']", shots=(5, 4)),
        row(5, "Sure", "['Look', ' Look']", ratio="1.2"),
        row(5, "Sure", "['Look', '']"),
        row(6, "Sure", "['Look']").replace("tt01scene", "tt02scene"),
        row(7, "Sure", "['Look']", video="../x.avi"),
    )
    with pytest.raises(FixInput) as caught:
        read(path)
    assert places_of(caught.value, path) == [
        *[(3, "label"), (4, "concepts"), (5, "concepts"), (7, "concepts")],
        *[(8, "concepts"), (6, "clip"), (9, "clip"), (7, "overlap_ratio")],
        *[(8, "id"), (10, "video_name")],
    ]


def test_splits_are_joined_by_id_whatever_their_order(tmp_path: Path) -> None:
    write_split(
        tmp_path,
        "02_EN_S.csv",
        split_row(4, "Sure", "['Look', 'Clothes', 'Type of plan']", 9),
        split_row(1, "Easy Neg", "[]", 0),
    )
    of_film = split_row(2, "0", "['Exp of  emotion']", 0)
    write_split(tmp_path, "by_movie/ENHN_S.csv", of_film)
    write_split(tmp_path, "notes.csv", "")
    imported = read(write(tmp_path, *ROWS, name="ObyGaze12.csv"), splits=tmp_path)
    manifest = imported.manifest
    assert manifest.folds == ("02_EN_S", "by_movie_ENHN_S")
    assert [clip.fold("02_EN_S") for clip in manifest] == [0, None, None, 9]
    assert [clip.fold("by_movie_ENHN_S") for clip in manifest] == [None, 0, None, None]
    files = [source.file for source in manifest.header.sources]
    assert files == ["ObyGaze12.csv", "02_EN_S.csv", "by_movie/ENHN_S.csv"]
    missing = f"{tmp_path}: missing split files: 02_HN_S.csv, "
    assert imported.warnings[3].startswith(missing)


def test_a_split_that_contradicts_the_clips_is_told_with_the_rest(tmp_path) -> None:
    main = write(tmp_path, *ROWS[:3], row(4, "Sore", "['Look']"))
    first = write_split(
        tmp_path,
        "02_HN_S.csv",
        split_row(1, "Hard Neg", "[]", 0),
        split_row(2, "Hard Neg", "['Look']", 1),
        split_row(9, "Sure", "['Look']", 1),
        split_row(2, "Easy Neg", "['Exp of  emotion']", 1),
    )
    second = write_split(
        tmp_path,
        "02_ENHN_S.csv",
        split_row(2, "EN_HN", "nothing", -1),
        split_row(1, "S", "[]", 2, film="tt01").replace(";tt01;", ";tt02;"),
    )
    with pytest.raises(FixInput) as caught:
        read(main, splits=tmp_path)
    assert places_of(caught.value, main) == [(6, "label")]
    assert places_of(caught.value, first) == [
        *[(2, "label"), (5, "label"), (3, "reason"), (4, "id"), (5, "id")]
    ]
    assert places_of(caught.value, second) == [
        *[(2, "fold"), (2, "reason"), (3, "movie"), (3, "label")]
    ]


LEVELS = {"Easy Neg": "EN", "Hard Neg": "HN", "Not Sure": "NS", "Sure": "S"}
RENAMED = {"Type of plan": "Type of shot", "Clothes": "Clothing"}
RENAMED |= {"Exp of emotion": "Expression of emotion"}


@pytest.fixture(scope="module")
def released() -> ImportedManifest:
    path = real_data("obygaze12", "ObyGaze12_thresh_02.csv")
    return read(path, splits=path.parent)


def test_each_clip_is_its_row_of_the_released_file(released: ImportedManifest) -> None:
    path = real_data("obygaze12", "ObyGaze12_thresh_02.csv")
    with path.open(encoding="utf-8-sig", newline="") as stream:
        rows = [row for row in csv.DictReader(stream, delimiter=";") if row["id"]]
    assert len(rows) == len(released.manifest)
    for row, clip in zip(rows, released.manifest, strict=True):
        video = row["video_name"] and f"{row['movie']}/{row['video_name']}"
        names = [" ".join(name.split()) for name in ast.literal_eval(row["concepts"])]
        concepts = tuple(RENAMED.get(name, name) for name in names if name)
        found = (clip.clip_id, clip.movie_id, clip.video, clip.level, clip.concepts)
        level = LEVELS[row["label"]]
        assert found == (row["id"], row["movie"], video, level, concepts)
        numbers = re.findall(r"(?<=[-.])\d+|(?<=s-)\d+", row["clip"])
        scene, first, last = map(int, numbers)
        shots = (clip.extra["first_shot"], clip.extra["last_shot"])
        assert (clip.scene, *shots) == (scene, str(first), str(last))


def test_the_released_files_have_the_published_counts(released) -> None:
    manifest = released.manifest
    assert released.warnings == () and len(manifest.header.sources) == 7
    published = compute_stats(manifest.view("as_published"))
    assert published.levels == {"EN": 436, "HN": 304, "NS": 0, "S": 308}
    folds = compute_stats(manifest).folds
    tested = folds["02_ENHN_S"][9]
    assert (tested.positive, tested.clips) == (31, 105)
    sizes = {
        **{"02_EN_S": 744, "02_HN_S": 612, "02_ENHN_S": 1048, "02_EN_HN_S": 1048},
        **{"by_movie_HN_S": 589, "by_movie_ENHN_S": 997},
    }
    assert manifest.folds == tuple(sizes)
    for name, size in sizes.items():
        assert sum(fold.clips for fold in folds[name].values()) == size
