import northbridge


@northbridge.hookimpl
def northbridge_simulation():
    return {"torch_acme": "torch_acme.py"}
