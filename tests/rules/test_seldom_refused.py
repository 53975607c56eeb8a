"""Refusals that protect a number, a file or a secret, and that hardly anybody meets."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.annotated import annotated
from support.cli import call_obygaze
from support.experiments import films, planted, quick, store_of
from support.joined_stores import joined_stores
from support.maps import token_store
from support.stores import a_recipe, made_store, some_rows

from obygaze.audits.annotations import audit_annotations
from obygaze.audits.captions import audit_captions
from obygaze.audits.cooccurrence import audit_cooc
from obygaze.audits.gender import cut_shares
from obygaze.audits.maps import concept_maps
from obygaze.audits.maps.boxes import shares_in_boxes
from obygaze.audits.maps.conditions import compare_conditions
from obygaze.audits.maps.pictures import exact_pictures
from obygaze.audits.maps.stores import write_maps
from obygaze.audits.mediaeval import audit_mediaeval
from obygaze.films.elan import ElanFile, write_elan
from obygaze.films.elan_files import export_marks
from obygaze.films.exporting import export_elan
from obygaze.films.importing import import_files_of_marks
from obygaze.films.labels import project_marks
from obygaze.films.page.view import view
from obygaze_features.backbones import weight_files
from obygaze_features.backbones.card import Preset
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.families import FAMILIES
from obygaze_features.backbones.geometry import Geometry
from obygaze_features.core import parquet_tables, workbooks
from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    FixUsage,
    Mismatch,
    ObygazeError,
)
from obygaze_features.core.overwrite import REPORT, check_file
from obygaze_features.core.tables import read_table
from obygaze_features.core.user_code import find_user_code, trust
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.compute import Resources
from obygaze_features.extraction.cut_films import make_windows
from obygaze_features.extraction.text import score_captions
from obygaze_features.manifest.annotators import apply_rule
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.expression import parse
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.windows import CutFilm, Grid, check_windows
from obygaze_features.store import Reason, Recipe, Row, open_store
from obygaze_features.store.files import FolderFiles
from obygaze_features.store.importing import import_features
from obygaze_features.store.recipe import space_of_array
from obygaze_features.store.records import FileMark
from obygaze_features.store.targets import BucketTarget, HubTarget
from obygaze_features.store.texts import TextTable
from obygaze_features.video.pool import DecodePool
from obygaze_models.evaluation import logistic
from obygaze_models.evaluation.permutation import permutation_p
from obygaze_models.models.concepts import CAV, NO_DIRECTION
from obygaze_models.models.primal import hinge_plane
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.training import training_protocol
from obygaze_models.text_vectors import check_spaces, text_pairs
from obygaze_models.zoo import predicting
from obygaze_models.zoo.info import TrainingClips

Case = Callable[[Path], object]


def text(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def annotators_who_differ(folder: Path) -> object:
    said = {
        "ada": {"a-1": {"rating": "1"}, "b-1": {"rating": "1"}},
        "ben": {"a-1": {"rating": "2"}, "b-1": {"rating": "2"}},
    }
    manifest = apply_rule(annotated(said), "agreed")
    return audit_annotations(manifest, column="rating", x=["a-1"], y=["b-1"])


def classes(valence: str) -> Manifest:
    extra = {"valence_class": valence} if valence else {}
    clips = [Clip("ACCEDE00001", "f", extra=extra)]
    return Manifest("accede", Header("made up"), clips, (*extra,))


def score_violence(folder: Path, manifest: Manifest) -> object:
    run = text(folder / "run.txt", "violence Q0 ACCEDE00001 1 0.5 run\n")
    return audit_mediaeval([run], manifest=manifest)


@pytest.fixture(scope="module")
def maps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tokens of two clips and maps that could not be made, a store of another kind, a manifest."""
    folder = tmp_path_factory.mktemp("maps")
    manifest = films(2, 1)
    source = token_store(folder / "stores" / "tokens", manifest, ["Look"])
    failed = Reason("failed", "OSError: a broken file")
    ids = source.clip_ids.tolist()
    target = folder / "stores" / "maps"
    write_maps(target, source, ids, ["sad"], {"method": "by hand"}, [failed, failed])
    write_manifest(manifest, folder / "manifests" / "made-up.toml")
    recipe = Recipe.unknown("a lab", {})
    store_of(folder / "stores" / "clips", manifest, planted(manifest), recipe=recipe)
    first, second = ids
    text(folder / "boxes.csv", f"clip_id,x0,y0,x1,y1\n{first},0,0,1,1\n")
    text(folder / "pairs.csv", f"clip_id,condition,pair\n{first},a,1\n{second},b,1\n")
    return folder


