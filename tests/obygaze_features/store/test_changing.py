"""Stores of rows of other stores: subsets, mergers, and stores without withdrawn clips."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.filled_stores import ARRAYS, plan
from support.store_servers import web_server
from support.stores import made_store
from support.withdrawn_stores import (
    FILM,
    KIND,
    MAKER,
    N_ROWS,
    PLANTED_ROWS,
    has_planted,
    remove_replaced,
    rows_of,
    values_of,
    write,
)
from support.written_stores import (
    MANIFEST,
    a_recipe,
    check_all,
    check_store,
    some_rows,
)

from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
)
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.card import Terms, with_terms
from obygaze_features.store.changing import merge, subset
from obygaze_features.store.copying import pull
from obygaze_features.store.filling import plan_filling
from obygaze_features.store.reading import open_store
from obygaze_features.store.records import Maker, ManifestMark
from obygaze_features.store.rows import FAILED, NO_VIDEO, OK, WITHDRAWN, Row


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "stores").mkdir()
    return Workspace(tmp_path)


@pytest.fixture
def store(workspace: Workspace) -> Path:
    return write(workspace.root / "stores" / "films")


# Subsets.


def test_a_name_of_a_film_and_of_a_clip_is_refused(
    store: Path, workspace: Workspace
) -> None:
    rows = rows_of()
    rows[9] = rows[9]._replace(clip_id=FILM)
    both = write(workspace.root / "stores" / "both", rows)
    with pytest.raises(FixInput, match="'film-3' is the id of a film and of a clip"):
        subset(both, without=[FILM], reason="asked", workspace=workspace)
    with pytest.raises(FixInput, match="'film-3' is the id of a film and of a clip"):
        subset(both, workspace.root / "part", without=[FILM])
    assert open_store(both).record.rows.withdrawn == 0
    # Where the film has no other clip, both are the same.
    for number in (10, 11):
        rows[number] = rows[number]._replace(movie_id="film-4")
    alone = write(workspace.root / "stores" / "alone", rows)
    made = subset(alone, without=[FILM], reason="asked", workspace=workspace)
    assert list(made.clips) == [FILM]


def test_a_subset_of_a_remote_store_keeps_no_secret_of_its_address(
    store: Path, tmp_path: Path
) -> None:
    pytest.importorskip("obstore")
    with web_server(store.parent) as server:
        url = f"{server.url}/films?signature=secret"
        subset(url, tmp_path / "part", clips=["clip 40", "clip 7"])
    rows = [rows_of()[7], rows_of()[40]]
    values = {name: array[[7, 40]] for name, array in values_of().items()}
    document = check_store(tmp_path / "part", rows, values)
    assert "secret" not in json.dumps(document["origins"])
    assert document["origins"][0]["place"].startswith("http://127.0.0.1")


def test_what_a_subset_refuses(store: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    with pytest.raises(NotFound, match="no film 'film-99'"):
        subset(store, part, films=["film-99"])
    with pytest.raises(NotFound, match="'clip 99'"):
        subset(store, part, clips=["clip 99"])
    with pytest.raises(NotFound, match="film or clip"):
        subset(store, part, without=["clip 99"])
    with pytest.raises(FixInput, match="no row is left"):
        subset(store, part, films=[FILM], without=[FILM])
    with pytest.raises(FixUsage, match="needs a name"):
        subset(store, without=[FILM])
    with pytest.raises(FixUsage, match="a reason belongs"):
        subset(store, part, without=[FILM], reason="asked for")
    with pytest.raises(AlreadyThere):
        subset(store, store, films=[FILM])


# Withdrawal.


def test_a_withdrawn_film_is_in_no_file(store: Path, workspace: Workspace) -> None:
    seal = open_store(store).seal
    assert has_planted(store)
    made = subset(
        store, without=[FILM], reason="the owner asked", author="A", workspace=workspace
    )
    before = store.with_name(f"films.before-{seal[:8]}")
    rows = rows_of()
    for number in PLANTED_ROWS:
        line = open_store(store).rows[number]
        assert line.reason.endswith(": the owner asked")
        assert len(line.reason) == len("2026-11-25: the owner asked")
        rows[number] = rows[number]._replace(status=WITHDRAWN, reason=line.reason)
    document = check_store(store, rows, values_of())
    assert document["replaces"] == [seal]
    (entry,) = document["tombstones"]
    del entry["date"]
    assert entry == {
        "movie_id": FILM,
        "clip_id": "",
        "reason": "the owner asked",
        "author": "A",
        "seal": seal,
    }
    assert not has_planted(store)
    assert has_planted(before)
    # What had none of the rows is linked, what had one is not.
    for name, is_linked in {
        "data.zarr/tokens/c.0.0.0.0": False,
        "data.zarr/tokens/c.1.0.0.0": True,
        "data.zarr/pooled/c.0.0": False,
        "data.zarr/pooled/c.1.0": True,
    }.items():
        assert (store / name).samefile(before / name) is is_linked, name
    assert [copy.path for copy in made.copies] == [before]
    with pytest.raises(NotFound, match="withdrawn"):
        open_store(store).matrix("pooled", films=[FILM])


def test_a_clip_that_was_withdrawn_stays_so(store: Path, workspace: Workspace) -> None:
    subset(store, without=[FILM], reason="asked", workspace=workspace)
    with pytest.raises(FixInput, match="was withdrawn"):
        plan_filling(
            store,
            some_rows(N_ROWS),
            arrays=ARRAYS,
            recipe=a_recipe(),
            manifest=MANIFEST,
            kind=KIND,
            computed=[number == 10 for number in range(N_ROWS)],
            replaces=open_store(store).seal,
        )
    with pytest.raises(FixInput, match=r"'clip 9' was withdrawn on .*: asked"):
        subset(store, workspace.root / "nothing", films=[FILM])
    assert not (workspace.root / "nothing").exists()


def test_a_change_while_the_store_is_filled_or_changed(
    store: Path, workspace: Workspace
) -> None:
    opened = open_store(store)
    subset(store, without=["clip 1"], reason="first", workspace=workspace)
    with pytest.raises(Mismatch, match="changed this store first"):
        subset(opened, without=[FILM], reason="second", workspace=workspace)
    plan_filling(
        store,
        some_rows(N_ROWS + 2),
        arrays=ARRAYS,
        recipe=a_recipe(),
        manifest=MANIFEST,
        kind=KIND,
        computed=[number >= N_ROWS for number in range(N_ROWS + 2)],
        replaces=open_store(store).seal,
    )
    with pytest.raises(AlreadyThere, match="being filled or changed"):
        subset(store, without=[FILM], reason="second", workspace=workspace)


def test_a_remote_store_is_not_changed(store: Path) -> None:
    pytest.importorskip("obstore")
    with (
        web_server(store.parent) as server,
        pytest.raises(FixUsage, match="of this machine"),
    ):
        subset(f"{server.url}/films", without=[FILM], reason="asked")


# Mergers.


def test_two_halves_are_one_store_again(store: Path, tmp_path: Path) -> None:
    films = [f"film-{number}" for number in range(32)]
    subset(store, tmp_path / "a", films=films[:20])
    subset(store, tmp_path / "b", films=films[15:])
    made = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    document = check_store(tmp_path / "both", rows_of(), values_of())
    assert document["manifest"]["name"] == "films"
    # Not where they were: stores are given to others.
    places = [origin["place"] for origin in document["origins"]]
    assert places == ["a", store.name, "b"]
    assert made.n_clips == N_ROWS
    check_all(tmp_path / "both")


def test_what_a_merger_refuses(store: Path, tmp_path: Path) -> None:
    rows, values = rows_of(), values_of()
    write(tmp_path / "recipe", recipe=a_recipe("another"))
    with pytest.raises(Mismatch, match="different recipes"):
        merge([store, tmp_path / "recipe"], tmp_path / "both")
    write(tmp_path / "arrays", arrays=ARRAYS[:2])
    with pytest.raises(Mismatch, match="arrays are not those"):
        merge([store, tmp_path / "arrays"], tmp_path / "both")
    changed = values_of()
    changed["pooled"][40, 3] += 1
    write(tmp_path / "numbers", rows, changed)
    with pytest.raises(Mismatch, match="'clip 40' is in two stores"):
        merge([store, tmp_path / "numbers"], tmp_path / "both")
    for name, start_s in (("times", 1.0), ("others", 2.0)):
        rows[40] = rows[40]._replace(start_s=start_s, end_s=3.0)
        write(tmp_path / name, rows, values)
    with pytest.raises(Mismatch, match="is 1 s to 3 s and 2 s to 3 s"):
        merge([tmp_path / "times", tmp_path / "others"], tmp_path / "both")
    gpu = Maker("p 1", "cuda", "a GPU", "float16")
    write(tmp_path / "gpu", makers=[gpu])
    with pytest.raises(Mismatch, match="devices or precisions"):
        merge([store, tmp_path / "gpu"], tmp_path / "both")
    with pytest.raises(AlreadyThere):
        merge([store, store], tmp_path / "recipe")
    with pytest.raises(FixUsage, match="at least two"):
        merge([store], tmp_path / "one")
    shutil.copytree(store, tmp_path / "copy")
    for again in (store, tmp_path / "copy"):
        with pytest.raises(FixUsage, match=f"the same store as {store}"):
            merge([store, again], tmp_path / "twice")


def test_a_merger_remembers_what_was_withdrawn(store: Path, tmp_path: Path) -> None:
    """A clip of a withdrawn film that no store of the merger has cannot come back later."""
    subset(store, without=[FILM], reason="asked")
    values = {name: array[:1] for name, array in values_of().items()}
    for name, film in (("other", "film-x"), ("same", FILM)):
        row = Row(f"new of {film}", film, maker=0)
        write(tmp_path / name, rows=[row], values=values)
    merge([store, tmp_path / "other"], tmp_path / "both")
    both = open_store(tmp_path / "both")
    assert both.record.replaces == ()
    assert both.record.tombstones == open_store(store).record.tombstones
    merge([both, tmp_path / "same"], tmp_path / "all")
    last = open_store(tmp_path / "all").rows[-1]
    assert (last.clip_id, last.status) == (f"new of {FILM}", WITHDRAWN)
    with pytest.raises(FixInput, match="'another' was withdrawn"):
        plan_filling(
            tmp_path / "both",
            [*both.rows, Row("another", FILM)],
            arrays=both.record.arrays,
            recipe=both.recipe,
            manifest=MANIFEST,
            kind=KIND,
            computed=[False] * len(both) + [True],
            replaces=both.seal,
        )


def test_a_linked_store_is_removed_too(
    store: Path,
    workspace: Workspace,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The folder of a store may be on another disk; what the link leads to has the numbers."""
    disk = tmp_path_factory.mktemp("disk")
    store.rename(disk / "films")
    store.symlink_to(disk / "films")
    made = subset(store, without=[FILM], reason="asked", workspace=workspace)
    before = store.with_name(f"films.before-{made_of(store)[:8]}")
    # The link leads to what has the numbers.
    assert f"store that was replaced: {before} -> {disk / 'films'}" in str(made)
    remove_replaced(made)
    again = subset(store, without=[FILM], reason="asked", workspace=workspace)
    assert again.copies == [] and list(disk.iterdir()) == []
    assert [path.name for path in store.parent.iterdir()] == ["films"]


