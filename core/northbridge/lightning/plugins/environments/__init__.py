"""Cluster environments: how Lightning learns which rank a process is."""
