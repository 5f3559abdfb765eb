"""One line of a contract."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

import pydantic
from typing_extensions import Self

from northbridge.contract.signature import asks_for_arguments, parse

Kind = Literal["module", "class", "function", "method", "attribute", "environment", "behaviour", "absent"]
"""``absent`` is known not to be there; ``behaviour`` is a documented fact that is no symbol."""

_CALLED = ("function", "method")
_RELEASED = ("module", "class", "function", "method", "attribute")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

Text = Annotated[str, pydantic.StringConstraints(min_length=1)]


class Symbol(pydantic.BaseModel):
    """One line of the contract: something of the vendor's, and what is known about it."""

    # Strict: a release that is written without quotation marks, 1.20, would be read as 1.2.
    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Text
    kind: Kind
    signature: str = ""
    meaning: Text
    acquires: bool = False
    """Whether calling it, or reading it where it is an attribute, takes a card for this process."""
    since: str = ""
    evidence: Literal["read", "inferred"]
    source: Annotated[str, pydantic.StringConstraints(pattern=r"^https?://\S+$")]
    required: bool = True
    """Whether every release and mode has it that the backend runs on."""
    untouched: str = ""
    """Why no test touches it, where none does."""
    tried: bool = pydantic.Field(default=False, alias="try")
    """Whether the doctor may call it, with no arguments."""

    @pydantic.model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.kind != "behaviour" and not _DOTTED.fullmatch(self.name):
            raise ValueError(f"name={self.name!r} is not a dotted name")
        if self.kind in _CALLED and not self.signature:
            raise ValueError(f"a {self.kind} needs a signature")
        if self.signature and self.kind not in (*_CALLED, "class"):
            raise ValueError(f"kind={self.kind!r} has no signature")
        said = parse(self.signature) if self.signature else None
        if self.since == "?" or (self.kind in _RELEASED and self.evidence == "read" and not self.since):
            raise ValueError("since= is missing; only an inferred line may leave it out")
        if self.tried and (self.kind != "function" or said is None or said.return_annotation is said.empty):
            raise ValueError("try=true needs a function whose signature has a result")
        if self.tried and said is not None and asks_for_arguments(said):
            raise ValueError("try=true needs a signature without required arguments")
        return self

    def __str__(self) -> str:
        return f"{self.name}{self.signature}"
