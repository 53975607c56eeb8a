"""What made each row is kept with the row; rows of several kinds are refused unless allowed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.cli import call_obygaze
from support.stores import block_of, plan_store, some_values, tree

from obygaze_features.core.errors import Corrupt, Mismatch
from obygaze_features.store import (
    RowStatus,
    StoreWriter,
    diff_stores,
    merge,
    open_store,
    subset,
)
from obygaze_features.store.format.makers import MadeRows, Maker, Makers
from obygaze_features.store.format.records import Marker, with_checksum
from obygaze_features.store.read.verify import verify
from obygaze_features.store.write import commit

CPU = Maker(
    "obygaze 0.1.0",
    "cpu",
    "Some CPU",
    "float32",
    "node1",
    (("av", "18.0"), ("torch", "2.8")),
)
GPU = replace(CPU, device="cuda", device_name="Some GPU")
NEW = replace(CPU, program="obygaze 0.2.0")
FAILED = RowStatus.failed("decode", "Error", "")


def commit_rows(
    writer: StoreWriter,
    block: int,
    maker: Maker | None,
    *,
    failed: Sequence[int] = (),
    seed: int = 0,
) -> None:
    """Commit a block that one maker made."""
    first, after = writer.plan.block_range(block)
    values = some_values(writer.plan.n_clips, writer.plan.arrays, seed)
    statuses = [FAILED if row in failed else RowStatus() for row in range(first, after)]
    makers = [maker] * (after - first)
    writer.commit_block(
        block, block_of(values, (first, after)), statuses, makers=makers
    )


def a_store(path: Path, *makers: Maker | None, mixed: bool = True) -> Path:
    """A sealed store with a block of four clips from each maker."""
    plan_store(path, 4 * len(makers), 4)
    writer = StoreWriter(path, mixed=mixed)
    for block, maker in enumerate(makers):
        commit_rows(writer, block, maker)
    writer.seal()
    return path


@pytest.mark.parametrize(
    "other",
    [NEW, GPU, replace(CPU, precision="bfloat16")],
    ids=["version", "device", "precision"],
)
def test_clips_of_another_kind_are_refused_unless_allowed(
    tmp_path: Path, other: Maker
) -> None:
    plan_store(tmp_path / "s", 12, 4)
    commit_rows(StoreWriter(tmp_path / "s"), 0, CPU)
    before = tree(tmp_path / "s")
    with pytest.raises(Mismatch, match=r"obygaze 0\.1\.0 on cpu, float32") as error:
        commit_rows(StoreWriter(tmp_path / "s"), 1, other)
    assert "--mixed" in str(error.value.hint)
    assert tree(tmp_path / "s") == before
    commit_rows(StoreWriter(tmp_path / "s", mixed=True), 1, other)
    # The mixture stays one: the first kind is not welcome again without saying so.
    with pytest.raises(Mismatch):
        commit_rows(StoreWriter(tmp_path / "s"), 2, CPU)


@pytest.mark.parametrize(
    "other",
    [
        replace(CPU, host="node2"),
        replace(CPU, device_name="Another CPU"),
        replace(CPU, versions=(("av", "18.0"), ("numpy", "9"), ("torch", "2.8"))),
        replace(CPU, versions=(("av", "18.0"), ("torch", "2.9"))),
        None,
    ],
    ids=["host", "model", "unrelated package", "torch", "not recorded"],
)
def test_what_is_legitimate_is_not_refused(tmp_path: Path, other: Maker | None) -> None:
    a_store(tmp_path / "s", CPU, other, CPU, mixed=False)
    assert open_store(tmp_path / "s").sealed


def test_those_that_begin_at_the_same_time_agree(tmp_path: Path) -> None:
    """Neither sees a clip of the other: the name that only one can make decides."""
    plan_store(tmp_path / "s", 12, 4)
    one, other = StoreWriter(tmp_path / "s"), StoreWriter(tmp_path / "s")
    one.refuse_other_kinds(CPU.kind)
    other.refuse_other_kinds(GPU.kind)
    assert commit.decide_kind(tmp_path / "s", one.plan, CPU.kind) == CPU.kind
    assert commit.decide_kind(tmp_path / "s", other.plan, GPU.kind) == CPU.kind
    with pytest.raises(Mismatch):
        commit_rows(other, 1, GPU)
    commit_rows(one, 0, CPU)
    report = verify(tmp_path / "s")
    assert (report.problems, report.warnings) == ([], [])


def test_blocks_without_features_decide_nothing(tmp_path: Path) -> None:
    plan_store(tmp_path / "s", 8, 4)
    commit_rows(StoreWriter(tmp_path / "s"), 0, GPU, failed=range(4))
    commit_rows(StoreWriter(tmp_path / "s"), 1, CPU)
    made_by = open_store(tmp_path / "s").commits.made_by()
    assert (made_by.clips, made_by.unrecorded) == ({CPU: 4}, 0)


def test_a_row_that_is_retried_gets_its_own_maker(tmp_path: Path) -> None:
    plan_store(tmp_path / "s", 4, 4)
    commit_rows(StoreWriter(tmp_path / "s"), 0, CPU, failed=[1, 2])
    values = some_values(4, StoreWriter(tmp_path / "s").plan.arrays)
    part = {name: array[2:3] for name, array in values.items()}
    later = replace(CPU, host="node2")
    writer = StoreWriter(tmp_path / "s")
    writer.replace_rows(0, [2], part, [RowStatus()], makers=[later])
    marker = writer.marker(0)
    assert marker is not None
    assert marker.makers.runs == (
        MadeRows(0, 2, CPU),
        MadeRows(2, 3, later),
        MadeRows(3, 4, CPU),
    )
    with pytest.raises(Mismatch):
        writer.replace_rows(0, [1], part, [RowStatus()], makers=[NEW])


def test_a_seal_says_what_made_each_row_without_names_of_machines(
    tmp_path: Path,
) -> None:
    other = replace(CPU, host="node2")
    a_store(tmp_path / "s", CPU, other, CPU, None)
    seal = json.loads((tmp_path / "s/seal.json").read_bytes())
    assert [(item["host"], item["rows"]) for item in seal["makers"]] == [
        ("1", [[0, 4], [8, 12]]),
        ("2", [[4, 8]]),
    ]
    assert "node" not in (tmp_path / "s/seal.json").read_text()
    commits = open_store(tmp_path / "s").commits
    assert [commits.maker(row) for row in (0, 5, 13)] == [
        replace(CPU, host="1"),
        replace(CPU, host="2"),
        None,
    ]
    assert commits.made_by().unrecorded == 4


def test_only_the_marker_the_seal_and_the_card_depend_on_what_made_rows(
    tmp_path: Path,
) -> None:
    for name, maker in (("one", CPU), ("two", GPU)):
        plan_store(tmp_path / name, 8, 4)
        # The same plan, so that nothing else differs.
        (tmp_path / name / "store.json").write_bytes(
            (tmp_path / "one/store.json").read_bytes()
        )
        writer = StoreWriter(tmp_path / name)
        commit_rows(writer, 0, maker)
        commit_rows(writer, 1, maker)
        writer.seal()
    one, two = tree(tmp_path / "one"), tree(tmp_path / "two")
    assert {
        name for name in one.keys() | two.keys() if one.get(name) != two.get(name)
    } == {
        "README.md",
        "seal.json",
    }


def test_a_mixture_is_shown_wherever_a_store_is_described(tmp_path: Path) -> None:
    torch_of_later = replace(GPU, versions=(("av", "18.0"), ("torch", "2.9")))
    store = a_store(tmp_path / "s", CPU, torch_of_later)
    words = "obygaze 0.1.0 on cuda (Some GPU), float32, av 18.0, torch 2.9"
    mixture = (
        "its clips were made in 2 different ways: obygaze 0.1.0 on cpu, float32; obygaze 0.1.0 on "
        "cuda, float32"
    )
    versions = "its clips were made with 2 versions of torch: 2.8, 2.9"
    info = call_obygaze("store", "info", store).ok().stdout
    checked = call_obygaze("store", "verify", store).ok()
    for text in (
        info,
        (store / "README.md").read_text(),
        checked.stdout + checked.stderr,
    ):
        for expected in (words, mixture, versions):
            assert expected in " ".join(text.split()), expected
    facts = call_obygaze("store", "info", store, "--json").ok().json()
    assert (facts["mixed"], facts["made_by_unknown"]) == (True, 0)
    assert [(item["device"], item["clips"]) for item in facts["made_by"]] == [
        ("cpu", 4),
        ("cuda", 4),
    ]
    # Two stores with the same numbers, of which one is a mixture.
    pure = a_store(tmp_path / "pure", CPU, CPU)
    found = diff_stores(open_store(pure), open_store(store))
    assert found.same
    shown = call_obygaze("store", "diff", pure, store).ok().stdout
    assert f"made by, second: 4 clips: {words}" in shown
    assert "made by" not in call_obygaze("store", "diff", pure, pure).ok().stdout


def test_copies_keep_what_made_their_rows(tmp_path: Path) -> None:
    one = open_store(a_store(tmp_path / "one", CPU))
    other = open_store(a_store(tmp_path / "other", CPU, GPU))
    with pytest.raises(Mismatch, match="cuda"):
        merge([one, other], tmp_path / "both")
    assert not (tmp_path / "both").exists()
    merge([one, other], tmp_path / "both", mixed=True)
    nameless = [replace(maker, host="") for maker in (CPU, GPU)]
    made_by = open_store(tmp_path / "both").commits.made_by()
    assert made_by.clips == {nameless[0]: 4, nameless[1]: 4}
    # A part of a mixture is taken without a question; this one is none.
    subset(other, tmp_path / "part", clips=other.clip_ids[4:6].tolist())
    assert open_store(tmp_path / "part").commits.made_by().clips == {nameless[1]: 2}


def test_a_marker_with_an_impossible_maker_is_damaged(tmp_path: Path) -> None:
    plan_store(tmp_path / "s", 8, 4)
    writer = StoreWriter(tmp_path / "s")
    commit_rows(writer, 1, CPU)
    path = tmp_path / "s/commits/block-00001.json"
    document = json.loads(path.read_bytes())
    del document["sha256"]

    def read(rows: Any, **changes: Any) -> None:
        made = {**document["makers"][0], "rows": rows, **changes}
        path.write_bytes(with_checksum({**document, "makers": [made]}))
        open_store(tmp_path / "s").commits.made_by()

    read([[4, 8]])
    for wrong in (
        [[4, 6], [5, 8]],
        [[4, 4]],
        [[-1, 8]],
        [["4", 8]],
        [[True, 8]],
        [[3, 8]],
        7,
    ):
        with pytest.raises(Corrupt):
            read(wrong)
    with pytest.raises(Corrupt):
        read([[4, 8]], device=3)
    with pytest.raises(Corrupt):
        read([[4, 8]], versions={"torch": 2})
    read([[4, 8]], key_of_a_later_version=1)


def test_runs_of_one_maker_are_joined() -> None:
    other = replace(CPU, host="b")
    makers = Makers.of_rows(10, [CPU, CPU, None, other, CPU])
    assert makers.runs == (
        MadeRows(10, 12, CPU),
        MadeRows(13, 14, other),
        MadeRows(14, 15, CPU),
    )
    joined = Makers.of_parts([makers, Makers.of_rows(15, [CPU])])
    assert joined.runs[-1] == MadeRows(14, 16, CPU)
    assert [makers.of_row(row) for row in (9, 11, 12, 13, 15)] == [
        None,
        CPU,
        None,
        other,
        None,
    ]
    assert makers.clips(not_ok=[10, 12, 13]) == {CPU: 2}
    assert makers.between(11, 14).runs == (
        MadeRows(11, 12, CPU),
        MadeRows(13, 14, other),
    )
    assert Makers.from_json(makers.to_json()) == makers


def test_a_marker_without_makers_is_written_as_before(tmp_path: Path) -> None:
    plan_store(tmp_path / "s", 4, 4)
    commit_rows(StoreWriter(tmp_path / "s"), 0, None)
    data = (tmp_path / "s/commits/block-00000.json").read_bytes()
    assert b"makers" not in data
    assert Marker.from_bytes(data, "m").makers == Makers()
    assert not (tmp_path / "s/commits/kind.json").exists()
