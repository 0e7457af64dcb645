"""Group and batch statistics of published methods, against plain numpy."""

import functools

import numpy as np
import pytest

import agentrl.advantage  # noqa: F401  registers the links
from tests import batches
from tests.advantage import (
  estimators,
  little_story,
  one_token_turns,
  published,
)
from tests.advantage.estimators import (
  mates,
  of_group,
  outcome,
  spread,
  total,
  zscore,
)
from tests.advantage.published import Method, single

pytestmark = pytest.mark.usefixtures('float64')


def opo(s):
  def value(i, k):
    size = of_group(s, i, lambda s, j: sum(s.size[j]))
    return total(s, i) - np.dot(size, of_group(s, i)) / np.sum(size)

  return spread(s, value)


def gpg(s):
  taught = sum(g not in (1, 3) for g in s.group)
  factor = len(s.group) / taught
  return [[factor * x for x in turns] for turns in estimators.dr_grpo(s)]


def passk(s):
  def value(i, k):
    back = sorted(of_group(s, i))
    alone = len(back) < 2 or total(s, i) < back[-1]
    return 0.0 if alone else back[-1] - back[-2]

  return spread(s, value)


def maxrl(s):
  def value(i, k):
    won = of_group(s, i, outcome)
    if len(won) < 2 or np.mean(won) <= 0:
      return 0.0
    return s.outcome[i] / np.mean(won) - 1

  return spread(s, value)


def lite_ppo(s):
  std = np.std([total(s, j) for j in range(len(s.group))], ddof=1) + 1e-6
  return [[x / std for x in turns] for turns in estimators.dr_grpo(s)]


def _hard(s, i):
  """The weight of a trajectory's task; one that was tried once counts 1."""
  won = of_group(s, i, outcome)
  return 0.5 + 0.5 * min(max(1 - np.mean(won), 0), 1) if len(won) > 1 else 1.0


def dgrpo(s, scale=1.0):
  def value(i, k):
    return scale * _hard(s, i) * zscore(total(s, i), of_group(s, i))

  return spread(s, value)


def dgrpo_mean_one(s):
  company = [i for i in range(len(s.group)) if len(mates(s, i)) > 1]
  return dgrpo(s, 1 / np.mean([_hard(s, i) for i in company]))


def whitened(s, value, ddof=1):
  """Over trajectories, each once."""
  every = [value(i) for i in range(len(s.group))]
  std = np.sqrt(np.var(every, ddof=ddof) + 1e-8)
  return spread(s, lambda i, k: (value(i) - np.mean(every)) / std)


def judged(s, i):
  return sum(s.step[i])


def gdpo(s):
  def value(i):
    won = zscore(s.outcome[i], of_group(s, i, outcome))
    return won - 2 * zscore(judged(s, i), of_group(s, i, judged))

  return whitened(s, value)


def bn(s):
  return whitened(s, lambda i: zscore(total(s, i), of_group(s, i)), ddof=0)


def published_dgrpo(s):
  """A factor of all of a group's rewards goes out with their deviation."""
  return estimators.compared(s, functools.partial(zscore, eps=0.0))


def energy(s, i):
  """W of every token: the sum over the trajectory's tokens up to it."""
  p = np.exp(-np.abs(np.concatenate(s.token['old_logp'][i])))
  square = p**2 + np.concatenate(s.token['prm'][i]) ** 2
  return np.cumsum(1 - 2 * p + square) + 1e-8


def otb(s):
  back = [
    np.concatenate([np.full(n, y) for n, y in zip(sizes, x, strict=True)])
    for sizes, x in zip(
      s.size, [estimators.to_go(np.array(r)) for r in s.reward], strict=True
    )
  ]
  w = [energy(s, i) for i in range(len(s.group))]
  out = []
  for i, g in enumerate(back):
    a = np.zeros(len(g))
    for t in range(len(g)):
      js = [j for j in mates(s, i) if len(back[j]) > t]
      up, down = sum(w[j][t] * back[j][t] for j in js), sum(w[j][t] for j in js)
      a[t] = g[t] - up / down
    out.append(estimators.cut(s, i, a))
  return out


Z = ('center', 'scale')
GRPO = ('episode_return', *Z)
METHODS = {
  'opo': single(opo, 'episode_return', ('center', {'unit': 'token'})),
  'gpg': single(gpg, 'episode_return', 'center', 'scale_by_nonzero'),
  'grpo_passk': single(passk, 'episode_return', 'lead_of_best'),
  'maxrl': single(maxrl, 'episode_outcome', 'scale_by_mean', 'center'),
  'lite_ppo': single(
    lite_ppo, 'episode_return', ('scale', {'by': ()}), 'center'
  ),
  'dgrpo': single(dgrpo_mean_one, *GRPO, 'weigh_by_difficulty'),
  'dgrpo_plain': single(dgrpo, *GRPO, 'scale_by_difficulty'),
  'dgrpo_published': single(
    published_dgrpo,
    'episode_return',
    'scale_by_difficulty',
    'center',
    ('scale', {'eps': 0.0}),
  ),
  'sum_of_turns': single(
    estimators.dr_grpo, 'turn_reward', 'episode_sum', 'center'
  ),
  'otb': single(
    otb, 'turn_reward', 'return_to_go_tokens', 'optimal_token_baseline'
  ),
  'gdpo': Method(
    gdpo,
    {
      'a': ('episode_outcome', *Z),
      'b': (('add_term', {'name': 'judge'}), 'episode_sum', *Z),
    },
    {'b': -2.0},
    (('whiten', {'unit': 'trajectory'}),),
  ),
  'bn_gspo': single(
    bn, *GRPO, post=(('whiten', {'unit': 'trajectory', 'ddof': 0}),)
  ),
}


