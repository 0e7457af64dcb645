"""Segment operations: the only place that gathers, scatters or sorts by id.

Rows are [N, T] with ids (trajectory, turn) on every token; turns are [B, K].
Index -1 would wrap around in JAX: every function here sends it to a trash
slot. Everything runs unchanged without a mesh, under automatic and under
explicit axes (`mesh.auto`).
"""

from agentrl.segment.ids import (
  compact_ids,
  count_below,
  group_reduce,
  rank,
  segment_max,
  segment_sum,
  top_k_mask,
)
from agentrl.segment.pairs import (
  at_halves,
  from_halves,
  pairs_of,
  share_turns,
)
from agentrl.segment.recursions import (
  accumulate,
  accumulate_tokens,
  accumulate_turns,
  along_matches,
  future_ratios,
  last_turn,
  next_token,
  next_turn,
  prefix_sum,
  previous_turn,
  roll_turns,
  sum_turns,
)
from agentrl.segment.rows import (
  cut,
  invert,
  join,
  live_first,
  take_rows,
  take_trajectories,
)
from agentrl.segment.turn_index import ROW as ROW
from agentrl.segment.turn_index import UNITS as UNITS
from agentrl.segment.turn_index import (
  TurnIndex,
  align,
  in_message,
  in_span,
  index,
  place_in_message,
)

__all__ = [
  'TurnIndex',
  'accumulate',
  'accumulate_tokens',
  'accumulate_turns',
  'align',
  'along_matches',
  'at_halves',
  'compact_ids',
  'count_below',
  'cut',
  'from_halves',
  'future_ratios',
  'group_reduce',
  'in_message',
  'in_span',
  'index',
  'invert',
  'join',
  'last_turn',
  'live_first',
  'next_token',
  'next_turn',
  'pairs_of',
  'place_in_message',
  'prefix_sum',
  'previous_turn',
  'rank',
  'roll_turns',
  'segment_max',
  'segment_sum',
  'share_turns',
  'sum_turns',
  'take_rows',
  'take_trajectories',
  'top_k_mask',
]
