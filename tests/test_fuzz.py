"""Changed files of every kind are read or refused; `make fuzz` reads many more of them."""

import hashlib
import json
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.fuzz import campaign
from support.fuzz_targets import all_targets
from support.run_tables import MadeCell, clips_of, made_run, scores_for, write_run_json

from obygaze_features.core.errors import Corrupt
from obygaze_features.core.files import parse_json
from obygaze_models.runner.text import read_run


@pytest.mark.check("a search")
def test_changed_inputs_are_read_or_refused(tmp_path: Path) -> None:
    n_inputs = 120
    found = campaign(all_targets(tmp_path), n_inputs, seed=13)
    assert {what: lines for what, (_, _, lines) in found.first.items()} == {}
    assert sum(found.counts.values()) == n_inputs
    read = sum(n for what, n in found.counts.items() if what.endswith(": read"))
    assert n_inputs / 20 < read < n_inputs  # neither all refused nor all unchanged


@pytest.mark.parametrize(
    "text", ['{"x": "\\ud800"}', '"\\udfffabc"', "[" * 100_000, '"\xed\xa0\x80"']
)
def test_json_that_cannot_be_written_again_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"surrogates|nested|decode"):
        parse_json(text.encode("latin-1"))
    assert parse_json('"\\ud83c\\udfac é"'.encode()) == "🎬 é"


def test_half_a_pair_in_an_argument_is_printed_as_an_escape(workspace: Path) -> None:
    said = call_obygaze("store", "info", "a\ud800b", cwd=workspace)
    assert said.code == 2
    assert "a\\ud800b" in said.stderr


def test_a_run_with_edited_tables_is_refused(tmp_path: Path) -> None:
    clips = clips_of()
    cells = [MadeCell("ridge", clips, scores_for(clips, 1.0, seed=1))]
    folder = made_run(tmp_path / "run", cells).folder
    about = json.loads((folder / "run.json").read_bytes())
    write_run_json(folder, {**about, "protocol": "x"})
    said = call_obygaze("report", folder, "--format", "csv", cwd=tmp_path)
    assert said.code == 4
    not_text = b"clip_id,\xff\n"
    (folder / "predictions.csv").write_bytes(not_text)
    checksum = hashlib.sha256(not_text).hexdigest()
    files = {**about["files"], "predictions.csv": checksum}
    write_run_json(folder, {**about, "files": files})
    with pytest.raises(Corrupt, match="not a table of a run"):
        _ = read_run(folder).predictions