MARK = "movie_id,start_s,end_s,column,value,annotator"


def marks(folder: Path, *rows: str, name: str = "m", header: str = MARK) -> Path:
    return text(folder / "segments" / f"{name}.csv", "\n".join([header, *rows, ""]))


def two_rates(folder: Path) -> object:
    header = f"{MARK},start_frame,end_frame,framerate"
    tables = [
        marks(
            folder,
            f"lake,0,{51 / rate},level,S,{who},0,50,{rate}",
            name=who,
            header=header,
        )
        for rate, who in ((25, "ada"), (24, "ben"))
    ]
    return project_marks(tables, "o", every=1, workspace=folder)


def clips_of_a_view(folder: Path) -> object:
    header = Header("made up", view="visual")
    clips = [Clip("lake-1", "lake", start_s=0.0, end_s=2.0)]
    write_manifest(Manifest("seen", header, clips), folder / "manifests" / "seen.toml")
    table = marks(folder, "lake,0,1,level,S,ada")
    return project_marks(table, "o", clips="seen", workspace=folder)


def watched_of_unknown_length(folder: Path) -> object:
    # The last time of the file is that of a mark, and the film may be longer.
    slot = '<TIME_SLOT TIME_SLOT_ID="t1" TIME_VALUE="4000"/>'
    tier = '<TIER LINGUISTIC_TYPE_REF="marks" TIER_ID="Gaze@ada"/>'
    file = elan(folder, tier, f"<TIME_ORDER>{slot}</TIME_ORDER>")
    return import_files_of_marks([file], "new", coded=["Gaze"], workspace=folder)


def elan(folder: Path, tiers: str = "", times: str = "<TIME_ORDER/>") -> Path:
    """Write a file of ELAN as the program does, with other tiers, perhaps without times."""
    video = 'MEDIA_URL="file:///lake.mp4" MIME_TYPE="video/mp4"'
    whole = write_elan([]).decode().replace("<TIME_ORDER/>", times + tiers)
    whole = whole.replace("></HEADER>", f"><MEDIA_DESCRIPTOR {video}/></HEADER>")
    return text(folder / "lake.eaf", whole)


def two_videos(folder: Path) -> object:
    for ending in ("mp4", "mkv"):
        text(folder / "films" / f"lake.{ending}", "")
    grid = Grid(window=16, stride=16)
    here = Workspace(folder)
    return make_windows(folder / "films", grid, workspace=here, name="w")


def no_films_to_show(folder: Path) -> object:
    write_manifest(Manifest("films", Header("x"), ()), folder / "films.toml")
    return view(folder / "films.toml", workspace=folder)


def code_of_no_file(folder: Path) -> object:
    trust(["__main__:mine"])
    return find_user_code("__main__:mine")


def too_many_cells(folder: Path) -> None:
    # Its library takes a second to import.
    facts: dict[str, Any] = {"num_row_groups": 0, "row_group": None}
    metadata = SimpleNamespace(num_rows=10**9, num_columns=2, **facts)
    parquet_tables._refuse_large(metadata, text(folder / "t.parquet", ""))


def closed_pool(folder: Path) -> object:
    pool = DecodePool(1)
    pool.close()
    job: Any = None
    return pool.submit(job)


def years_of_words(folder: Path) -> object:
    asked = parse("year > 1990", vocabulary={})
    return asked.holds(lambda column: ["about 1990"])


