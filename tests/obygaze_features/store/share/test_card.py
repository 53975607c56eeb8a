"""`obygaze store card`, and the metadata of a publication, whatever a store says of itself."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.store_damage import changed
from support.stores import (
    block_of,
    copy_of_sealed,
    plan_store,
    sealed_store,
    some_values,
    tree,
)

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import sha256_file
from obygaze_features.core.metadata import Publication
from obygaze_features.store import RowStatus, StoreWriter, open_store, pack
from obygaze_features.store.format.makers import Maker
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.share.publication import (
    CITATION_FILE,
    HERE,
    ZENODO_FILE,
    publish,
)
from obygaze_features.store.write.licence import state_licence

HOSTILE = (
    "CC0\n\n# Fake heading\n\n---\nlicence      MIT\n[here](javascript:alert(1)) "
    "<script>alert(1)</script> `code` | cell |\n- item\n\x1b[2J\x1b[8mhidden\u202egnp.\u2028next"
)
DOE = ["Doe, Jane"]
FOREIGN = {
    "empty": b"",
    "text": b"years of work",
    "table": b"clip_id,movie_id,rating\nm-1,m,5\n",
    "json": b'{"fingerprint": "x", "recipe": {}, "created_by": "somebody"}',
}


def call(workspace: Path, *words: str):
    return call_obygaze("-C", str(workspace), "store", *words)


def test_a_card_says_what_how_and_what_is_not_inside(workspace: Path) -> None:
    sealed_store(workspace / "stores" / "whole")
    text = call(workspace, "card", "whole").ok().stdout
    assert text.startswith('---\nlicense: cc0-1.0\npretty_name: "made-up toy"\n')
    for words in (
        "# Features of made-up: toy",
        "No film, no image",
        "Nobody (2026).",
        "`frames`",
        "## Limits",
    ):
        assert words in text
    target = workspace / "croissant.json"
    call(workspace, "card", "whole", "--croissant", str(target)).ok()
    target.write_text("mine")
    assert call(workspace, "card", "whole", "--croissant", str(target)).code == 1
    assert target.read_text() == "mine"
    assert call(workspace, "card", "whole", "--json").ok().json()["card"] == text


def test_a_card_is_only_text_on_a_terminal(workspace: Path) -> None:
    hostile = "films\x1b]52;c;aGFjaw==\x07\x1b[2J"
    terms = {"citation": hostile, "licence": hostile}
    sealed_store(workspace / "stores" / "s", manifest_name=hostile, **terms)
    done = call(workspace, "card", "s").ok()
    assert "films" in done.stdout
    assert not {"\x1b", "\x07"} & set(done.stdout + done.stderr)


def test_a_card_says_that_clips_were_made_in_several_ways(workspace: Path) -> None:
    cpu = Maker(
        "obygaze 0.1.0", "cpu", "Some CPU", "float32", "node1", (("torch", "2.8"),)
    )
    gpu = replace(cpu, device="cuda", device_name="Some GPU")
    path = workspace / "stores" / "s"
    plan = plan_store(path, 8, 4)
    writer, values = StoreWriter(path, mixed=True), some_values(8, plan.arrays)
    for block, maker in enumerate((cpu, gpu)):
        rows = plan.block_range(block)
        statuses = [RowStatus()] * 4
        writer.commit_block(block, block_of(values, rows), statuses, makers=[maker] * 4)
    writer.seal()
    card = " ".join(call(workspace, "card", "s").ok().stdout.split())
    assert (
        "its clips were made in 2 different ways: obygaze 0.1.0 on cpu, float32; obygaze 0.1.0 on "
        "cuda, float32"
    ) in card


def test_force_replaces_a_croissant_document_and_no_other_file(workspace: Path) -> None:
    store = copy_of_sealed(workspace / "stores" / "s")

    def write(path: Path) -> int:
        return call(workspace, "card", "s", "--croissant", str(path), "--force").code

    own = workspace / "own.json"
    assert (write(own), write(own)) == (0, 0)
    for name, data in FOREIGN.items():
        (workspace / name).write_bytes(data)
    pack(open_store(store), workspace / "packed")
    names = (*FOREIGN, "packed")
    before = {name: (workspace / name).read_bytes() for name in names}
    for name in names:
        assert write(workspace / name) == 1, name
    assert {name: (workspace / name).read_bytes() for name in names} == before


def test_what_is_published_has_the_sha256_of_the_seal(workspace: Path) -> None:
    store = copy_of_sealed(workspace / "stores" / "s")
    number = sha256_file(store / "seal.json")
    publish(open_store(store), str(workspace / "record"), DOE)
    for name in ("README.md", "CITATION.cff", "croissant.json", ".zenodo.json"):
        text = (workspace / "record" / name).read_text(encoding="utf-8")
        assert f"sha256:{number}" in text, name
    assert "expect" not in (store / "README.md").read_text(encoding="utf-8")
    assert f"sha256:{number}" in call(workspace, "card", "s").ok().stdout


def test_a_licence_that_is_stated_later_is_in_all_that_is_published(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bare"
    sealed_store(path, licence="", citation="")
    bare = open_store(path)
    command = rf"obygaze store licence {path} --licence .*--no-licence"
    with pytest.raises(FixInput, match="states no licence") as refused:
        publish(bare, str(tmp_path / "published"), DOE)
    assert refused.match(command)
    assert not (tmp_path / "published").exists()
    publish(bare, str(tmp_path / "published"), DOE, no_licence=True)
    croissant = json.loads((tmp_path / "published/croissant.json").read_bytes())
    assert "license" not in croissant
    state_licence(path, licence="CC-BY-4.0", citation="Doe, J. (2026). Films.")
    publish(open_store(path), str(tmp_path / "out"), DOE)
    assert "\nlicense: cc-by-4.0\n" in (tmp_path / "out/README.md").read_text()
    croissant = json.loads((tmp_path / "out/croissant.json").read_bytes())
    assert croissant["license"] == "CC-BY-4.0"
    zenodo = json.loads((tmp_path / "out/.zenodo.json").read_bytes())
    assert zenodo["license"] == "cc-by-4.0"
    assert "\nlicense: CC-BY-4.0\n" in (tmp_path / "out/CITATION.cff").read_text()


def test_no_file_is_published_that_a_seal_should_not_list(tmp_path: Path) -> None:
    path = copy_of_sealed(tmp_path / "s")
    data = b"[core]\nfsmonitor = touch pwned\n"
    (path / ".git").mkdir()
    (path / ".git" / "config").write_bytes(data)
    files = json.loads((path / "seal.json").read_bytes())["files"]
    listed = {**files, ".git/config": list(FileMark.of(data))}
    changed(path / "seal.json", files=listed)
    before = tree(tmp_path)
    with pytest.raises(Corrupt, match=re.escape("'.git/config'")):
        publish(open_store(path), str(tmp_path / "published"), DOE)
    assert tree(tmp_path) == before


def test_metadata_stay_valid() -> None:
    yaml = pytest.importorskip("yaml")
    publication = Publication(
        kind="store",
        name=HOSTILE,
        title=HOSTILE,
        description=HOSTILE,
        collection=HOSTILE,
        licence=HOSTILE,
        citation=HOSTILE,
        created="2026-01-01",
        creators=[HOSTILE.replace(", ", ",")],
        facts={"seal": "sha256:00"},
    )
    cff = yaml.safe_load(publication.document(CITATION_FILE, HERE))
    assert set(cff) >= {"title", "authors", "message"} and "license" not in cff
    assert "\x1b" not in cff["title"]
    zenodo = json.loads(publication.document(ZENODO_FILE, HERE))
    assert "<script" not in zenodo["description"] + zenodo["notes"]
