"""The whole tour, as a newcomer takes it: from two experts' marks to a page that can be read."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import call_obygaze, run_obygaze, without_torch

from obygaze.demo import tour
from obygaze.demo.tour import CARD, DEMO, MARK, _claim, save_tiny_xclip
from obygaze_features.core.console import Console
from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage
from obygaze_features.core.files import write_atomic
from obygaze_features.store.read.reader import open_store

QUIET = Console(verbosity=-1)
# The thirty-first of twelve clips a film is the seventh of the third film.
BROKEN = "tt9000003-007"


def _page_of(folder: Path) -> str:
    text = (folder / "runs" / "honest" / "report.html").read_text(encoding="utf-8")
    assert BROKEN in text
    assert "open unreadable" in text
    assert not re.search(r'(?:src|href)="(?!#|data:)', text)
    return text


def _stores_of(folder: Path) -> set[str]:
    results = json.loads((folder / "runs" / "honest" / "results.json").read_text())
    return {record["feature"] for record in results if record["kind"] == "cell"}


@pytest.mark.check("the whole tour, in half a minute")
@pytest.mark.timeout(300)  # half a minute of work, on a machine that may be busy
def test_the_tour_of_a_laptop_says_what_torch_would_add(tmp_path: Path) -> None:
    folder, hidden = tmp_path / "demo", tmp_path / "hidden"
    done = run_obygaze(
        "-C", tmp_path, "demo", env=without_torch(hidden), timeout=280
    ).ok()
    _page_of(folder)
    page = folder / "runs" / "honest" / "report.html"
    assert done.stdout.rstrip().splitlines()[-1].startswith(f"The report is {page};")
    told = [line for line in done.stdout.splitlines() if "X-CLIP" in line]
    assert len(told) == 1
    assert told[0].startswith("# torch and transformers not installed")
    assert told[0].endswith('pip install "obygaze[extract]"')
    assert [path.name for path in (folder / "stores").glob("films.*")] == [
        "films.descriptors"
    ]
    for name in ("timelines", "concepts-desc", "tree-pcbm-dt-desc-ENHN-S"):
        assert (
            folder / "runs" / "honest" / "figures" / f"{name}.png"
        ).stat().st_size > 5000
    again = run_obygaze("demo", "-o", hidden, timeout=60)
    assert (again.code, "not made by the demo" in again.stderr) == (1, True)
    # Each printed command works as it is typed.
    typed = [
        line[2:] for line in done.stdout.splitlines() if line.startswith("$ obygaze")
    ]
    info = next(shlex.split(line)[1:] for line in typed if " store info " in line)
    assert "features of 72 clips" in run_obygaze(*info, cwd=tmp_path).ok().stdout
    # What the user adds to it is not removed by the next demo.
    for name in (
        "runs/mine/run.json",
        "stores/films.tokens/store.json",
        "segments/films.eva.csv",
    ):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("work", encoding="utf-8")
        again = run_obygaze("-C", tmp_path, "demo", timeout=60)
        assert (again.code, f"also holds '{name}'" in again.stderr) == (1, True)
        assert (folder / name).read_text(encoding="utf-8") == "work"
        shutil.rmtree((folder / name).parent)
    assert not DEMO.refusal(folder)


@pytest.mark.check("the whole tour, in half a minute")
@pytest.mark.timeout(300)
def test_with_torch_a_random_xclip_is_extracted_in_the_same_pass(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    folder = tmp_path / "tour"
    done = run_obygaze("demo", "-o", folder, "--json", timeout=280).ok()
    told = done.json()
    assert "desc: descriptors; untrained: tiny-xclip" in _page_of(folder)
    # What is else on stdout is beside the document then.
    assert f"A tiny X-CLIP was written to {folder}/weights" in done.stderr
    assert "Its weights are random" in done.stderr
    # Writing and reading a checkpoint shows no bar of its own, and no warning.
    assert done.stderr.splitlines()[0] == "making 72 clips of six films ..."
    assert "%|" not in done.stderr
    weights = folder / "weights"
    assert [command for command in told["commands"] if " run films" in command] == [
        f"obygaze -C {folder} extract run films -b descriptors -b {CARD}"
        f" --weights {CARD}={weights} --seal"
    ]
    assert [Path(store).name for store in told["stores"]] == [
        "films.descriptors",
        f"films.{CARD}",
    ]
    assert Path(told["page"]).is_file()
    plain, xclip = (
        open_store(folder / "stores" / f"films.{n}") for n in ("descriptors", CARD)
    )
    assert (weights / "model.safetensors").is_file()
    assert plain.sealed
    assert xclip.sealed
    # Eight frames at int(i * total / 8) are every second one of the sixteen at int(i * total / 16).
    pairs = (
        plain.matrix("asked_s", missing="drop").values[:, ::2],
        xclip.matrix("asked_s", missing="drop").values,
    )
    assert pairs[0].shape == (71, 8)
    assert (pairs[0] == pairs[1]).all()
    assert xclip.matrix("clip", missing="drop").values.shape == (71, 32)
    assert _stores_of(folder) == {"desc", "untrained"}


def test_an_installation_that_cannot_be_imported_is_no_end_of_the_tour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")

    def fail(*_: object) -> None:
        raise ImportError("libcudart.so.13: cannot open shared object file")

    monkeypatch.setattr("obygaze_features.backbones.pretrained.save_random", fail)
    weights, told = save_tiny_xclip(tmp_path)
    assert weights is None
    assert told.endswith(
        "the X-CLIP is skipped: libcudart.so.13: cannot open shared object file"
    )


def test_a_folder_with_work_in_it_is_not_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tour"
    (folder / "runs" / "honest").mkdir(parents=True)
    (folder / MARK).write_bytes(b'{"files": {"films.csv": ""}}')
    (folder / "thesis.txt").write_text("years", encoding="utf-8")
    monkeypatch.chdir(folder)
    for name in (folder, Path(), Path("..")):
        with pytest.raises(FixUsage, match="cannot be the name"):
            _claim(name, QUIET)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AlreadyThere, match=r"also holds 'thesis\.txt'"):
        _claim(folder, QUIET)
    assert (folder / "thesis.txt").read_text(encoding="utf-8") == "years"
    (folder / "thesis.txt").unlink()
    _claim(folder, QUIET)
    assert not any(folder.iterdir())
    (folder / "clips.csv").touch()
    with pytest.raises(AlreadyThere, match="it was not made by the demo"):
        _claim(folder, QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["tour"]


@pytest.fixture
def short_tour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo of a few files, without films and without steps."""

    def render(scenes: object, folder: Path) -> list[Path]:
        paths = [folder / f"{number}.mp4" for number in range(tour.BROKEN + 1)]
        for path in paths:
            write_atomic(path, b"a film")
        return paths

    monkeypatch.setattr(tour, "render", render)
    monkeypatch.setattr(tour, "save_tiny_xclip", lambda folder: (None, "no X-CLIP"))
    monkeypatch.setattr(tour, "_steps", lambda folder, weights: iter(()))


