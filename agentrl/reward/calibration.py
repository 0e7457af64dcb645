"""Rewards for confidence that fits: solved when sure, unsure when not."""

from collections.abc import Callable
from typing import Annotated, NamedTuple

import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.domain import Named, NotNegative, OneOf
from agentrl.reward import trajectory
from agentrl.types import Array, RewardInputs

_SUREST = 0.99  # log scores are finite: confidences count as [0.01, 0.99]


class ScoringRule(NamedTuple):
  """How a confidence [B] in [0, 1] is scored, of tasks solved and failed."""

  solved: Callable[[Array], Array]  # added to 1
  failed: Callable[[Array], Array]  # taken from 0


def _log(p: Array) -> Array:
  return jnp.log(jnp.clip(p, 1 - _SUREST, _SUREST))


FORMS = {
  'brier': ScoringRule(lambda c: -((1 - c) ** 2), lambda c: c**2),
  'log': ScoringRule(_log, lambda c: -_log(1 - c)),
  'linear': ScoringRule(lambda c: c - 1, lambda c: c),
  'margin': ScoringRule(lambda c: 1 - (1 - c) ** 2, lambda c: c**2),
}


@registry.register('reward', needs=('term:{confidence}',))
def calibration(
  x: RewardInputs,
  *,
  confidence: Named = 'confidence',
  form: Annotated[str, OneOf(*FORMS)] = 'margin',
  bonus: NotNegative = 1.0,
  penalty: NotNegative = 1.0,
) -> Array:
  """R = y (1 + bonus · u(c)) − (1 − y) penalty · v(c)

  On the last turn; y = 1[outcome ≥ 1], c in [0, 1] the confidence that the
  trajectory gave last:

    brier   u = −(1 − c)²      v = c²             y − (c − y)²
    log     u = log c          v = −log(1 − c)    y + log |1 − y − c|
    linear  u = c − 1          v = c              y c − (1 − y) c
    margin  u = 1 − (1 − c)²   v = c²             2 y − (c − y)²

  The last column is R with bonus = penalty = 1; log has c in [0.01, 0.99].
  Where the two are equal, all but `linear` are proper: the best c is the chance
  to solve the task, that of `linear` is 0 or 1. With `margin`, the separated
  reward of arXiv 2601.07264, whatever is solved earns at least 1 and whatever
  is not at most 0, for any bonus and penalty; the paper's may be others.

  A turn whose term is 0 gives no confidence. To give none is to give 0, and a
  later 0 does not take back what an earlier turn gave.

  Args:
    confidence: the term, above 0 on turns that give one
    form: how it is scored
    bonus: of u, added where the task was solved
    penalty: of v, taken where it was not
  """
  rule = FORMS[form]
  value = x.turns.terms[confidence]  # [B, K]
  gives = x.turns.valid & (value > 0)
  last = segment.last_turn(gives)
  c = jnp.clip(jnp.sum(jnp.where(last, value, 0), axis=1), 0, 1)  # [B]
  right, wrong = 1 + bonus * rule.solved(c), -penalty * rule.failed(c)
  solved = trajectory.reaches(x.outcome, 1)
  return trajectory.at_last_turn(jnp.where(solved, right, wrong), x.turns)
