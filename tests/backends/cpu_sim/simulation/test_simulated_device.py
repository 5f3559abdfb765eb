"""The allowed content of a device.toml, the errors for anything else, and a made-up vendor whose card is one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.core.conftest import Site

import northbridge
from northbridge_cpu_sim import DeviceFileError, SimulatedDevice

WHOLE = """
[device]
type = "xpu"
key = "XPU"
label = "Example 1"
count = 4
memory = "2GiB"
one_per_process = true
autograd_threads = true
ordered_streams = true
[device.lacks]
complex64 = "no complex numbers"
[device.lacks_operations]
bmm = "no bmm"
"aten::add.Tensor" = { bfloat16 = "no sums of bfloat16" }
[device.held_as]
float64 = "float32"
[collective]
name = "exampleccl"
[collective.lacks.reductions]
product = "no products"
[collective.lacks.dtypes]
uint8 = "no bytes"
[collective.lacks.calls]
recv_anysource = "say whose"
reduce_scatter = { int64 = "no integers" }
[collective.reduces]
natively = ["float32"]
through = "float32"
"""

SHORT = """
[device]
type = "example"
label = "Example 1"
count = 4
memory = "2GiB"
[collective]
name = "exampleccl"
"""


def read(tmp_path: Path, text: str) -> SimulatedDevice:
    file = tmp_path / "device.toml"
    file.write_text(text)
    return SimulatedDevice.read(file)


def complaint(tmp_path: Path, text: str) -> str:
    with pytest.raises(DeviceFileError) as caught:
        read(tmp_path, text)
    return str(caught.value).replace(str(tmp_path / "device.toml"), "FILE")


def test_a_file_says_everything_there_is(tmp_path: Path) -> None:
    device = read(tmp_path, WHOLE)

    assert (device.type, device.key, device.label, device.count) == ("xpu", "XPU", "Example 1", 4)
    assert device.memory == 2 * 2**30
    assert device.one_per_process
    assert device.autograd_threads
    assert device.ordered_streams
    assert device.lacks == {"complex64": "no complex numbers"}
    assert device.lacks_operations == {"bmm": "no bmm", "aten::add.Tensor": {"bfloat16": "no sums of bfloat16"}}
    assert device.held_as == {"float64": "float32"}
    assert device.collective.name == "exampleccl"
    assert device.collective.lacks.reductions == {"product": "no products"}
    assert device.collective.lacks.dtypes == {"uint8": "no bytes"}
    assert device.collective.lacks.calls == {"recv_anysource": "say whose", "reduce_scatter": {"int64": "no integers"}}
    assert device.collective.reduces is not None
    assert (device.collective.reduces.natively, device.collective.reduces.through) == (("float32",), "float32")


def test_what_a_short_file_leaves_out_is_as_on_cpu_sim(tmp_path: Path) -> None:
    device = read(tmp_path, SHORT)

    assert device.key is None
    assert not device.one_per_process
    assert not device.autograd_threads
    assert not device.ordered_streams
    assert (device.lacks, device.held_as, device.collective.reduces) == ({}, {}, None)


def test_every_dtype_that_a_file_may_name_is_torchs(tmp_path: Path) -> None:
    text = complaint(tmp_path, SHORT.replace("[collective]", '[device.lacks]\nfloat = "x"\n[collective]'))
    names = SimulatedDevice.model_json_schema()["properties"]["lacks"]["propertyNames"]["enum"]

    assert "device.lacks" in text
    assert all(isinstance(getattr(torch, name), torch.dtype) for name in names)


@pytest.mark.parametrize(
    ("found", "instead", "said"),
    [
        ("count = 4", "count = 0", "device.count = 0 is not a whole number from 1 to 64"),
        ("count = 4", "", "device.count is missing: expected a whole number from 1 to 64"),
        ("count = 4", "cuont = 4", "device.count is missing: expected a whole number from 1 to 64"),
        ("count = 4", "count = 4\nforks = 1", "device.forks = 1 is not a key: there are autograd_threads, collective,"),
        ("key = ", "kye = ", "device.kye = 'XPU' is not a key: did you mean key?"),
        (
            '"2GiB"',
            '"2 GiB each"',
            "device.memory = '2 GiB each' is not the size of one device's memory, from 1MiB to 1PiB",
        ),
        ('"Example 1"', '"Ex\\nample"', "device.label = 'Ex\\nample' is not a name of 1 to 100 printable"),
        ('type = "xpu"', 'type = "X-PU"', "device.type = 'X-PU' is not torch's name for it, of lower-case"),
        ('"XPU"', '"MPS"', "device.key = 'MPS' is not a dispatch key of torch's own that the simulator knows: HPU or"),
        ('"XPU"', '"HPU"', "device: key = 'HPU' is not the key of type = 'xpu'"),
        ("complex64 = ", "complex65 = ", "device.lacks.complex65 = 'no complex numbers' is not a table from"),
        ('"no complex numbers"', '""', "device.lacks.complex64 = '' is not a table from the names of dtypes"),
        (
            '"no bmm"',
            '""',
            "device.lacks_operations.bmm = '' is not a table from the names of torch's operations",
        ),
        (
            "{ bfloat16 =",
            "{ bf16 =",
            "device.lacks_operations.aten::add.Tensor = {'bf16': 'no sums of bfloat16'} is not a table",
        ),
        ('float64 = "float32"', 'float32 = "float64"', "device: held_as.float32 = 'float64' is not a narrower dtype"),
        ('float64 = "float32"', 'int64 = "float32"', "device: held_as.int64 = 'float32' is not a narrower dtype"),
        ("complex64 = ", "float32 = ", "device: held_as.float64 = 'float32': one is lacking or held"),
        ('name = "exampleccl"', "", "collective.name is missing: expected a name of lower-case letters, digits"),
        ("product = ", "products = ", "collective.lacks.reductions.products = 'no products' is not a table"),
        ("uint8 = ", "byte = ", "collective.lacks.dtypes.byte = 'no bytes' is not a table from the"),
        ('"say whose"', "7", "collective.lacks.calls.recv_anysource = 7 is not a table from the names"),
        (
            "recv_anysource = ",
            "receive = ",
            "collective.lacks.calls.receive = 'say whose' is not a table from",
        ),
        ('through = "float32"', "", "collective.reduces.through is missing: expected one of the floating dtypes"),
        ('["float32"]', '["bfloat16"]', "collective.reduces: through = 'float32' is not in natively ['bfl"),
        ("[collective]\n", "[kollective]\n", "FILE: unknown table 'kollective'; known: [device], [coll"),
        ("[collective]\n", "[more]\n[collective]\n", "FILE: unknown table 'more'; known: [device], [coll"),
        ("[device]\n", "", "FILE: unknown table 'type'; known: [device], [collective]"),
        ("[device]", "[device", "FILE is not a TOML file: "),
    ],
)
def test_a_wrong_file_is_told_where_it_is_wrong(tmp_path: Path, found: str, instead: str, said: str) -> None:
    assert found in WHOLE

    text = complaint(tmp_path, WHOLE.replace(found, instead, 1))

    assert text.startswith("FILE")
    assert said in text


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    text = complaint(tmp_path, SHORT.partition("[collective]")[0])

    assert text == "FILE: the table [collective] is missing"


def test_deep_nesting_is_told(tmp_path: Path) -> None:
    (tmp_path / "device.toml").write_text(f"device = {'[' * 100_000}")

    with pytest.raises(DeviceFileError, match=r"device\.toml is not a (device|TOML) file: .*nest"):
        SimulatedDevice.read(tmp_path / "device.toml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeviceFileError, match=r"nowhere\.toml cannot be read: No such file or directory"):
        SimulatedDevice.read(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("change", [{"count": 0}, {"lacks": {"complex64": ""}}, {"held_as": {"bool": "int8"}}])
def test_a_changed_copy_is_looked_over_again(tmp_path: Path, change: dict[str, Any]) -> None:
    device = read(tmp_path, SHORT)

    with pytest.raises(DeviceFileError, match="the simulated device 'example': device"):
        device.model_copy(update=change).checked()


def test_an_unharmed_copy_is_the_same(tmp_path: Path) -> None:
    device = read(tmp_path, WHOLE)

    assert device.checked() == device


def test_the_error_is_a_northbridge_error_and_a_value_error() -> None:
    assert issubclass(DeviceFileError, northbridge.NorthbridgeError)
    assert issubclass(DeviceFileError, ValueError)


SCRIPT = """
import json
import os
import sys
from pathlib import Path

