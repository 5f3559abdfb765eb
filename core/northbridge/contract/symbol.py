"""One line of a contract."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

import pydantic
from typing_extensions import Self

from northbridge.contract.signature import asks_for_arguments, parse

Kind = Literal["module", "class", "function", "method", "attribute", "environment", "behaviour", "absent"]
"""``absent`` is known to be missing; ``behaviour`` is a documented fact without a symbol."""

_CALLED = ("function", "method")
_RELEASED = ("module", "class", "function", "method", "attribute")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

Text = Annotated[str, pydantic.StringConstraints(min_length=1)]


class Symbol(pydantic.BaseModel):
    """One line of the contract: a symbol of the vendor's, and the facts about it."""

    # Strict: a release without quotation marks, 1.20, would be read as 1.2.
    model_config: ClassVar[pydantic.ConfigDict] = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Text
    kind: Kind
    signature: str = ""
    meaning: Text
    acquires: bool = False
    """True if calling it, or reading it if it is an attribute, acquires a card for this process."""
    since: str = ""
    evidence: Literal["read", "inferred"]
    source: Annotated[str, pydantic.StringConstraints(pattern=r"^https?://\S+$")]
    required: bool = True
    """True if every release and mode that the backend supports has it."""
    untouched: str = ""
    """The reason why no test touches it, if none does."""
    tried: bool = pydantic.Field(default=False, alias="try")
    """True if the doctor may call it, without arguments."""

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