def own_cards(folder: Path, asked: str, **cards: str) -> object:
    """Look for a card in a workspace with these cards."""
    for name, content in cards.items():
        text(folder / "backbones" / f"{name}.toml", content)
    return find_card(asked, Workspace(folder))


def geometry_of(family: str, **config: Any) -> object:
    known: Any = FAMILIES[family]
    return known.geometry(SimpleNamespace(**config), Geometry(4, 8, "frame"))


LIKE = 'like = "{}"\n'


def npz(folder: Path, **arrays: Any) -> object:
    """Import an npz file with two clips and these arrays."""
    known = {"clip_id": np.array(["a-1", "a-2"]), "clip": np.ones((2, 3), "f4")}
    np.savez(folder / "sent.npz", **{**known, **arrays})
    return import_features(folder / "sent.npz", folder / "new", workspace=folder)


def long_reasons(folder: Path) -> object:
    row = Row("a-1", "a", status="failed", reason="x" * 2**22)
    return made_store(folder / "a", [row], {"clip": np.ones((1, 2), "f4")})


def levels_without_nan(folder: Path) -> object:
    values = {"clip": np.ones((2, 3), "u1")}
    return made_store(folder / "a", some_rows(2), values).matrix("clip", missing="nan")


def changed_in_the_bucket(folder: Path) -> None:
    target = object.__new__(BucketTarget)
    target.location = "s3://films/a"
    head = SimpleNamespace(meta={"size": 2, "e_tag": ""})
    put = SimpleNamespace(put=lambda *_, **__: None)
    files = {"answer": lambda *_: head, "store": None, "obstore": put}
    target.files = SimpleNamespace(**files)
    target.put("rows.csv", folder, FileMark(3, ""))


def npy(folder: Path, *names: str) -> object:
    for name in names:
        (folder / "sent" / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / "sent" / name, np.ones(3, "f4"))
    source = folder / "sent"
    source.mkdir(exist_ok=True)
    return import_features(source, folder / "new", workspace=folder)


def times_that_are_no_seconds(folder: Path) -> object:
    return ClipTable.of_cells([{"clip_id": "a", "start_s": "0:10", "end_s": ""}])


