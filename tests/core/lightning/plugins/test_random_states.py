from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims
from tests.scripts import run_forked
from torch.utils.data import DataLoader, DistributedSampler

from northbridge.capabilities import no
from northbridge.discovery.declared import load
from northbridge.lightning.accelerators.accelerator import hold
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.plugins import random_states
from northbridge.lightning.plugins.random_states import KEY, of_checkpoint

# Lightning's CombinedLoader asks torch's trees in a way that torch deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")


@pytest.fixture
def namespace(trainer_namespace: Namespace) -> Namespace:
    """Each namespace with a Trainer."""
    return trainer_namespace


@pytest.fixture
def isolate_rng(namespace: Namespace) -> Any:
    return namespace.module("utilities.seed").isolate_rng


@pytest.fixture
def held(build: Build) -> None:
    """This process holds a chip, as a rank does."""
    accelerator = build(accelerator="cpu_sim", devices=1).accelerator
    accelerator.setup_device(torch.device("cpu_sim", 0))


def boring(namespace: Namespace) -> Any:
    return namespace.module("demos.boring_classes").BoringModel()


def batches(namespace: Namespace) -> DataLoader[Any]:
    return DataLoader(namespace.module("demos.boring_classes").RandomDataset(32, 4), 2)


def fitted(namespace: Namespace, build: Build, checkpoint: Path | None = None, **arguments: Any) -> Any:
    host = build(
        accelerator="cpu_sim", devices=1, max_epochs=1, limit_train_batches=2, limit_val_batches=0, **arguments
    )
    host.fit(boring(namespace), batches(namespace), ckpt_path=checkpoint)
    return host


def saved_states(file: Path) -> list[dict[str, Any]]:
    return of_checkpoint(torch.load(file, weights_only=True)) or []


def drawn() -> tuple[list[float], list[float]]:
    return torch.rand(3, device="cpu_sim").tolist(), torch.rand(3).tolist()


@pytest.mark.usefixtures("held")
def test_what_the_chip_draws_inside_changes_nothing_outside(isolate_rng: Any) -> None:
    """Unless CUDA would be left alone."""
    with isolate_rng():
        inside = drawn()
    assert drawn() == inside

    with isolate_rng(include_cuda=False):
        on_chip, on_host = drawn()
    again_on_chip, again_on_host = drawn()
    assert again_on_host == on_host
    assert again_on_chip != on_chip


