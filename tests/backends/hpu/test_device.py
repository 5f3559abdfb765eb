"""The card of a process: taking it, naming it, and what is known of it before."""

from __future__ import annotations

import os
import signal

import pytest
from tests.backends.simulation.processes import Run, Start

import northbridge

LOAD = "import northbridge\nbackend = northbridge.load('hpu')\nimport os, torch\n"
TAKE = "backend.bridge.prepare_rank(index={0}, local_rank=0, world_size=1)\nbackend.device.select({0})\n"
HOLD = TAKE.format(3) + "print('holds', flush=True)\ninput()\n"
TRY = """
try:
    {take}
except northbridge.NorthbridgeError as error:
    print(type(error).__name__, error)
"""


def last(said: str) -> str:
    return said.strip().splitlines()[-1]


def attempt(take: str) -> str:
    return TRY.format(take=take.strip().replace("\n", "\n    "))


class TestTakingACard:
    def test_a_process_calls_its_card_0_whichever_it_is(self, run: Run) -> None:
        ask = TAKE.format(5) + "print(backend.device.root(5), torch.ones(2, device='hpu').device)"

        assert last(run(ask, first=LOAD)) == "hpu:0 hpu:0"

    def test_a_second_card_is_refused(self, run: Run) -> None:
        assert last(run(TAKE.format(1) + attempt(TAKE.format(2)), first=LOAD)) == (
            "WrongDeviceError this process holds device 1 of 'hpu', not 2. Fix: use another process,"
            " or `if trainer.is_global_zero:`"
        )

    @pytest.mark.shows("a card's device file carries its index")
    def test_held_card_is_an_error_that_says_which(self, run: Run, start: Start) -> None:
        holder = start(HOLD, first=LOAD)
        try:
            assert holder.stdout is not None
            while holder.stdout.readline().strip() != "holds":
                pass
            said = run(attempt(TAKE.format(3)), first=LOAD)
        finally:
            holder.kill()
            holder.communicate()

        assert (
            "DeviceBusyError device 3 of 'hpu' (HLS_MODULE_ID=3) could not be acquired: synStatus=20"
            f" [Device already acquired] Device acquire failed; process {holder.pid} ("
        ) in said
        assert said.strip().endswith(
            " holds it. Fix: wait for it or end it, or set HABANA_VISIBLE_MODULES to free modules (0, 1, 2, 4, 5, 6, 7)"
        )

    @pytest.mark.parametrize("words", ["acquire failed. No devices found.", "[Device not found] acquire"])
    def test_a_card_that_is_not_there_is_not_said_to_be_held(self, run: Run, words: str) -> None:
        fail = f"""
def fail():
    raise RuntimeError({words!r})
torch.hpu.current_device = fail
"""

        assert last(run(fail + attempt(TAKE.format(0)), first=LOAD)) == (
            f"DetectionError device 0 of 'hpu' (HLS_MODULE_ID=0) could not be acquired: {words.rstrip('.')}."
            " Fix: see hl-smi, and give the container the card"
        )

    def test_the_card_of_a_killed_process_is_free(self, run: Run, start: Start) -> None:
        holder = start(HOLD, first=LOAD)
        assert holder.stdout is not None
        while holder.stdout.readline().strip() != "holds":
            pass
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()

        assert last(run(TAKE.format(3) + "print('taken')", first=LOAD)) == "taken"


NOT_WITH_TORCH = {"PT_HPU_AUTOLOAD": "0"}
"""In eager mode `import torch` imports the vendor's package too, before anything else can happen."""


class TestLoadedTooLate:
    CPU_BACKWARD = "import torch\ntorch.ones(1, requires_grad=True).sum().backward()\n"

    def test_after_cpu_backward_it_is_an_error_with_the_fix(self, run: Run) -> None:
        take = (
            "from northbridge.lightning.pytorch import Accelerator\n"
            "Accelerator('hpu').setup_device(torch.device('hpu'))"
        )
        said = last(run(attempt(take), first=self.CPU_BACKWARD + LOAD, **NOT_WITH_TORCH))

        assert said.startswith("SoftwareLoadError 'hpu' was loaded too late: a backward() ran before")
        assert "Fix: `import northbridge; northbridge.load('hpu')` at the top of the script" in said

    def test_before_one_it_trains(self, run: Run) -> None:
        train = (
            TAKE.format(0) + "x = torch.ones(2, device='hpu', requires_grad=True)\nx.sum().backward()\nprint(x.grad)"
        )

        assert last(run(self.CPU_BACKWARD.removeprefix("import torch\n") + train, first=LOAD)).startswith(
            "tensor([1., 1.]"
        )


