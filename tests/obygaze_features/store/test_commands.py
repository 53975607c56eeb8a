"""`obygaze store ...` as people type it: results on stdout, talk on stderr, honest exit codes."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import call_obygaze
from support.store_servers import web_server
from support.stores import a_recipe, fill_store, plan_store, sealed_store, some_values

from obygaze_features.store import RowStatus, open_store


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with a whole store, one still being filled, and a folder that is none."""
    stores = tmp_path / "ws/stores"
    sealed_store(stores / "whole")
    plan_store(stores / "growing")
    status_of_row = {
        1: RowStatus.failed("decode", "InvalidDataError", "moov atom not found")
    }
    fill_store(stores / "growing", some_values(23), status_of_row, blocks=[0, 2])
    (stores / "notes").mkdir()
    return tmp_path / "ws"


def call(workspace: Path, *words: str):
    return call_obygaze("-C", str(workspace), "store", *words)


def test_ls_lists_stores_and_their_state(workspace: Path) -> None:
    found = call(workspace, "ls").ok()
    lines = [line.split() for line in found.stdout.splitlines()]
    assert lines[0][:4] == ["name", "backbone", "clips", "ok"]
    assert [line[:4] for line in lines[1:]] == [
        ["growing", "toy", "23", "7"],
        ["whole", "toy", "23", "23"],
    ]
    assert "2 of 6 blocks" in found.stdout and "sealed" in found.stdout
    rows = call(workspace, "ls", "--json").ok().json()["stores"]
    assert [(row["name"], row["committed_blocks"], row["sealed"]) for row in rows] == [
        ("growing", 2, False),
        ("whole", 6, True),
    ]


def test_ls_goes_on_past_a_store_that_is_broken(workspace: Path) -> None:
    (workspace / "stores/growing/store.json").write_text("{}")
    found = call(workspace, "ls", "--json").ok()
    assert [row["name"] for row in found.json()["stores"]] == ["whole"]
    assert found.json()["broken"] == ["growing"]
    assert "obygaze store verify growing" in found.stderr
    (workspace / "nothing").mkdir()
    told = call(workspace / "nothing", "ls").ok().stderr
    assert told.startswith(f"no stores in {workspace / 'nothing' / 'stores'} yet")


@pytest.mark.parametrize("number", ["1e999", "NaN", "-1", "1.5", "null"])
@pytest.mark.parametrize("file", ["store.json", "seal.json"])
def test_ls_goes_on_past_every_number_that_is_none(
    workspace: Path, file: str, number: str
) -> None:
    path = workspace / "stores/whole" / file
    text = path.read_text()
    # The number of rows in the plan; the length of the first file in the seal.
    changed, n_changes = re.subn(
        r'("n_clips": |: \[\n? *)\d+', rf"\g<1>{number}", text, count=1
    )
    assert n_changes == 1
    path.write_text(changed)
    found = call(workspace, "ls", "--json").ok()
    assert [row["name"] for row in found.json()["stores"]] == ["growing"]
    assert found.json()["broken"] == ["whole"]


def test_info_explains_in_prose_and_lists_what_failed(workspace: Path) -> None:
    text = call(workspace, "info", "growing").ok().stdout
    for words in (
        "features of 23 clips of the manifest 'made-up', in 6 blocks of 4 clips",
        "7 ok, 1 failed and 15 missing",
        "made by the backbone toy",
        "3 frames of each clip were taken by the rule uniform",
        "frames  3 x 4     float16",
        "2 of 6 blocks",
        "CC0-1.0",
        a_recipe().fingerprint,
        "tt0000100-002  failed: decode InvalidDataError: moov atom not found",
    ):
        assert words in text
    facts = call(workspace, "info", "growing", "--json").ok().json()
    assert facts["recipe"] == a_recipe().to_json()
    assert facts["counts"] == {"ok": 7, "failed": 1, "missing": 15}
    assert facts["not_ok"]["tt0000100-002"]["error"] == "InvalidDataError"


