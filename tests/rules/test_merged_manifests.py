"""Rule (b): a merged manifest has the clips of each lab; rule (a): a clip of two is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage
from obygaze_features.manifest.annotators import apply_rule
from obygaze_features.manifest.io import check_manifest
from obygaze_features.manifest.merging import merged_manifest
from obygaze_features.manifest.model import Annotation, Clip, Header, Manifest

LABS = ("paris", "nice", "oslo")
CONCEPTS = {"Look": "visual", "Voice": "audio"}
FILMS = ("alba", "brug")
COLUMNS = ("film_start_s", "film_end_s", "mood", "fold:x")


def clip_of_film(number: int, has_times: bool) -> Clip:
    """Return a clip of 2 s without labels."""
    start_s = 2.0 * number
    extra = {**dict.fromkeys(COLUMNS, ""), "fold:x": "1"}
    clip = Clip(f"c-{number}", FILMS[number % 2], scene=number, extra=extra)
    if has_times:
        return replace(clip, start_s=start_s, end_s=start_s + 2)
    return clip


@st.composite
def drawn_manifests(draw: st.DrawFn) -> list[Manifest]:
    """Draw two or three manifests, some with annotators; a clip may be in several."""
    manifests = []
    for lab in LABS[: draw(st.integers(2, 3))]:
        has_times = draw(st.booleans())
        people = draw(st.sampled_from([(), ("ada", "ben")]))
        clips = []
        annotations = []
        for number in draw(st.lists(st.integers(0, 11), min_size=1, unique=True)):
            clip = clip_of_film(number, has_times)
            for person in people:
                level = draw(st.sampled_from(["EN", "HN", "S"]))
                mood = {"mood": draw(st.sampled_from(["", "joy", "joy|fear"]))}
                one = Annotation(clip.clip_id, person, level, ("Look",), mood)
                annotations.append(one)
            if not people:
                clip = replace(clip, level=draw(st.sampled_from(["", "EN", "S"])))
            clips.append(clip)
        manifest = Manifest(lab, Header("made up", CONCEPTS), tuple(clips), COLUMNS)
        if people:
            manifest = apply_rule(
                replace(manifest, annotations=tuple(annotations)), "agreed"
            )
        manifests.append(manifest)
    return manifests


@given(drawn_manifests())
def test_a_merged_manifest_has_each_clip_as_it_was_or_a_clip_of_two_is_refused(
    manifests,
):
    ids = [clip_id for manifest in manifests for clip_id in manifest.clip_ids]
    twice = {clip_id for clip_id in ids if ids.count(clip_id) > 1}
    if twice:
        with pytest.raises(AlreadyThere, match="in two manifests, ") as caught:
            merged_manifest(manifests, "all")
        assert any(clip_id in caught.value.message for clip_id in twice)
        return
    made = merged_manifest(manifests, "all")
    merged = made.manifest
    check_manifest(merged)
    assert list(merged.clip_ids) == ids
    assert not merged.folds
    assert "fold:x" in str(made.warnings)
    said = set()
    for manifest in manifests:
        for clip in manifest:
            here = merged[clip.clip_id]
            own = {name: cell for name, cell in clip.extra.items() if cell}
            own.pop("fold:x")
            assert {name: cell for name, cell in here.extra.items() if cell} == own
            assert replace(here, extra={}) == replace(clip, extra={})
        for one in manifest.annotations:
            said.add((*one[:4], one.own["mood"]))
    assert {(*one[:4], one.own["mood"]) for one in merged.annotations} == said
    assert merged.header.rule == ("agreed" if said else "")


def with_header(name: str, clip_id: str = "c-1", **facts: object) -> Manifest:
    clips = (Clip(clip_id, "alba", level="S", concepts=("Look",)),)
    header = {"dataset": "made up", "concepts": {"Look": "visual"}, **facts}
    return Manifest(name, Header(**header), clips)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        (
            {"concepts": {"Look": "audio"}},
            "the modality of the concept 'Look': expected visual as in paris, got audio",
        ),
        ({"view": "visual"}, "view: expected raw as in paris, got visual"),
        ({"films": "none"}, "films: expected a value as in paris, got none"),
        ({"rule": "mean"}, "rule: expected agreed as in paris, got mean"),
    ],
)
def test_headers_that_contradict_each_other_are_refused(facts, problem) -> None:
    paris = with_header("paris", rule="agreed")
    with pytest.raises(FixInput, match=problem):
        merged_manifest([paris, with_header("nice", "c-2", **facts)], "all")


def test_ids_that_differ_by_capitals_alone_are_refused() -> None:
    paris, nice = (with_header(name) for name in LABS[:2])
    paris = paris.with_clips([Clip("c-1", "alba"), Clip("c-3", "alba")])
    for other, problem in (
        (Clip("c-2", "Alba"), "movie_ids .*: 'alba and Alba'"),
        (Clip("C-1", "alba"), r"two manifests, .*: c-1 \(alba\) in paris and C-1 "),
    ):
        with pytest.raises((FixInput, AlreadyThere), match=problem):
            merged_manifest([paris, nice.with_clips([other])], "all")


def test_merged_clips_are_as_they_were_before_they_were_linked() -> None:
    linked = []
    for name, root in zip(LABS, ("/films", "/films", "/other"), strict=True):
        clip = Clip(f"{name}-1", "alba", video="alba.mp4", extra={"video_name": ""})
        header = Header("made up", video_root=root)
        linked.append(Manifest(name, header, (clip,), ("video_name",)))
    made = merged_manifest(linked, "all").manifest
    assert made.header.video_root == ""
    assert not any(clip.video for clip in made)


def test_one_manifest_is_refused() -> None:
    with pytest.raises(FixUsage, match="two manifests or more"):
        merged_manifest([with_header("paris")], "all")


def test_what_headers_say_of_their_own_is_kept() -> None:
    terms = {"licence": "CC0", "citation": "Us, 2026"}
    paris = with_header("paris", **terms, notes=("one",), said=("mood",))
    nice = with_header("nice", "c-2", concepts={"Look": "unknown", "Light": "visual"})
    made = merged_manifest([nice, paris], "all")
    header = made.manifest.header
    assert header.concepts == {"Look": "visual", "Light": "visual"}
    assert header.licence == ""
    assert header.citation == "nice: not stated; paris: Us, 2026"
    assert (header.notes, header.said, header.dataset) == (
        ("one",),
        ("mood",),
        "made up",
    )
    oslo = with_header("oslo", "c-3", licence="MIT")
    both = merged_manifest([paris, oslo], "both").manifest.header
    assert both.licence == "paris: CC0; oslo: MIT"
    (warning,) = made.warnings
    assert warning.startswith("paris does not have the concepts Light: its clips")


@pytest.mark.parametrize(
    ("level", "concepts", "warns"),
    [("HN", ("Look",), True), ("EN", ("Look",), False), ("HN", (), False)],
)
def test_a_table_with_levels_only_does_not_state_concepts(level, concepts, warns):
    """Nobody judged concepts of these clips; an EN clip has none by definition."""
    paris = with_header("paris", concepts=CONCEPTS)
    paris = paris.with_clips([replace(paris["c-1"], concepts=concepts)])
    nice = with_header("nice", concepts=CONCEPTS)
    nice = nice.with_clips([Clip("c-2", "alba", level=level)])
    warning = (
        "nice does not have the concepts Look, Voice: its clips count as clips without"
        " these concepts"
    )
    made = merged_manifest([paris, nice], "all")
    assert list(made.warnings) == [warning] * warns
