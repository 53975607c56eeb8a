"""What a mapping says that no table says: the meaning of 1:05, ids by counting, own words."""

from pathlib import Path

import pytest

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.adapters.csv_table import read
from obygaze_features.manifest.adapters.join_table import join
from obygaze_features.manifest.adapters.table_mapping import TableMapping, read_mapping
from obygaze_features.manifest.model import Manifest

CLOCKS = "clip_id,movie_id,start_s,end_s\na-1,a,0:00,1:05\na-2,a,1:05,2:10.5\n"
LONG_CLOCKS = "clip_id,movie_id,start_s,end_s\na-1,a,0:00,0:01:05\n"
RATED = """film,from,to,who,rating
A B,0,5,ada,1
A B,0,5,ben,2
A B,5,9,ben,3
C,0,5,ada,0
"""


def table_of(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def spans(manifest: Manifest) -> list[tuple[float | None, float | None]]:
    return [(clip.start_s, clip.end_s) for clip in manifest]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ("m:ss", [(0.0, 65.0), (65.0, 130.5)]),
        ("h:mm", [(0.0, 3900.0), (3900.0, 7830.0)]),
    ],
)
def test_a_mapping_says_what_a_time_of_two_numbers_is(tmp_path, times, expected):
    path = table_of(tmp_path, CLOCKS)
    with pytest.raises(FixInput) as caught:
        read(path)
    # 0:00 is zero in both; the other start is 1:05, in line 3.
    starts, ends, _ = caught.value.details
    said = "'1:05' may be minutes or hours: 65 s with --map times=m:ss, 3900 s with"
    assert starts.startswith(f"{path}:3: column 'start_s': {said}")
    assert ends.startswith(f"{path}:2: column 'end_s': {said}")
    typed = f"obygaze manifest import {path} -o t --map times=m:ss"
    assert caught.value.hint == typed
    assert spans(read(path, mapping=TableMapping(times=times)).manifest) == expected
    assert spans(read(path, {"times": times}).manifest) == expected
    # Three numbers are hours, whatever two are.
    long = table_of(tmp_path, LONG_CLOCKS)
    assert spans(read(long, mapping=TableMapping(times=times)).manifest) == [(0, 65)]


def test_the_clips_of_a_film_are_counted_once_for_all_annotators(tmp_path) -> None:
    columns = {"movie_id": "film", "start_s": "from", "end_s": "to", "annotator": "who"}
    path = table_of(tmp_path, RATED)
    form = "{movie_id}-{count:02d}"
    manifest = read(path, columns, form=form, rule="agreed").manifest
    assert manifest.clip_ids == ("A_B-01", "A_B-02", "C-01")
    who = [(one.clip_id, one.annotator) for one in manifest.annotations]
    names = ["ada", "ben", "ben", "ada"]
    ids = ["A_B-01", "A_B-01", "A_B-02", "C-01"]
    assert who == [*zip(ids, names, strict=True)]
    # 1 s is 1.0 s, whoever writes it.
    exact = "movie_id,start_s,end_s,annotator\na,1,2.50,ada\na,1.0,2.5,ben\n"
    again = read(table_of(tmp_path, exact, "exact.csv"), form="{movie_id}-{count}")
    assert again.manifest.clip_ids == ("a-1",)
    # A film is one, however its accents were typed.
    typed = "movie_id,start_s,end_s\nAm\u00e9lie,1,2\nAme\u0301lie,2,3\n"
    again = read(table_of(tmp_path, typed, "typed.csv"), form="{movie_id}-{count}")
    assert again.manifest.clip_ids == ("Amelie-1", "Amelie-2")
    # Without times nobody knows which rows are about one clip.
    columns |= {"start_s": "=", "end_s": "=", "from": "from", "to": "to"}
    with pytest.raises(FixInput) as caught:
        read(path, columns, form=form, rule="agreed")
    assert (
        "requires times if there are several annotators (4 times)"
        in caught.value.details[0]
    )


def test_a_word_may_mean_several_concepts(tmp_path: Path) -> None:
    words = '[concepts]\n"mise" = "Look|Clothing"\n"robe" = "Clothing"\n'
    mapping = table_of(tmp_path, words, "m.toml")
    path = table_of(tmp_path, "clip_id,movie_id,concepts\na-1,a,robe|mise\n")
    written = tmp_path / "written.toml"
    for given in (mapping, written):
        manifest = read(path, mapping=given, write_mapping=written).manifest
        assert manifest.clips[0].concepts == ("Clothing", "Look")
    ids = {name: name for name in ("clip_id", "movie_id")}
    assert ids.items() <= read_mapping(written).columns.items()
    wrong = table_of(tmp_path, '[concepts]\n"mise" = "Look|Cloth"\n', "w.toml")
    with pytest.raises(FixInput) as caught:
        read(path, mapping=wrong)
    assert "concepts.mise: unknown concept 'Cloth', " in caught.value.details[0]


def test_unclear_times_of_a_joined_table_are_asked_about(tmp_path: Path) -> None:
    clips = table_of(tmp_path, "clip_id,movie_id,start_s,end_s\na-1,a,65,70\n")
    moods = table_of(
        tmp_path, "clip_id,start_s,end_s,mood\na-1,0:05,0:10,joy\n", "m.csv"
    )
    with pytest.raises(FixInput) as caught:
        join(read(clips).manifest, moods)
    assert "'0:05' may be minutes or hours" in caught.value.details[0]


def test_words_in_other_capitals_mean_the_same_unless_both_are_listed(tmp_path) -> None:
    words = '[levels]\n"s" = "EN"\n"ja" = "S"\n"Oui" = "S"\n"oui" = "HN"\n'
    words += '[concepts]\n"Licht" = "visual"\n"LICHT!" = "Body"\n"licht!" = "Look"\n'
    mapping = table_of(tmp_path, words, "m.toml")
    path = table_of(
        tmp_path,
        "clip_id,movie_id,level,concepts\na,f,JA,LICHT\nb,f,oui,licht\nc,f,Oui,Licht|licht!\n"
        "d,f,S,\ne,f,s,\n",
    )
    made = read(path, mapping=mapping)
    clips = made.manifest.clips
    # A word of the vocabulary is what it is.
    assert [clip.level for clip in clips] == ["S", "HN", "S", "S", "EN"]
    assert not any("vocabulary" in warning for warning in made.warnings)
    assert made.facts["level_words"] == {
        "S": ["JA", "Oui", "S"],
        "HN": ["oui"],
        "EN": ["s"],
    }
    assert [clip.concepts for clip in clips[:3]] == [("Licht",)] * 2 + [
        ("Licht", "Look")
    ]
    unknown = table_of(tmp_path, "clip_id,movie_id,level\na,f,OUI\n", "u.csv")
    with pytest.raises(FixInput) as caught:
        read(unknown, mapping=mapping)
    assert "unknown level 'OUI'" in caught.value.details[0]


def test_a_word_that_is_not_known_is_no_level_and_no_concept(tmp_path: Path) -> None:
    path = table_of(
        tmp_path,
        "clip_id,movie_id,level,concepts\na,f,gern,Look|Dings\nb,f,S,why?|Dings\n",
    )
    words = {"gern": "?", "Dings": "?", "why?": "visual"}
    clips = read(path, words=words).manifest.clips
    assert [clip.level for clip in clips] == ["", "S"]
    assert [clip.concepts for clip in clips] == [("Look",), ("why?",)]
    with pytest.raises(FixUsage, match="expected a level or a concept, got 'Bdy'"):
        read(path, words={"Dings": "Bdy"})
