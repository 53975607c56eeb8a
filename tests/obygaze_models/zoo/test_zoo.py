"""Saved models: valid or refused, used only with their own features, and never run as code."""

import hashlib
import json
import os
import pickle
import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from sklearn.ensemble import RandomForestClassifier
from support.cli import call_obygaze
from support.fake_hub import hub_here
from support.kills import kill_everywhere
from support.run_tables import write_model_json
from support.seeds import amount
from support.store_servers import bucket_here, web_server
from support.stores import a_recipe, made_store

from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
)
from obygaze_features.core.workspace import is_url
from obygaze_features.store import Row, open_store, push
from obygaze_features.store.targets import OWN_PLACE
from obygaze_models.models import state
from obygaze_models.models.linear import LogisticProbe
from obygaze_models.zoo import saving
from obygaze_models.zoo.info import (
    FeatureSpec,
    ModelInfo,
    TrainingData,
    model_card_text,
)
from obygaze_models.zoo.pipeline import load_model
from obygaze_models.zoo.predicting import predict
from obygaze_models.zoo.saving import check_target, read_model, save_model
from obygaze_models.zoo.sharing import pull_model, push_model, show_model

N, D = 40, 6


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features in which two concepts and a class can be seen."""
    random = np.random.default_rng(3)
    has = random.random((N, 2)) < 0.5
    y = (has.sum(axis=1) + random.normal(0, 0.4, N) > 1).astype(int)
    X = random.normal(0, 0.5, (N, D))
    X[:, 0] += 2 * has[:, 0]
    X[:, 1] += 2 * has[:, 1]
    return X.astype(np.float32), y, has.astype(int)


def a_store(folder: Path, X: np.ndarray) -> Path:
    rows = [Row(f"c-{i:02d}", "c") for i in range(len(X))]
    made_store(folder / "store", rows, {"clip": X}, recipe=a_recipe())
    return folder / "store"


def an_info(store: Path, name: str = "toy", **more: object) -> ModelInfo:
    fingerprint = open_store(store).fingerprint
    features = FeatureSpec("toy", "clip", "float32", D, fingerprint, "store")
    training = TrainingData(
        "films", "0" * 64, "visual", N, 3, ("x", "y", "z"), "Somebody 2026"
    )
    facts: dict[str, object] = {
        "kind": "logistic",
        "task": "HN_S",
        "classes": ("HN", "S"),
    }
    metrics = {"ap": {"value": 0.8, "ci": [0.6, float("nan")]}}
    return ModelInfo(
        name=name,
        features=features,
        training=training,
        metrics=metrics,
        **{**facts, **more},
    )


@pytest.fixture
def saved(tmp_path: Path, data: tuple[np.ndarray, ...]) -> Path:
    """A logistic probe beside the store it was trained on."""
    store = a_store(tmp_path, data[0])
    probe = LogisticProbe().fit(data[0], data[1])
    return save_model(probe, an_info(store), tmp_path / "models" / "toy", data[0])


def test_a_clip_without_features_has_a_reason_and_no_score(saved, tmp_path, data):
    rows = [Row(f"c-{i:02d}", "c") for i in range(N)]
    rows[7] = rows[7]._replace(status="failed", reason="unreadable: x")
    made_store(tmp_path / "gap", rows, {"clip": data[0]}, recipe=a_recipe())
    asked = ["c-09", "c-07", "c-01"]
    found = predict(read_model(saved), open_store(tmp_path / "gap"), asked)
    assert found.clip_ids == ["c-09", "c-01"]
    assert found.absent == {"c-07": "failed: unreadable: x"}
    probe = LogisticProbe().fit(data[0], data[1])
    expected = probe.predict_proba(data[0][[9, 1]].astype(np.float64))
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-12)
    assert (expected[:, 1] > 0.5).tolist() == [True, False]
    assert [*found.decisions] == ["S", "HN"]
    with pytest.raises(FixInput, match="none of these clips has features"):
        predict(read_model(saved), open_store(tmp_path / "gap"), ["c-07"])


@pytest.mark.parametrize("name", ["model.safetensors", "README.md"])
def test_a_model_that_does_not_list_a_file_is_refused(saved, tmp_path, name) -> None:
    document = json.loads((saved / "model.json").read_text("utf-8"))
    del document["files"][name]
    write_model_json(saved, document)
    with pytest.raises((Corrupt, NotFound), match=name):
        pull_model(str(saved), tmp_path / "ours")


def test_an_array_of_another_dtype_or_name_is_refused(saved, tmp_path, data) -> None:
    X = data[0]
    rows = [Row(f"c-{i:02d}", "c") for i in range(len(X))]
    made_store(tmp_path / "half", rows, {"clip": X.astype(np.float16)})
    with pytest.raises(
        Mismatch, match=r"float32 \[6\] in the array 'clip', got float16 \[6\]"
    ):
        predict(read_model(saved), open_store(tmp_path / "half"))
    made_store(tmp_path / "pooled", rows, {"pooled": X})
    with pytest.raises(Mismatch, match="in the array 'clip', got no such array"):
        predict(read_model(saved), open_store(tmp_path / "pooled"))


@pytest.mark.parametrize("change", ["flipped", "pickle", "gone", "link"])
def test_damaged_arrays_are_refused(saved: Path, change: str) -> None:
    arrays = saved / "model.safetensors"
    content = arrays.read_bytes()
    if change == "flipped":
        arrays.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif change == "pickle":
        arrays.write_bytes(pickle.dumps({"coef_": [1.0]}))
    elif change == "link":
        arrays.rename(saved / "elsewhere")
        arrays.symlink_to("elsewhere")
    else:
        arrays.unlink()
    with pytest.raises(Corrupt) as caught:
        read_model(saved)
    assert str(saved) in str(caught.value.where) or caught.value.where is None


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda facts: facts["estimator"].update(kind="os.system"), Corrupt),
        (lambda facts: facts["estimator"]["params"].update(command="rm"), Corrupt),
        (lambda facts: facts["features"].update(width=D + 1), Corrupt),
        (lambda facts: facts["features"].update(width=0), Corrupt),
        (lambda facts: facts.update(classes=["negative", "positive", "x"]), Corrupt),
        # An unknown fact may come from a newer program.
        (lambda facts: facts["features"].update(extra=1), Mismatch),
        (lambda facts: facts.update(schema="obygaze-model/2"), Mismatch),
    ],
)
def test_a_description_that_does_not_fit_is_refused(saved, change, error) -> None:
    document = json.loads((saved / "model.json").read_text("utf-8"))
    change(document)
    write_model_json(saved, document)
    with pytest.raises(error):
        read_model(saved)
    with pytest.raises(error) as caught:
        pull_model(str(saved), saved.parent / "theirs")
    assert caught.value.where == str(saved)
    (saved / "model.json").write_text("{", "utf-8")
    with pytest.raises(Corrupt):
        read_model(saved)


@pytest.mark.parametrize("key", ["classes", "estimator"])
def test_no_value_of_model_json_can_change_unseen(saved: Path, key: str) -> None:
    document = json.loads((saved / "model.json").read_text("utf-8"))
    if key == "classes":
        document["classes"].reverse()
    else:
        document["estimator"]["params"]["C"] = 2
    (saved / "model.json").write_text(json.dumps(document), "utf-8")
    with pytest.raises(Corrupt, match="differs from its sha256 checksum"):
        read_model(saved)
    write_model_json(saved, document)
    read_model(saved)


def test_arrays_that_promise_too_much_are_refused(saved: Path) -> None:
    """A header that lies about lengths, promised with its right hash."""
    header = json.dumps(
        {"coef_": {"dtype": "F64", "shape": [10**9], "data_offsets": [0, 8]}}
    )
    data = struct.pack("<Q", len(header)) + header.encode() + b"\0" * 8
    (saved / "model.safetensors").write_bytes(data)
    document = json.loads((saved / "model.json").read_text("utf-8"))
    mark = [len(data), hashlib.sha256(data).hexdigest()]
    document["files"]["model.safetensors"] = mark
    write_model_json(saved, document)
    with pytest.raises(Corrupt, match="safetensors"):
        read_model(saved)


def test_words_in_another_order_are_refused(tmp_path, data) -> None:
    X, y, _ = data
    probe = LogisticProbe().fit(X, np.array(["EN", "S"])[y])
    store = a_store(tmp_path, X)
    with pytest.raises(
        FixInput, match=r"the classes are S, EN in model\.json, but EN, S in the"
    ):
        save_model(probe, an_info(store, classes=("S", "EN")), tmp_path / "m", X)
    # Of classes that are numbers, too.
    numbered = LogisticProbe().fit(X, y)
    with pytest.raises(FixInput, match=r"the classes are 1, 0 in .*, but 0, 1"):
        save_model(numbered, an_info(store, classes=("1", "0")), tmp_path / "n", X)
    right = save_model(probe, an_info(store, classes=("EN", "S")), tmp_path / "m", X)
    document = json.loads((right / "model.json").read_text("utf-8"))
    write_model_json(right, {**document, "classes": ["S", "EN"]})
    with pytest.raises(
        Corrupt, match=r"the classes are S, EN in model\.json, but EN, S in the"
    ):
        read_model(right)


def test_what_predicts_otherwise_when_loaded_is_not_saved(tmp_path, data, monkeypatch):
    X, y, _ = data
    probe = LogisticProbe().fit(X, y)
    description, arrays = state.save_state(probe)
    other = description, {**arrays, "coef_": -probe.coef_}
    monkeypatch.setattr(state, "save_state", lambda _: other)
    words = "LogisticProbe cannot be saved: when it is loaded"
    with pytest.raises(FixInput, match=words):
        save_model(probe, an_info(a_store(tmp_path, X)), tmp_path / "m", X)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("kind", [RandomForestClassifier, LogisticProbe])
def test_what_is_no_fitted_kind_of_obygaze_is_not_saved(tmp_path, data, kind) -> None:
    X, y, _ = data
    model = kind()
    words = "features.width is 6 in model.json, but None in the estimator"
    if kind is not LogisticProbe:
        words = f"{kind.__name__} cannot be kept"
        model.fit(X, y)
    with pytest.raises(FixInput, match=words):
        save_model(model, an_info(a_store(tmp_path, X)), tmp_path / "m", X)
    assert not (tmp_path / "m").exists()


def test_nothing_is_replaced_silently(saved: Path, tmp_path: Path, data: tuple) -> None:
    store = tmp_path / "store"
    again = LogisticProbe().fit(data[0], data[1])
    save_model(again, an_info(store), saved, data[0])
    other = LogisticProbe().fit(data[0], 1 - data[1])
    with pytest.raises(AlreadyThere):
        save_model(other, an_info(store), saved, data[0])
    save_model(other, an_info(store), saved, data[0], force=True)
    read_model(saved)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.txt").write_text("x", "utf-8")
    with pytest.raises(AlreadyThere):
        save_model(other, an_info(store), tmp_path / "mine", data[0], force=True)
    with pytest.raises(FixUsage):
        save_model(other, an_info(store, "../up"), tmp_path / "up", data[0])


@pytest.mark.parametrize("is_remote", [False, True])
def test_no_other_file_comes_with_a_model(saved, tmp_path, is_remote) -> None:
    """A stranger's folder or server has more files; only the five of a model are copied."""
    source = tmp_path / "theirs"
    shutil.copytree(saved, source)
    (source / ".git").mkdir()
    (source / ".git/config").write_text("[core]")
    (source / "numpy.py").write_text("raise SystemExit")
    if is_remote:
        pytest.importorskip("obstore")
        with web_server(tmp_path) as server:
            pull_model(f"{server.url}/theirs", tmp_path / "ours")
    else:
        pull_model(str(source), tmp_path / "ours")
    ours = tmp_path / "ours"
    names = {path.relative_to(ours).as_posix() for path in ours.rglob("*")}
    assert names == {path.name for path in saved.iterdir()}
    card = source / "README.md"
    card.unlink()
    os.mkfifo(card)  # nobody writes to it: reading it would wait for ever
    with pytest.raises(Corrupt, match="regular file"):
        pull_model(str(source), tmp_path / "piped")
    assert not (tmp_path / "piped").exists()