def test_a_path_is_as_good_as_a_name(workspace: Path) -> None:
    assert (
        "23 clips"
        in call_obygaze("store", "info", str(workspace / "stores/whole")).ok().stdout
    )


def test_what_is_not_there_is_one_clear_error(workspace: Path) -> None:
    found = call(workspace, "info", "nope")
    assert found.code == 1 and found.stdout == ""
    assert found.stderr.splitlines()[0] == "Error: no store called 'nope'"
    assert len(found.stderr.splitlines()) <= 3


def test_verify_says_whole_or_names_the_file(workspace: Path) -> None:
    assert "whole: " in call(workspace, "verify", "whole", "--hash").ok().stdout
    assert "2 of" not in call(workspace, "verify", "growing").ok().stdout
    chunk = workspace / "stores/whole/data.zarr/clip/c.3.0"
    data = bytearray(chunk.read_bytes())
    data[7] ^= 16
    chunk.write_bytes(data)
    lengths = call(workspace, "verify", "whole").ok().stdout
    assert lengths.startswith("complete: ")  # its length is right
    assert "its bytes were not compared (--hash)" in lengths
    assert "consistent" not in lengths
    found = call(workspace, "verify", "whole", "--hash", "--json")
    assert found.code == 4
    assert found.json()["whole"] is False
    assert found.json()["problems"] == [
        {
            "name": "data.zarr/clip/c.3.0",
            "message": "its sha256 is not the one that was committed",
        }
    ]
    assert "data.zarr/clip/c.3.0" in found.stderr


def test_verify_refuses_a_later_version_as_a_mismatch(workspace: Path) -> None:
    file = workspace / "stores/growing/store.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": 7}))
    found = call(workspace, "verify", "growing")
    assert found.code == 5 and "pip install --upgrade obygaze" in found.stderr


def test_verify_can_extract_again_where_extraction_is_there(
    workspace, monkeypatch
) -> None:
    from obygaze_features.store.read import verify

    monkeypatch.setattr(verify, "REEXTRACTOR", "obygaze_features.nowhere:redecoder")
    found = call(workspace, "verify", "whole", "--decode", "2")
    assert found.code == 2 and "obygaze[extract]" in found.stderr

    values = some_values(23)

    def redecoder(_workspace, store, _weights):
        rows = {clip: row for row, clip in enumerate(store.clip_ids.tolist())}
        return lambda clips: {
            clip: {
                "clip": values["clip"][rows[clip]],
                "pooled": -values["pooled"][rows[clip]],
            }
            for clip in clips
        }

    monkeypatch.setattr(verify, "redecoder", redecoder, raising=False)
    monkeypatch.setattr(verify, "REEXTRACTOR", f"{verify.__name__}:redecoder")
    found = call(workspace, "verify", "whole", "--decode", "2", "--json")
    assert found.code == 4
    assert found.json()["cosines"]["clip"]["least"] == 1.0
    assert found.json()["cosines"]["pooled"]["least"] == pytest.approx(-1.0)


def test_diff_tells_two_stores_apart(workspace: Path) -> None:
    same = call(workspace, "diff", "whole", "whole").ok()
    assert same.stdout == "the same: recipe, 23 clips, every number\n"
    found = call(workspace, "diff", "whole", "growing").ok()
    assert "recipe: the same" in found.stdout
    assert "clips: 23 in both, 0 only in the first" in found.stdout
    assert "tt0000100-002: ok here, failed there" in found.stdout
    record = call(workspace, "diff", "whole", "growing", "--json").ok().json()
    assert record["same"] is False
    assert [array["n_clips"] for array in record["compared"]] == [7, 7, 7, 7]


