"""A damaged checkpoint is one error with its path, or opens with values that are right or warned of.

This file is also the script that reads damaged shards.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric
from lightning.fabric.strategies.model_parallel import ModelParallelStrategy
from tests.core.lightning.conftest import Build, refusal
from tests.core.lightning.damage import damaged
from tests.scripts import run_forked
from torch.distributed.fsdp import fully_shard

from northbridge.errors import CheckpointCodeError, CheckpointError
from northbridge.lightning.namespaces import NAMESPACES, Namespace

CASES = 100


def checkpoint() -> dict[str, Any]:
    weight = torch.arange(64.0).reshape(8, 8)
    optimizer = {"state": {0: {"step": torch.tensor(3.0), "exp_avg": weight * 2}}, "param_groups": [{"lr": 0.1}]}
    return {"state_dict": {"weight": weight, "tied": weight[2:]}, "optimizer_states": [optimizer], "epoch": 3}


def are_equal(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, torch.Tensor):
        return isinstance(ours, torch.Tensor) and ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    if isinstance(theirs, dict):
        return isinstance(ours, dict) and [*ours] == [*theirs] and all(map(are_equal, ours.values(), theirs.values()))
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(are_equal, ours, theirs))
    return bool(ours == theirs)


def come_of(file: Path, read: Callable[[], Any], whole: Any) -> str:
    """Return how reading a damaged file ended."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = read()
        except CheckpointError as error:
            named = str(error).startswith(f"{file} ")
            return "refused" if named and len(str(error)) < 600 else f"not as it should: {error}"
    if any(f"the checkpoint {file} is damaged: " in str(each.message) for each in warned):
        return "warned"
    return "right" if are_equal(found, whole) else "wrong"


def damage_often(file: Path, saved: Any, archive: bool, draw: Random, read: Callable[[], Any], whole: Any) -> None:
    """torch's former format has no checksums: there, numbers may be wrong, and nobody can tell."""
    torch.save(saved, file, _use_new_zipfile_serialization=archive)
    content, ends = file.read_bytes(), Counter[str]()

    for _ in range(CASES):
        file.write_bytes(damaged(content, draw))
        ends[come_of(file, read, whole)] += 1

    assert set(ends) <= {"refused", "right", "warned" if archive else "wrong"}, ends
    assert ends["refused"] > CASES / 5
    assert ends["warned" if archive else "wrong"] > CASES / 20


@pytest.mark.parametrize("namespace", NAMESPACES.values(), ids=NAMESPACES)
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("archive", [True, False])
def test_damaged_file(archive: bool, weights_only: bool, namespace: Namespace, build: Build, tmp_path: Path) -> None:
    file, whole, draw = tmp_path / "last.ckpt", checkpoint(), Random(f"{namespace.name} {weights_only} {archive}")
    host = build(accelerator="cpu_sim", devices=1)
    read = host.strategy.checkpoint_io.load_checkpoint if namespace.is_trainer else host.load

    damage_often(file, whole, archive, draw, lambda: read(file, weights_only=weights_only), whole)


@pytest.mark.usefixtures("chip")
@pytest.mark.parametrize("archive", [True, False])
def test_model_of_damaged_file(archive: bool, trainer_namespace: Namespace, tmp_path: Path) -> None:
    file, kind = tmp_path / "last.ckpt", trainer_namespace.module("demos.boring_classes").BoringModel
    whole = kind().state_dict()
    parts = {"pytorch-lightning_version": "2.6.6", "state_dict": whole, "hyper_parameters": {}}

    def read() -> dict[str, Any]:
        try:
            return dict(kind.load_from_checkpoint(file).state_dict())
        except CheckpointError:
            raise
        except (KeyError, RuntimeError) as error:  # weights that do not fit the model, as in a fit
            if "state_dict" not in str(error):
                raise
            return {}

    damage_often(file, parts, archive, Random(f"{trainer_namespace.name} {archive}"), read, dict(whole))