def test_a_card_of_gigabytes_does_not_come_with_a_model(saved, tmp_path) -> None:
    shutil.copytree(saved, tmp_path / "theirs")
    with (tmp_path / "theirs/README.md").open("r+b") as stream:
        stream.truncate(4_000_000_000)
    pull_model(str(tmp_path / "theirs"), tmp_path / "ours")
    # Only its bytes that are listed are read.
    assert _tree(tmp_path / "ours") == _tree(saved)
    card = tmp_path / "theirs/README.md"
    document = json.loads((saved / "model.json").read_bytes())
    document["files"]["README.md"][0] = card.stat().st_size
    write_model_json(tmp_path / "theirs", document)
    with pytest.raises(
        Corrupt, match=r"README\.md has 4\.0 GB, expected at most 10\.0 MB"
    ):
        pull_model(str(tmp_path / "theirs"), tmp_path / "more")


def test_a_model_too_large_to_be_read_is_not_saved_and_says_its_size(
    saved, tmp_path, monkeypatch
):
    model, size = read_model(saved), (saved / "model.safetensors").stat().st_size
    monkeypatch.setitem(saving.MAX_BYTES, "model.safetensors", size - 1)
    with pytest.raises(
        Corrupt, match=f"expected at most {size - 1:,} bytes, got {size:,}"
    ):
        read_model(saved)
    with pytest.raises(FixInput, match=r"model\.safetensors must have .* bytes"):
        save_model(model.estimator, model.info, tmp_path / "large", np.ones((2, D)))
    assert not (tmp_path / "large").exists()


