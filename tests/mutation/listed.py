"""All mutants by name."""

from tests.mutation import (
  advantages,
  externals,
  gateways,
  joints,
  judges,
  losses,
  models,
  pieces,
  rollouts,
  runs,
  scorers,
  texts,
)
from tests.mutation.mutant import Mutant

AREAS = {
  'advantages': advantages,
  'externals': externals,
  'gateways': gateways,
  'joints': joints,
  'judges': judges,
  'scorers': scorers,
  'losses': losses,
  'models': models,
  'pieces': pieces,
  'rollouts': rollouts,
  'runs': runs,
  'texts': texts,
}


def mutants() -> dict[str, Mutant]:
  """Names are `<area>:<module>.<function>`, numbered from the second on."""
  found: dict[str, Mutant] = {}
  for area, listed in AREAS.items():
    for m in listed.MUTANTS:
      name = f'{area}:{m.name}'
      several = sum(x.split('#')[0] == name for x in found)
      found[f'{name}#{several + 1}' if several else name] = m
  return found
