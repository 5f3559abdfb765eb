from __future__ import annotations

import importlib
import inspect
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version
from tests.core.lightning.conftest import Build, refusal
from tests.scripts import run_python

from northbridge import process_record
from northbridge.errors import BackendDisabledError, SettingsError, UnsupportedError
from northbridge.lightning.classes import classes
from northbridge.lightning.corrections import table
from northbridge.lightning.corrections.table import CORRECTIONS, Correction, reason_against, register
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.versions import INSTALL, reason_against_uploads, reason_against_version
from northbridge.process_record import Entry, record

Pretend = Callable[[str], None]


@pytest.fixture
def pretend(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Have the Lightning of the namespace say that it is another version."""
    package = "lightning" if namespace.name.startswith("lightning.") else namespace.name
    return lambda version: monkeypatch.setattr(importlib.import_module(package), "__version__", version)


# --- The table


@pytest.mark.parametrize("row", CORRECTIONS, ids=lambda row: f"{row.name}-{row.hosts[0]}")
def test_every_row_is_in_place_with_its_reason_and_releases(row: Correction) -> None:
    assert len(row.reason.split()) > 3
    assert Version("2.4.0") <= Version(row.first) <= Version("2.6.6")
    assert row.until is None or Version(row.first) < Version(row.until)
    for namespace in NAMESPACES.values():
        if namespace.host not in row.hosts:
            continue
        namespace.connector  # noqa: B018 - imports the namespace, which corrects it
        found = getattr(table._owner(namespace, row), row.name)
        assert found._northbridge_reason == row.reason
        if row.parameters is None:
            assert not inspect.isroutine(found)
            continue
        function = inspect.unwrap(found)
        assert function.__module__.startswith((namespace.name, namespace.fabric))  # some it knows from there
        assert tuple(inspect.signature(function).parameters) == row.parameters


# --- Which Lightning is served


@pytest.mark.parametrize("version", ["2.3.3", "2.8.0", "2.8.0.dev0"])
def test_an_unknown_lightning_is_left_alone_and_warned_of(namespace: Namespace, pretend: Pretend, version: str) -> None:
    pretend(version)

    with pytest.warns(UserWarning, match="^Northbridge leaves ") as caught:
        register(namespace.name)

    (warning,) = caught
    assert str(warning.message) == (
        f"Northbridge leaves {namespace.name} alone; its backends cannot be used there: version"
        f" {version} is not supported. Fix: {INSTALL}"
    )
    pretend("main")
    assert reason_against(namespace) == "its version 'main' cannot be parsed"


def test_a_newer_lightning_is_used_and_the_record_says_so(namespace: Namespace, pretend: Pretend) -> None:
    assert Entry(namespace.name, "registered", f"{namespace.name} {namespace.version}") in record()
    before = [getattr(table._owner(namespace, row), row.name) for row in CORRECTIONS if namespace.host in row.hosts]
    pretend("2.7.1")

    register(namespace.name)

    remark = f"{namespace.name} 2.7.1 (newer than 2.6.6, the newest that was tested)"
    assert Entry(namespace.name, "registered", remark) in record()
    after = [getattr(table._owner(namespace, row), row.name) for row in CORRECTIONS if namespace.host in row.hosts]
    assert after == before  # nothing is corrected twice


@pytest.mark.parametrize(("version", "asked"), [("2.4.9", False), ("2.5.9", True), ("2.6.0", False)])
def test_a_row_is_asked_of_its_releases(namespace: Namespace, pretend: Pretend, version: str, asked: bool) -> None:
    pretend(version)
    row = replace(CORRECTIONS[2], first="2.5.0", until="2.6.0")

    assert table._rows((row,), namespace) == ([row] if asked else [])


def test_the_strategies_are_registered_for_people_to_find(namespace: Namespace) -> None:
    ours = [name for name in namespace.strategy_registry if "cpu_sim" in name]

    assert len(ours) == 1 + 4 * 3
    assert {"single_cpu_sim", "ddp_cpu_sim", "ddp_cpu_sim_notebook_find_unused_parameters_true"} < set(ours)


def test_a_backend_switched_off_after_registration_is_an_error(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORTHBRIDGE_DISABLE", "cpu_sim")

    said = refusal(BackendDisabledError, build, accelerator="cpu_sim")

    assert said.endswith(" is disabled. Fix: remove 'cpu_sim' from NORTHBRIDGE_DISABLE")


@pytest.mark.parametrize(
    ("variable", "value", "meant"),
    [
        ("NORTHBRIDGE_DETECT_TIMEOUT", "abc", "a number of seconds above 0"),
        ("NORTHBRIDGE_DISABLE", "true", "is not 1 (all), or names"),
        ("NORTHBRIDGE_SIMLATE", "cpu_sim", "did you mean NORTHBRIDGE_SIMULATE?"),
    ],
)
def test_a_wrong_setting_is_told_when_a_backend_is_asked_for(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, meant: str
) -> None:
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr(process_record, "_entries", [])

    register(namespace.name)

    said = refusal(SettingsError, build, accelerator="cpu_sim")
    assert said.startswith(f"{variable}={value!r} is not")
    assert meant in said
    assert "wrong setting" in [entry.outcome for entry in record()]


# --- Malicious uploads, which are told from Lightning's own repository: it says the same version


Install = Callable[..., None]
SAYS = "was a malicious upload: uninstall it now, and see GHSA-w37p-236h-pfx3"
CLONE = {"url": "https://github.com/Lightning-AI/pytorch-lightning", "vcs_info": {"vcs": "git", "commit_id": "7f0c343"}}
ARCHIVE = {"url": "https://files.example/lightning-2.6.2.tar.gz", "archive_info": {}}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install the metadata of a distribution before all others; ``origin`` is its ``direct_url.json``."""

    def install(name: str, version: str, origin: object = None) -> None:
        info = tmp_path / name / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        if origin is not None:
            (info / "direct_url.json").write_bytes(origin if isinstance(origin, bytes) else json.dumps(origin).encode())
        monkeypatch.syspath_prepend(tmp_path / name)

    return install


@pytest.mark.parametrize("name", ["lightning", "pytorch-lightning", "lightning-fabric"])
def test_one_upload_spoils_every_namespace(name: str, namespace: Namespace, install: Install) -> None:
    install(name, "2.6.3")

    assert reason_against(namespace) == f"{name} 2.6.3 {SAYS}"


def test_classes_of_a_good_lightning_beside_an_upload(install: Install) -> None:
    install("lightning", "2.6.2", CLONE)  # which excuses nothing
    install("pytorch-lightning", "2.6.2")

    said = refusal(UnsupportedError, classes.__wrapped__, NAMESPACES["lightning.pytorch"])  # the others keep theirs

    assert said == f"lightning.pytorch is not used: pytorch-lightning 2.6.2 {SAYS}"


@pytest.mark.parametrize(
    "origin", [CLONE, {"url": "file:///", "dir_info": {}}, {"url": "file:///gone", "dir_info": {"editable": True}}]
)
def test_a_source_build_is_served_and_named(
    origin: Any, namespace: Namespace, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Namespace, "version", "2.6.2")
    install(namespace.distributions[0], "2.6.2", origin)

    register(namespace.name)

    remark = "(built from source, says 2.6.2; not tested. If a run fails, install 2.6.6)"
    assert Entry(namespace.name, "registered", f"{namespace.name} 2.6.2 {remark}") in record()


@pytest.mark.parametrize(
    "origin",
    [
        None,
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        [],
        ARCHIVE,
        {**ARCHIVE, "dir_info": {}},
        {**ARCHIVE, **CLONE},
        {**CLONE, "vcs_info": "git"},
        {"url": "file:///etc/passwd", "dir_info": {}},
        {"url": "https://files.example/lightning", "dir_info": {}},
        {"url": "file://[", "dir_info": {}},
        {"dir_info": {}},
    ],
)
def test_anything_else_counts_as_the_upload(origin: object, install: Install) -> None:
    install("lightning", "2.6.2", origin)

    assert reason_against_uploads() == f"lightning 2.6.2 {SAYS}"
    for name in ("lightning", "not-installed"):
        assert reason_against_version("2.6.2", (name,)) == f"version 2.6.2 {SAYS}"


# --- In a process of its own, where no namespace has been corrected yet


BY_HAND = """
import importlib, json, sys, warnings
import torch
import lightning.pytorch, lightning.fabric, pytorch_lightning, lightning_fabric

def functions():
    found = {}
    for name, module in sys.modules.items():
        if name.split(".")[0] in ("lightning", "pytorch_lightning", "lightning_fabric"):
            for key, value in vars(module).items():
                found[name, key] = id(value)
                if key.endswith(("Registry", "REGISTRY")) and name.endswith((".accelerators", ".strategies")):
                    found[name, key, "register"] = id(getattr(value.register, "__func__", value.register))
                if isinstance(value, type) and value.__module__ == name:
                    found.update({(name, key, inner): id(each) for inner, each in vars(value).items()})
    return found

# Something trains before Northbridge comes, somebody else has our name in one namespace, and another has changed.
torch.nn.Linear(1, 1)(torch.ones(1)).backward()

class Theirs(lightning_fabric.accelerators.CPUAccelerator):
    pass

lightning_fabric.accelerators.ACCELERATOR_REGISTRY.register("cpu_sim", Theirs)
changed = lightning.fabric.connector._Connector
changed._init_strategy = lambda self, strategy: None
setup = lightning.pytorch.trainer.setup
log_device_info = setup._log_device_info
del setup._log_device_info

before = functions()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import northbridge.lightning
after = functions()

report = {"warnings": [str(each.message) for each in caught]}
report["replaced"] = sorted([list(key) for key, value in after.items() if before.get(key, value) != value])
report["added"] = sorted([list(key) for key in after.keys() - before.keys() if "northbridge" not in str(key)])
report["names"] = {
    "lightning.fabric": "cpu_sim" in lightning.fabric.accelerators.ACCELERATOR_REGISTRY,
    "lightning.pytorch": "cpu_sim" in lightning.pytorch.accelerators.AcceleratorRegistry,
    "pytorch_lightning": "cpu_sim" in pytorch_lightning.accelerators.AcceleratorRegistry,
}
theirs = lightning_fabric.Fabric(accelerator="cpu_sim", devices=1)
report["theirs"] = type(theirs.accelerator).__name__

# Under warnings that are errors, a namespace that is left alone must not become a failure of the import.
setup._log_device_info = log_device_info
warnings.simplefilter("error")
northbridge.autoload.arm()
warnings.simplefilter("default")
report["record"] = [[each.subject, each.outcome, each.reason] for each in northbridge.record()]

# The connector is executed again.
reloaded = importlib.reload(sys.modules["pytorch_lightning.trainer.connectors.accelerator_connector"])
report["reloaded"] = hasattr(reloaded._AcceleratorConnector._init_strategy, "_northbridge_reason")
trainer = pytorch_lightning.Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False)
report["trained"] = type(trainer.strategy).__name__
print("\\n" + json.dumps(report))
"""


def run(code: str, **environ: str) -> Any:
    child = run_python("-c", code, environ={**os.environ, **environ})
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def by_hand() -> Any:
    """Return the outcome for four namespaces imported before Northbridge, three of them not as it expects."""
    return run(BY_HAND, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_row_without_a_match_leaves_the_namespace_alone(by_hand: Any) -> None:
    alone = "its backends cannot be used there: version 2.6.6 differs from what Northbridge knows"

    assert sorted(by_hand["warnings"]) == [
        (
            f"Northbridge leaves lightning.fabric alone; {alone}: _init_strategy takes ('self', 'strategy'), not"
            " ('self',). Fix: upgrade Northbridge"
        ),
        f"Northbridge leaves lightning.pytorch alone; {alone}: _log_device_info is gone. Fix: upgrade Northbridge",
    ]
    assert by_hand["names"] == {"lightning.fabric": False, "lightning.pytorch": False, "pytorch_lightning": True}
    assert not [key for key in by_hand["replaced"] if key[0].startswith("lightning.")]


def places(namespace: Namespace, row: Correction) -> Iterator[tuple[str, str]]:
    """Yield the modules in which ``row`` replaces something, each with the name of it or of its class."""
    if row.module is None:
        yield namespace.connector.__name__, namespace.connector_class
    else:
        yield f"{namespace.name}.{row.module}", row.owner if isinstance(row.owner, str) else row.name
    if row.imported_by is not None:
        yield f"{namespace.name}.{row.imported_by}", row.name


def test_nothing_is_replaced_but_what_the_table_names(by_hand: Any) -> None:
    named = {row.name for row in CORRECTIONS if not row.command}

    assert {key[-1] for key in by_hand["replaced"]} == named
    assert by_hand["added"] == []
    assert {tuple(key[:2]) for key in by_hand["replaced"]} == {
        place
        for name in ("lightning_fabric", "pytorch_lightning")
        for row in CORRECTIONS
        if NAMESPACES[name].host in row.hosts and not row.command
        for place in places(NAMESPACES[name], row)
    }


def test_name_registered_by_others_is_left_to_them(by_hand: Any) -> None:
    assert by_hand["theirs"] == "Theirs"
    assert ["cpu_sim", "left alone", "__main__.Theirs has it in lightning_fabric"] in by_hand["record"]


def test_untouched_namespace_fails_nothing_under_strict_warnings(by_hand: Any) -> None:
    assert any(entry[:2] == ["lightning.fabric", "left alone"] for entry in by_hand["record"])
    assert ["lightning.pytorch", "registered", "lightning.pytorch 2.6.6"] in by_hand["record"]


def test_a_connector_that_is_executed_again_is_corrected_again(by_hand: Any) -> None:
    assert by_hand["reloaded"] is True
    assert by_hand["trained"] == "SingleDeviceStrategy"


OFF_WHILE_TORCH_IS_IMPORTED = """
import json, os
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import torch
del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
from lightning.pytorch import Trainer

def ask():
    try:
        trainer = Trainer(accelerator="cpu_sim", devices=1, logger=False, enable_checkpointing=False)
        return str(trainer.strategy.root_device)
    except ValueError as error:
        return str(error)

report = {"before": ask()}
import northbridge
northbridge.get("cpu_sim")
report["declared"] = ask()
northbridge.load("cpu_sim")
print("\\n" + json.dumps({**report, "loaded": ask()}))
"""


def test_loading_a_backend_serves_lightning_without_autoload() -> None:
    """As in a process whose vendor's package switches torch's autoload off while it imports torch."""
    told = run(OFF_WHILE_TORCH_IS_IMPORTED)

    assert told["before"] == told["declared"]
    assert told["before"].startswith("You selected an invalid accelerator name: `accelerator='cpu_sim'`.")
    assert told["loaded"] == "cpu_sim:0"


SWITCHED_OFF = """
import json
from lightning.pytorch import Trainer
from lightning.pytorch.accelerators import AcceleratorRegistry
from lightning.pytorch.trainer import setup
import northbridge
try:
    Trainer(accelerator="cpu_sim")
except Exception as error:
    said = f"{type(error).__name__}: {error}"
corrected = hasattr(setup._log_device_info, "_northbridge_reason")
record = [[each.subject, each.outcome, each.reason] for each in northbridge.record()]
print("\\n" + json.dumps([corrected, "cpu_sim" in AcceleratorRegistry, said, record]))
"""


def test_disabled_northbridge_leaves_lightning_as_it_is() -> None:
    corrected, registered, said, entries = run(SWITCHED_OFF, NORTHBRIDGE_DISABLE="1")

    assert (corrected, registered) == (False, False)
    assert said.startswith("ValueError: You selected an invalid accelerator name: `accelerator='cpu_sim'`")
    assert entries == [["northbridge", "off", "NORTHBRIDGE_DISABLE=1"]]


def test_disabled_backend_is_not_registered_and_says_so() -> None:
    corrected, registered, said, entries = run(SWITCHED_OFF, NORTHBRIDGE_DISABLE="cpu_sim")

    assert (corrected, registered) == (True, False)
    assert said.startswith(
        "BackendDisabledError: backend 'cpu_sim' (northbridge-cpu-sim 0.1.0) is disabled. Fix: remove 'cpu_sim'"
        " from NORTHBRIDGE"
    )
    assert ["cpu_sim", "off", "NORTHBRIDGE_DISABLE names it"] in entries
