"""Rule (a): what is counted, tested and followed in time is the clip, not the annotators' rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.sentences import recipe_of_words, write_sentences
from support.stores import made_store

from obygaze.audits.agreement import agree
from obygaze.audits.annotations import audit_annotations
from obygaze.audits.eat import audit_eat
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import Row


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ("brug,,", "'0' is of the film 'brug' and of 'alba'"),
        (",7.5,9", "'0' is 7.5 s to 9 s and 0 s to 2 s"),
        ("alba,0,2", ""),
        (",,", ""),
    ],
)
def test_a_table_chooses_no_other_clip_of_its_ids(
    tmp_path: Path, cells: str, problem: str
) -> None:
    """A list that was made of another manifest chose the clips of this one by their ids."""
    clips = []
    for number, level in enumerate(("S", "EN", "S", "EN")):
        extra = {"mood": level}
        times = {"start_s": 2.0 * number, "end_s": 2.0 * number + 2}
        clips.append(Clip(f"{number}", "alba", level=level, **times, extra=extra))
    manifest = Manifest("films", Header("made up"), tuple(clips), ("mood",))
    table = tmp_path / "x.csv"
    table.write_text(f"clip_id,movie_id,start_s,end_s\n0,{cells}\n", encoding="utf-8")
    groups: dict[str, Any] = {"column": "mood", "x": table, "y": "level == EN"}
    if not problem:
        assert audit_annotations(manifest, **groups).to_json()["n_x"] == 1
        return
    with pytest.raises(Mismatch, match=f"1 clip of the table x.csv .*{problem}"):
        audit_annotations(manifest, **groups)


def test_an_association_of_clips_without_films_is_refused(tmp_path: Path) -> None:
    ids = ("alba-00", "brug-01")
    manifest = Manifest("films", Header("made up"), [Clip(one, "") for one in ids])
    vectors = np.eye(2, dtype=np.float32)
    rows = [Row(one, "") for one in ids]
    made_store(tmp_path / "s", rows, {"clip": vectors}, recipe=recipe_of_words())
    texts = write_sentences(tmp_path / "t.npz", {"up": vectors[0], "down": vectors[1]})
    with pytest.raises(FixInput, match="the films of the group 'clips' are not known"):
        audit_eat(tmp_path / "s", manifest, x=ids[:1], y=ids[1:], text=texts)


def test_a_mark_of_several_people_is_refused(tmp_path: Path) -> None:
    """`ada|ben` was compared with `ada`, and alpha of two who agree was near 0."""
    table = tmp_path / "rows.csv"
    lines = ["clip_id,movie_id,annotator,level,framerate,start_s,end_s"]
    for number, who in enumerate(("ada|ben", "ada", "ben")):
        lines.append(f"c{number},alba,{who},S,25,{number},{number + 1}")
    table.write_text("\n".join(lines), "utf-8")
    with pytest.raises(FixInput, match="cannot be read") as caught:
        agree(table, clips=table)
    assert "expected one name, got 'ada|ben'" in caught.value.details[0]
