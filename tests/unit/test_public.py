"""The public face of the package: what it lends, and that it costs nothing until it is used."""

import subprocess
import sys

import pytest

import acpbridge


def test_importing_the_package_imports_nothing_else() -> None:
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import acpbridge\n"
        "assert 'Turn' in dir(acpbridge)\n"
        "print(sorted(name for name in set(sys.modules) - before if 'editable' not in name))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    assert done.stdout == "['acpbridge']\n"


@pytest.mark.parametrize("name", acpbridge.__all__)
def test_every_public_name_is_there_and_has_words(name: str) -> None:
    found = getattr(acpbridge, name)
    assert found.__name__ == name
    assert found.__doc__


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        acpbridge.nothing  # noqa: B018
