"""One default of the task and of the view, wherever none is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import structs
from support.experiments import films, planted, quick, store_of

import obygaze as og
from obygaze_features.manifest.model import Manifest
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner.inputs import gather


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


def test_a_data_set_a_protocol_and_a_training_take_the_same_clips(
    tmp_path: Path,
) -> None:
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
