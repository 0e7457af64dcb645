"""Worlds of tables that several studies play, each with its label."""

from agentrl.lab.study.spec import Env

_LABELS = {
  'bifurcation': 'Bifurcation: one of 10 turns matters, 4 choices, slip 0.2',
  'key_door': 'Key and door: a 5x5 grid, at most 24 turns, slip 0.1',
  'chain': 'Chain: ten places, four actions, at most 40 turns, slip 0.1',
}
# Where they are not the defaults of tabular/mdp.py.
_SETTINGS = {'bifurcation': {'length': 10, 'slip': 0.2}}


def worlds(*names: str, iterations: int) -> dict[str, Env]:
  """Builds a study's environments, {name: Env}, of equal iterations."""
  out = {}
  for name in names:
    changes = {'world': name, 'iterations': iterations}
    if name in _SETTINGS:
      changes['settings'] = _SETTINGS[name]
    out[name] = Env(_LABELS[name], changes)
  return out
