"""A table of pandas in place of a store or a manifest is refused with what to do."""

from __future__ import annotations

import pandas
import pytest

import obygaze as og
from obygaze_features.core.errors import FixUsage


def test_a_data_frame_is_no_store_and_no_manifest() -> None:
    """It was an AttributeError of a line of ours."""
    table = pandas.DataFrame({"clip_id": ["a-1"]})
    with pytest.raises(FixUsage, match=r"expected a store, .* got DataFrame") as raised:
        og.open_store(table)
    assert raised.value.hint == "obygaze store import --help"
    with pytest.raises(
        FixUsage, match=r"expected a manifest, .* got DataFrame"
    ) as raised:
        og.dataset(table, table)
    assert raised.value.hint == "obygaze manifest import --help"
