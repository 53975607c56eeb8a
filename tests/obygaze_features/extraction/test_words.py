import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.checkpoints import write_tiny_card
from support.cli import ROOT, call_obygaze
from support.pages import blocks
from support.subtitled import write_subtitled
from support.words import real_encoder, save_encoder, save_text_model, words_card

from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.text import TextTower, load_text_tower
from obygaze_features.core.console import Quiet
from obygaze_features.core.cues import read_cues, spoken
from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, ObygazeError
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.compute import clip_threads
from obygaze_features.extraction.extracting import extract
from obygaze_features.extraction.search import search
from obygaze_features.extraction.words import extract_words
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import open_store
from obygaze_features.store.changing import merge
from obygaze_features.store.records import Origin

SRT = "1\n00:00:01,000 --> 00:00:02,000\n{}\n"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Two films of two clips each, and the card of the tiny encoder."""
    clips = [
        Clip(f"{film}-{number}", film, start_s=5.0 * number, end_s=5.0 * number + 5)
        for film in ("lake", "pier")
        for number in range(2)
    ]
    films = Manifest("films", Header("Films", licence="CC0-1.0"), tuple(clips))
    write_manifest(films, tmp_path / "manifests" / "films.toml")
    (tmp_path / "backbones").mkdir()
    (tmp_path / "backbones" / "tiny.toml").write_text(words_card())
    (tmp_path / "said").mkdir()
    return tmp_path


def say(workspace: Path, **texts: str) -> str:
    """Write a file of subtitles for each film, with one cue in its first clip."""
    for film, text in texts.items():
        (workspace / "said" / f"{film}.srt").write_text(SRT.format(text))
    return str(workspace / "said")


def sha256(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).hexdigest().encode()


def embed_long(tower: TextTower, texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors of texts as a store has them."""
    with clip_threads(2) as threads:
        return tower.embed_long(texts, Quiet(), threads)


@pytest.mark.parametrize("kind", ["folder", "texts"])
def test_no_word_of_the_input_is_in_any_file_of_the_store(workspace, encoder, kind):
    words = ["zanzibar", "quixotic", "wolframite"]
    text = " ".join(words)
    subtitles = say(workspace, lake=text, pier=text)
    if kind == "texts":
        subtitles = str(workspace / "texts.csv")
        table = f"clip_id,text\nlake-0,{text}\nlake-1,\n"
        Path(subtitles).write_text(table, "utf-8")
    made = extract_words(
        "films", "tiny", subtitles, weights=encoder, workspace=workspace
    )
    assert str(made).endswith("], n_words")
    store = open_store("films.tiny", workspace=workspace)
    numbers = store.matrix("n_words", missing="drop").values
    assert numbers.tolist()[:2] == [3, 0]
    paths = [path for path in Path(store.location).rglob("*") if path.is_file()]
    for path in paths:
        data = path.read_bytes().lower()
        for word in words:
            assert word.encode() not in data, path
            assert word.encode("utf-16-le") not in data, path
    assert len(paths) > 8


def test_subtitles_that_were_read_are_named_but_not_in_the_recipe(workspace, encoder):
    """Other words of a clip are other numbers; which of them count, nobody knows."""
    stores = []
    given = {"weights": encoder, "workspace": workspace}
    for name, text in (("first", "a happy man"), ("changed", "a happy dog")):
        said = say(workspace, lake=text)
        extract_words("films", "tiny", said, out=name, **given)
        store = open_store(name, workspace=workspace)
        file = b"lake.srt\0" + sha256(Path(said, "lake.srt")) + b"\n"
        digest = hashlib.sha256(file).hexdigest()
        assert store.record.origins == (Origin("said", digest),)
        stores.append(store)
    assert stores[0].fingerprint == stores[1].fingerprint
    both_have = "of this store are also in .*, as the same clips: lake-0"
    with pytest.raises(Mismatch, match=both_have):
        merge(stores, "mixed", workspace=workspace)