def test_a_location_may_name_the_sha256_of_the_model(saved, tmp_path) -> None:
    pytest.importorskip("obstore")
    seal = hashlib.sha256((saved / "model.json").read_bytes()).hexdigest()
    with web_server(saved.parent) as server:
        for place in (str(saved), f"{server.url}/toy"):
            for wrong in ("#", "#sha256=", "#sha256=12ab", f"#sha512={seal}"):
                if is_url(place) or "sha256" in wrong:
                    with pytest.raises(FixUsage, match=r"64 hex digits|unknown ending"):
                        pull_model(f"{place}{wrong}", workspace=tmp_path / "home")
            with pytest.raises(Mismatch, match="expected the seal 000"):
                pull_model(f"{place}#sha256={'0' * 64}", workspace=tmp_path / "home")
            assert not list((tmp_path / "home").rglob("*.*"))
            pulled = pull_model(f"{place}#sha256={seal}", workspace=tmp_path / "home")
            assert pulled.folder == tmp_path / "home" / "models" / "toy"
            shutil.rmtree(tmp_path / "home")


def test_a_pulled_model_has_the_name_under_which_it_is_kept_here(saved, tmp_path):
    theirs = pull_model(str(saved), tmp_path / "models" / "theirs")
    assert theirs.info == structs.replace(read_model(saved).info, name="theirs")
    card = str(show_model("theirs", workspace=tmp_path))
    assert card.startswith("# theirs\n")
    assert "obygaze models predict theirs STORE" in card
    (theirs.folder / "README.md").chmod(0o644)
    (theirs.folder / "README.md").write_text("another card")
    with pytest.raises(Corrupt, match="bytes"):
        show_model("theirs", workspace=tmp_path)
    with pytest.raises(
        NotFound, match=r"expected a saved model, but model\.json is missing"
    ):
        pull_model(str(tmp_path / "models"), tmp_path / "models" / "none")


