"""Plans do not depend on labels, give workers whole blocks, and are checked when read."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from support.cli import call_obygaze

from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
)
from obygaze_features.extraction.extracting import extraction_status
from obygaze_features.extraction.plan import (
    Target,
    make_plan,
    read_plan_file,
    write_plan,
)
from obygaze_features.extraction.planning import chosen_plan
from obygaze_features.extraction.recipes import version_of_code
from obygaze_features.extraction.run import load_targets
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import open_store


def films(n: int = 10) -> Manifest:
    clips = (Clip(f"b-{i:02d}", "b", n - i, "b.mkv", i, i + 1.5) for i in range(n))
    return Manifest("films", Header("Films", {}, video_root="/films"), tuple(clips))


def test_rows_are_sorted_by_film_and_scene(tmp_path: Path) -> None:
    manifest = films(3).with_clips([*films(3), Clip("a-00", "a", 5)])
    plan = make_plan(manifest, [Target("s", "descriptors")], workspace=tmp_path)
    assert [row.clip_id for row in plan.rows] == ["a-00", "b-02", "b-01", "b-00"]
    assert plan.rows[0].video == ""
    assert (plan.rows[1].video, plan.rows[1].start_s, plan.rows[1].end_s) == (
        "/films/b.mkv",
        2,
        3.5,
    )


def test_labels_and_folds_do_not_make_another_plan(tmp_path: Path) -> None:
    plan = make_plan(films(), [Target("s", "x")], workspace=tmp_path)
    relabelled = films().with_clips(replace(clip, level="S") for clip in films())
    folded = relabelled.with_column("fold:a", {"b-00": "1"})
    same = make_plan(folded, [Target("s", "x")], workspace=tmp_path)
    assert same.clips_sha256 == plan.clips_sha256
    other = make_plan(films(9), [Target("s", "x")], workspace=tmp_path)
    assert other.clips_sha256 != plan.clips_sha256


def test_units_hold_whole_blocks_of_every_store(tmp_path: Path) -> None:
    targets = [Target("s", "x", block_rows=4), Target("t", "y", block_rows=6)]
    plan = make_plan(films(40), targets, workspace=tmp_path)
    assert (plan.unit_rows, plan.n_units) == (12, 4)
    assert plan.unit_range(3) == range(36, 40)
    with pytest.raises(FixUsage):
        plan.unit_range(4)


def test_each_worker_gets_every_kth_unit(tmp_path: Path) -> None:
    plan = make_plan(films(40), [Target("s", "x", block_rows=4)], workspace=tmp_path)
    # Of ten units, the three workers get 0, 3, 6, 9, then 1, 4, 7, then 2, 5, 8.
    assert plan.worker_rows("0/3") == [
        r for unit in (0, 3, 6, 9) for r in range(4 * unit, 4 * unit + 4)
    ]
    assert plan.worker_rows("1/3") == [*range(4, 8), *range(16, 20), *range(28, 32)]
    assert plan.worker_rows("2/3") == [*range(8, 12), *range(20, 24), *range(32, 36)]
    with pytest.raises(FixUsage, match=r"with I below K, got .3/3"):
        plan.worker_rows("3/3")
    with pytest.raises(
        FixUsage, match=r"must be I/K, such as 0/8, with I below K, got .1."
    ):
        plan.worker_rows("1")
    for worker in ("²/³", "-1/3", "1/0", "1/3/4", "٣/٤", "", "1/" + 30 * "9"):
        with pytest.raises(FixUsage, match="--worker must be I/K"):
            plan.worker_rows(worker)


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    targets = [Target("s", "x", arrays=("clip", "frames"), weights="/w", block_rows=16)]
    plan = make_plan(films(), targets, workspace=tmp_path, timeout_s=9.0)
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan_file(tmp_path / "plan.json") == plan


def test_a_store_gets_the_licence_of_the_options_then_of_the_manifest(
    tmp_path: Path,
) -> None:
    stated = films(2)
    header = structs.replace(stated.header, licence="CC0-1.0", citation="Doe (2026).")
    stated = replace(stated, header=header)

    def terms_after(manifest: Manifest, name: str, **given: str) -> tuple[str, str]:
        target = Target(str(tmp_path / name), "descriptors")
        load_targets(make_plan(manifest, [target], workspace=tmp_path, **given))
        return open_store(tmp_path / name).terms

    assert terms_after(stated, "a") == ("CC0-1.0", "Doe (2026).")
    assert terms_after(stated, "b", licence="MIT") == ("MIT", "Doe (2026).")
    # A later state of the manifest.
    assert terms_after(stated, "b") == (
        "MIT",
        "Doe (2026).",
    )
    # A licence that is added to the manifest later, or given to a later run.
    assert terms_after(films(2), "c") == ("", "")
    assert terms_after(stated, "c") == ("CC0-1.0", "Doe (2026).")
    assert terms_after(films(2), "d") == ("", "")
    assert terms_after(films(2), "d", licence="MIT") == ("MIT", "")
    with pytest.raises(AlreadyThere, match="has the licence 'MIT', got 'BSD'"):
        terms_after(films(2), "d", licence="BSD")
    with pytest.raises(FixUsage, match="one line"):
        terms_after(films(2), "e", licence="MIT\n# Heading")
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", FixInput),
        ("[]", FixInput),
        ('{"schema": "obygaze-extract-plan/2"}', Mismatch),
        ('{"schema": "obygaze-extract-plan/1", "rows": []}', FixInput),
        (
            '{"schema": "obygaze-extract-plan/1", "rows": [{"x": 1}], "targets": []}',
            FixInput,
        ),
    ],
)
def test_invalid_plan_files(tmp_path: Path, text: str, error: type[Exception]) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(error):
        read_plan_file(path)
    with pytest.raises(NotFound):
        read_plan_file(tmp_path / "none.json")


def test_invalid_plans(tmp_path: Path) -> None:
    with pytest.raises(FixUsage, match="backbone"):
        make_plan(films(), [], workspace=tmp_path)
    with pytest.raises(FixUsage, match="a store of its own"):
        make_plan(films(), [Target("s", "x"), Target("s", "y")], workspace=tmp_path)
    with pytest.raises(FixInput, match="no clips"):
        make_plan(films(0), [Target("s", "x")], workspace=tmp_path)


def workspace_with_a_plan(root: Path) -> Path:
    """A workspace with a manifest of clips without video, and the plan of their extraction."""
    root.mkdir()
    unlinked = films().with_clips(replace(clip, video="") for clip in films())
    write_manifest(unlinked, root / "manifests" / "films.toml")
    plan = root / "plan.json"
    call_obygaze(
        "-C", root, "extract", "plan", "films", "-b", "descriptors", "-o", plan
    ).ok()
    return plan


@pytest.mark.parametrize("command", ["run", "status"])
def test_a_plan_of_a_copied_workspace_does_not_extract_into_the_other(
    tmp_path: Path, command: str
) -> None:
    """It reported the stores of the old workspace as those of the copy."""
    plan = workspace_with_a_plan(tmp_path / "old")
    copied = tmp_path / "copy"
    shutil.copytree(tmp_path / "old", copied)
    refused = call_obygaze("-C", copied, "extract", command, copied / "plan.json")
    assert refused.code == 2
    assert f"the plan is of the workspace {tmp_path / 'old'}" in refused.stderr
    assert f"obygaze -C {copied} extract plan films" in refused.stderr
    assert not (copied / "stores").exists() and not (tmp_path / "old/stores").exists()
    # From any folder, a worker takes the workspace of the plan.
    for words in (("-C", tmp_path / "old"), ()):
        accepted = call_obygaze(*words, "extract", command, plan)
        assert "not of" not in accepted.stderr
        assert accepted.code == (1 if command == "run" else 0)  # there are no videos


def test_a_copy_of_a_plan_in_the_current_workspace_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace_with_a_plan(tmp_path / "old")
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    run = call_obygaze("extract", "run", "plan.json")
    assert f"the plan is of the workspace {tmp_path / 'old'}" in run.stderr
    monkeypatch.chdir(tmp_path / "old")
    run = call_obygaze("extract", "run", "plan.json")
    assert "the plan is of the workspace" not in run.stderr


@pytest.mark.parametrize("command", ["run", "status"])
def test_a_plan_of_a_moved_workspace_does_not_make_the_old_one_again(
    tmp_path: Path, command: str
) -> None:
    workspace_with_a_plan(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    plan = tmp_path / "new" / "plan.json"
    for words in ((), ("-C", tmp_path / "new")):
        refused = call_obygaze(*words, "extract", command, plan)
        assert refused.code == 1
        assert "the workspace of the plan does not exist" in refused.stderr
        assert f"extract plan films -b BACKBONE -o {plan}" in refused.stderr
    assert not (tmp_path / "old").exists()


def test_a_plan_that_is_not_there_is_named_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound, match="no plan file") as caught:
        read_plan_file(Path("plans/plan.json"))
    assert caught.value.where == str(tmp_path / "plans" / "plan.json")


def test_a_plan_runs_only_the_code_that_it_was_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = tmp_path / "mine.py"
    code.write_text("def net(): ...\n", "utf-8")
    target = Target("s", f"{code}:net", code=version_of_code(f"{code}:net"))
    plan = make_plan(films(), [target], workspace=tmp_path)
    write_plan(plan, tmp_path / "plan.json")
    assert chosen_plan(tmp_path / "plan.json") == chosen_plan(plan) == plan
    code.write_text("open('it-ran', 'w')\n", "utf-8")
    for source in (plan, tmp_path / "plan.json"):
        with pytest.raises(Mismatch, match="is not the code of the plan"):
            chosen_plan(source)
    # The status of its stores needs no code.
    assert extraction_status(["plan.json"]).parts[0].ok == 0
    without = replace(plan, targets=(replace(target, code=""),))
    write_plan(without, tmp_path / "plan.json", force=True)
    with pytest.raises(Mismatch, match="none in the plan"):
        chosen_plan(tmp_path / "plan.json")
    assert not (tmp_path / "it-ran").exists()
