"""The chip denies bfloat16, and has it."""

import northbridge
from northbridge_wrong import right


claims = right.capabilities(bfloat16=northbridge.no("its matrix unit has none"))


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return right.backend("wrong_hidden_capability", claims=claims)
