import northbridge


@northbridge.hookimpl
def northbridge_personality():
    return {"torch_acme": "torch_acme.py"}
