"""Batches and float64 references for tests of links, losses and signals.

  from agentrl.testing import batches

  s = batches.story()
  laid = batches.lay(s, 'packed', padding=2)
  credit, _ = batches.stream(batches.links('episode_return', 'center'),
                             laid.batch, laid.signals)

The lists of the story are what a test computes on in plain loops.
"""

from agentrl.testing import batches

__all__ = ['batches']
