"""Plugins that are wrong in one thing: the suite's level C0 finds each out, and says why; a right one passes.

Each is the right one with a few lines changed. All of them are put to the suite in one pytest of their own. What else
is wrong at C0 stands in ``tests/vendors/wrong``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.core.broken_plugins import write_distribution

from northbridge_conformance.runs.question import ask_again
from northbridge_conformance.suite import JUDGES

pytestmark = pytest.mark.timeout(900)  # one child runs the suite on all of them

RIGHT = """
import northbridge


FUNCTIONS = ["set_device", "synchronize", "get_device_name", "memory_stats", "memory_allocated"]
FUNCTIONS += ["get_rng_state", "set_rng_state", "manual_seed_all", "get_amp_supported_dtype"]


class Chip(northbridge.Device):
    type = "anvil"


class ACL(northbridge.Collective):
    name = "acl"


class Software(northbridge.Bridge):
    def detect(self):
        return 2

    def load(self):
        import torch
        from types import ModuleType

        module = ModuleType("torch.anvil")
        module.device_count = lambda: 2
        module.is_available = lambda: True
        for each in FUNCTIONS:
            setattr(module, each, lambda *given: [])
        torch.utils.rename_privateuse1_backend("anvil")
        if not hasattr(torch, "anvil"):
            torch._register_device_module("anvil", module)


@northbridge.hookimpl
def northbridge_backend():
    return northbridge.Backend(__name__, Chip(), ACL(), Software(), northbridge.Capabilities(simulated=True))
