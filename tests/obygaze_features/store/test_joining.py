import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.stores import a_recipe, made_store, some_rows, some_values
from support.written_stores import files_of

import obygaze as og
from obygaze_features.core.errors import FixUsage, NotFound, ObygazeError
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.model import Clip
from obygaze_features.store import Array, Store
from obygaze_features.store import open_store as open_one
from obygaze_features.store.card import Terms
from obygaze_features.store.joining import open_store, split_array
from obygaze_features.store.reading import name_of
from obygaze_features.store.rows import FAILED

N_ROWS = 10
SEEN = a_recipe(backbone={"name": "xclip-b16"})
HEARD = a_recipe(backbone={"name": "wav2vec2"}, sampling={"medium": "sound"})


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    """A workspace with both stores."""
    (tmp_path / "stores").mkdir()
    workspace = Workspace(tmp_path)
    seen_store(workspace)
    heard_store(workspace)
    return workspace


def seen_store(here: Workspace, name: str = "seen", **more: Any) -> Store:
    """A store of pictures: of two films, with vectors and frames."""
    arrays = more.pop(
        "arrays",
        (Array.of("pooled", "float16", (3,)), Array.of("frames", "float32", (2, 3))),
    )
    values = some_values(N_ROWS, arrays, seed=1)
    rows = more.pop("rows", some_rows(N_ROWS))
    path = here.root / "stores" / name
    return made_store(path, rows, values, **({"recipe": SEEN} | more))


def heard_store(here: Workspace, name: str = "heard", **more: Any) -> Store:
    """A store of sound: one clip has none, and another one is not there."""
    rows = some_rows(N_ROWS)
    rows[2] = rows[2]._replace(status=FAILED, reason="no-sound: no sound")
    del rows[4]
    arrays = (Array.of("clip", "float32", (2,)),)
    values = some_values(len(rows), arrays, seed=2)
    path = here.root / "stores" / name
    return made_store(path, rows, values, **({"recipe": HEARD} | more))


def opened(here: Workspace, name: str) -> Store:
    return og.open_store(name, workspace=here.root)


def test_a_row_that_a_part_lacks_has_no_features_anywhere(here: Workspace) -> None:
    """Of the ten clips that a part has, eight are ok in both: the page says so."""
    both = opened(here, "heard+seen:pooled")
    assert both.status().counts == {"ok": 8, "missing": 2}
    assert sorted(both.status().reasons) == [2]
    assert "10 (8 ok, 2 missing)" in both._repr_html_()
    values = both.read("clip", np.arange(9))
    assert np.isnan(values).sum(axis=1).tolist() == [0, 0, 5, *[0] * 6]
    film = both.movie_ids[0]
    of_film = both.select(films=film).clip_ids.tolist()
    assert of_film == both.select(films=[film]).clip_ids.tolist()


@pytest.mark.filterwarnings("ignore:.* matched by id only")
def test_a_film_that_one_part_states_is_the_film_of_the_join(here: Workspace) -> None:
    """The first part, heard, states no films, and has its rows in another order."""
    rows = [row._replace(movie_id="") for row in reversed(some_rows(N_ROWS))]
    arrays = (Array.of("clip", "float32", (2,)),)
    values = some_values(N_ROWS, arrays, seed=2)
    made_store(here.root / "stores" / "nameless", rows, values, recipe=HEARD)
    both = opened(here, "nameless+seen:pooled")
    assert both.movie_ids.tolist() == [row.movie_id for row in some_rows(N_ROWS)]
    ids = both.clip_ids[:3].tolist()
    clips = [Clip(row.clip_id, row.movie_id) for row in some_rows(3)]
    of_clips = both.matrix(clips=clips)
    assert of_clips.rows.tolist() == [0, 1, 2]
    assert (of_clips.values == both.matrix(clips=ids).values).all()
    film = some_rows(N_ROWS)[0].movie_id
    assert both.matrix(films=film).clip_ids.tolist() == both.clip_ids[:5].tolist()
    og.store.subset("seen", "part", films=[film], workspace=here.root)
    other = some_rows(N_ROWS)[-1].movie_id
    partly = opened(here, "heard+part:pooled")
    # A clip that only the second part has is counted too.
    clips = {*partly.stores[0].clip_ids.tolist(), *partly.stores[1].clip_ids.tolist()}
    assert sum(partly.status().counts.values()) == len(clips)
    reasons = [row.reason for row in partly.rows if row.status == FAILED]
    assert len(reasons) == 6 and reasons[-1] == "part: the store has no clip of this id"
    lacking = partly.matrix(films=[other], missing="drop")
    assert {str(why) for why in lacking.reasons.values()} == {
        "missing: part: the store has no clip of this id"
    }
    with pytest.raises(NotFound, match="no film 'tt9'"):
        both.matrix(films=["tt9"])


