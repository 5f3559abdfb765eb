"""Modules that stand in for others: where they are found, and what becomes of one that cannot be imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import northbridge
from northbridge.discovery.stand_ins import StandIns

Stand = Callable[[str], Path]


@contextmanager
def standing(name: str, simulation: northbridge.Simulation, *modules: str) -> Iterator[StandIns]:
    """Let stand-ins of a ``simulation`` be found, and forget their ``modules`` at the end."""
    finder = StandIns(name, simulation)
    sys.meta_path.insert(0, finder)
    yield finder
    sys.meta_path.remove(finder)
    for each in [each for each in sys.modules if each.partition(".")[0] in modules]:
        del sys.modules[each]


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    """Let the module `torch_absent` be stood in for by a package of one file, for this test."""
    absent = northbridge.Simulation(
        {"torch_absent": tmp_path},
        chip="Anvil",
        page="docs/simulated-anvil.md",
        instead={"torch_absent.move.to_anvil": 'write device "absent"'},
    )

    def stand(code: str) -> Path:
        file = tmp_path / "__init__.py"
        file.write_text(code)
        return file

    with standing("absent", absent, "torch_absent"):
        yield stand


def test_it_is_found_and_its_modules_too(stand: Stand, tmp_path: Path) -> None:
    file = stand("NAME = 1")
    (tmp_path / "inner.py").write_text("NAME = 2")

    spec: Any = find_spec("torch_absent")
    assert (spec.origin, "torch_absent" in sys.modules) == (str(file), False)
    assert importlib.import_module("torch_absent.inner").NAME == 2


def test_what_is_there_for_real_is_found_first(tmp_path: Path) -> None:
    with standing("absent", northbridge.Simulation({"fractions": tmp_path / "fractions.py"})):
        spec: Any = find_spec("fractions")

    assert not spec.origin.startswith(str(tmp_path))


def test_raising_stand_in_is_named_and_leaves_nothing(stand: Stand, tmp_path: Path) -> None:
    """An import that fails again says the same."""
    file = stand("import torch_absent.inner; raise OSError('libabsent.so is not there')")
    (tmp_path / "inner.py").write_text("")

    for name in ("torch_absent", "torch_absent.inner", "torch_absent.inner"):
        with pytest.raises(northbridge.SimulationError) as caught:
            importlib.import_module(name)
        assert str(caught.value) == (
            f"NORTHBRIDGE_SIMULATE=absent: importing {file} raised OSError: libabsent.so is not there. Fix:"
            " upgrade its distribution"
        )
        assert name not in sys.modules


def test_an_error_of_ours_is_told_as_it_is(stand: Stand) -> None:
    stand("import northbridge; raise northbridge.SettingsError('GROUPS=0 is not allowed', variable='GROUPS')")

    with pytest.raises(northbridge.SettingsError, match=r"^GROUPS=0 is not allowed$"):
        importlib.import_module("torch_absent")


# --- Names that the simulation lacks

WITHOUT = "the simulated Anvil has no torch_absent.{}; see docs/simulated-anvil.md"


MOVE = '. Fix: write device "absent"'


@pytest.mark.parametrize(
    ("code", "name", "fix"),
    [
        ("import torch_absent.graphs", "graphs", ""),
        ("from torch_absent import graphs", "graphs", ""),
        ("from torch_absent.inner.graphs import capture", "inner.graphs", ""),
        # Left out on purpose.
        ("from torch_absent.move import to_anvil", "move", MOVE),
        ("import torch_absent.move.to_anvil", "move", MOVE),
        # A question below an absent module imports that.
        ("import importlib.util; importlib.util.find_spec('torch_absent.graphs.deeper')", "graphs", ""),
    ],
)
def test_import_of_an_absent_name_says_that_it_is_not_simulated(
    stand: Stand, tmp_path: Path, code: str, name: str, fix: str
) -> None:
    stand("NAME = 1")
    (tmp_path / "inner.py").write_text("NAME = 2")

    with pytest.raises(ModuleNotFoundError) as caught:
        exec(code, {})

    assert isinstance(caught.value, northbridge.NotSimulatedError)
    assert str(caught.value) == WITHOUT.format(name) + fix


def test_absent_attribute_says_that_it_is_not_simulated(stand: Stand, tmp_path: Path) -> None:
    stand("NAME = 1")
    (tmp_path / "inner.py").write_text("NAME = 2")
    inner = importlib.import_module("torch_absent.inner")

    with pytest.raises(AttributeError) as caught:
        _ = inner.graphs

    assert str(caught.value) == WITHOUT.format("inner.graphs")
    assert not hasattr(inner, "graphs")
    assert not hasattr(inner, "__wrapped__")
    # A question for an absent module is answered.
    assert find_spec("torch_absent.graphs") is None
    assert find_spec(".graphs", "torch_absent") is None
    assert sys.meta_path[0].find_spec("torch_absent.graphs", []) is None


def test_a_second_name_of_a_stand_in_says_the_first(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    stand("NAME = 1")
    monkeypatch.setitem(sys.modules, "second", importlib.import_module("torch_absent"))

    with pytest.raises(northbridge.NotSimulatedError) as caught:
        importlib.import_module("second.graphs")

    assert str(caught.value) == WITHOUT.format("graphs")
    assert find_spec("second.graphs") is None


def test_a_module_with_a_class_of_its_own_looks_names_up_itself(stand: Stand) -> None:
    stand(
        "import sys, types\n"
        "class Options(types.ModuleType):\n"
        "    def __getattr__(self, name): return f'option {name}'\n"
        "sys.modules[__name__].__class__ = Options\n"
    )

    module: Any = importlib.import_module("torch_absent")

    assert module.__getattr__("fast") == module.fast == "option fast"


class Asks(MetaPathFinder):
    """Asks all finders, as tools do that act after an import."""

    asking = False

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if not self.asking and fullname.startswith("torch_absent."):
            self.asking = True
            assert find_spec(fullname) is None
            self.asking = False


def test_import_gets_the_error_behind_another_finder(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    stand("NAME = 1")
    importlib.import_module("torch_absent")
    monkeypatch.setattr(sys, "meta_path", [Asks(), *sys.meta_path])

    with pytest.raises(northbridge.NotSimulatedError) as caught:
        importlib.import_module("torch_absent.graphs")

    assert str(caught.value) == WITHOUT.format("graphs")


def test_without_a_page_the_message_names_none(tmp_path: Path) -> None:
    said = StandIns("absent", northbridge.Simulation({"torch_absent": tmp_path})).without("torch_absent.graphs")

    assert said == "the simulated absent has no torch_absent.graphs; a real one may have it"


# --- Stand-ins that are rows of a table

TABLE = """
import sys
def torch():
    import acme.runtime
    print("imported", "acme.runtime" in sys.modules)
    return {"count": len}