def test_subset_and_merge_make_stores_of_the_workspace(workspace: Path) -> None:
    made = call(
        workspace,
        "subset",
        "whole",
        "--film",
        "tt0000101",
        "--array",
        "clip",
        "-o",
        "one",
    )
    assert "5 clips, 2 blocks copied, sealed" in made.ok().stdout
    clips = workspace / "clips.txt"
    clips.write_text("tt0000102-001\ntt0000100-003\n")
    made = call(
        workspace,
        "subset",
        "whole",
        "--clips",
        str(clips),
        "--array",
        "clip",
        "-o",
        "two",
        "--json",
    )
    assert made.ok().json()["n_clips"] == 2
    merged = call(workspace, "merge", "one", "two", "-o", "three", "--json").ok().json()
    assert (merged["n_clips"], merged["sealed"], merged["in_several"]) == (7, True, 0)
    ids = open_store(workspace / "stores/three").clip_ids.tolist()
    assert ids == [
        "tt0000100-003",
        *(f"tt0000101-{i:03d}" for i in range(1, 6)),
        "tt0000102-001",
    ]
    assert merged["n_differing"] == 0
    call(workspace, "merge", "growing", "whole", "-o", "same").ok()
    plan_store(workspace / "stores/other")
    fill_store(workspace / "stores/other", some_values(23, seed=9))
    told = call(workspace, "merge", "growing", "other", "-o", "apart").ok().stderr
    assert "Warning: 7 clips with other numbers in another of these stores" in told
    wrong = call(workspace, "subset", "whole", "-o", "https://example.org/x")
    assert wrong.code == 2 and "store push" in wrong.stderr
    assert call(workspace, "subset", "whole", "--film", "tt9", "-o", "four").code == 1