REFUSED: dict[str, Case] = {
    "annotators differ on rating in all clips": annotators_who_differ,
    "excluded, because 'group' is empty": lambda f: audit_captions(
        text(f / "t.csv", "caption,group\na dog,\n")
    ),
    "no text has a value in the column of things": lambda f: audit_cooc(
        text(f / "t.csv", "caption,thing\na man,|\n"), things="thing"
    ),
    "expected counts with a positive sum": lambda _: cut_shares(0, 0),
    "expected whole numbers in the column": lambda f: score_violence(
        f, classes("high")
    ),
    "no clip has a value in the columns": lambda f: score_violence(f, classes("")),
    "expected judgements of violence": lambda f: score_violence(f, classes("1")),
    "expected at least one run, got none": lambda _: audit_mediaeval(
        [], manifest=classes("1")
    ),
    "no clip of the manifest has a film to show": no_films_to_show,
    "nothing to export: the table has no marks": lambda f: export_elan(
        marks(f), f / "o.eaf"
    ),
    "nothing to export: 1 clip without times": lambda f: export_marks(
        classes("1"), f / "o.eaf"
    ),
    "the table has 2,000,000,000 cells and": too_many_cells,
    "the table has no marks": lambda f: project_marks(marks(f), "o", every=1),
    "the decode pool is closed": closed_pool,
    "timeout_s must be above 0, got 0": lambda _: DecodePool(1, timeout_s=0),
    "batch must be at least 1, got -2": lambda _: Resources(batch=-2),
    "expected a file, got a folder": lambda f: check_file(f, REPORT),
    "edge and squash_first are allowed for square frames only": lambda _: Preset(
        edge=8
    ).resize_to(Geometry(4, 4, shape=(4, 8))),
    "expected user code in a file or a module": code_of_no_file,
    "expected numbers in the column year, got 'about 1990'": years_of_words,
    "expected numbers in the column valence_class": lambda _: classes("high").where(
        "valence_class > 1"
    ),
    "TIME_ORDER is missing": lambda f: ElanFile(elan(f, times="")).with_tiers([]),
    "the film lake is unknown, because there is no linked file of": watched_of_unknown_length,
    "expected a manifest in the raw view": clips_of_a_view,
    "as in other rows of the film lake, got": two_rates,
    "two videos for the film 'lake'": two_videos,
    "expected at most 5,000,000 windows": lambda f: check_windows(
        Grid(seconds=0.01, every=0.01), [CutFilm("a", "", 9, 0.0, 100000.0)]
    ),
    "two cards are called 'clip-b16'": lambda f: own_cards(
        f, "clip-b16", **{"clip-b16": LIKE}
    ),
    "the card in mine.toml is called 'other'": lambda f: own_cards(
        f, "mine", mine='like = "clip-b16"\nname = "other"\n'
    ),
    "circular `like`: a -> b -> a": lambda f: own_cards(
        f, "a", a=LIKE.format("b"), b=LIKE.format("a")
    ),
    "only square frames and patches are supported, got [224, 448]": lambda _: (
        geometry_of("clip", image_size=[224, 448], patch_size=16)
    ),
    "a checkpoint with an adapter": lambda _: geometry_of("wav2vec2", add_adapter=True),
    "start_s of the clip 'a': expected seconds, got '0:10'": times_that_are_no_seconds,
    "expected text in UTF-16": lambda f: read_table(
        text(f / "t.csv", b"\xff\xfea\x00\n"), required=()
    ),
    "-o must not be the input table": lambda f: score_captions(
        f / "t.csv", f / "t.csv", "lm", "sim"
    ),
    "expected a file or folder of this machine, got a URL": lambda f: Workspace(
        f
    ).new_store("https://host/store"),
    "movie_id: expected a row for each of 2 ids": lambda f: npz(
        f, movie_id=np.array(["a", "a", "b"])
    ),
    "cannot be read as Unicode": lambda f: npz(f, clip_id=np.array([b"a\xff", b"b"])),
    "several files for the same clip: a-b-c": lambda f: npy(
        f, "a/b-c.npy", "a-b/c.npy", "z/c.npy"
    ),
    "leads out of the folder": lambda f: FolderFiles(f).read("../x/store.json", 10),
    "the ids or reasons of the rows are too long": long_reasons,
    "clip is uint8, but missing='nan' requires floats": levels_without_nan,
    "a different length or checksum after it was sent": changed_in_the_bucket,
    "expected a data set of the hub, got a commit": lambda _: HubTarget(
        f"hf://lab/films@{'ab' * 20}"
    ),
    "the array 'frames' of clip-b16 cannot be compared with text": lambda _: (
        space_of_array(of_backbone("tokens"), "frames")
    ),
}


MAPS: dict[str, Case] = {
    "no clip with a box has maps": lambda f: shares_in_boxes(
        open_store(f / "stores" / "maps"), f / "boxes.csv"
    ),
    "no pair of clips can be compared": lambda f: compare_conditions(
        f / "stores" / "maps", f / "pairs.csv"
    ),
    "the recipe of this store is unknown": lambda f: exact_pictures(
        Workspace(f), open_store(f / "stores" / "clips"), "x"
    ),
    "no grid of spatial tokens": lambda f: concept_maps.write_concept_maps(
        f / "new", "clips", "made-up", workspace=f
    ),
}


@pytest.mark.parametrize("words", MAPS)
def test_maps_of_nothing_are_refused(words: str, maps: Path) -> None:
    with pytest.raises(ObygazeError, match=words):
        MAPS[words](maps)


