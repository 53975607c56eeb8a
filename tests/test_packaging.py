"""What is installed, pinned and promised about the package itself."""

import ast
import contextlib
import re
import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from support.cli import ROOT
from support.statements import imports_of

from obygaze_features import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = ("obygaze", "obygaze_features", "obygaze_models")
PINS = dict(
    line.split("==")
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
)
# Names under which packages are imported, where they differ from the distribution's.
IMPORT_NAMES = {
    "google-crc32c": "google_crc32c",
    "pillow": "PIL",
    "scikit-learn": "sklearn",
}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def bare(requirement: str) -> str:
    return re.split(r"[<>=!~\[; ]", requirement)[0]


def laptop() -> set[str]:
    return {bare(requirement) for requirement in PROJECT["project"]["dependencies"]}


def tracked() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [
        ROOT / name
        for name in done.stdout.split("\0")
        if name and (ROOT / name).is_file()
    ]


def test_one_version_everywhere():
    assert metadata.version("obygaze") == __version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert (
        re.search(r"^version: (\S+)$", citation, flags=re.MULTILINE)[1] == __version__
    )
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changes, flags=re.MULTILINE)[1] == __version__


@pytest.mark.parametrize("extra", [set(), {"av"}], ids=["laptop", "demo"])
def test_a_laptop_gets_no_torch_however_far_one_follows_the_requirements(extra):
    seen: set[str] = set()
    waiting = {normal(name) for name in laptop() | extra}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        try:
            requirements = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # needed on other systems only
        waiting |= {normal(bare(r)) for r in requirements if "extra ==" not in r} - seen
    assert "numpy" in seen
    assert seen.isdisjoint({"torch", "transformers", "obstore"})
    assert ("av" in seen) is bool(extra)


def test_constraints_pin_everything_and_are_good_on_any_machine():
    assert all(
        re.fullmatch(r"[0-9][0-9A-Za-z.]*", version) for version in PINS.values()
    )
    assert "obygaze" not in PINS
    extras = dict(PROJECT["project"]["optional-dependencies"])
    wanted = laptop().union(*({bare(r) for r in extra} for extra in extras.values()))
    unpinned = (
        {normal(name) for name in wanted}
        - {normal(name) for name in PINS}
        - {"obygaze"}
    )
    assert unpinned == set()


def test_every_pin_can_be_installed_on_the_oldest_python():
    """Else pip tries version after version of all packages, and does not end."""
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=") + ".0"
    refused = []
    for name, version in PINS.items():
        with contextlib.suppress(metadata.PackageNotFoundError):
            about = metadata.metadata(name)
            needed = SpecifierSet(about.get("Requires-Python", ""))
            if about["Version"] == version and oldest not in needed:
                refused.append(f"{name}=={version} needs Python {needed}")
    assert refused == []


def test_the_hashed_file_has_the_same_versions_and_a_hash_of_each_but_torch():
    lines = (ROOT / "requirements-hashed.txt").read_text(encoding="utf-8").splitlines()
    form = re.compile(r"(\S+)==(\S+) --hash=sha256:[0-9a-f]{64}")
    found = [form.fullmatch(line) for line in lines if not line.startswith("#")]
    assert None not in found
    hashed = {normal(match[1]): match[2] for match in found if match}
    pins = {normal(name): version for name, version in PINS.items()}
    assert len(hashed) == len(found)
    del pins["torch"]
    assert {name: hashed.get(name) for name in pins} == pins


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in imports_of(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif node.level == 0 and node.module:
            found.add(node.module)
    return {name.partition(".")[0] for name in found}


def test_every_package_that_is_imported_is_declared():
    extras = dict(PROJECT["project"]["optional-dependencies"])
    del extras["test"]
    declared = laptop().union(*({bare(r) for r in extra} for extra in extras.values()))
    known = {IMPORT_NAMES.get(name, name) for name in declared}
    known |= {*sys.stdlib_module_names, *PACKAGES}
    sources = [p for name in PACKAGES for p in (ROOT / name).rglob("*.py")]
    undeclared = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources
        for name in imported(path) - known
    }
    assert undeclared == set()


def test_every_data_file_of_the_packages_is_installed():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]
    for package in PACKAGES:
        root = ROOT / package
        covered = {path for pattern in patterns[package] for path in root.glob(pattern)}
        data = {
            p
            for p in tracked()
            if p.is_relative_to(root) and p.suffix not in {".py", ".md"}
        }
        assert data - covered == set()


def test_what_is_in_a_workspace_is_never_committed():
    for kind in ("manifests", "stores"):
        kept = [path.name for path in tracked() if path.is_relative_to(ROOT / kind)]
        assert kept == ["README.md"]
    ignored = [
        "manifests/a.csv",
        "stores/a/store.json",
        "runs/a/run.json",
        "models/a/x",
    ]
    done = subprocess.run(
        ["git", "check-ignore", *ignored],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ignored


def test_the_sdist_is_the_checkout(tmp_path):
    """Also its tests and its documentation, and nothing that only this machine has."""
    pytest.importorskip("setuptools", minversion="77")
    source = tmp_path / "source"
    names = {path.relative_to(ROOT).as_posix() for path in tracked()}
    for name in names:
        copy = source / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / name).read_bytes())
    for stray in ("stores/mine/store.json", "manifests/mine.csv", "secret.key"):
        (source / stray).parent.mkdir(parents=True, exist_ok=True)
        (source / stray).write_text("mine", encoding="utf-8")
    build = (
        f"from setuptools.build_meta import build_sdist; build_sdist({str(tmp_path)!r})"
    )
    subprocess.run(
        [sys.executable, "-c", build], cwd=source, capture_output=True, check=True
    )
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        files = [member.name for member in archive.getmembers() if member.isfile()]
    packed = {name.partition("/")[2] for name in files}
    made = {"PKG-INFO", "setup.cfg"}
    added = {name for name in packed if not name.startswith("obygaze.egg-info/")}
    assert added - made == names
