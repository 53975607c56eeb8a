"""Names that nobody thought of: each works and comes back unchanged, or there is one clean error.

Nothing that was there is overwritten, and a name that is not a path is written nowhere but in its
folder of the workspace.
"""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.cli import Result, call_obygaze
from support.experiments import films, planted, write_workspace
from support.seeds import SEED, amount
from support.stores import made_store

from obygaze_features.core.errors import ObygazeError
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.spelling import Spelling
from obygaze_features.store import Row

ODD = [
    *("", " ", ".", "..", "...", ".x", "x.", "-", "-x", "--force", "~", "*", "?", "%s"),
    *("a b", " a", "a ", "a\tb", "a\nb", "a\rb", "a\0b", "\x1b[2J", "\u202ex"),
    "\u2028",
    *("é", "e\u0301", "ß", "SS", "名前", "Ж", "١", "🎬", "\ud800", "\udcff", "\ufeffx"),
    *("CON", "nul", "aux.toml", "com1.csv", "x:y", "C:", "a|b", "<b>", '"', "'", "=1"),
    *("a[1]", "{x}", "$(x)", "`x`", "#x", "x#sha256=0", "a,b", "a;b", "a&b", "\\"),
    "a\\b",
    *("..\\x", "x.toml", "x.csv", "x.zip", ".toml", ".zip", "x.h5", "store.json"),
    *("made-up", "made-up ", "MADE-UP", "sig", "made-up.v2", "honest", "clip", "true"),
    *(
        "x" * 120,
        "x" * 255,
        "x" * 300,
        "é" * 130,
        "x" * 5000,
        "1",
        "1e5",
        "None",
        "nan",
    ),
    *("a/b", "a//b", "a/", "./a", "a/../b", "manifests", "manifests/made-up"),
    "a/b.toml",
]
# Names that were once written into another folder, or made and not found again.
FOUND = [
    *(("store", name) for name in ("a\\b", "x#sha256=0", "x" * 255, "a/../b")),
    *(("manifest", name) for name in ("a\\b", "..\\x")),
    *(("run", name) for name in ("", "a\\b", "x" * 255)),
]
NAMES = st.one_of(st.sampled_from(ODD), st.text(max_size=12))
# The command, the kind of what it makes, and the command that reads it.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "manifest": ("manifest import one.csv", "manifests", "manifest show"),
    "store": ("store import x.npz", "stores", "store info"),
    "subset": ("store subset sig --film tt0000001", "stores", "store info"),
    "run": ("run baselines.toml --manifest made-up", "runs", ""),
    "model": ("train ridge --store sig --manifest made-up", "models", "models show"),
}
FEW = {"manifest": 12, "store": 6, "subset": 4, "run": 3, "model": 1}


