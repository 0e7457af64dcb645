"""Curating: which whole groups or trajectories are trained on."""
