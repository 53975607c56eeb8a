"""A line that a message tells a person to type is one that a shell reads as it was meant."""

from __future__ import annotations

import shlex
from pathlib import Path

from support.cli import call_obygaze

NAME = "it's $HOME; mine"


def test_a_line_to_try_names_a_manifest_as_a_shell_reads_it(tmp_path: Path) -> None:
    table = tmp_path / f"{NAME}.csv"
    rows = ["clip_id,movie_id,mood", "a,f,sad", "b,g,gay", "c,g,it's"]
    table.write_text("\n".join(rows) + "\n", "utf-8")
    call_obygaze("manifest", "import", table, "-o", NAME, cwd=tmp_path).ok()
    words = ("manifest", "show", NAME, "--where", "mood == none")
    failed = call_obygaze(*words, cwd=tmp_path)
    assert failed.code
    advice = failed.stderr.partition("Try: ")[2].strip()
    program, *typed = shlex.split(advice)
    assert program == "obygaze"
    assert NAME in typed
    call_obygaze(*typed, cwd=tmp_path).ok()
