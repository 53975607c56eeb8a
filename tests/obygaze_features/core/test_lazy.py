import pytest

from obygaze_features.core.errors import FixInput, InstallExtra
from obygaze_features.core.lazy import import_optional


def test_one_that_is_absent_names_the_extra_to_install():
    with pytest.raises(InstallExtra) as caught:
        import_optional("no_such_package.inner", "extract", "decoding")
    assert str(caught.value).splitlines() == [
        "decoding needs the package 'no_such_package', which is not installed",
        '  Try: in the clone of obygaze: pip install -e ".[extract]"',
    ]
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("error", ["ImportError", "OSError"])
def test_a_package_that_is_installed_and_broken_is_called_that(
    tmp_path, monkeypatch, error
):
    source = f"raise {error}('libav.so.62: no such file')\n"
    (tmp_path / "unusable_package.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FixInput) as caught:
        import_optional("unusable_package", "video", "decoding")
    assert str(caught.value).splitlines() == [
        "decoding needs the package 'unusable_package', which is installed but does not work:"
        " libav.so.62: no such file",
        "  Try: obygaze doctor",
    ]
