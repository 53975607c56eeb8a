"""A table is no file of features: nobody can say which of its columns are labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from obygaze_features.core.errors import FixUsage
from obygaze_features.store.importing import import_features


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".xlsx", ".ods"])
def test_a_table_is_refused_with_what_is_read(tmp_path: Path, ending: str) -> None:
    table = tmp_path / f"labels{ending}"
    table.write_text("clip_id,movie_id,level\nx,film,S\n", "utf-8")
    with pytest.raises(FixUsage, match=r"end with \.npz, \.h5") as refused:
        import_features(table, tmp_path / "s")
    hint = str(refused.value.hint)
    assert "np.savez('x.npz', clip_id=ids, clip=array)" in hint
    assert f"obygaze manifest import {table} -o NAME" in hint
    assert not (tmp_path / "s").exists()
