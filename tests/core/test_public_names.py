"""The public names: all of them there, for readers and for type checkers alike, and cheap to have."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

import pytest
from tests.core.conftest import Install

import northbridge
from northbridge import errors

HEAVY = ["torch", "pydantic", "lightning", "pytorch_lightning", "lightning_fabric"]
ERRORS = [name for name, each in vars(errors).items() if inspect.isclass(each)]
TELL = f"import json, sys; print(json.dumps([each for each in {HEAVY} if each in sys.modules]))"


def test_type_checkers_see_the_names_that_are_public() -> None:
    source = ast.parse(Path(northbridge.__file__).read_text())
    (block,) = [each for each in source.body if isinstance(each, ast.If)]
    imports = [each for each in block.body if isinstance(each, ast.ImportFrom)]

    seen = {alias.asname or alias.name for each in imports for alias in each.names} | {*ERRORS}
    assert seen - {"*"} == set(northbridge.__all__)
    assert [each.module for each in imports if each.names[0].name == "*"] == ["northbridge.errors"]


@pytest.mark.parametrize("name", northbridge.__all__)
def test_a_public_name_resolves_to_what_is_called_so(name: str) -> None:
    value = getattr(northbridge, name)

    if inspect.isclass(value) or inspect.isfunction(value):  # and no constant, claim or type of a field
        assert value.__name__ == name


def test_completion_offers_the_public_names() -> None:
    assert set(northbridge.__all__) <= set(dir(northbridge))
    assert len(northbridge.__all__) == len(set(northbridge.__all__))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'northbridge' has no attribute 'hal9000'"):
        getattr(northbridge, "hal9000")  # noqa: B009 - type checkers know that it is not there


def test_a_star_import_brings_them_all(install: Install) -> None:
    names = install("acme").answer(
        "from northbridge import *; import json; print(json.dumps([each for each in dir() if each[0] != '_']))"
    )

    assert set(northbridge.__all__) == set(names) - {"json"}


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import northbridge", id="the package"),
        pytest.param("import northbridge.autoload", id="what torch runs"),
        pytest.param("import northbridge_acme", id="a plugin"),
        pytest.param("import northbridge; northbridge_acme = northbridge.installed()", id="the list"),
        pytest.param("import northbridge; northbridge.record()", id="the record"),
    ],
)
def test_it_imports_neither_torch_nor_pydantic_nor_lightning(code: str, install: Install) -> None:
    assert install("acme").answer(f"{code}; {TELL}") == []


def test_getting_a_backend_imports_neither_torch_nor_lightning(install: Install) -> None:
    code = "import northbridge; northbridge.get('acme'); northbridge.get('cpu_sim')"

    assert set(install("acme").answer(f"{code}; {TELL}")) <= {"pydantic"}


def test_a_plugin_pays_for_no_reading_of_metadata(install: Install) -> None:
    code = "import json, sys, northbridge, northbridge_acme; print(json.dumps('importlib.metadata' in sys.modules))"

    assert install("acme").answer(code) is False


def test_errors_and_autoload_import_the_standard_library(install: Install) -> None:
    code = (
        "import json, sys; before = set(sys.modules); import northbridge.autoload, northbridge.errors;"
        " print(json.dumps(sorted({each.partition('.')[0] for each in set(sys.modules) - before})))"
    )

    assert set(install("acme").answer(code)) - sys.stdlib_module_names == {"northbridge"}


# --- Names of a module that are imported when somebody asks for one


def test_a_class_is_taken_from_its_home() -> None:
    from fractions import Fraction

    assert northbridge.lazy_names("acme", "fractions")("Fraction") is Fraction


def test_what_the_home_lacks_is_told_of_the_home() -> None:
    with pytest.raises(AttributeError, match="module 'fractions' has no attribute 'Acme'"):
        northbridge.lazy_names("acme", "fractions")("Acme")


@pytest.mark.parametrize("name", ["cards", "_private", "__path__"])
def test_other_names_do_not_import_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)

    with pytest.raises(AttributeError, match=f"^module 'acme' has no attribute '{name}'$"):
        northbridge.lazy_names("acme", "colorsys")(name)

    assert "colorsys" not in sys.modules
