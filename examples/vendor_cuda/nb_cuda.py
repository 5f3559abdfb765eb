"""NVIDIA's GPUs as a third party would bring them: torch's own "cuda" and NCCL, by the name "nb_cuda"."""

import northbridge


class CUDADevice(northbridge.Device):
    type = "cuda"


class NCCL(northbridge.Collective):
    name = "nccl"
    takes_device_id = True
    carried_dtypes = frozenset({"float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool"})


class CUDABridge(northbridge.Bridge):
    def load(self) -> None:  # torch has brought it, or is a build without it
        import torch

        if not torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]  # torch's
            said = f"backend {self.backend!r}: torch {torch.__version__} was built without CUDA; install one with CUDA"
            raise northbridge.SoftwareMissingError(said, backend=self.backend)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    dtypes = dict.fromkeys(("bfloat16", "bfloat16_range", "float16", "float64", "int64"), northbridge.yes)
    coarse = northbridge.Within(5e-3, "cuDNN reads ten bits of each factor: torch.backends.cudnn.allow_tf32")
    recurrent = dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), coarse)
    claims = northbridge.Capabilities.of_level("C3", auto=False, operators=recurrent, **dtypes)
    return northbridge.Backend("nb_cuda", CUDADevice(), NCCL(), CUDABridge(), claims)
