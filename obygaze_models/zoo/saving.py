"""Saved models: a folder with arrays (safetensors), facts (JSON) and a card, nothing that runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from obygaze_features import __version__
from obygaze_features.core.drafts import OwnFolder, check_folder, made_by_obygaze, new_folder
from obygaze_features.core.errors import Corrupt, FixInput, FixUsage, NotFound
from obygaze_features.core.files import pretty_json, sha256_bytes, sha256_file, write_atomic
from obygaze_models.models.state import Savable, load_state, save_state
from obygaze_models.zoo.card import card_text
from obygaze_models.zoo.info import SCHEMA, ModelInfo, check_schema, info_from_json
from obygaze_models.zoo.training_clips import TrainingClips, read_training_clips

MODEL_FILE, ARRAYS_FILE, CARD_FILE = "model.json", "model.safetensors", "README.md"
CLIPS_FILE = "training-clips.csv"
FILES = (ARRAYS_FILE, CLIPS_FILE, CARD_FILE, MODEL_FILE)
MAX_ARRAYS_BYTES = 2_000_000_000
MAX_CLIPS_BYTES = 500_000_000
MAX_JSON_BYTES = 10_000_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A model that was read: its facts, and the estimator that answers.

    `clips` are the clips it was trained on with their out-of-fold scores; None where the model
    does not list them.
    """

    info: ModelInfo
    estimator: Any
    created_by: str
    folder: Path
    clips: TrainingClips | None = None


def save_model(
    estimator: Savable,
    info: ModelInfo,
    folder: Path,
    *,
    clips: TrainingClips | None = None,
    force: bool = False,
) -> Path:
    """Write a fitted estimator as a folder, which appears whole.

    `clips` lists the clips that it was trained on. Without it, `predict` counts every clip of the
    films in `info.training` as a training clip without an out-of-fold score.
    """
    check_place(folder, info.name)
    if clips is not None and (unknown := _unknown_columns(clips, estimator, info)):
        raise FixInput(
            f"the training clips have a score {unknown[0]!r}, which the model does not give",
            hint=f"one of {', '.join(score_columns(estimator, info))}",
        )
    description, arrays = save_state(estimator)
    data = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    document = {
        "schema": SCHEMA,
        "created_by": f"obygaze {__version__}",
        **info.to_json(),
        "estimator": description,
        "arrays": {"bytes": len(data), "sha256": sha256_bytes(data)},
    }
    table = b"" if clips is None else clips.to_csv()
    if clips is not None:
        document["training_clips"] = {"bytes": len(table), "sha256": sha256_bytes(table)}
    json_bytes = pretty_json(document)
    files = {ARRAYS_FILE: data, CARD_FILE: card_text(info, clips).encode("utf-8")}
    if clips is not None:
        files[CLIPS_FILE] = table
    files[MODEL_FILE] = json_bytes
    path = folder / MODEL_FILE
    same = path.is_file() and path.read_bytes() == json_bytes
    with new_folder(folder, MODEL, force=force or same) as draft:
        for name, content in files.items():
            write_atomic(draft / name, content)
    return folder


def check_place(folder: Path, name: str) -> None:
    """Refuse, before anything is trained, a name or a folder that no model can have."""
    if not _NAME.fullmatch(name):
        raise FixUsage(f"{name!r} cannot name a model", hint="letters, digits, . _ -")
    check_folder(folder, MODEL, force=True)


def _not_a_model(folder: Path) -> str:
    if not made_by_obygaze(folder / MODEL_FILE):
        return f"it has no {MODEL_FILE} of obygaze"
    names = "|".join(map(re.escape, FILES))
    # What a save by an older version left when it was killed is part of the model.
    own = re.compile(rf"{names}|\.({names})\.[0-9a-f]+\.tmp")
    more = sorted(path.name for path in folder.iterdir() if not own.fullmatch(path.name))
    return f"it also holds {more[0]!r}" if more else ""


MODEL = OwnFolder("model", _not_a_model)


