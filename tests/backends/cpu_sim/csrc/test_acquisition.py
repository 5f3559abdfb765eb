"""Processes that hold one card each."""

from __future__ import annotations

from collections.abc import Callable


def test_a_process_that_holds_one_card_calls_it_0(in_fork: Callable[..., str]) -> None:
    said = in_fork(
        """
        torch.cpu_sim.hold(3)
        torch.cpu_sim.hold(3)
        print(torch.ones(1, device="cpu_sim").device, torch.cpu_sim.get_device_properties().card)
        print(torch.cpu_sim.device_count())
        for use in (lambda: torch.cpu_sim.hold(1), lambda: torch.ones(1, device="cpu_sim:3")):
            try:
                use()
            except RuntimeError as error:
                print(error)
        """
    )

    assert said.splitlines() == [
        "cpu_sim:0 3",
        "8",
        ("card 1 of cpu_sim was asked for, but this process already holds card 3. Fix: use another process"),
        "cpu_sim:3 was asked for, but this process holds one card, which it calls cpu_sim:0",
    ]


def test_a_process_that_has_touched_a_card_holds_card_0(in_fork: Callable[..., str]) -> None:
    said = in_fork(
        """
        torch.ones(1, device="cpu_sim")
        try:
            torch.cpu_sim.hold(1)
        except RuntimeError as error:
            print(error)
        torch.cpu_sim.hold(0)
        """
    )

    assert "this process already holds card 0" in said


def test_a_process_that_stands_on_another_device_holds_no_card(in_fork: Callable[..., str]) -> None:
    said = in_fork(
        """
        torch.cpu_sim.set_device(1)
        try:
            torch.cpu_sim.hold(0)
        except RuntimeError as error:
            print(error)
        """
    )

    assert "this thread's current device is cpu_sim:1. Fix: take the card before any other" in said


def test_a_process_that_holds_one_card_seeds_it_and_trains_on_it(in_fork: Callable[..., str]) -> None:
    said = in_fork(
        """
        torch.cpu_sim.hold(3)
        torch.manual_seed(5)
        print(torch.cpu_sim.initial_seed(), len(torch.cpu_sim.get_rng_state_all()))
        weight = torch.ones(2, device="cpu_sim", requires_grad=True)
        weight.square().sum().backward()
        print(weight.grad.tolist())
        """
    )

    assert said.splitlines() == ["5 1", "[2.0, 2.0]"]
