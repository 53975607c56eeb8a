from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from obygaze_features.core.errors import AlreadyThere, FixUsage
from obygaze_features.core.files import write_atomic, write_new
from obygaze_features.core.workspace import Workspace, last_part


@pytest.mark.parametrize(
    "name, path",
    [
        ("obygaze12", "W/manifests/obygaze12.toml"),
        ("films.v2", "W/manifests/films.v2.toml"),
        ("films.csv", "films.toml"),
        ("else/where/films.v2.csv", "else/where/films.v2.toml"),
    ],
)
def test_a_manifest_by_name_or_by_either_path(name, path):
    assert Workspace(Path("W")).manifest(name) == Path(path)


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[31mred"])
def test_what_is_no_name(name):
    here = Workspace(Path("W"))
    for find in (here.manifest, here.store):
        with pytest.raises(FixUsage):
            find(name)


def test_the_folder_of_a_store_is_one_also_for_who_stands_in_it():
    assert Workspace(Path("W")).store(".") == str(Path.cwd())
    with pytest.raises(FixUsage):
        Workspace(Path("W")).manifest(".")


def test_a_store_here_hides_none_of_the_workspace_nor_its_name(workspace, monkeypatch):
    monkeypatch.chdir(workspace.parent)
    (workspace.parent / "mine").mkdir()
    (workspace.parent / "mine" / "store.json").touch()
    here = Workspace(workspace)
    for name in ("films", "mine"):
        assert here.new_store(name) == workspace / "stores" / name
    assert here.new_store("./mine") == Path("mine")
    assert here.store("mine") == "mine"
    (workspace / "stores" / "mine").mkdir()
    assert here.store("mine") == str(workspace / "stores" / "mine")


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("https://ann:s3cret@host/a/films/", "films"),
        ("https://host/a/films.zip?X-Amz-Signature=abc/d", "films.zip"),
        ("hf://lab/films@refs/pr/3", "films"),
        ("../stores/films", "films"),
        ("me@lab/films", "films"),
        ("/data/me@lab/films@2", "films@2"),
        ("https://host/@me/films", "films"),
    ],
)
def test_the_name_of_a_copy_has_no_secrets(location: str, name: str) -> None:
    assert last_part(location) == name


def makers_of(here: Workspace) -> list[Callable[[str], Path]]:
    targets = [partial(here.target, kind) for kind in ("runs", "models")]
    return [here.new_manifest, here.new_store, *targets]


@pytest.mark.parametrize("name", ["nul", "new/con"])
def test_names_that_windows_cannot_have_are_refused_for_all(tmp_path, name) -> None:
    for new in makers_of(Workspace(tmp_path)):
        with pytest.raises(FixUsage, match="invalid name"):
            new(name)


def test_a_name_in_other_capitals_is_refused_and_names_what_is_there(workspace) -> None:
    (workspace / "manifests" / "films.toml").touch()
    for kind in ("stores", "runs", "models"):
        (workspace / kind / "films").mkdir(parents=True, exist_ok=True)
    for new in makers_of(Workspace(workspace)):
        with pytest.raises(AlreadyThere, match=r"'films(\.toml)?' exists"):
            new("Films")
        assert new("films").stem == "films"


@pytest.mark.parametrize(
    "address",
    ["s3://films/new.csv", "https://host/new.csv", "gs:///new.csv", "S3://b/x"],
)
def test_a_url_does_not_become_a_folder_of_this_machine(workspace, address) -> None:
    for make in (
        *makers_of(Workspace(workspace))[1:],
        lambda name: write_new(Path(name), b"clip_id\n"),
        lambda name: write_atomic(Path(name), b"clip_id\n"),
    ):
        with pytest.raises(FixUsage, match="got a URL"):
            make(address)
    assert not Path("s3:").exists() and not Path("https:").exists()


def test_a_folder_with_a_colon_is_no_url(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_new(Path("Alien:/new.csv"), b"clip_id\n")
    assert (tmp_path / "Alien:" / "new.csv").is_file()
