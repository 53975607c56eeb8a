import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from support.damage import flip_bit
from support.filled_stores import (
    ARRAYS,
    MAKER,
    N_BLOCKS,
    N_ROWS,
    POOLED,
    compute,
    expected_rows,
    fails_at_first,
    fill,
    next_block,
    plan,
    planned_rows,
    values_of,
)
from support.planted_stores import write
from support.written_stores import a_recipe, check_store, files_of, lasting_bytes

from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    Mismatch,
    NotFound,
)
from obygaze_features.store.filling import Filling, choose_block
from obygaze_features.store.layout import ROWS_JSON, Array
from obygaze_features.store.reading import open_store
from obygaze_features.store.records import (
    BlockRecord,
    Maker,
    ManifestMark,
    Origin,
    decode,
)
from obygaze_features.store.rows import FAILED, NOT_EXTRACTED
from obygaze_features.store.sealing import seal

VALUES = values_of()


def filled_store(target: Path) -> str:
    """A sealed store; returns its seal."""
    fill(plan(target), VALUES)
    return seal(target).seal


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_filled_store_is_the_one_that_is_written_at_once(tmp_path: Path) -> None:
    filling = plan(tmp_path / "s")
    assert filling.needed == filling.missing() == list(range(N_BLOCKS))
    assert fill(filling, VALUES, start=3) == N_BLOCKS
    assert next_block(filling, 0) is None and filling.missing() == []
    written = seal(tmp_path / "s")
    document = check_store(tmp_path / "s", expected_rows(), VALUES)
    assert names_in(tmp_path) == {"s"}
    write(tmp_path / "t", expected_rows(), VALUES, makers=[MAKER])
    assert lasting_bytes(tmp_path / "s") == lasting_bytes(tmp_path / "t")
    assert document["makers"][0]["device_name"] == "a cpu"
    # Again: it is there.
    assert seal(tmp_path / "s") == (tmp_path / "s", written.seal)


def test_a_plan_is_made_once(tmp_path: Path) -> None:
    first, second = plan(tmp_path / "s"), plan(tmp_path / "s")
    assert first.digest == second.digest and names_in(tmp_path) == {"s.next"}
    assert [row[:4] for row in second.rows] == [row[:4] for row in planned_rows()]
    different = "being filled with different settings"
    with pytest.raises(Mismatch, match=different) as caught:
        plan(tmp_path / "s", arrays=ARRAYS[:1])
    assert "s.next" in caught.value.hint
    with pytest.raises(Mismatch, match=different):
        plan(tmp_path / "s", recipe=a_recipe("dinov2-b"))
    with pytest.raises(Mismatch, match="settings: recipe, clips, times, arrays"):
        plan(tmp_path / "s", rows=[row._replace(end_s=9.0) for row in planned_rows()])
    filled_store(tmp_path / "t")
    with pytest.raises(AlreadyThere, match="this store exists") as error:
        plan(tmp_path / "t")
    assert "remove the folder if the store is not needed" in str(error.value.hint)
    with pytest.raises(NotFound, match="not being filled"):
        seal(tmp_path / "u")


def test_a_block_is_written_once(tmp_path: Path) -> None:
    filling, other = plan(tmp_path / "s"), plan(tmp_path / "s")
    with filling.begin(2, MAKER) as writer, other.begin(2, MAKER) as second:
        for number in writer.rows:
            row = filling.rows[number]
            writer.add(row, {a.name: VALUES[a.name][number] for a in ARRAYS})
            second.add(row, {a.name: VALUES[a.name][number] * 2 for a in ARRAYS})
        assert not other.is_done(2) and writer.commit() is True
        before = files_of(filling.block_folder(2))
        assert other.is_done(2) and second.commit() is False
    assert files_of(filling.block_folder(2)) == before
    assert names_in(filling.folder / "blocks") == {"00002"}
    assert filling.begin(2, MAKER) is None


def test_a_row_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    filling = plan(tmp_path / "s")
    first, second, *_ = filling.rows
    good = {array.name: VALUES[array.name][0] for array in ARRAYS}
    nan = good | {"pooled": np.full(16, np.nan, "f4")}
    short = good | {"pooled": np.zeros(8, "f4")}
    with filling.begin(0, MAKER) as writer:
        with pytest.raises(ValueError, match="the clip 'clip 0', got 'clip 1'"):
            writer.add(second, good)
        with pytest.raises(FixInput, match="pooled of clip 'clip 0' has values that"):
            writer.add(first, nan)
        with pytest.raises(FixInput, match=r"float32 \(8,\), expected float32 \(16,\)"):
            writer.add(first, short)
        with pytest.raises(ValueError, match="no values for other rows"):
            writer.add(first._replace(status=FAILED), good)
        writer.add(first, good)


