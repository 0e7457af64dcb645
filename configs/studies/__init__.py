"""Comparisons: a file each, with get_study() -> experiments.study.Study."""
