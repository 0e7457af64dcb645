"""Comparisons: a file each, with get_study() -> agentrl.study.spec.Study."""
