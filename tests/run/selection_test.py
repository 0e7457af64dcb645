"""What selection reads of records, and its table."""

import re

import jax
import numpy as np
import pytest
from scipy import stats

from agentrl.rollout import record as record_lib
from agentrl.run import selection as lib
from agentrl.stats import selection
from agentrl.types import Span, Status
from tests import errors

T, A, O, P = Span.THOUGHT, Span.ANSWER, Span.OTHER, Span.PREFIX


def record(turns, status=Status.FAILED, outcome=0.0):
  """A trajectory of turns, each a list of (token, span, log-prob)."""
  r = record_lib.empty(1, 3, 1, 4, (), xp=np)
  message, span, logp = r.message.copy(), r.span.copy(), r.logp.copy()
  length, valid = r.message_len.copy(), r.valid.copy()
  logp[:] = -7.0  # of what is not sampled
  span[:] = T
  for k, turn in enumerate(turns):
    length[0, k], valid[0, k] = len(turn), True
    for m, x in enumerate(turn):
      message[0, k, m], span[0, k, m], logp[0, k, m] = x
  return r.replace(
    message=message,
    span=span,
    logp=logp,
    message_len=length,
    valid=valid,
    action=np.where(np.arange(3)[None] == 1, -1, 0),  # the second: not a word
    status=np.array([status]),
    outcome=np.array([outcome], np.float32),
  )


FORCED = [(9, P, -5.0)]
FIRST = [(1, T, -0.5), (2, T, -0.5), (3, O, -1.0)]


def test_what_is_counted_of_a_record():
  x, broke = lib.attempts_of(record([FORCED, FIRST, FIRST], outcome=1.0))
  assert x.solved.tolist() == [True]
  assert x.tokens.tolist() == [6]  # what was given was not sampled
  assert x.logp.tolist() == [-4.0]
  assert x.thoughts.tolist() == [4]
  assert x.calls.tolist() == [2]
  assert x.actions.tolist() == [2]  # the first and the third were understood
  assert broke.tolist() == [False]
  assert lib.attempts_of(record([], Status.ENV_ERROR))[1].tolist() == [True]


def test_the_answer_is_the_last_one_without_what_stands_around_it():
  same = [
    [[(4, A, 0), (5, A, 0)]],
    [FIRST, [(1, T, 0), (4, A, 0), (5, A, 0), (8, O, 0)]],
    [[(2, T, 0), (4, O, 0), (5, O, 0)]],  # marks none
  ]
  other = [[[(5, A, 0), (4, A, 0)]], [[(4, A, 0)]]]
  answer = lambda x: lib.attempts_of(record(x))[0].answer[0]  # noqa: E731
  assert len({answer(x) for x in same}) == 1
  assert len({answer(x) for x in [same[0], *other]}) == 3
  for nothing in ([], [[(1, T, 0)]]):
    assert answer(nothing) == selection.NO_ANSWER


def test_attempts_stand_by_task():
  """Five tasks, of which 7 episodes leave 3; batches of 4 and one surplus."""
  watch = lib.Watch(7, tasks=5, attempts=2)
  assert (watch.episodes, watch.count) == (6, 3)
  assert watch.tasks(np.array([4, 5, 6, 7, 8])).tolist() == [4, 5, 6]
  episodes = iter(range(8))

  def play(attempts, key):
    made = [
      record(
        [[(i, A, 0)]],
        Status.ENV_ERROR if i == 4 else Status.FAILED,
        outcome=float(i % 2),
      )
      for i in (next(episodes) for _ in range(4))
    ]
    return jax.tree.map(lambda *x: np.concatenate(x), *made)

  for _ in range(2):
    watch.of(play)(None, None)
  x, broken = watch.by_task()
  # Episode i attempts task i mod 3; task 1 has the one that broke.
  assert broken == 1
  assert x.solved.tolist() == [[False, True], [False, True]]
  assert '1 more' in watch.table()


def test_one_attempt_is_not_watched():
  watch = lib.Watch(7, tasks=5, attempts=1)
  assert watch.of(len) is len
  assert (watch.episodes, watch.table()) == (7, '')
  assert watch.tasks(np.arange(5)).tolist() == [0, 1, 2, 3, 4]


def test_fewer_episodes_than_attempts():
  with errors.raises(ValueError, '--episodes --attempts 4 3'):
    lib.Watch(3, tasks=5, attempts=4)