def test_a_sheet_is_of_a_clip_of_the_manifest(maps: Path) -> None:
    backbone = {"name": "clip-b16", "card_sha256": "ab" * 32}
    recipe = a_recipe(backbone=backbone, preprocessing={"edge": 224})
    values = {"clip": np.ones((1, 2), "f4")}
    store = made_store(maps / "stores" / "seen", some_rows(1), values, recipe=recipe)
    with pytest.raises(Mismatch, match="the manifest has no clip 'x'"):
        exact_pictures(Workspace(maps), store, "x")


def test_a_file_of_the_hub_that_was_changed_is_not_read(tmp_path: Path) -> None:
    blob = text(tmp_path / ("ab" * 20), b'{"hidden_size": 8}')
    (tmp_path / "config.json").symlink_to(blob)
    files = weight_files.WeightFiles(tmp_path, (), "here")
    with pytest.raises(Corrupt, match=r"config\.json was changed"):
        files.json_file("config.json")


@pytest.mark.parametrize(
    ("width", "words"),
    [(3, "with the width of a token, got clip"), (2, "no direction could be fitted")],
)
def test_no_map_is_made_of_other_features_or_of_none(width, words, tmp_path) -> None:
    manifest = films(2, 40)
    values: dict[str, Any] = {"clip": np.zeros((80, 2), "f4")}
    values["tokens"] = np.zeros((80, 1, 1, width), "f4")
    backbone: Any = {"name": "toy", "card_sha256": "ab" * 32}
    backbone["geometry"] = {"grid": [1, 1, 1]}
    rows = [Row(clip.clip_id, clip.movie_id) for clip in manifest]
    store = made_store(tmp_path / "a", rows, values, recipe=a_recipe(backbone=backbone))
    with pytest.raises(FixInput, match=words):
        concept_maps.write_concept_maps(tmp_path / "maps", store, manifest)


def test_a_workbook_that_is_too_large_is_not_opened(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(workbooks, "MAX_FILE", 2)
    with pytest.raises(Corrupt, match="the file has 3 B, expected at most 2 B"):
        read_table(text(tmp_path / "t.xlsx", "abc"), required=())


def test_captions_of_another_encoding_are_not_counted(tmp_path: Path) -> None:
    text(tmp_path / "captions" / "dog_man_a_1.txt", b"a man \xff\n")
    with pytest.raises(FixInput, match="expected a file in UTF-8"):
        audit_captions(tmp_path / "captions")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "manifest import words.srt --as table -o w",
            "expected a table, got subtitles",
        ),
        ("manifest show imported", "'imported' cannot be the name of a manifest"),
        ("manifest join films more.csv", "the manifest has these columns already"),
    ],
)
def test_a_command_is_refused(tmp_path: Path, line: str, sentence: str) -> None:
    manifest = films(2, 3).with_column("mood", {})
    for name in ("films", "imported"):
        write_manifest(manifest, tmp_path / f"{name}.toml")
        for ending in ("toml", "csv"):
            data = (tmp_path / f"{name}.{ending}").read_bytes()
            text(tmp_path / "manifests" / f"{name}.{ending}", data)
    text(tmp_path / "words.srt", "1\n00:00:01,000 --> 00:00:02,000\nOh\n")
    clip_id = manifest.clips[0].clip_id
    text(tmp_path / "more.csv", f"clip_id,mood,level\n{clip_id},calm,S\n")
    before = sorted(tmp_path.rglob("*"))
    done = call_obygaze(*line.split(), cwd=tmp_path)
    assert 1 <= done.code <= 5
    assert sentence in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


MANIFEST = films(2, 3)
FACTS = ClipTable.of(["a-1"], ["a"], [None], [None])
TWO = np.array([[0.0], [1.0]])
ONE_LENGTH = "lists of one length, got (2,), (3,) and (2,)"


def plane_of(C: Any) -> object:
    """Find the plane of a concept that its rows do not have on one side."""
    return CAV(C=C).fit([[-1.0], [1.0], [-1.0], [1.0]], [1, 1, 0, 0])


