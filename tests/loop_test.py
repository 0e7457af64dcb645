"""The loop with stages that only write down what is asked of them."""

import types

import jax.numpy as jnp
import numpy as np

from agentrl import loop
from tests import batches, states
from tests import counting_cases as cases
from tests.counting_cases import B, off


class Counter:
  """A sampler whose batch is the step and the policy that sampled it."""

  def task(self, state, step):
    return step

  def collect(self, state, attempts, step):
    batch = jnp.array([attempts, state.params['policy']])
    return batch, {'sampled_by': (batch[1], jnp.ones(()))}


def _add(alg, state, batch):
  """Adds alg times the step to the policy."""
  params = {'policy': state.params['policy'] + alg * batch[0]}
  state = state.replace(step=state.step + 1, params=params)
  return state, {'step': (batch[0], jnp.ones(()))}, batch


def _state(step, policy):
  return states.state(
    step=jnp.int32(step), params={'policy': jnp.int32(policy)}
  )


def _train(state, steps):
  seen = []

  def hook(step, state, metrics, aux):
    told = {name: int(total) for name, (total, _) in metrics.items()}
    seen.append((step, told, int(aux[0]), int(state.params['policy'])))

  state = loop.train(
    10, Counter(), state, steps=steps, hooks=[hook], update=_add
  )
  return int(state.step), int(state.params['policy']), seen


def test_training_runs_every_step_once_and_tells_the_hooks():
  *last, seen = _train(_state(0, 7), steps=3)
  assert last == [3, 7 + 10 * (0 + 1 + 2)]
  assert seen == [
    (1, {'step': 0, 'sampled_by': 7}, 0, 7),
    (2, {'step': 1, 'sampled_by': 7}, 1, 17),
    (3, {'step': 2, 'sampled_by': 17}, 2, 37),
  ]


def test_training_goes_on_at_the_step_of_the_state():
  *_, whole = _train(_state(0, 7), steps=3)
  *last, rest = _train(_state(2, 17), steps=3)
  assert last == [3, 37]
  assert rest == whole[2:]
  assert _train(_state(3, 37), steps=3) == (3, 37, [])


def test_a_step_calls_each_part_in_its_order(monkeypatch):
  monkeypatch.setattr(loop, 'jit_update', lambda alg, update: update)
  order = []

  def note(name, *out):
    return lambda *args: (order.append(name), out)[1]

  stage = types.SimpleNamespace(
    task=note('task'), collect=note('collect', 'batch', {'seen': 1})
  )
  steps = loop.iterate(
    None,
    stage,
    types.SimpleNamespace(step=np.array(3)),
    steps=4,
    hooks=[note('first'), note('second')],
    before_collect=note('before_collect'),
    before_update=note('before_update'),
    update=note('update', 'state', {'loss': 2}, None),
  )
  assert list(steps) == [(4, 'state', {'loss': 2, 'seen': 1})]
  parts = 'task before_collect collect before_update update first second'
  assert ' '.join(order) == parts


def test_what_is_observed_in_plain_loops():
  s = batches.story(7)
  batch = batches.lay(s, padding=2).batch
  valid = batch.turns.valid
  r = np.random.default_rng(0)
  terms = {
    name: np.where(valid, r.uniform(1, 5, valid.shape), 0)
    for name in ('tokens', 'entropy', 'invalid')
  }
  # What did not happen holds noise in all that is masked.
  terms['progress'] = r.normal(size=valid.shape)
  # Of other turns, those of an earlier batch.
  terms |= {
    'judged': np.ones(valid.shape),
    'judged_known': np.ones(valid.shape),
  }
  took = {'attempts': 9, 'tokens': 70, 'env_steps': 30}
  batch = batch.replace(
    turns=batch.turns.replace(terms=terms),
    sampled={name: jnp.int32(x) for name, x in took.items()},
  )
  told = loop.observe(batch)
  told = {k: float(s) / float(w) for k, (s, w) in told.items()}
  n = len(s.group)
  turns = [len(x) for x in s.size]
  assert sum(x > 0.5 for x in s.outcome) not in (0, n)
  want = {
    'success': sum(x > 0.5 for x in s.outcome) / n,
    'return': sum(map(sum, s.reward)) / n,
    'turns': sum(turns) / n,
    **took,
    'unscored': 2,  # what has no turns is as what broke at its beginning
    'entropy': terms['entropy'].sum() / terms['tokens'].sum(),
    'invalid': terms['invalid'].sum() / sum(turns),
    'progress': terms['progress'][valid].sum() / sum(turns),
  }
  assert told.keys() >= {f'rollout/{k}' for k in want}
  assert not [name for name in told if 'judged' in name]
  for name, x in want.items():
    np.testing.assert_allclose(told[f'rollout/{name}'], x, rtol=1e-5)


def _told(kind, **changes):
  case = cases.make(kind)
  sampled = {'attempts': 40, 'tokens': 999, 'env_steps': 123}
  sampled = {name: jnp.int32(x) for name, x in sampled.items()}
  told = loop.observe(case.batch.replace(sampled=sampled, **changes))
  return case.batch, {k: (float(x), float(w)) for k, (x, w) in told.items()}


def test_means_are_over_what_counts_and_the_rest_stands_beside():
  batch, got = _told('left_out')
  _, want = _told('without')
  assert got == want
  assert got.pop('rollout/unscored') == (len(cases.OFF), 1)
  solved = np.asarray(batch.outcome)[~off] > 0.5
  assert got['rollout/success'] == (solved.sum(), B - len(cases.OFF))
  turns = np.asarray(batch.turns.valid)[~off].sum()
  assert got['rollout/turns'] == (turns, B - len(cases.OFF))
  assert got['rollout/progress'][1] == got['rollout/invalid'][1] == turns
  assert max(abs(x) for x, _ in got.values()) < 1000


def test_a_budget_is_what_was_sampled_and_not_what_is_left():
  _, got = _told('left_out')
  for name, x in (('attempts', 40), ('tokens', 999), ('env_steps', 123)):
    assert got[f'rollout/{name}'] == (x, 1)