def made_of(store: Path) -> str:
    """The seal of the store that a store has replaced."""
    return open_store(store).record.replaces[-1]


def test_a_new_store_never_gets_the_name_of_one_that_is_filled(
    store: Path, workspace: Workspace
) -> None:
    folder = workspace.root / "stores"
    filling = plan(folder / "night")
    for make in (
        lambda: subset(store, "night", films=[FILM], workspace=workspace),
        lambda: merge([store, store], "night", workspace=workspace),
        lambda: pull(store, "night", workspace=workspace),
        lambda: write(folder / "night"),
    ):
        with pytest.raises(AlreadyThere, match="being filled or changed"):
            make()
    assert filling.folder.exists() and not (folder / "night").exists()


def test_what_one_store_knows_of_a_clip_is_kept(tmp_path: Path) -> None:
    """Without the times, the new store would take another clip of the film for this one."""
    values = {"clip": np.ones((1, 4), "float32")}
    failed = Row("1", "sea", status=FAILED, reason="damaged")
    stores = [tmp_path / name for name in ("imported", "times", "film")]
    rows = [Row("1", ""), Row("1", "", 0, 2), failed]
    names = ["imported", "imported", "films"]
    for store, row, name in zip(stores, rows, names, strict=True):
        made_store(store, [row], values, manifest=ManifestMark(name, store.name))
    done = merge(stores, tmp_path / "all")
    assert list(open_store(tmp_path / "all").rows) == [Row("1", "sea", 0, 2)]
    # No two of the stores state the same fact.
    said = [text for text in done.warnings if "1 clip matched by the ids alone" in text]
    assert len(said) == 3


