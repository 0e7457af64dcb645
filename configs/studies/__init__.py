"""Comparisons: one file each, whose get_study() returns a `Study`."""