def test_a_spawned_rank_seeds_its_chip(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has loaded the chip when it gets the states of its parent."""
    monkeypatch.setattr(random_states, "held", dict)
    device = load("cpu_sim").device
    state = torch.get_rng_state()
    torch.manual_seed(5)
    (wanted, _), parents = drawn(), torch.manual_seed(5).get_state()
    torch.manual_seed(6)
    snapshot = namespace.fabric_module("utilities.seed")._collect_rng_states()
    snapshot["torch"] = parents

    namespace.fabric_module("utilities.seed")._set_rng_states(snapshot)
    seeded = drawn()[0]
    device.seed(7)
    namespace.fabric_module("utilities.seed")._set_rng_states(snapshot)
    left_alone = drawn()[0]
    torch.set_rng_state(state)

    assert seeded == wanted != left_alone


@pytest.mark.usefixtures("held")
def test_a_forked_process_asks_no_chip_that_its_parent_holds() -> None:
    child = os.fork()
    if child == 0:
        # What is forked from a process that holds the chip may not ask it for anything: that would raise.
        random_states.set_chip_states({"cpu_sim": torch.zeros(16, dtype=torch.uint8)})
        os._exit(len(random_states.chip_states()))

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(random_states.chip_states()) == ["cpu_sim"]


@pytest.mark.usefixtures("held")
def test_a_chip_without_generators_is_not_asked(build: Build, claims: Claims, monkeypatch: pytest.MonkeyPatch) -> None:
    claims(random_numbers=no("it draws on the host"))
    hold(load("cpu_sim"))
    monkeypatch.setenv("PL_GLOBAL_SEED", "7")
    before = load("cpu_sim").device.random_state()

    build(accelerator="cpu_sim", devices=1).accelerator.seed()
    random_states.set_chip_states({"cpu_sim": torch.zeros(16, dtype=torch.uint8)})

    assert random_states.chip_states() == {}
    assert torch.equal(load("cpu_sim").device.random_state(), before)


def test_a_checkpoint_is_opened_without_running_code(namespace: Namespace, build: Build, tmp_path: Path) -> None:
    """Also where a thread writes it."""
    host = fitted(namespace, build, plugins=[namespace.module("plugins.io").AsyncCheckpointIO()])
    host.save_checkpoint(tmp_path / "whole.ckpt")
    host.save_checkpoint(tmp_path / "weights.ckpt", weights_only=True)
    host.strategy.checkpoint_io.teardown()

    (states,) = saved_states(tmp_path / "whole.ckpt")
    assert saved_states(tmp_path / "weights.ckpt") == []

    assert {"torch", "python", "numpy", "northbridge"} == set(states)
    assert {name: state.device.type for name, state in states["northbridge"].items()} == {"cpu_sim": "cpu"}


def test_a_checkpoint_on_an_error_waits_for_no_other_rank(
    namespace: Namespace, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = fitted(namespace, build)
    host.state.status = "interrupted"
    host.save_checkpoint(tmp_path / "alone.ckpt")
    monkeypatch.setattr(type(host.strategy), "_ranks", 2)
    host.save_checkpoint(tmp_path / "one of two.ckpt")

    assert len(saved_states(tmp_path / "alone.ckpt")) == 1
    assert saved_states(tmp_path / "one of two.ckpt") == []


BROKEN: dict[str, Callable[[dict[str, Any]], object]] = {
    "a text": lambda states: "what another tool keeps there",
    "nothing": lambda states: [{}],
    "no tensor": lambda states: [{**states, "torch": [1, 2]}],
    "another chip's": lambda states: [{**states, "northbridge": {"cpu_sim": torch.zeros(1)}}],
    "half of numpy's": lambda states: [{**states, "numpy": states["numpy"][:1]}],
    "a short python's": lambda states: [{**states, "python": (3, (1, 2), None)}],
}


@pytest.mark.parametrize("name", BROKEN)
def test_foreign_states_are_ignored(name: str, namespace: Namespace, build: Build, tmp_path: Path) -> None:
    """A fit goes on from a checkpoint with something else under our key, says so, and changes no generator."""
    file = tmp_path / "last.ckpt"
    fitted(namespace, build).save_checkpoint(file)
    checkpoint = torch.load(file, weights_only=True)
    (states,) = of_checkpoint(checkpoint) or []
    torch.save(random_states.add(checkpoint, BROKEN[name](states)), file)  # type: ignore[arg-type]  # as is meant
    host = build(accelerator="cpu_sim", devices=1, max_epochs=2, limit_train_batches=2, limit_val_batches=0)

    with pytest.warns(UserWarning, match=r"the checkpoint's random states \('northbridge_random_states'\) were not"):
        host.fit(boring(namespace), batches(namespace), ckpt_path=file)

    assert host.current_epoch == 2


@pytest.mark.usefixtures("held")
def test_broken_states_change_no_generator(namespace: Namespace) -> None:
    (states,) = random_states.gather(namespace, 1)
    expected = drawn()
    random_states.restore(namespace, states)

    with pytest.warns(UserWarning, match="Random numbers begin with the seed"):
        random_states.restore(namespace, {**states, "torch": torch.get_rng_state() * 0, "northbridge": 7})

    assert drawn() == expected


@pytest.mark.usefixtures("held")
def test_the_states_of_ranks_come_without_torch_save(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users count its calls."""

    def gather(everybodys: list[object], mine: object) -> None:
        everybodys[:] = [pickle.loads(pickle.dumps(mine)), {}]

    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    monkeypatch.setattr(torch, "save", None)
    first, _ = random_states.gather(namespace, 2)

    random_states.restore(namespace, first)
    expected = drawn()
    random_states.restore(namespace, first)
    assert drawn() == expected


def test_another_chips_checkpoint_gives_the_hosts_states(namespace: Namespace, build: Build, tmp_path: Path) -> None:
    fitted(namespace, build).save_checkpoint(tmp_path / "theirs.ckpt")
    (states,) = saved_states(tmp_path / "theirs.ckpt")
    states["northbridge"] = {"another": torch.zeros(3, dtype=torch.uint8)}
    before = random_states.chip_states()["cpu_sim"]

    random_states.restore(namespace, states)

    assert torch.equal(torch.get_rng_state(), states["torch"])
    assert torch.equal(random_states.chip_states()["cpu_sim"], before)


@pytest.mark.parametrize("loops", [{}, {KEY: []}, None], ids=repr)
def test_a_checkpoint_without_states_has_none(loops: Any) -> None:
    assert of_checkpoint({"loops": loops}) is None


def test_each_copy_has_the_states_though_another_has_gone() -> None:
    """A checkpoint plugin of the user's may copy the loops, as AsyncCheckpointIO does after it."""
    states: list[dict[str, Any]] = [{"torch": torch.zeros(3)}]
    loops = random_states.add({"loops": {"fit_loop": {}}}, states)["loops"]
    first = type(loops)(loops)
    assert of_checkpoint({"loops": first}) == states
    del first

    assert of_checkpoint({"loops": type(loops)(loops)}) == states


def test_a_checkpoint_has_no_other_keys_than_lightnings_own(namespace: Namespace, build: Build, tmp_path: Path) -> None:
    keys = []
    for accelerator in ("cpu_sim", "cpu"):
        few = {"max_epochs": 1, "limit_train_batches": 2, "limit_val_batches": 0}
        host = build(accelerator=accelerator, devices=1, **few)
        host.fit(boring(namespace), batches(namespace))
        host.save_checkpoint(tmp_path / f"{accelerator}.ckpt")
        keys.append(keys_of(torch.load(tmp_path / f"{accelerator}.ckpt", weights_only=True)))

    assert keys[0] == keys[1]


def keys_of(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: keys_of(each) for key, each in value.items()}
    return [keys_of(each) for each in value] if isinstance(value, list) else None


def test_a_fit_that_takes_up_another_number_of_ranks_says_so(
    namespace: Namespace, build: Build, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fitted(namespace, build).save_checkpoint(tmp_path / "two.ckpt")
    checkpoint = torch.load(tmp_path / "two.ckpt", weights_only=True)
    vars(checkpoint["loops"])[KEY] *= 2
    torch.save(checkpoint, tmp_path / "two.ckpt")

    with caplog.at_level("WARNING", "northbridge"):
        fitted(namespace, build, tmp_path / "two.ckpt")

    assert "was written by 2 ranks, and this run has 1: random numbers begin with the seed" in caplog.text


def test_a_later_fit_from_the_beginning_has_none(namespace: Namespace, build: Build, tmp_path: Path) -> None:
    host = fitted(namespace, build)
    host.save_checkpoint(tmp_path / "done.ckpt")

    host.fit(boring(namespace), batches(namespace), ckpt_path=tmp_path / "done.ckpt")
    torch.manual_seed(5)
    expected = torch.get_rng_state()
    host.strategy.restore_random_states()

    assert torch.equal(torch.get_rng_state(), expected)


class Numbers(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((32,), float(index))


@pytest.mark.parametrize(("moment", "epochs"), [("on_train_batch_end", 2), ("on_train_epoch_end", 1)])
def test_resumed_epoch_end_shuffles_for_the_next(
    namespace: Namespace, build: Build, tmp_path: Path, moment: str, epochs: int
) -> None:
    """The checkpoint of its last step too, with a worker that fetches before the loop has counted the epoch."""

    def fit(checkpoint: Path | None = None) -> list[int]:
        module, sampler = boring(namespace), DistributedSampler(Numbers(), 1, 0)  # type: ignore[var-annotated]
        seen: list[int] = []

        def train(batch: Any) -> Any:
            seen.append(int(batch[0, 0].item()))
            return module.loss(module.layer(batch))

        def save(*_: Any) -> None:
            if module.global_step == epochs * 2:
                module.trainer.save_checkpoint(tmp_path / "last.ckpt")

        module.training_step = train
        setattr(module, moment, save)
        once = {"max_epochs": 4, "limit_val_batches": 0, "log_every_n_steps": 1, "use_distributed_sampler": False}
        host = build(accelerator="cpu_sim", devices=1, **once)
        host.fit(module, DataLoader(Numbers(), 2, sampler=sampler, num_workers=1), ckpt_path=checkpoint)
        return seen

    through = fit()

    assert len({tuple(through[place : place + 2]) for place in range(0, 8, 2)}) > 1  # the epochs' orders differ
    assert fit(tmp_path / "last.ckpt") == through[epochs * 2 :]


SPREAD = """
import os, sys, torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.strategies import ModelParallelStrategy

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 4))
    def configure_model(self):
        for part in (self.net[0], self.net[2], self.net):
            fully_shard(part, mesh=self.device_mesh["data_parallel"])
    def training_step(self, batch, index):
        return cross_entropy(self.net(batch[0]), batch[1])
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01, foreach=False)

def fit(epochs, taken_up=None, saved=None):
    if taken_up is None:
        seed_everything(3)
    module = Model()
    strategy = ModelParallelStrategy(
        data_parallel_size=2, tensor_parallel_size=1, save_distributed_checkpoint=sys.argv[1] == "shards"
    )
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(accelerator="cpu_sim", devices=2, strategy=strategy, max_epochs=epochs, **quiet)
    numbers = torch.Generator().manual_seed(0)
    data = TensorDataset(torch.randn(32, 8, generator=numbers), torch.randint(0, 4, (32,), generator=numbers))
    trainer.fit(module, DataLoader(data, batch_size=4, shuffle=True), ckpt_path=taken_up)
    if saved:
        trainer.save_checkpoint(saved)
    return torch.cat([each.full_tensor().detach().cpu().flatten() for each in module.parameters()])

if __name__ == "__main__":
    through = fit(2)
    fit(1, saved="half.ckpt")
    torch.rand(3), torch.rand(3, device="cpu_sim")
    same = torch.equal(through, fit(2, taken_up="half.ckpt"))
    os.write(1, f"rank {torch.distributed.get_rank()}: the same weights: {same}\\n".encode())
"""


@pytest.mark.parametrize("saved", ["shards", "one file"])
def test_a_model_that_is_spread_over_ranks_takes_them_up(saved: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SPREAD)

    ran = run_forked(tmp_path / "train.py", saved, folder=tmp_path)

    assert ran.status == 0, ran.said
    assert sorted(line for line in ran.said.splitlines() if "same weights" in line) == [
        "rank 0: the same weights: True",
        "rank 1: the same weights: True",
    ]
