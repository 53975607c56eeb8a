from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage, UnknownName
from obygaze_features.manifest.adapters.csv_table import read
from obygaze_features.manifest.adapters.join_table import join
from obygaze_features.manifest.annotators import RULES, apply_rule, person_labels
from obygaze_features.manifest.grouping import group_concepts
from obygaze_features.manifest.io import (
    annotators_path,
    manifest_sha256,
    read_manifest,
    write_manifest,
)
from obygaze_features.manifest.link import link
from obygaze_features.manifest.merging import make_labels, merged_manifest
from obygaze_features.manifest.model import Annotation, Clip, Header, Manifest
from obygaze_features.manifest.overview import show_manifest

COLUMNS = ("level", "concepts", "mood", "rating")
CLIPS = ("c1", "c2", "c3", "c4", "c5", "c6")
PEOPLE = ("ada", "ben", "cleo")
# What three people said of the clips; nobody said anything of c5.
SAID = {
    ("c1", "ada"): ("S", "Look|Body", "calm", "4"),
    ("c1", "ben"): ("S", "Look", "calm", "4.0"),
    ("c1", "cleo"): ("S", "Look", "tense", "1"),
    ("c2", "ada"): ("EN", "", "calm", "1"),
    ("c2", "ben"): ("HN", "Body", "tense", "3"),
    ("c3", "ada"): ("S", "Look", "calm", "1"),
    ("c3", "ben"): ("HN", "Body", "calm", "2"),
    ("c3", "cleo"): ("EN", "", "tense", "6"),
    ("c4", "ada"): ("NS", "Voice", "", ""),
    ("c6", "ada"): ("EN", "", "tense", "high"),
    ("c6", "ben"): ("EN", "", "tense", "3"),
    ("c6", "cleo"): ("EN", "", "tense", "3"),
}
# Level, concepts, mood, rating, and what is left open, of c1, c2, c3 and c6.
LABELS = {
    "agreed": [
        ("S", "Look", "", "", "mood|rating|Body"),
        ("", "", "", "", "level|mood|rating|Body"),
        ("", "", "", "", "level|mood|rating|Look|Body"),
        ("EN", "", "tense", "", "rating"),
    ],
    "majority": [
        ("S", "Look", "calm", "4", ""),
        ("", "", "", "", "level|mood|rating|Body"),
        ("", "", "calm", "", "level|rating"),
        ("EN", "", "tense", "3", ""),
    ],
    "highest": [
        ("S", "Look|Body", "tense", "", "rating"),
        ("HN", "Body", "tense", "", "rating"),
        ("S", "Look", "tense", "", "rating"),
        ("EN", "", "tense", "", "rating"),
    ],
    "mean": [
        ("S", "Look", "", "3", "mood|Body"),
        ("", "", "", "2", "level|mood|Body"),
        ("", "", "", "3", "level|mood|Look|Body"),
        ("EN", "", "tense", "", "rating"),
    ],
    "by:ben": [
        ("S", "Look", "calm", "4", ""),
        ("HN", "Body", "tense", "3", ""),
        ("HN", "Body", "calm", "2", ""),
        ("EN", "", "tense", "3", ""),
    ],
}
NOTHING = ("", "", "", "", "")
ORDERS = {"mood": "calm,tense"}
CODERS = {}
for name in PEOPLE:
    CODERS[f"coder:{name}"] = f"level of {name}"
    CODERS |= {f"coder:{name}:{own}": f"{own} of {name}" for own in COLUMNS[1:]}


def labels_of(rule: str) -> list[tuple[str, ...]]:
    """The labels of all clips: of c4 one person said something, and that was not ben."""
    *labels, last = LABELS[rule]
    of_c4 = NOTHING if rule == "by:ben" else ("NS", "Voice", "", "", "")
    return [*labels, of_c4, NOTHING, last]


