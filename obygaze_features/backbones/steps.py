"""The time steps of an audio model, and the types of the two functions that compute them."""

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
    """The output of a model for one piece of sound, or the stacked outputs for several pieces.

    Args:
        vectors: A vector for each step.
        moments: The centre of each step, as a sample of the piece.
        whole: The vector of the whole piece, if the model returns one.
    """

    vectors: Any
    moments: Floats
    whole: Any = None


# Returns the input of a model for the samples of a piece: the samples, or a spectrogram.
Prepare = Callable[[Samples, Sound], npt.NDArray[np.float32]]
# Returns the steps for a module, the stacked inputs of pieces, and the table of the card.
Listen = Callable[[Any, "Tensor", Sound], Steps]
