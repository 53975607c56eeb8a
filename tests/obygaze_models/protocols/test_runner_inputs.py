"""Input that is not as it should be, and what a run leaves on disk."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from obygaze_models.protocols.results.whole_run import Remark
from obygaze_models.protocols.runner.features import NOT_FINITE, join
from obygaze_models.protocols.runner.records import write_run
from obygaze_models.report.bars import bars_of
from obygaze_models.report.lookup import ReportRun
from obygaze_models.report.page import write_report
from obygaze_models.report.results import argmax
from obygaze_models.report.tables import Number
from sklearn.preprocessing import StandardScaler
from support.cells import with_folds
from support.experiments import VISUAL, cell_of, films, planted, quick, run_on, store_of
from support.kills import kill_everywhere
from support.stores import a_recipe, made_store

from obygaze_features.core.console import Quiet
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
from obygaze_models.protocols.schema import Data, Feature, Protocol
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.tables import RUN_FORMAT, read_run
from obygaze_models.runner.text import result_text

RIDGE = ('grid.models=["ridge"]', 'grid.baselines=["prevalence"]')
ONE_PAIR = ('grid.train=["EN_S"]', 'grid.test=["EN_S"]')


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
        (covered,) = run.of("coverage")
        assert (covered["n_clips"], covered["n_present"], covered["n_missing"]) == (
            120,
            118,
            2,
        )
        listed = {item["clip_id"]: item["reason"] for item in covered["missing"]}
        assert listed.keys() == {failed, absent}
        assert "OSError" in listed[failed]
        assert "no clip of that name" in listed[absent]
        tested = {row["clip_id"] for row in run.predictions}
        assert not tested & {failed, absent}
        assert run.about["stores"]["x"]["n_missing"] == 2

    def test_rows_that_are_not_numbers_are_listed_never_used(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        X = planted(manifest)
        store = store_of(tmp_path / "s", manifest, X)

        class Broken:
            def __getattr__(self, name: str):
                return getattr(store, name)

            def matrix(self, *args, **kwargs):
                found = store.matrix(*args, **kwargs)
                found.values[5, 2] = np.nan
                found.values[9, 0] = np.inf
                return found

        inputs = gather(quick("honest", *RIDGE), manifest, "", {"x": Broken()})  # type: ignore[dict-item]
        (features,) = inputs.features
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
        protocol = quick("honest", *RIDGE)
        runs = [
            run_on(tmp_path, protocol, manifest, {"x": store}) for store in (one, other)
        ]
        assert runs[0].cells == runs[1].cells

    def test_another_data_set(self, manifest: Manifest, tmp_path: Path) -> None:
        clips = [replace(c, clip_id=f"x{c.clip_id}") for c in manifest]
        store = store_of(tmp_path / "s", manifest.with_clips(clips), planted(manifest))
        with pytest.raises(
            NotFound, match="none of the 120 clips of the manifest is in this store"
        ):
            run_on(tmp_path, quick("honest", *RIDGE), manifest, {"x": store})

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
        with pytest.raises(NotFound, match="no array pooled or clip") as caught:
            run_on(tmp_path, quick("honest", *RIDGE), manifest, {"x": store})
        assert "frames" in str(caught.value.hint)
        with pytest.raises(FixInput, match="reads one vector"):
            gather(quick("honest", 'data.array=["frames"]'), manifest, "", {"x": store})

    def test_a_wrong_backbone(self, manifest: Manifest, tmp_path: Path) -> None:
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        protocol = quick("honest", "features.x.backbone=x-clip*", *RIDGE)
        with pytest.raises(
            Mismatch, match="this store has features of 'toy'"
        ) as caught:
            run_on(tmp_path, protocol, manifest, {"x": store})
        assert caught.value.exit_code == 5
        fine = replace(protocol, features={"x": Feature(backbone="TOY")})
        assert gather(fine, manifest, "", {"x": store}).features

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
        (features,) = inputs.features
        assert np.linalg.norm(features.X, axis=1) == pytest.approx(1.0)
        assert list(features.missing) == [manifest.clip_ids[3]]
        plain = join("x", store, inputs.table, Data())
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
        cell = cell_of(run.cells, train="ENHN_S", test="ENHN_S")
        assert len(cell["folds"]) == 4
        bad = next(f for f in cell["folds"] if f["n_positive"] == 0)
        assert (bad["ap"], bad["auc"], bad["f1_binary"]) == (None, None, 0.0)
        assert cell["by_film"]["tt0000002"]["f1_binary"] is None
        others = [f["ap"] for f in cell["folds"] if f["ap"] is not None]
        assert cell["ap"]["mean"] == pytest.approx(np.mean(others))
        assert cell["auc"]["value"] is not None

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
        for cell in [*run.cells, *run.baselines]:
            reasons = {item["fold"]: item["reason"] for item in cell["skipped"]}
            assert reasons == {"fold 0": "the training clips hold one class only: 0"}
        n_cells = len(run.cells) + len(run.baselines)
        (text,) = [r["text"] for r in run.of("remark") if r["about"] == "skipped folds"]
        assert text == (
            f"Folds were left out (number of different folds: 1) in {n_cells} cells of models and "
            "baselines: the training clips hold one class only: 0."
        )

    def test_nothing_can_be_trained_at_all(self, tmp_path: Path) -> None:
        manifest = self.one_sided(tt0000002="HN", tt0000003="HN", tt0000004="HN")
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        changes = (
            "data.view=raw",
            'splits.never=["tt0000002","tt0000003","tt0000004"]',
        )
        protocol = quick("honest", *RIDGE, *changes)
        with pytest.raises(FixInput, match="no clip is left to train on") as caught:
            run_on(tmp_path, protocol, manifest, {"x": store})
        # Another model has the same folds.
        assert "grid.models" not in str(caught.value.hint)

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
        for file in ("results.json", "predictions.csv"):
            assert (folders[0] / file).read_bytes() == (folders[1] / file).read_bytes()

    def test_a_run_is_read_back_as_it_was(
        self, manifest: Manifest, protocol: Protocol, tmp_path: Path
    ) -> None:
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        made = run_protocol(
            gather(protocol, manifest, "", {"x": store}), tmp_path / "a", n_jobs=1
        )
        found = read_run(tmp_path / "a")
        assert found.records == made.records
        assert found.about == made.about
        assert found.about["protocol"]["splits"]["kind"] == "nested"
        assert set(found.about["seconds"]) >= {"read", "fit", "evaluate", "total"}
        text = (tmp_path / "a" / "results.json").read_text("utf-8")
        assert "NaN" not in text
        assert isinstance(json.loads(text), list)

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
        before = (tmp_path / "a" / "results.json").read_bytes()
        write_report([tmp_path / "a"])
        (tmp_path / "a" / "figures" / "mine.json").write_text("years")
        (tmp_path / "a" / "notes.txt").write_text("mine")
        run_protocol(inputs, tmp_path / "a", n_jobs=1)
        assert (tmp_path / "a" / "figures" / "mine.json").read_text() == "years"
        with pytest.raises(AlreadyThere, match="another run has this name"):
            run_protocol(other, tmp_path / "a", n_jobs=1)
        assert (tmp_path / "a" / "results.json").read_bytes() == before
        run_protocol(other, tmp_path / "a", n_jobs=1, force=True)
        assert (tmp_path / "a" / "results.json").read_bytes() != before
        assert inputs.default_name != other.default_name
        # What was made of the other run is kept, but not beside these numbers.
        earlier = f"earlier-{inputs.identity[:8]}"
        files = {"notes.txt", "predictions.csv", "results.json", "run.json"}
        assert {path.name for path in (tmp_path / "a").iterdir()} == {*files, earlier}
        assert {path.name for path in (tmp_path / "a" / earlier).iterdir()} == {
            *("figures", "report.html", "report.md", "tables")
        }
        assert (
            tmp_path / "a" / earlier / "figures" / "mine.json"
        ).read_text() == "years"

    def test_a_kill_at_any_instant_leaves_the_old_run_or_the_new_one(
        self, tmp_path: Path
    ) -> None:
        folder, about = (
            tmp_path / "a",
            {"format": RUN_FORMAT, "created_by": "obygaze 1"},
        )
        seen = set[str]()

        def write(word: str) -> None:
            records = [Remark(text=word)]
            write_run(folder, {**about, "name": word}, records, word.encode())

        def look() -> None:
            word = read_run(folder).about["name"]
            (remark,) = json.loads((folder / "results.json").read_bytes())
            assert remark["text"] == word
            assert (folder / "predictions.csv").read_text() == word
            assert (folder / "audits" / "mine.json").read_text() == "years"
            seen.add(word)
            write("old")
            # What a killed process was writing has a hidden name.
            assert [path.name for path in tmp_path.glob("[!.]*")] == ["a"]

        write("old")
        (folder / "audits").mkdir()
        (folder / "audits" / "mine.json").write_text("years")
        assert kill_everywhere(lambda: write("new"), look) >= 10
        assert seen == {"old", "new"}

    @pytest.mark.parametrize("name", ["results.json", "predictions.csv", "thesis.txt"])
    @pytest.mark.parametrize("force", [False, True])
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
        with pytest.raises(Mismatch, match="obygaze-run/1"):
            read_run(tmp_path)

    def test_standardised_features_and_weighted_classes(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        X = planted(manifest) * np.float32(7) + np.float32(100)
        store = store_of(tmp_path / "s", manifest, X, without=[manifest.clip_ids[3]])
        changes = ("data.scale=standard-all", "models.ridge.class_weight=balanced")
        protocol = quick("honest", *changes, *RIDGE)
        inputs = gather(protocol, manifest, "", {"x": store})
        kept = np.delete(X, 3, axis=0).astype(np.float64)
        expected = StandardScaler().fit_transform(kept)
        np.testing.assert_allclose(inputs.features[0].X, expected, atol=1e-4)
        run = run_protocol(inputs, tmp_path / "run", n_jobs=1)
        plain = run_on(tmp_path, quick("honest", *RIDGE), manifest, {"x": store})
        # The smaller class is called more often with weights.
        weighted, unweighted = (
            sum(c["confusion"]["tp"] + c["confusion"]["fp"] for c in r.cells)
            for r in (run, plain)
        )
        assert weighted > unweighted and run.cells[0]["prevalence"] < 0.5

    def test_a_changed_file_of_a_run_is_an_error(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        folder = run_on(
            tmp_path, quick("honest", *RIDGE), manifest, {"x": store}
        ).folder
        for name in ("results.json", "predictions.csv"):
            whole = (folder / name).read_bytes()
            assert read_run(folder).predictions
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
                assert read_run(folder).predictions
            assert e.value.exit_code == 4 and "obygaze run again" in str(e.value.hint)
            (folder / name).write_bytes(whole)

    def test_a_run_without_checksums_is_refused(
        self, manifest: Manifest, tmp_path: Path
    ) -> None:
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        folder = run_on(
            tmp_path, quick("honest", *RIDGE), manifest, {"x": store}
        ).folder
        about = json.loads((folder / "run.json").read_bytes())
        kept = {
            key: value for key, value in about.items() if key != "predictions_sha256"
        }
        (folder / "run.json").write_text(json.dumps(kept), encoding="utf-8")
        with pytest.raises(Corrupt, match=r"predictions\.csv is not the file"):
            assert read_run(folder).predictions
        kept["results_sha256"] = 0.5  # not even text
        (folder / "run.json").write_text(json.dumps(kept), encoding="utf-8")
        with pytest.raises(Corrupt, match=r"expected sha256 0\.5"):
            read_run(folder)

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
        assert {b["feature"] for b in alike.baselines} == {""}
        assert {b["feature"] for b in apart.baselines} == {"a", "b"}
        assert alike.about["splits_sha256"]["a"] == alike.about["splits_sha256"]["c"]


def test_evaluation_shows_its_progress(manifest: Manifest, tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    inputs = gather(quick("honest", *RIDGE), manifest, "", {"x": store})
    shown: dict[str, list[int]] = {}

    class Counter(Quiet):
        def __init__(self, label: str, total: int) -> None:
            self.counts = shown.setdefault(label, [total, 0])

        def advance(self, amount: int = 1) -> None:
            self.counts[1] += amount

    watch = lambda label, total: nullcontext(Counter(label, total))  # noqa: E731
    run = run_protocol(inputs, tmp_path / "run", n_jobs=1, watch=watch)
    kinds = ("comparison", "contrast")
    n_steps = (
        len(run.cells) + len(run.baselines) + sum(len(run.of(kind)) for kind in kinds)
    )
    assert shown["evaluation"] == [n_steps, n_steps]
    # Three processes share the evaluation, and count all of its steps.
    parts = run_protocol(inputs, tmp_path / "parts", n_jobs=3, watch=watch)
    assert shown["evaluation"] == [n_steps, 2 * n_steps]
    one, other = (r.folder / "results.json" for r in (run, parts))
    assert one.read_bytes() == other.read_bytes()


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
        hard = [
            cell
            for cell in run.cells
            if (cell["train"], cell["test"]) == ("HN_S", "ENHN_S")
        ]
        printed = {c["feature"]: [one["mean"] for one in c["paper"]] for c in hard}
        xclip = [0.82]
        assert printed == {
            **{
                "ViViT": [0.73],
                "vivit": xclip,
                "X-CLIP": [0.78],
                "told": xclip,
                "xclip": [],
            }
        }
        assert run.about["stores"]["told"]["backbone"] == "xclip-b16-k600-zs (imported)"

    def test_table_4_has_the_deviation_between_the_runs_of_a_film(
        self, tmp_path: Path
    ) -> None:
        manifest = with_folds(films(4, 60, seed=2))
        store = store_of(tmp_path / "s", manifest, planted(manifest, strength=0.3))
        short = (
            "models.mlp.max_epochs=2",
            "models.mlp.min_epochs=1",
            "grid.baselines=[]",
        )
        protocol = quick("paper-table4", *short, "splits.never=[]", replicates=2)
        (cell,) = run_on(tmp_path, protocol, manifest, {"x": store}).cells
        runs = [
            f["f1_weighted"] for f in cell["folds"] if f["fold"].startswith("test 2,")
        ]
        assert len(runs) == 3
        expected = float(np.std(runs, ddof=1))
        assert cell["by_film"]["tt0000003"]["sd"]["f1_weighted"] == pytest.approx(
            expected
        )

    def test_figure_3_has_two_bars_a_concept_over_nine_machines(
        self, tmp_path: Path
    ) -> None:
        manifest = with_folds(films(5, 60, seed=2))
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        protocol = quick(
            "paper-fig3", "grid.baselines=[]", "report.compare=false", replicates=2
        )
        run = run_on(tmp_path, protocol, manifest, {"x": store})
        assert {cell["n_runs"] for cell in run.cells} == {9}
        assert len(run.cells) == 16
        (group,) = bars_of(ReportRun.of_run(run))
        assert group.rows == list(VISUAL)
        assert len(group.series) == 2 and len(group.cells) == 16
        inside = [c for c in manifest if c.extra["fold:02_EN_HN_S"] == "9"]
        carry = [c.level in ("HN", "S") and "Look" in c.concepts for c in inside]
        easy = sum(c.level == "EN" for c in inside)
        sizes = {c["test"]: (c["n_test"], c["n_positive"]) for c in run.cells}
        assert sizes["Look against EN"] == (sum(carry) + easy, sum(carry))
        assert sizes["Look"] == (len(inside), sum(carry))

    def test_success_in_figure_6_is_regressed_on_table_4(self, tmp_path: Path) -> None:
        manifest = with_folds(films(4, 90, seed=2))
        store = store_of(tmp_path / "s", manifest, planted(manifest, strength=0.3))
        short = (
            "models.mlp.max_epochs=2",
            "models.mlp.min_epochs=1",
            "grid.baselines=[]",
            "splits.never=[]",
        )
        run = run_on(tmp_path, quick("paper-fig6", *short), manifest, {"x": store})
        (cell,), (whole, *alone) = run.cells, run.of("analysis")
        # Each of four films is tested by three models, one for each film that validates.
        assert (cell["train"], cell["test"], cell["n_runs"]) == ("HN_S", "ENHN_S", 12)
        tested = [c for c in manifest if c.level in ("EN", "HN", "S")]
        assert whole["n"] == len(tested) == cell["n_test"]
        names = [f["name"] for f in whole["factors"]] + list(whole["left_out"])
        assert sorted(names) == sorted([*VISUAL, "level EN", "level HN", "level S"])
        by_film = Counter(c.movie_id for c in tested)
        assert {record["film"]: record["n"] for record in alone} == by_film
        for record in alone:
            for factor in record["factors"]:
                carriers = [
                    c
                    for c in tested
                    if c.movie_id == record["film"]
                    and factor["name"] in (*c.concepts, f"level {c.level}")
                ]
                assert factor["n"] == len(carriers) >= 5
        text = result_text(run)
        assert f"{whole['n_success']} of {whole['n']} clips are right" in text
        assert f"tt0000001 {by_film['tt0000001']}" in text


class TestExtras:
    def test_several_tasks_as_one_question(self, tmp_path: Path) -> None:
        manifest = films(5, 24)
        rng = np.random.default_rng(0)
        kind = {c.clip_id: str(rng.integers(-1, 2)) for c in manifest}
        part = {c.clip_id: "0" if c.movie_id == "tt0000003" else "1" for c in manifest}
        manifest = manifest.with_column("valence_class", kind)
        manifest = manifest.with_column("fold:mediaeval2015", part)
        X = planted(manifest, strength=0.0)
        for i, clip in enumerate(manifest):
            X[i, int(kind[clip.clip_id]) + 1] += 3.0
        store = store_of(tmp_path / "s", manifest, X)
        run = run_on(tmp_path, quick("mediaeval2015-valence"), manifest, {"x": store})
        for record in run.of("argmax"):
            table = np.array(record["confusion"])
            assert table.sum() == record["n_test"] == 24
            assert record["accuracy"] == pytest.approx(np.trace(table) / 24)
            assert record["accuracy"] > 0.7 > record["majority"]

    def test_tasks_that_share_a_class_are_not_one_question(
        self, tmp_path: Path
    ) -> None:
        manifest = films(5, 24)
        n_sure = sum(clip.level == "S" for clip in manifest)
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        protocol = quick("honest", *RIDGE, 'report.argmax=["EN_S", "ENHN_S"]')
        with pytest.raises(
            FixInput, match=f"report.argmax .* {n_sure} clips .* EN_S and ENHN_S"
        ):
            run_on(tmp_path, protocol, manifest, {"x": store})

    @pytest.mark.parametrize("pairs", ["same", "all"])
    def test_its_accuracy_follows_from_the_predictions(
        self, tmp_path: Path, pairs: str
    ) -> None:
        manifest, names = films(6, 30), ("EN", "HN", "S")
        tasks = [
            f"tasks.{own}.classes={{{', '.join(f'{n} = {int(n == own)}' for n in names)}}}"
            for own in names
        ]
        grid = [
            f"{key}={list(names)}"
            for key in ("grid.train", "grid.test", "report.argmax")
        ]
        splits = ("splits.kind=group_kfold", "splits.folds=3", f'grid.pairs="{pairs}"')
        store = store_of(tmp_path / "s", manifest, planted(manifest))
        protocol = quick(
            "honest", *RIDGE, *tasks, *grid, *splits, "report.concepts=false"
        )
        run = run_on(tmp_path, protocol, manifest, {"x": store})
        (record,) = run.of("argmax")
        scores: dict[str, dict[str, float]] = {}
        for row in run.predictions:
            if row["model"] == "ridge" and row["train"] == row["test"]:
                scores.setdefault(row["clip_id"], {})[row["task"]] = row["score"]
        clips = [clip for clip in manifest if clip.clip_id in scores]
        right = np.array(
            [max(names, key=scores[c.clip_id].get) == c.level for c in clips], float
        )
        assert record["accuracy"] == pytest.approx(right.mean())
        assert "ci" not in record  # decisions have none
        (shown,) = argmax(ReportRun.of_run(run))
        assert shown.rows[0][2] == Number(record["accuracy"])

    def test_success_is_regressed_on_eleven_factors(self, tmp_path: Path) -> None:
        manifest = films(6, 40)
        store = store_of(tmp_path / "s", manifest, planted(manifest, strength=0.5))
        protocol = quick(
            "honest", 'grid.models=["ridge"]', "report.error_analysis=true"
        )
        run = run_on(tmp_path, protocol, manifest, {"x": store})
        found = [
            r
            for r in run.of("analysis")
            if (r["train"], r["test"]) == ("ENHN_S", "ENHN_S")
        ]
        assert found[0]["film"] == "all films"
        assert len(found) == 7
        whole = found[0]
        # An easy negative has no concept there, a sure clip three: one level follows from the rest.
        assert len(whole["factors"]) == 10 and whole["intercept"] is None
        assert whole["left_out"]["level S"] == "follows from the factors before it"
        assert whole["n"] == sum(r["n"] for r in found[1:])

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
        for scheme in ("obygaze12-code", "none"):
            protocol = quick(
                "paper-table2", f"splits.scheme={scheme}", "grid.baselines=[]"
            )
            run = run_on(tmp_path, protocol, manifest, {"x": store})
            tested[scheme] = {row["clip_id"] for row in run.predictions}
            (covered,) = run.of("coverage")
            assert covered["n_unused"] == (0 if scheme == "none" else len(silent))
        assert not tested["obygaze12-code"] & silent
        assert tested["none"] & silent


def test_a_task_that_no_task_trains_for_is_left_out(
    manifest: Manifest, tmp_path: Path
) -> None:
    """With pairs "same", a test task that does not train makes no cell, and no error either."""
    grid = ('grid.train=["EN_S"]', 'grid.test=["HN_S", "EN_S"]', "grid.pairs=same")
    protocol = quick("honest", *RIDGE, *grid)
    assert (protocol.train_tasks, protocol.test_tasks) == (["EN_S"], ["EN_S"])
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    run = run_on(tmp_path, protocol, manifest, {"x": store})
    assert [(cell["train"], cell["test"]) for cell in run.cells] == [("EN_S", "EN_S")]
