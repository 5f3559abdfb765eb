"""Backends of torch.compile."""

import northbridge_right as right
from northbridge_right import torch


@right.wrong("C1/CompiledFunctions/test_compiled_loss_and_gradients_match_the_plain_model")
class CompiledInSixteenBits(right.Bridge):
    """Compiled graphs lose bits."""

    compile_backend = "coarse"

    def load(self) -> None:
        super().load()

        def coarse(graph, inputs):
            def called(*given):
                rounded = (each.bfloat16().to(each.dtype) if torch.is_floating_point(each) else each for each in given)
                return graph(*rounded)

            return called

        if "coarse" not in torch.compiler.list_backends():
            torch._dynamo.register_backend(coarse)


@right.wrong("C1/CompiledFunctions/test_four_batch_sizes_compile_two_graphs")
class CompiledAnew(right.Bridge):
    """Every call compiles anew."""

    def load(self) -> None:
        super().load()
        import torch._dynamo

        run = torch._dynamo.eval_frame.OptimizedModule.__call__

        def call(self, *given, **named):
            torch._dynamo.reset_code_caches()
            return run(self, *given, **named)

        torch._dynamo.eval_frame.OptimizedModule.__call__ = call
