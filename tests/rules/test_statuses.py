"""What became of a clip is its status, which one table describes: the code's and the page's."""

import re
from pathlib import Path

from obygaze_features.store.rows import STATUSES

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"\| `([a-z-]+)` \| (\d) \| [^|]+ \| (\d) \| ([^|]+) \|")


def test_the_page_of_the_store_has_each_status_as_the_code_has_it() -> None:
    page = (ROOT / "docs" / "store.md").read_text(encoding="utf-8")
    told = LINE.findall(page.replace("`--retry-failed`", "--retry-failed"))
    of_code = []
    for number, status in enumerate(STATUSES):
        of_code.append((status, str(number), str(status.exit_code), status.tried))
    assert told == of_code