def tried(n: int) -> settings:
    """The settings of hypothesis for so many names."""
    return settings(
        max_examples=amount(n, 100),
        deadline=None,
        derandomize=SEED == 0,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in a folder of other files."""
    root = tmp_path_factory.mktemp("names") / "ws"
    root.mkdir()
    (root.parent / "outside.txt").write_text("outside")
    manifest = films(3, 8)
    write_workspace(root, manifest, planted(manifest, width=20))
    (root / "one.csv").write_text("clip_id,movie_id\na,a\n")
    np.savez(root / "x.npz", clip_id=np.array(["a", "b"]), clip=np.ones((2, 3)))
    protocol = 'schema = "obygaze-protocol/1"\n[tasks.t.classes]\nEN = 0\nS = 1\n'
    protocol += '[grid]\nbaselines = ["prevalence"]\n[report]\nreplicates = 2\n'
    (root / "baselines.toml").write_text(protocol)
    return root


def state_of(root: Path) -> dict[str, bytes]:
    """Every file under a folder with its bytes, and every folder."""
    found = {}
    for path in sorted(root.rglob("*")):
        found[str(path)] = path.read_bytes() if path.is_file() else b""
    return found


def finding(said: Result) -> str:
    """What is wrong with an answer, or an empty text."""
    text = said.stdout + said.stderr
    if "a bug in obygaze" in text or "Traceback" in text:
        return "a bug: " + said.stderr[-300:]
    errors = [line for line in said.stderr.splitlines() if line.startswith("Error: ")]
    if said.code and len(errors) != 1:
        return f"exit {said.code} with {len(errors)} errors: {said.stderr[:300]}"
    if said.code == 0 and errors:
        return f"exit 0 with an error: {said.stderr[:300]}"
    return ""


def wrong_with(place: Path, command: str, name: str) -> str:
    """What is wrong after a command made something of a name; what it made is removed."""
    words, kind, reader = COMMANDS[command]
    root = place.parent
    before = state_of(root)
    said = call_obygaze(*words.split(), "-o", name, cwd=place)
    after = state_of(root)
    try:
        wrong = finding(said)
        if wrong:
            return wrong
        changed = [path for path, data in before.items() if after.get(path) != data]
        if changed:
            return f"changed {changed}"
        made = sorted(after.keys() - before.keys())
        if said.code:
            # Folders of the workspace may be made, but no file.
            files = [path for path in made if Path(path).is_file()]
            return f"refused, but wrote {files}" if files else ""
        is_path = "/" in name or name.endswith((".toml", ".csv", ".zip"))
        # A model is saved beside the run that evaluated it.
        kinds = ("models", "runs") if kind == "models" else (kind,)
        inside = tuple(str(place / own) for own in kinds)
        astray = [path for path in made if not path.startswith(inside)]
        if astray and not is_path:
            return f"wrote {astray}"
        if reader:
            # A model is in the workspace; runs/NAME of the workspace is the same as NAME.
            shown = Path(name).name if kind == "models" else name
            again = call_obygaze(*reader.split(), "--", shown, cwd=place)
            if finding(again) or again.code:
                return f"not found again: {again.stderr[:300]}"
        once_more = call_obygaze(*words.split(), "-o", name, cwd=place)
        if finding(once_more):
            return finding(once_more)
        if made and state_of(root).keys() != after.keys():
            return "the same command again wrote other files"
        return ""
    finally:
        for path in sorted(state_of(root).keys() - before.keys(), reverse=True):
            file = Path(path)
            if file.is_dir():
                shutil.rmtree(file, ignore_errors=True)
            else:
                file.unlink(missing_ok=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_on_the_command_line_works_or_is_refused_with_one_error(place, command):
    @tried(FEW[command])
    @given(name=NAMES)
    def check(name: str) -> None:
        # A path that leads out of the folder is where somebody asked for it.
        has_null = "\0" in name  # no path, so that resolve() refuses it
        is_path = "/" in name and not has_null
        if is_path and not (place / name).resolve().is_relative_to(place):
            return
        assert wrong_with(place, command, name) == ""

    check()


FIELDS = ("clip_id", "movie_id", "level", "concept", "column", "fold", "video", "cell")


@tried(60)
@given(name=NAMES, field=st.sampled_from(FIELDS))
def test_a_name_in_a_manifest_comes_back_unchanged_or_is_refused(name, field) -> None:
    ids = {"clip_id": "a", "movie_id": "m", "level": "S", "video": "v.mp4"}
    ids |= {field: name} if field in ids else {}
    concepts = {"Look": "visual"}
    shown: tuple[str, ...] = ("Look",)
    if field == "concept":
        concepts, shown = {**concepts, name: "unknown"}, (name,)
    columns = {"column": name, "fold": f"fold:{name}"}
    column = columns.get(field, "remark")
    cell = name if field == "cell" else "1"
    clip = Clip(
        ids["clip_id"],
        ids["movie_id"],
        video=ids["video"],
        level=ids["level"],
        concepts=shown,
        extra={column: cell},
    )
    manifest = Manifest("x", Header("x", concepts), (clip,), (column,))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in" / "x.toml"
        path.parent.mkdir()
        try:
            write_manifest(manifest, path)
        except ObygazeError as error:
            assert error.message
            assert list(Path(folder).rglob("*")) == [path.parent]
            return
        # A word has one spelling where a manifest is read.
        spelled = replace(clip, extra={column: Spelling().cell(cell, column)})
        assert read_manifest(path) == replace(manifest, clips=(spelled,))
        files = {file.name for file in path.parent.iterdir()}
        assert files == {"x.toml", "x.csv"}


@tried(8)
@given(name=NAMES, field=st.sampled_from(["clip_id", "movie_id", "array"]))
def test_a_name_in_a_store_comes_back_unchanged_or_is_refused(name, field) -> None:
    names = {"clip_id": "a", "movie_id": "m", "array": "clip"} | {field: name}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in" / "s"
        path.parent.mkdir()
        try:
            values = np.arange(6, dtype=np.float32).reshape(2, 3)
            rows = [Row(names["clip_id"], names["movie_id"]), Row("other", "other")]
            store = made_store(path, rows, {names["array"]: values})
        except ObygazeError as error:
            assert error.message
            files = [file for file in Path(folder).rglob("*") if file.is_file()]
            assert files == []
            return
        assert list(store.clip_ids) == [names["clip_id"], "other"]
        assert list(store.movie_ids) == [names["movie_id"], "other"]
        assert np.array_equal(store[names["array"]].values, values)
        inside = [file for file in Path(folder).rglob("*") if file.is_file()]
        assert all(file.is_relative_to(path) for file in inside)


@pytest.mark.parametrize(("command", "name"), FOUND)
def test_names_that_went_astray_once_are_refused_and_nothing_is_written(
    place, command, name
):
    before = state_of(place.parent)
    said = call_obygaze(*COMMANDS[command][0].split(), "-o", name, cwd=place)
    assert said.code == 2
    assert finding(said) == ""
    after = state_of(place.parent)
    assert [path for path in after if Path(path).is_file() and path not in before] == []
