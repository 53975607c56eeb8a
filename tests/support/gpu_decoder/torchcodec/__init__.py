"""A stand-in for torchcodec on a machine with a GPU: its interface, its formula of colours, lies.

It decodes each film in order with PyAV, on the CPU. `OBYGAZE_TEST_LIE` names what it does wrong.
"""

from . import decoders as decoders

__version__ = "0.17.0+cu130"
