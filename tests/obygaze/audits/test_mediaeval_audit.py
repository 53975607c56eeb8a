"""The MediaEval command: runs, annotation files, manifests, rules, and runs that are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import call_obygaze

from obygaze.audits.mediaeval import classes_of
from obygaze.audits.mediaeval_runs import read_trec_run
from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage
from obygaze_features.manifest.adapters import liris_accede
from obygaze_models.zoo.mediaeval_file import write_run_file


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


def violence_run(path: Path, scores: dict[str, float], **about: object) -> Path:
    return write_run_file(path, scores, external_data=False, about=about)[0]


def test_annotation_files_score_the_official_test_clips(
    annotations: Path, tmp_path: Path
) -> None:
    classes = classes_of(liris_accede.read([annotations]).manifest)
    assert classes["violence"] == {
        "ACCEDE00000.mp4": 1,
        "ACCEDE00001.mp4": 0,
        "ACCEDE00002.mp4": 1,
        "ACCEDE00003.mp4": 0,
    }
    violence = violence_run(
        tmp_path / "v.txt",
        {"ACCEDE00000.mp4": 0.9, "ACCEDE00001.mp4": 0.8, "ACCEDE00002.mp4": 0.7},
    )
    classes_of_clips = {0: "1 0", 1: "0 0", 3: "-1 0", 5: "0 0"}
    lines = [f"ACCEDE0000{i}.mp4 {both}\n" for i, both in classes_of_clips.items()]
    written = write(tmp_path / "a.txt", "".join(lines))
    write(tmp_path / "a.json", '{"external_data": true}')
    call_obygaze(
        "-C", tmp_path, "manifest", "import", annotations, "--as", "liris-accede"
    ).ok()
    words = ("--manifest", "liris-accede", "--run", violence, "--run", written)
    audit = ("-C", tmp_path, "audit", "mediaeval", *words)
    document = call_obygaze(*audit, "--json").ok().json()
    assert document["violence"]["ap_trec"] == pytest.approx((1 + 2 / 3) / 2)
    assert (document["violence"]["n_judged"], document["violence"]["n_unjudged"]) == (
        4,
        0,
    )
    # 0 and 3 are right, 1 is wrong, 2 was not returned, 5 is not a test clip.
    valence = document["valence"]
    assert (valence["accuracy"], valence["accuracy_returned"]) == (2 / 4, 2 / 3)
    assert (valence["n_returned"], valence["n_unknown"]) == (3, 1)
    assert valence["majority"] == 2 / 4
    assert document["arousal"]["accuracy"] == 2 / 4
    done = call_obygaze(*audit).ok()
    assert "all runs use external data" in done.stdout
    assert "1 judged clips were not returned" in done.stdout


def test_runs_are_written_as_they_are_read(tmp_path: Path) -> None:
    scores = {"b": 0.1, "a": 0.1, "c": 1 / 3}
    path, beside = write_run_file(
        tmp_path / "r.txt", scores, external_data=True, about={"model": "x"}
    )
    lines = path.read_text("utf-8").splitlines()
    assert lines[0] == f"violence Q0 c 1 {1 / 3!r} obygaze"
    assert [line.split()[2] for line in lines] == ["c", "b", "a"]
    assert read_trec_run(path)[0] == {"violence": scores}
    assert json.loads(beside.read_text("utf-8")) == {
        "subtask": "violence",
        "external_data": True,
        "tag": "obygaze",
        "model": "x",
    }
    with pytest.raises(AlreadyThere):
        write_run_file(path, {"b": 0.5}, external_data=False)


@pytest.mark.parametrize(
    ("name", "scores", "error"),
    [
        ("r.txt", {"a": float("nan")}, FixInput),
        ("r.txt", {"a b": 0.5}, FixInput),
        ("r.txt", {}, FixInput),
        ("r.json", {"a": 0.5}, FixUsage),
    ],
)
def test_invalid_runs_are_not_written(
    tmp_path: Path, name: str, scores: dict[str, float], error: type[Exception]
) -> None:
    with pytest.raises(error):
        write_run_file(tmp_path / name, scores, external_data=False)
    assert list(tmp_path.iterdir()) == []


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
        "--run",
        run,
    )
    done = call_obygaze(*words)
    assert (done.code, "no clip of the run is judged" in done.stderr) == (1, True)
    qrels = write(tmp_path / "q", "v 0 A0 1\n")
    done = call_obygaze("audit", "mediaeval", "--qrels", qrels, "--run", run)
    assert (done.code, "no valence or arousal classes given" in done.stderr) == (
        1,
        True,
    )
    done = call_obygaze("audit", "mediaeval", "--run", run)
    assert (
        done.code,
        "expected --qrels or --manifest, got neither" in done.stderr,
    ) == (2, True)
    done = call_obygaze(
        "audit", "mediaeval", "--qrels", qrels, "--run", tmp_path / "none"
    )
    assert (done.code, "does not exist" in done.stderr) == (2, True)
