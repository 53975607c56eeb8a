"""Rule (b): a merged manifest has what each lab said of a clip; rule (a): or it is refused."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch
from obygaze_features.manifest.annotators import labelled
from obygaze_features.manifest.io import check_manifest
from obygaze_features.manifest.link import link
from obygaze_features.manifest.merging import merged_manifest
from obygaze_features.manifest.model import (
    Annotation,
    Clip,
    Header,
    Manifest,
    Windows,
)
from obygaze_features.manifest.spans import named_file
from obygaze_features.manifest.windows import CutFilm, Grid

LABS = ("paris", "nice", "oslo")
CONCEPTS = {"Look": "visual", "Voice": "audio"}
FILMS = ("alba", "brug")
COLUMNS = ("film_start_s", "film_end_s", "mood")
Said = dict[tuple[str, str], tuple[str, tuple[str, ...], str]]


def clip_of_film(number: int, times: str) -> Clip:
    """Return a clip of 2 s without labels, whose place in its film is said in some way."""
    start_s = 2.0 * number
    extra = dict.fromkeys(COLUMNS, "")
    clip = Clip(f"c-{number}", FILMS[number % 2], scene=number, extra=extra)
    if times == "in the video":
        return replace(clip, start_s=start_s, end_s=start_s + 2)
    if times == "of the clip's own file in the film":
        extra = {"film_start_s": repr(start_s), "film_end_s": repr(start_s + 2)}
        clip = replace(clip, extra={**clip.extra, **extra})
    return clip


@st.composite
def drawn_manifests(draw: st.DrawFn) -> tuple[list[Manifest], Said]:
    """Draw two or three manifests, some with annotators, and what is said by whom in all."""
    manifests = []
    said: Said = {}
    for lab in LABS[: draw(st.integers(2, 3))]:
        stated = ["in the video", "of the clip's own file in the film", "nowhere"]
        times = draw(st.sampled_from(stated))
        people = draw(st.sampled_from([(lab,), ("ada", "ben")]))
        clips = []
        annotations = []
        numbers = draw(st.lists(st.integers(0, 5), min_size=1, unique=True))
        for number in numbers:
            clip = clip_of_film(number, times)
            for person in people:
                level = draw(st.sampled_from(["", "EN", "HN", "S"]))
                concepts = draw(st.sampled_from([(), ("Look",), ("Look", "Voice")]))
                mood = draw(st.sampled_from(["", "joy", "joy|fear"]))
                # One person says the same of a clip, in whichever manifest.
                of_person = (level, concepts, mood)
                label = said.setdefault((clip.clip_id, person), of_person)
                one = Annotation(clip.clip_id, person, *label[:2], {"mood": label[2]})
                annotations.append(one)
            if people == (lab,):
                extra = {**clip.extra, **one.own}
                clip = replace(
                    clip, level=one.level, concepts=one.concepts, extra=extra
                )
            clips.append(clip)
        manifest = Manifest(lab, Header("made up", CONCEPTS), tuple(clips), COLUMNS)
        if people != (lab,):
            annotated = replace(manifest, annotations=tuple(annotations))
            manifest = labelled(annotated, "agreed")
        manifests.append(manifest)
    nothing = ("", (), "")
    return manifests, {who: label for who, label in said.items() if label != nothing}


@settings(max_examples=60)
@given(drawn_manifests())
def test_a_merged_manifest_has_each_clip_once_and_what_each_person_said(
    drawn: tuple[list[Manifest], Said],
) -> None:
    manifests, said = drawn
    merged = merged_manifest(manifests, "all", "majority").manifest
    check_manifest(merged)
    rows = {}
    for manifest in manifests:
        for clip in manifest:
            rows.setdefault(clip.clip_id, []).append(clip)
    assert sorted(merged.clip_ids) == sorted(rows)
    for clip in merged:
        of_clip = rows[clip.clip_id]
        assert clip.movie_id == of_clip[0].movie_id
        starts = [row.start_s for row in of_clip if row.start_s is not None]
        assert clip.start_s == (starts[0] if starts else None)
        film_starts = {row.extra["film_start_s"] for row in of_clip} - {""}
        assert clip.extra["film_start_s"] == "".join(film_starts)
    is_shared = len(rows) < sum(map(len, manifests))
    found = {}
    for one in merged.annotations:
        label = (one.level, one.concepts, one.own["mood"])
        if label != ("", (), ""):
            found[one.clip_id, one.annotator] = label
    # People with rows that say nothing are people, too.
    people = {person for _, person in said}
    people.update(*(manifest.annotators for manifest in manifests))
    is_of_several = len(people) > 1
    if is_shared or any(manifest.annotations for manifest in manifests):
        assert found == (said if is_of_several else {})
    backwards = merged_manifest(manifests[::-1], "all", "majority").manifest
    assert backwards.annotations == merged.annotations
    labels = [(clip.level, clip.concepts, clip.extra["mood"]) for clip in merged]
    assert labels == [
        (clip.level, clip.concepts, clip.extra["mood"])
        for clip in map(backwards.by_id.get, merged.clip_ids)
        if clip is not None
    ]


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (
            {"movie_id": "brug"},
            "2 clips of paris are not what nice has under the same ids: 'c-0' is of the film"
            " 'alba' and of 'brug'; 'c-1' is of the film 'alba' and of 'brug'",
        ),
        (
            {"start_s": 0.01},
            "2 clips of paris are not what nice has under the same ids: 'c-0' is 0 s to 2 s and"
            " 0.01 s to 2 s; 'c-1' is 2 s to 4 s and 0.01 s to 4 s",
        ),
        (
            {"scene": 7},
            "2 clips with other facts in two manifests: c-0: scene: 3 and 7",
        ),
        (
            {"extra": {"movie_title": "Brug"}},
            "2 clips with other facts in two manifests: c-0: movie_title: Alba and Brug",
        ),
    ],
)
def test_facts_that_contradict_each_other_are_refused_with_both_values(
    other: dict[str, object], problem: str
) -> None:
    """How many clips there are, and the first one; the other manifest may not say it at all."""
    clips = []
    for number in range(3):
        start = 2.0 * number
        title = {"movie_title": "Alba"}
        place = {"scene": 3, "start_s": start, "end_s": start + 2, "extra": title}
        clips.append(Clip(f"c-{number}", "alba", **place))  # type: ignore[arg-type]
    header = Header("made up", CONCEPTS)
    paris = Manifest("paris", header, tuple(clips), ("movie_title",))
    moved = tuple(replace(clip, **other) for clip in clips[:2])  # type: ignore[arg-type]
    nice = replace(paris, name="nice", clips=moved)
    with pytest.raises((FixInput, Mismatch)) as caught:
        merged_manifest([paris, nice], "all")
    assert caught.value.message == problem
    bare = [Clip(clip.clip_id, "alba", extra={"movie_title": ""}) for clip in clips]
    unsaid = replace(paris, name="nice", clips=tuple(bare))
    for order in ([paris, unsaid], [unsaid, paris]):
        assert list(merged_manifest(order, "all").manifest) == clips


def test_what_one_person_says_in_two_manifests_must_be_equal() -> None:
    paris = with_header("paris").with_column("annotator", {"c-1": "ada"})
    nice = replace(paris, name="nice")
    merged = merged_manifest([paris, nice], "all")
    assert (len(merged.manifest), merged.manifest.annotations) == (1, ())
    assert merged.notes == ("1 clip in several of the manifests",)
    (clip,) = nice
    nice = nice.with_clips([replace(clip, level="HN")])
    problem = "'ada' says of the clip 'c-1' one thing in paris and another in nice"
    with pytest.raises(FixInput, match=problem):
        merged_manifest([paris, nice], "all")
    # Two people are asked for a rule.
    zoe = nice.with_column("annotator", {"c-1": "zoe"})
    with pytest.raises(FixInput, match="annotators differ in 1 of 1 clip: level 1"):
        merged_manifest([paris, zoe], "all")
    highest = merged_manifest([paris, zoe], "all", "highest").manifest
    assert highest["c-1"].level == "S"
    assert highest.annotators == ("ada", "zoe")
    assert "annotator" not in highest.columns


def test_marks_of_two_labs_stay_marks_of_their_annotators() -> None:
    """A mark in a film is of one person; its row is not a clip of several."""
    marks = {}
    for lab, person in {"paris": "ada", "nice": "ben"}.items():
        extra = {"annotator": person, "start_frame": "0", "end_frame": "49"}
        mark = Clip(f"alba-{person}-1", "alba", start_s=0.0, end_s=2.0, extra=extra)
        header = Header("made up", CONCEPTS, unit="segment")
        marks[lab] = Manifest(lab, header, (mark,), tuple(extra))
    merged = merged_manifest([*marks.values()], "all").manifest
    assert merged.annotations == ()
    assert [mark.extra["annotator"] for mark in merged] == ["ada", "ben"]
    copy = replace(marks["paris"], name="copy")
    assert merged_manifest([marks["paris"], copy], "all").manifest.clips == copy.clips
    other = copy.with_clips([replace(copy.clips[0], level="S")])
    surer = marks["paris"].with_clips([replace(copy.clips[0], level="HN")])
    with pytest.raises(FixInput, match="level: HN and S"):
        merged_manifest([surer, other], "all")
    # A mark is of one person, and a level is not lost.
    with pytest.raises(FixInput, match="level: nothing and S"):
        merged_manifest([marks["paris"], other], "all")
    ben = copy.with_column("annotator", {copy.clips[0].clip_id: "ben"})
    with pytest.raises(FixInput, match="annotator: ada and ben"):
        merged_manifest([marks["paris"], ben], "all")


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
    drawn: tuple[list[Manifest], Said], data: st.DataObject
) -> None:
    """Its clips were negatives of a concept that nobody had looked for in them."""
    asked = []
    expected = []
    for manifest in drawn[0]:
        has_mirror = data.draw(st.booleans())
        concepts = {**CONCEPTS, "Mirror": "visual"} if has_mirror else CONCEPTS
        header = Header("made up", concepts)
        asked.append(replace(manifest, header=header))
        labelled = [row for row in manifest if row.level or row.concepts]
        if labelled and not has_mirror:
            expected.append((manifest.name, len(labelled)))
    if not any("Mirror" in one.header.concepts for one in asked):
        expected = []
    warnings = merged_manifest(asked, "all", "majority").warnings
    found = [text for text in warnings if "does not have the concepts Mirror" in text]
    assert len(found) == len(expected)
    for text, (name, n_rows) in zip(found, expected, strict=True):
        assert text.startswith(f"{name} does not")
        assert f": {n_rows} clip" in text


@settings(max_examples=30, deadline=None)
@given(
    of_paris=st.sampled_from(("Tendu", "tendu", "été")),
    of_nice=st.sampled_from(("tendu", "TENDU", "tendue", "Ete", "calme")),
)
def test_a_word_that_two_labs_spell_in_another_way_is_one_or_is_named(
    of_paris: str, of_nice: str
) -> None:
    manifests = []
    for lab, word in (("paris", of_paris), ("nice", of_nice)):
        clips = []
        for number in range(8):
            mood = word if number % 2 else "calme"
            clips.append(Clip(f"{lab}-{number}", lab, extra={"mood": mood}))
        manifests.append(Manifest(lab, Header("m"), tuple(clips), ("mood",)))
    merged = merged_manifest(manifests, "all")
    words = {clip.extra["mood"] for clip in merged.manifest}
    folded = {of_paris.casefold(), of_nice.casefold(), "calme"}
    assert len(words) == len(folded)
    said = [text for text in merged.warnings if "'" in text]
    assert bool(said) == ({of_paris, of_nice} == {"été", "Ete"})
    for text in said:
        assert "the column mood has" in text
        assert f"'{of_paris}'" in text
        assert f"'{of_nice}'" in text


def test_terms_and_sources_of_both_are_kept() -> None:
    paris = with_header("paris", licence="CC0-1.0", notes=("a", "b"), video_root="/p")
    nice = with_header("nice", licence="CC-BY-4.0", notes=("b", "c"), video_root="/n")
    merged = merged_manifest([paris, nice], "all")
    assert merged.manifest.header.licence == "paris: CC0-1.0; nice: CC-BY-4.0"
    by_rule = "one label a clip by the rule agreed of 2 annotators: nice, paris"
    assert merged.manifest.header.notes == ("a", "b", "c", by_rule)
    # Videos are in one folder, or not linked.
    assert merged.manifest.header.video_root == ""
    assert "/n and /p" in merged.warnings[0]
    assert Counter(clip.video for clip in merged.manifest) == {"": 1}
    # The licence of one lab is not that of the labels of the other.
    merged = merged_manifest([paris, with_header("oslo")], "all")
    assert merged.manifest.header.licence == "paris: CC0-1.0; oslo: not stated"


@settings(max_examples=30)
@given(drawn_manifests(), st.data())
def test_who_is_cited_for_all_labels_is_said_by_all(
    drawn: tuple[list[Manifest], Said], data: st.DataObject
) -> None:
    """A card said "Cite for the annotations: Lab B", though most were those of another lab."""
    said = []
    for manifest in drawn[0]:
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
    merged = merged_manifest(said, "all", "majority").manifest
    assert merged.header.citation == expected


def test_folds_of_one_manifest_are_left_out_and_named() -> None:
    """Two labs gave one film two folds of the same split, and it was tested on itself."""
    paris = with_header("paris").with_column("fold:grouped", {"c-1": "0"})
    nice = with_header("nice").with_column("fold:grouped", {"c-1": "1"})
    merged = merged_manifest([paris, nice], "all")
    assert merged.manifest.folds == ()
    assert "left out: fold:grouped" in merged.warnings[0]


def test_the_third_manifest_is_asked_for_what_only_the_second_states() -> None:
    clip = Clip("c-1", "alba")
    paris, nice, oslo = (with_header(name) for name in LABS)
    paris = paris.with_clips([clip])
    nice = nice.with_clips([replace(clip, start_s=2.0, end_s=4.0)])
    oslo = oslo.with_clips([replace(clip, start_s=2.01, end_s=4.0)])
    with pytest.raises(Mismatch, match=r"2 s to 4 s and 2\.01 s to 4 s"):
        merged_manifest([paris, nice, oslo], "all")


def test_two_manifests_are_asked_for_times_that_the_first_has_in_another_file() -> None:
    clip = Clip("c-1", "alba")
    paris, nice, oslo = (with_header(name) for name in LABS)
    paris = paris.with_clips([replace(clip, video="alba.mp4")])
    nice = nice.with_clips([replace(clip, start_s=2.0, end_s=4.0)])
    oslo = oslo.with_clips([replace(clip, start_s=8.0, end_s=9.0)])
    with pytest.raises(Mismatch, match="1 clip of nice is not what oslo has"):
        merged_manifest([paris, nice, oslo], "all")


def test_ids_that_differ_by_capitals_alone_are_refused() -> None:
    paris, nice = (with_header(name) for name in LABS[:2])
    paris = paris.with_clips([Clip("c-1", "alba"), Clip("c-3", "alba")])
    for other, names in (
        (Clip("c-2", "Alba"), "movie_ids .*: 'alba in paris and Alba in nice'"),
        (Clip("C-1", "alba"), "clip_ids .*: 'c-1 in paris and C-1 in nice'"),
    ):
        with pytest.raises(FixInput, match=names):
            merged_manifest([paris, nice.with_clips([other])], "all")


def test_ids_alone_are_said() -> None:
    stated = with_header("oslo")
    paris = with_header("paris", films="none").with_clips([Clip("c-1", "")])
    nice = replace(paris, name="nice")
    with pytest.raises(FixInput, match="films differs: none in paris, stated in oslo"):
        merged_manifest([paris, stated], "all")
    rome = replace(paris, name="rome")
    merged = merged_manifest([paris, nice, rome], "all")
    assert merged.notes == (
        "1 clip in several of the manifests",
        "paris and nice: 1 clip matched by the ids alone",
        "paris and rome: 1 clip matched by the ids alone",
        "nice and rome: 1 clip matched by the ids alone",
    )
    assert merged.manifest.header.films == "none"


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


def test_names_of_files_are_kept_for_a_link() -> None:
    """A column of one manifest hid the files that the other names."""
    paris = with_header("paris").with_column("video_name", {"c-1": "alba.mp4"})
    nice = with_header("nice").with_clips([Clip("c-2", "alba", video="scene.mp4")])
    merged = merged_manifest([paris, nice], "all").manifest
    names = {clip.clip_id: named_file(clip) for clip in merged}
    assert names == {"c-1": "alba.mp4", "c-2": "scene.mp4"}


def test_a_clip_is_one_with_its_copy_that_was_linked(tmp_path: Path) -> None:
    """The times of the copy were in the columns of the film, and the rows seemed to differ."""
    clip = Clip("c-1", "alba", start_s=2.0, end_s=4.0, level="S")
    plain = Manifest("paris", Header("made up"), (clip,))
    (tmp_path / "c-1.mp4").touch()
    linked = replace(link(plain, tmp_path).manifest, name="nice")
    assert linked["c-1"].start_s is None
    (merged,) = merged_manifest([plain, linked], "all").manifest
    assert (merged.clip_id, merged.start_s, merged.end_s) == ("c-1", 2.0, 4.0)
