"""The laptop's whole path in a process that is like one on Windows.

No test here runs on Windows itself: modules and names that only POSIX systems have are taken away,
paths are typed with backslashes, names are found whatever their capitals, and open files cannot be
replaced (`support.windows`).
"""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.videos import write_video

TESTS = Path(__file__).resolve().parents[1]
FILMS = ("alba", "brug", "cirk", "dune")
SCENES = range(1, 7)
HONEST = ["run", "honest", "--manifest", "films", "--store", r"useful=stores\useful"]
GRID = [
    word
    for key, value in (("models", "ridge"), ("train", "EN_S"), ("test", "EN_S"))
    for word in ("--set", f'grid.{key}=["{value}"]')
]
GRID += ["--set", "report.replicates=20"]
IMPORT = ["store", "import", r"tables\useful.npz", "--array", "clip=X"]
IMPORT += ["--manifest", "films"]
TRAIN = ["train", "ridge", "--store", "useful", "--manifest", "films"]
PATH = [
    ["manifest", "import", r"tables\clips.csv", "-o", "films"],
    ["manifest", "show", "films"],
    ["manifest", "link", "films", r"tables\videos"],
    ["manifest", "windows", r"tables\videos", "-o", "w", "--window", "8"],
    ["manifest", "folds", "films", "-k", "3"],
    [*IMPORT, "-o", "useful"],
    ["store", "verify", "useful"],
    ["store", "info", "useful"],
    [*TRAIN, "-o", "ridge", "--jobs", "2", *GRID[-2:]],
    [*HONEST, *GRID, "-o", "first", "--jobs", "2"],
    ["report", "first", "-o", r"pages\report.html"],
    ["compare", "first", "ridge"],
    ["ls"],
    ["models", "show", "ridge"],
    ["models", "predict", r"models\ridge", "useful", "-o", r"out\scores.csv"],
    ["view", "films", "--run", "first", "-o", r"pages\view", "--no-browser"],
    ["store", "export", "useful", r"out\useful.npz"],
    ["store", "subset", "useful", "-o", r"stores\small", "--film", "alba"],
    ["store", "pull", r"stores\useful", "-o", "copy"],
]
# Of Windows, nothing but a sentence.
EXTRACTED = [
    ["extract", word, "films", "-b", "descriptors"] for word in ("run", "plan")
]
# Runs one command after another, and prints the exit code of each as the last line of its output.
WALK = """
import json, sys
if sys.argv[1] == 'windows':
    from support.windows import become_windows
    become_windows()
from obygaze.cli import main
for words in json.loads(sys.argv[2]):
    print('$', ' '.join(words))
    try:
        main(words)
    except SystemExit as end:
        print('exit code', end.code, flush=True)
"""


def tables(folder: Path) -> None:
    """Write a table of clips, a feature of each, and a video of each film."""
    random = np.random.default_rng(0)
    ids = [f"{film}-{scene:03d}" for film in FILMS for scene in SCENES]
    levels = random.choice(["EN", "HN", "S"], size=len(ids))
    (folder / "videos").mkdir(parents=True)
    with (folder / "clips.csv").open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["clip_id", "movie_id", "start_s", "end_s", "level", "concepts"])
        for number, (name, level) in enumerate(zip(ids, levels, strict=True)):
            start = number % 6 * 0.25
            concepts = "" if level == "EN" else "Look"
            rows.writerow([name, name[:4], start, start + 0.25, level, concepts])
    features = random.normal(size=(len(ids), 16)).astype(np.float32)
    features[:, 0] += 1.5 * (levels == "S")
    np.savez(folder / "useful.npz", clip_id=ids, X=features)
    film = write_video(folder / "videos" / "alba.mp4", numbers=range(40)).read_bytes()
    for name in FILMS:
        (folder / "videos" / f"{name}.mp4").write_bytes(film)


def walk(system: str, folder: Path, commands: list[list[str]]) -> list[tuple[str, int]]:
    """Run commands in a new process; return what each printed on both streams, and its code."""
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]),
        "LOCALAPPDATA": str(folder.parent / f"{folder.name}-local"),
    }
    env.pop("PYTHONIOENCODING", None)
    if system != "windows":
        commands = [[word.replace("\\", "/") for word in words] for words in commands]
    done = subprocess.run(
        [sys.executable, "-c", WALK, system, json.dumps(commands)],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
    )
    output = done.stdout.decode("utf-8")
    # The lines of Python's own print() before the first command of obygaze.
    printed = []
    for part in output.split("$ ")[1:]:
        text, _, code = part.rpartition("exit code ")
        printed.append((text.partition("\n")[2], int(code)))
    assert len(printed) == len(commands), output
    return printed


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        # An index has the moment in its name at which its film was written.
        if path.is_file() and "indexes" not in path.parts
    }


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same commands on both systems; all succeed, but for an extraction on Windows."""
    folders = {}
    for system in ("windows", "posix"):
        folder = tmp_path_factory.mktemp("laptop") / "work"
        tables(folder / "tables")
        commands = [*PATH, *EXTRACTED] if system == "windows" else PATH
        printed = walk(system, folder, commands)
        if system == "windows":
            for _ in EXTRACTED:
                text, code = printed.pop()
                assert code == 2 and "WSL" in text
            assert not (folder / "stores" / "films.descriptors").exists()
        for words, (text, code) in zip(PATH, printed, strict=True):
            assert code == 0, f"{system}: {' '.join(words)}\n{text}"
        folders[system] = folder
    return folders


@pytest.mark.check("a process for each command")
def test_each_command_of_the_laptop_works_and_leaves_the_same_files(walked) -> None:
    """Only what names its day, its folder or the time it took differs, and archives of that."""
    windows, posix = (files_of(walked[system]) for system in ("windows", "posix"))
    assert sorted(windows) == sorted(posix)
    assert len(windows) > 80
    different = [
        name
        for name in windows
        if without_day(windows[name], walked["windows"])
        != without_day(posix[name], walked["posix"])
    ]
    # It has the seal of the store, and the checksum of that.
    assert different == ["out/useful.npz"]


def without_day(data: bytes, folder: Path) -> bytes:
    """Return the bytes of a file without times, hashes of what has times, and its folder."""
    data = data.replace(folder.as_posix().encode(), b"FOLDER")
    data = re.sub(rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|\+00:00)", b"TIME", data)
    data = re.sub(rb"\b[0-9a-f]{32,64}\b", b"HASH", data)
    return re.sub(rb'("seconds": )[\d.]+', rb"\1S", data)


TYPED = "Am\u00e9lie"
ON_DISK = "Ame\u0301lie"


def test_a_video_with_accents_beside_its_letters_is_found(tmp_path: Path) -> None:
    """A keyboard gives accents within letters, the disk of a Mac may have them beside."""
    tables(tmp_path)
    table = "clip_id,movie_id,start_s,end_s,video\n"
    table += f"a-1,a,0,1,{TYPED}.mp4\na-2,a,1,2,{TYPED}.mp4\n"
    (tmp_path / "films.csv").write_text(table, encoding="utf-8")
    videos = tmp_path / "videos"
    (videos / "alba.mp4").rename(videos / f"{ON_DISK}.mp4")
    call_obygaze("manifest", "import", "films.csv", cwd=tmp_path).ok()
    linked = call_obygaze("manifest", "link", "films", "videos", cwd=tmp_path).ok()
    assert "2 to parts of films; 0 without a video" in linked.stdout
