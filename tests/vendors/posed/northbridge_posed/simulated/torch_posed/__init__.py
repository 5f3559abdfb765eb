"""Stand in for the vendor's package, of which importing `torch_posed.plugin` brings the device."""