"""
"""A chip with names only; it says that it is simulated so that its processes may be forked."""


@dataclass(frozen=True)
class Wrong:
    """A fault, and how it is found out."""

    old: str
    new: str
    found_by: str
    saying: str


DETECT = "        return 2\n"
_PARTS = RIGHT[RIGHT.index("    type = ") : RIGHT.index("    def load")]
END = ", northbridge.Capabilities(simulated=True))"


def at_import(code: str, broken: str, saying: str) -> Wrong:
    """Return a plugin whose module begins with ``code``, which breaks a rule of imports."""
    old, new = "import northbridge\n", f"{code}\nimport northbridge\n"
    return Wrong(old, new, f"PluginImport::test_import_{broken}", saying)


def in_load(code: str, found_by: str, saying: str) -> Wrong:
    """Return a plugin whose ``load()`` begins with ``code``."""
    line = "        import torch\n"
    return Wrong(line, f"        {code}\n{line}", found_by, saying)


ABORTS = "os.environ.setdefault('ANVIL_FLAGS', 'fast') == 'fast' or os.abort()"
"""Ends the process where the user has set another value than the software knows."""
DECLARES = "PluginMetadata::test_the_module_declares_a_backend_of_that_name"
NO_NEW_THREAD = "starts_no_thread_and_no_process"
AVAILABLE = "Detection::test_is_available_of_the_torch_module_matches_detection"
LOADING, CLAIMS = "SoftwareLoading::test_", "Declaration::test_every_claim_has_a_valid_value"
TAKES_TIME = "import time\nwhile time.process_time() < 0.4: pass"
STARTS_A_THREAD = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
STARTS_A_PROCESS = "import subprocess\nsubprocess.Popen(['sleep', '30'])"
RAISES = "raise RuntimeError('libanvil.so.3 wants GLIBC_2.99')\n"
GLIBC = "libanvil.so.3 wants GLIBC_2.99. Fix: upgrade or uninstall"
MISSING = "\n    def missing(self):\n        return {!r}\n"
LOCK = "\n    def __init__(self):\n        import threading\n        self.lock = threading.Lock()\n"
MTIA = _PARTS.replace("anvil", "mtia").replace("return 2\n", f"return 0\n{MISSING.format('no mtia')}")
MTIA_LACKS = "Chip.label() calls torch.mtia.get_device_name"
ANVIL = "        import torch_anvil\n"

WRONG = {
    "imports_torch": at_import("import torch", "loads_neither_torch_nor_lightning", "'torch'"),
    "takes_its_time": at_import(TAKES_TIME, "costs_at_most_50_milliseconds", "<= 0.05"),
    "greets": at_import("print('Anvil 3.1')", "prints_nothing", "Anvil 3.1"),
    "starts_a_thread": at_import(STARTS_A_THREAD, NO_NEW_THREAD, "2 == 1"),
    "starts_a_process": at_import(STARTS_A_PROCESS, NO_NEW_THREAD, "'sleep'"),
    "writes_at_import": at_import(
        "import os\nos.environ['ANVIL_MODE'] = '1'", "keeps_the_environment_and_sys_path", "ANVIL_MODE"
    ),
    "raises_at_import": Wrong("import northbridge\n", RAISES, DECLARES, GLIBC),
    "another_name": Wrong("Backend(__name__", "Backend('anvil_pro'", DECLARES, "but declares 'anvil_pro'"),
    "later_api": Wrong(
        END,
        f"{END[:-1]}, api=2)",
        "PluginMetadata::test_plugin_is_written_for_this_api_version",
        "needs plugin API 2",
    ),
    "device_is_the_cpu": Wrong(
        'type = "anvil"', 'type = "cpu"', "Declaration::test_device_type_is_a_valid_torch_name", "'cpu' not in"
    ),
    "module_of_torchs_lacks_a_name": Wrong(
        _PARTS, MTIA, f"{LOADING}device_defaults_find_their_torch_functions", MTIA_LACKS
    ),
    "collective_in_capitals": Wrong(
        'name = "acl"', 'name = "ACL"', "Declaration::test_collective_is_a_valid_torch_name", "'ACL'"
    ),
    "a_claim_is_true": Wrong(
        END, f"{END[:-2]}, bfloat16=True))", CLAIMS, "Capabilities(bfloat16=True): expected northbridge.yes"
    ),
    "operator_is_unknown": Wrong(
        END,
        f"{END[:-2]}, operators={{'lstmm': northbridge.no('it has no cell')}}))",
        "Declaration::test_every_operator_is_known_to_torch",
        "names 'lstmm', which is not an operator of torch",
    ),
    "simulated_is_one": Wrong(
        "simulated=True",
        "simulated=1",
        "Declaration::test_facts_are_booleans",
        "Capabilities(simulated=1): expected True or False",
    ),
    "detect_imports_torch": Wrong(
        DETECT,
        f"        import torch\n{DETECT}",
        "Detection::test_detect_imports_neither_torch_nor_the_vendor_package",
        "'torch'",
    ),
    "is_available_raises": Wrong("lambda: True", "lambda: 1 // 0", AVAILABLE, "ZeroDiv"),
    "is_never_available": Wrong("lambda: True", "lambda: False", AVAILABLE, "'False'"),
    "cannot_be_loaded": in_load(
        "raise OSError('libanvil.so.3')", f"{LOADING}load_works_or_says_what_is_missing", "libanvil.so.3"
    ),
    "overwrites_anybodys": in_load(
        "import os; os.environ['OMP_NUM_THREADS'] = '1'",
        f"{LOADING}load_overwrites_no_environment_variable[alone]",
        "{'OMP_NUM_THREADS': ['3', '1']}",
    ),
    "overwrites_one_and_aborts_on_another": in_load(
        f"import os; os.environ['MASTER_PORT'] = '1'; {ABORTS}",
        "SoftwareLoading::test_load_overwrites_no_environment_variable[alone]",
        "{'MASTER_PORT': ['0', '1']}",
    ),
    "holds_a_lock": Wrong(
        'name = "acl"\n',
        f'name = "acl"\n{LOCK}',
        "Pickling::test_declared_backend_can_be_pickled[collective]",
        "cannot pickle '_thread.lock' object",
    ),
    "holds_a_file_when_loaded": in_load(
        "self.driver = open('/dev/null')",
        "Pickling::test_loaded_backend_can_be_pickled[bridge]",
        "cannot pickle '_io.TextIOWrapper' object",
    ),
    "package_is_not_named": Wrong(
        DETECT,
        f"{DETECT}{MISSING.format('it is not here')}",
        "MissingSoftware::test_load_names_the_missing_package",
        "assert 'torch_anvil' in",
    ),
    "detect_needs_the_package": Wrong(
        DETECT,
        f"{ANVIL}{DETECT}",
        "MissingSoftware::test_detection_works_or_says_the_software_is_missing",
        "No module named 'torch_anvil'",
    ),
}
"""A package of the vendor's is named where the fault is about it: see :func:`source`."""

