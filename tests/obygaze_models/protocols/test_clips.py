"""Columns of clips as protocols read them, and the view of their labels."""

from types import SimpleNamespace
from typing import Any

import pytest

from obygaze_features.core.errors import FixInput, UnknownName
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_models.protocols.clips import TaskClips, clip_table, task_labels, with_view
from obygaze_models.protocols.schema import Data, Task


def test_positions_are_scenes_or_ranks_by_start_time() -> None:
    timed = [("a", 9.0), ("b", 1.0), ("a", 3.0)]
    clips = [Clip(f"c{i}", m, start_s=s, end_s=s + 1) for i, (m, s) in enumerate(timed)]
    found = TaskClips("m", clips, ()).scenes
    assert found is not None
    assert found.tolist() == [1, 2, 0]
    assert TaskClips("m", clips[::2], ()).scenes is None, (
        "of one film nothing is near another"
    )


def test_positions_do_not_depend_on_the_selected_clips() -> None:
    clips = []
    for film in "ab":
        for number in (1, 2):
            name = f"{film}{number}"
            clips.append(Clip(name, film, None, f"{name}.mp4", 3.0, 4.0, level="S"))
    manifest = Manifest("m", Header("m"), tuple(clips))
    everyone = clip_table(manifest, Data(view="raw"))
    selected = clip_table(manifest, Data(view="raw", where="clip_id in {a1, b1}"))
    assert selected.ids == ["a1", "b1"]
    assert everyone.scenes is None
    assert selected.scenes is None


def test_expressions_of_a_task_take_the_concepts_of_the_manifest() -> None:
    films = Header("films", {"Light": "visual", "Speech": "speech"})
    clips = (
        Clip("a", "m", level="S", concepts=("Light",)),
        Clip("b", "m", level="S", concepts=("Speech",)),
    )
    table = clip_table(Manifest("films", films, clips), Data(view="raw"))
    task = Task(positive="Light in concept")
    assert task_labels("t", task, table).tolist() == [1, 0]
    with pytest.raises(FixInput) as caught:
        task_labels("t", Task(positive="Gaze in concept"), table)
    assert caught.value.message.endswith("unknown concept 'Gaze'; known: Light, Speech")
    # The columns of another lab.
    with pytest.raises(UnknownName) as caught:
        task_labels("t", Task(positive="stare == y", negative="stare == n"), table)
    assert caught.value.message == "no column 'stare' (did you mean 'start_s'?)"
    assert str(caught.value.where) == "tasks.t.positive"


def test_rated_clips_without_any_concept_have_no_visual_view() -> None:
    films = Header(dataset="made up")
    rated = Manifest("films", films, (Clip("a", "m", level="S"),))
    with pytest.raises(FixInput, match="no clip has a concept"):
        clip_table(rated, Data(view="visual"))
    assert clip_table(rated, Data(view="raw")).levels.tolist() == ["S"]
    unrated = Manifest("films", films, (Clip("a", "m", level="EN"),))
    assert clip_table(unrated, Data(view="visual")).levels.tolist() == ["EN"]


def test_a_level_that_no_file_has_is_refused() -> None:
    """Of a manifest in memory; it would be in no class, and nothing would say so."""
    unknown = Manifest("films", Header("made up"), (Clip("a", "m", level="Sure"),))
    with pytest.raises(FixInput, match="clip 'a' has the unknown level 'Sure'"):
        clip_table(unknown, Data(view="raw"))


HEADER = Header("Films", {"Body": "visual", "Voice": "audio"})
LABELLED = Manifest(
    "films",
    HEADER,
    (
        Clip("a-1", "a", level="S", concepts=("Body",)),
        Clip("a-2", "a", level="S", concepts=("Voice",)),
        Clip("a-3", "a", level="EN"),
    ),
)


def store(medium: str) -> Any:
    return SimpleNamespace(recipe=SimpleNamespace(medium=medium))


PICTURES = store("pictures")
SOUND = store("sound")


@pytest.mark.parametrize(
    ("stores", "view"),
    [
        ({"seen": PICTURES}, "visual"),
        ({"heard": SOUND}, "raw"),
        ({"seen": PICTURES, "heard": SOUND}, "raw"),
    ],
)
def test_without_a_view_in_the_protocol_the_stores_decide(stores, view) -> None:
    assert with_view(Data(), LABELLED, stores).view == view
    # A view that the protocol names stays.
    for named in ("raw", "visual"):
        assert with_view(Data(view=named), LABELLED, stores).view == named


def test_a_manifest_in_a_view_has_no_other() -> None:
    visual = LABELLED.view("visual")
    assert with_view(Data(), visual, {"heard": SOUND}).view == "visual"
