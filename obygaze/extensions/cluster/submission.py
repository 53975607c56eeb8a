"""What was submitted of a plan: the options, kept beside the plan, and the script as written.

With it a later submission has the same options, and an edited script keeps its edits.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import pretty_json, sha256_bytes, write_atomic
from obygaze_features.core.schema_check import read_json, table_of
from obygaze_features.core.schema_rules import any_of, list_of, nothing, text, whole

SCHEMA = "obygaze-slurm/1"
# The lines of a script that a later submission changes, whatever else a person edited.
_ARRAY = re.compile(r"^(#SBATCH --array=)[0-9,-]+(.*)$", re.MULTILINE)
_WORKER = re.compile(
    r'(--worker "\$(?:SLURM_ARRAY_TASK_ID|worker)/(\d+)")(?: --retry-failed| --changed)?'
)


@dataclass(frozen=True, kw_only=True)
class Submission:
    """The options of `extract slurm`, and the sha256 of the script that was written with them.

    `script` is the path of the script from the folder of the plan, `folder` that of the tasks.
    """

    script: str
    folder: str
    sha256: str
    workers: int
    walltime: str
    at_once: int | None
    cpus: int
    mem_gb: int | None
    gres: str | None
    container: str | None
    directives: Sequence[str]
    setup: Sequence[str]
    run_options: Sequence[str]

    @staticmethod
    def path_of(plan_file: Path) -> Path:
        """Return where the submission of a plan is kept."""
        return plan_file.with_suffix(".slurm.json")

    @classmethod
    def of_plan(cls, plan_file: Path) -> Self | None:
        """Read the last submission of a plan; None if there is none."""
        path = cls.path_of(plan_file)
        if not path.is_file():
            return None
        document = read_json(path.read_bytes(), str(path))
        document.require_schema(SCHEMA, "submission")
        words = list_of(text, unique=False)
        optional = any_of(whole(0), nothing)
        rules = {
            "workers": whole(1),
            "cpus": whole(1),
            "at_once": optional,
            "mem_gb": optional,
        }
        lists = {"directives": words, "setup": words, "run_options": words}
        submission: Self = document.check(table_of(cls, **rules, **lists))
        document.raise_if_any("the options of the last submission are not valid")
        return submission

    def write(self, plan_file: Path) -> None:
        """Keep this submission beside its plan."""
        data = pretty_json({"schema": SCHEMA, **asdict(self)})
        write_atomic(self.path_of(plan_file), data)

    def is_edited(self, script: bytes) -> bool:
        """Return whether a script is not the one that was written."""
        return sha256_bytes(script) != self.sha256


def joined_options(
    earlier: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options of an earlier submission with those that are given now.

    Of options that may be repeated, those that are new are added: of two that exclude each other,
    sbatch takes the last. `extract run` takes an option once: the one that is given now.
    """
    joined = {**earlier, **given}
    for name in ("directives", "setup"):
        added = [word for word in given.get(name, ()) if word not in earlier[name]]
        joined[name] = [*earlier[name], *added]
    before = list(earlier["run_options"])
    now = list(given.get("run_options", ()))
    joined["run_options"] = [*_without_options(before, now), *now]
    return joined


def _without_options(words: Sequence[str], given: Sequence[str]) -> list[str]:
    """Return the words of a command without the options that are given, and their values."""
    names = {_option_name(word) for word in given if word.startswith("-")}
    left = []
    is_given = False
    for word in words:
        if word.startswith("-"):
            is_given = _option_name(word) in names
        if not is_given:
            left.append(word)
    return left


def _option_name(word: str) -> str:
    """Return the name of an option; --seal and --no-seal are one option."""
    return word.partition("=")[0].replace("--no-", "--", 1)


def workers_of(script: str) -> int | None:
    """Return among how many workers a script divides the units; None if it cannot be found."""
    numbers = {match[2] for match in _WORKER.finditer(script)}
    return int(numbers.pop()) if len(numbers) == 1 else None


def is_of_several_arrays(script: str) -> bool:
    """Return whether a script can be submitted again for the tasks of further arrays."""
    return any("$worker/" in match[1] for match in _WORKER.finditer(script))


def with_other_tasks(script: str, array: str, again: str, where: str) -> str:
    """Return an edited script for other tasks; all other lines stay as they are.

    Args:
        script: The script.
        array: The tasks, as Slurm writes them.
        again: --retry-failed or --changed, if the tasks get it.
        where: The path of the script.
    """
    option = f" {again}" if again else ""
    changed, n_arrays = _ARRAY.subn(rf"\g<1>{array}\g<2>", script)
    changed, n_workers = _WORKER.subn(rf"\g<1>{option}", changed)
    if n_arrays != 1 or n_workers != 1:
        raise FixUsage(
            "this script was edited, so that its lines --array and --worker cannot be found",
            where=where,
            hint="submit it yourself with sbatch --array=TASKS, or --force writes it anew",
        )
    return changed