FILES = (".metadata", "meta.pt", "__0_0.distcp")


def spread(net: Any, mesh: Any) -> Any:
    fully_shard(net, mesh=mesh["data_parallel"])
    return net


def read_shards(folder: Path, fabric: Fabric, net: Any, optimizer: Any, weight: torch.Tensor) -> str:
    """Return how it ended: with the error, or with values that are right or warned of, or wrong ones."""
    with torch.no_grad():
        net.weight.zero_()
    state: dict[str, Any] = {"net": net, "optimizer": optimizer, "epoch": 0}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            fabric.load(folder, state)
        except CheckpointError as error:
            return "refused" if str(error).startswith(f"{folder} could not be read") else f"without its name: {error}"
        except ValueError as error:  # Lightning's own, of a folder without meta.pt
            return "refused" if "does not point to a valid checkpoint" in str(error) else f"raw: {error!r}"
        except BaseException as error:  # noqa: BLE001 - what is counted
            return f"raw: {error!r}"
    if any(f"the checkpoint {folder} is damaged: " in str(each.message) for each in warned):
        return "warned"
    return "right" if torch.equal(net.weight.full_tensor().cpu(), weight) and state["epoch"] == 3 else "wrong"


def damage_shards(seed: str, cases: str) -> None:
    """Read checkpoints of shards that are damaged in one place, on one device of cpu_sim; write what came of each."""
    draw = Random(int(seed))
    fabric = Fabric(accelerator="cpu_sim", devices=1, strategy=ModelParallelStrategy(spread, 1, 1))
    fabric.launch()
    net: Any = fabric.setup_module(torch.nn.Linear(8, 8))
    optimizer: Any = fabric.setup_optimizers(torch.optim.SGD(net.parameters(), 0.1, momentum=0.9))
    fabric.backward(net(torch.ones(1, 8, device=fabric.device)).sum())
    optimizer.step()
    weight = net.weight.full_tensor().cpu().clone()
    parts = (fabric, net, optimizer, weight)
    fabric.save("whole", {"net": net, "optimizer": optimizer, "epoch": 3})
    found = {"whole": read_shards(Path("whole"), *parts)}
    for number in range(int(cases)):
        name = FILES[number % len(FILES)]
        folder = Path(f"{number}-{name.strip('.')}")
        shutil.copytree("whole", folder)
        (folder / name).unlink()
        if number >= len(FILES):
            (folder / name).write_bytes(damaged(Path("whole", name).read_bytes(), draw))
        found[folder.name] = read_shards(folder, *parts)
        shutil.rmtree(folder)
    Path("found.json").write_text(json.dumps(found))


def test_damaged_shards(tmp_path: Path) -> None:
    """Every part of a folder of shards, lost or damaged."""
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]),
    }
    ran = run_forked(Path(__file__), "1", "60", folder=tmp_path, environ=environ)
    assert ran.status == 0, ran.said

    found = json.loads((tmp_path / "found.json").read_text())

    assert found.pop("whole") == "right"
    assert {case: end for case, end in found.items() if end not in ("refused", "right", "warned")} == {}
    assert Counter(found.values())["refused"] > 20
    assert Counter(found.values())["warned"] > 3


@pytest.fixture
def read(build: Build) -> Callable[..., Any]:
    return build(accelerator="cpu_sim", devices=1).strategy.checkpoint_io.load_checkpoint  # type: ignore[no-any-return]


