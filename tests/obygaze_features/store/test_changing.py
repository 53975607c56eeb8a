import json
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.filled_stores import ARRAYS, compute, plan
from support.planted_stores import FILM, N_ROWS, rows_of, values_of, write
from support.store_servers import web_server
from support.stores import made_store, sealed_store, some_values
from support.written_stores import a_recipe, check_all, check_store

import obygaze as og
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
from obygaze_features.store.reading import open_store
from obygaze_features.store.rows import FAILED, NO_VIDEO, OK, Row


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "stores").mkdir()
    return Workspace(tmp_path)


@pytest.fixture
def store(workspace: Workspace) -> Path:
    return write(workspace.root / "stores" / "films")


def test_a_name_of_a_film_and_of_a_clip_is_refused(store, workspace) -> None:
    rows = rows_of()
    rows[9] = rows[9]._replace(clip_id=FILM)
    both = write(workspace.root / "stores" / "both", rows)
    told = "'film-3' is both the id of a film and the id of a clip"
    with pytest.raises(FixInput, match=told):
        subset(both, workspace.root / "part", without=[FILM])
    # Where the film has no other clip, both are the same.
    for number in (10, 11):
        rows[number] = rows[number]._replace(movie_id="film-4")
    alone = write(workspace.root / "stores" / "alone", rows)
    subset(alone, workspace.root / "rest", without=[FILM])
    rest = open_store(workspace.root / "rest").clip_ids.tolist()
    assert rest == [row.clip_id for row in rows if row.clip_id != FILM]


def test_a_subset_of_a_remote_store_keeps_no_secret_of_its_address(store, tmp_path):
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
    with pytest.raises(NotFound, match="film or clip") as error:
        subset(store, part, without=["clip 99"])
    # A name is compared with those of films only: a million ids take half a minute.
    assert "did you mean" not in str(error.value)
    with pytest.raises(FixInput, match="the selection is empty"):
        subset(store, part, films=[FILM], without=[FILM])
    with pytest.raises(AlreadyThere):
        subset(store, store, films=[FILM])


def test_a_subset_keeps_the_default_array(tmp_path: Path) -> None:
    sealed_store(tmp_path / "s")
    names = ("pooled", "clip")
    subset(tmp_path / "s", tmp_path / "part", arrays=names, workspace=tmp_path)
    assert open_store(tmp_path / "s").default_array == "clip"
    assert open_store(tmp_path / "part").default_array == "clip"


def test_a_store_without_a_film_does_not_name_the_store_of_the_film(tmp_path) -> None:
    sealed_store(tmp_path / "all")
    first, *others = open_store(tmp_path / "all").table.films
    subset(tmp_path / "all", tmp_path / "secret-film", films=[first])
    subset(tmp_path / "all", tmp_path / "others", films=others)
    merge([tmp_path / "secret-film", tmp_path / "others"], tmp_path / "both")
    assert len(open_store(tmp_path / "both").record.origins) == 3
    subset(tmp_path / "both", tmp_path / "rest", without=[first])
    origins = open_store(tmp_path / "rest").record.origins
    assert [origin.place for origin in origins] == ["both"]
    assert "secret" not in (tmp_path / "rest" / "README.md").read_text("utf-8")


def test_what_a_merger_refuses(store: Path, tmp_path: Path) -> None:
    rows, values = rows_of(), values_of()
    write(tmp_path / "recipe", recipe=a_recipe("another"))
    with pytest.raises(Mismatch, match="different recipes"):
        merge([store, tmp_path / "recipe"], tmp_path / "both")
    write(tmp_path / "arrays", arrays=ARRAYS[:2])
    with pytest.raises(Mismatch, match="expected the arrays of"):
        merge([store, tmp_path / "arrays"], tmp_path / "both")
    # One clip is there twice, as a row with features or without.
    for status in (OK, FAILED):
        others = [row._replace(clip_id=f"new {row.clip_id}") for row in rows]
        others[40] = rows[40]._replace(status=status)
        path = write(tmp_path / f"with-{status}", others, values)
        told = r"1 clip of this store .*films, as the same clips: clip 40"
        with pytest.raises(Mismatch, match=told):
            merge([store, path], tmp_path / "both")
    with pytest.raises(AlreadyThere):
        merge([store, store], tmp_path / "recipe")
    with pytest.raises(FixUsage, match="at least two"):
        merge([store], tmp_path / "one")
    with pytest.raises(Mismatch, match=f"{N_ROWS} clips of this store are also in"):
        merge([store, store], tmp_path / "twice")
    assert not (tmp_path / "both").exists()


