"""The allowed content of a device.toml, and the errors for anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

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


def test_what_a_short_file_leaves_out_is_as_on_cpu_sim(tmp_path: Path) -> None:
    device = read(tmp_path, SHORT)

    assert (device.key, device.lacks, device.held_as, device.collective.reduces) == (None, {}, {}, None)
    assert [device.one_per_process, device.autograd_threads, device.ordered_streams] == [False] * 3


@pytest.mark.parametrize(
    ("found", "instead", "said"),
    [
        ("count = 4", "count = 0", "device.count = 0 is not a whole number from 1 to 64"),
        ("count = 4", "", "device.count is missing: expected a whole number from 1 to 64"),
        ("count = 4", "count = 4\nforks = 1", "device.forks = 1 is not a key: there are autograd_threads, collective,"),
        ("key = ", "kye = ", "device.kye = 'XPU' is not a key: did you mean key?"),
        ('"2GiB"', '"2 GiB each"', "device.memory = '2 GiB each' is not the size of one device's memory, from 1MiB to"),
        ('"Example 1"', '"Ex\\nample"', "device.label = 'Ex\\nample' is not a name of 1 to 100 printable"),
        ('type = "xpu"', 'type = "X-PU"', "device.type = 'X-PU' is not torch's name for it, of lower-case"),
        ('"XPU"', '"MPS"', "device.key = 'MPS' is not a dispatch key of torch's own that the simulator knows: HPU or"),
        ('"XPU"', '"HPU"', "device: key = 'HPU' is not the key of type = 'xpu'"),
        ("complex64 = ", "complex65 = ", "device.lacks.complex65 = 'no complex numbers' is not a table from the names"),
        ('"no bmm"', '""', "device.lacks_operations.bmm = '' is not a table from the names of torch's operations"),
        ('float64 = "float32"', 'int64 = "float32"', "device: held_as.int64 = 'float32' is not a narrower dtype"),
        ("complex64 = ", "float32 = ", "device: held_as.float64 = 'float32': one is lacking or held"),
        ('name = "exampleccl"', "", "collective.name is missing: expected a name of lower-case letters, digits"),
        ("product = ", "products = ", "collective.lacks.reductions.products = 'no products' is not a table"),
        ("uint8 = ", "byte = ", "collective.lacks.dtypes.byte = 'no bytes' is not a table from the"),
        ("recv_anysource = ", "receive = ", "collective.lacks.calls.receive = 'say whose' is not a table from"),
        ('through = "float32"', "", "collective.reduces.through is missing: expected one of the floating dtypes"),
        ('["float32"]', '["bfloat16"]', "collective.reduces: through = 'float32' is not in natively ['bfl"),
        ("[collective]\n", "[more]\n[collective]\n", "FILE: unknown table 'more'; known: [device], [coll"),
        (WHOLE, "[device]", "FILE: the table [collective] is missing"),
        ("[device]", "[device", "FILE is not a TOML file: "),
    ],
)
def test_a_wrong_file_is_told_where_it_is_wrong(tmp_path: Path, found: str, instead: str, said: str) -> None:
    assert found in WHOLE
    with pytest.raises(DeviceFileError) as caught:
        read(tmp_path, WHOLE.replace(found, instead, 1))

    text = str(caught.value).replace(str(tmp_path / "device.toml"), "FILE")
    assert text.startswith("FILE")
    assert said in text


def test_deep_nesting_is_told(tmp_path: Path) -> None:
    with pytest.raises(DeviceFileError, match=r"device\.toml is not a (device|TOML) file: .*nest"):
        read(tmp_path, f"device = {'[' * 100_000}")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeviceFileError, match=r"nowhere\.toml cannot be read: No such file or directory"):
        SimulatedDevice.read(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("change", [{"count": 0}, {"lacks": {"complex64": ""}}, {"held_as": {"bool": "int8"}}])
def test_a_changed_copy_is_looked_over_again(tmp_path: Path, change: dict[str, Any]) -> None:
    device = read(tmp_path, WHOLE)

    assert device.checked() == device
    with pytest.raises(DeviceFileError, match="the simulated device 'xpu': device"):
        device.model_copy(update=change).checked()


def test_every_dtype_that_a_file_may_name_is_torchs() -> None:
    names = SimulatedDevice.model_json_schema()["properties"]["lacks"]["propertyNames"]["enum"]

    assert all(isinstance(getattr(torch, name), torch.dtype) for name in names)