def _tree(root: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()
    }


@pytest.mark.parametrize("target", [".", "models/", "./thesis"])
def test_pull_replaces_nothing_but_a_model(saved, tmp_path, target) -> None:
    home = tmp_path / "home"
    for name in ("a", "b"):
        shutil.copytree(saved, home / "models" / name)
    for name in ("models/notes.txt", "thesis/deep/chapter.txt"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("years")
    before = _tree(tmp_path)
    done = call_obygaze("models", "pull", saved, "-o", target, "--force", cwd=home)
    assert done.code in (1, 2)
    assert "Traceback" not in done.stderr
    assert _tree(tmp_path) == before
    call_obygaze("models", "pull", saved, "-o", "a", "--force", cwd=home).ok()
    assert _tree(home) == {str(Path(k).relative_to("home")): v for k, v in before.items()
                           if k.startswith("home/")}  # fmt: skip


def test_push_writes_into_no_folder_of_somebody_else(saved, tmp_path, monkeypatch):
    # "." and ".." are looked through.
    monkeypatch.chdir(tmp_path / "models")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "README.md").write_text("years")
    for target in (mine, tmp_path / "models", "..", "."):
        with pytest.raises((AlreadyThere, FixUsage)):
            push_model(saved, str(target))
    assert _tree(mine) == {"README.md": b"years"}
    push_model(saved, str(tmp_path / "there"))
    push_model(saved, str(tmp_path / "there"))
    assert _tree(tmp_path / "there") == _tree(saved)


