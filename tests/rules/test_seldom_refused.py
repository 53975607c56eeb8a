"""Refusals of tables, films, cards and stores that protect and that hardly anybody meets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.annotated import annotated
from support.experiments import films, planted, store_of
from support.maps import token_store
from support.stores import a_recipe, made_store, sealed_store, some_rows

from obygaze.audits.annotations import audit_annotations
from obygaze.audits.captions import audit_captions
from obygaze.audits.cooccurrence import audit_cooc
from obygaze.audits.maps import concept_maps
from obygaze.audits.maps.boxes import shares_in_boxes
from obygaze.audits.maps.conditions import compare_conditions
from obygaze.audits.maps.pictures import exact_pictures
from obygaze.audits.maps.stores import write_maps
from obygaze.audits.mediaeval import audit_mediaeval
from obygaze.films.elan import ElanFile, write_elan
from obygaze.films.exporting import export_elan
from obygaze.films.formats import export_manifest, import_manifest
from obygaze.films.importing import import_marks
from obygaze.films.labels import project_marks
from obygaze.films.page.view import view
from obygaze_features.backbones import text as text_towers
from obygaze_features.backbones import weight_files
from obygaze_features.backbones.card import Preset
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.families import FAMILIES
from obygaze_features.backbones.geometry import Geometry
from obygaze_features.backbones.own import module_card
from obygaze_features.backbones.text import read_prompts
from obygaze_features.core import parquet_tables, workbooks
from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    FixUsage,
    Mismatch,
    ObygazeError,
    Stopped,
)
from obygaze_features.core.parts import find_part, trust
from obygaze_features.core.tables import read_table
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.cut_films import make_windows
from obygaze_features.extraction.planning import plan_stores
from obygaze_features.extraction.stored import store_status
from obygaze_features.extraction.subtitles import words_of_clips
from obygaze_features.extraction.text import score_captions
from obygaze_features.manifest.adapters.table_mapping import check_times
from obygaze_features.manifest.annotators import apply_rule
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest, Windows
from obygaze_features.manifest.windows import CutFilm, Grid, check_windows
from obygaze_features.store import Reason, Recipe, Row, open_store
from obygaze_features.store.copying import push
from obygaze_features.store.exporting import export_features
from obygaze_features.store.files import FolderFiles
from obygaze_features.store.importing import import_features
from obygaze_features.store.network import (
    Unreachable,
    explained,
    hub_errors,
    object_store,
)
from obygaze_features.store.recipe import space_of_array
from obygaze_features.store.records import FileMark
from obygaze_features.store.targets import BucketTarget, FolderTarget, HubTarget

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


def score_violence(manifest: Manifest, folder: Path) -> object:
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
    store_of(
        folder / "stores" / "clips",
        manifest,
        planted(manifest),
        recipe=Recipe.unknown("a lab", {}),
    )
    first, second = ids
    text(folder / "boxes.csv", f"clip_id,x0,y0,x1,y1\n{first},0,0,1,1\n")
    text(folder / "pairs.csv", f"clip_id,condition,pair\n{first},a,1\n{second},b,1\n")
    return folder


MARK = "movie_id,start_s,end_s,column,value,annotator"


def marks(folder: Path, *rows: str, name: str = "m", header: str = MARK) -> Path:
    return text(folder / "segments" / f"{name}.csv", "\n".join([header, *rows, ""]))


def two_rates(folder: Path) -> object:
    header = "movie_id,start_frame,end_frame,framerate,level,annotator"
    tables = [
        marks(folder, f"lake,0,50,{rate},S,{who}", name=who, header=header)
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
    tier = '<TIER LINGUISTIC_TYPE_REF="marks" TIER_ID="Gaze@ada"/>'
    return import_marks([elan(folder, tier)], "new", coded=["Gaze"], workspace=folder)


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


def own_cards(folder: Path, asked: str, **cards: str) -> object:
    """Look for a card in a workspace with these cards."""
    for name, content in cards.items():
        text(folder / "backbones" / f"{name}.toml", content)
    return find_card(asked, Workspace(folder))


def card_of(**changes: Any) -> object:
    says: dict[str, Any] = {"name": "x", "load": print, "run": print, "licence": "MIT"}
    says |= {"arrays": {"clip": [2]}, "frames": 4, "size": 8}
    return module_card(**{**says, **changes})


def geometry_of(family: str, **config: Any) -> object:
    known: Any = FAMILIES[family]
    return known.geometry(SimpleNamespace(**config), Geometry(4, 8, "frame"))


LIKE = 'like = "{}"\n'


def own_code(name: str) -> object:
    trust([name])
    return find_part(name)


FILM = CutFilm("lake", "lake.mp4", 64, 25.0, 2.56)
WINDOWS = Manifest("cut", Header("made up"), Windows((FILM,), Grid(16, 16)))
NO_CLIPS = Manifest("none", Header("made up"), ())


def npz(folder: Path, **arrays: Any) -> object:
    """Import an npz file with two clips and these arrays."""
    known = {"clip_id": np.array(["a-1", "a-2"]), "clip": np.ones((2, 3), "f4")}
    np.savez(folder / "sent.npz", **{**known, **arrays})
    return import_features(folder / "sent.npz", folder / "new", workspace=folder)


def windows_with_labels(folder: Path) -> object:
    sealed_store(folder / "stores" / "a", 3)
    return export_features("a", folder / "a.parquet", labels=WINDOWS, workspace=folder)


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


def of_backbone(**backbone: Any) -> Any:
    weights = {"tensors": "cd" * 32}
    return a_recipe(
        backbone={"name": "clip-b16", "card_sha256": "ab" * 32, **backbone},
        weights=weights,
    )


REFUSED: dict[str, Case] = {
    "annotators differ on rating in all clips": annotators_who_differ,
    "without a group": lambda f: audit_captions(
        text(f / "t.csv", "caption,group\na dog,\n")
    ),
    "no text has a thing": lambda f: audit_cooc(
        text(f / "t.csv", "caption,thing\na man,|\n"), things="thing"
    ),
    "must hold integers": partial(score_violence, classes("high")),
    "no clip has a value in the columns": partial(score_violence, classes("")),
    "expected at least one run, got none": lambda _: audit_mediaeval(
        [], manifest=classes("1")
    ),
    "no such card": lambda f: find_card(str(f / "x.toml")),
    "expected FILE.py:NAME": lambda f: find_card(str(text(f / "x.py", ""))),
    "windows have no labels": windows_with_labels,
    "no violence judgements": partial(score_violence, classes("1")),
    "there are no films to show": no_films_to_show,
    "TIME_ORDER is missing": lambda f: ElanFile(elan(f, times="")).with_tiers([]),
    "length of the film lake is not known, which ada has watched": watched_of_unknown_length,
    "there are no marks": lambda f: export_elan(marks(f), f / "o.eaf"),
    "the table has no marks": lambda f: project_marks(marks(f), "o", every=1),
    "expected a manifest in the raw view": clips_of_a_view,
    "and other rows of the film lake state": two_rates,
    "two videos for the film 'lake'": two_videos,
    "several files have no name": lambda f: import_manifest(
        [elan(f), elan(f / "b")], workspace=f
    ),
    "no store here": lambda f: store_status(f),
    "windows, expected at most 5,000,000": lambda f: check_windows(
        Grid(seconds=0.01, every=0.01), [CutFilm("a", "", 9, 0.0, 100000.0)]
    ),
    "seconds must be a finite number from 0, got inf": lambda _: Grid(
        seconds=inf
    ).check(),
    "nothing to export: 1 clip without times": lambda f: export_manifest(
        classes("1"), f / "o.eaf"
    ),
    "edge and squash_first are for square frames": lambda _: Preset(edge=8).resize_to(
        Geometry(4, 4, shape=(4, 8))
    ),
    "licence must be a string": lambda _: card_of(licence=None),
    "must be functions": lambda _: card_of(load="model.pt"),
    "two cards are called 'clip-b16'": lambda f: own_cards(
        f, "clip-b16", **{"clip-b16": LIKE}
    ),
    "the card in mine.toml is called 'other'": lambda f: own_cards(
        f, "mine", mine='like = "clip-b16"\nname = "other"\n'
    ),
    "like = 'clip-b61': unknown card": lambda f: own_cards(
        f, "mine", mine=LIKE.format("clip-b61")
    ),
    "circular `like`: a -> b -> a": lambda f: own_cards(
        f, "a", a=LIKE.format("b"), b=LIKE.format("a")
    ),
    "only square frames and patches are supported, got [224, 448]": lambda _: (
        geometry_of("clip", image_size=[224, 448], patch_size=16)
    ),
    "a checkpoint with an adapter": lambda _: geometry_of("wav2vec2", add_adapter=True),
    "no prompt set called 'emotoin'": lambda _: read_prompts("emotoin"),
    "own code must be in a file": lambda _: own_code("__main__:mine"),
    "not text in UTF-16": lambda f: read_table(
        text(f / "t.csv", b"\xff\xfea\x00\n"), required=()
    ),
    "-o must not be the input table": lambda f: score_captions(
        f / "t.csv", f / "t.csv", "lm", "sim"
    ),
    "expected a folder for the new store, got a URL": lambda f: Workspace(f).new_store(
        "https://host/store"
    ),
    "words are found for clips": lambda _: words_of_clips(WINDOWS, "srt"),
    "times are m:ss or": lambda _: check_times("mm"),
    "the manifest has no clips": lambda f: plan_stores(NO_CLIPS, [], Workspace(f)),
    "movie_id: expected a row for each of 2 ids": lambda f: npz(
        f, movie_id=np.array(["a", "a", "b"])
    ),
    "cannot be read as Unicode": lambda f: npz(f, clip_id=np.array([b"a\xff", b"b"])),
    "several files for one clip: a-b-c": lambda f: npy(
        f, "a/b-c.npy", "a-b/c.npy", "z/c.npy"
    ),
    "expected files of one format that end with .parquet, .npy, .pth": lambda f: npy(f),
    "leads out of its folder": lambda f: FolderFiles(f).read("../x/store.json", 10),
    "this address cannot be read": lambda _: object_store("https://"),
    "the ids and reasons of the rows are too long": long_reasons,
    "clip is uint8, which has no NaN": levels_without_nan,
    "another length or checksum after it was sent": changed_in_the_bucket,
    "files cannot be sent to a commit": lambda _: HubTarget(
        f"hf://lab/films@{'ab' * 20}"
    ),
    "clip-b16 never compares its array 'frames' with text": lambda _: space_of_array(
        of_backbone(family="clip", levels={"frames": "tokens"}), "frames"
    ),
}


MAPS: dict[str, Case] = {
    "no clip with a box has maps": lambda f: shares_in_boxes(
        open_store(f / "stores" / "maps"), f / "boxes.csv"
    ),
    "no pair of clips is left to compare": lambda f: compare_conditions(
        f / "stores" / "maps", f / "pairs.csv"
    ),
    "the recipe of this store is unknown": lambda f: exact_pictures(
        Workspace(f), open_store(f / "stores" / "clips"), "x"
    ),
    "does not name a grid of spatial tokens": lambda f: concept_maps.write_concept_maps(
        f / "new", "clips", "made-up", workspace=f
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_it_is_refused_in_these_words(words: str, tmp_path: Path) -> None:
    with pytest.raises(ObygazeError) as found:
        REFUSED[words](tmp_path)
    assert words in "\n".join([str(found.value), *found.value.details])


@pytest.mark.parametrize("words", MAPS)
def test_maps_of_nothing_are_refused(words: str, maps: Path) -> None:
    with pytest.raises(ObygazeError) as found:
        MAPS[words](maps)
    assert words in str(found.value)


def test_a_sheet_is_of_a_clip_of_the_manifest(maps: Path) -> None:
    recipe = a_recipe(
        backbone={"name": "clip-b16", "card_sha256": "ab" * 32},
        preprocessing={"edge": 224},
    )
    values = {"clip": np.ones((1, 2), "f4")}
    store = made_store(maps / "stores" / "seen", some_rows(1), values, recipe=recipe)
    with pytest.raises(Mismatch, match="the manifest has no clip 'x'"):
        exact_pictures(Workspace(maps), store, "x")


@pytest.mark.parametrize(
    ("width", "words"),
    [(3, "clip is not as wide as a token"), (2, "no direction could be found")],
)
def test_no_map_is_made_of_other_features_or_of_none(
    width: int, words: str, tmp_path: Path
) -> None:
    manifest = films(2, 40)
    values: dict[str, Any] = {"clip": np.zeros((80, 2), "f4")}
    values["tokens"] = np.zeros((80, 1, 1, width), "f4")
    backbone = {
        "name": "toy",
        "card_sha256": "ab" * 32,
        "geometry": {"grid": [1, 1, 1]},
    }
    rows = [Row(clip.clip_id, clip.movie_id) for clip in manifest]
    store = made_store(tmp_path / "a", rows, values, recipe=a_recipe(backbone=backbone))
    with pytest.raises(FixInput, match=words):
        concept_maps.write_concept_maps(tmp_path / "maps", store, manifest)


def test_a_file_of_the_hub_that_was_changed_is_not_read(tmp_path: Path) -> None:
    blob = text(tmp_path / ("ab" * 20), b'{"hidden_size": 8}')
    (tmp_path / "config.json").symlink_to(blob)
    files = weight_files.WeightFiles(tmp_path, (), "here")
    with pytest.raises(Corrupt, match=r"the checksum of config\.json is not the hub's"):
        files.json_file("config.json")


def test_a_tokenizer_of_another_checkpoint_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card = find_card("clip-b16")
    files = {"configuration": {"text_config": {}}, "tokenizer_sha256": "ab" * 32}
    found = SimpleNamespace(origin="here", **files)
    model: Any = SimpleNamespace(config=SimpleNamespace(vocab_size=2))
    model.eval = lambda: model
    model.requires_grad_ = lambda _: model
    for name, value in (
        ("find_weights", found),
        ("supported", None),
        ("load_strictly", (model, {"tensors": "cd" * 32})),
        ("_tokenizer", ["a", "b", "c"]),
    ):
        monkeypatch.setattr(text_towers, name, lambda *_, given=value, **__: given)
    for name in ("card_of_weights", "model"):
        monkeypatch.setattr(type(card.family), name, lambda *_: None)
    with pytest.raises(FixInput, match="the tokenizer has 3 tokens, the tower 2"):
        text_towers.load_text_tower(card)


def test_a_parquet_table_of_too_many_cells_is_not_read(tmp_path: Path) -> None:
    # Its library takes a second to import.
    facts = SimpleNamespace(
        num_rows=10**9, num_columns=2, num_row_groups=0, row_group=None
    )
    with pytest.raises(Corrupt, match="the table has 2,000,000,000 cells of"):
        parquet_tables._refuse_large(facts, text(tmp_path / "t.parquet", ""))


def test_a_server_without_keys_or_one_that_refuses_is_explained() -> None:
    error = explained(
        OSError("error sending request to http://169.254.169.254/"), "s3://a"
    )
    assert isinstance(error, FixInput) and "no keys for this bucket" in str(error)
    package = SimpleNamespace(
        errors=SimpleNamespace(HFValidationError=KeyError, HfHubHTTPError=OSError)
    )
    reason = OSError("too many files")
    reason.response = SimpleNamespace(status_code=403)  # type: ignore[attr-defined]
    rejected = pytest.raises(FixInput, match="the hub denied access")
    with rejected, hub_errors(package, "hf://lab/films"):
        raise reason


def test_a_push_that_is_cut_off_says_that_nobody_reads_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed_store(tmp_path / "a", 2)

    def put(*_: Any) -> None:
        raise Unreachable("the connection failed")

    monkeypatch.setattr(FolderTarget, "put", put)
    with pytest.raises(Stopped, match="nobody can read a store at the target"):
        push(tmp_path / "a", tmp_path / "b")


def test_a_store_of_a_server_is_pulled_before_it_is_sent(tmp_path: Path) -> None:
    sealed_store(tmp_path / "a", 2)
    there: Any = open_store(tmp_path / "a")
    place = {"location": "https://lab/a", "address": "https://lab/a"}
    there.files = SimpleNamespace(**place)
    with pytest.raises(FixUsage, match="only a store in a folder of this machine"):
        push(there, tmp_path / "b")


def test_a_table_without_rows_is_no_store(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"clip_id": ["a"], "clip": [[1.0, 2.0]]})
    parquet.write_table(table[:0], tmp_path / "a.parquet")
    with pytest.raises(FixInput, match="no rows, or several columns of one name"):
        import_features(tmp_path / "a.parquet", tmp_path / "new", workspace=tmp_path)


def test_a_workbook_that_is_too_large_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbooks, "MAX_FILE", 2)
    with pytest.raises(Corrupt, match="the file has 3 B, expected at most 2 B"):
        read_table(text(tmp_path / "t.xlsx", "abc"), required=())


def test_words_are_not_compared_as_numbers() -> None:
    manifest = classes("high")
    with pytest.raises(FixInput, match="expected numbers in the column valence_class"):
        manifest.where("valence_class > 1")


def test_captions_of_another_encoding_are_not_counted(tmp_path: Path) -> None:
    text(tmp_path / "captions" / "dog_man_a_1.txt", b"a man \xff\n")
    with pytest.raises(FixInput, match="not UTF-8"):
        audit_captions(tmp_path / "captions")
