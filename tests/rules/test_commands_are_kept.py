"""A manifest keeps the commands that made and changed it: typed anew, they make an equal one.

Each case is commands, or calls from Python, in folders of all kinds; then the manifests are put
away, the lines of `manifest show NAME --command` are typed in the workspace, beside the same files,
and the bytes of the manifest are compared.
"""

import contextlib
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.cli import call_obygaze
from support.videos import write_video
from support.workbooks import write_workbook

import obygaze as og
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Header, Manifest

CLIPS = (
    "clip_id,movie_id,start_s,end_s,level,concepts,mood,age\n"
    "lake-1,lake,0,1,S,Look,calm,1.5\n"
    "lake-2,lake,1,2,EN,,tense,2\n"
    "pier-1,pier,0,1,HN,Look|Body,calm,3\n"
    "pier-2,pier,1,2,EN,,?,4\n"
)
OTHERS = CLIPS.replace("lake", "sea").replace("pier", "wood")
CODERS = "id;film;Ada;Ben;n\nlake 1;lake;oui;non;1\nlake 2;lake;non;non;2\npier 1;pier;EN;EN;1\n"
SECOND = CLIPS.replace("calm", "tense")
MOBYGAZE = (
    ";clip_index;movie_id;annotator;label;concepts;comment;start_frame;end_frame;imdb_key;"
    "movie_title;framerate;subtitle;start_clip;end_clip\n"
    "0;id_0;48;annotator1;Sure;['Speech'];[];0;47;tt01;A;24.0;;0;0\n"
    "1;id_1;48;annotator1;Easy Negative;[];[];48;71;tt01;A;24.0;;0;0\n"
    "2;id_0;48;annotator2;Easy Negative;[];[];0;99;tt01;A;24.0;;0;0\n"
)
MARKS = (
    "movie_id,start_s,end_s,column,value,annotator\n"
    "lake,0.0,1.0,level,S,ada\nlake,0.0,2.0,watched,watched,ada\n"
    "lake,0.0,1.5,mood,calm,ben\nlake,0.0,2.0,watched,watched,ben\n"
)
MORE = "clip_id,weather\nlake-1,rain\nlake-2,sun\npier-1,sun\npier-2,rain\n"
GROUPS = '[groups]\nseen = ["Look", "Body"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with tables and films beside a workspace `here`, and in it."""
    here = tmp_path / "here"
    (here / "my tables").mkdir(parents=True)
    (here / "segments").mkdir()
    (tmp_path / "beside").mkdir()
    texts = {
        **{"here/clips.csv": CLIPS, "here/my tables/it's.csv": CLIPS},
        **{"here/others.csv": OTHERS, "here/coders.csv": CODERS},
        **{"here/second.csv": SECOND, "here/more.csv": MORE},
        **{"here/groups.toml": GROUPS, "here/segments/coded.csv": MARKS},
        **{"here/-odd.csv": CLIPS, "beside/clips.csv": CLIPS},
        **{"beside/moby.csv": MOBYGAZE},
        "here/nofilm.csv": "clip_id,mood\na,calm\nb,tense\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    cells = [["Clip", "Film", "Level"], ["l 1", "lake", "S"], ["l 2", "lake", "EN"]]
    write_workbook(here / "book.xlsx", {"Notes": [["a note"]], "Anna's": cells})
    films = tmp_path / "films"
    films.mkdir()
    for film in ("lake", "pier"):
        write_video(films / f"{film}.mp4", numbers=range(50), size=(64, 48))
    return tmp_path


IMPORTS = {
    "a table": ["manifest import clips.csv"],
    "another name": ["manifest import 'my tables/it'\"'\"'s.csv' -o films"],
    "a name like an option": ["manifest import ./-odd.csv -o odd"],
    "beside the workspace": ["manifest import ../beside/clips.csv -o films"],
    "options of a table": [
        "manifest import coders.csv -o films --map clip_id=id --map movie_id=film"
        " --map coder:ada=Ada --map coder:ben=Ben --rule agreed --word oui=S --word non=EN"
    ],
    "an order": [
        "manifest import clips.csv second.csv -o films --rule highest"
        " --order mood=calm,tense"
    ],
    "a form": [
        "manifest import coders.csv -o films --id '{film}-{n:03d}' --map movie_id=film"
        " --map level=Ada --map comment=Ben --word oui=S --word non=EN"
    ],
    "a sheet": [
        'manifest import book.xlsx -o films --sheet "Anna\'s" --map clip_id=Clip'
        " --map movie_id=Film --map level=Level"
    ],
    "without films": ["manifest import nofilm.csv --films none"],
    "a folder": ["manifest import ../films"],
    "a data set": ["manifest import ../beside/moby.csv --as mobygaze"],
    "linked, joined and in folds": [
        "manifest import clips.csv",
        "manifest link clips ../films",
        "manifest join clips more.csv",
        "manifest join clips more.csv --force --map weather=weather",
        "manifest folds clips -k 2",
        "manifest folds clips -k 2 --force",
    ],
    "merged": [
        "manifest import clips.csv",
        "manifest import others.csv -o sea",
        "manifest join clips more.csv",
        "manifest merge clips sea -o both",
        "manifest join both my-own.csv",
    ],
    "other labels": [
        "manifest import clips.csv second.csv -o both --rule agreed",
        "manifest labels both --rule highest --order mood=calm,tense -o highest",
        "manifest labels both --rule by:second -o by-second",
    ],
    "groups": [
        "manifest import clips.csv",
        "manifest group clips -o named",
        "manifest group clips -o own --groups groups.toml",
    ],
    "a sample": [
        "manifest import clips.csv",
        "manifest sample clips -n 2 -o drawn",
        "manifest sample clips -n 3 --seed 4 -o again",
    ],
    "windows": [
        "manifest windows ../films -o cut --seconds 1",
        "manifest import clips.csv",
        "manifest link clips ../films",
        "manifest windows clips -o of-clips --window 16 --stride 8",
    ],
    "labels of marks": [
        "manifest import clips.csv",
        "marks clips coded --clips clips -o labels --rule by:ada",
        "marks clips segments/coded.csv --clips clips.csv -o of-file",
        "marks clips coded --every 0.5 --threshold 1/3 --order mood=calm,tense -o cut",
    ],
}


def commands_of(here: Path, name: str) -> list[str]:
    done = call_obygaze("manifest", "show", name, "--command", cwd=here).ok()
    assert "type these lines in the workspace" in done.stderr
    return done.stdout.splitlines()


def check_typed_anew(here: Path) -> None:
    """Type the commands of each manifest where there is none, and compare all its files."""
    made = here / "manifests"
    before = here / "before"
    made.rename(before)
    names = [path.stem for path in before.glob("*.toml")]
    assert names
    for name in names:
        shutil.copytree(before, made)
        lines = commands_of(here, name)
        shutil.rmtree(made)
        for line in lines:
            assert line.startswith(("obygaze manifest ", "obygaze marks "))
            typed(line, here)
        files = sorted(before.glob(f"{name}.*"))
        assert files
        for file in files:
            assert (made / file.name).read_bytes() == file.read_bytes(), file.name
        shutil.rmtree(made)
    before.rename(made)


def typed(line: str, here: Path) -> None:
    call_obygaze(*shlex.split(line)[1:], cwd=here).ok()


@pytest.mark.parametrize("case", IMPORTS)
def test_the_commands_of_a_manifest_make_an_equal_one(folder: Path, case: str) -> None:
    here = folder / "here"
    (here / "my-own.csv").write_text("clip_id,x\nlake-1,1\nsea-1,2\n")
    for line in IMPORTS[case]:
        typed(f"obygaze {line}", here)
    check_typed_anew(here)


def test_the_folder_in_which_a_command_was_typed_makes_no_difference(folder) -> None:
    """Its paths are those from the workspace."""
    here = folder / "here"
    for words, cwd in (
        (("-C", "here", "manifest", "import", "beside/clips.csv"), folder),
        (("-C", here, "manifest", "link", "clips", "films"), folder),
        (
            ("-C", "../here", "manifest", "join", "clips", "../here/more.csv"),
            folder / "films",
        ),
    ):
        call_obygaze(*words, cwd=cwd).ok()
    assert commands_of(here, "clips") == [
        "obygaze manifest import ../beside/clips.csv -o clips",
        "obygaze manifest link clips ../films",
        "obygaze manifest join clips more.csv",
    ]
    check_typed_anew(here)


def in_python(here: Path) -> None:
    coders = {
        "clip_id": "id",
        "movie_id": "film",
        "coder:ada": "Ada",
        "coder:ben": "Ben",
    }
    table = here / "coders.csv"
    og.manifest.import_(
        table,
        "films",
        columns=coders,
        rule="majority",
        words={"oui": "S", "non": "?"},
        workspace=here,
    )
    og.manifest.import_([here / "others.csv"], "sea", workspace=here)
    films = og.read_manifest("films", workspace=here)
    og.manifest.merge([here / "manifests/sea.toml", films], "both", workspace=here)
    og.manifest.labels("films", "by-ada", rule="by:ada", workspace=here)
    og.manifest.join("both", str(here / "my-own.csv"), workspace=here)


def in_the_folder(here: Path) -> None:
    with contextlib.chdir(here):
        made: Any = og.manifest.import_("clips.csv", words={"HN": "?"})
        og.manifest.link(made.manifest.name, "../films")
        og.marks.clips(Path("segments/coded.csv"), "cut", every=0.5, threshold=0.25)
        og.manifest.sample("clips", 2, "drawn", seed=3)


@pytest.mark.parametrize("calls", [in_python, in_the_folder])
def test_what_python_makes_has_the_commands_too(
    folder: Path, calls: Callable[[Path], None]
) -> None:
    here = folder / "here"
    (here / "my-own.csv").write_text("clip_id,x\nlake_1,1\nsea-1,2\n")
    calls(here)
    check_typed_anew(here)


def test_what_no_command_did_is_said(folder: Path) -> None:
    """A table that a person edits, a header, and a manifest that Python writes."""
    here = folder / "here"
    typed("obygaze manifest import clips.csv", here)
    table = here / "manifests/clips.csv"
    table.write_text(table.read_text().replace("calm", "still"))
    made = "obygaze manifest import clips.csv -o clips"
    by_hand = "# clips was then changed by hand"
    assert commands_of(here, "clips") == [made, by_hand]
    typed("obygaze manifest folds clips -k 2", here)
    folds = "obygaze manifest folds clips -k 2"
    assert commands_of(here, "clips") == [made, by_hand, folds]
    toml = here / "manifests/clips.toml"
    text = toml.read_text().replace("\ncommands", '\nlicence = "CC0-1.0"\ncommands', 1)
    toml.write_text(text)
    assert commands_of(here, "clips") == [made, by_hand, folds, by_hand]
    films = og.read_manifest("clips", workspace=here)
    header = Header("mine", films.header.concepts)
    plain = Manifest("plain", header, films.clips, films.columns)
    write_manifest(plain, here / "manifests/plain.toml")
    assert commands_of(here, "plain") == ["# plain was written without a command"]
    shown = call_obygaze("manifest", "show", "clips", "--json", cwd=here).ok()
    assert shown.json()["commands"] == [made, by_hand, folds, by_hand]
