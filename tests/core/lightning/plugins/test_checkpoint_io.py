from __future__ import annotations

import gc
import importlib
import os
import pickle
import resource
import signal
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from tests.core.lightning.conftest import Build, of_fabrics, of_trainers
from tests.scripts import run_forked

from northbridge.discovery import current
from northbridge.errors import CheckpointError
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.plugins.checkpoint_io import to_cpu

pytestmark = pytest.mark.usefixtures("chip")


@pytest.fixture
def checkpoint_io(namespace: Namespace) -> Any:
    return importlib.import_module(namespace.home).CheckpointIO()


# --- What leaves the chip


def test_tensors_that_share_memory_still_do() -> None:
    whole = torch.zeros(8, device="cpu_sim")

    state = to_cpu({"whole": whole, "tail": whole[4:], "again": whole})
    state["whole"].fill_(7.0)

    assert torch.equal(state["tail"], torch.full((4,), 7.0))
    assert torch.equal(state["again"], torch.full((8,), 7.0))


@pytest.fixture
def no_search_for_garbage() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_search_for_garbage")
def test_saving_keeps_nothing_of_either_side() -> None:
    on_chip = torch.zeros(8, device="cpu_sim")
    moved = to_cpu({"weight": on_chip})["weight"]
    alive = [weakref.ref(each) for each in (on_chip, moved)]

    del on_chip, moved

    assert [each() for each in alive] == [None, None]


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bfloat16])
def test_numbers_are_copied_as_numbers_and_never_as_bytes(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    # A chip that computes float64 as float32 may store it so: then its storage does not hold float64.
    monkeypatch.delattr(torch.storage._StorageBase, "cpu")
    whole = torch.arange(24, device="cpu_sim").reshape(2, 3, 2, 2).to(dtype)
    forms = {
        "whole": whole,
        "channels last": whole.to(memory_format=torch.channels_last),
        "part": whole[1:, :2],
        "expanded": whole[0, 0, 0, :1].expand(3),
        "nothing": whole[:0],
    }

    moved = to_cpu(forms)

    for name, form in forms.items():
        assert torch.equal(moved[name], form.cpu()), name
        assert moved[name].stride() == form.stride(), name


@pytest.mark.parametrize(
    ("asked", "answer"), [("nbytes", 0), ("nbytes", 8), ("data_ptr", 0), ("data_ptr", RuntimeError("it has none"))]
)
def test_views_without_memory_are_copied_one_by_one(asked: str, answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A storage that is too small or has no address says nothing of where a view's numbers are."""
    whole = torch.arange(12.0, device="cpu_sim").reshape(3, 4)
    views = [*whole, whole.t(), *whole.chunk(2, 1), whole.t()[1:]]
    expected = [each.cpu() for each in views]

    def answer_so(_: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(torch.UntypedStorage, asked, answer_so)
    monkeypatch.setattr(torch.Tensor, "storage_offset", lambda _: 0)
    moved = to_cpu(views)
    monkeypatch.undo()

    for mine, right in zip(moved, expected, strict=True):
        assert torch.equal(mine, right)


def test_a_conjugate_beside_its_tensor_keeps_its_numbers() -> None:
    whole = torch.tensor([1 + 2j, 3 - 4j])
    on_chip = whole.to("cpu_sim")

    moved = to_cpu([on_chip, on_chip.conj(), on_chip.imag, on_chip.conj().imag])

    for mine, right in zip(moved, [whole, whole.conj(), whole.imag, whole.conj().imag], strict=True):
        assert torch.equal(mine, right)


def test_what_is_elsewhere_or_has_no_numbers_stays_what_it_is() -> None:
    uninitialized: Any = torch.nn.UninitializedParameter
    kept = [torch.ones(1), torch.ones(2, device="meta"), uninitialized(device="cpu_sim")]

    assert all(mine is theirs for mine, theirs in zip(to_cpu(kept), kept, strict=True))


def test_a_tensor_keeps_its_attributes_and_its_identity() -> None:
    weight = torch.nn.Parameter(torch.ones(2, device="cpu_sim"))
    weight.scale = torch.ones(1, device="cpu_sim")  # type: ignore[attr-defined]  # a user's
    weight.tied = [weight]  # type: ignore[attr-defined]

    first, second = to_cpu([weight, (weight,)])

    assert first is second[0]
    assert first.scale.device.type == "cpu"
    assert first.tied[0] is first


def test_a_device_becomes_the_cpu() -> None:
    state = {"hyper_parameters": {"used": torch.device("cpu_sim", 1), "others": (torch.device("cuda", 0),)}}

    assert to_cpu(state) == {"hyper_parameters": {"used": torch.device("cpu"), "others": (torch.device("cuda", 0),)}}


def test_parameter_keeps_requires_grad() -> None:
    frozen = torch.nn.Parameter(torch.ones(2, device="cpu_sim"), requires_grad=False)
    trained = torch.nn.Parameter(torch.ones(2, device="cpu_sim"))

    state = to_cpu([frozen, trained, trained.detach()])

    assert [type(each) for each in state] == [torch.nn.Parameter, torch.nn.Parameter, torch.Tensor]
    assert [each.requires_grad for each in state] == [False, True, False]


# --- Whole or not at all


# The system kills who writes on beyond a size, in the middle of that write.
KILLED_AT = """
import resource, signal, sys
import lightning.fabric, torch
from northbridge.lightning.fabric import CheckpointIO

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
state = {str(number): torch.full((5000,), float(number)) for number in range(4)}
CheckpointIO().save_checkpoint({"epoch": 2, **state}, sys.argv[1])
"""


@pytest.mark.parametrize("written", [0, 1_000, 70_000, 81_000, 100_000])
def test_killed_at_any_write_leaves_the_old_file(tmp_path: Path, written: int) -> None:
    target = tmp_path / "last.ckpt"
    torch.save({"epoch": 1}, target)
    (tmp_path / "program.py").write_text(KILLED_AT)

    status = run_forked(tmp_path / "program.py", str(target), str(written), folder=tmp_path).status

    is_whole = written == 100_000  # nobody kills it
    assert status == (0 if is_whole else -signal.SIGXFSZ)
    assert torch.load(target, weights_only=True)["epoch"] == 1 + is_whole
    assert list(tmp_path.glob("*.ckpt")) == [target]


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Have the system refuse every file that grows beyond ``size`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_file_that_does_not_fit_is_an_error_with_the_fix(tmp_path: Path, checkpoint_io: Any) -> None:
    target = tmp_path / "run" / "last.ckpt"
    checkpoint_io.save_checkpoint({"epoch": 1}, target)

    with room_for(10_000), pytest.raises(CheckpointError) as refusal:
        checkpoint_io.save_checkpoint({"weight": torch.ones(100_000)}, target)

    assert str(refusal.value) == (
        f"{target} could not be written: File too large; an old file is untouched. Fix: make room"
        f" in {target.parent}, or choose another folder, with ModelCheckpoint(dirpath=…) or Trainer(default_root_dir=…)"
    )
    assert torch.load(target, weights_only=True) == {"epoch": 1}
    assert list(target.parent.iterdir()) == [target]


def test_a_device_is_written_to_and_never_replaced_by_a_file(tmp_path: Path, checkpoint_io: Any) -> None:
    target = tmp_path / "full.ckpt"
    target.symlink_to("/dev/full")  # a link, so that a mistake costs the machine no device

    with pytest.raises(CheckpointError, match=r"full\.ckpt could not be written: No space left on device; an old"):
        checkpoint_io.save_checkpoint({"weight": torch.ones(100_000)}, target)

    assert target.is_char_device()
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_that_cannot_be_made_is_the_same_error(tmp_path: Path, checkpoint_io: Any) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(OSError, match=r"/file/last\.ckpt could not be written: File exists; an old"):
        checkpoint_io.save_checkpoint({"epoch": 1}, tmp_path / "file" / "last.ckpt")


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_checkpoint_has_the_permissions_of_any_new_file(tmp_path: Path, checkpoint_io: Any, mask: int) -> None:
    before = os.umask(mask)
    try:
        checkpoint_io.save_checkpoint({"epoch": 1}, tmp_path / "last.ckpt")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "last.ckpt").stat().st_mode) == 0o666 & ~mask


def test_storage_options_are_refused_as_lightning_refuses_them(tmp_path: Path, checkpoint_io: Any) -> None:
    with pytest.raises(TypeError, match="storage_options"):
        checkpoint_io.save_checkpoint({"epoch": 1}, tmp_path / "last.ckpt", storage_options={"key": "value"})

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "EOFError|Ran out of input"),
        (b"no checkpoint\n" * 9, "could not be read"),
        (None, "failed finding central"),
    ],
    ids=["empty", "another format", "cut short"],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_file_that_is_not_a_checkpoint_is_an_error_with_its_name(
    tmp_path: Path, checkpoint_io: Any, weights_only: bool, content: bytes | None, said: str
) -> None:
    file = tmp_path / "last.ckpt"
    checkpoint_io.save_checkpoint({"weight": torch.ones(1000)}, file)
    file.write_bytes(file.read_bytes()[:2000] if content is None else content)

    with pytest.raises(CheckpointError, match=said) as refusal:
        checkpoint_io.load_checkpoint(file, weights_only=weights_only)

    assert str(refusal.value).startswith(f"{file} could not be read as a checkpoint: ")
    assert "Fix: copy it again, or load another" in str(refusal.value)


def test_a_missing_file_is_lightnings_error(tmp_path: Path, checkpoint_io: Any) -> None:
    with pytest.raises(FileNotFoundError, match=r"Checkpoint file not found: .*last\.ckpt"):
        checkpoint_io.load_checkpoint(tmp_path / "last.ckpt")


RAN: list[str] = []


def record(what: str) -> str:
    RAN.append(what)
    return what


class RunsCode:
    def __reduce__(self) -> tuple[object, ...]:
        return record, ("code of a checkpoint",)


def test_weights_only_lets_no_code_of_a_checkpoint_run(tmp_path: Path, checkpoint_io: Any) -> None:
    checkpoint_io.save_checkpoint({"weight": torch.ones(2), "more": RunsCode()}, tmp_path / "last.ckpt")

    with pytest.raises(CheckpointError, match=r"test_checkpoint_io\.record, which weights_only=True") as refusal:
        checkpoint_io.load_checkpoint(tmp_path / "last.ckpt", weights_only=True)

    assert isinstance(refusal.value, pickle.UnpicklingError)  # as torch's own is
    assert RAN == []
    assert checkpoint_io.load_checkpoint(tmp_path / "last.ckpt", weights_only=False)["more"] == "code of a checkpoint"
    RAN.clear()


@of_trainers
def test_async_checkpoint_io_writes_through_ours(namespace: Namespace, build: Build) -> None:
    wrapping = namespace.module("plugins.io").AsyncCheckpointIO()
    strategy = build(accelerator="cpu_sim", devices=1, plugins=[wrapping]).strategy

    assert strategy.checkpoint_io is wrapping
    assert type(wrapping.checkpoint_io).__module__ == namespace.home


SPAWNED = """
import sys
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

if __name__ == "__main__":
    trainer = Trainer(accelerator="cpu_sim", devices=2, strategy="ddp_spawn", max_steps=1, logger=False)
    trainer.fit(BoringModel())
    trainer.save_checkpoint(sys.argv[1])
"""


def test_spawning_process_saves_after_its_ranks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SPAWNED)

    ran = run_forked(tmp_path / "train.py", "last.ckpt", folder=tmp_path)

    assert ran.status == 0, ran.said
    assert "layer.weight" in torch.load(tmp_path / "last.ckpt", weights_only=True)["state_dict"]


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # Lightning's, of torch
@of_trainers
def test_a_trainer_that_has_trained_can_be_pickled(namespace: Namespace, build: Build) -> None:
    demos: Any = namespace.module("demos.boring_classes")
    trainer = build(accelerator="cpu_sim", devices=1, fast_dev_run=1)
    trainer.fit(demos.BoringModel())

    clone = pickle.loads(pickle.dumps(trainer))

    assert type(clone.strategy) is type(trainer.strategy)


def test_what_users_put_in_the_place_of_saving_is_called(
    namespace: Namespace, tmp_path: Path, checkpoint_io: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of torch.save, and of Lightning's method."""
    save = Mock(wraps=torch.save)
    monkeypatch.setattr(torch, "save", save)
    checkpoint_io.save_checkpoint({"epoch": 1}, tmp_path / "last.ckpt")
    assert save.call_count == 1

    stock, calls = namespace.fabric_module("plugins.io.torch_io").TorchCheckpointIO, []
    monkeypatch.setattr(stock, "save_checkpoint", lambda self, state, path, storage_options: calls.append(path))
    checkpoint_io.save_checkpoint({"epoch": 1}, tmp_path / "last.ckpt")
    assert calls == [tmp_path / "last.ckpt"]


@pytest.mark.parametrize("by", ["user", "vendor"])
def test_load_that_was_replaced(by: str, tmp_path: Path, checkpoint_io: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading calls what the user has put in the place of torch.load, and never what a vendor's import has."""
    checkpoint_io.save_checkpoint({"epoch": 1}, tmp_path / "last.ckpt")
    load = Mock(wraps=torch.load)
    monkeypatch.setattr(torch, "load", load)
    if by == "vendor":
        monkeypatch.setattr(current, "_put_into_torch", [load])

    assert checkpoint_io.load_checkpoint(tmp_path / "last.ckpt") == {"epoch": 1}
    assert load.call_count == (by == "user")
    assert torch.load is load


def test_a_file_that_holds_no_dict_is_not_a_checkpoint(namespace: Namespace, build: Build, tmp_path: Path) -> None:
    """A Trainer cannot go on from a list; Lightning's CheckpointIO reads one, and so does ours."""
    file = tmp_path / "last.ckpt"
    torch.save([1, 2], file)
    host = build(accelerator="cpu_sim", devices=1)

    if namespace.is_trainer:
        demos: Any = namespace.module("demos.boring_classes")
        go_on = partial(host.predict, demos.BoringModel(), ckpt_path=file)
    else:
        go_on = partial(host.load, file, {"epoch": 1})
    with pytest.raises(CheckpointError, match="is not a checkpoint: it holds a list"):
        go_on()

    assert host.strategy.checkpoint_io.load_checkpoint(file) == [1, 2]
    if not namespace.is_trainer:
        assert host.load(file) == [1, 2]


def test_a_path_on_another_file_system_is_lightnings_affair(checkpoint_io: Any) -> None:
    checkpoint_io.save_checkpoint({"weight": torch.ones(2, device="cpu_sim")}, "memory://northbridge/last.ckpt")

    opened = checkpoint_io.load_checkpoint("memory://northbridge/last.ckpt")

    assert opened["weight"].device.type == "cpu"


@of_fabrics
def test_a_fabric_gives_a_users_io_its_arguments_by_name(namespace: Namespace, build: Build, tmp_path: Path) -> None:
    """And tensors on the CPU."""
    own = namespace.fabric_module("plugins.io.torch_io").TorchCheckpointIO()
    own.save_checkpoint = Mock()
    fabric = build(accelerator="cpu_sim", devices=1, plugins=[own])

    fabric.save(tmp_path / "last.ckpt", {"net": fabric.setup(torch.nn.Linear(2, 2))})

    (call,) = own.save_checkpoint.call_args_list
    assert call.args == ()
    saved = dict(call.kwargs)
    assert saved.pop("checkpoint")["net"]["weight"].device.type == "cpu"
    assert saved == {"path": tmp_path / "last.ckpt", "storage_options": None}