def test_a_join_tells_no_password(here: Workspace) -> None:
    url = "https://ann:secret@example.org/heard?token=secret"
    named = {url: opened(here, "heard")}
    seen_clip = seen_store(
        here, "seen-clip", arrays=(Array.of("clip", "float32", (3,)),)
    )
    assert seen_clip.default_array == "clip"
    for seen in ("seen:pooled", "seen-clip"):
        both = open_store(f"{seen}+{url}", workspace=here.root, named=named)
        assert "secret" not in f"{both!r} {both.location} {both._repr_html_()}"
        assert both.location == f"{seen}+https://***@example.org/heard?***"
    assert name_of(url) == "https://***@example.org/heard?***"


def test_all_ways_of_reading_agree(here: Workspace) -> None:
    both = opened(here, "seen:pooled+heard")
    whole = both["clip"]
    assert whole.shape == (N_ROWS - 2, 5)
    seen = opened(here, "seen").matrix("pooled", clips=whole.clip_ids).values
    heard = opened(here, "heard").matrix("clip", clips=whole.clip_ids).values
    # The order is that of the words.
    expected = np.concatenate([seen.astype(np.float32), heard], axis=1)
    assert whole.values.tobytes() == expected.tobytes()
    streamed = [part.values for part in both.stream("clip", missing="drop")]
    assert np.concatenate(streamed).tobytes() == expected.tobytes()
    again = pickle.loads(pickle.dumps(both))  # noqa: S301 - its own bytes
    assert again["clip"].values.tobytes() == expected.tobytes()
    other_order = opened(here, "heard + seen:pooled")
    assert other_order.seal == both.seal
    assert other_order.fingerprint != both.fingerprint
    turned = np.concatenate([heard, seen.astype(np.float32)], axis=1)
    assert other_order["clip"].values.tobytes() == turned.tobytes()
    # What was trained on one order reads the other one in its own.
    wanted = [(part.store.fingerprint, part.array.name) for part in both.parts]
    assert other_order.in_order_of(wanted).fingerprint == both.fingerprint
    assert both.recipe.title == "xclip-b16 + wav2vec2"
    assert both.recipe.medium == "pictures and sound"


