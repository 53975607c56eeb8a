"""Licence and citation of a store: stated when it is planned or later, kept, never mixed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.folder_hub import FolderHub
from support.store_servers import web_server
from support.stores import (
    copy_of_sealed,
    fill_store,
    plan_store,
    sealed_store,
    some_ids,
    tree,
)
from support.stores import some_values as values_of

from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixInput,
    FixUsage,
    Mismatch,
)
from obygaze_features.core.files import sha256_file
from obygaze_features.store import (
    export_store,
    merge,
    open_store,
    pack,
    pull,
    push,
    state_licence,
    subset,
    unpack,
    verify,
)
from obygaze_features.store.format.records import Terms
from obygaze_features.store.read.describe import card_text, describe, summary
from obygaze_features.store.remote import hub as hub_module
from obygaze_features.store.write.licence import require_terms

DOE = "Doe, J. (2026). Films."
ROE = "Roe, R. (2025). More films."


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A sealed store without a licence or a citation."""
    sealed_store(tmp_path / "bare", licence="", citation="")
    return tmp_path / "bare"


def a_store(path: Path, clips: slice, licence: str, citation: str) -> Path:
    ids, films = some_ids(10)
    given = {"clip_ids": ids[clips], "movie_ids": films[clips]}
    plan_store(path, len(ids[clips]), licence=licence, citation=citation, **given)
    fill_store(path, values_of(len(ids[clips]))).seal()
    return path


def test_a_licence_is_stated_for_a_sealed_store_and_its_seal_does_not_change(
    bare: Path,
) -> None:
    before = tree(bare)
    state_licence(bare, licence="CC-BY-4.0", citation=DOE)
    after = tree(bare)
    record = after.pop("licence.json")
    assert after == before
    store = open_store(bare)
    assert (store.licence, store.citation) == ("CC-BY-4.0", DOE)
    assert not verify(bare, hashes=True).problems and not verify(bare).warnings
    # As docs/format.md describes it, without this package.
    document = json.loads(record)
    assert list(document) == ["sha256", "format", "version", "plan", "statements"]
    assert document["plan"] == sha256_file(bare / "store.json")
    (statement,) = document["statements"]
    assert statement["licence"] == "CC-BY-4.0" and statement["citation"] == DOE
    assert statement["stated_by"].startswith("obygaze ") and statement[
        "stated"
    ].endswith("Z")


def test_what_is_stated_is_in_every_form_that_shows_a_licence(
    bare: Path, tmp_path: Path
) -> None:
    state_licence(bare, licence="CC-BY-4.0", citation=DOE)
    store = open_store(bare)
    assert summary(store)["licence"] == "CC-BY-4.0"
    assert "licence      CC-BY-4.0\ncitation     Doe, J. (2026). Films." in describe(
        store
    )
    export_store(store, tmp_path / "a.npz", "npz")
    facts = json.loads(str(np.load(tmp_path / "a.npz")["obygaze_provenance"]))
    assert (facts["licence"], facts["citation"]) == ("CC-BY-4.0", DOE)
    subset(store, tmp_path / "part", arrays=["clip"])
    assert open_store(tmp_path / "part").plan.terms == ("CC-BY-4.0", DOE)


def test_another_licence_needs_replace_and_the_history_keeps_both(bare: Path) -> None:
    state_licence(bare, licence="CC-BY-4.0")
    with pytest.raises(
        AlreadyThere, match=r"has the licence 'CC-BY-4\.0', got 'CC0-1\.0'"
    ):
        state_licence(bare, licence="CC0-1.0", citation=DOE)
    assert open_store(bare).citation == ""
    state_licence(bare, citation=DOE)  # it had none
    state_licence(bare, licence="CC0-1.0", replace=True)
    state_licence(bare, licence="CC0-1.0")  # the same again is no further statement
    stated = summary(open_store(bare))["licence_history"]
    terms = [(item["licence"], item["citation"]) for item in stated]
    assert terms == [("CC-BY-4.0", ""), ("CC-BY-4.0", DOE), ("CC0-1.0", DOE)]


def test_the_licence_of_the_plan_is_in_the_history_too(tmp_path: Path) -> None:
    copy_of_sealed(tmp_path / "s")
    with pytest.raises(AlreadyThere, match="--replace"):
        state_licence(tmp_path / "s", licence="MIT")
    state_licence(tmp_path / "s", licence="MIT", replace=True)
    stated = summary(open_store(tmp_path / "s"))["licence_history"]
    assert [item["licence"] for item in stated] == ["CC0-1.0", "MIT"]


def test_a_licence_that_is_stated_before_the_seal_is_in_the_card(
    tmp_path: Path,
) -> None:
    plan_store(tmp_path / "s", licence="", citation="")
    state_licence(tmp_path / "s", licence="CC-BY-4.0", citation=DOE)
    fill_store(tmp_path / "s", values_of(23)).seal()
    card = (tmp_path / "s/README.md").read_text()
    assert (
        "license: cc-by-4.0" in card and "Licence: CC-BY-4.0\n" in card and DOE in card
    )
    assert not verify(tmp_path / "s", hashes=True).problems


