from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from torch import nn

from northbridge.errors import ArgumentsError, WeightsDisagreeError
from northbridge.lightning.namespaces import Namespace


class Ranks:
    """A strategy whose other ranks have these models; the first model is this rank's."""

    root_device = torch.device("cpu")

    def __init__(self, agreement: type[Any], *models: nn.Module) -> None:
        self.world_size = len(models)
        self.sent: list[torch.Tensor] = []
        self.others = [Ranks(agreement).record(agreement, model) for model in models[1:]]

    def record(self, agreement: type[Any], model: nn.Module) -> list[torch.Tensor]:
        """Return what a rank with this model sends where the other never agrees."""
        self.world_size = 2
        with pytest.raises(WeightsDisagreeError):
            agreement().check(self, model, 1)
        return self.sent

    def all_gather(self, tensor: torch.Tensor) -> torch.Tensor:
        others = [sent[len(self.sent)] for sent in self.others]
        self.sent.append(tensor)
        if not others:
            others = [tensor.clone()]
            others[0][0, 0] ^= 1
        return torch.stack([tensor, *others])


@pytest.fixture
def agreement(namespace: Namespace) -> Any:
    return importlib.import_module(namespace.home).WeightsAgreement


def model(layers: int = 2) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(*(nn.Linear(3, 3) for _ in range(layers)))


def changed(*, layer: int) -> nn.Module:
    net = model()
    with torch.no_grad():
        net.get_parameter(f"{layer}.bias")[0] += 1e-7
    return net


def test_a_wrong_number_of_steps_is_refused(agreement: Any) -> None:
    with pytest.raises(ArgumentsError, match="every_n_steps=0 is not 1 or more"):
        agreement(every_n_steps=0)


def test_the_minority_is_named_with_what_differs(agreement: Any) -> None:
    ranks = Ranks(agreement, model(), changed(layer=0), model(), changed(layer=0), model())

    with pytest.raises(WeightsDisagreeError, match=r"ranks 1 and 3 differ from ranks 0, 2 and 4 in '0.bias'") as error:
        agreement().check(ranks, model(), 7)

    assert error.value.ranks == (1, 3)
    assert "at step 7 (this was the first check)" in str(error.value)
    assert "either may be wrong" not in str(error.value)


def test_rank_0_is_named_where_the_others_agree(agreement: Any) -> None:
    net = changed(layer=1)

    with pytest.raises(WeightsDisagreeError, match=r"rank 0 differs from ranks 1 and 2") as error:
        agreement().check(Ranks(agreement, net, model(), model()), net, 7)

    assert error.value.ranks == (0,)


def test_many_parameters_are_counted(agreement: Any) -> None:
    torch.manual_seed(2)
    other = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))

    with pytest.raises(WeightsDisagreeError, match=r"'0.weight', '0.bias', '1.weight' and 1 more\. Fix"):
        agreement().check(Ranks(agreement, model(), other), model(), 7)


def test_models_of_other_sizes_are_told(agreement: Any) -> None:
    with pytest.raises(WeightsDisagreeError, match="in the number of its parameters: 4 on rank 0, 6 on rank 1"):
        agreement().check(Ranks(agreement, model(), model(layers=3)), model(), 7)


def test_one_rank_agrees_with_itself(agreement: Any) -> None:
    check = agreement()

    check.check(object(), model(), 5)

    assert check.agreed_at == 5