os.chdir(sys.argv[1])

import lightning.pytorch as pl
import torch
from lightning.pytorch.demos.boring_classes import BoringModel


class Model(BoringModel):
    def on_train_end(self):
        weight, card = self.layer.weight, torch.flint.get_device_properties().card
        told = {"device": str(weight.device), "weight": weight.tolist(), "card": card}
        Path(f"{self.global_rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_model_summary", "enable_progress_bar"), False)
    pl.Trainer(accelerator="flint", devices=2, max_steps=3, **quiet).fit(Model())
"""


@pytest.fixture(scope="module")
def site(install: Callable[..., Site]) -> Site:
    return install("flint")


def test_two_ranks_hold_a_card_each_and_train_one_model(site: Site, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    ended = site.python(
        f"import runpy, sys; sys.argv = [{str(tmp_path / 'script.py')!r}, {str(tmp_path)!r}];"
        " runpy.run_path(sys.argv[0], run_name='__main__')",
        NORTHBRIDGE_SIMULATE="flint",
        FLINT_SERVER=str(tmp_path),
    )

    assert ended.returncode == 0, ended.stderr
    assert "simulated" in ended.stderr
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert (first["device"], first["card"]) == ("flint:0", 0)
    assert (second["device"], second["card"]) == ("flint:0", 1)
    assert first["weight"] == second["weight"]


def test_held_card_is_named_with_its_holder(site: Site, tmp_path: Path) -> None:
    said = site.python(
        """
import os, subprocess, sys
import northbridge, torch
northbridge.load("flint")
torch.ones(1, device="flint")
child = "import northbridge, torch; northbridge.load('flint'); torch.ones(1, device='flint')"
ended = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True)
print(os.getpid(), ended.stderr.splitlines()[-1])
        """,
        NORTHBRIDGE_SIMULATE="flint",
        FLINT_SERVER=str(tmp_path),
    )

    pid, _, error = said.stdout.partition(" ")
    assert error.strip() == (
        f"RuntimeError: card 0 was asked for, but process {pid} holds it. Fix: wait for its end, or take another card"
    )