@pytest.mark.parametrize("damage", ["bit", "other store", "values"])
def test_a_damaged_or_foreign_record_is_an_error_and_verify_names_it(
    bare: Path, tmp_path: Path, damage: str
) -> None:
    state_licence(bare, licence="CC-BY-4.0")
    record = bare / "licence.json"
    if damage == "bit":
        record.write_bytes(record.read_bytes().replace(b"CC-BY", b"CC-BZ"))
    elif damage == "other store":
        copy_of_sealed(tmp_path / "other")
        shutil.copy(record, tmp_path / "other/licence.json")
        record = tmp_path / "other/licence.json"
    else:
        from obygaze_features.store.format.records import with_checksum

        document = json.loads(record.read_bytes())
        document.pop("sha256")
        record.write_bytes(with_checksum({**document, "statements": [{"licence": 3}]}))
    with pytest.raises(Corrupt, match=r"licence\.json|sha256|invalid"):
        _ = open_store(record.parent).licence
    assert [problem.name for problem in verify(record.parent).problems] == [
        "licence.json"
    ]


def test_a_licence_goes_with_every_copy(bare: Path, tmp_path: Path) -> None:
    state_licence(bare, licence="CC-BY-4.0", citation=DOE)
    store = open_store(bare)
    pack(store, tmp_path / "s.zip")
    assert open_store(tmp_path / "s.zip").licence == "CC-BY-4.0"
    unpack(tmp_path / "s.zip", tmp_path / "unpacked")
    push(store, tmp_path / "pushed")
    with web_server(tmp_path) as server:
        pull(f"{server.url}/bare", tmp_path / "pulled")
        pull(f"{server.url}/s.zip", tmp_path / "pulled-zip", arrays=["clip"])
    for name in ("unpacked", "pushed", "pulled", "pulled-zip"):
        assert open_store(tmp_path / name).terms == ("CC-BY-4.0", DOE), name
        assert not verify(tmp_path / name, hashes=True).warnings
    assert tree(tmp_path / "unpacked") == tree(bare)


@pytest.mark.parametrize("chosen", [{}, {"arrays": ["clip"]}, {"films": ["tt0000100"]}])
def test_a_licence_that_is_stated_later_comes_with_the_next_pull(
    bare: Path, tmp_path: Path, chosen: dict[str, list[str]]
) -> None:
    pull(bare, tmp_path / "copy", **chosen)
    state_licence(bare, licence="CC-BY-4.0")
    pull(bare, tmp_path / "copy", **chosen)
    assert open_store(tmp_path / "copy").licence == "CC-BY-4.0"
    state_licence(tmp_path / "copy", citation=DOE)  # the copy now knows more
    pull(bare, tmp_path / "copy", **chosen)
    assert open_store(tmp_path / "copy").terms == ("CC-BY-4.0", DOE)
    assert not verify(tmp_path / "copy", hashes=True).problems
    state_licence(bare, licence="CC0-1.0", replace=True)
    with pytest.raises(
        AlreadyThere, match=r"another licence was stated .*'CC-BY-4\.0', not 'CC0"
    ):
        pull(bare, tmp_path / "copy", **chosen)


def test_the_card_on_the_hub_has_a_licence_that_was_stated_after_the_seal(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "HuggingFaceHub", FolderHub(tmp_path / "hub").of)
    state_licence(bare, licence="CC-BY-4.0")
    push(open_store(bare), "hf://lab/films")
    there = tmp_path / "hub/lab/films"
    assert sorted(tree(there)) == ["README.md", "films.zip"]
    assert "license: cc-by-4.0" in (there / "README.md").read_text()
    assert open_store(there / "films.zip").licence == "CC-BY-4.0"


def test_nothing_is_pushed_without_a_licence(bare: Path, tmp_path: Path) -> None:
    store = open_store(bare)
    command = rf"obygaze store licence {bare} --licence .*--no-licence"
    with pytest.raises(FixInput, match="states no licence") as refused:
        push(store, tmp_path / "pushed")
    assert refused.match(command)
    assert not (tmp_path / "pushed").exists()
    push(store, tmp_path / "pushed", no_licence=True)
    assert verify(tmp_path / "pushed", hashes=True).problems == []


def test_stores_of_different_licences_are_merged_only_with_a_decision(
    tmp_path: Path,
) -> None:
    a_store(tmp_path / "free", slice(0, 4), "CC0-1.0", DOE)
    a_store(tmp_path / "not", slice(4, 7), "CC-BY-NC-ND-4.0", ROE)
    a_store(tmp_path / "bare", slice(7, 10), "", DOE)
    free, bound, bare = (
        open_store(tmp_path / name) for name in ("free", "not", "bare")
    )
    with pytest.raises(Mismatch, match=r"'CC0-1\.0' and 'CC-BY-NC-ND-4\.0'") as refused:
        merge([free, bound], tmp_path / "m")
    assert refused.match("--licence")
    with pytest.raises(Mismatch, match=r"'CC0-1\.0' and none stated"):
        merge([free, bare], tmp_path / "m")
    assert not (tmp_path / "m").exists()
    merge([free, bound, bare], tmp_path / "m", licence="CC-BY-NC-ND-4.0")
    assert open_store(tmp_path / "m").terms == ("CC-BY-NC-ND-4.0", f"{DOE}\n{ROE}")
    with pytest.raises(
        AlreadyThere, match=r"has the licence 'CC-BY-NC-ND-4\.0', got 'CC0-1\.0'"
    ):
        merge([free, bound, bare], tmp_path / "m", licence="CC0-1.0")