def test_without_pyav_nothing_is_written_and_the_same_command_works_once_it_is_there(
    tmp_path: Path, short_tour: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "av", None)
        without = call_obygaze("-C", tmp_path, "demo")
    assert without.code == 2
    assert without.stderr.splitlines()[-1] == '  Try: pip install "obygaze[video]"'
    assert not any(tmp_path.iterdir())
    assert call_obygaze("-C", tmp_path, "demo").code == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, FixInput("a step failed")])
def test_a_demo_that_was_interrupted_is_made_again_by_the_same_command(
    tmp_path: Path,
    short_tour: None,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    def stop(folder: Path, weights: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(tour, "_steps", stop)
        assert call_obygaze("-C", tmp_path, "demo").code in (1, 130)
    assert (tmp_path / "demo" / "videos" / "0.mp4").is_file()
    # What was added to it since is not removed.
    (tmp_path / "demo" / "thesis.txt").touch()
    refused = call_obygaze("-C", tmp_path, "demo")
    assert (refused.code, "also holds 'thesis.txt'" in refused.stderr) == (1, True)
    (tmp_path / "demo" / "thesis.txt").unlink()
    assert call_obygaze("-C", tmp_path, "demo").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_a_demo_that_was_killed_is_kept_under_another_name(
    tmp_path: Path, short_tour: None
) -> None:
    program = (
        "import os, sys\n"
        "from obygaze.demo import tour\n"
        "from obygaze_features.core.console import Console\n"
        "from pathlib import Path\n"
        "with tour._demo_folder(Path('demo'), Console()):\n"
        "    Path('demo/thesis.txt').touch()\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, check=False
        )
        assert done.returncode == -9
    result = call_obygaze("-C", tmp_path, "demo")
    assert result.code == 0
    assert "its folder is now demo-unfinished-2" in result.stderr
    assert (tmp_path / "demo-unfinished-1" / "thesis.txt").is_file()
    assert (tmp_path / "demo-unfinished-2" / "thesis.txt").is_file()
    assert not (tmp_path / "demo" / "thesis.txt").exists()


def test_two_processes_do_not_make_one_demo(tmp_path: Path) -> None:
    with (
        tour._demo_folder(tmp_path / "demo", QUIET),
        pytest.raises(AlreadyThere, match="another process is making this demo"),
    ):
        _claim(tmp_path / "demo", QUIET)
    _claim(tmp_path / "demo", QUIET)


def test_a_demo_in_which_a_file_was_edited_is_not_emptied(
    tmp_path: Path, short_tour: None
) -> None:
    assert call_obygaze("-C", tmp_path, "demo").code == 0
    table = tmp_path / "demo" / "clips.csv"
    before = table.read_bytes()
    times = (table.stat().st_atime_ns, table.stat().st_mtime_ns)
    table.write_bytes(before[:-1] + b"9")
    os.utime(table, ns=times)  # the content decides, not the time
    refused = call_obygaze("-C", tmp_path, "demo")
    assert (refused.code, "its file 'clips.csv' was changed" in refused.stderr) == (
        1,
        True,
    )
    assert table.read_bytes() == before[:-1] + b"9"
    table.write_bytes(before)
    assert call_obygaze("-C", tmp_path, "demo").code == 0
