"""Rollouts: how trajectories are sampled."""
