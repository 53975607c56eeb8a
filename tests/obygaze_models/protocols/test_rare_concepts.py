"""A concept that too few training clips have leaves a bottleneck with a warning."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from support.experiments import films, planted, quick, run_on, store_of

from obygaze_features.core.errors import FixInput, ObygazeWarning
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store
from obygaze_models.protocols.runner.rare_concepts import RareConcepts, rare_concepts
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.training import training_protocol

ONLY = 'grid.models=["pcbm-lr"]'
FAST = ["report.compare=false", "report.contrast=[]", "report.concepts=false"]


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


def test_concepts_that_leave_a_bottleneck_are_counted_by_fold(
    manifest: Manifest, store: Store
) -> None:
    inputs = gather(quick("honest", ONLY), manifest, "", {"s": store})
    rare = rare_concepts(inputs.context(inputs.features[0]))
    assert rare is not None
    assert rare.n_folds == 5
    # Without the first or the last film one clip with Look is left, and without the first one of
    # Body; the other clips that are sure lack them.
    assert sorted(n for n, _ in rare.counts["Look"]) == [1, 1, 2, 2, 2]
    assert [n for n, _ in rare.counts["Body"]] == [1]
    assert set(rare.counts) == {"Look", "Body"}
    assert "Look (1 to 2 clips with it, in 5 of 5 folds)" in str(rare)
    assert "Body (1 clip with it, in 1 of 5 folds)" in str(rare)


def test_a_run_warns_and_its_record_says_it(
    tmp_path: Path, manifest: Manifest, store: Store
) -> None:
    with pytest.warns(ObygazeWarning, match=r"Look \(1 to 2 clips") as caught:
        run = run_on(
            tmp_path, quick("honest", ONLY, *FAST, replicates=5), manifest, {"s": store}
        )
    (remark,) = [r for r in run.of("remark") if r["about"] == "rare concepts"]
    assert remark["text"] in [str(warning.message) for warning in caught]
    assert remark["cells"] == 6


def test_without_a_bottleneck_or_a_rare_concept_there_is_no_word(
    tmp_path: Path, manifest: Manifest, store: Store
) -> None:
    ridge = gather(quick("honest", 'grid.models=["ridge"]'), manifest, "", {"s": store})
    assert rare_concepts(ridge.context(ridge.features[0])) is None
    common = films(5, 40)
    other = store_of(tmp_path / "o", common, planted(common))
    inputs = gather(quick("honest", ONLY), common, "", {"o": other})
    assert rare_concepts(inputs.context(inputs.features[0])) is None


def test_concepts_that_too_few_clips_lack_are_named_too() -> None:
    rare = RareConcepts("s", 1, 3, {"Look": [(90, 2), (80, 2)]})
    assert "Look (2 clips without it, in 2 of 3 folds)" in str(rare)


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


def test_a_run_without_concepts_says_which_models_need_none(tmp_path: Path) -> None:
    bare = [replace(clip, concepts=()) for clip in films(5, 40)]
    manifest = films(5, 40).with_clips(bare)
    stores = {"s": store_of(tmp_path / "s", manifest, planted(manifest))}
    raw = quick("honest", "data.view=raw", *FAST)
    with pytest.raises(FixInput, match="no concept has 3 training clips") as caught:
        run_on(tmp_path, raw, manifest, stores)
    setting = 'grid.models=["ridge", "mlp"]'
    assert f"--set '{setting}' runs without such models" in (caught.value.hint or "")
    run = run_on(
        tmp_path, quick("honest", "data.view=raw", setting, *FAST), manifest, stores
    )
    assert {cell["model"] for cell in run.cells} == {"ridge", "mlp"}


def test_a_concept_that_the_manifest_never_uses_is_no_warning(
    manifest: Manifest, tmp_path: Path
) -> None:
    """Of a table of one's own, the other concepts of the vocabulary were named at every run."""
    clips = [
        replace(clip, concepts=tuple(name for name in clip.concepts if name != "Body"))
        for clip in manifest
    ]
    without = replace(manifest, clips=tuple(clips))
    store = store_of(tmp_path / "without", without, planted(without))
    inputs = gather(quick("honest", ONLY), without, "", {"s": store})
    rare = rare_concepts(inputs.context(inputs.features[0]))
    assert rare is not None
    assert "Look" in rare.counts
    assert "Body" not in rare.counts
