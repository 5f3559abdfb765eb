"""Recording of steps: what is recorded, when hooks are installed, and what stays as it was."""

from __future__ import annotations

import gc
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric
from lightning.pytorch import LightningModule, Trainer
from tests.core.command import northbridge_here
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import northbridge
from northbridge.lightning.pytorch import CapturedStep, Snapshots
from northbridge.snapshots import recorder, step as step_module
from northbridge.snapshots.records import Step, read_run
from northbridge.snapshots.report import Answer, compare_runs

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*(workers|number of training batches):UserWarning"),
    pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning"),  # in validation
    pytest.mark.filterwarnings(
        "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
    ),  # torch.compile
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),  # Lightning's use of torch
]


@dataclass
class Scores:
    """The result of a module, as a dataclass."""

    scores: Tensor
    hidden: dict[str, Tensor]


class Net(nn.Module):
    """A module that is called twice, a change in place, and a block that may be checkpointed."""

    def __init__(self, checkpointed: str = "") -> None:
        super().__init__()
        self.checkpointed = checkpointed
        self.first, self.shared, self.head = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 2)
        self.block = nn.Sequential(nn.Linear(16, 16), nn.ReLU(inplace=True), nn.Linear(16, 16))

    def forward(self, rows: Tensor) -> Scores:
        hidden = self.shared(self.shared(self.first(rows)))
        if self.checkpointed:
            hidden = checkpoint(self.block, hidden, use_reentrant=self.checkpointed == "reentrant")
        else:
            hidden = self.block(hidden)
        return Scores(self.head(hidden), {"hidden": hidden})


class Module(LightningModule):
    """A net whose validation is not recorded."""

    def __init__(self, checkpointed: str = "") -> None:
        super().__init__()
        self.net = Net(checkpointed)
        self.hooked: list[bool] = []

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        self.hooked.append(has_hooks(self))
        return cross_entropy(self.net(batch[0]).scores, batch[1])

    def validation_step(self, batch: list[Tensor], index: int) -> None:
        assert not has_hooks(self)
        self.net(batch[0])

    def configure_optimizers(self) -> Any:
        if self.device.type == "cpu":
            return torch.optim.AdamW(self.parameters(), 1e-2)
        return torch.optim.AdamW(self.parameters(), torch.tensor(1e-2, device=self.device), capturable=True)


def has_hooks(model: nn.Module) -> bool:
    return any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())


def data() -> TensorDataset:
    torch.manual_seed(1)
    return TensorDataset(torch.randn(48, 8), torch.randint(2, (48,)))


def fit(
    folder: Path, *callbacks: Any, change: Any = None, checkpointed: str = "", steps: Any = None, **options: Any
) -> Module:
    torch.manual_seed(0)
    module = Module(checkpointed)
    if change is not None:
        change(module.net)
    options = {"accelerator": "cpu", "devices": 1, "max_epochs": 1, "logger": False, **options}
    quiet: dict[str, Any] = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = Trainer(callbacks=[Snapshots(folder, steps), *callbacks], **options, **quiet)
    trainer.fit(module, DataLoader(data(), 8), DataLoader(data(), 16))
    assert not has_hooks(module)
    return module


def steps_of(folder: Path) -> dict[int, Step]:
    run = read_run(folder)
    assert run.damages == []
    return run.ranks[0]


def compare(first: Path, second: Path) -> Answer:
    return compare_runs(read_run(first), read_run(second))


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """The record of a training on the CPU."""
    fit(tmp_path / "plain")
    return tmp_path / "plain"


def test_a_step_has_calls_gradients_and_updates(plain: Path) -> None:
    step = steps_of(plain)[0]

    assert [*steps_of(plain)] == [0, 1, 2, 3, 4]
    assert [(path, call) for path, call in step.by_name if "shared" in path] == [("net.shared", 0), ("net.shared", 1)]
    assert len(step.by_name["net", 0].outputs) == 2
    assert {kind: len(each) for kind, each in step.named.items()} == {
        "weight": 10,
        "batch": 2,
        "gradient": 10,
        "update": 10,
    }
    value = step.values[step.by_name["net.first", 0].outputs[0]]
    assert (value.shape, value.dtype, len(value.sample)) == ([8, 16], "float32", 16)
    assert max(map(abs, value.sample)) <= value.largest <= value.norm


