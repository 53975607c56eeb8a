"""What `make torture` changes from round to round in the tests that kill and damage at random."""

from __future__ import annotations

import os

SEED = int(os.environ.get("SEED", "0"))
