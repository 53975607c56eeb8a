"""What a forked decode worker runs; it imports nothing that its server has not imported."""

import os
import socket
from pathlib import Path

from obygaze_features.core import system
from obygaze_features.video import worker


def work(channel: socket.socket, folder: Path, environment: dict[str, str]) -> None:
    system.block_signals()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    worker.main(channel.detach())
