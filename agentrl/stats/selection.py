"""Selection over k attempts at a task: who returns which, and at what cost.

A rule gives each attempt of a task a probability of being returned, so success
is an expectation and ties cost no random draw:

    random              1/k
    majority            an answer that most attempts gave, then one of its
                        attempts; attempts without an answer do not vote
    likelihood          the highest mean log-prob of a token
    fewest_tokens       the fewest tokens
    least_overthinking  the fewest thought tokens per environment action, "The
                        Danger of Overthinking" (2502.08235); there a model
                        reads for overthinking, here tokens are counted
    learned_reward      the highest reward by what the run has learned of it, a
                        reward model or a process reward model
    oracle              a solved one: pass@k, which needs the truth

Host arrays in, float64 out; T tasks, k attempts.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from agentrl.stats import intervals

NO_ANSWER = -1


class Attempts(NamedTuple):
  """Attempts at tasks: [..., k] each."""

  solved: np.ndarray  # bool
  answer: np.ndarray  # i64  equal for equal answers; NO_ANSWER
  logp: np.ndarray  # of what was sampled, nats
  tokens: np.ndarray  # that were sampled
  thoughts: np.ndarray  # of them, tokens in a thought
  calls: np.ndarray  # messages
  actions: np.ndarray  # messages that the environment understood
  outcome: np.ndarray  # the task's own score
  learned: np.ndarray  # reward by what the run has learned of it; 0: nothing


class Point(NamedTuple):
  """What a rule makes of n attempts at each task."""

  success: float
  low: float  # 95% interval, over tasks
  high: float
  calls: float  # that are sampled per task, for all n attempts
  tokens: float
  returned: float  # tokens of the attempt that is returned


def overthinking(x: Attempts) -> np.ndarray:
  """Counts thought tokens per environment action: [..., k]."""
  return x.thoughts / np.maximum(x.actions, 1)


def _least(score: np.ndarray) -> np.ndarray:
  best = score == score.min(axis=-1, keepdims=True)  # [..., k]
  return best / best.sum(axis=-1, keepdims=True)


def _majority(x: Attempts) -> np.ndarray:
  same = x.answer[..., None] == x.answer[..., None, :]  # [..., k, k]
  voters = x.answer != NO_ANSWER
  voters |= ~voters.any(axis=-1, keepdims=True)
  votes = np.where(voters, same.sum(axis=-1), 0)
  # Answers that tie have equally many attempts, so their share is equal.
  return _least(-votes)


RULES: dict[str, Callable[[Attempts], np.ndarray]] = {
  'random': lambda x: _least(np.zeros(x.solved.shape)),
  'majority': _majority,
  'likelihood': lambda x: _least(-x.logp / np.maximum(x.tokens, 1)),
  'fewest_tokens': lambda x: _least(x.tokens),
  'least_overthinking': lambda x: _least(overthinking(x)),
  'learned_reward': lambda x: _least(-x.learned),
  'oracle': lambda x: _least(~x.solved),
}


def weights(rule: str, x: Attempts) -> np.ndarray:
  """Returns the probability that a rule returns each attempt: [..., k]."""
  return RULES[rule](x)


def point(rule: str, x: Attempts, n: int) -> tuple[Point, np.ndarray]:
  """Measures a rule on n of the k attempts: the mean over all such subsets.

  Args:
    x: [T, k]

  Returns: the point, and the success of each task: [T]

  Raises:
    ValueError: n is not between 1 and k.
  """
  tasks, k = x.solved.shape
  if not 1 <= n <= k:
    raise ValueError(f'n must be between 1 and k={k}, got {n}')
  chosen = np.array(list(itertools.combinations(range(k), n)))  # [C, n]
  success, returned = np.zeros(tasks), np.zeros(tasks)
  for t in range(tasks):
    some = Attempts(*(column[t][chosen] for column in x))  # [C, n]
    w = weights(rule, some)
    success[t] = np.sum(w * some.solved) / len(chosen)
    returned[t] = np.sum(w * some.tokens) / len(chosen)
  made = Point(
    float(success.mean()),
    *_interval(success),
    calls=float(n * x.calls.mean()),
    tokens=float(n * x.tokens.mean()),
    returned=float(returned.mean()),
  )
  return made, success


def tells(rule: str, x: Attempts) -> bool:
  """Says whether a rule prefers any attempt to another of its task."""
  return bool(np.ptp(weights(rule, x), axis=-1).any())


def concordance(score: np.ndarray, solved: np.ndarray) -> float:
  """Estimates P(score of a failure > score of a success | one task).

      Σ_t Σ_{i failed, j solved} ([s_i > s_j] + ½ [s_i = s_j]) / pairs

  0.5 where the score tells nothing, NaN where no task has both; [T, k] each.
  """
  gap = score[:, :, None] - score[:, None, :]  # [T, k, k]
  pair = ~solved[:, :, None] & solved[:, None, :]
  if not pair.any():
    return float('nan')
  return float(np.mean(np.where(gap > 0, 1.0, 0.5 * (gap == 0))[pair]))


def concordance_interval(
  score: np.ndarray, solved: np.ndarray
) -> intervals.Interval:
  """Bootstraps the concordance over the tasks that have both outcomes.

  NaN for fewer than two of these.
  """
  both = np.ptp(solved.astype(int), axis=1) > 0
  if both.sum() < 2:
    return float('nan'), float('nan')
  x = np.stack([score[both], solved[both]], axis=-1)  # [T, k, 2]
  return intervals.bootstrap(
    x.tolist(), lambda y: concordance(y[..., 0], y[..., 1] > 0), seed=0, n=2000
  )


def _interval(success: np.ndarray) -> intervals.Interval:
  """Returns Student's interval over tasks; Wilson's if all of them agree."""
  if len(success) < 2 or not np.ptp(success):
    n = len(success)
    return intervals.wilson(round(float(success.mean()) * n), n)
  low, high = intervals.mean_interval(success.tolist())
  return max(0.0, low), min(1.0, high)
