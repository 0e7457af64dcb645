"""Stories in which some trajectories propose and others solve."""

import numpy as np

from agentrl.testing import batches
from agentrl.types import Agent


def with_roles(story: batches.Story, layout: str, of: str):
  """Lays a story out with roles, and a term of their last turns.

  Returns: what was laid, the term [n], roles [n]
  """
  laid, n = batches.lay(story, layout, padding=2), len(story.group)
  turns = laid.batch.turns
  r = np.random.default_rng(3)
  p = r.integers(0, 8, n) / 7
  p[:4] = 1 / 7, 3 / 7, 5 / 7, 1.0
  agent = np.where(np.arange(n) % 5 == 4, Agent.PROPOSER, Agent.SOLVER)
  b, k = turns.valid.shape
  term, who = r.normal(size=(b, k)), r.integers(0, 2, (b, k))
  who[:n] = agent[:, None]
  for i, sizes in enumerate(story.size):
    term[i, : len(sizes)] = 0
    term[i, len(sizes) - 1] = p[i]
  turns = turns.replace(terms=turns.terms | {of: term}, agent=who)
  return laid._replace(batch=laid.batch.replace(turns=turns)), p, agent