def test_a_clip_behind_the_end_of_its_film_has_no_words(workspace, encoder) -> None:
    """As its pictures and its sound; one that ends a little after the film has those before."""
    spans = {"in": (10, 15.5), "across": (14, 19), "behind": (20, 25)}
    clips = []
    for name, (start_s, end_s) in (spans | {"near": (15.6, 16)}).items():
        clips.append(Clip(name, "lake", start_s=start_s, end_s=end_s))
    films = Manifest("late", Header("Films"), tuple(clips))
    write_manifest(films, workspace / "manifests" / "late.toml")
    video = workspace / "videos" / "lake.mkv"
    write_subtitled(video, [], [])
    (workspace / "said" / "lake.srt").write_text(
        "1\n00:00:14,000 --> 00:00:14,500\na man\n"
    )
    call_obygaze("-C", workspace, "manifest", "link", "late", video.parent)
    given = {"weights": encoder, "workspace": workspace}
    made = extract_words("late", "tiny", workspace / "said", **given)
    end = r"ends at {} s, the film at 15\.\d\d s"
    assert re.fullmatch(f"too-long: the part {end.format(19)}", made.failed["across"])
    assert re.fullmatch(f"too-long: the part {end.format(25)}", made.failed["behind"])
    begin = r"outside: the part begins at 15\.6 s, the film ends at 15\.\d\d s"
    assert re.fullmatch(begin, made.failed["near"])
    assert sorted(made.failed) == ["across", "behind", "near"]


@pytest.mark.parametrize("name, codec", [("mkv", "ass"), ("mp4", "mov_text")])
def test_the_guide_writes_the_subtitles_inside_a_film(name, codec, workspace) -> None:
    """The film begins late in its file, and a drawing is not said."""
    page = blocks(ROOT / "docs" / "guide" / "extraction.md")
    (code,) = [block.text for block in page if "def write_srt" in block.text]
    functions, _, call = code.rpartition("\n\n")
    assert call.strip().startswith("write_srt(")
    names: dict[str, Any] = {}
    exec(functions, names)
    said = [(1.0, 2.5, "Hello {\\i1}big{\\i0} world\\Nagain, you"), (6.25, 7.0, "bye")]
    if codec == "ass":
        said.append((7.5, 8.0, "{\\p1}m 0 0 l 100 0{\\p0}"))
    film = write_subtitled(workspace / f"lake.{name}", [codec], said, late_s=3)
    names["write_srt"](str(film), workspace / "said" / "lake.srt")
    cues = read_cues(workspace / "said" / "lake.srt")
    read = [(float(cue.start_s), float(cue.end_s), spoken(cue.text)) for cue in cues]
    assert read == [(1.0, 2.5, "Hello big world again, you"), (6.25, 7.0, "bye")]


def test_a_long_text_is_the_mean_of_its_pieces_by_their_tokens(workspace, encoder):
    card = find_card("tiny", Workspace.of(workspace))
    tower = load_text_tower(card, encoder, workspace=workspace)
    long = "the happy man riding the sad dog on a"
    (vector,) = embed_long(tower, [long])
    halves = ["the happy man riding", "the sad dog on a"]
    four, five = tower.embed(halves).astype(np.float64)
    np.testing.assert_allclose(vector, (4 * four + 5 * five) / 9, atol=1e-6)
    (truncated,) = tower.embed(["the happy man riding the sad"])
    assert np.abs(vector - truncated).max() > 1e-2
    with pytest.raises(FixInput, match="at most 8 tokens for the text model, got 11"):
        tower.embed([long])
    # Without blanks there is no place but between letters.
    (joined,) = embed_long(tower, ["a" * 1 + "!" * 20])
    assert np.isfinite(joined).all()


GERMAN = (
    "Wo warst du gestern Abend? Ich habe dich überall gesucht. Wir müssen reden, und zwar"
    " sofort. Das ist nicht so einfach, wie du denkst. In der Stadt war es still."
)
AMERICAN = (
    "Where were you last night? I looked for you everywhere. We have to talk, right now."
    " It's not as simple as you think. He told me that she doesn't want the money."
)


@pytest.mark.parametrize(
    "text, language, is_said",
    [(GERMAN, "English", True), (AMERICAN, "English", False), (GERMAN, "", False)],
)
def test_subtitles_in_a_language_that_the_model_does_not_read_are_said(
    text: str, language: str, is_said: bool, workspace: Path, encoder: Path
) -> None:
    card = words_card().replace("[tokens]", f'language = "{language}"\n[tokens]')
    (workspace / "backbones" / "tiny.toml").write_text(card)
    subtitles = say(workspace, lake=f"{text} " * 4)
    given = {"weights": encoder, "workspace": workspace}
    made = extract_words("films", "tiny", subtitles, **given)
    said = "reads English only, and the subtitles seem to be in a different language"
    assert any(f"tiny {said}" in warning for warning in made.warnings) == is_said


