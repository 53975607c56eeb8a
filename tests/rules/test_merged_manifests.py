"""Rule (b): a merged manifest gives back the rows of each lab; rule (a): or it is refused."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.io import check_manifest
from obygaze_features.manifest.link import link
from obygaze_features.manifest.merging import merged_manifest
from obygaze_features.manifest.model import (
    Clip,
    Header,
    Manifest,
    SourceFile,
    Windows,
    unannotated_id,
)
from obygaze_features.manifest.same_clip import respelled_ids
from obygaze_features.manifest.spans import named_file
from obygaze_features.manifest.windows import CutFilm, Grid

LABS = ("paris", "nice", "oslo")
CONCEPTS = {"Look": "visual", "Voice": "audio"}
FILMS = ("alba", "brug")
COLUMNS = ("annotator", "film_start_s", "film_end_s", "mood")


def clip_of_film(number: int, times: str) -> Clip:
    """Return a clip of 2 s without labels, whose place in its film is said in some way.

    Some are windows, which have ids of their own form.
    """
    start_s = 2.0 * number
    clip_id = f"c:{number:06d}" if number % 3 else f"c-{number}"
    clip = Clip(clip_id, FILMS[number % 2], scene=number)
    if times == "in either":
        return replace(clip, start_s=start_s, end_s=start_s + 2)
    cells = {"film_start_s": repr(start_s), "film_end_s": repr(start_s + 2)}
    return clip if times == "unknown" else replace(clip, extra=cells)


@st.composite
def drawn_manifests(draw: st.DrawFn) -> list[Manifest]:
    """Draw two or three manifests; some have annotators, some share rows of one of them."""
    manifests = []
    said: dict[tuple[int, str], Clip] = {}
    for lab in LABS[: draw(st.integers(2, 3))]:
        times = draw(st.sampled_from(["in either", "in film", "unknown"]))
        who = draw(st.sampled_from([("",), ("ada",), ("ada", "Ben Ö"), (lab,)]))
        clips = []
        numbers = draw(st.lists(st.integers(0, 5), min_size=1, unique=True))
        for number in numbers:
            for annotator in who:
                clip = clip_of_film(number, times)
                level = draw(st.sampled_from(["", "EN", "HN", "S"]))
                concepts = draw(st.sampled_from([(), ("Look",), ("Voice", "Look")]))
                mood = draw(st.sampled_from(["", "joy", "joy|fear"]))
                ending = f".{annotator.replace(' Ö', '_O')}" if annotator else ""
                extra = {**dict.fromkeys(COLUMNS, ""), **clip.extra, "mood": mood}
                row = replace(
                    clip,
                    clip_id=f"{clip.clip_id}{ending if len(who) > 1 else ''}",
                    level=level,
                    concepts=concepts,
                    extra={**extra, "annotator": annotator},
                )
                # One person says the same of a clip, in whichever manifest.
                if annotator:
                    first = said.setdefault((number, annotator), row)
                    row = replace(first, clip_id=row.clip_id)
                clips.append(row)
        header = Header("made up", CONCEPTS, sources=())
        manifests.append(Manifest(lab, header, tuple(clips), COLUMNS))
    return manifests


def told_by(row: Clip, annotator: str) -> tuple[object, ...]:
    facts = replace(row, clip_id="", extra={})
    extra = {**row.extra, "annotator": annotator}
    return unannotated_id(row), repr(vars(facts)), repr(sorted(extra.items()))


@settings(max_examples=60)
@given(drawn_manifests())
def test_a_merged_manifest_has_the_rows_of_each_lab(manifests: list[Manifest]) -> None:
    merged = merged_manifest(manifests, "all").manifest
    check_manifest(merged)
    rows = {(unannotated_id(row), row.extra["annotator"]): row for row in merged}
    assert len(rows) == len(merged)
    expected = set()
    for manifest in manifests:
        for row in manifest:
            annotator = row.extra["annotator"] or manifest.name
            key = (unannotated_id(row), annotator)
            assert told_by(rows[key], annotator) == told_by(row, annotator)
            expected.add(key)
    assert rows.keys() == expected
    backwards = merged_manifest(manifests[::-1], "all").manifest
    assert set(map(repr, backwards)) == set(map(repr, merged))


@settings(max_examples=30)
@given(drawn_manifests(), st.sampled_from(["film", "times", "label"]), st.data())
def test_rows_that_contradict_each_other_are_refused_with_both_values(
    manifests: list[Manifest], what: str, data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(manifests[0].clips))
    annotator = chosen.extra["annotator"] or "paris"
    other = replace(chosen, clip_id=unannotated_id(chosen))
    other = replace(other, extra={**other.extra, "annotator": annotator})
    values = [chosen.movie_id, "cirk"]
    if what == "film":
        other = replace(other, movie_id="cirk")
    elif what == "times":
        assume(chosen.start_s is not None or chosen.extra["film_end_s"])
        number = int(other.clip_id[2:])
        values = [f"{2 * number} s to {2 * number + 2} s", "900 s to 902 s"]
        other = replace(other, start_s=900.0, end_s=902.0)
        moved = {"film_start_s": "900.0", "film_end_s": "902.0"}
        if chosen.start_s is None:
            other = replace(other, start_s=None, end_s=None)
            other = replace(other, extra={**other.extra, **moved})
    else:
        level = "NS"
        values = [chosen.level or "nothing", level]
        other = replace(other, level=level)
    if what != "label":
        # Another person, so that only film and times are compared.
        other = replace(other, extra={**other.extra, "annotator": "zoe"})
    second = Manifest("vienna", manifests[0].header, (other,), COLUMNS)
    with pytest.raises(FixInput) as caught:
        merged_manifest([manifests[0], second], "all")
    for value in values:
        assert value in caught.value.message
    assert "vienna" in str(caught.value.where)


def with_header(name: str, **facts: object) -> Manifest:
    clips = (Clip("c-1", "alba", level="S", concepts=("Look",)),)
    header = {"dataset": "made up", "concepts": {"Look": "visual"}, **facts}
    return Manifest(name, Header(**header), clips)  # type: ignore[arg-type]


def test_a_concept_has_one_modality() -> None:
    paris = with_header("paris")
    assert merged_manifest(
        [paris, with_header("nice", concepts={"Look": "unknown"})], "all"
    )
    nice = with_header("nice", concepts={"Look": "audio"})
    problem = (
        "the modality of the concept 'Look' differs: visual in paris, audio in nice"
    )
    with pytest.raises(FixInput, match=problem):
        merged_manifest([paris, nice], "all")
    with pytest.raises(FixInput, match="view differs: raw in paris, visual in nice"):
        merged_manifest([paris, with_header("nice", view="visual")], "all")


@settings(max_examples=30)
@given(drawn_manifests(), st.data())
def test_a_manifest_that_did_not_ask_for_a_concept_is_named(
    manifests: list[Manifest], data: st.DataObject
) -> None:
    """Its rows were negatives of a concept that nobody had looked for in them."""
    asked = []
    expected = []
    for manifest in manifests:
        has_mirror = data.draw(st.booleans())
        concepts = {**CONCEPTS, "Mirror": "visual"} if has_mirror else CONCEPTS
        header = Header("made up", concepts)
        asked.append(replace(manifest, header=header))
        labelled = [row for row in manifest if row.level or row.concepts]
        if labelled and not has_mirror:
            expected.append((manifest.name, len(labelled)))
    if not any("Mirror" in one.header.concepts for one in asked):
        expected = []
    warnings = merged_manifest(asked, "all").warnings
    found = [text for text in warnings if "does not have the concepts Mirror" in text]
    assert len(found) == len(expected)
    for text, (name, n_rows) in zip(found, expected, strict=True):
        assert text.startswith(f"{name} does not")
        assert f": {n_rows} row" in text


@settings(max_examples=30, deadline=None)
@given(
    of_paris=st.sampled_from(("Tendu", "tendu", "été")),
    of_nice=st.sampled_from(("tendu", "TENDU", "tendue", "Ete", "calme")),
)
def test_a_word_that_two_labs_spell_in_another_way_is_named(
    of_paris: str, of_nice: str
) -> None:
    manifests = []
    for lab, word in (("paris", of_paris), ("nice", of_nice)):
        clips = []
        for number in range(8):
            mood = word if number % 2 else "calme"
            clips.append(Clip(f"{lab}-{number}", lab, extra={"mood": mood}))
        manifests.append(Manifest(lab, Header("m"), tuple(clips), ("mood",)))
    said = [text for text in merged_manifest(manifests, "all").warnings if "'" in text]
    spelt_alike = ({"Tendu", "tendu", "TENDU"}, {"été", "Ete"})
    is_one_word = any({of_paris, of_nice} <= words for words in spelt_alike)
    assert bool(said) == (is_one_word and of_paris != of_nice)
    for text in said:
        assert "the column mood has" in text
        assert f"'{of_paris}'" in text
        assert f"'{of_nice}'" in text


def test_terms_and_sources_of_both_are_kept() -> None:
    paris = with_header("paris", licence="CC0-1.0", notes=("a", "b"), video_root="/p")
    nice = with_header("nice", licence="CC-BY-4.0", notes=("b", "c"), video_root="/n")
    merged = merged_manifest([paris, nice], "all")
    assert merged.manifest.header.licence == "paris: CC0-1.0; nice: CC-BY-4.0"
    assert merged.manifest.header.notes == ("a", "b", "c")
    # Videos are in one folder, or not linked.
    assert merged.manifest.header.video_root == ""
    assert "/n and /p" in merged.warnings[0]
    assert Counter(clip.video for clip in merged.manifest) == {"": 2}
    # The licence of one lab is not that of the labels of the other.
    merged = merged_manifest([paris, with_header("oslo")], "all")
    assert merged.manifest.header.licence == "paris: CC0-1.0; oslo: not stated"


@settings(max_examples=30)
@given(drawn_manifests(), st.data())
def test_who_is_cited_for_all_labels_is_said_by_all(
    manifests: list[Manifest], data: st.DataObject
) -> None:
    """A card said "Cite for the annotations: Lab B", though most were those of another lab."""
    said = []
    for manifest in manifests:
        citation = data.draw(st.sampled_from(["", "Lab A, 2026", "Lab B"]))
        header = Header("made up", CONCEPTS, citation=citation)
        said.append(replace(manifest, header=header))
    stated = {one.header.citation for one in said}
    expected = stated.pop()
    if stated:
        of_each = [f"{one.name}: {one.header.citation}" for one in said]
        expected = "; ".join(
            f"{text}not stated" if text.endswith(": ") else text for text in of_each
        )
    assert merged_manifest(said, "all").manifest.header.citation == expected


@settings(max_examples=30)
@given(drawn_manifests())
def test_a_merge_says_how_many_ids_are_new(manifests: list[Manifest]) -> None:
    rows = [row for manifest in manifests for row in manifest]
    merged = merged_manifest(manifests, "all")
    ids = {row.clip_id for row in merged.manifest}
    n_new = sum(row.clip_id not in ids for row in rows)
    notes = [note for note in merged.notes if "with a new id" in note]
    assert [note.partition(" ")[0] for note in notes] == ([f"{n_new}"] if n_new else [])


def has_times(row: Clip) -> bool:
    return row.start_s is not None or bool(row.extra["film_end_s"])


@settings(max_examples=60)
@given(drawn_manifests(), st.sampled_from(["C_", "c-0", "C-00"]))
def test_ids_that_are_spelt_in_another_way_are_named(
    manifests: list[Manifest], beginning: str
) -> None:
    """The clips of the third of three labs were clips of their own without a word."""
    *others, last = manifests
    rows = []
    for row in last:
        _, _, ending = row.clip_id.replace("c:00000", "c-").partition("-")
        rows.append(replace(row, clip_id=f"{beginning}{ending}"))
    respelt = replace(last, clips=tuple(rows))
    people = {row.extra["annotator"] or one.name for one in others for row in one}
    # Of one person, they are two clips.
    assume(people.isdisjoint(row.extra["annotator"] or last.name for row in last))
    merged = merged_manifest([*others, respelt], "all")
    rows_of: dict[int, list[Clip]] = {}
    for manifest in others:
        for row in manifest:
            rows_of.setdefault(row.scene or 0, []).append(row)
    n_pairs = 0
    with_times = {row.scene for row in last if has_times(row)}
    for scene in {row.scene or 0 for row in last}:
        known = rows_of.get(scene, [])
        is_found_by_times = scene in with_times and any(map(has_times, known))
        n_pairs += bool(known) and not is_found_by_times
    said = respelled_ids(merged.manifest.clips)
    assert re.findall(r"\((\d+) in all\)", said) == [f"{n_pairs}"][:n_pairs]


def test_folds_of_one_manifest_are_left_out_and_named() -> None:
    """Two labs gave one film two folds of the same split, and it was tested on itself."""
    paris = with_header("paris").with_column("fold:grouped", {"c-1": "0"})
    nice = with_header("nice").with_column("fold:grouped", {"c-1": "1"})
    merged = merged_manifest([paris, nice], "all")
    assert merged.manifest.folds == ()
    assert "left out: fold:grouped" in merged.warnings[0]


def test_a_row_that_two_manifests_have_is_a_clip_of_both() -> None:
    """The sentence was: 0 clips in several of the manifests."""
    paris = with_header("paris").with_column("annotator", {"c-1": "ada"})
    merged = merged_manifest([paris, replace(paris, name="copy")], "all")
    assert len(merged.manifest) == 1
    assert merged.notes[0] == "1 clip in several of the manifests"
    assert merged.warnings == ()
    # A time of 0 and none are not the same.
    (clip,) = paris
    start = paris.with_clips([replace(clip, start_s=0.0, end_s=2.0)])
    other = paris.with_clips([replace(clip, end_s=2.0)])
    with pytest.raises(FixInput, match=r"start_s: 0\.0 and nothing"):
        merged_manifest([start, replace(other, name="copy")], "all")


def test_one_file_is_not_two_annotators_without_a_word() -> None:
    source = SourceFile("clips.csv", "0" * 64)
    paris, copy = (with_header(name, sources=(source,)) for name in ("paris", "copy"))
    problem = "paris and copy were both made of clips.csv"
    assert problem in merged_manifest([paris, copy], "all").warnings[0]
    people = [
        one.with_column("annotator", {"c-1": who})
        for one, who in ((paris, "ada"), (copy, "zoe"))
    ]
    assert merged_manifest(people, "all").warnings == ()


def test_one_video_is_one_film() -> None:
    """A film under two names could train and be tested at once."""
    paris, nice = (with_header(name, video_root="/films") for name in ("paris", "nice"))
    paris = paris.with_clips([Clip("c-1", "alba", video="alba.mp4")])
    nice = nice.with_clips([Clip("d-1", "Alba_1962", video="alba.mp4")])
    problem = "the film of the video alba.mp4 differs: alba in paris, Alba_1962 in nice"
    with pytest.raises(FixInput, match=problem):
        merged_manifest([paris, nice], "all")


def test_names_of_files_are_kept_for_a_link() -> None:
    """A column of one manifest hid the files that the other names."""
    paris = with_header("paris").with_column("video_name", {"c-1": "alba.mp4"})
    nice = with_header("nice").with_clips([Clip("c-1", "alba", video="scene.mp4")])
    merged = merged_manifest([paris, nice], "all").manifest
    names = {clip.clip_id: named_file(clip) for clip in merged}
    assert names == {"c-1.paris": "alba.mp4", "c-1.nice": "scene.mp4"}


def test_windows_are_named() -> None:
    film = CutFilm("alba", "alba.mp4", 50, 25.0, 2.0)
    grid = Grid(seconds=1, every=1)
    header = Header("made up", unit="window", grid=grid)
    windows = Manifest("cut", header, Windows((film,), grid))
    with pytest.raises(FixInput, match="windows have no annotators") as caught:
        merged_manifest([with_header("paris"), windows], "all")
    assert caught.value.where == "cut"


def test_two_manifests_of_one_name_are_refused() -> None:
    with pytest.raises(FixUsage, match="the same name"):
        merged_manifest([with_header("paris"), with_header("paris")], "all")
    with pytest.raises(FixUsage, match="two manifests or more"):
        merged_manifest([with_header("paris")], "all")


def test_a_row_is_one_with_its_copy_that_was_linked(tmp_path: Path) -> None:
    """The times of the copy were in the columns of the film, and the rows seemed to differ."""
    row = Clip("c-1", "alba", start_s=2.0, end_s=4.0, extra={"annotator": "ada"})
    plain = Manifest("paris", Header("made up"), (row,), ("annotator",))
    (tmp_path / "c-1.mp4").touch()
    linked = replace(link(plain, tmp_path).manifest, name="nice")
    assert linked["c-1"].start_s is None
    (merged,) = merged_manifest([plain, linked], "all").manifest
    assert (merged.clip_id, merged.start_s, merged.end_s) == ("c-1.ada", 2.0, 4.0)
