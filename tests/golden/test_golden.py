"""What the program gives is what was recorded; README.md says how the tables are written anew."""

from pathlib import Path
from typing import Any

import pytest

from golden.recording import PARTS, RECORDED, record_in_a_process
from golden.tables import differences, read_table
from golden.tolerances import ELSEWHERE, EXACT, has_the_recorded_code

pytestmark = pytest.mark.timeout(1200)
SHOWN = 20
# This one takes a second; the others share what they import.
QUICK = ("labels",)


def parts() -> list[object]:
    found: list[object] = []
    for part in PARTS:
        why = pytest.mark.check("takes long, together with all that is imported")
        found.append(part if part in QUICK else pytest.param(part, marks=why))
    return found


@pytest.fixture(scope="module")
def recorded_today(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Path:
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    chosen = {call.params.get("part") for call in calls if call is not None}
    folder: Path = tmp_path_factory.mktemp("golden")
    record_in_a_process([part for part in PARTS if part in chosen], folder)
    return folder


@pytest.mark.parametrize("part", parts())
def test_a_part_is_as_it_was_recorded(part: str, recorded_today: Path) -> None:
    recorded = {path.name: path for path in (RECORDED / part).glob("*.csv")}
    found = {path.name: path for path in (recorded_today / part).glob("*.csv")}
    assert sorted(found) == sorted(recorded)
    tolerance = EXACT if has_the_recorded_code() else ELSEWHERE
    lines = []
    for name, path in recorded.items():
        before, after = read_table(path), read_table(found[name])
        lines += differences(f"{part}/{path.stem}", before, after, tolerance)
    shown = "\n".join(lines[:SHOWN])
    assert not lines, f"{len(lines)} values are not those recorded:\n{shown}"


@pytest.mark.parametrize(
    ("recorded", "found", "tolerance", "are_one"),
    [
        ("0.5", "0.5000000000005", EXACT, True),
        ("0.5", "0.500000000002", EXACT, False),
        ("2000.5", "2000.500000001", EXACT, True),
        ("7", "8", 10.0, False),
        ("1", "1.0005", 1e-3, True),
        ("", "0", EXACT, False),
        ("", "nan", 10.0, False),
        ("fold 1", "fold 2", 10.0, False),
    ],
)
def test_numbers_are_compared_within_the_tolerance_and_texts_exactly(
    recorded: str, found: str, tolerance: float, are_one: bool
) -> None:
    before, after = [{"x": recorded}], [{"x": found}]
    assert (differences("t", before, after, tolerance) == []) == are_one
