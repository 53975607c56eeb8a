from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zarr
from support.damage import flip_bit
from support.fake_hub import FakeHub, hub_here
from support.planted_stores import FILM, values_of, write
from support.store_servers import web_server
from support.written_stores import files_of

from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    FixUsage,
    NotFound,
    Stopped,
)
from obygaze_features.store import copying
from obygaze_features.store.atomic_files import replaced_store_path
from obygaze_features.store.card import Terms
from obygaze_features.store.changing import subset
from obygaze_features.store.copying import pull, push
from obygaze_features.store.reading import open_store
from obygaze_features.store.records import FileMark
from obygaze_features.store.targets import OWN_PLACE, FolderTarget

pytest.importorskip("obstore")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "stores").mkdir()
    return write(tmp_path / "stores" / "films")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Another workspace, to which stores are copied."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def is_copy(copy: Path, store: Path) -> bool:
    return files_of(copy) == files_of(store)


def test_a_copy_has_the_same_files(store: Path, home: Path) -> None:
    with web_server(store.parent) as server:
        made = pull(f"{server.url}/films", home / "copy")
        assert is_copy(home / "copy", store)
        sent = push(store, home.parent / "sent", no_licence=True)
        assert made.n_sent == sent.n_sent == len(files_of(store))
        n_requests = len(server.requests)
        assert pull(f"{server.url}/films", home / "copy").n_sent == 0
        # store.json, and README.md, which is not sealed.
        assert len(server.requests) == n_requests + 2
        card = (store / "README.md").read_bytes()
        (store / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
        (note,) = pull(f"{server.url}/films", home / "copy").notes
        assert "states another licence or citation" in note
        (store / "README.md").write_bytes(card)
        assert not pull(f"{server.url}/films", home / "copy").notes
    assert [path.name for path in home.iterdir()] == ["copy"]


def test_what_is_in_the_way_is_refused(store: Path, home: Path) -> None:
    (home / "copy").mkdir()
    with pytest.raises(AlreadyThere, match="of this name exists"):
        pull(store, home / "copy")
    other = write(home / "other", values=values_of(seed=1))
    before = files_of(other)
    with pytest.raises(AlreadyThere, match="of this name exists") as error:
        pull(store, home / "other")
    assert "remove the folder if the store is not needed" in str(error.value.hint)
    assert files_of(other) == before
    with pytest.raises(FixInput, match="cannot be the name"):
        pull(store, home / "a.next")


def test_a_pull_restores_what_zarr_wiped(store: Path, home: Path) -> None:
    pull(store, home / "copy")
    zarr.open_group(home / "copy", mode="w")
    assert [path.name for path in (home / "copy").iterdir()] == ["zarr.json"]
    with pytest.raises(NotFound, match="but this is a group of Zarr") as error:
        open_store(home / "copy")
    assert "obygaze store pull SOURCE copies it again" in str(error.value.hint)
    pull(store, home / "copy")
    assert is_copy(home / "copy", store)
    # Whatever somebody wrote into the group since stays.
    for write_more in (
        lambda group: group.create_array("own", shape=(2,), dtype="f4"),
        lambda group: group.attrs.update({"own": 1}),
    ):
        write_more(zarr.open_group(home / "copy", mode="w"))
        before = files_of(home / "copy")
        with pytest.raises(AlreadyThere, match="of this name exists"):
            pull(store, home / "copy")
        assert files_of(home / "copy") == before
    assert [path.name for path in home.iterdir()] == ["copy"]


def test_half_a_copy_of_another_store_is_removed(store: Path, home: Path) -> None:
    with web_server(store.parent) as server:
        server.denied = ("c.1.0.0.0",)
        with pytest.raises(FixInput, match="access denied"):
            pull(f"{server.url}/films", home / "copy")
        assert list(home.glob(".copy.pull-*"))
    rest = home.with_name("rest")
    subset(store, rest, without=[FILM])
    pull(rest, home / "copy")
    assert is_copy(home / "copy", rest)
    assert list(home.glob(".*")) == []


def test_what_a_push_refuses(store: Path, home: Path) -> None:
    def refused(error: type[Exception], words: str, target: Any, **more: Any) -> Any:
        source = more.pop("source", store)
        with pytest.raises(error, match=words) as caught:
            push(source, target, **({"no_licence": True} | more))
        assert open_store(source).terms == Terms()
        return getattr(caught.value, "hint", None)

    shared = home / "shared"
    shared.mkdir()
    (shared / "README.md").write_text("my own")
    refused(AlreadyThere, r"README\.md does not belong", shared)
    assert (shared / "README.md").read_text() == "my own"
    (shared / "README.md").rename(shared / "thesis.tex")
    belongs = "does not belong to this store"
    assert refused(AlreadyThere, rf"^thesis\.tex {belongs}", shared) == OWN_PLACE
    (shared / "model.json").write_text("{}")
    assert refused(AlreadyThere, belongs, shared) == OWN_PLACE
    push(store, home / "taken", no_licence=True)
    other = write(home / "other", values=values_of(seed=1))
    before = files_of(home / "taken")
    there = "a different store exists here"
    hint = refused(AlreadyThere, there, home / "taken", source=other, licence="MIT")
    assert "remove the files there first" in hint
    assert files_of(home / "taken") == before
    refused(FixUsage, "web server", "https://example.org/films", licence="CC0-1.0")
    for place in ("me@host.org:/data/films", "host:films"):
        refused(FixUsage, "not sent by ssh", place)
    for name in ("x#y", "a/../x"):
        refused(FixUsage, "this address is read as s3://films/x", f"s3://films/{name}")
        with pytest.raises(FixUsage, match=r"this address is read as|unknown ending"):
            open_store(f"s3://films/{name}")
    for name in ("x#y", "x/../y"):
        refused(FixUsage, "invalid address", f"hf://lab/{name}")
    for name in ("é", "x.git"):
        refused(FixUsage, r"(?i)repo.id", f"hf://lab/{name}")
        with pytest.raises(FixUsage, match=r"(?i)repo.id"):
            open_store(f"hf://lab/{name}")
    new = home / "new"
    to_read = "is only for addresses that are read"
    refused(FixUsage, to_read, f"{new}#sha256={'0' * 64}")
    refused(FixUsage, "expected a folder, got a file", store / "chunks.crc32c" / "new")
    refused(FixUsage, "licence of this store is missing", new, no_licence=False)
    path = store / "tokens/c.1.0.0.0"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    refused(Corrupt, "is damaged", new)
    # Nor does it claim the place.
    assert not new.exists()


def test_a_place_inside_or_above_another_store_is_refused(store, home) -> None:
    inside = "outside this store|inside another store"
    push(store, home / "lab" / "films", no_licence=True)
    before = files_of(home)
    other = write(home.with_name("other"), values=values_of(seed=1))
    for path in (home / "lab" / "films" / "new", home / "lab" / "films" / "a" / "new"):
        with pytest.raises(AlreadyThere, match=inside):
            push(other, path, no_licence=True)
        with pytest.raises(AlreadyThere, match=inside):
            subset(other, path, films=[FILM])
        with pytest.raises(AlreadyThere, match=inside):
            pull(other, path)
    with pytest.raises(AlreadyThere, match="does not belong to this store"):
        push(other, home / "lab", no_licence=True)
    assert files_of(home) == before
    # What was begun there is a store, too.
    (home / "begun" / "seal.claim").mkdir(parents=True)
    (home / "begun" / "seal.claim" / "seal.json").write_text('{"seal": "ab"}')
    with pytest.raises(AlreadyThere, match=inside):
        push(other, home / "begun" / "new", no_licence=True)
    with pytest.raises(AlreadyThere, match="is being sent here, or was sent in part"):
        push(other, home / "begun", no_licence=True)


def test_a_pull_while_the_source_is_replaced_says_so(store, home, monkeypatch) -> None:
    later = write(home / "later", values=values_of(seed=1))
    *_, last = open_store(store).record.files
    real = copying.write_pieces

    def write_pieces(pieces: Iterator[bytes], path: Path, *given: Any) -> None:
        if path.name == Path(last).name and later.exists():
            store.rename(home / "before")
            later.rename(store)
        real(pieces, path, *given)

    with monkeypatch.context() as patch:
        patch.setattr(copying, "write_pieces", write_pieces)
        with pytest.raises(Stopped, match="the store was replaced while it was read"):
            pull(store, home / "copy")
    assert not (home / "copy").exists()
    pull(store, home / "copy")
    assert is_copy(home / "copy", store)
    assert not list(home.glob(".copy*"))


def test_a_copy_that_another_process_finishes_is_the_copy(store, home, monkeypatch):
    """Path.mkdir looks twice, and the other process renames the folder in between."""
    real = Path.mkdir

    def mkdir(self: Path, *given: Any, **more: Any) -> None:
        if ".copy." in str(self) and not (home / "copy").exists():
            monkeypatch.setattr(Path, "mkdir", real)
            pull(store, home / "copy")
            raise FileExistsError(17, "File exists", str(self))
        real(self, *given, **more)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    pull(store, home / "copy")
    assert is_copy(home / "copy", store)
    assert not list(home.glob(".copy*"))


def test_the_same_terms_are_stated_twice(store: Path, home: Path) -> None:
    terms = {"licence": "cc-by-4.0", "citation": "Doe (2026).\n\tGazes\ton film. "}
    for licence in ("cc-by-4.0 ", "CC-BY-4.0", "cc-by-4.0 "):
        push(store, home / "shared", **{**terms, "licence": licence})
    for other in ({"licence": "MIT"}, {"citation": "Doe (2027)."}):
        with pytest.raises(AlreadyThere, match="stated already"):
            push(store, home / "shared", **other)
    card = (home / "shared" / "README.md").read_text("utf-8")
    assert card.startswith("---\nlicense: cc-by-4.0\ncitation: ")


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_store_that_changes_while_it_is_pushed(store, home, monkeypatch, is_kept):
    """The store before is sent; where nobody kept it, no store is there: it might be of two."""
    real = FolderTarget.put
    seal = open_store(store).seal
    later = write(home / "later", values=values_of(seed=1))
    before = replaced_store_path(store, seal) if is_kept else home / "before"
    expected = files_of(store)

    def put(self: FolderTarget, name: str, path: Path, mark: FileMark) -> None:
        if not before.exists() and name.startswith("tokens"):
            store.rename(before)
            later.rename(store)
        real(self, name, path, mark)

    with monkeypatch.context() as patch:
        patch.setattr(FolderTarget, "put", put)
        if is_kept:
            made = push(store, home / "shared", no_licence=True)
            assert (made.seal, len(made.notes)) == (seal, 1)
            assert files_of(home / "shared") == expected
            return
        with pytest.raises(Stopped, match="the store was replaced while"):
            push(store, home / "shared", no_licence=True)
    with pytest.raises(NotFound, match="was not finished"):
        open_store(home / "shared")
    # The place belongs to the first seal that came.
    with pytest.raises(AlreadyThere, match="a different store is being sent here"):
        push(store, home / "shared", no_licence=True)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with hub_here(monkeypatch) as hub:
        yield hub


@pytest.mark.check("a server of the hub")
def test_a_store_is_pushed_to_the_hub(hub: FakeHub, store: Path, home: Path) -> None:
    url = "hf://lab/films"
    hub.files[".gitattributes"] = b"* -text"
    push(store, url, no_licence=True)
    assert hub.private
    assert hub.files[".gitattributes"]
    pull(url, home / "copy")
    assert is_copy(home / "copy", store)
    before = hub.head
    assert push(store, url, no_licence=True).notes == []
    assert is_copy(home / "copy", store)
    (store / "README.md").write_text("---\nlicense: cc-by-4.0\n---\nmine\n")
    push(store, url)
    assert hub.files["README.md"] == (store / "README.md").read_bytes()
    (store / "README.md").write_text("---\nlicense: cc-by-4.0\ntags: [\n---\n")
    with pytest.raises(FixInput, match=r"README\.md.*unexpected end"):
        push(store, url)
    assert open_store(f"{url}@{before}").seal == open_store(store).seal
    # Another store is never sent there.
    at_the_hub = dict(hub.files)
    rest = home / "rest"
    subset(store, rest, without=[FILM])
    with pytest.raises(AlreadyThere, match="a different store exists here"):
        push(rest, url)
    assert hub.files == at_the_hub


def test_a_copy_that_is_there_and_damaged_is_said(store: Path, home: Path) -> None:
    pull(store, home / "copy")
    flip_bit(home / "copy" / "tokens/c.0.0.0.0", 5)
    with pytest.raises(Corrupt, match=r"tokens/c\.0\.0\.0\.0"):
        pull(store, home / "copy")


def test_a_missing_card_is_copied_again(store: Path, home: Path) -> None:
    pull(store, home / "copy")
    card = home / "copy" / "README.md"
    card.unlink()
    copied = pull(store, home / "copy")
    assert (copied.n_sent, copied.notes) == (1, [])
    assert card.read_bytes() == (store / "README.md").read_bytes()


def test_terms_that_were_corrected_at_the_target_stay_there(store, home) -> None:
    push(store, home / "out", no_licence=True)
    push(store, home / "out", licence="CC-BY-4.0")
    card = home / "out" / "README.md"
    corrected = card.read_bytes().replace(b"cc-by-4.0", b"cc-by-nc-4.0")
    card.write_bytes(corrected)
    with pytest.raises(AlreadyThere, match="stated already: CC-BY-NC") as caught:
        push(store, home / "out")
    assert (caught.value.where, card.read_bytes()) == (str(home / "out"), corrected)
    added = corrected.replace(b"nc-4.0\n", b'4.0\ncitation: "Doe, 2026"\n', 1)
    card.write_bytes(added)
    with pytest.raises(AlreadyThere, match=r"already: CC-BY-4\.0 Doe, 2026"):
        push(store, home / "out")
    push(store, home / "out", citation="Doe, 2026")
    assert b"Doe, 2026" in card.read_bytes()


def test_a_licence_edited_in_the_head_is_also_written_into_the_text(store, home):
    """Pages and hints send users to the head; the text must not state another licence."""
    push(store, home / "out", licence="cc-by-4.0")
    card = store / "README.md"
    before = card.read_text("utf-8")
    assert push(store, home / "out").notes == []
    head = "license: 'cc-by-nc-4.0' # ours\ncitation: Doe, 2026\n"
    card.write_text(before.replace("license: cc-by-4.0\n", head), "utf-8")
    (note,) = push(store, home / "sent").notes
    assert note == f"wrote these terms into README.md of {store}"
    sent = (home / "sent" / "README.md").read_text("utf-8")
    assert sent == card.read_text("utf-8")
    assert sent.startswith(f"---\n{head}pretty_name:")
    assert "\nLicence: CC-BY-NC-4.0\n\nDoe, 2026\n" in sent
    assert push(store, home / "sent").notes == []


def test_a_readme_at_the_target_is_replaced(store: Path, home: Path) -> None:
    (store / "README.md").write_text("---\nlicense: cc-by-4.0\n---\nmine\n")
    push(store, home / "out")
    card = home / "out" / "README.md"
    assert card.read_text() == (store / "README.md").read_text()
    card.write_text("theirs")
    push(store, home / "out")
    assert is_copy(home / "out", store)
    # Where there is none, it has the terms.
    (store / "README.md").unlink()
    push(store, home / "made", licence="CC0-1.0")
    text = (home / "made" / "README.md").read_text("utf-8")
    assert text.startswith("---\nlicense: cc0-1.0\n")