def test_a_citation_from_a_page_or_a_file_of_windows_is_text(bare: Path) -> None:
    # With a space that does not break, as pages have it, and with the line ends of Windows.
    copied = "Doe,\u00a0J.\u2009(2026).\r\nFilms.\r\n"
    terms = state_licence(bare, licence="CC\u00a0BY", citation=copied)
    assert terms == ("CC\u00a0BY", "Doe,\u00a0J.\u2009(2026).\nFilms.")
    assert open_store(bare).terms == terms
    # The same again is no other citation.
    assert state_licence(bare, citation=copied) == terms
    require_terms(bare, Terms("CC\u00a0BY ", copied))


def test_a_licence_is_stated_for_a_folder_only_and_in_one_line(
    bare: Path, tmp_path: Path
) -> None:
    pack(open_store(bare), tmp_path / "s.zip")
    with pytest.raises(FixUsage, match="unpack"):
        state_licence(tmp_path / "s.zip", licence="MIT")
    with pytest.raises(FixUsage, match="pull"):
        state_licence("https://example.org/films", licence="MIT")
    for licence in ("CC0\n\n# Heading", "CC0\x1b[2J"):
        with pytest.raises(FixUsage, match="one line of printable text"):
            state_licence(bare, licence=licence)
    with pytest.raises(FixUsage, match="control characters"):
        state_licence(bare, citation="Doe\x1b[2J")
    with pytest.raises(FixUsage, match="a shorter citation"):
        state_licence(bare, citation="Doe " * 300_000)
    state_licence(bare, citation="@article{doe,\n  title = {Films}\n}")
    assert open_store(bare).citation.count("\n") == 2


def test_the_citations_of_a_merged_store_are_told_apart(tmp_path: Path) -> None:
    sealed_store(tmp_path / "s", citation=f"{DOE}\nRoe (2027).")
    store = open_store(tmp_path / "s")
    assert f"citation     {DOE} | Roe (2027)." in describe(store).splitlines()
    card = card_text(store.plan, store.status().counts)
    assert f"{DOE} | Roe (2027)." in card.replace("\\|", "|").splitlines()


def test_the_command_states_and_shows(workspace: Path) -> None:
    sealed_store(workspace / "stores/toy", licence="", citation="")
    shown = call_obygaze("-C", workspace, "store", "licence", "toy").ok()
    assert shown.stdout == "licence   not stated\ncitation  none given\n"
    refused = call_obygaze("-C", workspace, "store", "push", "toy", workspace / "copy")
    assert (
        refused.code == 1 and "--licence CC-BY-4.0, or --no-licence" in refused.stderr
    )
    stated = call_obygaze(
        *("-C", workspace, "store", "licence", "toy", "--licence", "CC-BY-4.0"),
        *("--citation", DOE, "--json"),
    ).ok()
    assert stated.json()["licence"] == "CC-BY-4.0"
    assert [item["citation"] for item in stated.json()["licence_history"]] == [DOE]
    call_obygaze("-C", workspace, "store", "push", "toy", workspace / "copy").ok()
    lines = (
        call_obygaze("-C", workspace, "store", "licence", "toy")
        .ok()
        .stdout.splitlines()
    )
    assert lines[:2] == ["licence   CC-BY-4.0", f"citation  {DOE}"]
    assert lines[2].startswith("stated    ") and lines[2].endswith(
        f": CC-BY-4.0, {DOE}"
    )


@pytest.mark.parametrize(
    ("licence", "warning"),
    [
        ("CCBY4", "'CCBY4' is not an SPDX identifier that obygaze knows (did you mean"),
        ("research only", "'research only' is not an SPDX identifier"),
        ("cc-by-4.0", ""),
        ("CC0-1.0", ""),
    ],
)
def test_a_licence_that_no_catalogue_knows_is_named(
    tmp_path: Path, licence: str, warning: str
) -> None:
    np.save(tmp_path / "lake-1.npy", np.zeros(2, dtype=np.float32))
    for name in ("a", "b"):
        stated = ("--licence", licence) if name == "a" else ()
        imported = call_obygaze(
            *("-C", tmp_path, "store", "import", "npy", tmp_path, "-o", name, *stated)
        ).ok()
        assert imported.stderr.count("Warning: ") == bool(warning and stated)
    stated = call_obygaze(
        *("-C", tmp_path, "store", "licence", "b", "--licence", licence)
    ).ok()
    assert stated.stdout.startswith(f"licence   {licence}")
    assert stated.stderr.count("Warning: ") == bool(warning)
    assert warning in stated.stderr
    if licence == "CCBY4":
        assert "'CC-BY-4.0'" in stated.stderr
