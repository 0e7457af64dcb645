"""Group and batch statistics of published methods, against plain numpy."""

import functools

import jax
import numpy as np
import pytest

import agentrl.advantage  # noqa: F401  registers the links
from agentrl.advantage import chain
from tests import batches
from tests.advantage import estimators, one_token_turns
from tests.advantage.estimators import mates, spread, total, zscore
from tests.batches import links

TRAJECTORY = {'unit': 'trajectory'}


def opo(s):
  def value(i, k):
    size = [sum(s.size[j]) for j in mates(s, i)]
    back = [total(s, j) for j in mates(s, i)]
    return total(s, i) - np.dot(size, back) / np.sum(size)

  return spread(s, value)


def gpg(s):
  a = [
    estimators.centered(total(s, i), [total(s, j) for j in mates(s, i)])
    for i in range(len(s.group))
  ]
  taught = sum(1 for i in range(len(a)) if s.group[i] not in (1, 3))
  return spread(s, lambda i, k: a[i] * len(a) / taught)


def passk(s):
  def value(i, k):
    back = sorted(total(s, j) for j in mates(s, i))
    alone = len(back) < 2 or total(s, i) < back[-1]
    return 0.0 if alone else back[-1] - back[-2]

  return spread(s, value)


def maxrl(s):
  def value(i, k):
    won = [s.outcome[j] for j in mates(s, i)]
    if len(won) < 2 or np.mean(won) <= 0:
      return 0.0
    return s.outcome[i] / np.mean(won) - 1

  return spread(s, value)


def lite_ppo(s):
  every = [total(s, j) for j in range(len(s.group))]
  std = np.std(every, ddof=1) + 1e-6

  def value(i, k):
    back = [total(s, j) for j in mates(s, i)]
    return 0.0 if len(back) < 2 else (total(s, i) - np.mean(back)) / std

  return spread(s, value)


def _hard(s, i):
  """The weight of a trajectory's task; one that was tried once counts 1."""
  won = [s.outcome[j] for j in mates(s, i)]
  return 0.5 + 0.5 * min(max(1 - np.mean(won), 0), 1) if len(won) > 1 else 1.0


def dgrpo(s, scale=1.0):
  def value(i, k):
    z = zscore(total(s, i), [total(s, j) for j in mates(s, i)])
    return scale * _hard(s, i) * z

  return spread(s, value)


def dgrpo_mean_one(s):
  company = [i for i in range(len(s.group)) if len(mates(s, i)) > 1]
  return dgrpo(s, 1 / np.mean([_hard(s, i) for i in company]))


def whitened(s, value):
  """Over trajectories, the deviation with Bessel's factor."""
  every = [value(i) for i in range(len(s.group))]
  mean, var = np.mean(every), np.var(every, ddof=1)
  return spread(s, lambda i, k: (value(i) - mean) / np.sqrt(var + 1e-8))


def gdpo(s):
  def value(i):
    judged = [sum(s.step[j]) for j in mates(s, i)]
    won = [s.outcome[j] for j in mates(s, i)]
    return zscore(s.outcome[i], won) - 2 * zscore(sum(s.step[i]), judged)

  return whitened(s, value)


def bn(s):
  z = [
    zscore(total(s, i), [total(s, j) for j in mates(s, i)])
    for i in range(len(s.group))
  ]
  std = np.sqrt(np.var(z) + 1e-8)
  return spread(s, lambda i, k: (z[i] - np.mean(z)) / std)