def _story():
  """A constant group, a singleton, and one group that nobody solved."""
  s = batches.story(seed=4)
  outcome = [
    0.7 if g == 1 else float(i % 3 == 0) for i, g in enumerate(s.group)
  ]
  outcome = [
    0.0 if g == 2 else x for x, g in zip(outcome, s.group, strict=True)
  ]
  return s._replace(outcome=outcome)


STORY = _story()
# Those whose links gather or sort by themselves run on a mesh as well.
EXPLICIT = ('grpo_passk', 'dgrpo', 'otb')
CASES = [
  *((name, 'moved') for name in METHODS),
  *(
    pytest.param(name, 'history', marks=pytest.mark.nightly) for name in METHODS
  ),
  *(
    pytest.param(name, 'explicit', marks=pytest.mark.nightly)
    for name in EXPLICIT
  ),
]


def _lay(s, *args, **kwargs):
  """Old probabilities are at most one, and so are the sums of squares."""
  laid = batches.lay(s, *args, **kwargs)
  logp = -np.abs(laid.tokens['old_logp'])
  square = np.exp(2 * logp) + np.square(laid.tokens['prm'])
  more = {'old_logp': logp, 'old_sum_sq_prob': square}
  return laid._replace(signals=laid.signals | more)


def _moved():
  order = np.random.default_rng(1).permutation
  return _lay(STORY, 'packed', padding=3, seed=9, order=order)


@functools.cache
def results(layout):
  """The story as it is laid, and what every method says of it."""
  laid = _lay(STORY) if layout == 'history' else _moved()
  if layout == 'explicit':
    return laid, published.run({x: METHODS[x] for x in EXPLICIT}, laid, True)
  return laid, published.run(METHODS, laid)


@pytest.mark.slow
@pytest.mark.parametrize(('method', 'layout'), CASES)
def test_is_the_equation(method, layout):
  laid, found = results(layout)
  published.check(found[method][0], METHODS[method].want(STORY), STORY, laid)


@pytest.mark.parametrize(
  'method', ['opo', 'gpg', 'grpo_passk', 'maxrl', 'lite_ppo', 'dgrpo', 'otb']
)
def test_equal_members_get_exactly_zero(method):
  laid, found = results('moved')
  x = batches.read(found[method][0], STORY, laid)
  quiet = [y for i, y in enumerate(x) if STORY.group[i] in (1, 3)]
  assert np.all(batches.flat(quiet) == 0)
  assert np.any(batches.flat(x) != 0)


def _won(*groups, size):
  """One-turn trajectories with the given outcomes, `size(i)` tokens each."""
  won = [[float(x)] for group in groups for x in group]
  return little_story.make(
    won,
    group=[g for g, group in enumerate(groups) for _ in group],
    size=[[size(i)] for i in range(len(won))],
  )


def _first_tokens(s, *names):
  """What each of the methods says of the first token of each trajectory."""
  laid = _lay(s)
  found = published.run({x: METHODS[x] for x in names}, laid)
  told = (batches.read(found[x][0], s, laid) for x in names)
  return [[float(turns[0][0]) for turns in x] for x in told]


def test_golden_numbers():
  s = _won([1, 0, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0], size=lambda i: 1 + i % 2)
  passk, maxrl, opo, gpg = _first_tokens(s, 'grpo_passk', 'maxrl', 'opo', 'gpg')
  np.testing.assert_allclose(passk, [1] + [0] * 11)
  np.testing.assert_allclose(maxrl, [3, -1, -1, -1, 1, -1, -1, 1] + [0] * 4)
  # Tokens 1, 2, 1, 2: the baselines are 1/6 and (1 + 2)/6; 12/8 by group.
  np.testing.assert_allclose(
    opo, [5 / 6] + [-1 / 6] * 3 + [0.5, -0.5, -0.5, 0.5] + [0] * 4
  )
  np.testing.assert_allclose(
    gpg, 1.5 * np.array([3, -1, -1, -1, 2, -2, -2, 2] + [0] * 4) / 4
  )


def test_golden_weights_of_difficulty():
  """Means 3/4 and 1/4: w = 5/8 and 7/8, mean 3/4; of z = 1/2, -3/2 and back."""
  s = _won([1, 1, 1, 0], [1, 0, 0, 0], size=lambda i: 1)
  z = np.array([0.5, 0.5, 0.5, -1.5, 1.5, -0.5, -0.5, -0.5])
  w = np.repeat([5 / 8, 7 / 8], 4)
  got = _first_tokens(s, 'dgrpo', 'dgrpo_plain')
  for x, weights in zip(got, (w / 0.75, w), strict=True):
    np.testing.assert_allclose(x, weights * z, rtol=1e-5)


@pytest.mark.parametrize('name', ['scale_by', 'weigh_by'])
def test_a_lone_member_says_nothing_of_difficulty(name):
  """Beside it the others weigh what they weigh without it."""
  reward = [[1.0], [0.0], [1.0], [1.0], [1.0], [0.0]]
  link, group = f'{name}_difficulty', [0, 0, 1, 1, 1, 1]

  def credit(reward, group):
    batch = one_token_turns.make_batch(reward, group=group)
    batch = batch.replace(outcome=np.array(reward)[:, 0])
    return one_token_turns.turn_credit(batch, link)[:, 0]

  want = credit(reward, group)
  for lone in (0.0, 1.0):
    got = credit([*reward, [lone]], [*group, 2])
    np.testing.assert_allclose(got[:-1], want, rtol=1e-12)
    assert got[-1] == lone