def test_what_nobody_could_pull_is_not_pushed(saved: Path, tmp_path: Path) -> None:
    card = saved / "README.md"
    card.write_bytes(card.read_bytes() + b"\n")
    done = call_obygaze("models", "push", saved, tmp_path / "there")
    assert (done.code, "README.md" in done.stderr) == (4, True), done.stderr
    assert not (tmp_path / "there").exists()


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with bucket_here(tmp_path / "moto", monkeypatch):
        yield "s3://films/models/toy"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with hub_here(monkeypatch):
        yield "hf://lab/films"


@pytest.mark.parametrize("place", ["hub", "bucket"])
def test_push_to_a_bucket_or_the_hub_replaces_no_model(
    place, saved, tmp_path, data, request
):
    url = request.getfixturevalue(place)
    probe = LogisticProbe().fit(data[0], 1 - data[1])
    info = read_model(saved).info
    other = save_model(probe, info, tmp_path / "another" / "toy", data[0])
    push_model(saved, url)
    push_model(saved, url)
    with pytest.raises(AlreadyThere, match="a different model exists here"):
        push_model(other, url)
    expected = read_model(saved).estimator.coef_
    found = pull_model(url, tmp_path / "models" / "pulled").estimator.coef_
    np.testing.assert_array_equal(found, expected)
    # Without a copy in the workspace.
    loaded = load_model(url, workspace=tmp_path / "empty")
    np.testing.assert_array_equal(loaded[-1].coef_, expected)
    assert not (tmp_path / "empty").exists()


def test_push_writes_to_no_address_with_other_files(hub, saved, tmp_path) -> None:
    made_store(tmp_path / "s", [Row("c", "f")], {"clip": np.ones((1, 2), "float32")})
    push(open_store(tmp_path / "s"), hub)
    with pytest.raises(AlreadyThere, match="does not belong to this model") as error:
        push_model(saved, hub)
    assert error.value.hint == OWN_PLACE
    shared = tmp_path / "shared"
    push(open_store(tmp_path / "s"), shared)
    with pytest.raises(AlreadyThere, match="does not belong to this model") as error:
        push_model("toy", str(shared), workspace=tmp_path)
    assert error.value.hint == OWN_PLACE
    assert open_store(hub).seal == open_store(tmp_path / "s").seal


