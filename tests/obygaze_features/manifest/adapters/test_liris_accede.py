from pathlib import Path

import pytest

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.adapters.liris_accede import read

A0, A1, A2 = (f"ACCEDE0000{number}.mp4" for number in range(3))
M0 = "MEDIAEVAL00000.mp4"
RANKING = (
    "id\tname\tvalenceRank\tarousalRank\tvalenceValue\tarousalValue"
    "\tvalenceVariance\tarousalVariance\n"
)
FILES = {
    "ACCEDEranking.txt": RANKING
    + f"1\t{A1}\t17\t3\t2.5\t3.25\t0.01\t0.02\n0\t{A0}\t5\t9\t1.5\t4.5\t0.03\t1e-2\n",
    "ACCEDEsets.txt": f"id\tname\tset\n0\t{A0}\t0\n1\t{A1}\t2\n",
    "ACCEDEaffect.txt": f"id\tname\tvalenceClass\tarousalClass\n1\t{A1}\t1\t0\n0\t{A0}\t-1\t1\n",
    "ACCEDEviolence.txt": f"id\tname\tviolenceClass\n0\t{A0}\t0\n1\t{A1}\t1\n",
    "MEDIAEVALaffect.txt": f"id\tname\tvalenceClass\tarousalClass\n0\t{M0}\t0\t0\n",
    "MEDIAEVALviolence.txt": f"id\tname\tviolent\n0\t{M0}\t1\n",
    "shots-devset-nl.txt": f"7001\t{A1}\n",
    "shots-testset-nl.txt": "7002\tMEDIAEVAL00000\n7003\tACCEDE00000\n",
    "ACCEDEdescription.xml": f"""<?xml version="1.0" encoding="UTF-8"?>
<library>
  <media><id>1</id><name>{A1}</name><license>CC</license><movie>Elephant_s_Dream.mp4</movie>
    <start>833</start><end>1094</end></media>
  <media><id>0</id><name>{A0}</name><movie>Tom &amp; I.mp4</movie>
    <start>0</start><end>9</end></media>
</library>
""",
    "MEDIAEVALdescription.xml": f"<library><media><id>0</id><name>{M0}</name>"
    "<movie>Other.mp4</movie><start>0</start><end>9</end></media></library>",
}


def write(folder: Path, **changed: str) -> Path:
    for name, text in (FILES | changed).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_everything_joined_by_name(tmp_path: Path) -> None:
    imported = read([write(tmp_path)], name="accede")
    manifest = imported.manifest
    assert manifest.clip_ids == ("ACCEDE00000", "ACCEDE00001", "MEDIAEVAL00000")
    assert [clip.video for clip in manifest] == [A0, A1, M0]
    found = {name: [clip.extra[name] for clip in manifest] for name in manifest.columns}
    assert found["start_frame"] == ["0", "833", "0"]
    assert found["valence_class"] == ["-1", "1", "0"]
    assert found["valence_rank"] == ["5", "17", ""]
    assert found["arousal_value"] == ["4.5", "3.25", ""]
    assert found["violence"] == ["0", "1", "1"]
    assert found["mediaeval_id"] == ["7003", "7001", "7002"]
    # The official split, 0 test and 1 development, whatever the set of LIRIS-ACCEDE says.
    assert [clip.fold("mediaeval2015") for clip in manifest] == [0, 1, 0]
    assert found["set"] == ["0", "2", ""]
    assert len(manifest.header.sources) == 10
    assert manifest.has_films and imported.warnings == ()


def test_all_excerpts_have_a_film_or_none(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "MEDIAEVALdescription.xml").unlink()
    with pytest.raises(FixInput, match="the film of 1 of 3 excerpts is not stated: M"):
        read(tmp_path)
    (tmp_path / "ACCEDEdescription.xml").unlink()
    imported = read(tmp_path)
    assert not imported.manifest.has_films
    assert {clip.movie_id for clip in imported.manifest} == {""}
    (warning,) = imported.warnings
    assert warning.startswith("the films of the 3 excerpts are not stated")


def test_everything_wrong_with_all_files_at_once(tmp_path: Path) -> None:
    affect = f"0\t{A0}\t0.3\t1\n5\t{A1}\t0\t0\n"
    changed = {
        "ACCEDEaffect.txt": f"id\tname\tvalenceClass\tarousalClass\n{affect}",
        "ACCEDEsets.txt": f"id\tname\tset\n0\t{A0}\t3\n",
        "ACCEDEviolence.txt": f"id\tname\n0\t{A0}\n",
        "MEDIAEVALviolence.txt": f"id\tname\tviolent\n0\t{M0}\tyes\n0\t{M0}\t1\n",
        "shots-devset-nl.txt": f"7001\t{A1}\n7002 {A2}\n",
        "shots-testset-nl.txt": f"7001\t{A1}\n",
    }
    write(tmp_path, **changed)
    with pytest.raises(FixInput) as caught:
        read(tmp_path)
    assert [line.removeprefix(f"{tmp_path}/") for line in caught.value.details] == [
        "ACCEDEsets.txt:2: column 'set': '3' is not one of 0, 1, 2",
        "ACCEDEaffect.txt:2: column 'valenceClass': '0.3' is not one of -1, 0, 1",
        f"ACCEDEaffect.txt:3: column 'id': {A1} has the id '5', but '1' in another file",
        "ACCEDEviolence.txt:1: expected the columns id, name and the class, got id, name",
        "MEDIAEVALviolence.txt:2: column 'violent': 'yes' is not one of 0, 1",
        f"MEDIAEVALviolence.txt:3: column 'name': {M0} already has a value for violence",
        "shots-devset-nl.txt:2: expected an id and a name, got 1 cells",
        *(
            f"shots-testset-nl.txt:1: column 'name': {A1} already has a value for {name}"
            for name in ("fold:mediaeval2015", "mediaeval_id")
        ),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<library><media>", ":1: not XML: no element found"),
        (
            '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><library>&b;</library>',
            ":1: a document type is not allowed; remove it",
        ),
        (
            "<library>\n<media><id>0</id></media></library>",
            ":2: an excerpt without name, movie, start, end",
        ),
        (
            f"<l><media><id>0</id><name>{A0}</name><movie>a</movie><start>-1</start><end>2</end>"
            "</media></l>",
            ":1: column 'start': '-1' is not a frame number (whole, from 0)",
        ),
    ],
)
def test_descriptions_are_read_with_care(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "ACCEDEdescription.xml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FixInput) as caught:
        read([path])
    assert [f"{path}{told}"] == list(caught.value.details)


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    write(write(tmp_path) / "copy")
    with pytest.raises(FixInput, match=r"two files have the name ACCEDEaffect\.txt"):
        read([tmp_path])