OVERWRITES = "TestSoftwareLoading::test_load_overwrites_no_environment_variable[alone]"

REFUSES = "refuses_by_an_abort"
"""A right plugin whose software ends the process where a variable has a value that it does not know."""

NEED_THE_PACKAGE = ("package_is_not_named", "detect_needs_the_package")


def source(name: str) -> str:
    """Return the module of a wrong plugin."""
    fault = WRONG[name]
    assert fault.old in RIGHT
    changed = RIGHT.replace(fault.old, fault.new, 1)
    if name in NEED_THE_PACKAGE:
        changed = changed.replace("(northbridge.Bridge):\n", '(northbridge.Bridge):\n    package = "torch_anvil"\n\n')
    return changed


def put(folder: Path, name: str, code: str) -> None:
    """Install a plugin whose module is ``code`` into ``folder``."""
    distribution = f"northbridge-{name.replace('_', '-')}"
    write_distribution(folder, distribution, "1.2.3", {"northbridge.backends": {name: name}}, {f"{name}.py": code})


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the suite's evidence for each test that ran, by its id; empty if it passed."""
    folder = tmp_path_factory.mktemp("plugins")
    put(folder, "right", RIGHT)
    put(
        folder,
        REFUSES,
        RIGHT.replace("        import torch\n", f"        import os; {ABORTS}\n        import torch\n", 1),
    )
    for name in WRONG:
        put(folder, name, source(name))
    (folder / "conftest.py").write_text("from tests.forks.suite import fork_runs\n\nfork_runs()\n")
    classes = [f"class Test_{name}(C0):\n    backend = {name!r}\n" for name in ("right", REFUSES, *WRONG)]
    file = folder / "test_levels.py"
    file.write_text("\n\n".join(["from northbridge_conformance.levels import C0\n", *classes]))
    tests = {f"Test_{name}::Test{fault.found_by}" for name, fault in WRONG.items()}
    tests |= {f"Test_right::Test{fault.found_by}" for fault in WRONG.values()}
    tests.add(f"Test_{REFUSES}::{OVERWRITES}")
    options = ("-c", os.devnull, "-q", "-p", JUDGES[0], "-p", "no:cacheprovider", "--junitxml=found.xml")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(f"{file}::{test}" for test in sorted(tests))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )
    assert (folder / "found.xml").exists(), ran.stdout + ran.stderr
    found: dict[str, str] = {}
    for case in ElementTree.parse(folder / "found.xml").iter("testcase"):
        levels = case.get("classname", "").partition("test_levels.")[2].replace(".", "::")
        bad = [each for each in case if each.tag in ("failure", "error", "skipped")]
        found[f"{levels}::{case.get('name')}"] = "".join(each.text or str(each.attrib) for each in bad)
    assert set(found) == tests, ran.stdout
    return found


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_plugin_is_found_out_and_the_vendor_reads_why(name: str, said: dict[str, str]) -> None:
    assert WRONG[name].saying in said[f"Test_{name}::Test{WRONG[name].found_by}"]


def test_a_right_plugin_passes_all_of_them(said: dict[str, str]) -> None:
    assert {test: text for test, text in said.items() if test.startswith("Test_right") and text} == {}


def test_refusal_by_an_abort_overwrites_nothing(said: dict[str, str]) -> None:
    assert said[f"Test_{REFUSES}::{OVERWRITES}"] == ""


def test_what_its_classes_stand_on_costs_a_plugin_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "anvil_software.py").write_text(RIGHT)
    monkeypatch.syspath_prepend(tmp_path)

    brought = ask_again("plugin:import_module", "anvil_software").facts["modules"]

    assert "anvil_software" in brought
    assert {name for name in brought if name.startswith("northbridge.")} <= {"northbridge.hook"}
