import ast
import csv
import json
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from support.data import golden, real_data

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.adapters import ImportedManifest
from obygaze_features.manifest.adapters.mobygaze import read
from obygaze_features.manifest.stats import compute_stats
from obygaze_features.manifest.vocabulary import canonical_concept

HEADER = (
    ";clip_index;movie_id;annotator;label;concepts;comment;start_frame;end_frame;imdb_key;"
    "movie_title;framerate;subtitle;start_clip;end_clip\r\n"
)


def row(
    index: int,
    frames: tuple[object, object],
    label: str = "Easy Negative",
    concepts: str = "[]",
    *,
    annotator: str = "annotator1",
    comment: str = "[]",
    fps: str = "24.0",
    film: str = "tt01",
) -> str:
    quoted = '"' + comment.replace('"', '""') + '"'
    cells = (
        *("0", f"id_{index}", "48", annotator, label, concepts, quoted),
        *(str(frames[0]), str(frames[1]), film, "A Film", fps, "", "0", "0"),
    )
    return ";".join(cells) + "\r\n"


def write(folder: Path, *rows: str) -> Path:
    path = folder / "mobygaze.csv"
    path.write_bytes((HEADER + "".join(rows)).encode())
    return path


SECOND = {"annotator": "annotator2", "fps": "23.976", "film": "tt02"}
VOICES = "['Voice', 'Exp of emotion', 'Voice']"
ROWS = (
    row(0, (0, 47), comment="['credits']"),
    row(1, (48, 71), "Sure", VOICES, comment='["it\'s", \'"a"\']'),
    row(2, (71, 95), "Hard Negative", annotator="annotator1"),
    row(0, (0, 49), "Not Sure", "['Look']", **SECOND),
    row(1, (60, 95), "Easy Negative", "['Clothing']", **SECOND),
)


def test_segments_of_two_annotators(tmp_path: Path) -> None:
    manifest = read(write(tmp_path, *ROWS), name="small").manifest
    assert manifest.clip_ids == (
        *("tt01-annotator1-0000", "tt01-annotator1-0001", "tt01-annotator1-0002"),
        *("tt02-annotator2-0000", "tt02-annotator2-0001"),
    )
    first, second, _, fourth, _ = manifest.clips
    assert [clip.level for clip in manifest] == ["EN", "S", "HN", "NS", "EN"]
    assert second.concepts == ("Voice", "Expression of emotion")
    # 24 frames a second: frames 48 to 71 are the third second.
    assert (second.start_s, second.end_s) == (2.0, 3.0)
    # 50 frames at 23.976, which stands for 24000 / 1001: 50 * 1001 / 24000 s, rounded once.
    assert (fourth.start_s, fourth.end_s) == (0.0, 50050 / 24000)
    assert second.extra["comment"] == 'it\'s | "a"'
    frames = {"start_frame": "0", "end_frame": "47", "framerate": "24.0"}
    texts = {"movie_title": "A Film", "clip_index": "id_0", "comment": "credits"}
    assert dict(first.extra) == {"annotator": "annotator1", **frames, **texts}


def test_a_film_has_one_frame_rate(tmp_path: Path) -> None:
    path = write(tmp_path, row(0, (0, 9)), row(1, (10, 19), fps="25"))
    with pytest.raises(FixInput) as caught:
        read(path)
    assert caught.value.details == (
        f"{path}:3: column 'framerate': expected 24 as in other rows of the film tt01, got 25",
    )


def test_everything_wrong_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        row(0, (10, 9)),
        row(1, (1.5, 9)),
        row(2, (0, 9), "Maybe", "['Sound']"),
        row(3, (0, 9), fps="0.0", comment="credits"),
        row(3, (0, 9), annotator="a b"),
        row(3, (0, 9), fps="24"),
        row(4, (0, 9)).replace("id_4", "4"),
    )
    with pytest.raises(FixInput) as caught:
        read(path)
    found = []
    for line in caught.value.details:
        number, column = line.removeprefix(f"{path}:").split(": ")[:2]
        found.append((int(number), column.removeprefix("column ")))
    assert found == [
        *[(2, "'end_frame'"), (3, "'start_frame'"), (4, "'label'"), (4, "'concepts'")],
        *[(5, "'comment'"), (5, "'framerate'"), (6, "'annotator'")],
        *[(7, "'clip_index'"), (8, "'clip_index'")],
    ]


def test_segments_are_clips_of_their_own_and_the_import_says_so(tmp_path: Path) -> None:
    imported = read(write(tmp_path, *ROWS))
    assert not imported.manifest.annotations
    assert "segments of the two annotators overlap" in imported.notes[0]
    assert "'data.where=annotator == annotator1'" in imported.notes[0]
    one = imported.manifest.where("annotator == annotator1")
    assert {clip.extra["annotator"] for clip in one} == {"annotator1"}


@pytest.fixture(scope="module")
def released() -> ImportedManifest:
    return read(real_data("mobygaze", "mobygaze_dataframe.no_subtitles.csv"))


def test_each_segment_is_its_row_of_the_released_table(released) -> None:
    """Frame / rate, where 23.976 and 23.9759 stand for 24000 / 1001."""
    path = real_data("mobygaze", "mobygaze_dataframe.no_subtitles.csv")
    rate_of = {"24.0": Fraction(24)}
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter=";"))
    assert len(rows) == len(released.manifest)
    for row, clip in zip(rows, released.manifest, strict=True):
        number = int(row["clip_index"].removeprefix("id_"))
        clip_id = f"{row['imdb_key']}-{row['annotator']}-{number:04d}"
        assert (clip.clip_id, clip.movie_id) == (clip_id, row["imdb_key"])
        rate = rate_of.get(row["framerate"], Fraction(24000, 1001))
        first, after = int(row["start_frame"]), int(row["end_frame"]) + 1
        times = (float(first / rate), float(after / rate))
        assert (clip.start_s, clip.end_s) == times
        words = [" ".join(word.split()) for word in ast.literal_eval(row["concepts"])]
        concepts = dict.fromkeys(canonical_concept(word) for word in words if word)
        assert clip.concepts == tuple(concepts)


SHORT = {"Easy Negative": "EN", "Hard Negative": "HN", "Not Sure": "NS", "Sure": "S"}


def test_the_released_counts_by_label_as_counted_elsewhere(released):
    path = golden("audits", "mobygaze_counts.json")
    expected = json.loads(path.read_text(encoding="utf-8"))
    for annotator, labels in expected["labels_by_annotator"].items():
        own = [c for c in released.manifest if c.extra["annotator"] == annotator]
        levels = Counter(clip.level for clip in own)
        assert levels == {SHORT[label]: count for label, count in labels.items()}
    counted = compute_stats(released.manifest).concepts
    repeats = Counter({"Voice": 3, "Type of shot": 2, "Body": 2, "Appearance": 2})
    repeats += Counter({"Clothing": 2, "Posture": 2})
    for label, concepts in expected["concepts_by_label"].items():
        named = Counter({canonical_concept(word): n for word, n in concepts.items()})
        # Counted elsewhere word by word; the words that one segment repeats count once here.
        assert counted[SHORT[label]] == (named - repeats if label == "Sure" else named)
