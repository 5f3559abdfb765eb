"""torch's own reader, whatever was put in the place of its parts."""

from __future__ import annotations

import datetime
import io
import os
import pickle
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._weights_only_unpickler as unpickler
from tests.core.lightning.conftest import refusal

from northbridge.errors import CheckpointError
from northbridge.lightning.plugins.checkpoint_files import reading
from northbridge.lightning.plugins.load_and_save import ThreadOverride, stock_load


class RunsCode:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("ran",)


def saved(value: object, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


def careless(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a vendor may put in the place of a reader: it allows everything."""
    return lambda file, place, _module, *rest, **more: original(file, place, pickle, *rest, **more)


def everything() -> dict[str, object]:
    return {f"{os.mkdir.__module__}.mkdir": os.mkdir}


REPLACED: dict[str, tuple[object, str, object]] = {
    "load": (torch.serialization, "load", lambda file, **_: pickle.load(file)),
    "reader": (torch.serialization, "_load", careless(torch.serialization._load)),
    "reader of the former format": (torch.serialization, "_legacy_load", careless(torch.serialization._legacy_load)),
    "unpickler": (unpickler, "Unpickler", pickle._Unpickler),
    "load of the unpickler": (unpickler, "load", lambda file, **_: pickle.load(file)),
    "method of the unpickler": (unpickler.Unpickler, "load", lambda self: pickle._Unpickler(self).load()),
    "allowed names": (unpickler, "_get_allowed_globals", everything),
}


@pytest.fixture(params=REPLACED)
def replaced(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One part of torch's reader, replaced by what lets code run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(*REPLACED[request.param])


@pytest.mark.usefixtures("replaced")
@pytest.mark.parametrize("archive", [True, False])
def test_runs_no_code(archive: bool) -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"GLOBAL (posix|nt)\.mkdir|module (posix|nt) is blocked"):
        stock_load()(saved(RunsCode(), _use_new_zipfile_serialization=archive), weights_only=True)

    assert not Path("ran").exists()


@pytest.mark.usefixtures("replaced")
def test_reads_what_torch_reads() -> None:
    """Tied weights stay tied, and classes that the user has allowed open."""
    weight = torch.arange(4.0)
    with torch.serialization.safe_globals([datetime.timedelta]):
        found = stock_load()(saved({"all": weight, "last": weight[3:], "when": datetime.timedelta(1)}))
    found["all"][3] = 7

    assert found["last"].tolist() == [7]
    assert found["when"] == datetime.timedelta(1)
    with pytest.raises(pickle.UnpicklingError, match="datetime"):
        stock_load()(saved(datetime.timedelta(1)))


@pytest.mark.usefixtures("replaced")
def test_knows_the_devices_that_are_registered() -> None:
    def to_acme(storage: Any, place: str) -> Any:
        return storage if place == "acme" else None

    torch.serialization.register_package(1, lambda _storage: None, to_acme)
    try:
        assert stock_load()(saved(torch.ones(2)), map_location="acme").tolist() == [1, 1]
    finally:
        torch.serialization._package_registry[:] = [
            each for each in torch.serialization._package_registry if each[2] is not to_acme
        ]


def test_a_layout_is_pickled_by_torchs_own_function() -> None:
    """The copy of torch's file leaves pickle as it is: ranks tell each other of layouts when they save shards."""
    assert stock_load() is torch.serialization.load  # nothing is replaced

    assert pickle.loads(pickle.dumps(torch.strided)) is torch.strided


def on(thread: ThreadPoolExecutor, function: Callable[..., Any], *args: Any) -> Any:
    return thread.submit(function, *args).result()


def enter(thread: ThreadPoolExecutor, manager: AbstractContextManager[None]) -> Callable[[], None]:
    on(thread, manager.__enter__)
    return lambda: on(thread, manager.__exit__, None, None, None)


@pytest.fixture
def threads() -> Iterator[list[ThreadPoolExecutor]]:
    """Two other threads, each of which does one thing after another."""
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        yield [first, second]


@pytest.fixture(params=["load", "save"])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A function of torch, which says that it is torch's."""
    monkeypatch.setattr(torch, request.param, lambda: "torch's")
    return str(request.param)


def test_overlapping_uses_leave_nothing(name: str, threads: list[ThreadPoolExecutor]) -> None:
    override, before = ThreadOverride(name), getattr(torch, name)

    def call() -> str:
        return str(getattr(torch, name)())

    leave = enter(threads[0], override.use(lambda: "first"))
    leave_second = enter(threads[1], override.use(lambda: f"second, not {call()}"))
    assert [*(on(each, call) for each in threads), call()] == ["first", "second, not torch's", "torch's"]
    assert override.former is before
    leave()
    assert [*(on(each, call) for each in threads), call()] == ["torch's", "second, not torch's", "torch's"]
    leave_second()

    assert getattr(torch, name) is before


def test_replacement_by_the_user_meanwhile_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    override = ThreadOverride(name)
    with override.use(lambda: "ours"):
        inner = getattr(torch, name)
        monkeypatch.setattr(torch, name, lambda: f"the user's, by {inner()}")
        with override.use(lambda: "ours again"):
            assert getattr(torch, name)() == "the user's, by ours again"

    assert getattr(torch, name)() == "the user's, by torch's"
    with override.use(lambda: f"ours, by {override.former()}"):
        assert getattr(torch, name)() == "ours, by the user's, by torch's"


def test_error_names_the_file_of_its_thread(tmp_path: Path, threads: list[ThreadPoolExecutor]) -> None:
    """A file of a user, read in another thread or in this one, is not blamed on the checkpoint."""
    files = tuple(tmp_path / name for name in ("one.ckpt", "two.ckpt", "other.pt"))
    for file in files:
        file.write_bytes(b"junk")
    leave = [enter(thread, reading(file)) for thread, file in zip(threads, files[:2], strict=True)]

    with pytest.raises((struct.error, EOFError)):  # torch's own
        torch.load(files[0])
    for thread, file in zip(threads, files[:2], strict=True):
        assert refusal(CheckpointError, on, thread, torch.load, file).startswith(f"{file} could not be read")
    said = refusal(CheckpointError, on, threads[0], torch.load, files[2])
    assert said.startswith(f"{files[2]} could not be read")
    for each in leave:
        each()