def load_model(folder: Path) -> SavedModel:
    """Read a model. Sizes and hashes are checked before anything is built from it."""
    document = read_document(folder)
    where = str(folder / MODEL_FILE)
    estimator = load_state(_mapping(document, "estimator", where), _arrays(folder, document))
    known = {"schema", "created_by", "estimator", "arrays", "training_clips"}
    info = info_from_json({k: v for k, v in document.items() if k not in known}, where)
    width = getattr(estimator, "n_features_in_", None)
    if width != info.features.width:
        raise Corrupt(
            f"the estimator reads {width} numbers, not {info.features.width}", where=where
        )
    for what, named, own in (
        ("classes", info.classes, getattr(estimator, "classes_", ())),
        ("concepts", info.concepts, _concepts_of(estimator)),
    ):
        if len(named) != len(own):
            raise Corrupt(
                f"{len(named)} {what} are named, the estimator has {len(own)}", where=where
            )
    clips = _training_clips(folder, document)
    if clips is not None and (unknown := _unknown_columns(clips, estimator, info)):
        raise Corrupt(
            f"a score {unknown[0]!r}, which the model does not give", where=str(folder / CLIPS_FILE)
        )
    return SavedModel(info, estimator, str(document.get("created_by", "")), folder, clips)


def score_columns(estimator: Any, info: ModelInfo) -> list[str]:
    """The columns of scores of a model: classes, then the margins of concepts."""
    margins = [f"margin:{name}" for name in info.concepts]
    if hasattr(estimator, "predict_proba"):
        return [*(f"p:{name}" for name in info.classes), *margins]
    several = len(info.classes) > 2
    named = info.classes if several else info.classes[-1:]
    return [*(f"score:{name}" for name in named), *margins]


def _unknown_columns(clips: TrainingClips, estimator: Any, info: ModelInfo) -> list[str]:
    return [name for name in clips.scores if name not in score_columns(estimator, info)]


def _concepts_of(estimator: Any) -> Sequence[Any]:
    """The concepts that an estimator has margins of."""
    bank = getattr(estimator, "bank_", estimator)
    found: Sequence[Any] = getattr(bank, "concepts_", ())
    return found


def read_document(folder: Path) -> dict[str, Any]:
    """model.json, checked to be one."""
    path = folder / MODEL_FILE
    if not path.is_file():
        raise NotFound("there is no model here", where=str(folder), hint="obygaze models ls")
    if path.stat().st_size > MAX_JSON_BYTES:
        raise Corrupt("model.json is larger than any model's", where=str(path))
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"not JSON: {error}", where=str(path)) from error
    check_schema(document, str(path))
    found: dict[str, Any] = document
    return found


def files_of(folder: Path) -> tuple[str, ...]:
    """The files of a model in the order to write them: the one that makes it a model comes last."""
    listed = "training_clips" in read_document(folder)
    return (ARRAYS_FILE, *([CLIPS_FILE] if listed else []), CARD_FILE, MODEL_FILE)


def _arrays(folder: Path, document: Mapping[str, Any]) -> dict[str, Any]:
    data = _checked(folder, ARRAYS_FILE, _mapping(document, "arrays", str(folder / MODEL_FILE)))
    try:
        arrays: dict[str, Any] = load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise Corrupt(f"not safetensors: {error}", where=str(folder / ARRAYS_FILE)) from error
    return arrays


def _training_clips(folder: Path, document: Mapping[str, Any]) -> TrainingClips | None:
    if "training_clips" not in document:
        return None
    promised = _mapping(document, "training_clips", str(folder / MODEL_FILE))
    return read_training_clips(_checked(folder, CLIPS_FILE, promised), str(folder / CLIPS_FILE))


def _checked(folder: Path, name: str, promised: Mapping[str, Any]) -> bytes:
    """A file of a model, after its size and its hash were compared."""
    path = folder / name
    most = MAX_ARRAYS_BYTES if name == ARRAYS_FILE else MAX_CLIPS_BYTES
    if not path.is_file() or path.is_symlink():
        raise Corrupt(f"{name} is missing", where=str(path))
    size = path.stat().st_size
    if size != promised.get("bytes") or size > most:
        raise Corrupt(f"{size} bytes, {promised.get('bytes')} were promised", where=str(path))
    if sha256_file(path) != promised.get("sha256"):
        raise Corrupt("the sha256 is not the promised one", where=str(path))
    return path.read_bytes()


def _mapping(document: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = document.get(key)
    if not isinstance(value, dict):
        raise Corrupt(f"{key!r} is missing", where=where)
    return value