def test_merge_plans_for_a_larger_manifest(workspace: Path) -> None:
    table = workspace / "clips.csv"
    ids = open_store(workspace / "stores/whole").clip_ids.tolist()
    lines = [f"{clip},{clip[:9]},{clip}.mp4" for clip in [*ids, "tt0000104-004"]]
    table.write_text("\n".join(["clip_id,movie_id,video", *lines]) + "\n")
    made = call_obygaze(
        "-C", str(workspace), "manifest", "import", "csv", str(table), "-o", "larger"
    )
    if made.code:
        pytest.skip(f"the manifest command takes other words: {made.stderr}")
    merged = call(
        workspace, "merge", "whole", "--manifest", "larger", "-o", "m", "--json"
    ).ok()
    assert merged.json()["pending_blocks"] == 1
    plan = open_store(workspace / "stores/m").plan
    # What an extraction plans for this manifest: the hash of its clips, so that a run goes on.
    pairs = ", ".join(f'["{clip}", "{clip[:9]}"]' for clip in [*ids, "tt0000104-004"])
    text = f"[{pairs}]".replace(", ", ",")
    assert plan.manifest_sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_the_readme_of_a_store_can_be_followed_with_and_without_obygaze(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = sealed_store(workspace / "stores/mine")["clip"]
    monkeypatch.chdir(workspace / "stores/mine")
    files = {
        name: Path(name).read_bytes()
        for name in ("README.md", "clips.csv", "seal.json")
    }
    blocks = re.findall("```python\n(.*?)```", files["README.md"].decode(), re.DOTALL)
    names: dict[str, Any] = {}
    assert "obygaze" not in blocks[0]
    exec(blocks[0], names)
    rows = csv.DictReader(files["clips.csv"].decode().splitlines())
    assert names["clips"].tolist() == [row["clip_id"] for row in rows]
    assert (names["features"] == values).all()
    exec(blocks[1].replace("path/of/this/folder", str(Path.cwd())), names)
    assert (names["features"].values == values).all()
    seal = json.loads(files["seal.json"])
    sha256 = hashlib.sha256(files["clips.csv"]).hexdigest()
    assert seal["files"]["clips.csv"] == [len(files["clips.csv"]), sha256]
    assert seal["noted"] == {}


def test_a_list_of_clips_has_an_id_a_line_whatever_is_in_it(workspace: Path) -> None:
    plan_store(
        workspace / "stores/odd", 3, clip_ids=["a b", "c/d", "é"], movie_ids=["m"] * 3
    )
    fill_store(workspace / "stores/odd", some_values(3)).seal()
    (workspace / "chosen.txt").write_text("\n é\r\na b\n\n", encoding="utf-8")
    words = ("subset", "odd", "--clips", str(workspace / "chosen.txt"), "-o", "few")
    assert "2 clips, 1 block copied" in call(workspace, *words).ok().stdout
    assert open_store(workspace / "stores/few").clip_ids.tolist() == ["a b", "é"]


def test_a_list_of_clips_that_is_no_text_is_the_users_to_correct(
    workspace: Path,
) -> None:
    chosen = workspace / "chosen.txt"
    chosen.write_bytes(b"caf\xe9-001\n")
    found = call(workspace, "subset", "whole", "--clips", str(chosen), "-o", "few")
    assert found.code == 1
    assert found.stderr.splitlines()[:2] == ["Error: not UTF-8", f"  in: {chosen}"]
    assert not (workspace / "stores/few").exists()


def test_a_film_that_is_not_there_is_answered_with_those_that_are(
    workspace: Path,
) -> None:
    found = call(workspace, "subset", "whole", "--film", "nosuch", "-o", "few")
    films = sorted(set(open_store(workspace / "stores/whole").movie_ids.tolist()))
    assert found.code == 1
    assert found.stderr.splitlines()[-1] == (f"  Try: one of {', '.join(films)}")


@pytest.mark.parametrize("k", ["0", "-3", "x"])
def test_extracting_no_clips_again_is_wrong_usage(workspace: Path, k: str) -> None:
    assert call(workspace, "verify", "whole", "--decode", k).code == 2


def test_a_hostile_store_writes_nothing_but_text_to_the_terminal(
    workspace: Path,
) -> None:
    hostile = "films\x1b]52;c;aGFjaw==\x07\x1b[2J"
    sealed_store(
        workspace / "stores/s", manifest_name=hostile, citation=hostile, licence=hostile
    )
    for words in (("info", "s"), ("info", "s", "--json"), ("ls",)):
        done = call_obygaze("store", *words, cwd=workspace)
        assert "films" in done.stdout or words == ("ls",)
        assert not {"\x1b", "\x07"} & set(done.stdout + done.stderr)


def test_the_location_of_a_store_has_no_secrets(workspace: Path) -> None:
    values = sealed_store(workspace / "s")
    with web_server(workspace) as server:
        url = server.url.replace("http://", "http://ann:s3cret@") + "/s"
        store = open_store(url)
        assert store.location == server.url.replace("http://", "http://***@") + "/s"
        assert (store.matrix("clip").values == values["clip"]).all()
        missing = call_obygaze("store", "info", url[:-1] + "t", "--json", cwd=workspace)
        assert missing.code == 1 and "s3cret" not in missing.stdout + missing.stderr


def test_the_same_import_again_is_the_same_after_a_row_was_relabelled(
    tmp_path: Path,
) -> None:
    def run(*words: str) -> Any:
        return call_obygaze("-C", str(tmp_path), *words)

    ids = ["lake-1", "lake-2", "pier-1"]
    table = "clip_id,movie_id,level\nlake-1,lake,EN\nlake-2,lake,S\npier-1,pier,EN\n"
    (tmp_path / "clips.csv").write_text(table)
    run("manifest", "import", "csv", str(tmp_path / "clips.csv"), "-o", "films").ok()
    np.savez(tmp_path / "x.npz", clip_id=ids, clip=np.ones((3, 4), np.float32))
    words = (
        "store",
        "import",
        "npz",
        str(tmp_path / "x.npz"),
        "--manifest",
        "films",
        "-o",
        "x",
    )
    run(*words).ok()
    path = tmp_path / "manifests/films.csv"
    path.write_text(path.read_text().replace(",S,", ",HN,"))
    assert "HN" in path.read_text()
    run(*words).ok()
    # The hash of the pairs of ids, as an extraction writes it, worked out here by hand.
    text = '[["lake-1","lake"],["lake-2","lake"],["pier-1","pier"]]'
    plan = open_store(tmp_path / "stores/x").plan
    assert plan.manifest_sha256 == hashlib.sha256(text.encode()).hexdigest()
    path.write_text(path.read_text().replace("pier-1", "pier-2"))
    assert run(*words).code == 5