def _attempts(**changes):
  one = np.ones((12, 4), int)
  solved = np.arange(48).reshape(12, 4) % 4 == 0
  x = selection.Attempts(
    solved, one, -one, one, 0 * one, one, one, 1.0 * solved, 0.0 * one
  )
  return x._replace(**changes)


def test_the_table_leaves_out_rules_that_tell_nothing():
  text = lib.table(_attempts())
  rules = [x.split()[1] for x in text.splitlines() if x.startswith('| ')]
  assert rules == ['rule', 'random', 'oracle', 'oracle']
  assert '25.0%' in text
  assert '+75.0%' in text


def test_the_table_has_what_thoughts_say_of_failures():
  x = _attempts(thoughts=2 - 2 * _attempts().solved.astype(int))
  text = lib.table(x)
  assert 'least_overthinking | 4 | 100.0%' in text
  assert '1.00 [1.00, 1.00]' in text
  x = x._replace(solved=np.zeros((12, 4), bool))
  assert 'success and a failure' in lib.table(x)


def thinking(seed, tasks=200, k=4, planted=True):
  """Failures think longer, if planted; messages are of any length."""
  g = np.random.default_rng(seed)
  solved = g.random((tasks, k)) < 0.5
  longer = ~solved if planted else g.random(solved.shape) < 0.5
  thoughts = g.poisson(3 + 5 * longer)
  actions = g.integers(1, 4, solved.shape)
  return _attempts()._replace(
    **dict.fromkeys(('logp', 'calls', 'outcome', 'learned'), 1.0 * solved),
    solved=solved, thoughts=thoughts * actions, actions=actions,
    answer=g.integers(0, 2, solved.shape),
    tokens=g.integers(20, 60, solved.shape),
  )  # fmt: skip


def test_choosing_by_thoughts_is_compared_with_other_rules():
  """With a planted truth, and where thoughts say nothing."""
  x = thinking(0)
  (line,) = [y for y in lib.table(x).splitlines() if y.startswith('least_over')]
  found = re.findall(r'(\w+) ([-+.\d]+)% \[([-+.\d]+)%, ([-+.\d]+)%\]', line)
  assert [y[0] for y in found] == ['random', 'fewest_tokens', 'majority']
  rows = zip(x.thoughts / x.actions, x.solved, strict=True)
  own = np.array(
    [solved[score == score.min()].mean() for score, solved in rows]
  )
  gain = own - x.solved.mean(axis=1)
  half = stats.t.ppf(0.975, 199) * gain.std(ddof=1) / np.sqrt(200)
  want = 100 * np.array([gain.mean(), gain.mean() - half, gain.mean() + half])
  np.testing.assert_allclose([float(y) for y in found[0][1:]], want, atol=0.051)
  assert all(float(low) > 0 for _, _, low, _ in found)
  x = thinking(1, planted=False)
  (line,) = [y for y in lib.table(x).splitlines() if y.startswith('least_over')]
  gains = re.findall(r' ([-+.\d]+)% \[', line)
  assert len(gains) == 3
  assert max(abs(float(y)) for y in gains) < 15


@pytest.mark.parametrize('tasks', [0, 1])
def test_few_tasks_have_a_table(tasks):
  x = selection.Attempts(*(x[:tasks] for x in _attempts()))
  assert lib.table(x)


def _scored(hacked):
  """Some attempts are scored far too high, if hacked."""
  g = np.random.default_rng(0)
  truth = g.random((200, 8))
  wrong = hacked & (g.random(truth.shape) < 0.1)
  truth = np.where(wrong, 0.0, truth)
  one = np.ones(truth.shape, int)
  return selection.Attempts(
    truth > 0.8, one, -one, one, one, one, one, truth, truth + 2 * wrong
  )


def test_the_table_says_where_a_learned_reward_is_over_optimised():
  text = lib.table(_scored(hacked=True))
  lines = [x.split('|') for x in text.splitlines() if x.startswith('| ')]
  curve = [x for x in lines if x[1].strip().isdigit()]
  proxy = [float(x[3]) for x in curve]
  truth = [float(x[4].strip(' %')) for x in curve]
  assert proxy == sorted(proxy)
  top = int(np.argmax(truth))
  assert 0 < top < len(truth) - 1
  n, kl = curve[top][1].strip(), curve[top][2].strip()
  assert f'highest at n={n}, {kl} nats' in text
  assert 'n=8 by -' in text
  honest = lib.table(_scored(hacked=False))
  assert 'still rises' in honest
  assert 'learned_reward' in honest
  assert 'learned reward' not in lib.table(_attempts())
