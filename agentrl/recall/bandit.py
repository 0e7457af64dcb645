"""A bandit: the entry whose readers do best, or may do."""

import numpy as np

from agentrl import domain, registry
from agentrl.memory import texts
from agentrl.memory.texts import TextBank
from agentrl.recall import retrieval
from agentrl.recall.base import RecallInputs
from agentrl.recall.retrieval import Arm, Heading, Likeness, gumbel

_FIRST = np.finfo(np.float64).max  # finite, so that it can be read


@registry.register(
  'recall', needs=('memory:texts', 'env:described'), metrics=retrieval.measure
)
def ucb(
  x: RecallInputs,
  *,
  k: domain.Count = 1,
  tokens: domain.Count = 64,
  heading: Heading = 'Notes:',
  least: Likeness = 0.1,
  explore: domain.NotNegative = 1.4142,
  arm: Arm = 'own',
) -> np.ndarray:
  """Reads the entries of similar tasks of the largest upper bound (UCB1).

    top k of  m + explore sqrt(log N / n)  over entries with cos >= least
    n  trajectories that have read the entry, m  mean of their returns
    N  sum of n over the entries with cos >= least

  An entry that nobody has read comes first, of equal ones the older place.
  Evaluations read those of the largest m, and what is unread last.

  Args:
    k: entries that an attempt reads, at most
    tokens: of all that it reads, at most
    heading: line before them; '': none
    least: similarity of tasks below which an entry is not a choice
    explore: weight of the bound's width, in units of a return
    arm: as of `nearest`
  """
  del tokens, heading  # of what is made of it
  live = np.asarray(x.bank.length > 0)
  able = live & (x.similarity() >= least)  # [G, C]
  bound = upper_bound(x.bank, able, explore if x.step >= 0 else None)
  none = np.zeros(live.size)
  value = np.where(able, bound, -np.inf)
  chosen = np.array([retrieval.top(row, none, k) for row in value])
  return retrieval.in_arm(x, chosen, live, arm)


@registry.register('recall', needs=('memory:texts',), metrics=retrieval.measure)
def rewarded(
  x: RecallInputs,
  *,
  k: domain.Count = 1,
  tokens: domain.Count = 64,
  heading: Heading = 'Notes:',
  temperature: domain.Positive = 0.05,
  arm: Arm = 'own',
) -> np.ndarray:
  """Draws entries for each group by what their readers earn.

    P(entry) ~ exp(m / temperature),   m  what its readers earn (texts.worth)

  without replacement. An entry that nobody has read has the largest m of those
  read, so that it is tried. Evaluations read the largest m, of equal ones the
  older place, and what is unread last. The draw of INSPO's instructions
  (2512.01945).

  Args:
    k: entries that an attempt reads, at most
    tokens: of all that it reads, at most
    heading: line before them; '': none
    temperature: of the draw, in units of a return
    arm: as of `nearest`
  """
  del tokens, heading  # of what is made of it
  live = np.asarray(x.bank.length > 0)
  tried = live & np.asarray(x.bank.read > 0)
  mean = np.asarray(texts.worth(x.bank), np.float64)
  shape = len(x.task), live.size
  if x.step >= 0:
    most = np.max(mean, initial=-_FIRST, where=tried) if tried.any() else 0.0
    value = np.where(tried, mean, most) / temperature + gumbel(x, shape)
  else:
    value = np.broadcast_to(np.where(tried, mean, -_FIRST), shape)
  value = np.where(live, value, -np.inf)
  none = np.zeros(live.size)
  chosen = np.array([retrieval.top(row, none, k) for row in value])
  return retrieval.in_arm(x, chosen, live, arm)


def upper_bound(
  bank: TextBank, able: np.ndarray, explore: float | None
) -> np.ndarray:
  """Computes m + explore sqrt(log N / n) of every entry: [G, C] f64.

  Args:
    able: [G, C] bool, the choices that N is summed over
    explore: None: m alone, and what is unread comes last
  """
  read = np.asarray(bank.read, np.float64)
  mean = np.asarray(texts.mean(bank), np.float64)
  if explore is None:
    bound = np.where(read > 0, mean, -_FIRST)
    return np.broadcast_to(bound, able.shape)
  total = np.sum(np.where(able, read, 0), axis=1, keepdims=True)  # [G, 1]
  n = np.where(read > 0, read, 1)
  width = np.sqrt(np.log(np.maximum(total, 1)) / n)
  return np.where(read > 0, mean + explore * width, _FIRST)
