"""The vendor's variables that a run depends on. Imported late: pydantic takes longer than a plugin may."""

import northbridge
import pydantic


class ChipSettings(northbridge.VendorSettings):
    """Each field is called as its variable, in lower case."""

    basalt_visible_devices: northbridge.Indices | None = pydantic.Field(
        default=None, description="a list of cards, each once, with commas between, such as 0,2"
    )