def test_other_steps_have_no_hooks(tmp_path: Path) -> None:
    module = fit(tmp_path / "run", steps=range(0, 6, 3))

    assert module.hooked == [True, False, False, True, False, False]
    assert [*steps_of(tmp_path / "run")] == [0, 3]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"checkpointed": "reentrant"},
        {"checkpointed": "not reentrant"},
        {"val_check_interval": 2},
        {"change": lambda net: net.block.compile(backend="eager")},
        {"change": lambda net: setattr(net, "block", torch.compile(net.block, backend="eager"))},
    ],
    ids=["same", "reentrant", "checkpointed", "validation", "compiled", "compiled wrapper"],
)
def test_the_same_training_is_equal(changed: dict[str, Any], plain: Path, tmp_path: Path) -> None:
    fit(tmp_path / "other", **changed)

    answer = compare(plain, tmp_path / "other")

    assert answer.sentence == "no difference: 5 steps are equal to the bit"
    compiled = "change" in changed
    assert answer.notes == (
        ["15 calls of A have no counterpart in B: they are compiled, captured or not made there"] if compiled else []
    )


def test_micro_batches_are_one_step(plain: Path, tmp_path: Path) -> None:
    fit(tmp_path / "run", accumulate_grad_batches=2)

    steps = steps_of(tmp_path / "run")

    assert [*steps] == [0, 1, 2]
    assert [call for path, call in steps[0].by_name if path == "net.first"] == [0, 1]
    assert [*steps[0].named["batch"]] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("by", ["torch", "Fabric"])
