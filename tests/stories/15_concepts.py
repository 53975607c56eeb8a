"""Story 15: I ask which concepts a model uses, correct them, look where they are, remove them."""

import contextlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import logit
from sklearn.svm import SVC
from support.checkpoints import LAYERS, stir, write_card
from support.cli import ROOT
from support.pages import blocks
from support.videos import encode_video

import obygaze as og
from stories.films import CONCEPTS, Row, features_of, import_features, labelled_clips
from stories.workspace import Workspace

QUICK = "--set report.replicates=20 --jobs 1"

# How tolerant the paper's code is to clips on the wrong side of a concept's border.
PUBLISHED_C = {"Look": 0.05, "Body": 0.05, "Posture": 0.01, "Clothing": 0.01}

# A corner of each film, by row and column of a grid of four by four, in which a look is shown.
CORNERS = {"alba": (0, 0), "brug": (3, 3), "cirk": (0, 3), "dune": (3, 0)}
SIDE = 64
PATCH = 16
PICTURES_A_CLIP = 8
PICTURES_A_SECOND = 4
PATCHES = {
    **{"like": "clip-b16", "checkpoint": "local/patches", "frames": 4, "size": 64},
    **{"gflop": 0.001, "download_mb": 1},
    "tokens": {"grid": [4, 4, 4], "width": 32, "out": 24},
    "depth": {"layers": 1, "hidden": 48, "heads": 2},
}


def has_concept(rows: list[Row], concept: str) -> npt.NDArray[np.bool_]:
    return np.array([concept in row["concepts"].split("|") for row in rows])


def test_concept_vectors_are_those_of_the_published_machines(ws: Workspace) -> None:
    rows = labelled_clips(n_films=8, per_film=15)
    X = features_of(rows, concepts=1.5, width=8)
    import_features(ws, rows, X, "planted")
    ws(f"train cav --store planted --manifest films -o cav {QUICK}")
    ws("models predict cav planted --in-sample -o margins.csv")
    margins = ws.read_table("margins.csv")
    for column, concept in enumerate(CONCEPTS, start=1):
        machine = SVC(
            kernel="linear", C=PUBLISHED_C[concept], class_weight="balanced", tol=1e-8
        )
        machine.fit(X.astype(float), has_concept(rows, concept))
        direction = machine.coef_[0] / np.linalg.norm(machine.coef_)
        assert np.abs(direction).argmax() == column
        expected = machine.decision_function(X.astype(float))
        expected = expected / np.linalg.norm(machine.coef_)
        found = [float(row[f"margin:{concept}"]) for row in margins]
        np.testing.assert_allclose(found, expected, atol=0.01)


def clips_of_a_look(ws: Workspace) -> tuple[str, str]:
    """Make clips that are S because of a look; return two of film08 that mislead.

    In the first, which is S, no look can be seen; in the second, which is EN, one is seen.
    """
    rows = labelled_clips(n_films=8, per_film=12)
    for row in rows:
        row["concepts"] = {"S": "Look", "HN": "Body", "EN": ""}[row["level"]]
    X = features_of(rows, concepts=4.0, width=8)
    column_of_look = 1 + CONCEPTS.index("Look")
    of_last_film = [n for n, row in enumerate(rows) if row["movie_id"] == "film08"]
    unseen_look = next(n for n in of_last_film if rows[n]["level"] == "S")
    seen_look = next(n for n in of_last_film if rows[n]["level"] == "EN")
    X[unseen_look, column_of_look] -= 4.0
    X[seen_look, column_of_look] += 4.0
    import_features(ws, rows, X, "looks")
    return rows[unseen_look]["clip_id"], rows[seen_look]["clip_id"]


@pytest.mark.parametrize("kind", ["pcbm-h", "pcbm-dt"])
def test_correcting_a_concept_flips_the_decision(ws: Workspace, kind: str) -> None:
    unseen_look, seen_look = clips_of_a_look(ws)
    ws(
        f"train {kind} --store looks --manifest films -o corrected {QUICK}"
        " --set model.tolerance=0.05 --set model.cross_fit=2"
        """ --set 'data.where="movie_id != film08"'"""
    )
    ws("models predict corrected looks --in-sample -o predicted.csv")
    clips = {row["clip_id"]: row for row in ws.read_table("predicted.csv")}
    assert clips[unseen_look]["basis"] == clips[seen_look]["basis"] == "unseen"
    assert clips[unseen_look]["decision"] == "negative"
    assert clips[seen_look]["decision"] == "positive"

    # What concepts (and the residual) contribute, and one base, is the whole of a score.
    border = 0.5 if kind == "pcbm-dt" else 0.0
    scores: dict[str, float] = {}
    parts: dict[str, dict[str, float]] = {}
    bases = []
    for clip_id, row in clips.items():
        probability = float(row["p:positive"])
        scores[clip_id] = (
            probability if kind == "pcbm-dt" else float(logit(probability))
        )
        parts[clip_id] = contributions(row)
        bases.append(scores[clip_id] - sum(parts[clip_id].values()))
    assert np.ptp(bases) < 1e-6
    assert ("residual" in parts[seen_look]) == (kind == "pcbm-h")

    # What was annotated in the two clips takes the place of what is seen in them.
    annotated = {row["clip_id"]: row["concepts"] for row in ws.read_table("films.csv")}
    with_look = [parts[name]["Look"] for name in clips if annotated[name] == "Look"]
    without_look = [parts[name]["Look"] for name in clips if annotated[name] != "Look"]
    change = np.median(with_look) - parts[unseen_look]["Look"]
    assert scores[unseen_look] < border < scores[unseen_look] + change
    change = np.median(without_look) - parts[seen_look]["Look"]
    assert scores[seen_look] + change < border < scores[seen_look]