def test_an_array_of_a_join_is_that_array_of_each_part(here: Workspace) -> None:
    """a has 64 default columns in `pooled`, b 160 in `clip`; both have `clip`."""
    of_a = {"pooled": 64, "clip": 96}
    of_b = {"clip": 128, "pooled": 160}
    for name, widths in {"a": of_a, "b": of_b}.items():
        arrays = [Array.of(one, "float32", (width,)) for one, width in widths.items()]
        recipe = a_recipe(backbone={"name": name})
        seen_store(here, name, arrays=tuple(arrays), recipe=recipe)
    both = opened(here, "a+b")
    for array in ("clip", "pooled"):
        parts = [opened(here, name).matrix(array).values for name in "ab"]
        expected = np.concatenate(parts, axis=1)
        assert both.matrix(array).values.tobytes() == expected.tobytes()
        assert both[array].values.tobytes() == expected.tobytes()
    matrix = both.matrix("clip")
    assert matrix.shape == (N_ROWS, 224)
    # A matrix is indexed as an array is.
    np.testing.assert_array_equal(matrix[2:4, 96], matrix.values[2:4, 96])
    np.testing.assert_array_equal(matrix[[0, 3]], matrix.values[[0, 3]])
    assert len(list(matrix)) == len(matrix) == N_ROWS
    # Defaults differ, so `clip` is the default array of the join.
    assert both.default_array == "clip"
    assert opened(here, "a:pooled+b").matrix("clip").shape == (N_ROWS, 64 + 128)
    named = opened(here, "b:pooled+a:clip")
    assert named.feature_arrays == ("clip",)
    assert named.matrix().shape == (N_ROWS, 160 + 96)
    with pytest.raises(NotFound, match="no array 'frames'"):
        both.matrix("frames")


REFUSALS = {
    "seen+heard": "no array has one name in all parts of the join: seen has pooled; heard has"
    " clip\n.*Try: name the array of each part, such as seen:pooled\\+heard:clip",
    "seen+seen": "seen and seen have the same recipe and array",
    "seen+seen:pooled": "have the same recipe and array",
    "seen:frames+heard": "expected one vector of float16 or float32 per clip",
    "seen:nothing+heard": "no array 'nothing'",
    "seen+": "a store is missing in 'seen\\+'",
    "seen+nowhere": "no store called 'nowhere'",
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused(here: Workspace, name: str) -> None:
    before = files_of(here.root)
    with pytest.raises(ObygazeError, match=REFUSALS[name]):
        opened(here, name)
    assert files_of(here.root) == before


def test_a_join_is_no_part_of_a_join(here: Workspace) -> None:
    both = opened(here, "seen:pooled+heard")
    with pytest.raises(FixUsage, match=r"got the join both: seen:pooled\+heard"):
        open_store("both+heard", workspace=here.root, named={"both": both})


def test_where_one_store_is_needed_a_join_is_refused(here: Workspace) -> None:
    refused = "expected one store, got the join"
    with pytest.raises(FixUsage, match=refused):
        open_one("seen+heard", workspace=here.root)
    with pytest.raises(FixUsage, match=refused):
        og.store.export(opened(here, "seen:pooled+heard"), here.root / "x.npz")
    with pytest.raises(FixUsage, match=refused):
        og.store.info("seen+heard", workspace=here.root)


def test_a_store_is_named_with_its_array() -> None:
    sealed = f"films#sha256={'a' * 64}"
    for store in ("films", "https://example.org:8000/films", sealed):
        assert split_array(f"{store}:clip") == (store, "clip")
    for name in (":clip", "films:"):
        assert split_array(name) == (name, "")


def test_the_terms_are_those_of_all_parts(here: Workspace) -> None:
    seen_store(here, "seen-2", terms=Terms("CC-BY-4.0", "One."))
    heard_store(here, "heard-2", terms=Terms("MIT", "Two."))
    heard_store(here, "heard-3", terms=Terms("CC-BY-4.0", "Two."))
    of_two = opened(here, "seen-2:pooled+heard-2").terms
    assert of_two == Terms("CC-BY-4.0 (seen-2), MIT (heard-2)", "One. | Two.")
    assert opened(here, "seen-2:pooled+heard-3").terms.licence == "CC-BY-4.0"
    heard_store(here, "heard-4", terms=Terms())
    of_none = opened(here, "seen-2:pooled+heard-4").terms
    assert of_none.licence == "CC-BY-4.0 (seen-2), not stated (heard-4)"


def test_no_store_gets_a_name_with_a_plus(here: Workspace) -> None:
    with pytest.raises(FixUsage, match=r"\+ is reserved for joins of stores"):
        og.store.subset("seen", "seen+heard", films=["tt0000100"], workspace=here.root)
