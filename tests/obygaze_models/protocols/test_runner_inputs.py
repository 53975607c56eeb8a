"""Input that is not as it should be, and what a run leaves on disk."""

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from support.experiments import (
    films,
    planted,
    quick,
    run_on,
    store_of,
    with_folds,
    without_models,
)
from support.kills import kill_everywhere
from support.run_tables import (
    MadeCell,
    clips_of,
    made_run,
    scores_for,
    table_of,
    write_run_json,
)
from support.seeds import SEED, amount
from support.stores import made_store

from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
)
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Row
from obygaze_models.protocols.schema import Protocol
from obygaze_models.runner.experiments import resolve_manifest
from obygaze_models.runner.features import NOT_FINITE
from obygaze_models.runner.files import RUN_FORMAT, write_run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.limits import find_limits
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.text import read_run

NOTHING = (
    "no baseline can be computed: neighbour needs the scene or the times of each clip"
)
RIDGE = ('grid.models=["ridge"]', 'grid.baselines=["prevalence"]')
SHORT = ("models.mlp.max_epochs=2", "models.mlp.min_epochs=1")
ONE_PAIR = ('grid.train=["EN_S"]', 'grid.test=["EN_S"]')
WITHOUT_ROWS = {name: table_of(name, []) for name in ("predictions.csv", "results.csv")}


@pytest.fixture
def manifest() -> Manifest:
    return films(5, 24)


class TestMissing:
    def test_rows_that_float32_cannot_hold_are_listed_never_used(
        self, manifest, tmp_path
    ):
        X = planted(manifest).astype(np.float64)
        rows = [Row(clip.clip_id, clip.movie_id) for clip in manifest]
        X[[5, 9], 2] = 1e300
        protocol = quick("honest-negatives", *RIDGE)
        store = made_store(tmp_path / "s", rows, {"clip": X})
        (features,) = gather(protocol, manifest, "", {"x": store}).stores
        bad = [manifest.clip_ids[5], manifest.clip_ids[9]]
        assert dict(features.missing) == dict.fromkeys(bad, NOT_FINITE)
        assert np.isfinite(features.X).all()
        assert not features.present[[5, 9]].any()
        store = made_store(tmp_path / "all", rows, {"clip": np.full_like(X, 1e300)})
        with pytest.raises(FixInput, match="NaN or infinity as float32"):
            gather(protocol, manifest, "", {"x": store})

    def test_another_data_set(self, manifest: Manifest, tmp_path: Path) -> None:
        """It is said before anything of the labels: a wrong manifest may have none."""
        clips = [replace(c, clip_id=f"x{c.clip_id}") for c in manifest]
        store = store_of(tmp_path / "s", manifest.with_clips(clips), planted(manifest))
        clips = [replace(c, level="", concepts=()) for c in manifest]
        manifest = manifest.with_clips(clips)
        with pytest.raises(
            NotFound, match="none of the 120 clips of the manifest has features in this"
        ) as error:
            run_on(tmp_path, quick("honest-negatives", *RIDGE), manifest, {"x": store})
        assert f"store import FILE --manifest {manifest.name}" in str(error.value.hint)

    def test_what_names_no_store_and_no_manifest(self, manifest, tmp_path):
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        protocol = quick("honest-negatives", *RIDGE, "features.other.array=clip")
        with pytest.raises(FixUsage, match="no store of this run has the name 'other'"):
            gather(protocol, manifest, "", {"x": store})
        with pytest.raises(FixUsage, match="expected the name of a manifest"):
            resolve_manifest(None, tmp_path)

    def test_models_without_a_store(self, manifest: Manifest) -> None:
        with pytest.raises(FixUsage, match="models need features"):
            gather(quick("honest-negatives"), manifest, "", {})


