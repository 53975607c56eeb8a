"""Data sets, lists of clips and tasks in Python and on the command line."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
from msgspec import structs
from support.cli import call_obygaze
from support.experiments import films, planted, quick, store_of

import obygaze as og
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import open_store
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner.inputs import gather


def test_a_data_set_takes_tasks_of_columns_and_expressions(inside):
    decade = {"column": "decade", "values": {1990: 0, 2000: 1}}
    data = og.dataset("mine", "films", task=decade)
    assert dict(zip(data.ids.tolist(), data.y.tolist(), strict=True)) == {
        "a-1": 0,
        "a-2": 0,
        "b-1": 1,
        "b-2": 1,
    }
    looks = og.dataset("mine", "films", task={"positive": "Look in concept"})
    assert looks.ids[looks.y == 1].tolist() == ["a-2", "b-2"]
    assert sorted(looks.ids[looks.y == 0].tolist()) == ["a-1", "b-1"]
    levels = og.dataset("mine", "films", {"EN": 0, "S": 1})
    assert sorted(levels.ids.tolist()) == ["a-1", "a-2", "b-2"]


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ({}, "must have exactly one of classes, positive and column"),
        ({"EN": 0, "S": 2}, "classes.S: must be int"),
        ({"EN": 0, "X": 1}, "'X'"),
        (
            {"classes": {"EN": 0, "S": 1}, "positive": "level == S"},
            "must have exactly one of",
        ),
        ({"column": "decade", "values": ["1990"]}, "values"),
        ({"column": "decade"}, "must have both column and values, or neither"),
        ({"positive": "level == S", "negativ": "x"}, "unknown key 'negativ'"),
    ],
)
def test_what_is_no_task_is_refused_as_in_a_protocol(inside, task, problem):
    with pytest.raises(FixInput, match="the task is not valid") as raised:
        og.dataset("mine", "films", task=task)
    assert problem in " ".join(raised.value.details)


def test_a_task_may_have_numbers_of_numpy(inside):
    levels = og.dataset("mine", "films", task={"EN": np.int64(0), "S": np.int64(1)})
    assert sorted(levels.ids.tolist()) == ["a-1", "a-2", "b-2"]
    with pytest.raises(FixUsage, match="task must be a name or a mapping"):
        og.dataset("mine", "films", task=["EN"])


def test_a_data_frame_is_no_store_and_no_manifest() -> None:
    table = pandas.DataFrame({"clip_id": ["a-1"]})
    with pytest.raises(
        FixUsage, match=r"the folder of a store, got DataFrame"
    ) as raised:
        og.open_store(table)
    assert raised.value.hint == "pass a name such as 'films.xclip', or a path"
    with pytest.raises(FixUsage, match="path of a manifest, got DataFrame") as raised:
        og.dataset(table, table)
    assert raised.value.hint == "pass a name such as 'films', or a path"


FORMS = [["--clips", "a-1,b-2"], ["--clips", "table.csv"]]


@pytest.mark.parametrize("chosen", FORMS, ids=" ".join)
def test_every_command_takes_ids_and_files(inside, chosen):
    subset = call_obygaze("store", "subset", "mine", *chosen, "-o", "part").ok()
    assert subset.stdout.startswith(f"{Path('stores/part')}: 2 clips")
    assert open_store("part").clip_ids.tolist() == ["a-1", "b-2"]
    predict = ["models", "predict", "kept", "mine", "--in-sample"]
    table = call_obygaze(*predict, *chosen).ok().stdout.splitlines()
    assert [line.partition(",")[0] for line in table] == ["clip_id", "a-1", "b-2"]


def test_in_python_a_list_holds_ids_and_a_path_is_a_file(inside):
    Path("a-2").write_text("b-1\n", encoding="utf-8")
    assert len(og.predict("kept", "mine", ["a-2"], in_sample=True)) == 1
    named = og.predict("kept", "mine", Path("ids.txt"), in_sample=True)
    assert list(named.clip_ids) == ["a-1", "b-2"]
    with pytest.raises(NotFound, match="no such file"):
        og.predict("kept", "mine", "none.csv")


def with_speech() -> Manifest:
    """Films of which some sure clips have a concept that is heard and none that is seen."""
    manifest = films(4, 30)
    concepts = {**manifest.header.concepts, "Voice": "audio"}
    clips = []
    for clip in manifest:
        is_heard = clip.level == "S" and clip.clip_id[-1] in "02468"
        clips.append(replace(clip, concepts=("Voice",)) if is_heard else clip)
    header = structs.replace(manifest.header, concepts=concepts)
    return replace(manifest, header=header, clips=tuple(clips))


def test_a_data_set_a_protocol_and_a_training_take_the_same_clips(tmp_path) -> None:
    manifest = with_speech()
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    own = tmp_path / "own.toml"
    own.write_text(
        'schema = "obygaze-protocol/1"\n[tasks.EN_S]\nclasses = { EN = 0, S = 1 }\n'
        '[splits]\nkind = "nested"\n[models.ridge]\nkind = "ridge"\n',
        encoding="utf-8",
    )
    y = og.dataset(store, manifest).y
    for protocol in (quick("honest"), load_protocol(str(own))):
        inputs = gather(protocol, manifest, "", {"s": store})
        assert inputs.protocol.data.view == "visual"
        labels = inputs.labels["EN_S"]
        assert labels[labels >= 0].tolist() == y.tolist()
    n_sure = sum(clip.level == "S" for clip in manifest)
    n_heard = sum(clip.concepts == ("Voice",) for clip in manifest)
    assert (int(y.sum()), n_heard > 0) == (n_sure - n_heard, True)
    assert int(og.dataset(store, manifest, view="raw").y.sum()) == n_sure
