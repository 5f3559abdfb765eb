"""Which process may use a card: one that holds it, and a child that was forked before the first use."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

HOLDS: dict[str, tuple[str, list[str]]] = {
    "one card": (
        """
        torch.cpu_sim.hold(3)
        torch.cpu_sim.hold(3)
        print(torch.ones(1, device="cpu_sim").device, torch.cpu_sim.get_device_properties().card)
        print(torch.cpu_sim.device_count())
        refused(lambda: torch.cpu_sim.hold(1))
        refused(lambda: torch.ones(1, device="cpu_sim:3"))
        """,
        [
            "cpu_sim:0 3",
            "8",
            "card 1 of cpu_sim was asked for, but this process already holds card 3. Fix: use another process",
            "cpu_sim:3 was asked for, but this process holds one card, which it calls cpu_sim:0",
        ],
    ),
    "touched": (
        """
        torch.ones(1, device="cpu_sim")
        refused(lambda: torch.cpu_sim.hold(1))
        torch.cpu_sim.hold(0)
        """,
        ["this process already holds card 0"],
    ),
    "stands on another device": (
        "torch.cpu_sim.set_device(1); refused(lambda: torch.cpu_sim.hold(0))",
        ["this thread's current device is cpu_sim:1. Fix: take the card before any other"],
    ),
    "seeds it and trains on it": (
        """
        torch.cpu_sim.hold(3)
        torch.manual_seed(5)
        print(torch.cpu_sim.initial_seed(), len(torch.cpu_sim.get_rng_state_all()))
        weight = torch.ones(2, device="cpu_sim", requires_grad=True)
        weight.square().sum().backward()
        print(weight.grad.tolist())
        """,
        ["5 1", "[2.0, 2.0]"],
    ),
}
"""What a process does that takes a card with ``hold``, and what its lines hold."""

REFUSED = """
def refused(call):
    try:
        call()
    except RuntimeError as error:
        print(error)
"""


@pytest.mark.parametrize("case", HOLDS)
def test_a_process_holds_one_card(in_fork: Callable[..., str], case: str) -> None:
    program, expected = HOLDS[case]

    said = in_fork(REFUSED + textwrap.dedent(program)).splitlines()

    assert len(said) == len(expected)
    for found, words in zip(said, expected, strict=True):
        assert words in found


def test_a_child_forked_after_the_first_use_is_refused_every_use(in_fork: Callable[..., str]) -> None:
    said = in_fork(
        """
        import os
        x = torch.ones(2, device="cpu_sim", requires_grad=True)
        y = (x * 2).sum()
        pinned = torch.ones(2).pin_memory()
        generator, state = torch.Generator(device="cpu_sim"), torch.cpu_sim.get_rng_state()
        stream, event = torch.cpu_sim.Stream(), torch.cpu_sim.Event(enable_timing=True)
        event.record(stream)
        uses = [
            lambda: torch.ones(2, device="cpu_sim"),
            lambda: torch.empty(0, device="cpu_sim"),
            lambda: torch.UntypedStorage(4, device="cpu_sim"),
            lambda: torch.ones(2).to("cpu_sim"),
            lambda: torch.ones(2).pin_memory(),
            lambda: x + 1,
            lambda: x.detach().add_(1),
            lambda: torch._foreach_add([x.detach()], 1),
            lambda: x.detach().resize_(20),
            lambda: x.untyped_storage().resize_(80),
            lambda: x.to("cpu_sim:1"),
            lambda: x.cpu(),
            lambda: x.detach().copy_(pinned),
            lambda: pinned.copy_(x.detach()),
            lambda: x[0].item(),
            lambda: y.backward(),
            lambda: x.record_stream(stream),
            lambda: torch.Generator(device="cpu_sim"),
            lambda: generator.manual_seed(1),
            lambda: generator.seed(),
            lambda: generator.initial_seed(),
            lambda: generator.get_state(),
            lambda: generator.set_state(state),
            lambda: torch.Stream(device="cpu_sim"),
            lambda: torch.cpu_sim.set_stream(stream),
            lambda: stream.__enter__(),
            lambda: stream.query(),
            lambda: stream.synchronize(),
            lambda: stream.wait_event(event),
            lambda: torch.cpu_sim.Event().record(),
            lambda: event.record(),
            lambda: event.query(),
            lambda: event.wait(),
            lambda: event.synchronize(),
            lambda: event.elapsed_time(event),
            lambda: torch.cpu_sim.set_device(1),
            lambda: torch.cpu_sim.synchronize(),
            lambda: torch.cpu_sim.init(),
        ]
        if os.fork() == 0:
            assert torch.cpu_sim._is_in_bad_fork()
            torch.manual_seed(0)
            assert torch.cpu_sim.device_count() == torch.accelerator.device_count() == 8
            assert not torch.cpu_sim.is_initialized()
            for number, use in enumerate(uses):
                try:
                    use()
                    print(number, "worked", flush=True)
                except RuntimeError as error:
                    print(error, flush=True)
            os._exit(0)
        os.wait()
        assert not torch.cpu_sim._is_in_bad_fork()
        print((x + 1).tolist(), len(uses))
        """
    )

    *refusals, parent = said.splitlines()
    assert parent == f"[2.0, 2.0] {len(refusals)}"
    for refusal in refusals:
        assert "cpu_sim cannot be used in this process: it was forked from one" in refusal
        assert "'spawn'" in refusal
