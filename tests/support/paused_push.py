"""Push a store or a model in a process of its own, which stops itself before its n-th step.

A step is a use of the disk, or a request to a bucket. With n = 0, it never stops.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import ObygazeError
from obygaze_features.store.copying import push
from obygaze_features.store.targets import BucketTarget
from obygaze_models.zoo.sharing import push_model
from support.kills import uses_disk

REQUESTS = ("check_above", "names", "claim", "has", "put", "remove_claim")


class Steps:
    """Counts steps, and stops the process before one of them."""

    def __init__(self, stop_at: int) -> None:
        self.stop_at = stop_at
        self.n = 0

    def count(self) -> None:
        self.n += 1
        if self.n == self.stop_at:
            os.kill(os.getpid(), signal.SIGSTOP)

    def before(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any) -> Any:
            self.count()
            return work(*given)

        return counted

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if uses_disk(event, arguments):
            self.count()


def main(source: str, target: str, stop_at: int, log: str, variables: dict) -> None:
    """Push; write the number of steps, and what was refused; exit with the code of the error."""
    os.environ.update(variables)
    steps = Steps(stop_at)
    if target.startswith("s3:"):
        for name in REQUESTS:
            work = getattr(BucketTarget, name)
            setattr(BucketTarget, name, steps.before(work))
    else:
        sys.addaudithook(steps.hook)
    code, said = 0, ""
    try:
        if (Path(source) / "model.json").exists():
            push_model(source, target)
        else:
            push(Path(source), target, no_licence=True)
    except ObygazeError as error:
        code, said = error.exit_code, str(error)
    Path(log).write_text(f"{steps.n} {said}", "utf-8")
    sys.exit(code)
