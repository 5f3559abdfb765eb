"""A plugin that forgot its hook."""
