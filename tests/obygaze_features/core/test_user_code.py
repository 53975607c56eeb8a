import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest
from support.fold_data import fold_data_of

from obygaze_features.core import user_code
from obygaze_features.core.errors import FixInput, FixUsage, NotFound, ObygazeError
from obygaze_features.core.user_code import find_user_code, is_user_code, trust
from obygaze_models.models.fitting import fit, score_features
from obygaze_models.models.registry import build, default_settings


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder in which nothing is trusted yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(user_code, "_TRUSTED", {})
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def load(name: str) -> object:
    trust([name])
    return find_user_code(name).load()


@pytest.mark.parametrize(
    ("name", "is_part"),
    [
        ("mine.py:Mine", True),
        ("My Drive, 2/mine.py:Mine", True),
        ("gaze.data:read", True),
        ("sklearn.svm.SVC", False),
        ("mine.py", False),
        ("hf://lab/store", False),
    ],
)
def test_what_is_a_name_of_own_code(name: str, is_part: bool) -> None:
    assert is_user_code(name) is is_part


def test_a_module_of_the_working_folder_is_one_file(here: Path) -> None:
    write(here / "gazing" / "__init__.py", "WORD = 'look'\n")
    write(here / "gazing" / "data.py", "WORD = 'look'\n")
    assert load("gazing:WORD") == "look"
    assert find_user_code("gazing:WORD").file == here / "gazing" / "__init__.py"
    with pytest.raises(FixInput, match="expected user code of one file, got a module"):
        load("gazing.data:WORD")


def test_the_version_of_a_file_is_its_hash(here: Path) -> None:
    main = write(here / "mine.py", "def read():\n    import json\n")
    write(here / "other.py", "VALUE = 1\n")
    trust(["mine.py:read"])
    sha256 = hashlib.sha256(main.read_bytes()).hexdigest()
    before = find_user_code("mine.py:read")
    assert before.package == f"mine.py {sha256[:16]}"
    write(here / "other.py", "VALUE = 2\n")
    assert find_user_code("mine.py:read") == before


def test_changed_code_is_imported_anew(here: Path) -> None:
    write(here / "mine.py", "VALUE = 1\n")
    assert load("mine.py:VALUE") == 1
    before = sys.modules["mine"]
    assert load("mine.py:VALUE") == 1
    assert sys.modules["mine"] is before
    write(here / "mine.py", "VALUE = 2\n")
    assert load("mine.py:VALUE") == 2
    assert not list(here.glob("__pycache__"))


def test_two_folders_may_have_files_of_the_same_names(here: Path) -> None:
    for number in (1, 2):
        write(here / str(number) / "mine.py", f"VALUE = {number}\n")
    assert load("1/mine.py:VALUE") == 1
    assert load("2/mine.py:VALUE") == 2
    assert load("1/mine.py:VALUE") == 1
    with pytest.raises(FixUsage, match=r"two files are called mine\.py"):
        trust(['grid.models=["1/mine.py:VALUE", "2/mine.py:VALUE"]'])


