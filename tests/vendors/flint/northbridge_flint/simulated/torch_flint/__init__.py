"""Stand in for the vendor's package, of which importing `torch_flint.plugin` brings the device."""