def published(s):
  """A factor of all of a group's rewards goes out with their deviation."""

  def value(i, k):
    return zscore(total(s, i), [total(s, j) for j in mates(s, i)], eps=0.0)

  return spread(s, value)


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
OTB = ('turn_reward', 'return_to_go_tokens', 'optimal_token_baseline')
JUDGE = ('add_term', {'name': 'judge'})
# name -> (streams, coefficients, finish, reference)
METHODS = {
  'opo': (
    {'a': ('episode_return', ('center', {'unit': 'token'}))},
    {},
    (),
    opo,
  ),
  'gpg': ({'a': ('episode_return', 'center', 'scale_by_nonzero')}, {}, (), gpg),
  'grpo_passk': ({'a': ('episode_return', 'lead_of_best')}, {}, (), passk),
  'maxrl': (
    {'a': ('episode_outcome', 'scale_by_mean', 'center')},
    {},
    (),
    maxrl,
  ),
  'lite_ppo': (
    {'a': ('episode_return', ('scale', {'by': ()}), 'center')},
    {},
    (),
    lite_ppo,
  ),
  'dgrpo': (
    {'a': ('episode_return', *Z, 'weigh_by_difficulty')},
    {},
    (),
    dgrpo_mean_one,
  ),
  'dgrpo_plain': (
    {'a': ('episode_return', *Z, 'scale_by_difficulty')},
    {},
    (),
    dgrpo,
  ),
  'dgrpo_published': (
    {
      'a': (
        'episode_return',
        'scale_by_difficulty',
        'center',
        ('scale', {'eps': 0.0}),
      )
    },
    {},
    (),
    published,
  ),
  'sum_of_turns': (
    {'a': ('turn_reward', 'episode_sum', 'center')},
    {},
    (),
    estimators.dr_grpo,
  ),
  'otb': ({'a': OTB}, {}, (), otb),
  'gdpo': (
    {'a': ('episode_outcome', *Z), 'b': (JUDGE, 'episode_sum', *Z)},
    {'b': -2.0},
    (('whiten', TRAJECTORY),),
    gdpo,
  ),
  'bn_gspo': (
    {'a': ('episode_return', *Z)},
    {},
    (('whiten', TRAJECTORY | {'ddof': 0}),),
    bn,
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


@pytest.fixture(autouse=True)
def _float64():
  with jax.enable_x64(True):
    yield


def _bound(streams, coef, finish):
  return {k: links(*v) for k, v in streams.items()}, coef, links(*finish)


def _all(batch, signals, names=tuple(METHODS)):
  out = {}
  for name in names:
    credit, _ = chain.advantage(*_bound(*METHODS[name][:3]), batch, signals)
    out[name] = chain.token_advantage(credit, batch.rows)
  return out


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
    args, f = (laid.batch, laid.signals), lambda *x: _all(*x, EXPLICIT)
    return laid, batches.on_a_mesh(f, args, laid.batch.rows.tokens.shape)
  return laid, jax.jit(_all)(laid.batch, laid.signals)


@pytest.mark.parametrize(('method', 'layout'), CASES)
def test_is_the_equation(method, layout):
  laid, found = results(layout)
  x = batches.read(found[method], STORY, laid)
  want = METHODS[method][3](STORY)
  np.testing.assert_allclose(
    batches.flat(x), batches.flat(want), rtol=1e-9, atol=1e-12
  )
  assert np.all(np.asarray(found[method])[~laid.batch.rows.sampled] == 0)


@pytest.mark.parametrize(
  'method', ['opo', 'gpg', 'grpo_passk', 'maxrl', 'lite_ppo', 'dgrpo', 'otb']
)
def test_equal_members_get_exactly_zero(method):
  laid, found = results('moved')
  x = batches.read(found[method], STORY, laid)
  quiet = [y for i, y in enumerate(x) if STORY.group[i] in (1, 3)]
  assert np.all(batches.flat(quiet) == 0)
  assert np.any(batches.flat(x) != 0)


def _won(*groups, size):
  """One-turn trajectories with the given outcomes, `size(i)` tokens each."""
  won = [float(x) for group in groups for x in group]
  sizes = [[size(i)] for i in range(len(won))]
  blank = [[np.zeros(n) for n in turns] for turns in sizes]
  return batches.Story(
    group=[g for g, group in enumerate(groups) for _ in group],
    reward=[[x] for x in won],
    state=[[0]] * len(won),
    step=[[0.0]] * len(won),
    outcome=won,
    size=sizes,
    answer=[[1]] * len(won),
    token=dict.fromkeys(batches.TOKEN_FIELDS, blank),
  )


def test_golden_numbers():
  s = _won([1, 0, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0], size=lambda i: 1 + i % 2)
  laid = _lay(s)
  names = ('grpo_passk', 'maxrl', 'opo', 'gpg')
  found = jax.jit(lambda *x: _all(*x, names))(laid.batch, laid.signals)

  def of(name):
    x = batches.read(found[name], s, laid)
    return [float(turns[0][0]) for turns in x]

  np.testing.assert_allclose(of('grpo_passk'), [1] + [0] * 11)
  np.testing.assert_allclose(
    of('maxrl'), [3, -1, -1, -1, 1, -1, -1, 1] + [0] * 4
  )
  # Tokens 1, 2, 1, 2: the baselines are 1/6 and (1 + 2)/6; 12/8 by group.
  np.testing.assert_allclose(
    of('opo'), [5 / 6] + [-1 / 6] * 3 + [0.5, -0.5, -0.5, 0.5] + [0] * 4
  )
  np.testing.assert_allclose(
    of('gpg'), 1.5 * np.array([3, -1, -1, -1, 2, -2, -2, 2] + [0] * 4) / 4
  )


def test_golden_weights_of_difficulty():
  """Means 3/4 and 1/4: w = 5/8 and 7/8, mean 3/4; of z = 1/2, -3/2 and back."""
  s = _won([1, 1, 1, 0], [1, 0, 0, 0], size=lambda i: 1)
  laid = _lay(s)
  names = ('dgrpo', 'dgrpo_plain')
  found = jax.jit(lambda *x: _all(*x, names))(laid.batch, laid.signals)
  z = np.array([0.5, 0.5, 0.5, -1.5, 1.5, -0.5, -0.5, -0.5])
  w = np.repeat([5 / 8, 7 / 8], 4)
  for name, weights in zip(names, (w / 0.75, w), strict=True):
    got = batches.flat(batches.read(found[name], s, laid))
    np.testing.assert_allclose(got, weights * z, rtol=1e-5)


def test_tasks_that_are_as_hard_weigh_one():
  """Whatever their difficulty: the size of the step is that of GRPO."""
  s = _won([1, 1, 1, 0], [0, 1, 1, 1], size=lambda i: 1)
  laid = _lay(s)
  found = jax.jit(lambda *x: _all(*x, ('dgrpo',)))(laid.batch, laid.signals)
  got = batches.flat(batches.read(found['dgrpo'], s, laid))
  z = [0.5, 0.5, 0.5, -1.5, -1.5, 0.5, 0.5, 0.5]
  np.testing.assert_allclose(got, z, rtol=1e-5)


def test_otb_leaves_out_who_is_alone():
  """The last tokens of the longest trajectory are compared with nobody's."""
  laid, found = results('moved')
  x = batches.read(found['otb'], STORY, laid)
  longest = max(
    (i for i, g in enumerate(STORY.group) if g == 0),
    key=lambda i: sum(STORY.size[i]),
  )
  assert x[longest][-1][-1] == 0
  assert x[longest][0][0] != 0


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
