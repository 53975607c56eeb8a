"""What a model has seen of the clips of another store: training clips, their films, or neither."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.cli import call_obygaze
from support.experiments import films, planted
from support.stores import a_recipe, made_store

from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import Row, Store
from obygaze_models.models.common import row_hashes
from obygaze_models.models.linear import LogisticProbe
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.training import fit_final, training_protocol
from obygaze_models.zoo import (
    FeatureSpec,
    ModelInfo,
    SavedModel,
    TrainingClips,
    TrainingData,
    predict,
    read_model,
    save_model,
)

IDS = [str(number) for number in range(1, 9)]
# Clips 1 to 4 are of the film alba, the others of brug; each has 5 s.
FILMS = ["alba"] * 4 + ["brug"] * 4
STARTS = [5.0 * number for number in range(4)] * 2
ENDS = [start_s + 5.0 for start_s in STARTS]
HASH = {"alba": 16 * "a", "brug": 16 * "b"}
TRAINED = ClipTable.of(IDS, FILMS, STARTS, ENDS)
X = np.random.default_rng(0).standard_normal((len(IDS), 3)).astype(np.float32)


def saved(folder: Path, clips: ClipTable = TRAINED) -> SavedModel:
    """A model of these clips, all but the last of which have the out-of-fold score .25."""
    probe = LogisticProbe().fit(X, np.arange(len(X)) % 2)
    film_ids = tuple(sorted(set(clips.movie_ids.tolist()) - {""}))
    training = TrainingData(
        "films",
        "0" * 64,
        "raw",
        n_clips=len(X),
        n_films=len(film_ids),
        films=film_ids,
        video_hashes=tuple(HASH[film] for film in film_ids),
    )
    info = ModelInfo(
        name="kept",
        kind="logistic",
        task="EN_S",
        classes=("EN", "S"),
        features=FeatureSpec("toy", "clip", "float32", 3, a_recipe().fingerprint),
        training=training,
    )
    scores = np.full(len(X), 0.25)
    scores[-1] = np.nan
    of_training = TrainingClips(clips, {"p:S": scores, "p:EN": 1 - scores})
    return read_model(
        save_model(probe, info, folder / "models" / "kept", X, clips=of_training)
    )


@pytest.fixture
def model(tmp_path: Path) -> SavedModel:
    return saved(tmp_path)


def store_with(folder, rows, values=None) -> Store:
    if values is None:
        values = np.ones((len(rows), 3), np.float32)
    path = folder / "stores" / "theirs"
    return made_store(path, rows, {"clip": values}, recipe=a_recipe())


def with_features(model: SavedModel, **changes: str) -> SavedModel:
    features = structs.replace(model.info.features, **changes)
    return replace(model, info=structs.replace(model.info, features=features))


def test_other_capitals_than_those_of_the_training_are_refused(tmp_path: Path) -> None:
    names = [f"a-{number}" for number in IDS]
    model = saved(tmp_path, ClipTable.of(names, FILMS, STARTS, ENDS))
    for row, said in (
        (Row("new-1", "ALBA"), "the film 'ALBA' differs only in case from 'alba'"),
        (Row("A-3", "other"), "the clip 'A-3' differs only in case from 'a-3'"),
    ):
        store = store_with(tmp_path / row.clip_id, [row])
        with pytest.raises(FixInput, match=said) as refusal:
            predict(model, store)
        assert "--manifest" in refusal.value.hint


def test_a_copy_of_a_training_clip_is_seen(model: SavedModel, tmp_path: Path) -> None:
    """Under another id and in another film; a clip whose hash is not known is no copy."""
    assert model.clips is not None
    hashes = ["", *row_hashes(X)[1:]]
    kept = replace(model, clips=replace(model.clips, hashes=hashes))
    rows = [Row("new-1", "cirk"), Row("new-2", "cirk"), Row("2", "alba")]
    store = store_with(tmp_path, rows, np.stack([X[0], X[2], X[1]]))
    found = predict(kept, store)
    assert found.basis == ["unseen", "copy", "out-of-fold"]
    (warned,) = (text for text in found.warnings if "same features" in text)
    assert warned.startswith("1 clip with the same features as a training clip")


def test_a_film_that_trained_is_seen_under_any_name(model, tmp_path) -> None:
    """By the hash of its video, also for a clip of the film that has none, or one of its own."""
    rows = [
        Row("new-1", "lake", video_bytes=9, video_hash=HASH["alba"]),
        Row("new-2", "lake"),
        Row("new-3", "lake", video_bytes=9, video_hash=16 * "d"),
        Row("new-4", "cirk", video_bytes=9, video_hash=16 * "c"),
    ]
    found = predict(model, store_with(tmp_path, rows))
    assert found.basis == ["film-seen"] * 3 + ["unseen"]
    # The manifest may call the film otherwise than the store.
    clips = tuple(Clip(row.clip_id, "see") for row in rows[:3])
    unknown = [row._replace(movie_id="") for row in rows[:3]]
    store = store_with(tmp_path / "bare", unknown)
    manifest = Manifest("theirs", Header("Theirs"), clips)
    assert predict(model, store, manifest=manifest).basis == ["film-seen"] * 3


def test_windows_of_a_training_film_are_seen(model: SavedModel, tmp_path: Path) -> None:
    rows = [
        Row(f"{film}_{n}.000-{n + 1}.000", film, float(n), n + 1.0)
        for film in ("alba", "cirk")
        for n in range(3)
    ]
    found = predict(model, store_with(tmp_path, rows))
    assert found.basis == ["film-seen"] * 3 + ["unseen"] * 3


@pytest.mark.parametrize(
    ("length_s", "is_mentioned"), [(0.9, True), (1.0, False), (4.0, False), (5.0, True)]
)
def test_clips_of_another_length_are_mentioned(
    model: SavedModel, tmp_path: Path, length_s: float, is_mentioned: bool
) -> None:
    training = structs.replace(model.info.training, median_s=2.0)
    model = replace(model, info=structs.replace(model.info, training=training))
    rows = [
        Row(f"new-{n}", "new", 10.0 * n, 10.0 * n + length_s + 0.1 * (n - 1))
        for n in range(3)
    ]
    found = predict(model, store_with(tmp_path, rows))
    sentence = (
        "kept was trained on clips of 2 s (median), but these clips have"
        f" {length_s:.3g} s"
    )
    assert (sentence in found.notes) == is_mentioned


def test_features_without_films_need_a_manifest(model, tmp_path) -> None:
    names = ["1", "8", "new-1", "new-2"]
    store = store_with(tmp_path, [Row(name, "") for name in names])
    with pytest.raises(Mismatch) as refused:
        predict(model, store)
    assert refused.value.message == (
        "the films of 4 clips are unknown, and kept may have been trained on other clips of"
        " these films"
    )
    film_of = {"1": "alba", "8": "brug", "new-1": "brug", "new-2": "cirk"}
    clips = tuple(Clip(name, film) for name, film in film_of.items())
    manifest = Manifest("theirs", Header("Theirs"), clips)
    with pytest.warns(match="4 clips of the manifest and the store matched by id only"):
        found = predict(model, store, manifest=manifest, in_sample=True)
    assert found.basis == ["in-sample", "in-sample", "film-seen", "unseen"]
    assert found.films["movie_id"] == list(film_of.values())


def test_a_model_that_was_trained_without_films_never_says_unseen(tmp_path) -> None:
    """Its training clips are known by their ids alone, which is said."""
    model = saved(tmp_path, ClipTable.of(IDS))
    rows = [Row("1", "alba"), Row("2", "alba"), Row("9", "alba"), Row("10", "cirk")]
    store = store_with(tmp_path, rows)
    found = predict(model, store)
    assert found.basis == ["out-of-fold"] * 2 + ["film-unknown"] * 2
    typed = call_obygaze("-C", tmp_path, "models", "predict", "kept", "theirs").ok()
    assert "2 clips matched to training clips only by id" in typed.stderr
    assert "2 clips of possible training films" in typed.stderr
    assert "unseen" not in typed.stdout + typed.stderr
    # In the store of the training, ids are enough.
    assert predict(with_features(model, seal=store.seal), store).n_by_id == 0


DRAWN_CLIPS = st.lists(
    st.tuples(
        st.sampled_from([*IDS[:3], "x", "y"]),
        st.sampled_from(["alba", "brug", "copy", "cirk"]),
        st.sampled_from([None, 0.0, 5.0, 10.0]),
        st.sampled_from(["", HASH["alba"], 16 * "c"]),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda drawn: drawn[0],
)


@given(drawn=DRAWN_CLIPS)
def test_what_was_seen_is_what_plain_loops_say(drawn, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("drawn")
    model = saved(folder)
    rows = []
    contradicts = False
    films_of_files = {film for _, film, _, video in drawn if video == HASH["alba"]}
    expected = []
    for name, film, start_s, video in drawn:
        n_bytes = 9 if video else None
        rows.append(
            Row(name, film, start_s, None, video_bytes=n_bytes, video_hash=video)
        )
        is_seen = film in ("alba", "brug") or film in films_of_files
        basis = "film-seen" if is_seen else "unseen"
        if name in IDS:
            place = IDS.index(name)
            is_other_time = start_s is not None and start_s != STARTS[place]
            contradicts = contradicts or film != FILMS[place] or is_other_time
            basis = "out-of-fold"
        expected.append(basis)
    store = store_with(folder, rows)
    if contradicts:
        with pytest.raises(Mismatch, match="under the same id"):
            predict(model, store)
    else:
        assert predict(model, store).basis == expected


def test_what_is_kept_of_the_training(tmp_path: Path) -> None:
    """Each clip with film and span, the films, their files, and the median length."""
    made = films(4, 20, seed=3)
    clips = []
    rows = []
    for number, clip in enumerate(made):
        clip = replace(clip, end_s=clip.start_s + 1 + number % 3)
        clips.append(clip)
        video = f"{int(clip.movie_id[2:]):016x}"
        row = Row(clip.clip_id, clip.movie_id, video_bytes=9, video_hash=video)
        rows.append(row)
    manifest = made.with_clips(clips)
    store = made_store(tmp_path / "s", rows, {"clip": planted(manifest)})
    last = manifest.clips[-1].movie_id
    changes = [f'data.where=movie_id != "{last}"', "report.replicates=2"]
    protocol = training_protocol("ridge", "ENHN_S", manifest, changes)
    inputs = gather(protocol, manifest, "made-up", {"s": store})
    run = run_protocol(inputs, tmp_path / "run", n_jobs=1)
    model = read_model(fit_final(inputs, run, tmp_path / "model", store=store))
    trained = [clip for clip in clips if clip.movie_id != last and clip.level != "NS"]
    assert model.clips is not None
    kept = model.clips.facts
    assert kept.clip_ids.tolist() == [clip.clip_id for clip in trained]
    assert kept.movie_ids.tolist() == [clip.movie_id for clip in trained]
    assert kept.times[0].tolist() == [clip.start_s for clip in trained]
    assert kept.times[1].tolist() == [clip.end_s for clip in trained]
    training = model.info.training
    assert training.films == tuple(manifest.films[:3])
    assert training.video_hashes == tuple(f"{number:016x}" for number in (1, 2, 3))
    assert training.median_s == 2.0


def test_a_film_that_was_replaced_is_said(model: SavedModel, tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    clips = []
    rows = []
    for film, n_bytes in (("alba", 5), ("brug", 6)):
        (tmp_path / "videos" / f"{film}.mp4").write_bytes(5 * b"x")
        clips.append(Clip(f"{film}-9", film, video=f"{film}.mp4"))
        # Without a hash of the video, its length is compared.
        rows.append(Row(f"{film}-9", film, video_bytes=n_bytes))
    header = Header("Theirs", video_root=str(tmp_path / "videos"))
    manifest = Manifest("theirs", header, tuple(clips))
    found = predict(model, store_with(tmp_path, rows), manifest=manifest)
    said = "were replaced after their features were extracted: brug.mp4;"
    assert said in found.doubts["replaced films"]
    assert found.doubts["replaced films"] in found.warnings