class TestTorchAskedFirst:
    """torch keeps its first answer about the accelerator; many a script, and many a library, asks at its import."""

    QUESTIONS = """
import contextlib, torch
from torch.utils.data import DataLoader
print(torch.accelerator.is_available(), torch.accelerator.current_accelerator(True), torch.accelerator.device_count())
print(torch.get_default_device(), torch.ones(1).is_pinned(), len(list(DataLoader(torch.ones(2, 1), pin_memory=True))))
with contextlib.suppress(RuntimeError):
    torch.accelerator.current_device_index()
"""

    def test_it_trains_all_the_same(self, run: Run) -> None:
        take = (
            "from northbridge.lightning.pytorch import Accelerator\n"
            "Accelerator('hpu').setup_device(torch.device('hpu'))\n"
            "layer = torch.nn.Linear(2, 1, bias=False).to('hpu')\n"
            "(layer(torch.ones(1, 2).to('hpu')) + layer(torch.ones(1, 2).to('hpu'))).sum().backward()\n"
            "print(torch.accelerator.current_accelerator(), torch.accelerator.is_available(), layer.weight.grad)"
        )

        said = run(take, first=self.QUESTIONS + LOAD, **NOT_WITH_TORCH).splitlines()

        assert "False None 0" in said
        assert "cpu False 2" in said
        assert said[-1] == "hpu True tensor([[2., 2.]], device='hpu:0')"

    def test_a_backward_before_is_the_cause_that_is_named(self, run: Run) -> None:
        take = (
            "from northbridge.lightning.fabric import Accelerator\nAccelerator('hpu').setup_device(torch.device('hpu'))"
        )
        first = self.QUESTIONS + TestLoadedTooLate.CPU_BACKWARD + LOAD
        said = last(run(attempt(take), first=first, **NOT_WITH_TORCH))

        assert said.startswith("SoftwareLoadError 'hpu' was loaded too late: a backward() ran before")


class TestWhatIsKnownWithoutTakingACard:
    @pytest.mark.parametrize(("generation", "name"), [("1", "GAUDI"), ("2", "GAUDI2"), ("3", "GAUDI3")])
    def test_its_name(self, run: Run, generation: str, name: str) -> None:
        ask = "print(backend.device.label(0), torch.hpu.is_initialized())"

        assert last(run(ask, first=LOAD, NORTHBRIDGE_HPU_SIM_GENERATION=generation)) == f"{name} False"

    @pytest.mark.parametrize(
        ("environ", "claims"),
        [
            ({"NORTHBRIDGE_HPU_SIM_GENERATION": "1"}, "no no yes"),
            ({"NORTHBRIDGE_HPU_SIM_GENERATION": "2"}, "yes yes yes"),
            ({"NORTHBRIDGE_HPU_SIM_GENERATION": "3", "PT_HPU_LAZY_MODE": "1"}, "yes no no"),
            ({"PT_ENABLE_INT64_SUPPORT": "0"}, "yes no yes"),
        ],
        ids=["first generation", "second, eager", "third, lazy", "switched off"],
    )
    def test_claims_that_the_card_decides(self, run: Run, environ: dict[str, str], claims: str) -> None:
        ask = (
            "here = backend.present_capabilities()\n"
            "print(*(here.claims()[name].answer for name in ('float16', 'int64', 'data_loaders')))"
        )

        assert last(run(ask, first=LOAD, **environ)) == claims

    @pytest.mark.usefixtures("hpu")
    def test_an_unknown_claim_names_its_source(self) -> None:
        claims = northbridge.load("hpu").present_capabilities().claims()
        unknown = {name: claim for name, claim in claims.items() if claim.answer == "unknown"}

        assert [name for name, claim in unknown.items() if "https://" not in claim.reason] == []

    def test_how_many_there_are(self, run: Run) -> None:
        ask = "print(northbridge.available()['hpu'], backend.device.count(), torch.hpu.is_initialized())"

        assert last(run(ask, first=LOAD)) == "8 8 False"
        assert last(run(ask, first=LOAD, HABANA_VISIBLE_MODULES="2,3")) == "2 2 False"


def test_memory_statistics_are_the_vendors(run: Run) -> None:
    ask = TAKE.format(4) + "held = torch.ones(2**20, device='hpu')\nprint(backend.device.memory_stats(4))"

    said = last(run(ask, first=LOAD))

    for key in ("Limit", "InUse", "MaxInUse", "NumAllocs", "NumFrees"):
        assert f"'{key}': " in said


def test_synchronizing_asks_for_no_device(run: Run) -> None:
    assert last(run(TAKE.format(0) + "backend.device.synchronize()\nprint('done')", first=LOAD)) == "done"


def test_a_first_generation_takes_bfloat16_alone_under_autocast(run: Run) -> None:
    ask = "print(backend.device.autocast_dtypes())"

    assert last(run(ask, first=LOAD, NORTHBRIDGE_HPU_SIM_GENERATION="1")) == "(torch.bfloat16,)"
    assert last(run(ask, first=LOAD)) == "(torch.bfloat16, torch.float16)"