def write_rows(path: Path, rows: Sequence[Mapping[str, str]]) -> Path:
    lines = [",".join(cells) for cells in (rows[0], *(row.values() for row in rows))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def facts_of(clip: str) -> dict[str, str]:
    start = 2 * int(clip[1])
    times = {"start_s": f"{start}", "end_s": f"{start + 2}"}
    return {"clip_id": clip, "movie_id": "alba", **times, "movie_title": "Alba"}


def cells_of(clip: str, name: str) -> dict[str, str]:
    return dict(zip(COLUMNS, SAID.get((clip, name), NOTHING), strict=False))


def by_rows(folder: Path, rule: str) -> Manifest:
    rows = []
    for clip, name in sorted([*SAID, ("c5", "ada")]):
        rows.append({**facts_of(clip), "who": name, **cells_of(clip, name)})
    path = write_rows(folder / "t.csv", rows)
    return read(path, {"annotator": "who"}, rule=rule, orders=ORDERS).manifest


def by_columns(folder: Path, rule: str) -> Manifest:
    rows = []
    for clip in CLIPS:
        row = facts_of(clip)
        for name in PEOPLE:
            cells = cells_of(clip, name)
            row |= {f"{column} of {name}": cells[column] for column in COLUMNS}
        rows.append(row)
    path = write_rows(folder / "t.csv", rows)
    return read(path, CODERS, rule=rule, orders=ORDERS).manifest


def by_files(folder: Path, rule: str) -> Manifest:
    paths = []
    for name in PEOPLE:
        rows = [{**facts_of(clip), **cells_of(clip, name)} for clip in CLIPS]
        paths.append(write_rows(folder / f"{name}.csv", rows))
    return read(paths, rule=rule, orders=ORDERS, name="t").manifest


def by_tables(folder: Path, rule: str) -> Manifest:
    inner = folder / f"exported-{len(list(folder.iterdir()))}"
    inner.mkdir()
    write_manifest(by_rows(folder, rule), inner / "t.toml")
    (inner / "t.toml").unlink()
    return read(inner / "t.csv").manifest


DOORS = {"columns": by_columns, "files": by_files, "tables": by_tables}


def label_of(clip: Clip) -> tuple[str, ...]:
    cells = (clip.extra.get(name, "") for name in ("mood", "rating", "differs"))
    return clip.level, "|".join(clip.concepts), *cells


@pytest.mark.parametrize("rule", LABELS)
def test_each_rule_makes_the_labels_that_were_written_by_hand(tmp_path, rule):
    made = by_rows(tmp_path, rule)
    assert made.clip_ids == CLIPS
    assert [label_of(clip) for clip in made] == labels_of(rule)
    assert made.annotators == PEOPLE
    found = {}
    for one in made.annotations:
        cells = (one.level, "|".join(one.concepts), *one.own.values())
        found[one.clip_id, one.annotator] = cells
    # 4.0 is 4.
    numbers = {key: cells[3].removesuffix(".0") for key, cells in SAID.items()}
    assert found == {key: (*SAID[key][:3], numbers[key]) for key in SAID}


@pytest.mark.parametrize("door", DOORS)
def test_all_doors_make_the_same_manifest(tmp_path: Path, door: str) -> None:
    for rule in LABELS:
        expected = by_rows(tmp_path, rule)
        made = DOORS[door](tmp_path, rule)
        assert replace(made, header=expected.header) == expected
        assert manifest_sha256(made) == manifest_sha256(expected)
        assert made.header.concepts == expected.header.concepts


def test_a_label_is_made_anew_by_another_rule(tmp_path: Path) -> None:
    options = {"orders": ORDERS, "force": True, "workspace": tmp_path}
    for first in ("highest", "mean"):
        path = tmp_path / "manifests" / "first.toml"
        write_manifest(by_rows(tmp_path, first), path, force=True)
        for second in LABELS:
            saved = make_labels("first", "second", rule=second, **options)
            no_commands = {"commands": (), "commands_sha256": ""}
            header = structs.replace(saved.manifest.header, **no_commands)
            expected = replace(by_rows(tmp_path, second), name="second")
            assert replace(saved.manifest, header=header) == expected
            assert read_manifest("second", workspace=tmp_path) == saved.manifest
            (note,) = saved.manifest.header.notes
            assert note.split(" from ")[0] == f"labels made by the rule {second}"
    # The label of one person is in a manifest of this person's labels.
    with pytest.raises(UnknownName, match="no column 'annotator'") as refused:
        saved.manifest.where("annotator == ada and mood == calm")
    assert "manifest labels second --rule by:NAME" in str(refused.value.hint)
    of_ada = make_labels("second", "third", rule="by:ada", workspace=tmp_path).manifest
    assert of_ada.where("mood == calm").clip_ids == ("c1", "c2", "c3")
    # The new manifest does not exist.
    with pytest.raises(FixUsage) as caught:
        make_labels("first", "fourth", rule="by:nobody", workspace=tmp_path)
    assert caught.value.where == "first"


def test_a_table_that_is_shown_and_imported_keeps_labels_but_not_what_they_come_from(
    tmp_path: Path,
) -> None:
    """So `manifest labels` is not a second way to what `show` and `import` do."""
    coded = by_rows(tmp_path, "agreed")
    concepts = {**coded.header.concepts, "Look": "audio"}
    terms = {"licence": "CC0-1.0", "citation": "Doe (2026)"}
    header = structs.replace(coded.header, concepts=concepts, **terms)
    coded = replace(coded, header=header)
    path = tmp_path / "manifests" / "coded.toml"
    write_manifest(coded, path)
    shown = tmp_path / "shown.csv"
    page = show_manifest("coded", workspace=tmp_path)
    assert str(page).splitlines()[1:3] == [
        "  licence: CC0-1.0",
        "  cite: Doe (2026)",
    ]
    page.write(shown)
    mapping = {}
    for name in PEOPLE:
        mapping[f"coder:{name}"] = f"level:{name}"
        mapping |= {f"coder:{name}:{own}": f"{own}:{name}" for own in COLUMNS[1:]}
    options: dict[str, Any] = {"orders": ORDERS, "workspace": tmp_path}
    for rule in LABELS:
        made = make_labels("coded", "made", rule=rule, force=True, **options).manifest
        imported = read(shown, mapping, rule=rule, orders=ORDERS).manifest
        assert [label_of(clip)[:4] for clip in imported] == [
            label_of(clip)[:4] for clip in made
        ]
        assert made.header.concepts == header.concepts
        assert imported.header.concepts != header.concepts
        assert made.header.sources == header.sources
        assert [source.file for source in imported.header.sources] == ["shown.csv"]


SAID_LEVELS = st.sampled_from(["", "EN", "HN", "NS", "S"])
THREE_LEVELS = st.lists(SAID_LEVELS, min_size=3, max_size=3)


@given(st.lists(THREE_LEVELS, min_size=1, max_size=6))
def test_levels_are_those_of_plain_loops(levels: list[list[str]]) -> None:
    annotations = []
    for number, of_clip in enumerate(levels):
        for name, level in zip(PEOPLE, of_clip, strict=True):
            annotations.append(Annotation(f"c{number}", name, level, (), {}))
    clips = tuple(Clip(f"c{number}", "alba") for number in range(len(levels)))
    raw = Manifest("t", Header("t"), clips, annotations=tuple(annotations))
    for number, of_clip in enumerate(levels):
        given_levels = [level for level in of_clip if level]
        n_of = Counter(given_levels).most_common()
        agreed = n_of[0][0] if len(n_of) == 1 else ""
        is_tied = len(n_of) > 1 and n_of[0][1] == n_of[1][1]
        majority = n_of[0][0] if n_of and not is_tied else ""
        order = ["", "EN", "HN", "NS", "S"]
        highest = max(of_clip, key=order.index)
        expected = {"agreed": agreed, "majority": majority, "highest": highest}
        for rule, level in expected.items():
            clip = apply_rule(raw, rule)[f"c{number}"]
            assert clip.level == level
            is_open = not level and bool(given_levels)
            assert clip.extra.get("differs", "") == ("level" if is_open else "")


def test_a_disputed_concept_leaves_the_level_open_in_the_visual_view() -> None:
    header = Header("t", {"Look": "visual", "Voice": "audio"})
    said = {
        # Whether c1 has a visual concept is open, so that S or EN is.
        "c1": [("S", ("Look", "Voice")), ("S", ("Voice",))],
        "c2": [("S", ("Voice",)), ("S", ())],
        "c3": [("EN", ("Look",)), ("EN", ())],
        "c4": [("S", ("Look",)), ("S", ("Look", "Voice"))],
    }
    annotations = []
    for clip, labels in said.items():
        for name, (level, concepts) in zip(PEOPLE, labels, strict=False):
            annotations.append(Annotation(clip, name, level, concepts, {}))
    clips = tuple(Clip(clip, "alba") for clip in said)
    raw = apply_rule(Manifest("t", header, clips, (), tuple(annotations)), "agreed")
    differs = [clip.extra["differs"] for clip in raw]
    assert [clip.level for clip in raw] == ["S", "S", "EN", "S"]
    assert differs == ["Look", "Voice", "Look", "Voice"]
    # Of c1, nothing is said: its level is not EN there.
    one = "1 clip (1 S) has no concept (alba), so it counts as EN"
    assert raw.levels_lost.startswith(one)
    assert raw.levels_heard == ""
    visual = raw.view("visual")
    assert [clip.level for clip in visual] == ["", "EN", "EN", "S"]
    assert visual["c1"].extra["differs"] == "level|Look"
    of_ben = person_labels(visual, "ben")
    assert [clip.level for clip in of_ben] == ["EN", "EN", "EN", "S"]


def rows_of_two(**others: Any) -> list[dict[str, str]]:
    """Return a row of each of two people about c1; `others` are cells of the second."""
    first = {**facts_of("c1"), "annotator": "ada", "level": "S", "concepts": "Look"}
    return [first, {**first, "annotator": "ben", **others}]


def test_what_people_said_that_could_not_be_kept_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    write_rows(table, rows_of_two(movie_title="Brug"))
    with pytest.raises(FixInput) as caught:
        read(table)
    assert "column 'movie_title': expected 'Alba'" in caught.value.details[0]
    for column in ("Look", "tense|calm"):
        write_rows(table, [{**row, column: "yes"} for row in rows_of_two(concepts="")])
        with pytest.raises(FixInput, match="is the name of an annotated concept"):
            read(table, rule="agreed")
    write_rows(table, rows_of_two())
    one = "clip_id,annotator,level,concepts\nc1,ada,S,Look\n"
    annotators_path(table).write_text(one)
    with pytest.raises(FixInput, match=r"annotations here and in t\.annotators\.csv"):
        read(table)
    # A table of annotators that is of no manifest may be the one that is imported: it stays.
    beside = annotators_path(table).rename(annotators_path(tmp_path / "films.toml"))
    one = replace(by_rows(tmp_path, "agreed"), annotations=())
    with pytest.raises(AlreadyThere, match="is not part of a manifest"):
        write_manifest(one, tmp_path / "films.toml", force=True)
    assert "ada" in beside.read_text()


def test_a_table_beside_is_checked(tmp_path: Path) -> None:
    table = write_rows(tmp_path / "t.csv", rows_of_two()[:1])
    beside = annotators_path(table)
    rows = "c9,ada,S,Look\nc1,,S,Look\nc1,ada,Maybe,Look\nc1,ben,S,Lok\n"
    beside.write_text(f"clip_id,annotator,level,concepts\n{rows}")
    with pytest.raises(FixInput, match="the table of annotators is not valid") as it:
        read(table)
    problems = ("'c9'", "is empty, but required", "'Maybe' is not", "concept 'Lok'")
    for line, problem in zip(it.value.details, problems, strict=True):
        assert problem in line
    beside.write_text("clip_id,annotator,level,concepts,movie_id\nc1,ada,S,,alba\n")
    with pytest.raises(FixInput) as it:
        read(table)
    assert "is a column of clips" in it.value.details[0]


def test_a_table_of_annotators_is_of_the_manifest_beside_it(tmp_path: Path) -> None:
    made = by_rows(tmp_path, "agreed")
    path = tmp_path / "films.toml"
    write_manifest(made, path)
    assert read_manifest(path) == replace(made, name="films")
    one = replace(made, annotations=())
    assert manifest_sha256(one) != manifest_sha256(made)
    # Without the table it is a different manifest, and the old table goes.
    with pytest.raises(AlreadyThere):
        write_manifest(one, path)
    write_manifest(one, path, force=True)
    assert not annotators_path(path).exists()
    annotators_path(path).write_text("clip_id,annotator,level,concepts\n")
    path.unlink()
    path.with_suffix(".csv").unlink()
    with pytest.raises(AlreadyThere, match="belongs to other clips"):
        write_manifest(one, path)


def test_what_changes_a_manifest_keeps_what_people_said(tmp_path: Path) -> None:
    made = replace(by_rows(tmp_path, "majority"), name="t")
    moods = write_rows(tmp_path / "joined.csv", [{"clip_id": "c1", "light": "day"}])
    (tmp_path / "alba.mp4").touch()
    same = {
        "join": join(made, moods).manifest,
        "link": link(made, tmp_path).manifest,
        "a column": made.with_column("light", {"c1": "day"}),
    }
    for what, changed in same.items():
        assert changed.annotations == made.annotations, what
    some = made.where("clip_id in {c1, c2}")
    assert {one.clip_id for one in some.annotations} == {"c1", "c2"}
    assert len(some.annotations) == 5
    grouped = group_concepts(made, {"Gaze": ["Look", "Body"]})
    assert grouped["c2"].extra["differs"] == "level|mood|rating|Gaze"
    of_c1 = [one.concepts for one in grouped.annotations if one.clip_id == "c1"]
    assert of_c1 == [("Gaze",)] * 3


def test_who_annotated_alone_is_a_person_of_merged_manifests(tmp_path: Path) -> None:
    made = by_rows(tmp_path, "highest")
    facts = {"movie_id": "z", "annotator": "zoe", "mood": "calm", "genre": "noir"}
    rows = [{"clip_id": "z1", **facts, "level": "S", "concepts": "Look"}]
    alone = read(write_rows(tmp_path / "alone.csv", rows), name="alone").manifest
    merged = merged_manifest([made, alone], "merged").manifest
    (zoe,) = [one for one in merged.annotations if one.annotator == "zoe"]
    assert (zoe.clip_id, zoe.level, zoe.concepts) == ("z1", "S", ("Look",))
    assert zoe.own["mood"] == "calm"
    assert "genre" not in zoe.own
    of_ada = apply_rule(merged, "by:ada")
    assert (of_ada["z1"].level, of_ada["z1"].concepts) == ("", ())
    assert of_ada["z1"].extra["genre"] == "noir"


def test_a_new_value_of_a_column_takes_the_place_of_those_that_differ(tmp_path) -> None:
    made = by_rows(tmp_path, "agreed")
    table = write_rows(tmp_path / "met.csv", [{"clip_id": "c1", "mood": "tense"}])
    met = join(made, table, update=True).manifest
    assert met["c1"].extra["mood"] == "tense"
    assert met["c1"].extra["differs"] == "rating|Body"


def test_concepts_of_people_without_levels_need_a_rule_that_compares_none(
    tmp_path: Path,
) -> None:
    """Who found nothing and who did not look have the same empty cell."""
    said = (("c1", "ada", "Look"), ("c1", "ben", "Look"), ("c2", "ada", "Body"))
    rows = []
    for clip, name, concepts in (*said, ("c2", "ben", "")):
        rows.append({**facts_of(clip), "annotator": name, "concepts": concepts})
    table = write_rows(tmp_path / "t.csv", rows)
    problem = (
        "expected annotations with levels, which show whether a concept was judged"
    )
    with pytest.raises(FixInput) as caught:
        read(table)
    assert problem in caught.value.details[0]
    assert caught.value.hint is not None
    assert caught.value.hint.endswith(" --rule highest")
    for rule in ("agreed", "majority", "mean"):
        with pytest.raises(FixInput, match=problem):
            read(table, rule=rule)
    for rule, of_c2 in (("highest", ("Body",)), ("by:ben", ())):
        made = read(table, rule=rule).manifest
        assert [clip.concepts for clip in made] == [("Look",), of_c2]
    # Of people who have films of their own, nothing is compared.
    alone = [rows[0], {**rows[3], "movie_id": "brug", "concepts": "Body"}]
    assert read(write_rows(table, alone)).manifest["c2"].concepts == ("Body",)


def test_what_is_filled_in_by_hand_is_decided(tmp_path: Path) -> None:
    """In an exported table whose clips have no label where annotators differ."""
    (tmp_path / "in").mkdir()
    write_manifest(by_rows(tmp_path, "agreed"), tmp_path / "in" / "t.toml")
    table = tmp_path / "in" / "t.csv"
    text = table.read_text(encoding="utf-8")
    was = ",,,Alba,,,level|mood|rating|Look|Body\n"
    assert text.count(was) == 1
    is_now = ",S,Look,Alba,calm,,level|mood|rating|Look|Body\n"
    table.write_text(text.replace(was, is_now), encoding="utf-8")
    made = read(table).manifest
    assert label_of(made["c3"]) == ("S", "Look", "calm", "", "rating|Body")
    others = [label_of(made[clip]) for clip in ("c1", "c2")]
    assert others == LABELS["agreed"][:2]
    # With the clips of another table, too, nobody has to choose a rule again.
    more = write_rows(tmp_path / "in" / "u.csv", [{**facts_of("c9"), "level": "S"}])
    assert label_of(read([table, more]).manifest["c3"])[4] == "rating|Body"


def test_a_column_for_all_is_not_said_by_people_with_columns(tmp_path: Path) -> None:
    rows = []
    for clip, ada, ben in (("c1", "S", "EN"), ("c2", "S", ""), ("c3", "", "")):
        of_all = {**facts_of(clip), "light": f"light of {clip}", "comment": "dark"}
        rows.append({**of_all, "Ada": ada, "Ben": ben})
    table = write_rows(tmp_path / "t.csv", rows)
    columns = {"coder:ada": "Ada", "coder:ben": "Ben"}
    said = [("c1", "ada", "S"), ("c1", "ben", "EN"), ("c2", "ada", "S")]
    for rule in set(RULES) - {"by:NAME"}:
        made = read(table, columns, rule=rule).manifest
        assert made.annotations == tuple(Annotation(*one, (), {}) for one in said)
        for clip in made:
            assert clip.extra["light"] == f"light of {clip.clip_id}"
            assert clip.extra["comment"] == "dark"


@pytest.mark.parametrize("column", ["comment", "Comments", "Bemerkung"])
def test_people_who_agree_need_no_rule(tmp_path: Path, column: str) -> None:
    comments = ["said by ada", "said by ben"]
    rows = rows_of_two(**{column: comments[1]})
    rows[0][column] = comments[0]
    made = read(write_rows(tmp_path / "t.csv", rows)).manifest
    assert label_of(made["c1"]) == ("S", "Look", "", "", "")
    # Different comments are no disagreement.
    assert made["c1"].extra == {"movie_title": "Alba", column: ""}
    assert [one.own[column] for one in made.annotations] == comments
    # The table for a discussion has both.
    table = show_manifest(made).table()
    assert [table[f"{column}:ada"], table[f"{column}:ben"]] == [
        [one] for one in comments
    ]
    assert table["level:ada"] == table["level:ben"] == ["S"]


def test_notes_of_which_people_differ_are_named(tmp_path: Path) -> None:
    """Notes may be ratings, as in French."""
    rows = rows_of_two(Notes="5")
    rows[0]["Notes"] = "2"
    with pytest.raises(FixInput) as caught:
        read(write_rows(tmp_path / "t.csv", rows))
    assert "annotators differ in 1 of 1 clip: Notes 1" in caught.value.details[0]
