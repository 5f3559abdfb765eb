"""A thread that replaces a function of torch: other threads keep theirs, and nothing remains afterwards."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch

from northbridge.errors import CheckpointError
from northbridge.lightning.plugins.checkpoint_files import reading
from northbridge.lightning.plugins.load_and_save import ThreadOverride


class Thread:
    """Another thread, which does one thing after another."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)

    def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._pool.submit(function, *args).result()

    def enter(self, manager: AbstractContextManager[None]) -> Callable[[], None]:
        self(manager.__enter__)
        return lambda: self(manager.__exit__, None, None, None)

    def end(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def threads() -> Iterator[tuple[Thread, Thread]]:
    both = Thread(), Thread()
    yield both
    for each in both:
        each.end()


@pytest.fixture(params=["load", "save"])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A function of torch, which says that it is torch's."""
    monkeypatch.setattr(torch, request.param, lambda: "torch's")
    return str(request.param)


def test_overlapping_uses_leave_nothing(name: str, threads: tuple[Thread, Thread]) -> None:
    override, before = ThreadOverride(name), getattr(torch, name)

    def call() -> str:
        return str(getattr(torch, name)())

    leave = threads[0].enter(override.use(lambda: "first"))
    leave_second = threads[1].enter(override.use(lambda: f"second, not {call()}"))
    assert [threads[0](call), threads[1](call), call()] == ["first", "second, not torch's", "torch's"]
    assert override.former is before
    leave()
    assert [threads[0](call), threads[1](call), call()] == ["torch's", "second, not torch's", "torch's"]
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


def test_error_names_the_file_of_its_thread(tmp_path: Path, threads: tuple[Thread, Thread]) -> None:
    """A file of a user, read in another thread or in this one, is not blamed on the checkpoint."""
    files = tuple(tmp_path / name for name in ("one.ckpt", "two.ckpt", "other.pt"))
    for file in files:
        file.write_bytes(b"junk")
    leave = [thread.enter(reading(file)) for thread, file in zip(threads, files[:2], strict=True)]

    with pytest.raises((struct.error, EOFError)):  # torch's own
        torch.load(files[0])
    for thread, file in zip(threads, files[:2], strict=True):
        with pytest.raises(CheckpointError) as raised:
            thread(torch.load, file)
        assert str(raised.value).startswith(f"{file} could not be read")
    with pytest.raises(CheckpointError) as raised:
        threads[0](torch.load, files[2])
    assert str(raised.value).startswith(f"{files[2]} could not be read")
    for each in leave:
        each()
