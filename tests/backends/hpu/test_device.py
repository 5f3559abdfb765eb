"""The card of a process: taking it, naming it, and what is known of it before."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.backends.simulation.processes import Run
from torch import nn

import northbridge

LOAD = "import northbridge\nbackend = northbridge.load('hpu')\nimport os, torch\n"
TAKE = "backend.bridge.prepare_rank(index={0}, local_rank=0, world_size=1)\nbackend.device.select({0})\n"
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
    def test_a_process_calls_its_card_0_and_has_no_second(self, run: Run) -> None:
        ask = TAKE.format(5) + (
            "print(backend.device.root(5), torch.ones(2, device='hpu').device)\n"
            "backend.device.synchronize()\n"
            "print(set(backend.device.memory_stats(5)) > {'Limit', 'InUse', 'MaxInUse', 'NumAllocs', 'NumFrees'})\n"
        )

        assert run(ask + attempt(TAKE.format(2)), first=LOAD).strip().splitlines()[-3:] == [
            "hpu:0 hpu:0",
            "True",
            (
                "WrongDeviceError this process holds device 5 of 'hpu', not 2. Fix: use another process,"
                " or `if trainer.is_global_zero:`"
            ),
        ]

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


NOT_WITH_TORCH = {"PT_HPU_AUTOLOAD": "0"}
"""In eager mode `import torch` imports the vendor's package too, before anything else can happen."""


QUESTIONS = """
import contextlib, torch
from torch.utils.data import DataLoader
print(torch.accelerator.is_available(), torch.accelerator.current_accelerator(True), torch.accelerator.device_count())
print(torch.get_default_device(), torch.ones(1).is_pinned(), len(list(DataLoader(torch.ones(2, 1), pin_memory=True))))
with contextlib.suppress(RuntimeError):
    torch.accelerator.current_device_index()
"""


class TestLoadedTooLate:
    CPU_BACKWARD = "import torch\ntorch.ones(1, requires_grad=True).sum().backward()\n"

    def test_after_cpu_backward_it_is_an_error_with_the_fix(self, run: Run) -> None:
        take = (
            "from northbridge.lightning.pytorch import Accelerator\n"
            "Accelerator('hpu').setup_device(torch.device('hpu'))"
        )
        said = last(run(attempt(take), first=QUESTIONS + self.CPU_BACKWARD + LOAD, **NOT_WITH_TORCH))

        assert said.startswith("SoftwareLoadError 'hpu' was loaded too late: a backward() ran before")
        assert "Fix: `import northbridge; northbridge.load('hpu')` at the top of the script" in said


class TestTorchAskedFirst:
    """torch keeps its first answer about the accelerator; many a script, and many a library, asks at its import."""

    def test_it_trains_all_the_same(self, run: Run) -> None:
        take = (
            "from northbridge.lightning.pytorch import Accelerator\n"
            "Accelerator('hpu').setup_device(torch.device('hpu'))\n"
            "layer = torch.nn.Linear(2, 1, bias=False).to('hpu')\n"
            "(layer(torch.ones(1, 2).to('hpu')) + layer(torch.ones(1, 2).to('hpu'))).sum().backward()\n"
            "print(torch.accelerator.current_accelerator(), torch.accelerator.is_available(), layer.weight.grad)"
        )

        said = run(take, first=QUESTIONS + LOAD, **NOT_WITH_TORCH).splitlines()

        assert "False None 0" in said
        assert "cpu False 2" in said
        assert said[-1] == "hpu True tensor([[2., 2.]], device='hpu:0')"


