"""The names of ``torch.sdaa`` and their answers, as public sources tell, and operators that others found missing."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from tests.backends.simulation.processes import Run
from tests.scripts import run_python
from torch import Tensor

import northbridge


@pytest.mark.shows("/dev/tcaicard")
def test_devices_are_set_and_called_by_the_file_of_their_card(sdaa: ModuleType) -> None:
    for device, index in ((3, 3), ("sdaa:4", 4), (torch.device("sdaa", 5), 5)):
        sdaa.set_device(device)
        assert sdaa.current_device() == index
    with sdaa.device(2):
        assert torch.ones(1, device="sdaa").device == torch.device("sdaa", 2)
    assert sdaa.current_device() == 5
    sdaa.set_device(0)
    cards = [sdaa.get_device_name(index) for index in (0, 3, 4, 31)]
    assert cards == ["/dev/tcaicard0", "/dev/tcaicard0", "/dev/tcaicard1", "/dev/tcaicard7"]
    properties = sdaa.get_device_properties(0)
    assert (properties.name, properties.total_memory) == ("/dev/tcaicard0", 15296 * 2**20)
    # CUDA's have these.
    assert not any(hasattr(properties, name) for name in ("multi_processor_count", "major"))
    assert sdaa.get_device_capability() is None
    assert (sdaa.is_available(), sdaa.is_bf16_supported()) == (True, True)


def test_memory_is_counted_under_old_names_and_new(sdaa: ModuleType) -> None:
    held = torch.ones(2**20, device="sdaa:0")

    assert sdaa.memory_allocated(0) >= held.nbytes
    assert sdaa.memory_cached(0) == sdaa.memory_reserved(0) >= held.nbytes
    assert sdaa.max_memory_cached(0) == sdaa.max_memory_reserved(0) >= held.nbytes
    assert sdaa.memory_stats(0)["allocated_bytes.all.current"] == sdaa.memory_allocated(0)
    free, total = sdaa.mem_get_info(0)
    assert total - free >= held.nbytes
    peak = sdaa.max_memory_allocated(0)
    del held
    for reset in (sdaa.reset_peak_memory_stats, sdaa.reset_max_memory_allocated, sdaa.reset_max_memory_cached):
        reset(0)
    assert sdaa.max_memory_allocated(0) < peak
    sdaa.empty_cache()


@pytest.mark.shows("random numbers differ from CUDA's")
def test_random_numbers_are_seeded_kept_and_put_back(sdaa: ModuleType) -> None:
    sdaa.manual_seed(3)
    assert sdaa.initial_seed() == 3
    sdaa.manual_seed_all(4)
    state, states = sdaa.get_rng_state(0), sdaa.get_rng_state_all()
    first = torch.rand(3, device="sdaa:0").cpu()

    sdaa.set_rng_state(state, 0)
    again = torch.rand(3, device="sdaa:0").cpu()
    sdaa.set_rng_state_all(states)
    once_more = torch.rand(3, device="sdaa:0", generator=sdaa.default_generators[0]).cpu()

    assert len(states) == len(sdaa.default_generators) == 32
    assert torch.equal(first, again)
    assert torch.equal(first, once_more)


@pytest.mark.shows("torch.amp.GradScaler")
def test_mixed_precision_goes_by_names_of_torch_and_vendor(sdaa: ModuleType) -> None:
    left, right = torch.ones(2, 2, device="sdaa"), torch.ones(2, 2, device="sdaa")

    with sdaa.amp.autocast():
        assert (left @ right).dtype == torch.float16
    with torch.autocast("sdaa", torch.bfloat16):
        assert (left @ right).dtype == torch.bfloat16
    assert sdaa.amp.GradScaler(init_scale=8.0).scale(left).max().item() == 8.0
    assert torch.amp.GradScaler("sdaa", init_scale=4.0).scale(left).max().item() == 4.0
    assert set(sdaa.get_amp_supported_dtype()) == {torch.float16, torch.bfloat16}


def test_what_is_called_later_waits_for_the_first_use(run: Run) -> None:
    said = run("""
    calls = []
    torch.sdaa._lazy_call(lambda: calls.append("waited"))
    print(calls, torch.sdaa._initialized, torch.sdaa.is_initialized(), torch.sdaa._is_in_bad_fork())
    torch.sdaa.init()
    torch.ones(1, device="sdaa")
    torch.sdaa._lazy_init()
    torch.sdaa._lazy_call(lambda: calls.append("at once"))
    print(calls, torch.sdaa._initialized, torch_sdaa.__version__)
    """)

    assert said.splitlines()[-2:] == ["[] False False False", "['waited', 'at once'] True 3.3.0b0+simulated"]


@pytest.mark.shows("torch.backends.sdaa.matmul")
def test_what_others_look_for_in_vain_is_not_there(sdaa: ModuleType) -> None:
    assert [hasattr(sdaa, name) for name in ("nvtx", "OutOfMemoryError", "ipc_collect")] == [False] * 3
    assert not hasattr(torch.backends, "sdaa")


@pytest.mark.usefixtures("sdaa")
def test_dtypes_are_those_of_the_vendors_tests() -> None:
    for name in ("bool", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"):
        assert torch.ones(2, dtype=getattr(torch, name), device="sdaa").cpu().tolist() == [1, 1], name
    for name in ("complex64", "float8_e4m3fn", "uint16"):
        with pytest.raises(RuntimeError, match=f"{name} is not supported on SDAA device"):
            torch.zeros(1, dtype=getattr(torch, name), device="sdaa")


@pytest.mark.shows("torch_sdaa.utils.cuda_migrate")
def test_it_passes_for_cuda_where_the_variable_asks_for_that(run: Run, sdaa: ModuleType) -> None:
    said = run("print(torch.cuda.is_available())", TORCH_SDAA_AUTOLOAD="cuda_migrate")

    assert said.splitlines()[-1] == "True"
    with pytest.raises(northbridge.NotSimulatedError) as caught:
        exec("from torch_sdaa.utils import cuda_migrate")
    assert str(caught.value) == (
        "the simulated Teco card has no torch_sdaa.utils; a real one may have it. Fix: without cuda_migrate, write"
        ' torch.sdaa and device "sdaa"'
    )


@pytest.mark.usefixtures("sdaa")
def test_lacking_operation_is_refused_for_its_dtype() -> None:
    calls: list[tuple[str, Callable[[Tensor], object], torch.dtype]] = [
        ("max(dim) is not supported for bool on SDAA device.", lambda x: x.max(0), torch.bool),
        ("asinh is not supported for int64 on SDAA device.", torch.arcsinh, torch.int64),
    ]
    for said, call, dtype in calls:
        with pytest.raises(RuntimeError, match=re.escape(said)):
            call(torch.ones(2, device="sdaa").to(dtype))
        call(torch.ones(2, device="sdaa"))  # and for no other
    assert torch.ones(2, device="sdaa").bool().any(0).item()  # what the page says to do instead


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.usefixtures("sdaa")
def test_fused_adam_steps_as_torch_does(decoupled: bool) -> None:
    torch.manual_seed(1)
    start, gradients = torch.randn(3, 4), torch.randn(5, 3, 4)
    expected = torch.nn.Parameter(start.clone())
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    optimizer = kind([expected], lr=1e-2, weight_decay=0.1)
    weight = start.to("sdaa")
    average, square = torch.zeros_like(weight), torch.zeros_like(weight)

    for step, gradient in enumerate(gradients, start=1):
        expected.grad = gradient
        optimizer.step()
        torch.ops.sdaa.fused_adam(
            [gradient.to("sdaa")], [weight], [average], [square], [], 0.9, 0.999, 1e-8, 1e-2, 0.1, decoupled, step, 1
        )

    torch.testing.assert_close(weight.cpu(), expected.data)


def test_teco_smi_imports_no_torch_at_each_call() -> None:
    program = "import sys; import northbridge_sdaa.simulated.teco_smi; sys.exit('torch' in sys.modules)"

    done = run_python("-c", program)

    assert done.returncode == 0, done.stderr
