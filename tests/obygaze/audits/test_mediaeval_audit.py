"""The MediaEval command: what cannot be scored."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import call_obygaze


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def annotations(tmp_path: Path) -> Path:
    """Six clips, the last two of the development set."""
    folder = tmp_path / "annotations"
    folder.mkdir()
    names = [f"ACCEDE0000{i}.mp4" for i in range(6)]
    violent, valence, arousal = "101011", (1, 1, 0, -1, 0, 0), (0, 0, 0, 1, -1, -1)
    lines = [f"{i}\t{name}\t{violent[i]}\n" for i, name in enumerate(names)]
    write(folder / "MEDIAEVALviolence.txt", "id\tname\tviolence\n" + "".join(lines))
    lines = [
        f"{i}\t{name}\t{valence[i]}\t{arousal[i]}\n" for i, name in enumerate(names)
    ]
    header = "id\tname\tvalenceClass\tarousalClass\n"
    write(folder / "MEDIAEVALaffect.txt", header + "".join(lines))
    write(
        folder / "shots-testset-nl.txt",
        "".join(f"{i}\t{n}\n" for i, n in enumerate(names[:4])),
    )
    write(
        folder / "shots-devset-nl.txt",
        "".join(f"{i}\t{n}\n" for i, n in enumerate(names[4:], 4)),
    )
    return folder


def test_what_cannot_be_scored(annotations: Path, tmp_path: Path) -> None:
    run = write(tmp_path / "a.txt", "A0 1 0\nA0.mp4 1 0\n")
    call_obygaze(
        "-C", tmp_path, "manifest", "import", annotations, "--as", "liris-accede"
    ).ok()
    words = (
        "-C",
        tmp_path,
        "audit",
        "mediaeval",
        "--manifest",
        "liris-accede",
        run,
    )
    done = call_obygaze(*words)
    assert (done.code, "no clip of the run is judged" in done.stderr) == (1, True)
    qrels = write(tmp_path / "q", "v 0 A0 1\n")
    done = call_obygaze("audit", "mediaeval", "--qrels", qrels, run)
    assert (done.code, "no valence or arousal classes given" in done.stderr) == (
        1,
        True,
    )
    done = call_obygaze("audit", "mediaeval", run)
    assert (
        done.code,
        "expected --qrels or --manifest, got neither" in done.stderr,
    ) == (2, True)
    done = call_obygaze("audit", "mediaeval", "--qrels", qrels, tmp_path / "none")
    assert (done.code, "does not exist" in done.stderr) == (2, True)
