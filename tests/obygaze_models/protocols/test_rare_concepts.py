"""A concept that too few training clips have leaves a bottleneck with a warning."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from support.experiments import TOLERANCES, films, planted, quick, run_on, store_of
from support.tables import models

from obygaze_features.core.errors import FixInput, ObygazeWarning
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store
from obygaze_models.runner.concepts import rare_concepts
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.limits import limits_of
from obygaze_models.runner.store_run import store_runs
from obygaze_models.runner.training import training_protocol

ONLY = 'grid.models=["pcbm-lr"]'
FAST = [
    *("report.compare=false", "report.contrast=[]", "report.concepts=false"),
    *TOLERANCES,
]


def with_two_rare_concepts() -> Manifest:
    """Five films; Look is in a clip of the first and of the last, Body in three and one."""
    manifest = films(5, 40)
    clips = []
    for clip in manifest:
        common = tuple(name for name in clip.concepts if name not in ("Look", "Body"))
        clips.append(replace(clip, concepts=common))
    rows = {
        film: [
            i
            for i, clip in enumerate(clips)
            if clip.movie_id == film and clip.level == "S"
        ]
        for film in ("tt0000001", "tt0000005")
    }
    first = rows["tt0000001"]
    last = rows["tt0000005"]
    for name, chosen in (
        ("Look", [first[0], last[0]]),
        ("Body", [*first[1:4], last[1]]),
    ):
        for row in chosen:
            clips[row] = replace(clips[row], concepts=(*clips[row].concepts, name))
    return replace(manifest, clips=tuple(clips))


@pytest.fixture
def manifest() -> Manifest:
    return with_two_rare_concepts()


@pytest.fixture
def store(tmp_path: Path, manifest: Manifest) -> Store:
    return store_of(tmp_path / "s", manifest, planted(manifest))


def rare_on(
    store: Store, manifest: Manifest, *changes: str
) -> dict[str, dict[str, int]]:
    """The rare concepts of a protocol on a store."""
    inputs = gather(quick("honest", *changes), manifest, "", {"s": store})
    (run,) = store_runs(inputs)
    return rare_concepts(run)


def test_concepts_that_leave_a_bottleneck_are_counted_by_fold(
    manifest: Manifest, store: Store
) -> None:
    # Without the first or the last film one clip with Look is left, and without the first one of
    # Body; the other clips that are sure lack them.
    assert rare_on(store, manifest, ONLY) == {
        "Look": {"folds": 5, "of": 5, "least": 1},
        "Body": {"folds": 1, "of": 5, "least": 1},
    }


def test_a_run_says_it(tmp_path: Path, manifest: Manifest, store: Store) -> None:
    run = run_on(
        tmp_path, quick("honest", ONLY, *FAST, replicates=5), manifest, {"s": store}
    )
    (said,) = [w.text for w in limits_of(run) if w.name == "rare concepts"]
    assert "Look (down to 1 clip, in 5 of 5 folds)" in said
    assert "Body (down to 1 clip, in 1 of 5 folds)" in said


def test_without_a_bottleneck_or_a_rare_concept_there_is_no_word(
    tmp_path: Path, manifest: Manifest, store: Store
) -> None:
    assert rare_on(store, manifest, 'grid.models=["ridge"]') == {}
    common = films(5, 40)
    other = store_of(tmp_path / "o", common, planted(common))
    assert rare_on(other, common, ONLY) == {}


def test_training_concept_vectors_names_those_without_a_task(
    manifest: Manifest,
) -> None:
    with pytest.warns(ObygazeWarning, match=r"Look \(2 clips of 2 films\)"):
        protocol = training_protocol("cav", "EN_S", manifest)
    assert "Look" not in protocol.tasks
    assert "Body" in protocol.tasks
    note, note_on_levels = protocol.report.notes
    assert "Look (2 clips of 2 films)" in note
    n_not_sure = sum(clip.level == "NS" for clip in manifest)
    assert note_on_levels.startswith(f"{n_not_sure} clips of other levels than EN")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (note,) = training_protocol("cav", "EN_S", films(5, 40)).report.notes
        assert "of other levels" in note


@pytest.mark.parametrize("asked", [("data.view=raw",), ("data.view=visual",)])
def test_a_run_names_concepts_of_which_no_vector_is_found(
    asked: tuple[str, ...], manifest: Manifest, tmp_path: Path
) -> None:
    """Voice had no row in concepts.csv, and no line said why."""
    clips = []
    for number, clip in enumerate(manifest):
        names = (*clip.concepts, "Voice") if number < 5 else clip.concepts
        clips.append(replace(clip, concepts=names))
    own = manifest.with_clips(clips)
    n_clips = sum("Voice" in clip.concepts for clip in own)
    stores = {"s": store_of(tmp_path / "s", own, planted(own))}
    for models_asked in ('["pcbm-lr"]', '["ridge"]'):
        protocol = quick("honest", *asked, f"grid.models={models_asked}")
        remarks = gather(protocol, own, "made-up", stores).table.remarks
        is_named = asked == ("data.view=raw",) and "pcbm-lr" in models_asked
        assert ("no vector" in remarks) is is_named
        if is_named:
            assert f"not visual: Voice ({n_clips} clips)." in remarks["no vector"]


def test_a_concept_of_clips_that_are_not_sure_has_no_vector(manifest: Manifest) -> None:
    """A vector is found from HN and S clips: those of NS do not count."""
    clips = []
    for clip in manifest:
        names = tuple(name for name in clip.concepts if name != "Look")
        if clip.level == "NS":
            names = (*names, "Look")
        clips.append(replace(clip, concepts=names))
    assert sum(clip.level == "NS" for clip in clips) > 3
    with pytest.warns(ObygazeWarning, match=r"Look \(0 clips of 0 films\)"):
        protocol = training_protocol("cav", "EN_S", manifest.with_clips(clips))
    assert "Look" not in protocol.tasks


def test_a_run_of_rare_concepts_says_which_models_need_none(tmp_path: Path) -> None:
    """Without any concept such models are left out; too few clips of all of them are said."""
    bare = [replace(clip, concepts=()) for clip in films(5, 40)]
    place = next(number for number, clip in enumerate(bare) if clip.level == "S")
    bare[place] = replace(bare[place], concepts=("Look",))
    manifest = films(5, 40).with_clips(bare)
    stores = {"s": store_of(tmp_path / "s", manifest, planted(manifest))}
    raw = quick("honest", "data.view=raw", *FAST)
    with pytest.raises(FixInput, match="no concept has 3 training clips") as caught:
        run_on(tmp_path, raw, manifest, stores)
    setting = 'grid.models=["ridge", "mlp"]'
    assert "or other models (grid.models)" in (caught.value.hint or "")
    run = run_on(
        tmp_path, quick("honest", "data.view=raw", setting, *FAST), manifest, stores
    )
    assert {cell.model for cell in models(run)} == {"ridge", "mlp"}
