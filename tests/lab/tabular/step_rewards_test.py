"""Step rewards against both truths, and their errors' life, by loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.lab.tabular import build, step_rewards
from tests.lab.tabular import table_runs

SHAPE = 5, 3  # states and actions, more than are visited


def played():
  """A batch whose turns' cells are few, so that they recur; some are over."""
  batch = jax.tree.map(jnp.asarray, table_runs.played('grpo').batch)
  r = np.random.default_rng(7)
  shape = batch.turns.valid.shape
  valid = np.ones(shape, bool)
  valid[2, 1:] = valid[5, 2:] = False
  tokens = batch.rows.tokens.at[:, 0].set(r.integers(0, 11, valid.size))
  terms = {name: r.normal(size=shape) for name in ('truth', 'progress')}
  terms = {name: jnp.asarray(x, jnp.float32) for name, x in terms.items()}
  return batch.replace(
    rows=batch.rows.replace(tokens=tokens),
    turns=batch.turns.replace(valid=jnp.asarray(valid), terms=terms),
  )


def nothing():
  empty = step_rewards.CellErrors(jnp.zeros(SHAPE), jnp.zeros(SHAPE))
  return {'step': empty}


def measure(x, batch, last):
  return jax.jit(step_rewards.measure)({'step': x}, batch, last)


def errors_by_loops(x, batch):
  """{cell: [errors]} of z(x) - rho z(A), in float64."""
  here = np.asarray(batch.turns.valid)
  x, a = (
    np.asarray(y, np.float64)[here] for y in (x, batch.turns.terms['truth'])
  )
  z, za = ((y - y.mean()) / y.std() for y in (x, a))
  error = z - np.corrcoef(x, a)[0, 1] * za
  cells = np.asarray(batch.rows.tokens[:, 0]).reshape(here.shape)[here]
  out = {}
  for c, e in zip(cells, error, strict=True):
    out.setdefault(int(c), []).append(e)
  return out


def _within(errors):
  """The same less the mean of the state's turns, of several actions."""
  out = {}
  for c, es in errors.items():
    mates = [d for d in errors if d // SHAPE[1] == c // SHAPE[1]]
    if len(mates) > 1:
      state = np.mean([e for d in mates for e in errors[d]])
      out[c] = [e - state for e in es]
  return out


def persistence_by_loops(now, before):
  pairs = [
    (np.mean(es), np.mean(before[c]))
    for c, es in now.items()
    if c in before
    for _ in es
  ]
  return np.corrcoef(np.transpose(pairs))[0, 1]


def test_measures_are_those_of_loops():
  batch, r = played(), np.random.default_rng(3)
  here = np.asarray(batch.turns.valid)
  one, two = (
    jnp.asarray(0.5 * batch.turns.terms['truth'] + r.normal(size=here.shape))
    for _ in range(2)
  )
  # The first iteration did not come by two of the cells.
  tokens = np.asarray(batch.rows.tokens[:, 0])
  unseen = np.isin(tokens, (3, 4)).reshape(here.shape)
  first = batch.replace(
    turns=batch.turns.replace(valid=batch.turns.valid & ~unseen)
  )
  _, errors = measure(one, first, nothing())
  measured, _ = measure(two, batch, errors)
  before = errors_by_loops(one, first)
  now = errors_by_loops(two, batch)
  assert set(before) < set(now)
  for errors, name in (
    ((now, before), 'step persistence'),
    ((_within(now), _within(before)), 'step persistence within states'),
  ):
    want = persistence_by_loops(*errors)
    np.testing.assert_allclose(measured[name], want, rtol=1e-4)
  for truth, name in (
    ('truth', 'step correlation'),
    ('progress', 'step progress correlation'),
  ):
    pair = np.asarray(two)[here], np.asarray(batch.turns.terms[truth])[here]
    np.testing.assert_allclose(
      measured[name], np.corrcoef(*pair)[0, 1], rtol=1e-4
    )


def test_an_error_that_is_a_function_of_the_cell_persists():
  """However its size changes; the truth's part is no error."""
  batch = played()
  cell = batch.rows.tokens[:, 0].reshape(batch.turns.valid.shape)
  error = jnp.sin(7.0 * cell)
  truth = jnp.cos(3.0 * cell)
  terms = batch.turns.terms | {'truth': truth}
  batch = batch.replace(turns=batch.turns.replace(terms=terms))
  measured, errors = measure(error, batch, nothing())
  assert measured['step persistence'] == 0  # nothing was before it
  again, _ = measure(3 * error + 2 * truth, batch, errors)
  assert again['step persistence'] == pytest.approx(1, abs=1e-4)
  assert again['step correlation'] > measured['step correlation'] + 0.1
  other, _ = measure(-error, batch, errors)
  assert other['step persistence'] == pytest.approx(-1, abs=1e-4)


def test_a_constant_reward_has_no_error():
  batch = played()
  measured, errors = measure(
    jnp.ones_like(batch.turns.reward), batch, nothing()
  )
  assert not any(map(np.any, measured.values()))
  assert not errors['step'].mean.any()


@pytest.mark.parametrize(
  ('method', 'want'),
  [
    ('grpo', ()),
    ('gigpo', ('step',)),
    ('graph_return', ('step',)),
    ('oprl', ('prm', 'step')),
    ('td_critic', ('prm', 'step')),
    ('td_prm', ('prm', 'step')),
  ],
)
def test_a_method_has_the_rewards_of_its_signal_and_its_stream(method, want):
  c = table_runs.config(method)
  made = build.case(c, 'bifurcation', table_runs.SMALL, 'adam', {'length': 3})
  assert step_rewards.names(made.learner) == want
  assert tuple(step_rewards.no_errors(made.learner, made.table)) == want


def test_persistence_leaves_the_first_iteration_out():
  x = np.array([[0.0, 0.5, 1.0]])
  np.testing.assert_allclose(step_rewards.persistence(x), [0.75])
  np.testing.assert_allclose(step_rewards.persistence(x[:, :1]), [0.0])


def test_what_an_error_has_of_the_state_alone_is_not_within_states():
  """It stays as it was; what tells actions apart changes its sign."""
  batch = played()
  cell = batch.rows.tokens[:, 0].reshape(batch.turns.valid.shape)
  nothing_known = batch.turns.terms | {'truth': jnp.zeros(cell.shape)}
  batch = batch.replace(turns=batch.turns.replace(terms=nothing_known))
  state, action = 10 * jnp.sin(5.0 * (cell // SHAPE[1])), jnp.sin(3.0 * cell)
  _, errors = measure(state + action, batch, nothing())
  measured, _ = measure(state - action, batch, errors)
  assert measured['step persistence'] > 0.9
  within = measured['step persistence within states']
  assert within == pytest.approx(-1, abs=1e-2)
