import json

import numpy as np
import pytest

from obygaze_features.core import console as module
from obygaze_features.core.console import Console, json_text, printable, table


def test_json_on_stdout_has_null_for_what_json_cannot_say(capsys):
    Console().json(
        {
            "nan": float("nan"),
            "inf": [float("inf"), (1.5, -float("inf"))],
            "numpy": np.array([1.0, np.nan], dtype=np.float32),
            "count": np.int64(3),
            "flag": np.bool_(True),
            1: "é",
        }
    )
    out = capsys.readouterr().out
    assert json.loads(out) == {
        "json_version": 1,
        "nan": None,
        "inf": [None, [1.5, None]],
        "numpy": [1.0, None],
        "count": 3,
        "flag": True,
        "1": "é",
    }
    assert "é" in out
    assert "NaN" not in out


@pytest.mark.parametrize(
    "verbosity, told", [(-1, "warn"), (0, "note warn"), (1, "note detail warn")]
)
def test_talk_goes_to_stderr_and_results_to_stdout(capsys, verbosity, told):
    console = Console(verbosity=verbosity)
    console.result("result")
    console.note("note")
    console.detail("detail")
    console.warn("warn")
    captured = capsys.readouterr()
    assert captured.out == "result\n"
    assert captured.err.replace("Warning: ", "").split() == told.split()


def test_a_log_gets_a_line_every_half_minute(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with Console().progress("extract", 100, "clips") as progress:
        for _ in range(40):
            now[0] += 1.0
            progress.remark("GPU waits")
            progress.advance()
    # 30 of 100 clips in 30 s leave 70 s for the other 70.
    captured = capsys.readouterr()
    assert captured.err == "extract: 30 of 100 clips, 30 s, 70 s to go GPU waits\n"
    assert captured.out == ""


def test_control_characters_are_shown_and_colours_kept() -> None:
    hostile = "a\x1b]0;title\x07b\x1b[2Jc\x9b1Ad\re\u202ef"
    assert printable(hostile) == r"a\x1b]0;title\x07b\x1b[2Jc\x9b1Ad\x0de\u202ef"
    coloured = "\x1b[31m\x1b[1mred\x1b[0m\tand\nplain é"
    assert printable(coloured) == coloured
    text = json_text({"name": "a\x9b\x7f\u202eb", "n": [1, "é"]})
    assert text == r'{"name": "a\u009b\u007f\u202eb", "n": [1, "é"]}'
    assert json.loads(text)["name"] == "a\x9b\x7f\u202eb"


def test_a_number_that_rounds_to_zero_has_no_sign() -> None:
    assert table(("p",), [(-1e-9,), (-0.0006,)]).split() == ["p", "0.000", "-0.001"]