class TestWhatIsKnownWithoutTakingACard:
    @pytest.mark.parametrize(
        ("environ", "known"),
        [
            ({"NORTHBRIDGE_HPU_SIM_GENERATION": "1"}, "GAUDI no no yes (torch.bfloat16,)"),
            ({"NORTHBRIDGE_HPU_SIM_GENERATION": "2"}, "GAUDI2 yes yes yes (torch.bfloat16, torch.float16)"),
            (
                {"NORTHBRIDGE_HPU_SIM_GENERATION": "3", "PT_HPU_LAZY_MODE": "1"},
                "GAUDI3 yes no no (torch.bfloat16, torch.float16)",
            ),
            ({"PT_ENABLE_INT64_SUPPORT": "0"}, "GAUDI2 yes no yes (torch.bfloat16, torch.float16)"),
        ],
        ids=["first generation", "second, eager", "third, lazy", "switched off"],
    )
    def test_its_name_and_the_claims_that_it_decides(self, run: Run, environ: dict[str, str], known: str) -> None:
        ask = (
            "here = backend.present_capabilities()\n"
            "claims = [here.claims()[name].answer for name in ('float16', 'int64', 'data_loaders')]\n"
            "print(backend.device.label(0), *claims, backend.device.autocast_dtypes(), torch.hpu.is_initialized())"
        )

        assert last(run(ask, first=LOAD, **environ)) == f"{known} False"

    @pytest.mark.usefixtures("hpu")
    def test_an_unknown_claim_names_its_source(self) -> None:
        claims = northbridge.load("hpu").present_capabilities().claims()
        unknown = {name: claim for name, claim in claims.items() if claim.answer == "unknown"}

        assert [name for name, claim in unknown.items() if "https://" not in claim.reason] == []

    def test_how_many_there_are(self, run: Run) -> None:
        ask = "print(northbridge.available()['hpu'], backend.device.count(), torch.hpu.is_initialized())"

        assert last(run(ask, first=LOAD)) == "8 8 False"
        assert last(run(ask, first=LOAD, HABANA_VISIBLE_MODULES="2,3")) == "2 2 False"


def test_a_precision_it_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from lightning.pytorch import Trainer

    with pytest.raises(northbridge.UnsupportedError) as wide:
        Trainer(accelerator="hpu", devices=1, precision="64-true", logger=False)
    monkeypatch.setattr(northbridge.get("hpu").device, "generation", 1)
    with pytest.raises(northbridge.UnsupportedError) as half:
        Trainer(accelerator="hpu", devices=1, precision="16-mixed", logger=False)

    assert str(wide.value) == (
        "precision='64-true': 'hpu' has no float64: it is stored as float64 and computed as float32 there. Fix:"
        " precision='32-true'"
    )
    assert str(half.value) == (
        "precision='16-mixed': 'hpu' has no float16: the first generation of Gaudi has none. Fix:"
        " precision='bf16-mixed'"
    )


NO_SPARSE = (
    "but 'hpu' has no sparse tensors (Unrecognized tensor type ID: SparseHPU). Fix: sparse=False, and Adam instead of"
    " SparseAdam"
)
NOT_THERE: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "sparse gradients": (
        lambda: nn.Embedding(4, 2, sparse=True),
        f"'layer' is Embedding(sparse=True), {NO_SPARSE}",
    ),
    "a bag of them": (
        lambda: nn.EmbeddingBag(4, 2, sparse=True),
        f"'layer' is EmbeddingBag(sparse=True), {NO_SPARSE}",
    ),
    "complex": (
        lambda: nn.Linear(2, 2, dtype=torch.complex64),
        (
            "the parameter 'layer.weight' is complex64, but 'hpu' cannot hold it (Complex datatype is not supported on"
            " HPU device). Fix: torch.view_as_real()"
        ),
    ),
    "sparse": (
        lambda: nn.ParameterDict({"edges": nn.Parameter(torch.eye(2).to_sparse(), False)}),
        (
            "the parameter 'layer.edges' is sparse, but 'hpu' has no sparse tensors (Unrecognized tensor type ID:"
            " SparseHPU). Fix: to_dense()"
        ),
    ),
}


@pytest.mark.parametrize(("make", "said"), NOT_THERE.values(), ids=NOT_THERE)
@pytest.mark.usefixtures("hpu")
def test_tensors_that_it_does_not_have_are_refused(make: Callable[[], nn.Module], said: str) -> None:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="hpu", devices=1)
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)

    with pytest.raises(northbridge.UnsupportedError) as caught:
        fabric.setup(nn.ModuleDict({"layer": make()}), optimizer)

    assert str(caught.value) == said