STAND_INS = {"acme": {"version": "1"}, "acme.torch": torch, "acme.runtime": {"start": print}}
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let `acme` be stood in for by a table, for this test."""
    file = tmp_path / "acme_table.py"
    file.write_text(TABLE)
    monkeypatch.syspath_prepend(tmp_path)
    with standing("acme", northbridge.Simulation({"acme": "acme_table"}, page="docs/acme.md"), "acme", "acme_table"):
        yield file


def test_rows_of_a_table_are_modules(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec: Any = find_spec("acme")
    assert (spec.origin, "acme_table" in sys.modules) == (str(table), False)

    module = importlib.import_module("acme.torch")

    assert capsys.readouterr().out == "imported True\n"
    assert (module.count, module.__file__) == (len, str(table))
    assert importlib.import_module("acme").version == "1"


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("from acme import jit", "jit"),
        ("from acme.torch import jit", "torch.jit"),
        ("import acme.acme_table", "acme_table"),  # a file beside the table
    ],
)
def test_name_that_a_table_lacks_is_not_simulated(table: Path, code: str, absent: str) -> None:
    with pytest.raises(northbridge.NotSimulatedError, match=rf"^the simulated acme has no acme\.{absent}; see docs/"):
        exec(code, {})
    assert find_spec(f"acme.{absent}") is None


def test_row_that_raises_tells_its_own_error(table: Path) -> None:
    table.write_text(
        "def torch(): raise AssertionError('too few cards')\nSTAND_INS = {'acme': {}, 'acme.torch': torch}"
    )

    for _ in range(2):
        with pytest.raises(AssertionError, match=r"^too few cards$"):
            importlib.import_module("acme.torch")


def test_table_that_raises_is_named(table: Path) -> None:
    table.write_text("raise OSError('no compiler')")

    with pytest.raises(northbridge.SimulationError, match=r"importing \S+acme_table.py raised OSError: no compiler\."):
        importlib.import_module("acme.torch")
