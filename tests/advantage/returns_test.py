"""Sources, returns to go and moves to tokens, against plain loops."""

import numpy as np
import pytest

from agentrl.advantage import chain
from tests import batches, errors
from tests.advantage import estimators, unscored
from tests.batches import links

pytestmark = pytest.mark.usefixtures('float64')

STORY = batches.story(seed=6)


def _run(*names, layout='packed', change=lambda batch: batch):
  laid = batches.lay(STORY, layout)
  batch = change(laid.batch)
  credit, metrics = batches.stream(links(*names), batch, laid.signals)
  assert not np.asarray(credit.turn)[~batch.turns.valid].any()
  x = chain.token_advantage(credit, batch.rows)
  return batches.read(x, STORY, laid), metrics


def _same(got, want):
  np.testing.assert_allclose(
    batches.flat(got), batches.flat(want), rtol=1e-10, atol=1e-12
  )


def _early(i, k):
  return sum(0.5**j * r for j, r in enumerate(STORY.reward[i]))


# name -> (links, value of turn k of trajectory i)
SOURCES = {
  'reward': (('turn_reward',), lambda i, k: STORY.reward[i][k]),
  'return': (('episode_return',), lambda i, k: sum(STORY.reward[i])),
  'early': ((('episode_return', {'gamma': 0.5}),), _early),
  'outcome': (('episode_outcome',), lambda i, k: STORY.outcome[i]),
  'step_return': (
    ('step_return',),
    lambda i, k: estimators.to_go(STORY.reward[i], 0.95)[k],
  ),
  'signal': (('add_signal',), lambda i, k: STORY.step[i][k]),
  'signal_to_go': (
    ('add_signal', ('return_to_go', {'gamma': 0.5})),
    lambda i, k: estimators.to_go(STORY.step[i], 0.5)[k],
  ),
  'term': (
    (('add_term', {'name': 'judge', 'coef': 2.0}),),
    lambda i, k: 2 * STORY.step[i][k],
  ),
  'sum': (
    ('episode_outcome', ('add_signal', {'coef': 0.5})),
    lambda i, k: STORY.outcome[i] + 0.5 * STORY.step[i][k],
  ),
}


@pytest.mark.parametrize('name', SOURCES)
def test_sources(name):
  names, want = SOURCES[name]
  _same(_run(*names)[0], estimators.spread(STORY, want))


@pytest.mark.parametrize('lost', [(), ((1, 1),), ((1, 0), (1, 2), (4, 0))])
def test_differences_are_of_scores_that_there_are(lost):
  """Summed they are the last score less the one before, whatever was lost."""
  names = ('add_signal', 'differences')
  change = lambda batch: unscored.turns(batch, *lost)  # noqa: E731
  one, _ = _run(*names, change=change)
  to_go, _ = _run(*names, 'return_to_go', change=change)
  for i, xs in enumerate(STORY.step):
    known = [k for k in range(len(xs)) if (i, k) not in lost]
    for before, k in zip([None, *known], known, strict=False):
      was = 0.0 if before is None else xs[before]
      np.testing.assert_allclose(one[i][k], xs[k] - was, atol=1e-12)
      np.testing.assert_allclose(to_go[i][k], xs[known[-1]] - was, atol=1e-12)
    for k in {*range(len(xs))} - {*known}:
      np.testing.assert_array_equal(one[i][k], 0)


@pytest.mark.parametrize('most', [0.5, 100.0])
def test_a_bounded_sum_of_a_term_is_a_source(most):
  hp = {'name': 'judge', 'coef': 0.5, 'most': most}
  got, _ = _run(('add_bounded_sum', hp))

  def want(i, k):
    return min(0.5 * sum(STORY.step[i]), most)

  _same(got, estimators.spread(STORY, want))
  bounded = {want(i, 0) == most for i in range(len(STORY.step))}
  assert bounded == ({True, False} if most == 0.5 else {False})


def test_last_turn_and_last_token():
  got, _ = _run('episode_outcome', 'at_last_turn', 'at_last_token')
  want = estimators.spread(STORY, lambda i, k: 0.0)
  for i, turns in enumerate(want):
    turns[-1][-1] = STORY.outcome[i]
  _same(got, want)


def test_last_turn_is_one_with_sampled_tokens():
  """The room ran out: the last turn of trajectory 1 holds no tokens."""

  def drop(batch):
    rows = batch.rows
    last = (rows.traj == 1) & (rows.turn == len(STORY.size[1]) - 1)
    return batch.replace(rows=rows.replace(sampled=rows.sampled & ~last))

  got, _ = _run('episode_outcome', 'at_last_turn', change=drop)
  assert [set(x) for x in got[1][-2:]] == [{STORY.outcome[1]}, {0.0}]


def test_at_last_token_of_every_turn():
  got, _ = _run('turn_reward', 'add_token_signal', 'at_last_token')
  want = [[x.copy() for x in turns] for turns in STORY.token['prm']]
  for i, turns in enumerate(want):
    for k, x in enumerate(turns):
      x[-1] += STORY.reward[i][k]
  _same(got, want)


def test_to_tokens_changes_no_advantage():
  names = ('turn_reward', 'add_token_signal')
  _same(_run(*names, 'to_tokens')[0], _run(*names)[0])


def test_kl_in_reward():
  got, metrics = _run(('kl_in_reward', {'coef': 0.2}))
  old, ref = STORY.token['old_logp'], STORY.token['ref_logp']
  gap = [
    [x - y for x, y in zip(*z, strict=True)] for z in zip(old, ref, strict=True)
  ]
  _same(got, [[-0.2 * x for x in turns] for turns in gap])
  every = batches.flat(gap)
  np.testing.assert_allclose(
    metrics['kl_in_reward'], (every.sum(), len(every)), rtol=1e-10
  )


@pytest.mark.parametrize('within', ['trajectory', 'turn'])
def test_scale_by_max(within):
  hp = {'within': within, 'eps': 0.0}
  got, metrics = _run('add_token_signal', ('scale_by_max', hp))
  prm = STORY.token['prm']
  runs = [np.concatenate(x) for x in prm]
  if within == 'turn':
    runs = [x for turns in prm for x in turns]
  top = max(np.abs(estimators.to_go(x)).max() for x in runs)
  _same(got, [[x / top for x in turns] for turns in prm])
  np.testing.assert_allclose(metrics['scale_by_max'], (top, 1), rtol=1e-10)


def test_scale_by_max_of_nothing_is_nothing():
  got, _ = _run('scale_by_max')
  assert not batches.flat(got).any()


def test_scale_by_max_names_the_mistake():
  with errors.raises(ValueError, 'within group'):
    _run('scale_by_max', ('scale_by_max', {'within': 'group'}))


def test_an_unscored_turn_adds_nothing():
  got, _ = _run('episode_return', change=lambda x: unscored.turns(x, (1, 0)))
  np.testing.assert_allclose(got[1][1], sum(STORY.reward[1][1:]))
  np.testing.assert_array_equal(got[1][0], 0)  # and is credited with nothing


def test_a_signal_must_have_the_level_of_its_link():
  with pytest.raises(AssertionError):
    _run(('add_signal', {'name': 'implicit_prm.token'}))
