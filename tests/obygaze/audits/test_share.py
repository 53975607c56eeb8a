"""The audit of a share: numbers by hand, groups, what is missing, predictions, what is refused."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from obygaze.audits import audit_share
from obygaze.audits.result import Audit
from obygaze.films.labels import project_marks
from obygaze_features.core.errors import FixInput, ObygazeError, ObygazeWarning
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest

SIZE = 20  # of each film, of which four clips are drawn


def drawn_films(levels: list[str], genres: list[str] | None = None) -> Manifest:
    """Films with a draw of four clips: `levels` has S, or E for EN, or . for no mark, of each."""
    clips = []
    for film, of_film in enumerate(levels):
        extra = {"draw_probability": "0.2", "draw_clips": str(SIZE)}
        if genres is not None:
            extra["genre"] = genres[film]
        for clip, letter in enumerate(of_film):
            ids = (f"f{film}-{clip}", f"f{film}", None, "", 2.0 * clip, 2.0 * clip + 2)
            level = {"S": "S", "E": "EN", ".": ""}[letter]
            concepts = ("Look",) if letter == "S" else ()
            clips.append(Clip(*ids, level, concepts, extra))
    header = Header("films", {"Look": "visual", "Body": "visual"})
    return Manifest("drawn", header, tuple(clips), tuple(clips[0].extra))


def audit(folder: Path, manifest: Manifest, **more: Any) -> Audit:
    path = Workspace(folder).new_manifest("drawn")
    path.parent.mkdir(exist_ok=True)
    write_manifest(manifest, path, force=True)
    return audit_share("drawn", workspace=folder, **more)


def limits(found: Audit) -> str:
    return " ".join(found.limits)


def test_the_share_of_levels_concepts_and_columns(tmp_path: Path) -> None:
    manifest = drawn_films(["SSEE", "SEEE", "EEEE", "SSSE"])
    found = audit(tmp_path, manifest)
    assert found["shares"][0]["share"] == pytest.approx(6 / 16)
    assert (found["shares"][0]["n_clips"], found["shares"][0]["n_judged"]) == (80, 16)
    assert found["answer"].startswith(
        "In films such as these 4, level == S holds for 0.375 ["
    )
    look = audit(tmp_path, manifest, of="Look in concept")
    assert look["shares"][0]["share"] == pytest.approx(6 / 16)
    body = audit(tmp_path, manifest, of="Body in concept")
    assert body["shares"][0]["share"] == 0
    assert "The share is 0 in the judged clips; this does not show" in limits(body)
    assert "No judged clip" not in limits(look)
    moods = {"f0-0": "sad", "f0-1": "gay", "f1-0": "sad", "f1-1": "gay"}
    sad = audit(tmp_path, manifest.with_column("mood", moods), of="mood == sad")
    assert sad["shares"][0]["share"] == pytest.approx(0.5)
    assert sad["films_without_labels"] == ["f2", "f3"]
    with pytest.raises(FixInput, match=r"no clip has 'sadd' .* \(did you mean 'sad'"):
        audit(tmp_path, manifest.with_column("mood", moods), of="mood == sadd")
    with pytest.raises(FixInput, match="unknown concept 'Lok'"):
        audit(tmp_path, manifest, of="Lok in concept")


def test_groups_are_of_films_and_in_a_column_of_the_manifest(tmp_path: Path) -> None:
    manifest = drawn_films(["SSEE", "SEEE"], ["war", "war"])
    clips = list(manifest.clips)
    clips[0] = replace(clips[0], extra={**clips[0].extra, "genre": "noir"})
    two_of_a_film = replace(manifest, clips=tuple(clips))
    with pytest.raises(FixInput, match="have several values in the column genre"):
        audit(tmp_path, two_of_a_film, by="genre")
    with pytest.raises(ObygazeError, match=r"'genr' \(did you mean 'genre'\?\)"):
        audit(tmp_path, manifest, by="genr")
    some = drawn_films(["SSEE", "SEEE", "EEEE"], ["war", "war", ""])
    found = audit(tmp_path, some, by="genre")
    assert [share["group"] for share in found["shares"]] == ["all films", "war"]
    assert found["shares"][1]["share"] == pytest.approx(3 / 8)
    assert found["films_without_group"] == ["f2"]


def test_clips_on_which_annotators_differ_are_left_out_and_said(tmp_path: Path) -> None:
    manifest = drawn_films(["SSEE", "SEEE", "EEEE", "SSSE"])
    clips = list(manifest.clips)
    for place in (0, 5):
        extra = {**clips[place].extra, "differs": "Look"}
        clips[place] = replace(clips[place], concepts=(), extra=extra)
    columns = (*manifest.columns, "differs")
    disputed = replace(manifest, clips=tuple(clips), columns=columns)
    with pytest.warns(ObygazeWarning, match="2 clips excluded"):
        found = audit(tmp_path, disputed, of="Look not in concept")
    assert found["shares"][0]["n_judged"] == 14
    # By hand: the mean of 2 of 3, 2 of 3, 4 of 4 and 1 of 4.
    assert found["shares"][0]["share"] == pytest.approx((2 / 3 + 2 / 3 + 1 + 1 / 4) / 4)
    assert "Excluded, because annotators differ: 2 clips." in limits(found)
    assert "not judged" not in limits(found)


def write_scores(path: Path, manifest: Manifest, **changes: Any) -> Path:
    """Write scores of all clips of the films: 1 for a drawn clip of level S, 0 for the others."""
    known = {clip.clip_id: clip.level for clip in manifest}
    rows = []
    for film in manifest.films:
        for clip in range(changes.get("size", SIZE)):
            own_id = f"{film}-{clip}"
            if own_id in changes.get("without", ()):
                continue
            start_s = 2.0 * clip + changes.get("moved", 0)
            row = {"clip_id": own_id, "movie_id": changes.get("named", film)}
            row |= {"start_s": start_s, "end_s": start_s + 2}
            row |= {"basis": changes.get("basis", "unseen")}
            rows.append({**row, "score:S": float(known.get(own_id) == "S")})
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_right_scores_give_the_share_of_all_clips(tmp_path: Path) -> None:
    manifest = drawn_films(["SSEE", "SEEE", "EEES", "ESSE"])
    path = write_scores(tmp_path / "scores.csv", manifest)
    found = audit(tmp_path, manifest, predictions=path)
    # Only six of eighty clips have it, and the scores know which.
    assert found["shares"][0]["share"] == pytest.approx(6 / 80)
    assert found["explained"] == pytest.approx(1)
    assert "explain 100 % of the variance within films" in limits(found)
    # A clip without a score counts as the mean of its film, here the other nineteen.
    path = write_scores(path, manifest, without=["f0-7", "f1-9"])
    found = audit(tmp_path, manifest, predictions=path)
    assert found["shares"][0]["share"] == pytest.approx(
        (2 / 19 + 1 / 19 + 1 / 20 + 2 / 20) / 4
    )
    assert "2 clips without a score" in limits(found)


def test_a_model_that_trained_on_any_clip_of_a_film_is_refused(tmp_path: Path) -> None:
    manifest = drawn_films(["SSEE", "SEEE"])
    path = write_scores(tmp_path / "scores.csv", manifest)
    lines = path.read_text("utf-8").splitlines()
    assert lines[-1].startswith("f1-19,f1,")
    lines[-1] = lines[-1].replace("unseen", "in-sample")
    path.write_text("\n".join([*lines, ""]), "utf-8")
    with pytest.raises(FixInput, match=r"trained on 1 film of the sample.*: f1"):
        audit(tmp_path, manifest, predictions=path)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"moved": 1}, "differ from the manifest drawn under the same ids"),
        (
            {"basis": "film-unknown"},
            r"the model was \(perhaps\) trained on 2 films of the sample",
        ),
        # As a store has it that was imported without a manifest: all films had a mean score of 0.
        ({"named": ""}, "the predictions are not of these clips"),
        ({"size": SIZE + 1}, "at most 20 clips of the film f0, .* got 21"),
        (
            {"without": [f"f{i // 4}-{i % 4}" for i in range(8)]},
            "no sampled clip has a score; the first is 'f0-",
        ),
    ],
)
def test_scores_of_other_clips_are_refused(tmp_path, changes, problem) -> None:
    manifest = drawn_films(["SSEE", "SEEE"])
    path = write_scores(tmp_path / "scores.csv", manifest, **changes)
    with pytest.raises(ObygazeError, match=problem):
        audit(tmp_path, manifest, predictions=path)


# ---- refused -------------------------------------------------------------------------------------


def test_one_film_and_clips_that_were_not_sampled_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FixInput, match="got labels in 1 film") as refused:
        audit(tmp_path, drawn_films(["SSEE"]))
    assert "sample clips of more films" in str(refused.value.hint)
    with pytest.raises(FixInput, match="got labels in 1 film") as refused:
        audit(tmp_path, drawn_films(["SSEE", "...."]))
    assert "marks clips MARKS" in str(refused.value.hint)
    manifest = drawn_films(["SSEE", "SEEE"])
    empty = {"draw_probability": "", "draw_clips": ""}
    other = Clip("x-1", "x", None, "", 0.0, 2.0, "S", (), empty)
    merged = replace(manifest, clips=(*manifest.clips, other))
    with pytest.raises(FixInput, match="clips that were not sampled: x-1"):
        audit(tmp_path, merged)


def concept_marks(path: Path, levels: str, n_films: int = 3) -> Path:
    """Look is marked in half of each first clip; levels are marked in whole clips."""
    rows = ["movie_id,start_s,end_s,column,value,annotator"]
    for film in range(n_films):
        rows.append(f"f{film},0,8,watched,watched,ada")
        rows.append(f"f{film},0.5,1.5,concepts,Look,ada")
        rows += [
            f"f{film},{2 * n},{2 * n + 2},level,{x},ada" for n, x in enumerate(levels)
        ]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def audit_of_marks(folder: Path, manifest: Manifest, table: Path, of: str) -> Audit:
    """Make labels of marks, then estimate the share."""
    path = Workspace(folder).new_manifest("drawn")
    path.parent.mkdir(exist_ok=True)
    write_manifest(manifest, path, force=True)
    project_marks(table, clips="drawn", name="judged", force=True, workspace=folder)
    return audit_share("judged", of=of, workspace=folder)


def test_concepts_without_levels_and_concepts_that_nobody_marked_are_refused(tmp_path):
    manifest = drawn_films(["....", "....", "...."])
    table = concept_marks(tmp_path / "alone.csv", "")
    with pytest.raises(FixInput, match="expected clips with levels"):
        audit_of_marks(tmp_path, manifest, table, "Look in concept")
    table = concept_marks(tmp_path / "marks.csv", "SS")
    with pytest.raises(FixInput, match="unknown concept 'male gaze'; known: Look"):
        audit_of_marks(tmp_path, manifest, table, "'male gaze' in concept")
