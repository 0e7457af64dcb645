"""Worlds of tables: each can be built, with what its label says of it."""

import pytest

from agentrl.lab.papers.tabular.worlds import worlds


def test_a_study_names_its_worlds_and_their_iterations():
  envs = worlds('chain', 'bifurcation', iterations=7)
  assert list(envs) == ['chain', 'bifurcation']
  assert envs['chain'].changes == {'world': 'chain', 'iterations': 7}
  bifurcation = envs['bifurcation']
  assert bifurcation.changes['settings'] == {'length': 10, 'slip': 0.2}
  assert 'one of 10 turns' in bifurcation.label
  assert 'slip 0.2' in bifurcation.label


def test_a_world_without_a_label_is_none():
  with pytest.raises(KeyError):
    worlds('maze', iterations=1)
