"""Story 20: what a stranger sends does no harm: a store, a model, a table, a film, an archive."""

import io
import json
import os
import pickle
import shlex
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.cli import environment
from support.hostile_stores import CASES, write_whole
from support.run_tables import write_model_json
from support.store_servers import web_server
from support.videos import write_video
from support.workbooks import write_workbook

from stories.films import features_of, import_features, labelled_clips, write_films
from stories.workspace import Workspace

pytestmark = [
    pytest.mark.check("processes whose memory is measured, and large files"),
    pytest.mark.skipif(
        sys.platform != "linux",
        reason="memory is read from /proc, and a pipe needs POSIX",
    ),
]

MB = 1_000_000
LIMIT = 500 * MB
LARGE = 550 * MB

# Types lines one after another in one process, and reports their output, which processes they
# started, and the most memory that the process has had.
READER = """
import importlib
import json
import platform
import resource
import sys
from pathlib import Path

from support.cli import call_obygaze

STARTS = ("os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn")
started = []


def note(event, arguments):
    is_start = event in STARTS or event == "subprocess.Popen"
    # Films are decoded by workers, which are this Python.
    if is_start and arguments[:1] != (sys.executable,):
        started.append(f"{event} {arguments}")


platform.processor()  # asks the system once, with a program
# So does torch with CUDA, where it is imported.
for name in sys.argv[3:]:
    importlib.import_module(name)
sys.addaudithook(note)
answers = []
for words in json.loads(sys.argv[1]):
    done = call_obygaze(*words)
    answers.append([done.code, f"{done.stdout} {done.stderr}"])
memory = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
of_workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
peak_bytes = 1024 * max(int(memory), of_workers)
result = {"answers": answers, "started": started, "peak_bytes": peak_bytes}
Path(sys.argv[2]).write_text(json.dumps(result))
"""


@dataclass
class Lab:
    """A workspace, and a folder beside it into which strangers put what they send."""

    root: Path
    ws: Workspace

    def theirs(self, name: str) -> Path:
        path = self.root / "from" / "them" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def secret(self) -> Path:
        """Return a file of this lab that nobody else may read."""
        path = self.root / "secret.txt"
        path.write_text("the password of the lab is 271828", encoding="utf-8")
        return path

    def files(self) -> dict[str, tuple[int, int]]:
        """Return every file and link of the lab, with its size and time."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            if not path.is_dir() or path.is_symlink():
                facts = path.lstat()
                name = path.relative_to(self.root).as_posix()
                found[name] = (facts.st_size, facts.st_mtime_ns)
        return found

    def type_all(
        self, lines: list[str], imported: tuple[str, ...] = ()
    ) -> list[tuple[int, str]]:
        """Type lines in a process of their own; it may take little memory, and start nothing.

        What the imports of `imported` start is not counted.
        """
        result = self.root / "result.json"
        words = json.dumps([shlex.split(line) for line in lines])
        home = self.root / "home"
        home.mkdir(exist_ok=True)
        changes: dict[str, str | None] = dict.fromkeys(("HOME", "TMPDIR"), str(home))
        changes |= dict.fromkeys(("XDG_CACHE_HOME", "XDG_CONFIG_HOME"))
        changes["PYTHONPATH"] = os.pathsep.join(sys.path)
        done = subprocess.run(
            [sys.executable, "-c", READER, words, str(result), *imported],
            cwd=self.ws.folder,
            env=environment(changes),
            capture_output=True,
            encoding="utf-8",
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(result.read_text())
        result.unlink()
        assert told["started"] == []
        assert told["peak_bytes"] < LIMIT, f"{told['peak_bytes'] / MB:.0f} MB"
        return [(code, " ".join(text.split())) for code, text in told["answers"]]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path, Workspace(tmp_path / "lab"))


def check_refused(
    lab: Lab,
    lines: list[str],
    *,
    written: tuple[str, ...] = (),
    imported: tuple[str, ...] = (),
) -> list[str]:
    """Type lines that must all be refused; return what they say.

    Nothing but files whose names begin with one of `written` may be there afterwards.
    """
    before = lab.files()
    texts = []
    answers = lab.type_all(lines, imported)
    for line, (code, text) in zip(lines, answers, strict=True):
        assert 2 <= code <= 5, f"obygaze {line}\nended with {code}\n{text}"
        assert "Error: " in text, f"obygaze {line}\n{text}"
        assert "bug in obygaze" not in text, f"obygaze {line}\n{text}"
        assert "271828" not in text, f"obygaze {line}\n{text}"
        texts.append(text)
    after = lab.files()
    new = [name for name, facts in after.items() if before.get(name) != facts]
    assert [name for name in new if not name.startswith(written or "?")] == []
    assert before.keys() <= after.keys()
    return texts


class Payload:
    """Its pickle runs a program where it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, ("touch ran-by-a-stranger",))