OF_TEXTS = ("joy", "fear", "grief")
TEXTS = TextTable(np.eye(3, dtype="f4"), OF_TEXTS, OF_TEXTS, OF_TEXTS, "")
ZERO_SHOT = (
    "models.zero.kind=zero-shot",
    "models.zero.texts=texts.npz",
    "models.zero.positive=joy",
    "models.zero.negative=fear",
    'grid.models=["zero"]',
)
BACKBONE = {"name": "clip-b16", "card_sha256": "ab" * 32, "family": "clip"}


def of_backbone(level: str) -> Any:
    """The recipe of an array `frames` of this level."""
    backbone = {**BACKBONE, "levels": {"frames": level}}
    return a_recipe(backbone=backbone, weights={"tensors": "cd" * 32})


OF_FRAMES = of_backbone("frame-vector")
TEXTS_OF_CLIP = replace(TEXTS, space_id=space_of_array(OF_FRAMES, "frames") or "")


def of_frames() -> Any:
    """What is asked of a store with a vector for each frame."""
    array = SimpleNamespace(shape=(3, 4))
    return SimpleNamespace(recipe=OF_FRAMES, location="here", array=lambda _: array)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Stores of two senses, and the store of both."""
    X = planted(MANIFEST)
    made: dict[str, Any] = joined_stores(
        tmp_path_factory.mktemp("runs"), MANIFEST, {"a": X, "b": X}
    )
    return made


REFUSED_RUNS: dict[str, Case] = {
    ONE_LENGTH: lambda _: permutation_p([1, 2], [True, False, True]),
    "value 1 is not a finite": lambda _: permutation_p([1, np.nan], [1, 0]),
    "expected 2 rows of targets, got 1": lambda _: CAV().fit(TWO, [1]),
    "a vector that is not finite": lambda _: hinge_plane(
        TWO, TWO[:, 0] > 0, np.ones(2), np.array([1e200, 0])
    ),
    "needs the folds of a published file": lambda _: plane_of("folds"),
    "rows with the concept and rows without it": lambda _: CAV().fit(TWO, [0, 0]),
    NO_DIRECTION: lambda _: plane_of(0.1),
    "p:yes: expected one score for each of 1 clips": lambda _: TrainingClips(
        FACTS, {"p:yes": np.zeros(2)}
    ),
    "array 'frames' must have one vector per clip": lambda _: check_spaces(
        of_frames(), "frames", TEXTS_OF_CLIP
    ),
    "expected texts with two attributes, got 3: joy, fear, grief": lambda _: text_pairs(
        TEXTS, []
    ),
    "no visual concept has": lambda _: training_protocol("cav", "EN_S", MANIFEST),
}


@pytest.mark.parametrize("words", [*REFUSED, *REFUSED_RUNS])
def test_it_is_refused_in_these_words(words: str, tmp_path: Path) -> None:
    with pytest.raises(ObygazeError) as found:
        {**REFUSED, **REFUSED_RUNS}[words](tmp_path)
    assert words in "\n".join([str(found.value), *found.value.details])


def test_a_logistic_fit_that_does_not_converge_has_no_numbers(monkeypatch) -> None:
    monkeypatch.setattr(logistic, "MAX_ITERATIONS", 1)
    with pytest.raises(FixInput, match="did not converge"):
        logistic.fit_logistic([[0], [1], [2], [3]], [0, 1, 0, 1])


def test_texts_are_not_compared_with_features_of_two_models(stores) -> None:
    with pytest.raises(FixUsage, match="cannot have a model of texts"):
        gather(quick("honest", *ZERO_SHOT), MANIFEST, "", {"x": stores["joined"]})


def test_a_list_of_no_clips_is_not_a_table_of_no_scores(monkeypatch) -> None:
    monkeypatch.setattr(predicting, "store_to_read", lambda *_: (None, "clip"))
    features = SimpleNamespace(rule="")
    model: Any = SimpleNamespace(info=SimpleNamespace(features=features))
    with pytest.raises(FixUsage, match="expected at least one id in --clips"):
        predicting.features_for_model(model, model, [])
