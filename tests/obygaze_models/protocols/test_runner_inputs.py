"""Input that is not as it should be, and what a run leaves on disk."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.cells import with_folds
from support.experiments import (
    films,
    planted,
    quick,
    run_on,
    store_of,
    without_models,
)
from support.kills import kill_everywhere
from support.run_tables import table_of, write_run_json
from support.seeds import SEED, amount
from support.stores import a_recipe, made_store
from support.tables import (
    baselines,
    fit_of,
    models,
    names_of,
    of_films,
    rows_of,
    the_cell,
)

from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
)
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Recipe, Row
from obygaze_models.protocols.schema import Data, Protocol
from obygaze_models.protocols.tasks import with_tasks
from obygaze_models.runner.features import NOT_FINITE, choose_array, read_store
from obygaze_models.runner.files import RUN_FORMAT, write_run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.limits import limits_of
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.text import read_run

NOTHING = (
    "no baseline can be computed: neighbour needs the scene or the times of each clip"
)
RIDGE = ('grid.models=["ridge"]', 'grid.baselines=["prevalence"]')
ONE_PAIR = ('grid.train=["EN_S"]', 'grid.test=["EN_S"]')
WITHOUT_ROWS = {name: table_of(name, []) for name in ("predictions.csv", "results.csv")}

CODE = "obygaze_models.protocols.paper_splits:code_splits"


@pytest.fixture
def manifest() -> Manifest:
    return films(5, 24)


class TestMissing:
    def test_clips_without_features_are_listed_and_counted(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        failed, absent = "tt0000001-003", "tt0000002-007"
        X = planted(manifest)
        store = store_of(tmp_path / "s", manifest, X, failed=[failed], without=[absent])
        run = run_on(tmp_path, quick("honest", *RIDGE), manifest, {"x": store})
        facts = run.about["stores"]["x"]
        assert run.about["manifest"]["n_clips"] == 120
        listed = facts["missing"]
        assert listed.keys() == {failed, absent}
        assert "OSError" in listed[failed]
        assert "no clip of that name" in listed[absent]
        tested = set(run.predictions["clip_id"])
        assert not tested & {failed, absent}
        (said,) = [w.text for w in limits_of(run) if "missing" in w.name]
        assert said.startswith("2 of 120 clips have no features in x")

    def test_rows_that_are_not_numbers_are_listed_never_used(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        X = planted(manifest)
        store = store_of(tmp_path / "s", manifest, X)

        class Broken:
            def __getattr__(self, name: str):
                return getattr(store, name)

            def __contains__(self, clip: str) -> bool:
                return clip in store

            def matrix(self, *args, **kwargs):
                found = store.matrix(*args, **kwargs)
                found.values[5, 2] = np.nan
                found.values[9, 0] = np.inf
                return found

        inputs = gather(quick("honest", *RIDGE), manifest, "", {"x": Broken()})  # type: ignore[dict-item]
        (features,) = inputs.stores
        bad = [manifest.clip_ids[5], manifest.clip_ids[9]]
        assert dict(features.missing) == dict.fromkeys(bad, NOT_FINITE)
        assert np.isfinite(features.X).all()
        assert not features.present[[5, 9]].any()

    def test_rows_follow_the_manifest_whatever_the_order_of_the_store(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        X = planted(manifest)
        turned = manifest.with_clips(reversed(manifest.clips))
        one = store_of(tmp_path / "a", manifest, X)
        other = store_of(tmp_path / "b", turned, X[::-1])
        protocol = quick("honest", *RIDGE, *ONE_PAIR)
        runs = [
            run_on(tmp_path, protocol, manifest, {"x": store}) for store in (one, other)
        ]
        pd.testing.assert_frame_equal(*(run.results for run in runs))

    @pytest.mark.parametrize("has_labels", [True, False])
    def test_another_data_set(
        self, manifest: Manifest, tmp_path: Path, has_labels: bool
    ) -> None:
        """It is said before anything of the labels: a wrong manifest may have none."""
        clips = [replace(c, clip_id=f"x{c.clip_id}") for c in manifest]
        store = store_of(tmp_path / "s", manifest.with_clips(clips), planted(manifest))
        if not has_labels:
            clips = [replace(c, level="", concepts=()) for c in manifest]
            manifest = manifest.with_clips(clips)
        with pytest.raises(
            NotFound, match="none of the 120 clips of the manifest is in this store"
        ) as error:
            run_on(tmp_path, quick("honest", *RIDGE), manifest, {"x": store})
        first = manifest.clips[0].clip_id
        ids = f"its first clip id is 'x{first}', the manifest's is {first!r}"
        assert str(error.value.hint).startswith(ids)
        assert f"store import FILE --manifest {manifest.name}" in str(error.value.hint)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"movie_id": "tt9"}, "is of the film 'tt9' and of 'tt0000001'"),
            ({"start_s": 4.0}, "is 4 s to 5.5 s and 3 s to 5.5 s"),
            ({"end_s": 4.0}, "is 3 s to 4 s and 3 s to 5.5 s"),
        ],
    )
    def test_another_clip_under_the_same_id_is_refused(
        self, manifest: Manifest, tmp_path: Path, change: Any, words: str
    ) -> None:
        rows = [Row(c.clip_id, c.movie_id, c.start_s, c.end_s) for c in manifest]
        values = {"clip": planted(manifest).astype(np.float32)}
        store = made_store(tmp_path / "s", rows, values)
        first, *others = manifest.clips
        protocol = quick("honest", *RIDGE)
        gather(protocol, manifest, "", {"x": store})
        changed = manifest.with_clips([replace(first, **change), *others])
        problem = f"not what the store has under the same id: '{first.clip_id}' {words}"
        with pytest.raises(Mismatch, match=problem):
            gather(protocol, changed, "", {"x": store})
        # A manifest may know nothing of times, as one whose clips have files of their own.
        whole = [replace(clip, start_s=None, end_s=None) for clip in manifest]
        gather(protocol, manifest.with_clips(whole), "", {"x": store})

    def test_a_store_without_features(self, manifest: Manifest, tmp_path: Path) -> None:
        rows = [
            Row(clip.clip_id, clip.movie_id, status="failed", reason="not extracted")
            for clip in manifest
        ]
        values = {"clip": np.zeros((len(rows), 4), dtype=np.float32)}
        store = made_store(tmp_path / "s", rows, values)
        with pytest.raises(
            NotFound, match="none of the 120 clips of the manifest has features"
        ):
            run_on(tmp_path, quick("honest", *RIDGE), manifest, {"x": store})

    def test_a_level_that_is_not_there_or_is_no_vector(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        X = np.stack([planted(manifest, seed=s) for s in range(3)], axis=1)
        store = store_of(tmp_path / "s", manifest, X, array="frames")
        for options in ((), ('data.array=["frames"]',)):
            with pytest.raises(FixInput, match="reads one vector"):
                gather(quick("honest", *options), manifest, "", {"x": store})

    def test_the_only_array_needs_no_name(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        X = planted(manifest)
        store = store_of(tmp_path / "s", manifest, X, array="features")
        assert choose_array(store, Data().array) == "features"
        (features,) = gather(quick("honest", *RIDGE), manifest, "", {"x": store}).stores
        np.testing.assert_allclose(features.X, X, rtol=1e-6)
        with pytest.raises(NotFound, match="no array tokens"):
            choose_array(store, ["tokens"])

    def test_stores_that_were_not_given_or_not_asked_for(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        with pytest.raises(FixUsage, match="models need features"):
            gather(quick("honest"), manifest, "", {})
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        with pytest.raises(FixUsage, match="needs the stores a, b, got x"):
            gather(
                quick("honest", 'grid.stores=["a", "b"]'), manifest, "", {"x": store}
            )

    def test_unit_length_is_that_of_each_row(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        X = planted(manifest)
        X[3] = 0.0
        store = store_of(tmp_path / "s", manifest, X)
        inputs = gather(
            quick("honest", "data.scale=unit", *RIDGE), manifest, "", {"x": store}
        )
        (features,) = inputs.stores
        assert np.linalg.norm(features.X, axis=1) == pytest.approx(1.0)
        assert list(features.missing) == [manifest.clip_ids[3]]
        plain = read_store("x", store, inputs.table, Data(), False)
        assert not plain.missing


class TestFolds:
    def one_sided(self, **levels: str) -> Manifest:
        """Films whose every clip has one level, where named."""
        base = films(4, 24)
        return base.with_clips(
            replace(c, level=levels.get(c.movie_id, c.level), concepts=()) for c in base
        )

    def test_a_test_fold_without_positives_has_no_ranking_and_is_kept(
        self, tmp_path: Path
    ) -> None:
        manifest = self.one_sided(tt0000002="HN")
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        protocol = quick("honest", *RIDGE, "data.view=raw")
        run = run_on(tmp_path, protocol, manifest, {"x": store})
        names = {"model": "ridge", "train": "ENHN_S", "test": "ENHN_S"}
        cell = the_cell(run, **names)
        assert len(run.folds_of(cell)) == 4
        # Each film is a fold.
        for metric in ("ap", "auc", "f1_binary"):
            assert math.isnan(of_films(run, metric, **names)["tt0000002"]["value"])
        known = [*cell.value_of_films("ap").values()]
        assert len(known) == 3
        assert cell.value("ap") == pytest.approx(np.mean(known))
        assert math.isfinite(cell.value("auc"))

    def test_a_training_fold_of_one_class_is_left_out_with_its_reason(
        self, tmp_path: Path
    ) -> None:
        manifest = self.one_sided(tt0000002="HN", tt0000003="HN", tt0000004="EN")
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        changes = ('grid.models=["ridge", "mlp"]', "data.view=raw", "grid.pairs=same")
        protocol = quick(
            "honest", *changes, 'grid.train=["ENHN_S"]', 'grid.test=["ENHN_S"]'
        )
        run = run_on(tmp_path, protocol, manifest, {"x": store})
        for cell in [*models(run), *baselines(run)]:
            reasons = fit_of(run, cell)["skipped"]
            assert reasons == {"fold 0": "all clips to train on have one label: 0"}
        (text,) = [w.text for w in limits_of(run) if w.name == "skipped folds"]
        assert text == (
            "1 fold left out: all clips to train on have one label: 0 (fold 0 with"
            " tt0000001)."
        )

    def test_films_that_are_not_tested_are_named_with_the_cause(
        self, tmp_path: Path
    ) -> None:
        """It was "no clip of this task is tested (fold 1, fold 3)"."""
        base = films()
        rng = random.Random(SEED)
        for number in range(amount(3, 20)):
            names = sorted({clip.movie_id for clip in base})
            unlabelled, without = rng.sample(names, 2)
            cells = {}
            for clip in base:
                word = rng.choice(("joy", "fear", ""))
                cells[clip.clip_id] = "" if clip.movie_id == unlabelled else word
            manifest = base.with_column("mood", cells)
            kept = [clip for clip in manifest if clip.movie_id != without]
            ids = {clip.clip_id for clip in manifest} - {c.clip_id for c in kept}
            X = planted(manifest)
            store = store_of(tmp_path / f"s{number}", manifest, X, without=[*ids])
            protocol = quick("honest", *RIDGE, "data.view=raw")
            protocol = with_tasks(protocol, ["mood=joy"], manifest)
            run = run_on(tmp_path / f"r{number}", protocol, manifest, {"x": store})
            said = {limit.name: limit.text for limit in limits_of(run)}
            untested = "no clip of this task is tested"
            assert said["skipped folds"] == (
                f"2 folds left out: {untested} (fold {names.index(unlabelled)} with"
                f" {unlabelled}); {untested}: none has features"
                f" (fold {names.index(without)} with {without})."
            )
            n_tested = sum(bool(cells[clip.clip_id]) for clip in kept)
            assert models(run)[0].n_clips == n_tested

    def test_nothing_can_be_trained_at_all(self, tmp_path: Path) -> None:
        manifest = self.one_sided(tt0000002="HN", tt0000003="HN", tt0000004="HN")
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        changes = (
            "data.view=raw",
            'splits.never=["tt0000002","tt0000003","tt0000004"]',
        )
        protocol = quick("honest", *RIDGE, *changes)
        with pytest.raises(FixInput, match="no clip is left to train on"):
            run_on(tmp_path, protocol, manifest, {"x": store})

    def test_numbers_that_float32_cannot_hold_are_named(self, tmp_path: Path) -> None:
        manifest = self.one_sided(tt0000002="S", tt0000003="HN", tt0000004="EN")
        too_large = planted(manifest).astype(np.float64) * 1e300
        rows = [Row(clip.clip_id, clip.movie_id) for clip in manifest]
        store = made_store(tmp_path / "s", rows, {"clip": too_large})
        wanted = "no clip of the manifest has a vector .* NaN or infinity as float32"
        stores = {"x": store}
        with pytest.raises(FixInput, match=wanted):
            run_on(tmp_path, quick("honest", *RIDGE, "data.view=raw"), manifest, stores)


class TestOnDisk:
    @pytest.fixture
    def protocol(self) -> Protocol:
        return quick("honest", 'grid.models=["ridge", "mlp"]', *ONE_PAIR)

    def test_the_same_inputs_give_the_same_bytes(
        self, manifest: Manifest, protocol: Protocol, tmp_path: Path
    ) -> None:
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        inputs = gather(protocol, manifest, "", {"x": store})
        folders = [tmp_path / "a", tmp_path / "b"]
        for folder, n_jobs in zip(folders, (1, 2), strict=True):
            run_protocol(inputs, folder, n_jobs=n_jobs)
        for file in ("results.csv", "predictions.csv", "concepts.csv", "trees.csv"):
            assert (folders[0] / file).read_bytes() == (folders[1] / file).read_bytes()

    def test_another_run_does_not_take_a_name(
        self, manifest: Manifest, protocol: Protocol, tmp_path: Path
    ) -> None:
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        inputs = gather(protocol, manifest, "", {"x": store})
        run_protocol(inputs, tmp_path / "a", n_jobs=1)
        run_protocol(inputs, tmp_path / "a", n_jobs=1)
        other = gather(
            quick("honest", "fit.seed=1", *RIDGE, *ONE_PAIR), manifest, "", {"x": store}
        )
        before = (tmp_path / "a" / "results.csv").read_bytes()
        (tmp_path / "a" / "figures").mkdir()
        (tmp_path / "a" / "figures" / "mine.json").write_text("years")
        (tmp_path / "a" / "notes.txt").write_text("mine")
        run_protocol(inputs, tmp_path / "a", n_jobs=1)
        assert (tmp_path / "a" / "figures" / "mine.json").read_text() == "years"
        with pytest.raises(AlreadyThere, match=r"also holds 'figures/mine\.json'"):
            run_protocol(other, tmp_path / "a", n_jobs=1)
        (tmp_path / "a" / "figures" / "mine.json").unlink()
        (tmp_path / "a" / "notes.txt").rename(tmp_path / "notes.txt")
        (tmp_path / "a" / "report.html").write_text("of these numbers")
        with pytest.raises(AlreadyThere, match="another run has this name"):
            run_protocol(other, tmp_path / "a", n_jobs=1)
        assert (tmp_path / "a" / "results.csv").read_bytes() == before
        run_protocol(other, tmp_path / "a", n_jobs=1, force=True)
        assert (tmp_path / "a" / "results.csv").read_bytes() != before
        assert inputs.default_name != other.default_name
        # So it is, too, where the names of many stores are cut.
        of_many = set()
        for one in (inputs, other):
            stores = [replace(one.stores[0], name="x" * 130)]
            of_many.add(replace(one, stores=stores).default_name)
        assert len(of_many) == 2
        # What was made of the other run is not beside these numbers.
        names = {path.name for path in (tmp_path / "a").iterdir()}
        assert not {"figures", "report.html"} & names

    def test_a_kill_at_any_instant_leaves_the_old_run_or_the_new_one(
        self, tmp_path: Path
    ) -> None:
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
        every = amount(3, 1)
        assert kill_everywhere(lambda: write("new"), look, every) >= 10 / every
        assert seen == {"old", "new"}

    def test_a_run_that_another_process_made_meanwhile_is_replaced_only_by_force(
        self, tmp_path: Path
    ) -> None:
        about = {"format": RUN_FORMAT, "created_by": "obygaze 1", "files": {}}
        first, second = ({**about, "identity": name} for name in ("first", "second"))
        write_run(tmp_path / "a", first, WITHOUT_ROWS)
        with pytest.raises(AlreadyThere, match="another run has this name"):
            write_run(tmp_path / "a", second, WITHOUT_ROWS)
        assert read_run(tmp_path / "a").about["identity"] == "first"
        write_run(tmp_path / "a", second, WITHOUT_ROWS, force=True)
        assert read_run(tmp_path / "a").about["identity"] == "second"
        assert [path.name for path in tmp_path.iterdir()] == ["a"]

    @pytest.mark.parametrize("added", ["notes.txt", "audits/scores.csv"])
    def test_no_run_replaces_what_a_person_added_to_another_one(
        self, tmp_path: Path, added: str
    ) -> None:
        about = {"format": RUN_FORMAT, "created_by": "obygaze 1", "files": {}}
        first, second = ({**about, "identity": name} for name in ("first", "second"))
        folder = tmp_path / "a"
        write_run(folder, first, WITHOUT_ROWS)
        of_report = ("report.html", "tables/errors.csv", "figures/films.svg")
        for name in (*of_report, added):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("mine")
        with pytest.raises(AlreadyThere, match=f"it also holds '{added}'"):
            write_run(folder, second, WITHOUT_ROWS, force=True)
        write_run(folder, first, WITHOUT_ROWS)
        assert read_run(folder).about["identity"] == "first"
        assert (folder / added).read_text() == "mine"
        (folder / added).unlink()
        write_run(folder, second, WITHOUT_ROWS, force=True)
        assert {path.name for path in folder.iterdir()} == {"run.json", *WITHOUT_ROWS}

    @pytest.mark.parametrize(
        ("name", "force"), [("results.csv", False), ("thesis.txt", True)]
    )
    def test_a_folder_that_is_not_a_run_is_not_written_into(
        self,
        manifest: Manifest,
        protocol: Protocol,
        tmp_path: Path,
        name: str,
        force: bool,
    ) -> None:
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        inputs = gather(protocol, manifest, "", {"x": store})
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / name).write_text("years")
        with pytest.raises(AlreadyThere, match="not an obygaze run"):
            run_protocol(inputs, tmp_path / "a", n_jobs=1, force=force)
        assert [path.name for path in (tmp_path / "a").iterdir()] == [name]
        assert (tmp_path / "a" / name).read_text() == "years"

    def test_what_is_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match="no finished run here"):
            read_run(tmp_path)
        (tmp_path / "run.json").write_text("{", encoding="utf-8")
        with pytest.raises(Corrupt, match="not valid JSON"):
            read_run(tmp_path)
        (tmp_path / "run.json").write_text(
            '{"format": "obygaze-run/9"}', encoding="utf-8"
        )
        with pytest.raises(Mismatch, match="obygaze-run/3"):
            read_run(tmp_path)

    def test_a_changed_file_of_a_run_is_an_error(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        folder = run_on(
            tmp_path, quick("honest", *RIDGE), manifest, {"x": store}
        ).folder
        for name in ("results.csv", "predictions.csv"):
            whole = (folder / name).read_bytes()
            assert len(read_run(folder).table(name))
            # A digit of a value: still valid JSON, and a valid table.
            at = whole.index(b"0.", len(whole) // 2) + 2
            changed = (
                whole[:at]
                + (b"1" if whole[at : at + 1] != b"1" else b"2")
                + whole[at + 1 :]
            )
            (folder / name).write_bytes(changed)
            with pytest.raises(
                Corrupt, match=f"{name} is not the file that this run wrote"
            ) as e:
                assert len(read_run(folder).table(name))
            assert e.value.exit_code == 4 and "obygaze run again" in str(e.value.hint)
            (folder / name).write_bytes(whole)

    def test_a_changed_bit_of_run_json_is_an_error(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        run = run_on(tmp_path, quick("honest", *RIDGE), manifest, {"x": store})
        path = run.folder / "run.json"
        whole = path.read_bytes()
        assert read_run(run.folder).about == run.about
        # Without the last lines, which have the checksum.
        n_bits = 8 * whole.rindex(b'"sha256"')
        for bit in random.Random(SEED).sample(range(n_bits), 200):
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            try:
                about = read_run(run.folder).about
            except (Corrupt, Mismatch):
                continue
            # A blank between values may become another one.
            assert about == run.about

    def test_a_run_without_checksums_is_refused(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        folder = run_on(
            tmp_path, quick("honest", *RIDGE), manifest, {"x": store}
        ).folder
        about = json.loads((folder / "run.json").read_bytes())
        files = {**about["files"], "predictions.csv": 0.5}  # not even text
        write_run_json(folder, {**about, "files": files})
        with pytest.raises(Corrupt, match=r"predictions\.csv is not the file"):
            _ = read_run(folder).predictions
        del about["files"]
        write_run_json(folder, about)
        with pytest.raises(Mismatch, match="not a run of format"):
            read_run(folder)

    def test_what_is_no_run_is_said_with_the_way_to_one(self, tmp_path: Path) -> None:
        folder = tmp_path / "colleague" / "runs" / "first"
        about = {"format": RUN_FORMAT, "identity": "x", "name": "first"}
        write_run(folder, about, WITHOUT_ROWS)
        assert read_run(folder).about["name"] == "first"
        with pytest.raises(NotFound, match="a workspace, not a run") as e:
            read_run(tmp_path / "colleague")
        assert e.value.hint == f"-C {tmp_path / 'colleague'}, and one of first"

    def test_two_stores_with_other_clips_have_baselines_of_their_own(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        X = planted(manifest)
        whole = store_of(tmp_path / "a", manifest, X)
        part = store_of(tmp_path / "b", manifest, X, without=[manifest.clip_ids[0]])
        alike = run_on(
            tmp_path, quick("honest", *RIDGE), manifest, {"a": whole, "c": whole}
        )
        apart = run_on(
            tmp_path, quick("honest", *RIDGE), manifest, {"a": whole, "b": part}
        )
        assert {cell.store for cell in baselines(alike)} == {""}
        assert {cell.store for cell in baselines(apart)} == {"a", "b"}


class TestPaper:
    def test_the_printed_number_follows_the_backbone_whatever_the_store_is_called(
        self, tmp_path: Path
    ) -> None:
        manifest = with_folds(films(5, 50, seed=2))
        X = planted(manifest, width=14)
        stores = {
            label: store_of(tmp_path / label, manifest, X, recipe=recipe)
            for label, recipe in {
                "ViViT": a_recipe(backbone={"name": "vivit-b16x2-k400"}),
                "vivit": a_recipe(backbone={"name": "xclip-b16-k600-zs"}),
                "X-CLIP": a_recipe(backbone={"name": "xclip-lsmdc-b32"}),
                "told": Recipe.unknown("pth", {"backbone": "xclip-b16-k600-zs"}),
                "xclip": a_recipe(),
            }.items()
        }
        short = (
            "models.mlp.max_epochs=2",
            "models.mlp.min_epochs=1",
            "grid.baselines=[]",
        )
        protocol = quick("paper-table2", *short, "report.compare=false", replicates=2)
        run = run_on(tmp_path, protocol, manifest, stores)
        printed = {}
        for cell in models(run, train="HN_S", test="ENHN_S"):
            rows = rows_of(run.results, **names_of(cell), film="")
            values = [row["paper"] for row in rows]
            printed[cell.store] = [value for value in values if math.isfinite(value)]
        xclip = [0.82]
        assert printed == {
            "ViViT": [0.73],
            "vivit": xclip,
            "X-CLIP": [0.78],
            "told": xclip,
            "xclip": [],
        }
        assert run.about["stores"]["told"]["backbone"] == "xclip-b16-k600-zs (imported)"


class TestExtras:
    def test_clips_without_a_video_take_no_part_where_the_released_code_drops_them(
        self, tmp_path: Path
    ) -> None:
        manifest = films(4, 60)
        rng = np.random.default_rng(0)
        folds = {c.clip_id: str(rng.integers(10)) for c in manifest}
        for name in ("02_EN_S", "02_HN_S", "02_ENHN_S", "02_EN_HN_S"):
            manifest = manifest.with_column(f"fold:{name}", folds)
        silent = set(manifest.clip_ids[::20])
        manifest = manifest.with_clips(
            replace(c, video="" if c.clip_id in silent else f"{c.clip_id}.mp4")
            for c in manifest
        )
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        tested = {}
        for scheme in (CODE, "none"):
            protocol = quick(
                "paper-table2",
                f"splits.scheme={scheme}",
                "balancing=none",
                "grid.baselines=[]",
            )
            run = run_on(tmp_path, protocol, manifest, {"x": store})
            tested[scheme] = set(run.predictions["clip_id"])
        assert not tested[CODE] & silent
        assert tested["none"] & silent


def test_features_of_no_clip_with_a_video_are_refused_before_anything_is_fitted(
    tmp_path: Path,
) -> None:
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
    with pytest.raises(FixInput, match="none of the 40 clips with a video has"):
        run_on(tmp_path, protocol, manifest, {"x": store})


def test_a_task_that_no_task_trains_for_is_left_out(
    manifest: Manifest, tmp_path: Path
) -> None:
    """With pairs "same", a test task that does not train makes no cell, and no error either."""
    grid = ('grid.train=["EN_S"]', 'grid.test=["HN_S", "EN_S"]', "grid.pairs=same")
    protocol = quick("honest", *RIDGE, *grid)
    assert protocol.train_tasks == ["EN_S"]
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    run = run_on(tmp_path, protocol, manifest, {"x": store})
    assert [cell.tasks for cell in models(run)] == ["EN_S"]


def test_a_run_whose_only_baselines_cannot_be_computed_is_an_error(
    tmp_path: Path,
) -> None:
    """It was a run without any number."""
    clips = []
    for clip in films(3, 12):
        clips.append(replace(clip, scene=None, start_s=None, end_s=None, concepts=()))
    manifest = films(3, 12).with_clips(clips)
    names = ("neighbour", "oracle")
    protocol = without_models(quick("honest", "data.view=raw"), *names)
    with pytest.raises(FixInput, match=NOTHING):
        run_on(tmp_path, protocol, manifest, {})
