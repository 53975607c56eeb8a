"""The independent proofs that tests/README.md lists are there."""

import re

from support.cli import ROOT


def test_every_listed_proof_is_there() -> None:
    page = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    proofs = []
    for row in page[page.index("## Independent proofs") :].splitlines():
        folder = ""
        for name in re.findall(r"`([\w/]+\.py)`", row):
            # A name without a folder stands in the folder of the name before it.
            if "/" in name:
                folder = name.rpartition("/")[0]
            proofs.append(ROOT / "tests" / folder / name.rpartition("/")[2])
    assert [path for path in proofs if not path.is_file()] == []
    assert len(proofs) > 120
