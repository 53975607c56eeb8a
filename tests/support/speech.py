"""Speech that espeak-ng makes, as samples of 16 kHz."""

import io
import shutil
import subprocess
import wave
from math import gcd
from typing import Any

import numpy as np
from scipy.signal import resample_poly

from support.servers import absent

RATE = 16000
SENTENCE = (
    "The film begins on a grey morning, and somebody walks along the river without a"
    " word. Later she tells him what she has seen there."
)


def speech(text: str = SENTENCE) -> Any:
    """Return speech, float32 from -1 to 1; without espeak-ng the test is skipped."""
    program = shutil.which("espeak-ng")
    if program is None:
        absent("espeak-ng is not installed (scripts/install-debian-packages)")
    spoken = subprocess.run(
        [program, "--stdout", "-v", "en", text], capture_output=True, check=True
    )
    with wave.open(io.BytesIO(spoken.stdout)) as file:
        rate = file.getframerate()
        # The length in the header of a stream is not true.
        samples = np.frombuffer(file.readframes(10**9), np.int16) / 32768
    common = gcd(rate, RATE)
    return resample_poly(samples, RATE // common, rate // common).astype(np.float32)
