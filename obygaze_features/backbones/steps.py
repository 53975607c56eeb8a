"""The steps of a model of sound, and the two functions that make them of the samples of a piece."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.card import Sound
from obygaze_features.video.resample import Samples

if TYPE_CHECKING:
    from torch import Tensor

Floats = npt.NDArray[np.floating[Any]]


class Steps(NamedTuple):
    """What a model returns for a piece, or for pieces: then `vectors` and `whole` are stacked.

    Args:
        vectors: A vector for each step.
        moments: The sample of the piece that is the centre of each step.
        whole: The model's own vector of the piece, if it has one.
    """

    vectors: Any
    moments: Floats
    whole: Any = None


# The input of a model for the samples of a piece: the samples themselves, or a spectrogram.
Prepare = Callable[[Samples, Sound], npt.NDArray[np.float32]]
# The module, the stacked inputs of pieces, and the table of its card.
Listen = Callable[[Any, "Tensor", Sound], Steps]
