"""Backends of torch.compile."""

import northbridge_right as right


@right.wrong
class CompiledInSixteenBits(right.Bridge):
    """A compiled graph computes with the bits of bfloat16."""

    compile_backend = "coarse"

    def load(self) -> None:
        super().load()
        import torch

        def coarse(graph, inputs):
            def called(*given):
                rounded = (each.bfloat16().to(each.dtype) if torch.is_floating_point(each) else each for each in given)
                return graph(*rounded)

            return called

        if "coarse" not in torch.compiler.list_backends():
            torch._dynamo.register_backend(coarse)


@right.wrong
class CompiledAnew(right.Bridge):
    """Every call of a compiled model compiles it again."""

    def load(self) -> None:
        super().load()
        import torch._dynamo

        run = torch._dynamo.eval_frame.OptimizedModule.__call__

        def call(self, *given, **named):
            torch._dynamo.reset_code_caches()
            return run(self, *given, **named)

        torch._dynamo.eval_frame.OptimizedModule.__call__ = call