PICKLE = pickle.dumps({"clip_id": ["a-1"], "X": Payload()})
DEEP = b"[" * 100_000
# What is wrong with the stores of a stranger: names, sizes, types, links and pipes.
STORES = (
    "'../outside' is listed",
    "'.git/hooks/post-checkout' in place of checks",
    "'zarr.py' is listed",
    "store.json has 10**11 rows",
    "an array has an unknown dtype",
    "an array has rows of a petabyte",
    "store.json is nested deeply",
    "store.json has 4 GB",
    "chunks.crc32c has 4 GB",
    "plain/c.0.0 is a link",
    "plain/c.0.0 is a pipe",
    "a folder is a link",
)


def test_a_hostile_store(lab: Lab) -> None:
    theirs = lab.theirs("whole")
    write_whole(theirs)
    for code, text in lab.type_all([f"store pull {theirs} -o got"]):
        assert code == 0, text
    lines = []
    for number, name in enumerate(STORES):
        theirs = lab.theirs(f"store{number}")
        write_whole(theirs)
        spoil, _ = CASES[name]
        spoil(theirs)
        lines += [f"store verify {theirs} --hash", f"store export {theirs} out.npz"]
        lines += [f"store pull {theirs} -o x{number}"]
    # What was fetched before the refusal waits, hidden, for the same command again.
    check_refused(lab, lines, written=("lab/stores/.",))
    assert [path.name for path in lab.ws.path("stores").glob("[!.]*")] == ["got"]
    for name in ("outside", "post-checkout", "zarr.py"):
        assert list(lab.ws.folder.rglob(name)) == []


def test_a_hostile_model(lab: Lab) -> None:
    rows = labelled_clips(n_films=4, per_film=10, seed=1)
    import_features(lab.ws, rows, features_of(rows, level=2.0), "stored")
    options = "--jobs 1 --set report.replicates=50"
    lab.ws(f"train ridge --store stored --manifest films -o ridge {options}")
    lines = []
    for name in lab.ws.bytes_of("models/ridge"):
        if name.endswith((".md", ".csv")):
            continue
        for kind, data in (("pickle", PICKLE), ("deep", DEEP), ("large", b"")):
            theirs = lab.theirs(f"{kind}-{name}")
            shutil.copytree(lab.ws.path("models/ridge"), theirs)
            (theirs / name).write_bytes(data)
            if data:
                lines.append(f"models pull {theirs} -o theirs")
            else:
                os.truncate(theirs / name, LARGE)
            lines.append(f"models predict {theirs} stored -o scores.csv")
    assert len(lines) >= 10
    check_refused(lab, lines)
    assert not lab.ws.path("models/theirs").exists()
    # The model names a class in a file, which is there; its checksums are right.
    lab.ws.write("mine.py", "import os\nos.system('touch ran-by-a-stranger')\n")
    theirs = lab.theirs("own")
    shutil.copytree(lab.ws.path("models/ridge"), theirs)
    document = json.loads((theirs / "model.json").read_text("utf-8"))
    settings = {"class_name": "mine.py:Mine", "settings": {}}
    document["estimator"] = {"kind": "OwnClassifier", "params": settings}
    write_model_json(theirs, document)
    (text,) = check_refused(lab, [f"models predict {theirs} stored -o scores.csv"])
    assert "unknown estimator 'OwnClassifier'" in text