def test_another_kind_is_refused_and_another_machine_of_it_is_not(tmp_path):
    filling = plan(tmp_path / "s")
    cuda = Maker("obygaze 1", "cuda", "H100", "float32")
    with pytest.raises(Mismatch, match=r"cpu, float32, version 1 of numbers, got cud"):
        filling.begin(0, cuda)
    other_cpu = replace(MAKER, device_name="another cpu")
    assert compute(filling, 0, VALUES, lambda number: False, other_cpu)
    fill(filling, VALUES)
    seal(tmp_path / "s")
    rows = expected_rows()
    rows[:16] = expected_rows(fails=lambda number: False)[:16]
    document = check_store(tmp_path / "s", rows, VALUES)
    names = [maker["device_name"] for maker in document["makers"]]
    assert names == ["another cpu", "a cpu"]


def test_a_seal_waits_for_all_blocks_or_is_told_not_to(tmp_path: Path) -> None:
    filling = plan(tmp_path / "s")
    with pytest.raises(FixInput, match="6 of 6 blocks are missing"):
        seal(tmp_path / "s", seal_now=True)
    compute(filling, 1, VALUES)
    compute(filling, 5, VALUES)
    with pytest.raises(FixInput, match="4 of 6 blocks are missing"):
        seal(tmp_path / "s")
    assert names_in(tmp_path) == {"s.next"}
    seal(tmp_path / "s", seal_now=True)
    rows = expected_rows()
    for number in (*range(16), *range(32, 80)):
        rows[number] = planned_rows()[number]._replace(status=NOT_EXTRACTED)
    check_store(tmp_path / "s", rows, VALUES)


@pytest.mark.parametrize("file", ["pooled", "rows.json"])
def test_a_damaged_block_counts_as_not_done(tmp_path: Path, file: str) -> None:
    filling = plan(tmp_path / "s")
    fill(filling, VALUES)
    path = filling.block_folder(4) / file
    if file == "pooled":
        flip_bit(path, 99)
    else:
        path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(FixInput, match="damaged"):
        seal(tmp_path / "s")
    assert filling.missing() == [4]
    assert fill(filling, VALUES) == 1
    seal(tmp_path / "s")
    check_store(tmp_path / "s", expected_rows(), VALUES)
    assert names_in(tmp_path) == {"s"}


def test_each_flipped_bit_of_the_record_of_a_block_is_found(tmp_path: Path) -> None:
    filling = plan(tmp_path / "s")
    fill(filling, VALUES)
    data = (filling.block_folder(4) / ROWS_JSON).read_bytes()
    assert decode(data, BlockRecord, "here") == filling.read_block(4)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        with pytest.raises(Corrupt):
            decode(bytes(changed), BlockRecord, "here")


def test_a_late_worker_changes_nothing(tmp_path: Path) -> None:
    """It wakes when the store is sealed, and when another plan has the place of its own."""
    filling = plan(tmp_path / "s")
    late = filling.begin(3, MAKER)
    assert late is not None
    for number in late.rows:
        row = filling.rows[number]
        late.add(row, {a.name: VALUES[a.name][number] * 3 for a in ARRAYS})
    fill(filling, VALUES)
    sealed = seal(tmp_path / "s").seal
    before = files_of(tmp_path)
    assert late.commit() is False and filling.begin(3, MAKER) is None
    assert next_block(filling, 0) is None and filling.is_done(3)
    late.__exit__(None, None, None)
    assert files_of(tmp_path) == before
    # A block of the earlier plan in a plan that was made since.
    computed = [fails_at_first(number) for number in range(N_ROWS)]
    retry = plan(tmp_path / "s", replaces=sealed, computed=computed)
    assert compute(filling, 3, values_of(9)) is True
    fill(retry, VALUES)
    with pytest.raises(FixInput, match="1 of 6 blocks are missing or damaged"):
        seal(tmp_path / "s")
    fill(retry, VALUES)
    seal(tmp_path / "s")
    check_store(tmp_path / "s", expected_rows(), VALUES)


def test_failed_rows_that_are_not_computed_again_keep_their_reason(tmp_path) -> None:
    sealed = filled_store(tmp_path / "s")
    computed = [fails_at_first(number) for number in range(N_ROWS)]
    filling = plan(tmp_path / "s", replaces=sealed, computed=computed)
    compute(filling, 0, VALUES, fails=lambda number: False)
    seal(tmp_path / "s", seal_now=True)
    rows = expected_rows()
    rows[:16] = expected_rows(fails=lambda number: False)[:16]
    check_store(tmp_path / "s", rows, VALUES)


