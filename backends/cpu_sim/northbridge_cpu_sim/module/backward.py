"""The end of a backward that ran on the threads of devices."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from torch.autograd import Variable


def count_on_after_backwards(extension: ModuleType) -> None:
    """Let a thread number its next nodes behind those that a backward has made, as where it made them itself.

    The C++ sees to that for every node but the first, since no code of the chip runs before an operator of autograd.
    """
    engine: Any = Variable._execution_engine

    class Engine(type(engine)):  # type: ignore[misc]  # torch's, untyped
        def run_backward(self, *arguments: Any, **options: Any) -> Any:
            try:
                return super().run_backward(*arguments, **options)
            finally:
                extension.share_sequence_numbers()

    Variable._execution_engine = Engine()