@pytest.fixture(scope="module")
def minilm() -> TextTower:
    real_encoder()
    return load_text_tower("minilm")


def test_the_real_vectors_are_those_of_sentence_transformers(minilm: TextTower) -> None:
    package = pytest.importorskip("sentence_transformers")
    texts = ["Is it tea?", "", "Où êtes-vous? " * 9, "a b c " * 40, "日本語"]
    model = package.SentenceTransformer(str(real_encoder()), device="cpu")
    expected = model.encode(texts)
    together = embed_long(minilm, texts)
    np.testing.assert_allclose(together, expected, atol=1e-6)
    # To the bit: a clip that is in two stores must have the same numbers in both.
    for some in (texts[:1], texts[::-1], [*texts[2:], *20 * ["Oh no."]]):
        for text, vector in zip(some, embed_long(minilm, some), strict=True):
            if text in texts:
                np.testing.assert_array_equal(vector, together[texts.index(text)])
    alone = [embed_long(minilm, [text])[0] for text in texts]
    np.testing.assert_array_equal(alone, together)
    assert minilm.verified
    assert minilm.max_length == model.max_seq_length


def test_bad_input_is_one_error_and_nothing_is_made(workspace, encoder) -> None:
    said = workspace / "said"
    # This ending is no language: the file may be half of a film.
    (said / "lake.cd2.srt").write_text(SRT.format("dog"))

    given = {"weights": encoder, "workspace": workspace}

    def refused(subtitles: Path | str, what: str) -> ObygazeError:
        with pytest.raises(ObygazeError, match=what) as caught:
            extract_words("films", "tiny", subtitles, **given)
        assert not (workspace / "stores" / "films.tiny").exists()
        return caught.value

    nothing = "no film of the manifest has subtitles"
    refused(said, f"{nothing}: expected .*, got lake.cd2.srt")
    (said / "lake.srt").write_text(SRT.format("a"))
    (said / "lake.de.vtt").write_text("WEBVTT\n\n00:01.000 --> 00:02.000\na\n")
    refused(said, "two subtitle files for the film lake")
    (said / "lake.de.vtt").unlink()
    late = "1\n00:01:00,000 --> 00:01:02,000\na\n"
    (said / "lake.srt").write_text(late)
    refused(said, "no clip has any words")
    write_subtitled(workspace / "videos" / "lake.mp4", [], [])
    call_obygaze("-C", workspace, "manifest", "link", "films", workspace / "videos")
    beyond = refused(said, r"begins at 60.0 s, and the film lake ends at 15.0 s")
    assert beyond.where == f"{said / 'lake.srt'}:2"
    table = workspace / "table.csv"
    table.write_text("movie_id,start_s,end_s,text\nlake,1,2,a\n")
    of_cues = refused(table, "expected the columns clip_id, text, got end_s, movie_id")
    assert "--subtitles FOLDER, with a file MOVIE_ID.srt" in of_cues.hint
    refused("embedded", "no such file or folder")
    refused(workspace / "said" / "lake.srt", "expected a folder, got a file")
    others = workspace / "others"
    others.mkdir()
    (others / "lake.ass").write_text("[Events]\n")
    converted = refused(others, r"the folder has no subtitles \(.srt, .vtt\)")
    assert "ffmpeg -i MOVIE_ID.ass MOVIE_ID.srt" in converted.hint
    rows = "lake-0,1,x,a\nlake-1,1/0,2,a\n"
    table.write_text(f"clip_id,start_s,end_s,text\n{rows}")
    refused(table, "the texts of the clips cannot be read: 2 problems")
    table.write_text("clip_id,text\nlake-0,a\nlake-0,b\n")
    unread = refused(table, "texts of the clips cannot be read")
    assert "already on line 2" in unread.details[0]
    table.write_text("clip_id,text\ngone-0,a\n")
    refused(table, "no clip of the manifest has a text: expected .*, got gone-0")
    table.write_text("clip_id,text\nlake-0,a\nlake-1,a\nLake 1,a\nLake_1,b\n")
    refused(table, "'Lake 1' and 'Lake_1' both become the clip 'Lake_1'")
    table.write_text("clip_id,text\nlake-0,\nlake-1,\n")
    refused(table, r"nothing is said in 2 clips \(the text of the clip\)")
    with pytest.raises(FixUsage, match="tiny is a model of words, not of videos"):
        extract("films", "tiny", workspace=workspace)
    (said / "lake.srt").write_text(SRT.format("a"))
    with pytest.raises(FixUsage, match="has no text model"):
        extract_words("films", "dinov2-b", said, workspace=workspace)