def contributions(row: dict[str, str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for column, value in row.items():
        kind, _, concept = column.partition(":")
        if kind == "contribution":
            found[concept] = float(value)
    return found


@pytest.mark.check("a network of torch, and films that are decoded")
def test_a_planted_corner_is_the_peak_of_its_map(ws: Workspace) -> None:
    pytest.importorskip("transformers")
    rows = films_with_corners(ws.path("videos"))
    ws.import_table(rows, "films", "clips")
    ws("manifest link films videos")
    write_network(ws.path("weights"))
    write_card(ws.path("backbones"), "patches", **PATCHES)
    ws(
        "extract run films -b patches --weights patches=weights --workers 1"
        " --arrays pooled,tokens --store patches=patches"
    )
    ws("explain concepts patches films -o maps")

    # The directions for a film are those of other films, whose corner is another one.
    store = og.open_store("maps", workspace=ws.folder)
    looks = [row for row in rows if row["concepts"] == "Look"]
    clip_ids = [row["clip_id"] for row in looks]
    maps = np.asarray(store.matrix("maps", clips=clip_ids))
    boxes = []
    for row, map_of_clip in zip(looks, maps, strict=True):
        corner = CORNERS[row["movie_id"]]
        for step in map_of_clip[0]:
            assert np.unravel_index(step.argmax(), step.shape) == corner
        box = {"clip_id": row["clip_id"], "x0": corner[1] / 4, "y0": corner[0] / 4}
        boxes.append({**box, "x1": box["x0"] + 0.25, "y1": box["y0"] + 0.25})

    # Two conditions of clips of other films, which have more in their own corners than at random.
    ws.write_table("corners.csv", boxes)
    pairs = [
        {"clip_id": row["clip_id"], "condition": "ab"[number % 2], "pair": number // 2}
        for number, row in enumerate(looks[:4])
    ]
    ws.write_table("pairs.csv", pairs)
    line = "audit maps maps pairs.csv --boxes corners.csv --json"
    look, body, at_random = ws(line).json()["directions"]
    assert (look["direction"], body["direction"]) == ("Look", "Body")
    for of_look, others in zip(look["shares"], at_random["shares"], strict=True):
        assert of_look > others
    assert max(body["shares"]) < min(look["shares"])

    # The lines of the guide that draw the map of a clip.
    page = blocks(ROOT / "docs" / "guide" / "concepts.md")
    (code,) = [block.text for block in page if "imshow" in block.text]
    clip_id = looks[0]["clip_id"]
    names: dict[str, Any] = {}
    with contextlib.chdir(ws.folder):
        exec(code.replace("alba-00", clip_id), names)
    np.testing.assert_array_equal(names["steps"], maps[0][0])
    assert ws.path(f"{clip_id}.Look.png").stat().st_size > 1000


def films_with_corners(folder: Path) -> list[Row]:
    """Write four grey films, and return their clips: in each second one a corner is red."""
    folder.mkdir()
    rows = []
    for film, (row, column) in CORNERS.items():
        pictures = []
        for clip in range(8):
            picture = np.full((SIDE, SIDE, 3), 110, dtype=np.uint8)
            has_look = clip % 2 == 1
            if has_look:
                down = slice(row * PATCH, (row + 1) * PATCH)
                across = slice(column * PATCH, (column + 1) * PATCH)
                picture[down, across] = (230, 60, 60)
            pictures += [picture] * PICTURES_A_CLIP
            rows.append(clip_of(film, clip, has_look))
        encode_video(
            folder / f"{film}.mp4",
            pictures=pictures,
            rate=PICTURES_A_SECOND,
            tick=Fraction(1, PICTURES_A_SECOND),
            size=(SIDE, SIDE),
            options={"g": "4", "crf": "10"},
        )
    return rows


def clip_of(film: str, number: int, has_look: bool) -> Row:
    """Return the row of a clip: S with a look, HN with something that is not seen, or EN."""
    seconds = PICTURES_A_CLIP / PICTURES_A_SECOND
    is_hard = number % 4 == 2
    return {
        "clip_id": f"{film}-{number + 1:03d}",
        "movie_id": film,
        "start_s": number * seconds,
        "end_s": (number + 1) * seconds,
        "level": "S" if has_look else "HN" if is_hard else "EN",
        "concepts": "Look" if has_look else "Body" if is_hard else "",
    }


def write_network(folder: Path) -> None:
    """Write a CLIP with random weights that sees each patch alone, and not where it is."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    size = LAYERS | {"num_hidden_layers": 1, "intermediate_size": 48}
    size |= {"projection_dim": 24}
    text = {**size, "vocab_size": 40, "max_position_embeddings": 8}
    vision = {**size, "image_size": SIDE, "patch_size": PATCH}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)
    model = CLIPModel(config)
    stir(model, seed=0)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "out_proj" in name or "position_embedding" in name:
                weights.zero_()
    model.save_pretrained(folder)
