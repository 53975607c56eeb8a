"""Rule (b): a merged manifest has what each lab said of a clip; rule (a): or it is refused."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch
from obygaze_features.manifest.annotators import labelled
from obygaze_features.manifest.io import check_manifest
from obygaze_features.manifest.merging import merged_manifest
from obygaze_features.manifest.model import (
    Annotation,
    Clip,
    Header,
    Manifest,
    Windows,
)
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


def test_ids_that_differ_by_capitals_alone_are_refused() -> None:
    paris, nice = (with_header(name) for name in LABS[:2])
    paris = paris.with_clips([Clip("c-1", "alba"), Clip("c-3", "alba")])
    for other, names in (
        (Clip("c-2", "Alba"), "movie_ids .*: 'alba in paris and Alba in nice'"),
        (Clip("C-1", "alba"), "clip_ids .*: 'c-1 in paris and C-1 in nice'"),
    ):
        with pytest.raises(FixInput, match=names):
            merged_manifest([paris, nice.with_clips([other])], "all")


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