class TestOnDisk:
    @pytest.fixture
    def protocol(self) -> Protocol:
        return quick(
            "honest-negatives", 'grid.models=["ridge", "mlp"]', *ONE_PAIR, *SHORT
        )

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """The folder of a run of two models."""
        clips = clips_of()
        cells = [MadeCell("ridge", clips, scores_for(clips, 1.0, 1))]
        cells.append(MadeCell("mlp", clips, scores_for(clips, 0.5, 2)))
        return made_run(tmp_path / "made", cells).folder

    def test_a_run_without_checksums_is_refused(self, folder: Path) -> None:
        about = json.loads((folder / "run.json").read_bytes())
        files = {**about["files"], "predictions.csv": 0.5}  # not even text
        write_run_json(folder, {**about, "files": files})
        with pytest.raises(Corrupt, match=r"predictions\.csv was changed"):
            _ = read_run(folder).predictions
        del about["files"]
        write_run_json(folder, about)
        with pytest.raises(Mismatch, match="not a run of format"):
            read_run(folder)

    def test_the_same_inputs_give_the_same_bytes(self, manifest, protocol, tmp_path):
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        inputs = gather(protocol, manifest, "", {"x": store})
        folders = [tmp_path / "a", tmp_path / "b"]
        for folder, n_jobs in zip(folders, (1, 2), strict=True):
            run_protocol(inputs, folder, n_jobs=n_jobs)
        for file in ("results.csv", "predictions.csv", "concepts.csv", "trees.csv"):
            assert (folders[0] / file).read_bytes() == (folders[1] / file).read_bytes()

    def test_a_kill_at_any_instant_leaves_the_old_run_or_the_new_one(self, tmp_path):
        folder = tmp_path / "a"
        about = {"format": RUN_FORMAT, "created_by": "obygaze 1", "identity": "x"}
        seen = set[str]()

        def write(word: str) -> None:
            rows = {
                "predictions.csv": {"clip_id": word, "seed": 0, "y": 0, "n_seen": 1},
                "results.csv": {"task": word, "metric": "ap", "value": 0.5},
            }
            tables = {name: table_of(name, [row]) for name, row in rows.items()}
            write_run(folder, {**about, "name": word}, tables)

        def look() -> None:
            run = read_run(folder)
            word = run.about["name"]
            assert [*run.results["task"]] == [word]
            assert [*run.predictions["clip_id"]] == [word]
            assert (folder / "audits" / "mine.json").read_text() == "years"
            seen.add(word)
            write("old")
            # What a killed process was writing has a hidden name.
            assert [path.name for path in tmp_path.glob("[!.]*")] == ["a"]

        write("old")
        (folder / "audits").mkdir()
        (folder / "audits" / "mine.json").write_text("years")
        every = amount(12, 1)
        assert kill_everywhere(lambda: write("new"), look, every) >= 10 / every
        assert seen == {"old", "new"}

    def test_a_run_that_another_process_made_meanwhile_is_replaced_only_by_force(
        self, tmp_path
    ):
        about = {"format": RUN_FORMAT, "created_by": "obygaze 1", "files": {}}
        first, second = ({**about, "identity": name} for name in ("first", "second"))
        write_run(tmp_path / "a", first, WITHOUT_ROWS)
        with pytest.raises(AlreadyThere, match="a run with this name exists"):
            write_run(tmp_path / "a", second, WITHOUT_ROWS)
        assert read_run(tmp_path / "a").about["identity"] == "first"
        write_run(tmp_path / "a", second, WITHOUT_ROWS, force=True)
        assert read_run(tmp_path / "a").about["identity"] == "second"
        assert [path.name for path in tmp_path.iterdir()] == ["a"]

    def test_no_run_replaces_what_a_person_added_to_another_one(self, tmp_path) -> None:
        added = "audits/scores.csv"
        about = {"format": RUN_FORMAT, "created_by": "obygaze 1", "files": {}}
        first, second = ({**about, "identity": name} for name in ("first", "second"))
        folder = tmp_path / "a"
        write_run(folder, first, WITHOUT_ROWS)
        of_report = ("report.html", "tables/errors.csv", "figures/films.svg")
        of_report += ("reports.html",)
        for name in (*of_report, added):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("mine")
        with pytest.raises(
            AlreadyThere, match=f"it contains '{added}', which obygaze did not write"
        ):
            write_run(folder, second, WITHOUT_ROWS, force=True)
        write_run(folder, first, WITHOUT_ROWS)
        assert read_run(folder).about["identity"] == "first"
        assert (folder / added).read_text() == "mine"
        (folder / added).unlink()
        write_run(folder, second, WITHOUT_ROWS, force=True)
        assert {path.name for path in folder.iterdir()} == {"run.json", *WITHOUT_ROWS}

    def test_a_report_of_other_numbers_is_removed(self, tmp_path: Path) -> None:
        """A repeated run may have other numbers: user code may draw them without a seed."""
        about = {"format": RUN_FORMAT, "created_by": "obygaze 1", "identity": "one"}
        folder = tmp_path / "a"
        write_run(folder, about, WITHOUT_ROWS)
        for name in ("report.html", "notes.txt"):
            (folder / name).write_text("mine")
        write_run(folder, about, WITHOUT_ROWS)
        assert (folder / "report.html").is_file()
        name, table = next(iter(WITHOUT_ROWS.items()))
        write_run(
            folder, about, {**WITHOUT_ROWS, name: table.rename(columns=str.upper)}
        )
        assert not (folder / "report.html").exists()
        assert (folder / "notes.txt").read_text() == "mine"

    def test_a_folder_that_is_not_a_run_is_not_written_into(
        self, manifest, protocol, tmp_path
    ):
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        inputs = gather(protocol, manifest, "", {"x": store})
        (tmp_path / "a").mkdir()
        (tmp_path / "a/thesis.txt").write_text("years")
        with pytest.raises(AlreadyThere, match="not an obygaze run"):
            run_protocol(inputs, tmp_path / "a", n_jobs=1, force=True)
        assert [path.name for path in (tmp_path / "a").iterdir()] == ["thesis.txt"]
        assert (tmp_path / "a/thesis.txt").read_text() == "years"

    def test_what_is_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match="expected a finished run"):
            read_run(tmp_path)
        (tmp_path / "run.json").write_text("{", encoding="utf-8")
        with pytest.raises(Corrupt, match="not valid JSON"):
            read_run(tmp_path)
        (tmp_path / "run.json").write_text(
            '{"format": "obygaze-run/9"}', encoding="utf-8"
        )
        with pytest.raises(Mismatch, match="obygaze-run/3"):
            read_run(tmp_path)

    def test_a_changed_file_of_a_run_is_an_error(self, folder: Path) -> None:
        for name in ("results.csv", "predictions.csv"):
            whole = (folder / name).read_bytes()
            assert len(read_run(folder).table(name))
            # A digit of a value: still valid JSON, and a valid table.
            changed = bytearray(whole)
            changed[whole.index(b"0.", len(whole) // 2) + 2] ^= 1
            (folder / name).write_bytes(changed)
            with pytest.raises(Corrupt, match=f"{name} was changed after the run"):
                assert len(read_run(folder).table(name))
            (folder / name).write_bytes(whole)

    def test_a_changed_bit_of_run_json_is_an_error(self, folder: Path) -> None:
        path = folder / "run.json"
        whole = path.read_bytes()
        before = read_run(folder).about
        # Without the last lines, which have the checksum.
        n_bits = 8 * whole.rindex(b'"sha256"')
        for bit in random.Random(SEED).sample(range(n_bits), amount(60, 400)):
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            try:
                about = read_run(folder).about
            except (Corrupt, Mismatch):
                continue
            # A blank between values may become another one.
            assert about == before


def test_features_of_no_clip_with_a_video_are_refused_before_anything_is_fitted(
    tmp_path,
):
    manifest = with_folds(films(4, 20))
    without = set(manifest.clip_ids[::2])
    clips = []
    for clip in manifest:
        video = "" if clip.clip_id in without else f"{clip.clip_id}.mp4"
        clips.append(replace(clip, video=video))
    manifest = manifest.with_clips(clips)
    of_others = manifest.with_clips([c for c in clips if c.clip_id in without])
    store = store_of(tmp_path / "s", of_others, planted(of_others))
    protocol = quick("paper-pcbm", "data.view=raw")
    with pytest.raises(FixInput, match="none of the 40 usable clips has"):
        run_on(tmp_path, protocol, manifest, {"x": store})


def test_a_film_that_was_replaced_after_the_extraction_is_a_limit(
    manifest, tmp_path
) -> None:
    """The sentence is that of `models predict`; a film whose file is away is not named."""
    present, changed, *_ = manifest.films
    clips = [replace(c, video=f"{c.movie_id}.mp4") for c in manifest]
    header = structs.replace(manifest.header, video_root=str(tmp_path))
    manifest = replace(manifest.with_clips(clips), header=header)
    for film, n_bytes in ((present, 9), (changed, 10)):
        (tmp_path / f"{film}.mp4").write_bytes(n_bytes * b"x")
    rows = []
    for clip in manifest:
        rows.append(Row(clip.clip_id, clip.movie_id, video_bytes=9))
    store = made_store(tmp_path / "s", rows, {"clip": planted(manifest)})
    run = run_on(
        tmp_path, quick("honest-negatives", *RIDGE, *ONE_PAIR), manifest, {"x": store}
    )
    (limit,) = [one for one in find_limits(run) if one.name == "replaced films"]
    assert limit.text == (
        "The files of these videos were replaced after their features were extracted:"
        f" {changed}.mp4; obygaze extract plan {manifest.name} -b BACKBONE shows what to"
        " do."
    )
    assert f"! {limit.text}\n" in str(run)


def test_a_run_whose_only_baselines_cannot_be_computed_is_an_error(tmp_path) -> None:
    clips = []
    for clip in films(3, 12):
        clips.append(replace(clip, scene=None, start_s=None, end_s=None, concepts=()))
    manifest = films(3, 12).with_clips(clips)
    names = ("neighbour", "oracle")
    protocol = without_models(quick("honest-negatives", "data.view=raw"), *names)
    with pytest.raises(FixInput, match=NOTHING):
        run_on(tmp_path, protocol, manifest, {})
    # Beside a model, a listed baseline that is missing is named.
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    for listed, said in ((f"{list(names)}", names), ('["random"]', ())):
        changes = (f"grid.baselines={listed}", 'grid.models=["ridge"]', *ONE_PAIR)
        protocol = quick("honest-negatives", "data.view=raw", *changes, replicates=2)
        remarks = run_on(tmp_path, protocol, manifest, {"x": store}).about["remarks"]
        assert [name for name in names if name in remarks.get("baselines", "")] == [
            *said
        ]


def test_a_feature_that_is_the_label_is_refused(tmp_path: Path) -> None:
    manifest = films(5, 24)
    X = planted(manifest, strength=0.0)
    is_sure = np.array([clip.level == "S" for clip in manifest])
    X[:, 3] = np.where(is_sure, -1.0, 1.0)
    store = store_of(tmp_path / "s", manifest, X)
    protocol = quick("honest-negatives", *RIDGE, *ONE_PAIR, "data.view=raw")
    with pytest.raises(
        FixInput, match=r"feature 3 of x is the label of EN_S: .* clips"
    ):
        gather(protocol, manifest, "", {"x": store})
    # One clip of another value: it is a feature, and a good one.
    wrong = int(np.flatnonzero(is_sure)[0])
    X[wrong, 3] = 1.0
    store = store_of(tmp_path / "t", manifest, X)
    assert len(gather(protocol, manifest, "", {"x": store}).stores) == 1
