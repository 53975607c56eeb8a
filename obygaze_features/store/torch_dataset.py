"""A store as a data set of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from obygaze_features.core.lazy import import_optional

if TYPE_CHECKING:
    import torch

    Item = tuple[torch.Tensor, str]


class TorchDataset:
    """The clips of a store that have features, as a map-style data set for a DataLoader.

    An item is the tensor of a clip and the id of the clip. Each request reads only the chunks of
    its clips, so a store may be larger than the memory. The clips of a batch are read together.
    """

    def __init__(
        self,
        read: Callable[[npt.NDArray[Any]], npt.NDArray[Any]],
        rows: npt.NDArray[Any],
        clip_ids: Sequence[str],
    ) -> None:
        """Make a data set.

        Args:
            read: Returns the values of rows of the store.
            rows: The row of the store for each item.
            clip_ids: The clip id of each item.
        """
        import_optional("torch", "mlp", "Store.torch")
        self._read = read
        self._rows = rows
        self.clip_ids = clip_ids

    def __len__(self) -> int:
        return len(self.clip_ids)

    def __getitem__(self, number: int) -> Item:
        (item,) = self.__getitems__([number])
        return item

    def __getitems__(self, numbers: Sequence[int]) -> list[Item]:
        """Return several items; a DataLoader requests a batch by this method."""
        import torch

        tensors = torch.from_numpy(self._read(self._rows[[*numbers]]))
        return [(tensors[place], self.clip_ids[n]) for place, n in enumerate(numbers)]
