"""A store as a data set of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from obygaze_features.core.lazy import need

if TYPE_CHECKING:
    import torch

    from obygaze_features.store.reading import Store

    Item = tuple[torch.Tensor, str]


class TorchDataset:
    """The clips of a store that have features, as a map-style data set for a DataLoader.

    An item is the tensor of a clip, and the id of the clip. Only the files of the asked clips are
    read, each time anew, so that a store may be larger than memory; the clips of a batch are read
    at once.

    Attributes:
        store: The store.
        array: The name of the array.
        clip_ids: The clips, in the order of the items.
    """

    def __init__(self, store: Store, array: str) -> None:
        need("torch", "mlp", "Store.torch")
        self.store = store
        self.array = store.array(array).name
        self._rows = np.flatnonzero(store.status().is_ok)
        self.clip_ids: Sequence[str] = store.clip_ids[self._rows].tolist()

    def __len__(self) -> int:
        return len(self.clip_ids)

    def __getitem__(self, number: int) -> Item:
        (item,) = self.__getitems__([number])
        return item

    def __getitems__(self, numbers: Sequence[int]) -> list[Item]:
        """Return several items; a DataLoader asks for the items of a batch in this way."""
        import torch

        tensors = torch.from_numpy(self.store.read(self.array, self._rows[[*numbers]]))
        return [(tensors[place], self.clip_ids[n]) for place, n in enumerate(numbers)]