@pytest.mark.check("kills it before every change of the disk")
def test_a_kill_at_any_instant_leaves_the_old_model_or_the_new_one(
    saved, tmp_path, data
):
    info, X, y = read_model(saved).info, data[0], data[1]
    old, new = LogisticProbe().fit(X, y), LogisticProbe().fit(X, 1 - y)
    elsewhere = save_model(new, info, tmp_path / "elsewhere" / "toy", X)
    expected = [model.predict_proba(X).tolist() for model in (old, new)]
    for work in (
        lambda: save_model(new, info, saved, X, force=True),
        lambda: pull_model(str(elsewhere), saved, force=True),
    ):
        seen = set[int]()

        def look(seen: set[int] = seen) -> None:
            found = read_model(saved).estimator.predict_proba(X).tolist()
            seen.add(expected.index(found))
            save_model(old, info, saved, X, force=True)
            # What a killed process was writing has a hidden name.
            assert [path.name for path in saved.parent.glob("[!.]*")] == ["toy"]

        every = amount(3, 1)
        assert kill_everywhere(work, look, every) >= 10 / every
        assert seen == {0, 1}


def test_what_is_not_ours_is_an_obstacle(saved: Path) -> None:
    kept = read_model(saved)
    (saved / "thesis.txt").write_text("mine")
    with pytest.raises(AlreadyThere, match="it contains 'thesis"):
        save_model(kept.estimator, kept.info, saved, np.ones((2, D)), force=True)
    (saved / "model.json").unlink()
    with pytest.raises(AlreadyThere, match="not an obygaze model"):
        save_model(kept.estimator, kept.info, saved, np.ones((2, D)), force=True)
    assert (saved / "thesis.txt").read_text() == "mine"
    with pytest.raises(FixUsage, match="invalid model name"):
        check_target(saved, "my model", force=True)


@pytest.mark.parametrize("manifest", ["films", "my films: all"])
def test_the_hub_reads_the_values_of_a_card(saved: Path, manifest: str) -> None:
    hub = pytest.importorskip("huggingface_hub")
    info = read_model(saved).info
    metrics = {
        "ap": {"value": 0.84, "ci": (0.7, 0.9)},
        "auc": {"value": None, "ci": (None, None)},
    }
    training = structs.replace(info.training, manifest=manifest)
    info = structs.replace(info, training=training, metrics=metrics)
    card = hub.ModelCard(model_card_text(info))
    (result,) = card.data.eval_results
    assert (result.metric_type, result.metric_value) == ("ap", 0.84)
    assert result.dataset_name == manifest
    assert card.data.library_name == "obygaze"
    (block,) = re.findall(r"```python\n(.*?)```", card.text, re.DOTALL)
    assert len(block.splitlines()) == 6 and 'og.load_model("toy")' in block
    assert "join" not in model_card_text(info)
    assert "**HN_S** (S against HN)" in model_card_text(info)
    # A data set of the hub with the name of the manifest is of somebody else.
    assert card.data.datasets is None


def test_the_card_of_a_join_names_the_features_of_each_part(saved: Path) -> None:
    info = read_model(saved).info
    parts = []
    for name in ("seen", "heard"):
        part = structs.replace(info.features, backbone=name, fingerprint=name * 3)
        parts.append(part)
    features = structs.replace(info.features, parts=tuple(parts))
    card = model_card_text(structs.replace(info, features=features))
    for part in parts:
        facts = f"{part.width} numbers, fingerprint `{part.fingerprint}`"
        assert f"`{part.array}` of `{part.backbone}`, {facts}" in card
    assert "`STORE` is `A+B`, with a store of the features of each part above." in card


def test_the_hint_names_the_command_that_makes_the_features_of_a_model(saved, tmp_path):
    model = read_model(saved)
    recipe = a_recipe(backbone={"name": "other"})
    made_store(
        tmp_path / "other",
        [Row("c-00", "c")],
        {"clip": np.ones((1, D), np.float32)},
        recipe=recipe,
    )
    with pytest.raises(Mismatch, match="features of toy") as raised:
        predict(model, open_store(tmp_path / "other"))
    assert raised.value.hint == "obygaze extract run made-up -b toy"
