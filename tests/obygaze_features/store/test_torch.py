import numpy as np
import pytest
from support.stores import made_store

from obygaze_features.store import Row

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("n_workers", [0, 2])
def test_a_loader_gives_each_clip_once_with_its_vector(tmp_path, n_workers) -> None:
    values = np.random.default_rng(3).standard_normal((50, 8)).astype(np.float32)
    rows = [Row(f"film-{n:03d}", "film") for n in range(50)]
    rows[7] = Row("film-007", "film", status="failed", reason="a broken file")
    store = made_store(tmp_path / "s", rows, {"clip": values})
    dataset = store.torch()
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=16, shuffle=True, num_workers=n_workers
    )
    found = {}
    for vectors, ids in loader:
        found |= dict(zip(ids, vectors.numpy(), strict=True))
    assert len(dataset) == len(found) == 49 and "film-007" not in dataset.clip_ids
    for number, clip_id in enumerate(store.clip_ids):
        if number != 7:
            np.testing.assert_array_equal(found[clip_id], values[number])
    assert dataset[7][1] == "film-008"
