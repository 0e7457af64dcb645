"""The frozen reference reads the parameters of its own role."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.signal import reference
from tests.signal import tables


def test_a_reference_reads_its_own_role():
  state = tables.make_state()
  for role in ('reference', 'value'):
    signal = reference.reference(tables.CONTEXT, role=role)
    fields, _ = jax.jit(signal.score)(state, tables.LAID.batch, {})
    want = np.asarray(state.params[role]['table'])[tables.ROWS.tokens][..., 0]
    live = np.any(tables.ROWS.sampled, axis=1)
    np.testing.assert_allclose(fields['ref_logp'][live], want[live], rtol=1e-6)


def test_a_reading_of_its_own():
  """Log-probs of the words that stand there, where the messages stand here."""
  state, rows = tables.make_state(), tables.ROWS
  words = jnp.roll((rows.tokens + 1) % tables.WORDS, 2, axis=1)
  moved = {
    name: jnp.roll(getattr(rows, name), 2, axis=1)
    for name in ('seg', 'traj', 'turn', 'sampled', 'weight')
  }
  # What was rolled over the edge is padding, where the rows have enough of it.
  assert not np.any(rows.sampled[:, -2:])
  batch = tables.LAID.batch.replace(
    readings={'hinted': rows.replace(tokens=words, **moved)}
  )
  signal = reference.reference(tables.CONTEXT, reading='hinted')
  fields, _ = jax.jit(signal.score)(state, batch, {})
  table = np.asarray(state.params['reference']['table'])[..., 0]
  want = np.where(rows.sampled, table[(rows.tokens + 1) % tables.WORDS], 0)
  np.testing.assert_allclose(fields['ref_logp'], want, rtol=1e-6)


def test_the_distance_of_each_turn():
  batch, tokens = tables.LAID.batch, tables.LAID.tokens
  signals = {name: tokens[name] for name in ('old_logp', 'ref_logp')}
  scored = jnp.asarray(batch.turns.scored).at[0].set(False)
  batch = batch.replace(turns=batch.turns.replace(scored=scored))
  signal = reference.kl_by_turn(tables.CONTEXT)
  _, metrics = jax.jit(signal.score)(None, batch, signals)
  story, want = tables.STORY, {}
  for b, sizes in enumerate(story.size):
    for k, n in enumerate(sizes):
      x = story.token['old_logp'][b][k] - story.token['ref_logp'][b][k]
      total, count = want.get(f'kl/turn_{k}', (0.0, 0))
      if b:
        want[f'kl/turn_{k}'] = total + np.sum(x), count + n
  assert len(want) > 2
  for name, pair in want.items():
    np.testing.assert_allclose(metrics[name], pair, rtol=1e-5)