def test_clips_with_and_without_films_are_not_merged(tmp_path: Path) -> None:
    """Then nothing by film could be claimed, and all rows looked as if they had one."""
    values = {"clip": np.ones((2, 4), "float32")}
    stores = [tmp_path / "stated", tmp_path / "not"]
    for store, film in zip(stores, ("lake", ""), strict=True):
        rows = [Row(f"{store.name} {number}", film) for number in range(2)]
        made_store(store, rows, values)
    with pytest.raises(FixInput, match="2 of 4 clips would have no film, such as "):
        merge(stores, tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_a_store_without_features_says_nothing_of_what_made_others(
    store: Path, tmp_path: Path
) -> None:
    values = {name: array[:1] for name, array in values_of().items()}
    row = Row("new", "film-x", status=NO_VIDEO, reason="no file")
    write(tmp_path / "none", [row], values, makers=[])
    merge([tmp_path / "none", store], tmp_path / "all")
    assert open_store(tmp_path / "all").rows[1:] == open_store(store).rows
    other = write(tmp_path / "other", [row._replace(status=OK)], values, makers=[])
    with pytest.raises(Mismatch, match="other programs, devices"):
        merge([store, other], tmp_path / "both")


def test_a_clip_that_one_store_has_is_taken_from_there(tmp_path: Path) -> None:
    values = values_of()
    halves = []
    for number in range(2):
        rows = some_rows(N_ROWS)
        for row in range(number, N_ROWS, 2):
            rows[row] = rows[row]._replace(status=FAILED, reason="not in the files")
        halves.append(write(tmp_path / f"half{number}", rows, makers=()))
    merge(halves, tmp_path / "both")
    check_store(tmp_path / "both", some_rows(N_ROWS), values)


def test_different_licences_are_refused_unless_one_is_given(tmp_path: Path) -> None:
    halves = []
    for number, licence in enumerate(("CC-BY-4.0", "CC0-1.0", "")):
        rows = [row._replace(clip_id=f"{number} {row.clip_id}") for row in rows_of()]
        terms = Terms(licence, f"Lab {number}")
        halves.append(write(tmp_path / f"half{number}", rows, terms=terms))
    for pair in (halves[:2], halves[1:]):
        with pytest.raises(Mismatch, match=r"different licences: .*CC0-1.0") as error:
            merge(pair, tmp_path / "both")
        assert "--licence" in error.value.hint
    merge(halves, tmp_path / "both", licence="CC-BY-NC-4.0")
    terms = open_store(tmp_path / "both").terms
    assert terms == Terms("CC-BY-NC-4.0", "Lab 0 | Lab 1 | Lab 2")
    # The licence of all stores is not changed by a merger.
    pair = []
    for number, half in enumerate(halves[1:]):
        pair.append(tmp_path / f"stated{number}")
        subset(half, pair[-1])
        (pair[-1] / "README.md").write_bytes(with_terms(b"", Terms("CC0-1.0")))
    with pytest.raises(AlreadyThere, match=r"another licence .*CC0-1.0"):
        merge(pair, tmp_path / "stated", licence="MIT")
    merge(pair, tmp_path / "stated", licence="cc0-1.0")


def test_a_part_has_the_makers_of_its_rows_alone(tmp_path: Path) -> None:
    """A part of a mixed store that the CPU made merges with a store of the CPU, no other does."""
    gpu = Maker("p 1", "cuda", "a GPU", "float32")
    rows = [row._replace(maker=number % 2) for number, row in enumerate(rows_of())]
    mixed = write(tmp_path / "mixed", rows, makers=[gpu, MAKER])
    names = [row.clip_id for row in rows]
    subset(mixed, tmp_path / "gpu", clips=names[::2])
    subset(mixed, tmp_path / "cpu", clips=names[1::2])
    part = open_store(tmp_path / "cpu")
    assert part.record.makers == (MAKER,)
    assert {row.maker for row in part.rows} == {0}
    with pytest.raises(Mismatch, match="devices or precisions"):
        merge([tmp_path / "gpu", tmp_path / "cpu"], tmp_path / "both")
    new = [Row("new", "film-x", maker=0)]
    write(tmp_path / "new", new)
    merge([tmp_path / "cpu", tmp_path / "new"], tmp_path / "more")
    # A maker whose rows were all made anew elsewhere is still listed.
    old = write(tmp_path / "old", [Row("old", "film-x", maker=1)], makers=[gpu, MAKER])
    merge([old, tmp_path / "new"], tmp_path / "most")
    assert open_store(tmp_path / "most").record.makers == (MAKER,)
