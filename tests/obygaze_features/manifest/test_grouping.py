import re
from dataclasses import replace

import pytest

from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.manifest.annotators import apply_rule
from obygaze_features.manifest.grouping import group, group_concepts
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import Annotation, Clip, Header, Manifest

CLIPS = (
    Clip("a-1", "a", level="S", concepts=("Look", "Body", "Voice")),
    Clip("a-2", "a", level="HN", concepts=("Activities",)),
    Clip("a-3", "a", level="EN"),
    Clip("b-1", "b", level="HN", concepts=("Voice",)),
)
VISUAL = {"Look": "visual", "Body": "visual", "Activities": "visual"}


def toy() -> Manifest:
    return Manifest("toy", Header("toy", {**VISUAL, "Voice": "audio"}), CLIPS)


def test_a_clip_has_every_group_of_its_concepts_and_the_concepts_of_none() -> None:
    groups = {"seen": ["Look", "Body"], "body": ["Body"], "done": ["Activities"]}
    grouped = group_concepts(toy(), groups)
    of_clips = [("seen", "body", "Voice"), ("done",), (), ("Voice",)]
    assert [clip.concepts for clip in grouped] == of_clips
    modalities = {**dict.fromkeys(groups, "visual"), "Voice": "audio"}
    assert grouped.header.concepts == modalities
    assert "seen: Look, Body; body: Body; done: Activities" in grouped.header.notes[-1]
    # Groups of visual concepts leave the visual view as it is.
    for manifest in (grouped, toy()):
        levels = [clip.level for clip in manifest.view("visual")]
        assert levels == ["S", "HN", "EN", "EN"]


SPELLED = "with the same name as another group, or as a concept without a group"


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"seen": ["Loook"]}, "unknown concept 'Loook'"),
        ({"all": ["Look", "Voice"]}, "several modalities: audio, visual"),
        ({"voice": ["Look"]}, f"{SPELLED}: voice"),
        ({"A B": ["Look"], "A\tb": ["Body"]}, f"{SPELLED}: 'A B', 'A\\tb'"),
        ({"none": []}, "group 'none' has no concepts"),
        ({"a|b": ["Look"]}, "'a|b' must be a name without '|', and without blank"),
        ({"A": ["Look"], " A": ["Body"]}, "group ' A' must be a name without"),
    ],
)
def test_groups_that_cannot_be(groups: dict[str, list[str]], message: str) -> None:
    with pytest.raises(FixInput, match=re.escape(message)):
        group_concepts(toy(), groups)


def test_sub_constructs_of_a_vocabulary_with_some_of_the_concepts(tmp_path) -> None:
    made = group(toy(), name="sub", workspace=tmp_path)
    grouped = made.manifest
    assert grouped["a-1"].concepts == (
        "male gaze",
        "sexualisation",
        "surveillance of the feminine body",
        "Voice",
    )
    assert "infantilism or animalisation" not in grouped.header.concepts
    assert made.to_json()["concepts"]["S"]["male gaze"] == 1
    other = Manifest("other", Header("other", {"Light": "visual"}), ())
    with pytest.raises(FixInput, match="expected concepts of the sub-constructs"):
        group(other, name="sub2", workspace=tmp_path)


@pytest.mark.parametrize("person", ["ben", "Ada of Essex", "rule mean of 2", "a: b, c"])
def test_groups_are_made_of_what_each_person_said_by_the_same_rule(tmp_path, person):
    """One says Look, one Body, one Voice: two of three say that somebody is looked at."""
    said = [
        Annotation("lake-1", name, "S", (concept,), {})
        for name, concept in (("ada", "Look"), (person, "Body"), ("zoe", "Voice"))
    ]
    concepts = {"Look": "visual", "Body": "visual", "Voice": "audio"}
    clips = (Clip("lake-1", "lake", scene=1),)
    manifest = Manifest("films", Header("films", concepts), clips, (), tuple(said))
    groups = {"seen": ["Look", "Body"]}
    path = tmp_path / "manifests" / "films.toml"
    for rule in ("agreed", "majority", "highest", f"by:{person}"):
        at_once = apply_rule(group_concepts(manifest, groups), rule)
        write_manifest(apply_rule(manifest, rule), path, force=True)
        saved = read_manifest("films", workspace=tmp_path)
        later = group_concepts(saved, groups)
        assert later["lake-1"] == at_once["lake-1"], rule
    at_once = group_concepts(apply_rule(manifest, "majority"), groups)
    assert at_once["lake-1"].concepts == ("seen",)


def test_what_was_decided_by_hand_is_not_made_again(tmp_path) -> None:
    """The annotators differ on lake-1, and somebody has written what is right."""
    said = []
    for clip_id in ("lake-1", "lake-2"):
        for name, concept in (("ada", "Look"), ("ben", "Body")):
            said.append(Annotation(clip_id, name, "S", (concept,), {}))
    clips = (Clip("lake-1", "lake", scene=1), Clip("lake-2", "lake", scene=2))
    manifest = Manifest("films", toy().header, clips, (), tuple(said))
    made = apply_rule(manifest, "agreed")
    decided = replace(made["lake-1"], concepts=("Activities",), extra={"differs": ""})
    edited = made.with_clips([decided, made["lake-2"]])
    grouped = group_concepts(edited, {"seen": ["Look", "Body"], "done": ["Activities"]})
    assert [clip.concepts for clip in grouped] == [("done",), ("seen",)]
    assert [clip.extra["differs"] for clip in grouped] == ["", ""]


def test_a_file_of_groups_that_is_absent_is_named(tmp_path) -> None:
    write_manifest(toy(), tmp_path / "manifests" / "toy.toml")
    with pytest.raises(NotFound, match=r"absent\.toml"):
        group("toy", name="grouped", groups="absent.toml", workspace=tmp_path)