def test_a_file_with_the_name_of_an_imported_module_is_refused(here: Path) -> None:
    write(here / "json.py", "VALUE = 1\n")
    told = r"the module name .json. is already used"
    with pytest.raises(FixInput, match=told) as refused:
        load("json.py:VALUE")
    assert refused.value.hint == "rename json.py"


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        ("", "mine.py:Mine", "mine.py has no Mine"),
        ("1 / 0", "mine.py:read", r"imported: ZeroDivisionError.*\(mine.py, line 1\)"),
        ("raise SystemExit(9)", "mine.py:read", "imported: SystemExit"),
        ("import nowhere_at_all", "mine.py:read", "No module named 'nowhere_at_all'"),
        ("", "absent.py:read", "no such file"),
        ("", "nowhere_at_all:read", "no module called 'nowhere_at_all'"),
        ("", "mine.nowhere:read", r"no module called 'mine\.nowhere'"),
        ("read = 3", "mine.py:read", r"must be a function, got 3 \(int\)"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(here, text, name, told) -> None:
    write(here / "mine.py", text)
    trust([name])
    with pytest.raises((FixInput, NotFound), match=told):
        find_user_code(name).load_function()
    # A corrected file is another version of it.
    write(here / "mine.py", "def read(): return 5\n")
    assert load("mine.py:read")() == 5  # type: ignore[operator]


def test_a_trusted_file_does_not_stand_for_one_of_another_folder(here: Path) -> None:
    write(here / "a" / "mine.py", "VALUE = 1\n")
    write(here / "b" / "mine.py", "VALUE = 2\n")
    trust(["a/mine.py:VALUE"])
    # A saved model names the file alone.
    assert find_user_code("mine.py:VALUE").load() == 1
    with pytest.raises(FixUsage, match="the trusted file of this name is"):
        find_user_code("b/mine.py:VALUE")


def test_what_is_not_trusted_is_not_imported(here: Path) -> None:
    write(here / "mine.py", "open('it-ran', 'w')\ndef read(): ...\n")
    for name in ("mine.py:read", "mine:read", "./mine.py:read"):
        with pytest.raises(FixUsage, match="is not trusted") as refused:
            find_user_code(name)
        assert f"--trust {name}" in str(refused.value.hint)
    # A record has no folder, and the file is not here.
    with pytest.raises(FixUsage, match="is not trusted") as refused:
        find_user_code("theirs.py:read")
    assert "--trust FOLDER/theirs.py:read" in str(refused.value.hint)
    trust(["mine.py:other", "splits.kind=mine.py:another"])
    with pytest.raises(FixUsage):
        find_user_code("mine.py:read")
    assert not (here / "it-ran").exists()
    # A record names the file alone; the folder is where somebody trusted it.
    trust([f"{here}/mine.py:read"])
    assert find_user_code("mine.py:read").name == "mine.py:read"


MODEL = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

class Mine(ClassifierMixin, BaseEstimator):
    def __init__(self{parameters}): ...
    def fit(self, X, y):
        self.seen_ = 1.0
        return {fitted}
    def predict(self, X):
        return {predicted}
    def decision_function(self, X):
        return {scores}
"""


@pytest.mark.parametrize(
    "statement", ["import other", "import other.near", "from . import other"]
)
def test_an_import_of_another_own_file_is_refused(here: Path, statement: str) -> None:
    write(here / "other.py", "VALUE = 1\n")
    for text in (f"{statement}\ndef read(): ...\n", f"def read():\n    {statement}\n"):
        write(here / "mine.py", text)
        trust(["mine.py:read"])
        with pytest.raises(FixInput, match="code of one file, but it imports "):
            find_user_code("mine.py:read")


def test_an_import_by_the_path_of_python_is_refused(here: Path, monkeypatch) -> None:
    """No recipe would name it: it has neither a version nor a hash."""
    write(here / "lib" / "of_our_lab.py", "VALUE = 1\n")
    write(here / "mine.py", "import numpy, json, of_our_lab\n")
    trust(["mine.py:json"])
    # Without the path, running the file fails.
    assert find_user_code("mine.py:json").file == here / "mine.py"
    monkeypatch.syspath_prepend(str(here / "lib"))
    with pytest.raises(FixInput, match="but it imports of_our_lab"):
        find_user_code("mine.py:json")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"fitted": "None"}, "must return itself from fit(), got None (NoneType)"),
        ({"fitted": "1 / 0"}, "failed in fit(): ZeroDivisionError"),
        ({"scores": "np.full(len(X), np.nan)"}, "finite numbers of the shape (4,)"),
        ({"scores": "np.zeros((len(X), 2))"}, "(4,) from decision_function(), got"),
    ],
)
def test_what_a_model_returns_is_checked(here, changes, told):
    good = {"fitted": "self", "predicted": "np.zeros(len(X), int)", "scores": "X[:, 0]"}
    write(here / "model.py", MODEL.format(parameters="", **{**good, **changes}))
    trust(["model.py:Mine"])
    X = np.arange(8.0).reshape(4, 2)
    no_concepts = np.zeros((4, 0), dtype=np.int64)
    data = fold_data_of(X, np.array([0, 1, 0, 1]), [], no_concepts, None)
    with pytest.raises(FixInput, match=r"^model\.py:Mine ") as caught:
        score_features(fit(build("model.py:Mine"), data), X)
    assert told in caught.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Mine = 3", "must be a function, got 3 (int)"),
        ("class Mine: ...", "must be the class of a classifier; it has no fit()"),
        (
            MODEL.format(parameters=", x", fitted="", predicted="", scores=""),
            "x has no default",
        ),
    ],
)
def test_a_model_that_is_no_classifier_is_refused(here, text, told) -> None:
    write(here / "model.py", text)
    trust(["model.py:Mine"])
    with pytest.raises(ObygazeError) as caught:
        default_settings("model.py:Mine")
    assert told in caught.value.message
    assert "model.py" in str(caught.value)
