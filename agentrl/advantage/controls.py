"""Placebo control: moves turn advantages within a trajectory."""

from agentrl import registry, segment
from agentrl.advantage import group_stats
from agentrl.types import Linked, LinkInputs


@registry.register('link')
def move_turns(x: LinkInputs) -> Linked:
  """y_k = x at the turn half a trajectory earlier, round in a circle.

  With n turns y_k = x_{(k − ⌊n/2⌋) mod n}: each trajectory keeps its values,
  but every turn has another one's. A lone turn keeps its own. Turns whose
  judge failed stay as they are and do not count.
  """
  mask = group_stats.counted(x.batch, 'turn')
  half = mask.sum(axis=1, keepdims=True) // 2
  turn = segment.roll_turns(x.credit.turn, half, mask)
  return x.credit.replace(turn=turn), {}
