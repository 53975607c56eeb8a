"""What became of a clip is its status, which one table describes: the code's and the page's."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"\| `([a-z-]+)` \| (\d) \| [^|]+ \| (\d) \| ([^|]+) \|")
