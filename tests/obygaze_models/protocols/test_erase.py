"""`obygaze erase`: what is left of planted concepts, and that no tested film was learnt from."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.cli import call_obygaze
from support.experiments import (
    ONE_PAIR,
    films,
    planted,
    quick,
    run_on,
    store_of,
    write_workspace,
)

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store, open_store
from obygaze_features.store.read.describe import explain
from obygaze_models.models.erasure import Leace
from obygaze_models.protocols.erasing import erase
from obygaze_models.protocols.erasure_report import (
    ClipsToErase,
    ErasureReport,
    _test_film,
    over_films,
    read_clips,
)
from obygaze_models.protocols.experiments import train
from obygaze_models.protocols.results.whole_run import Remark
from obygaze_models.protocols.runner.table import result_text

FAILED = "tt0000001-003"


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return films(8, 100, seed=3)


@pytest.fixture(scope="module")
def X(manifest: Manifest) -> NDArray[np.float32]:
    return planted(manifest, width=12, strength=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("erase")


@pytest.fixture(scope="module")
def store(folder: Path, manifest: Manifest, X: NDArray[np.float32]) -> Store:
    return store_of(folder / "store", manifest, X, failed=[FAILED])


@pytest.fixture(scope="module")
def report(folder: Path, manifest: Manifest, store: Store) -> ErasureReport:
    return erase(store, manifest, "Look", output=folder / "erased", n_jobs=1)


@pytest.fixture(scope="module")
def data(manifest: Manifest, store: Store) -> ClipsToErase:
    return read_clips(store, manifest, ["Look"], "EN_S", "leace", None, None)


def test_a_linear_probe_loses_the_concept_and_nothing_else(
    report: ErasureReport,
) -> None:
    look = report.of("Look")
    assert look.before.low is not None and look.before.low > 0.95
    assert look.after.value == 0.5
    old = look.old_probe
    assert old is not None and old.low is not None and old.high is not None
    assert old.low < 0.5 < old.high
    assert old.high - old.low < 0.2
    assert look.new_probe is not None and look.new_probe.value < 0.6
    others = [target for target in report.targets if target.role == "concept"]
    assert len(others) == 7
    for other in others:
        assert other.before.value > 0.95
        assert abs(other.lost.value) <= 0.01
        assert other.old_probe is None
        assert other.new_probe is None
    task = report.of("EN_S")
    assert task.lost.value == pytest.approx(task.before.value - task.after.value)


def test_the_perceptron_is_beside_it(report: ErasureReport) -> None:
    look = report.of("Look", "perceptron")
    assert look.before.value > 0.95
    assert look.after.low is not None and look.after.high is not None
    assert look.after.low < look.after.value < look.after.high
    assert look.new_probe is not None


def test_the_labels_of_a_tested_film_are_read_by_its_test_alone(
    data: ClipsToErase,
) -> None:
    """Where all labels of the film are exchanged, each AUC becomes one minus itself."""
    film = data.film_names[2]
    inside = data.films == film
    exchanged = {}
    for name, target in data.targets.items():
        changed = target.copy()
        has_label = inside & (target >= 0)
        changed[has_label] = 1 - target[has_label]
        exchanged[name] = changed
    aucs = _test_film(data, film)
    mirrored = _test_film(replace(data, targets=exchanged), film)
    assert {key.features for key in aucs} == {"before", "after", "old", "new"}
    expected = {key: 1 - auc for key, auc in aucs.items()}
    assert mirrored == pytest.approx(expected, abs=1e-9)


def test_what_is_not_linear_stays(folder: Path, manifest: Manifest) -> None:
    """A concept that widens one feature has no class means to remove: a perceptron reads it."""
    rng = np.random.default_rng(0)
    has = np.array(["Look" in clip.concepts for clip in manifest])
    noise = rng.normal(size=(len(manifest), 6))
    noise[has, 0] *= 6
    wide = store_of(folder / "wide", manifest, noise)
    found = erase(wide, manifest, "Look", n_jobs=1)
    assert found.of("Look").after.value == 0.5
    assert found.of("Look", "perceptron").after.value > 0.75
    new_probe = found.of("Look", "perceptron").new_probe
    assert new_probe is not None and new_probe.value > 0.7


def test_the_value_over_films_counts_pairs_of_clips() -> None:
    values = np.array([0.6, 0.9, np.nan, 0.7])
    weights = np.array([10.0, 30.0, 50.0, 20.0])
    auc = over_films(values, weights)
    assert auc.value == pytest.approx((6 + 27 + 14) / 60)
    assert auc.n_films == 3
    assert auc.low is not None and auc.high is not None
    assert 0 < auc.low < auc.value < auc.high < 1
    equal = over_films(np.full(4, 0.5), weights)
    assert (equal.value, equal.low, equal.high) == (0.5, None, None)
    assert over_films(np.full(4, np.nan), weights).n_films == 0


def test_the_store_of_erased_features(
    folder: Path,
    manifest: Manifest,
    X: NDArray[np.float32],
    store: Store,
    report: ErasureReport,
) -> None:
    erased = open_store(folder / "erased")
    ids = [clip.clip_id for clip in manifest if clip.clip_id != FAILED]
    rows = np.array([manifest.clip_ids.index(clip) for clip in ids])
    is_sure = np.array([manifest[clip].level != "NS" for clip in ids])
    has_look = np.array(["Look" in manifest[clip].concepts for clip in ids])
    eraser = Leace().fit(X[rows][is_sure], has_look[is_sure])
    expected = eraser.transform(X[rows])
    np.testing.assert_allclose(
        erased.matrix("clip", clips=ids).values, expected, atol=1e-5
    )
    assert erased.sealed
    assert erased.terms == store.terms
    _, reasons = erased.presence("clip", [FAILED])
    _, reasons_before = store.presence("clip", [FAILED])
    assert reasons and reasons == reasons_before
    about = erased.recipe.to_json()
    assert about.pop("erased") == {
        "concepts": ["Look"],
        "eraser": "leace",
        "array": "clip",
        "source": {"store": "store", "fingerprint": store.fingerprint},
        "fitted_on": {
            "manifest": "made-up",
            "n_clips": int(is_sure.sum()),
            "n_films": 8,
            "films": list(manifest.films),
        },
    }
    assert about == store.recipe.to_json()
    assert erased.recipe.title == f"{store.recipe.title} without Look"
    assert report.written is not None
    assert report.written.path == str(folder / "erased")
    assert "fitted on all films" in str(report)


def test_what_cannot_be_erased_is_an_error(
    folder: Path, manifest: Manifest, store: Store
) -> None:
    with pytest.raises(FixUsage, match="no concept to erase"):
        erase(store, manifest)
    with pytest.raises(FixInput, match="unknown concept 'Lok'"):
        erase(store, manifest, "Lok")
    with pytest.raises(FixUsage, match="unknown task 'EN_X'"):
        erase(store, manifest, "Look", task="EN_X")
    without_look = []
    for clip in manifest:
        concepts = tuple(name for name in clip.concepts if name != "Look")
        without_look.append(replace(clip, concepts=concepts))
    unmarked = replace(manifest, clips=tuple(without_look))
    with pytest.raises(FixInput, match="'Look' cannot be erased: 0 clips with it"):
        erase(store, unmarked, "Look")
    two = replace(manifest, clips=manifest.clips[:200])
    with pytest.raises(FixInput, match="2 films with features, but a test needs 3"):
        erase(store, two, "Look")


def test_the_command(tmp_path: Path) -> None:
    manifest = films(4, 40, seed=1)
    write_workspace(tmp_path, manifest, planted(manifest, width=12, strength=3))
    words = ["-C", tmp_path, "erase", "sig", "made-up", "Look", "Body"]
    done = call_obygaze(*words, "--eraser", "mean", "-o", "without", "--jobs", "1")
    assert done.code == 0, done.stderr
    assert "erased Look, Body (mean) from the array clip" in done.stdout
    assert "what is not linear" in done.stdout
    assert "not honest" in done.stderr
    as_json = json.loads(call_obygaze(*words, "--jobs", "1", "--json").stdout)
    by_name = {
        (target["name"], target["probe"]): target for target in as_json["targets"]
    }
    assert by_name["Body", "linear"]["after"]["value"] == 0.5
    assert as_json["written"] is None


@pytest.mark.check("whole runs")
def test_a_run_warns_that_the_eraser_has_seen_the_films_it_tests(
    tmp_path: Path, manifest: Manifest, X: NDArray[np.float32], store: Store
) -> None:
    """It said nothing, and neither did the store nor the card of a model."""
    some = manifest.with_clips(
        [clip for clip in manifest if clip.movie_id <= "tt0000005"]
    )
    erase(store, some, "Look", output=tmp_path / "once", n_jobs=1)
    once = open_store(tmp_path / "once")
    fitted = f"of 5 films of the manifest '{manifest.name}'"
    explained = explain(once.plan)
    assert "Erased from the features of the store 'store': Look." in explained
    assert fitted in explained
    erase(once, some, "Body", output=tmp_path / "twice", n_jobs=1)
    twice = open_store(tmp_path / "twice")
    assert twice.recipe.erased_concepts == ["Look", "Body"]
    assert twice.recipe.title.endswith("without Look, Body")
    # Other labels of the same clips: the store that is there keeps the eraser of the first ones.
    again = erase(once, some, "Body", output=tmp_path / "twice", n_jobs=1)
    assert "twice was there before, with " in again.warnings[0]
    assert "nothing was copied" in again.warnings[0]
    changes = ('grid.models=["ridge"]', *ONE_PAIR[:2])
    run = run_on(tmp_path, quick("honest", *changes), manifest, {"x": twice})
    texts = [record.text for record in run.of(Remark) if record.about == "erased"]
    assert len(texts) == 2
    assert "have lost Look by" in texts[0] and fitted in texts[0]
    assert "5 of the 8 films that this run tests are among them" in texts[0]
    assert 'data.erase = ["Body"]' in texts[1] and "(the store once)" in texts[1]
    assert texts[0] in result_text(run)
    others = manifest.with_clips(
        [clip for clip in manifest if clip.movie_id > "tt0000005"]
    )
    unseen = run_on(tmp_path, quick("honest", *changes), others, {"x": once})
    assert "erased" not in [record.about for record in unseen.of(Remark)]
    fixed = ("splits.kind=fixed", "splits.column=movie_id", 'splits.test=["tt0000008"]')
    other_film = run_on(
        tmp_path, quick("honest", *changes, *fixed), manifest, {"x": once}
    )
    assert "erased" not in [record.about for record in other_film.of(Remark)]
    trained = train(
        "ridge", once, manifest, output="kept", n_jobs=1, workspace=tmp_path
    )
    notes = trained.model.info.notes
    assert "have lost Look by" in notes[-1]
