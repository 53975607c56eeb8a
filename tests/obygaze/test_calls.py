"""What each command passes to its function, for every example and every option.

`calls.txt` has the lines that are typed, and below each line the calls that follow, with the values
that differ from the defaults of the function. A new option needs a line; then
`PYTHONPATH=tests python -m support.calls` writes the calls, which a person reads.
"""

import shlex
from pathlib import Path

import pytest
from support.calls import (
    RECORDED,
    Recorder,
    blocks,
    examples,
    options,
    write_inputs,
)

BLOCKS = blocks(RECORDED.read_text(encoding="utf-8"))


def test_every_line_calls_what_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_inputs(tmp_path)
    recorder = Recorder(monkeypatch)
    for line, recorded in BLOCKS:
        assert recorder.calls_of(line, tmp_path) == recorded, line


def test_every_example_and_every_option_is_recorded() -> None:
    typed = [line for line, _ in BLOCKS]
    assert len(typed) == len(set(typed)) > 400
    assert set(examples()) <= set(typed)
    words = [set(shlex.split(line)) for line in typed]
    missing = [
        (command, option)
        for command, option in options()
        if not any(
            line.startswith(f"obygaze {command} ") and option in of_line
            for line, of_line in zip(typed, words, strict=True)
        )
    ]
    assert not missing
