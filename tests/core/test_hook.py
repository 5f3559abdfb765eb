"""Names of a module that are imported when somebody asks for one."""

from __future__ import annotations

import sys

import pytest

import northbridge


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
