"""The variables of Kelvin's software that a run depends on."""

import northbridge
import pydantic


class KelvinSettings(northbridge.VendorSettings):
    """Each field is called as its variable, in lower case."""

    kelvin_visible_devices: northbridge.Indices | None = pydantic.Field(
        default=None, description="a list of cards, each once, with commas between, such as 0,2"
    )
