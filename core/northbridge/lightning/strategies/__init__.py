"""The bodies of our strategies, which all namespaces share."""