def test_released_texts_of_mobygaze_are_read_and_not_kept(workspace, encoder) -> None:
    table = workspace / "mobygaze.csv"
    table.write_text(
        ";clip_index;movie_id;annotator;label;concepts;comment;start_frame;end_frame;imdb_key;"
        "movie_title;framerate;subtitle;start_clip;end_clip\n"
        "0;id_0;48;annotator1;Sure;['Speech'];[];0;47;tt01;A;24.0;a sad man;0;0\n"
        "1;id_1;48;annotator1;Easy Negative;[];[];48;71;tt01;A;24.0;['a', 'dog'];0;0\n"
        "2;id_0;48;annotator2;Easy Negative;[];[];0;99;tt01;A;24.0;;0;0\n"
    )
    call_obygaze("-C", workspace, "manifest", "import", table, "--as", "mobygaze").ok()
    assert "subtitle" not in read_manifest("mobygaze", workspace=workspace).columns
    extract_words("mobygaze", "tiny", table, weights=encoder, workspace=workspace)
    store = open_store("mobygaze.tiny", workspace=workspace)
    ids = ["tt01-annotator1-0000", "tt01-annotator1-0001", "tt01-annotator2-0000"]
    assert store.matrix("n_words", clips=ids).values.tolist() == [3, 2, 0]
    lines = table.read_text().splitlines()
    table.write_text("\n".join([*lines, lines[1].replace("sad", "happy")]))
    with pytest.raises(ObygazeError, match="not the table of MObyGaze") as caught:
        extract_words("mobygaze", "tiny", table, out="twice", workspace=workspace)
    assert "tt01-annotator1-0000 has several rows" in caught.value.details[0]


def test_the_text_model_of_clip_makes_a_store_of_words_of_its_own(workspace) -> None:
    weights = save_text_model("clip", workspace / "weights")
    write_tiny_card("clip", workspace / "backbones")
    subtitles = say(workspace, lake="a happy man", pier="the sad dog riding on a bed")
    extract_words("films", "tiny-clip", subtitles, weights=weights, workspace=workspace)
    store = open_store("films.tiny-clip-words", workspace=workspace)
    tower = load_text_tower("tiny-clip", weights, workspace=Workspace.of(workspace))
    # Eight tokens are the most, of which two stand around a text.
    first, second = tower.embed(["the sad dog", "riding on a bed"]).astype(np.float64)
    expected = [tower.embed(["a happy man"])[0], (3 * first + 4 * second) / 7]
    vectors = store.matrix("clip", clips=["lake-0", "pier-0"]).values
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    given = {"weights": str(weights), "workspace": workspace}
    (hit, *_) = search(store, text="a happy man", **given)
    assert hit.clip_id == "lake-0"
    assert hit.cosine == pytest.approx(1, abs=1e-5)
    # Two words that change places are another tokenizer: no tensor says so.
    path = weights / "tokenizer.json"
    text = path.read_text("utf-8")
    path.write_text(text.replace('"man":', '"x":').replace('"dog":', '"man":'), "utf-8")
    other = "got a different tokenizer next to these weights"
    with pytest.raises(Mismatch, match=other):
        search(store, text="a happy man", **given)


def test_roberta_is_the_mean_of_its_tokens_and_has_two_positions_less(workspace):
    import torch
    from transformers import RobertaModel

    folder = workspace / "roberta"
    save_encoder(folder, "Roberta", max_position_embeddings=10, pad_token_id=0)
    model = RobertaModel.from_pretrained(folder).eval()
    card = words_card("tinier", "roberta", 64)
    (workspace / "backbones" / "tinier.toml").write_text(card)
    tower = load_text_tower("tinier", folder, workspace=Workspace.of(workspace))
    assert tower.max_length == 8
    tokenizer = tower.tokenizer
    texts = ["a sad man", "the happy dog on the bed", ""]
    for text, vector in zip(texts, tower.embed(texts), strict=True):
        with torch.inference_mode():
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state
        np.testing.assert_allclose(vector, hidden[0].mean(dim=0), atol=1e-5)