def test_a_run_without_trainer_is_the_reference(by: str, plain: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model: Any = Net()
    optimizer: Any = torch.optim.AdamW(model.parameters(), 1e-2)
    backward: Any = Tensor.backward
    if by == "Fabric":
        fabric = Fabric(accelerator="cpu", devices=1)
        model, optimizer = fabric.setup(model, optimizer)
        backward = fabric.backward
    snapshots = northbridge.Snapshots(tmp_path / "other", model, optimizer)
    for batch in DataLoader(data(), 8):
        with snapshots:
            snapshots.batch(batch)
            loss = cross_entropy(model(batch[0]).scores, batch[1])
            optimizer.zero_grad()
            backward(loss)
            optimizer.step()

    assert not has_hooks(model)
    assert compare(plain, tmp_path / "other").sentence == "no difference: 5 steps are equal to the bit"
    assert compare(tmp_path / "other", plain).path == ""


def test_a_scaler_s_gradients_are_unscaled(tmp_path: Path) -> None:
    for name, scale in (("a", 1.0), ("b", 1024.0)):
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        snapshots = northbridge.Snapshots(tmp_path / name, model, optimizer)
        for rows, labels in DataLoader(data(), 8):
            with snapshots:
                optimizer.zero_grad()
                torch.autograd.backward(scaler.scale(cross_entropy(model(rows).scores, labels)))
                scaler.step(optimizer)
                scaler.update()

    answer = compare(tmp_path / "a", tmp_path / "b")

    assert not answer.differs, answer.sentence


@pytest.mark.parametrize("gives_optimizer", [True, False])
def test_a_skipped_optimizer_step_is_found(gives_optimizer: bool, tmp_path: Path) -> None:
    for name, skipped in (("a", -1), ("b", 1)):
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        snapshots = northbridge.Snapshots(tmp_path / name, model, *([optimizer] if gives_optimizer else []))
        for step, (rows, labels) in enumerate(DataLoader(data(), 8)):
            with snapshots:
                optimizer.zero_grad()
                torch.autograd.backward(cross_entropy(model(rows).scores, labels))
                if step != skipped:
                    optimizer.step()

    sentence = compare(tmp_path / "a", tmp_path / "b").sentence

    assert sentence.startswith("step 1, first.weight: gradients equal to the bit, updates differ by 1; ")


def test_a_part_of_a_skipped_update_is_found(tmp_path: Path) -> None:
    """If gradients are equal to the bit, no sign of one explains it; nor does a gap between recorded steps."""
    for name, wrong in (("a", -1), ("b", 3)):
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        snapshots = northbridge.Snapshots(tmp_path / name, model, optimizer, steps=(0, 3))
        for step, (rows, labels) in enumerate(DataLoader(data(), 8)):
            with snapshots:
                before = model.shared.weight.detach()[12:].clone()
                optimizer.zero_grad()
                torch.autograd.backward(cross_entropy(model(rows).scores, labels))
                optimizer.step()
                if step == wrong:
                    model.shared.weight.detach()[12:] = before

    sentence = compare(tmp_path / "a", tmp_path / "b").sentence

    assert sentence.startswith("step 3, shared.weight: gradients equal to the bit, updates differ by ")


def test_a_difference_of_tiny_numbers_is_measured(tmp_path: Path) -> None:
    for name, last in (("a", 1.0), ("b", 1.0001)):
        snapshots = northbridge.Snapshots(tmp_path / name, nn.Identity())
        with snapshots:
            snapshots.batch(torch.tensor([*[1e-30] * 80, last * 1e-30]))

    answer = compare(tmp_path / "a", tmp_path / "b")

    assert answer.cause in ("", "order of sums"), answer.sentence
    assert steps_of(tmp_path / "a")[0].named["batch"]["0"].norm == pytest.approx(9e-30)


class Refusing(Tensor):
    """A tensor that has no bits to look at."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is Tensor.to:
            raise NotImplementedError
        return super().__torch_function__(function, types, args, kwargs)  # type: ignore[no-untyped-call]


def test_odd_tensors_and_attributes_are_recorded(tmp_path: Path) -> None:
    class Embedding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor(2.0))
            self.narrow = nn.Parameter(torch.ones(4).to(torch.float8_e4m3fn))
            self.dropped_value = float("inf")

        def forward(self, waves: Tensor, *_others: Tensor) -> Tensor:
            return waves.real * self.weight

    model = Embedding()
    shape = 10**7, 10**7  # dense, it would be larger than any memory
    edges = torch.sparse_coo_tensor(torch.tensor([[0], [3]]), torch.ones(1), shape, check_invariants=True)
    for name in "ab":
        with northbridge.Snapshots(tmp_path / name, model):
            model(torch.fft.fft(torch.arange(8.0)).conj(), torch.ones(2).as_subclass(Refusing), edges)

    assert compare(tmp_path / "a", tmp_path / "b").sentence == "no difference: 1 steps are equal to the bit"
    assert [bool(each.bits) for each in steps_of(tmp_path / "a")[0].values] == [True, False, True, True]


def test_a_sparse_gradient_is_measured(tmp_path: Path) -> None:
    for name, factor in (("a", 1.0), ("b", 1.1)):
        torch.manual_seed(0)
        model = nn.Embedding(9, 4, sparse=True)
        optimizer = torch.optim.SGD(model.parameters(), 1.0)
        with northbridge.Snapshots(tmp_path / name, model, optimizer):
            model(torch.tensor([1, 3])).sum().backward()
            assert model.weight.grad is not None
            model.weight.grad *= factor
            optimizer.step()

    assert compare(tmp_path / "a", tmp_path / "b").sentence.startswith("step 0, weight: all before equal to the bit, ")


def test_a_wrapper_has_no_calls_of_its_own(tmp_path: Path) -> None:
    for name, wrap in (("a", lambda block: block), ("b", checkpoint_wrapper)):
        torch.manual_seed(0)
        model = nn.Sequential(wrap(nn.Sequential(nn.Linear(4, 4), nn.ReLU())), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with northbridge.Snapshots(tmp_path / name, model, optimizer):
            for rows in (torch.ones(2, 4), torch.zeros(2, 4)):
                model(rows).sum().backward()
            optimizer.step()

    assert compare(tmp_path / "a", tmp_path / "b").sentence == "no difference: 1 steps are equal to the bit"


def test_a_gradient_of_one_run_is_found(tmp_path: Path) -> None:
    def cut(net: Net) -> None:
        forward: Any = net.block.forward
        vars(net.block)["forward"] = lambda rows: forward(rows).detach()

    fit(tmp_path / "a")
    fit(tmp_path / "b", change=cut)

    for first, second, run in (("a", "b", "A"), ("b", "a", "B")):
        sentence = compare(tmp_path / first, tmp_path / second).sentence
        assert sentence.startswith(f"step 0, net.block.2.weight: it has a gradient in {run} only; ")


@pytest.mark.parametrize(
    ("options", "notes"),
    [
        ({}, []),
        (
            {"train": False},
            ["no gradients in B: its optimizer has other tensors than the model, or was not given to Snapshots"],
        ),
        (
            {"most": 2},
            [
                "7 calls of A have no counterpart in B: they are compiled, captured or not made there",
                "a step of B has too many tensors: the module calls after them were left out",
            ],
        ),
        ({"world_size": 2}, ["1 of 2 ranks are not compared: a run has no whole step of them"]),
        ({"extra": True}, ["1 calls of B have no counterpart in A: they are compiled, captured or not made there"]),
    ],
    ids=["all", "no optimizer", "too large", "a rank is missing", "an extra call"],
)
def test_what_cannot_be_compared_is_noted(
    options: dict[str, Any], notes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(name: str, train: bool = True, most: int = 20_000, extra: bool = False) -> Path:
        torch.manual_seed(0)
        model: Any = Net()
        model.extra = nn.Identity()
        monkeypatch.setattr(step_module, "_MOST_VALUES", most)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with northbridge.Snapshots(tmp_path / name, model, *([optimizer] if train else [])):
            if extra:
                model.extra(torch.ones(2, 8))
            torch.autograd.backward(model(torch.ones(2, 8)).scores.sum())
            optimizer.step()
        return tmp_path / name

    world_size = options.get("world_size", 1)
    changes = {name: value for name, value in options.items() if name != "world_size"}
    runs = read_run(record("a")), read_run(record("b", **changes))
    for run in runs:
        run.world_size = world_size

    assert compare_runs(*runs).notes == notes


def test_a_buffer_of_another_value_is_found(tmp_path: Path) -> None:
    for name, momentum in (("a", 0.1), ("b", 0.2)):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4, momentum=momentum))
        snapshots = northbridge.Snapshots(tmp_path / name, model)
        for rows, _ in DataLoader(data(), 8):
            with snapshots:
                model(rows)

    sentence = compare(tmp_path / "a", tmp_path / "b").sentence
    assert sentence.startswith("step 1, 1.running_mean: the weights differ before the step, by ")


def test_a_module_around_the_model_hides_nothing(tmp_path: Path) -> None:
    """Strategies differ in it: DDP calls the LightningModule, and a strategy for one device calls its method."""
    for name in ("a", "b"):
        torch.manual_seed(0)
        outer: Any = nn.Sequential(Net())
        if name == "b":
            forward = outer[0].shared.forward
            vars(outer[0].shared)["forward"] = lambda rows, forward=forward: forward(rows) * 1.01
        with northbridge.Snapshots(tmp_path / name, outer):
            (outer if name == "a" else outer[0])(torch.ones(2, 8))

    for first, second in (("a", "b"), ("b", "a")):
        answer = compare(tmp_path / first, tmp_path / second)
        assert (answer.phase, answer.path) == ("forward", "0.shared"), answer.sentence


def test_a_captured_step_has_gradients_and_updates(tmp_path: Path) -> None:
    northbridge.load("cpu_sim")
    for name, callbacks in (("a", []), ("b", [CapturedStep()])):
        fit(tmp_path / name, *callbacks, accelerator="cpu_sim")

    assert {*steps_of(tmp_path / "b")[4].named} == {"weight", "batch", "gradient", "update"}
    answer = compare(tmp_path / "a", tmp_path / "b")
    assert answer.sentence == "no difference: 5 steps are equal to the bit"
    assert any("captured" in note for note in answer.notes)


def test_a_graph_may_be_captured_in_a_recorded_step(tmp_path: Path) -> None:
    northbridge.load("cpu_sim")
    for name in ("a", "b"):
        torch.manual_seed(0)
        model: Any = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).to("cpu_sim")
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        forward: Any = northbridge.GraphedCallable(model) if name == "b" else model
        snapshots = northbridge.Snapshots(tmp_path / name, model, optimizer)
        for rows, _ in DataLoader(data(), 8):
            with snapshots:
                optimizer.zero_grad()
                torch.autograd.backward(forward(rows.to("cpu_sim")).sum())
                optimizer.step()

    assert steps_of(tmp_path / "b")[0].calls == []
    assert compare(tmp_path / "a", tmp_path / "b").sentence == "no difference: 5 steps are equal to the bit"


def test_replicas_of_data_parallel_are_refused(tmp_path: Path) -> None:
    model = nn.DataParallel(Net())
    model.device_ids = []
    northbridge.Snapshots(tmp_path, model).__enter__()  # one device has no replicas
    model.device_ids = [0, 1]
    match = r"^DataParallel shares hooks\. Fix: use DistributedDataParallel$"
    with pytest.raises(northbridge.ArgumentsError, match=match):
        northbridge.Snapshots(tmp_path, model).__enter__()


def test_a_file_of_another_record_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = (northbridge.Snapshots(tmp_path, Net()) for _ in range(2))
    for each in (first, second, first):
        with each:
            pass

    assert "Snapshots records no more steps: OSError: another record replaced rank-0" in caplog.text
    assert [*steps_of(tmp_path)] == [0]


def test_a_full_file_ends_the_record_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder, "MOST_BYTES", 60_000)
    with caplog.at_level(logging.WARNING):
        fit(tmp_path / "run")

    assert 0 < len(steps_of(tmp_path / "run")) < 5
    assert "Snapshots records no more steps" in caplog.text


def test_a_first_step_that_is_too_large_leaves_the_old_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fit(tmp_path / "run")
    monkeypatch.setattr(recorder, "MOST_BYTES", 1_000)
    fit(tmp_path / "run")

    assert len(steps_of(tmp_path / "run")) == 5
    assert "Snapshots records no more steps: OSError: the file would exceed 0 MiB" in caplog.text


def test_a_step_that_raises_is_left_out(tmp_path: Path) -> None:
    model = Net()
    snapshots = northbridge.Snapshots(tmp_path, model)
    for rows in (torch.ones(2, 8), torch.ones(2, 9), torch.ones(2, 8)):
        try:
            with snapshots:
                model(rows)
        except RuntimeError:
            assert not has_hooks(model)

    assert [*steps_of(tmp_path)] == [0, 1]


def test_a_batch_that_lightning_skips_is_forgotten(tmp_path: Path) -> None:
    """A module's ``on_train_batch_start`` may return -1: then the next batch begins, and this one has no end."""
    model, record = Net(), recorder.Recorder(tmp_path, None)
    for _ in range(2):
        record.begin(model, [], 0)
    model(torch.ones(2, 8))
    record.end()

    assert not has_hooks(model)
    assert [call for path, call in steps_of(tmp_path)[0].by_name if path == "first"] == [0]


def test_modules_in_vmap_are_not_recorded(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    with northbridge.Snapshots(tmp_path, model):
        torch.func.vmap(model[0])(model(torch.ones(2, 8))).sum().backward()

    assert [call for path, call in steps_of(tmp_path)[0].by_name if path == "0"] == [0]


def test_files_are_closed(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(5):
        with northbridge.Snapshots(tmp_path / str(number), Net()):
            pass
    gc.collect()

    assert len(os.listdir("/proc/self/fd")) <= before
    assert len(list(tmp_path.glob("*/*"))) == 5


def test_wrong_arguments_are_told(tmp_path: Path) -> None:
    for steps in (5, "5", abs):
        with pytest.raises(northbridge.ArgumentsError, match=r"^steps=.* is not a range, list or set of steps\. Fix: "):
            Snapshots(tmp_path, steps)
    with pytest.raises(northbridge.ArgumentsError, match="a str is not a module"):
        northbridge.Snapshots(tmp_path, "model")  # type: ignore[arg-type]
    with pytest.raises(northbridge.ArgumentsError, match="a list is not an optimizer"):
        northbridge.Snapshots(tmp_path, Net(), [torch.optim.SGD(Net().parameters())])


def test_the_command_shows_tables_and_writes_a_page(plain: Path, tmp_path: Path) -> None:
    fit(tmp_path / "other", change=lambda net: setattr(net.shared, "bias", nn.Parameter(net.shared.bias + 1)))
    page = tmp_path / "page.html"

    told = northbridge_here("diff", plain, tmp_path / "other", "--page", page)

    assert told.code == 1
    assert "step 0, net.shared.bias: the weights differ before the step, by " in told.out
    assert "cause: another random stream" in told.out
    for part in ("by layer", "net.block.0", "the largest distance over steps", "█"):
        assert part in told.out
        assert part in page.read_text()
    assert "http" not in page.read_text().replace("http://www.w3.org", "")
    assert northbridge_here("diff", plain, plain).code == 0
