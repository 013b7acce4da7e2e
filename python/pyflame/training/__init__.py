"""The jobs behind `pyflame train` and `pyflame generate`."""
