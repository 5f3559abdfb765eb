from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn

from northbridge.lightning.plugins.layer_sync import SyncBatchNorm, restore, synchronize

pytestmark = pytest.mark.usefixtures("chip")


class Own(nn.BatchNorm1d):
    """A user's."""


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), Own(4), nn.Sequential(nn.BatchNorm2d(4), nn.SyncBatchNorm(4)))


def test_batch_norms_are_replaced_and_restored() -> None:
    net = model()
    weight, kinds, names = net[1].weight, [type(each) for each in net.modules()], net.state_dict().keys()

    synchronize(synchronize(net, "cpu_sim"), "cpu_sim")  # the second changes nothing
    between = [type(each) for each in net.modules()]
    assert net.state_dict().keys() == names
    restore(net)

    assert between.count(SyncBatchNorm) == 3
    assert [type(each) for each in net.modules()] == kinds
    assert net[1].weight is weight
    assert vars(net[1]).keys() == vars(Own(4)).keys()


def test_what_the_user_did_not_convert_stays_as_it_is() -> None:
    net = model()

    synchronize(net, "cpu_sim", only=nn.SyncBatchNorm)

    assert [type(each) for each in net.modules() if isinstance(each, SyncBatchNorm)] == [SyncBatchNorm]
    assert type(net[1]) is Own


def test_a_process_that_is_alone_normalizes_as_before() -> None:
    numbers = torch.randn(6, 4)
    expected = Own(4)
    layer = synchronize(copy.deepcopy(expected), "cpu_sim")

    assert torch.equal(layer(numbers), expected(numbers))
    assert torch.equal(layer.eval()(numbers), expected.eval()(numbers))


def test_copied_or_pickled_model_is_restored_too() -> None:
    net = synchronize(model(), "cpu_sim")
    file = io.BytesIO()
    torch.save(net, file)
    file.seek(0)

    for other in (copy.deepcopy(net), torch.load(file, weights_only=False)):
        assert type(restore(other).get_submodule("1")) is Own


def test_the_shape_that_the_layer_wants_is_still_asked_for() -> None:
    layer = synchronize(nn.BatchNorm2d(4), "cpu_sim")

    with pytest.raises(ValueError, match="expected 4D input"):
        layer(torch.randn(6, 4))