def test_wrong_checksum_is_said_with_its_part(namespace: Namespace, read: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "last.ckpt"
    torch.save({"weight": torch.full((64,), 7.0)}, file)
    content = file.read_bytes()
    numbers = torch.full((64,), 7.0).numpy().tobytes()
    file.write_bytes(content.replace(numbers, b"\1" + numbers[1:]))

    with pytest.warns(UserWarning, match="is damaged") as warned:
        found = read(file)

    assert found["weight"][0] != 7
    assert str(warned[0].message) == (
        f"the checkpoint {file} is damaged: the checksum of last/data/0 is wrong. It was loaded anyway, and its"
        " values may be wrong. Fix: copy it again, or load another"
    )


def test_archive_without_checksums_is_silent(namespace: Namespace, read: Callable[..., Any], tmp_path: Path) -> None:
    """torch writes none where the user has asked it for none."""
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"epoch": 3}, tmp_path / "last.ckpt")
    finally:
        torch.serialization.set_crc32_options(before)

    assert read(tmp_path / "last.ckpt") == {"epoch": 3}


def test_class_in_the_former_format_is_named(namespace: Namespace, read: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "last.ckpt"
    torch.save({"model": torch.nn.Linear(1, 1)}, file, _use_new_zipfile_serialization=False)

    with pytest.raises(CheckpointCodeError, match=r"holds torch\.nn\.modules\.linear\.Linear, which weights_only=True"):
        read(file, weights_only=True)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize(("protocol", "more"), [(3, b"bytes"), (4, "a word")])
def test_unreadable_pickle_protocol_is_named(
    protocol: int, more: bytes | str, namespace: Namespace, read: Callable[..., Any], tmp_path: Path
) -> None:
    """Of which a vendor's ``torch.save`` may write one; torch's own reader of weights knows protocol 2."""
    file = tmp_path / "last.ckpt"
    torch.save({"weight": torch.ones(3), "more": more}, file, pickle_protocol=protocol)

    said = refusal(CheckpointCodeError, read, file, weights_only=True)

    assert said == (
        f"{file} has pickle protocol {protocol}, which weights_only=True cannot read. Fix: weights_only=False"
        " if you trust it, or torch.save(…, pickle_protocol=2)"
    )


@pytest.mark.parametrize(
    ("part", "value", "fault"),
    [
        ("pytorch-lightning_version", None, "its 'pytorch-lightning_version' is None"),
        ("pytorch-lightning_version", "x.y", "its 'pytorch-lightning_version' is 'x.y'"),
        ("loops", 3, "its 'loops' is of type int, not a dict"),
        ("callbacks", "x", "its 'callbacks' is of type str, not a dict"),
        ("pytorch-lightning_versiom", "2.6.6", "it has no 'pytorch-lightning_version'"),
        ("hyper_parameters", [1], "its 'hyper_parameters' is of type list, not a dict"),
    ],
)
def test_what_no_trainer_can_restore_is_one_error(
    part: str, value: object, fault: str, trainer_namespace: Namespace, tmp_path: Path
) -> None:
    file = tmp_path / "last.ckpt"
    whole = {"state_dict": {}} if part.endswith("versiom") else {"pytorch-lightning_version": "2.6.6", "state_dict": {}}
    torch.save({**whole, part: value}, file)
    model = trainer_namespace.module("demos.boring_classes").BoringModel()
    quiet = {"logger": False, "enable_checkpointing": False}
    trainer = trainer_namespace.module("trainer").Trainer(accelerator="cpu_sim", devices=1, max_steps=1, **quiet)

    said = f"{file} is not a checkpoint: {fault}. Fix: copy it again, or load a file that a Trainer wrote"
    if part != "hyper_parameters":  # a fit does not read them
        with pytest.raises(CheckpointError) as raised:
            trainer.fit(model, ckpt_path=file)
        assert str(raised.value) == said
    with file.open("rb") as opened:
        for given in (file, opened, io.BytesIO(file.read_bytes())):
            with pytest.raises(CheckpointError) as raised:
                type(model).load_from_checkpoint(given)
            named = "the given file" if isinstance(given, io.BytesIO) else str(file)
            assert str(raised.value) == said.replace(str(file), named)


if __name__ == "__main__":
    damage_shards(*sys.argv[1:])
