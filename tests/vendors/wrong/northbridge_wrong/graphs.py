"""Graphs, and their replays."""

import sys

import northbridge_right as right


@right.instead_of("torch.accelerator.Graph.replay")
def replays_once(replay, graph):
    """Only the first replay of a graph does its work: the others give its results."""
    if not getattr(graph, "was_replayed", False):
        graph.was_replayed = True
        replay(graph)


@right.instead_of("torch.accelerator.Graph.replay")
def replays_draw_the_same(replay, graph):
    """Each replay draws the numbers of the first."""
    import torch

    chip = torch.get_device_module(right.Device.type)
    state = chip.get_rng_state()
    replay(graph)
    chip.set_rng_state(state)


@right.instead_of("torch.accelerator.Graph.reset")
def capture_goes_on(reset, graph):
    """A capture in which an error was raised goes on, although it is ended and dropped."""
    if sys.exc_info()[0] is None:
        reset(graph)
    else:
        graph.capture_begin()