def test_a_store_without_features_says_nothing_of_what_made_others(store, tmp_path):
    values = {name: array[:1] for name, array in values_of().items()}
    row = Row("new", "film-x", status=NO_VIDEO, reason="no file")
    write(tmp_path / "none", [row], values, makers=[])
    merge([tmp_path / "none", store], tmp_path / "all")
    assert open_store(tmp_path / "all").rows[1:] == open_store(store).rows


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
    with pytest.raises(AlreadyThere, match=r"stated already: CC0-1.0"):
        merge(pair, tmp_path / "stated", licence="MIT")
    merge(pair, tmp_path / "stated", licence="cc0-1.0")


def test_two_halves_are_one_store_again(store: Path, tmp_path: Path) -> None:
    films = [f"film-{number}" for number in range(32)]
    subset(store, tmp_path / "a", films=films[:20])
    subset(store, tmp_path / "b", films=films[20:])
    made = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    document = check_store(tmp_path / "both", rows_of(), values_of())
    assert document["manifest"]["name"] == "films"
    # Not where they were: stores are given to others.
    places = [origin["place"] for origin in document["origins"]]
    assert places == ["a", store.name, "b"]
    assert made.n_clips == N_ROWS
    check_all(tmp_path / "both")


def test_a_new_store_never_gets_the_name_of_one_that_is_filled(store, workspace):
    folder = workspace.root / "stores"
    filling = plan(folder / "night")
    for make in (
        lambda: subset(store, "night", films=[FILM], workspace=workspace),
        lambda: merge([store, store], "night", workspace=workspace),
        lambda: pull(store, "night", workspace=workspace),
        lambda: write(folder / "night"),
    ):
        with pytest.raises(AlreadyThere, match="this store is unfinished"):
            make()
    assert filling.folder.exists() and not (folder / "night").exists()


def test_one_text_where_names_are_expected_is_one_name(tmp_path: Path) -> None:
    rows = [Row(str(number), "film") for number in range(12)]
    made_store(tmp_path / "stores" / "films", rows, some_values(12))
    rest = tmp_path / "rest"
    og.store.subset("films", rest, without="10", workspace=tmp_path)
    assert {str(number) for number in range(12)} - {*og.open_store(rest)} == {"10"}
    part = tmp_path / "part"
    og.store.subset("films", part, films="film", arrays="clip", workspace=tmp_path)
    assert og.open_store(part).feature_arrays == ("clip",)
    og.store.export("films", tmp_path / "x.npz", arrays="clip", workspace=tmp_path)
    with np.load(tmp_path / "x.npz") as arrays:
        assert "clip" in arrays and "pooled" not in arrays


def test_a_store_that_is_being_filled(tmp_path: Path) -> None:
    (tmp_path / "stores").mkdir()
    filling = plan(tmp_path / "stores" / "more")
    for block in (0, 3):
        compute(filling, block, values_of())
    for words in (["info", "more"], ["verify", "more"], ["pull", "more", "-o", "x"]):
        done = call_obygaze("store", *words, cwd=tmp_path)
        assert done.code == 4
        assert "being filled, 2 blocks finished" in done.stderr
        assert "the same extraction again" in done.stderr
    listed = og.ls(workspace=tmp_path)
    assert [one.has for one in listed.entries] == ["being filled, 2 blocks finished"]
    # A finished store of this name is read, and both are lines of the list.
    sealed_store(tmp_path / "elsewhere" / "more")
    (tmp_path / "elsewhere" / "more").rename(tmp_path / "stores" / "more")
    shown = call_obygaze("store", "info", "more", cwd=tmp_path).ok()
    assert "Clips     23 of" in shown.stdout
    listed = og.ls(workspace=tmp_path)
    assert [one.name for one in listed.entries] == ["more", "more.next"]
