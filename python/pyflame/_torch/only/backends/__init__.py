"""Switches of libraries that PyFlame does not use."""