def test_a_store_that_grows_keeps_what_people_wrote(tmp_path: Path) -> None:
    """The card has what they wrote and removed, the new counts, and the manifests of all clips."""
    rows = planned_rows(96)
    sealed = filled_store(tmp_path / "s")
    card = tmp_path / "s" / "README.md"
    text = card.read_text(encoding="utf-8")
    for line, own in (
        ("task_categories:", "doi: 10.5281/zenodo.1\ntask_categories:"),
        ("## Limits", "## Who made it\n\nAda and Ben.\n\n## Limits"),
        ("in 94 rows.", "in 94 rows of our pilot."),
    ):
        assert text.count(line) == 1
        text = text.replace(line, own)
    start = text.index("## What is not inside")
    without = text[:start] + text[text.index("## Licence and citation") :]
    # An editor of another system ends lines in another way.
    card.write_bytes(f"{without}\nOur last words.".replace("\n", "\r\n").encode())
    mark = ManifestMark("sequel", "9" * 64)
    more = {"replaces": sealed, "rows": rows, "manifest": mark}
    filling = plan(tmp_path / "s", computed=[False] * 94 + [True] * 2, **more)
    fill(filling, values_of(n_rows=96))
    seal(tmp_path / "s")
    grown = card.read_text(encoding="utf-8")
    head, body = grown.split("---\n")[1:]
    assert "doi: 10.5281/zenodo.1\ntask_categories:" in head
    assert "## Who made it\n\nAda and Ben.\n\n## Limits" in body
    assert "in 94 rows of our pilot." in body and "in 96 rows." in body
    assert "the manifest 'sequel', and earlier of 'films'" in body
    assert "## What is not inside" not in body
    assert grown.endswith("Our last words.\n")
    new_seal = open_store(tmp_path / "s").seal
    assert grown.count(new_seal) == 3 and grown.count(sealed) == 1
    assert open_store(tmp_path / "s").record.earlier_manifests == ("films",)


def test_a_change_that_cannot_be_is_refused(tmp_path: Path) -> None:
    sealed = filled_store(tmp_path / "s")
    exchanged = planned_rows()
    exchanged[3:5] = exchanged[4], exchanged[3]
    again = [fails_at_first(number) for number in range(N_ROWS)]
    with_features = [number == 5 or flag for number, flag in enumerate(again)]
    more_arrays = [*ARRAYS, Array.of("counts", "int32", (2,))]
    refused = (
        ("the store to change no longer exists", {"replaces": "0" * 64}),
        ("the recipes differ", {"recipe": a_recipe("dinov2-b")}),
        ("expected all rows of the store first", {"n_rows": 20}),
        ("then new rows to compute", {"n_rows": 95, "computed": [False] * 95}),
        ("first, in the same order", {"rows": exchanged, "computed": again}),
        ("already has features", {"computed": with_features}),
        ("the arrays differ from those of the store", {"arrays": [POOLED]}),
        ("the arrays differ from those of the store", {"arrays": more_arrays}),
    )
    for words, change in refused:
        with pytest.raises(Mismatch, match=words):
            plan(tmp_path / "s", **({"replaces": sealed} | change))
    assert names_in(tmp_path) == {"s"}


def test_of_two_changes_the_second_is_told(tmp_path: Path) -> None:
    sealed = filled_store(tmp_path / "s")
    computed = [fails_at_first(number) for number in range(N_ROWS)]
    fill(plan(tmp_path / "s", replaces=sealed, computed=computed), VALUES)
    shutil.copytree(tmp_path / "s.next", tmp_path / "kept")
    seal(tmp_path / "s")
    origins = [Origin("elsewhere", "2" * 64)]
    other = tmp_path / "other"
    write(other, expected_rows(), VALUES, makers=[MAKER], origins=origins)
    shutil.rmtree(tmp_path / "s")
    other.rename(tmp_path / "s")
    (tmp_path / "kept").rename(tmp_path / "s.next")
    with pytest.raises(Mismatch, match="no longer exists"):
        seal(tmp_path / "s")
    assert (tmp_path / "s.next").exists()


def test_a_worker_begins_where_nobody_works() -> None:
    needed = range(6)
    assert choose_block(needed, set(), {}, 4) == 4
    # After the last block comes the first.
    assert choose_block(needed, {4}, {5: 1}, 4) == 0
    # Where all are begun, the one that was begun the fewest times.
    assert choose_block(needed, {0, 1, 2, 3}, {4: 2, 5: 1}, 4) == 5
    assert choose_block(needed, set(needed), {}, 4) is None


def test_a_damaged_plan_is_said(tmp_path: Path) -> None:
    filling = plan(tmp_path / "s")
    table = filling.folder / "clips.json"
    data = table.read_bytes()
    table.chmod(0o644)
    rows, computed = json.loads(data)
    fewer = json.dumps([rows[:-1], computed[:-1]]).encode()
    half = data.replace(b"0.5", b"half")
    for spoilt in (fewer, data[:-1], data[:-9], half, b"", b"\xff\n"):
        table.write_bytes(spoilt)
        for look in (Filling.open, plan):
            with pytest.raises(Corrupt, match=r"clips.json is damaged"):
                look(tmp_path / "s")
    table.write_bytes(data)
    document = filling.folder / "plan.json"
    text = document.read_text()
    document.chmod(0o644)
    document.write_text(text.replace('"file_rows": 16', '"file_rows": 0'))
    with pytest.raises(Corrupt, match="chunks and files of pooled have"):
        Filling.open(tmp_path / "s")


def test_a_filling_of_other_arrays_is_not_removed(tmp_path: Path) -> None:
    """A store of this name may have been made while the blocks were computed."""
    filling = plan(tmp_path / "s")
    fill(filling, VALUES)
    filling.folder.rename(tmp_path / "kept")
    write(tmp_path / "s", expected_rows(), VALUES, arrays=[POOLED], makers=[MAKER])
    (tmp_path / "kept").rename(filling.folder)
    with pytest.raises(Mismatch, match="a different store under this name"):
        seal(tmp_path / "s")
    assert filling.missing() == []