def write_book(
    path: Path, rows: bytes, *, head: bytes = b"", n_blanks: int = 0
) -> None:
    """Write an Excel workbook whose one sheet has a header and these rows, and blanks."""
    write_workbook(path, {"a": [["clip_id", "movie_id"]]})
    with zipfile.ZipFile(path) as book:
        members = {name: book.read(name) for name in book.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as book:
        for name, data in members.items():
            with book.open(name, "w", force_zip64=True) as out:
                before, end, after = data.partition(b"</sheetData>")
                if end:
                    start, mark, before = before.partition(b"?>")
                    out.write(start + mark + head + before)
                    for _ in range(n_blanks):
                        out.write(b" " * MB)
                    out.write(rows + end + after)
                else:
                    out.write(data)


def row_of_sheet(number: int, **cells: bytes) -> bytes:
    texts = b""
    for name, text in cells.items():
        cell = b'<c r="%s" t="inlineStr"><is><t>%s</t></is></c>'
        texts += cell % (name.encode(), text)
    return b'<row r="%d">%s</row>' % (number, texts)


def write_tables(lab: Lab) -> list[str]:
    good = row_of_sheet(2, A2=b"lake-1", B2=b"lake")
    far = row_of_sheet(1_048_576, XFD1048576=b"x")
    write_book(lab.theirs("far.xlsx"), good + far)
    write_book(lab.theirs("bomb.xlsx"), good, n_blanks=1_080)
    laughs = b'<!ENTITY a0 "ha">'
    for number in range(1, 11):
        laughs += b'<!ENTITY a%d "%s">' % (number, b"&a%d;" % (number - 1) * 10)
    laughing = row_of_sheet(2, A2=b"lake-1", B2=b"&a10;")
    write_book(lab.theirs("laughs.xlsx"), laughing, head=b"<!DOCTYPE x [%s]>" % laughs)
    secret = f'<!DOCTYPE x [<!ENTITY s SYSTEM "{lab.secret().as_uri()}">]>'
    telling = row_of_sheet(2, A2=b"lake-1", B2=b"&s;")
    write_book(lab.theirs("secret.xlsx"), telling, head=secret.encode())
    lab.theirs("zeros.csv").write_bytes(b"clip_id,movie_id\n" + bytes(1000))
    lab.theirs("noise.csv").write_bytes(np.random.default_rng(2).bytes(5000))
    lab.theirs("large.csv").write_bytes(b"clip_id,movie_id\n")
    os.truncate(lab.theirs("large.csv"), LARGE)
    return [path.name for path in lab.theirs("").iterdir()]


def test_a_hostile_table(lab: Lab) -> None:
    write_book(lab.theirs("good.xlsx"), row_of_sheet(2, A2=b"lake-1", B2=b"lake"))
    lab.ws(f"manifest import {lab.theirs('good.xlsx')} -o good")
    assert lab.ws.read_table("manifests/good.csv")[0]["clip_id"] == "lake-1"
    lab.theirs("good.xlsx").unlink()
    names = write_tables(lab)
    assert len(names) == 7
    lines = [f"manifest import {lab.theirs(name)} -o {name}" for name in names]
    check_refused(lab, lines)


def test_ids_that_are_paths_stay_in_the_workspace(lab: Lab) -> None:
    rows = [{"clip_id": "../../lake-1", "movie_id": "../../../lake"}]
    lab.ws.write_table("clips.csv", rows)
    before = lab.files()
    lines = ["manifest import clips.csv -o films", "manifest show films"]
    for code, text in lab.type_all(lines):
        assert code == 0, text
    (row,) = lab.ws.read_table("manifests/films.csv")
    assert "/" not in row["clip_id"]
    assert "/" not in row["movie_id"]
    new = lab.files().keys() - before.keys()
    assert new
    assert all(name.startswith("lab/manifests/") for name in new)


def write_hostile_films(folder: Path, url: str, secret: Path) -> list[str]:
    """Write files that are called films beside the film `lake`, and return their names."""
    film = (folder / "lake.mp4").read_bytes()
    films: dict[str, bytes] = {
        "nothing": b"",
        "noise": np.random.default_rng(3).bytes(20_000),
        "short": film[: len(film) // 2],
        "list": f"#EXTM3U\n#EXTINF:9,\n{url}/lake.mp4\n#EXTINF:9,\n{secret.as_uri()}\n".encode(),
        "joined": f"ffconcat version 1.0\nfile '{folder / 'lake.mp4'}'\n".encode(),
        "radio": b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nm=video 5004 RTP/AVP 96\n",
        "wide": b"YUV4MPEG2 W65000 H65000 F25:1 C420\nFRAME\n" + bytes(1000),
    }
    counts = bytearray(film)
    for table in (b"stts", b"stsz", b"stco"):
        place = counts.index(table) + (12 if table == b"stsz" else 8)
        counts[place : place + 4] = b"\x7f\xff\xff\xff"
    films["counts"] = bytes(counts)
    for name, data in films.items():
        (folder / f"{name}.mp4").write_bytes(data)
    # Each picture says that it has 65,000 x 65,000 pixels.
    vast = folder / "vast.avi"
    write_video(vast, "mjpeg", numbers=range(25), pix_fmt="yuvj420p")
    size = b"\xff\xc0\x00\x11\x08"
    before, *parts = vast.read_bytes().split(size + b"\x00\x78\x00\xa0")
    assert parts
    vast.write_bytes((size + b"\xfd\xe8" * 2).join([before, *parts]))
    return [*films, "vast"]


def test_a_hostile_film(lab: Lab) -> None:
    folder = lab.theirs("videos")
    write_films(folder, "lake")
    with web_server(folder) as server:
        names = write_hostile_films(folder, server.url, lab.secret())
        times = {"start_s": "0", "end_s": "1"}
        clips = [
            {"clip_id": f"{name}-1", "movie_id": name, **times}
            for name in ["lake", *names]
        ]
        lab.ws.import_table(clips, "films", "clips")
        lines = [f"video probe {folder}/{name}.mp4" for name in names if name != "vast"]
        check_refused(lab, lines)
        before = lab.files()
        lab.ws(f"manifest link films {folder}")
        lines = ["extract run films -b descriptors --workers 1"]
        ((code, text),) = lab.type_all(lines)
        assert code == 3, text
        assert server.requests == []
    new = lab.files().keys() - before.keys()
    assert all(name.startswith(("lab/", "home/")) for name in new)
    answer = lab.ws("store info films.descriptors --json").json()
    assert answer["counts"]["ok"] == 1
    lab.ws("store info films.descriptors --clips -o reasons.csv")
    assert "271828" not in lab.ws.read("reasons.csv")


def npy_header(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    facts = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, facts)
    return stream.getvalue()


def write_npz(path: Path, name: str, array: bytes) -> None:
    ids = io.BytesIO()
    np.save(ids, np.array(["lake-1", "lake-2"]))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("clip_id.npy", ids.getvalue())
        archive.writestr(name, array)


def write_archives(lab: Lab) -> list[str]:
    """Write files of features that nobody should open; return how each is imported."""
    for name, data in {"pickle": PICKLE, "deep": DEEP}.items():
        lab.theirs(f"{name}/lake/lake-1.pth").write_bytes(data)
    objects = np.array([Payload()], dtype=object)
    np.savez(lab.theirs("objects.npz"), clip_id=["lake-1"], X=objects)
    lab.theirs("matrices").mkdir()
    np.save(lab.theirs("matrices/lake-1.npy"), objects)
    lab.theirs("pickle.npz").write_bytes(PICKLE)
    write_npz(lab.theirs("rows.npz"), "X.npy", npy_header((10**12, 16)) + bytes(128))
    write_npz(lab.theirs("wide.npz"), "X.npy", npy_header((2, 10**11)) + bytes(128))
    bomb = npy_header((2, 10**9)) + bytes(50 * MB)
    write_npz(lab.theirs("bomb.npz"), "X.npy", bomb)
    secret = lab.root / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["X"] = np.full(16, 271828, np.float32)
    with h5py.File(lab.theirs("link.h5"), "w") as file:
        file["lake-1"] = h5py.ExternalLink(str(secret), "X")
    with h5py.File(lab.theirs("outside.h5"), "w") as file:
        outside = [(str(lab.secret()), 0, 16)]
        file.create_dataset("lake-1", shape=(4,), dtype="f4", external=outside)
    with h5py.File(lab.theirs("virtual.h5"), "w") as file:
        layout = h5py.VirtualLayout((16,), "f4")
        layout[:] = h5py.VirtualSource(str(secret), "X", shape=(16,))
        file.create_virtual_dataset("lake-1", layout)
    with h5py.File(lab.theirs("vast.h5"), "w") as file:
        file.create_dataset("lake-1", shape=(10**12,), dtype="f4", chunks=(1024,))
    return [path.name for path in lab.theirs("").iterdir()]


def test_a_hostile_archive(lab: Lab) -> None:
    lines = []
    for number, name in enumerate(write_archives(lab)):
        lines.append(f"store import {lab.theirs(name)} -o got{number}")
    check_refused(lab, lines, imported=("torch",))
    assert not lab.ws.path("stores").exists() or not lab.ws.bytes_of("stores")
