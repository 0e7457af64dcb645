"""Batches whose weights change while they are played, as rows."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import grpo
from agentrl.learner import algorithm, update
from agentrl.nn import transformer
from agentrl.rollout import stale
from agentrl.run import build
from agentrl.run.play import sampler
from agentrl.task.base import make_attempts
from tests.run import small_configs

EVERY = 5  # rounds of a version


PROGRAM = dict(
  world='countdown',
  settings='numbers=2, largest=9',
  function='tests.gateway.players:forked',
  branches=3,
)
WORLDS = {
  'conversations': ('countdown', 'full', {}),
  'turns': ('countdown', 'turn', {}),
  'programs': ('program', 'full', PROGRAM),
}


def config(folder, swap, world):
  env, history, settings = WORLDS[world]
  c = small_configs.two_layers(grpo.get_config(f'tiny,env={env}'), folder)
  c.env.update(dict(train=4, test=2) | settings)
  c.rollout.update(dict(slots=3, history=history))
  c.host.update(dict(decode_steps_per_sync=2, prefill_chunk=16))
  c.staleness.update(
    dict(bound=99, anchor='behaviour', order='latest', swap=swap, depth=1)
  )
  return c


def policies(s):
  """version -> policy; far from all others'."""

  def policy(version):
    state = update.init(s.algorithm, jax.random.key(version))
    full = algorithm.full_params(s.algorithm.context, state.params)
    return jax.tree.map(lambda x: 2 * x, full)

  made = {}
  return lambda v: made.setdefault(v, policy(v))


def collected(s, of):
  """A batch, during which a version follows another every few rounds."""
  calls = itertools.count()

  def newest():
    version = 3 + next(calls) // EVERY
    return of(version), version

  attempts = make_attempts(np.arange(8) // 4, 4, 4, 1.0)
  with sampler.open_sampler(s) as playing:
    key = jax.random.key(1)
    return playing.collect(of(3), attempts, key, 3, newest=newest)


def logp_of(s, policy, rows):
  """Log-probs of tokens after all before them in their segment: [N, T]."""
  hidden = transformer.forward(s.shape, policy, rows.tokens, rows.seg)
  logits = transformer.logits(policy, hidden, s.shape.logit_cap)
  logp = jax.nn.log_softmax(logits[:, :-1])
  logp = jnp.take_along_axis(logp, rows.tokens[:, 1:, None], axis=2)[..., 0]
  return np.pad(logp, ((0, 0), (1, 0)))


@pytest.mark.slow
@pytest.mark.parametrize(
  ('swap', 'world'),
  [
    pytest.param(
      swap,
      world,
      marks=() if (swap, world) == ('token', 'turns') else pytest.mark.nightly,
    )
    for swap in ('turn', 'token')
    for world in WORLDS
  ],
)
def test_rows_have_the_log_probs_of_their_versions(tmp_path, swap, world):
  s = build.experiment(config(tmp_path, swap, world))
  of = policies(s)
  batch, metrics = collected(s, of)
  rows, mask = batch.rows, np.asarray(batch.rows.sampled)
  version = np.asarray(rows.version)
  versions = np.unique(version[mask])
  assert len(versions) >= 3
  assert versions[0] == 3
  for v in versions:
    mine = mask & (version == v)
    expected = logp_of(s, of(int(v)), rows)
    np.testing.assert_allclose(
      np.asarray(rows.logp)[mine], expected[mine], rtol=1e-5, atol=1e-5
    )
  turns = [
    version[mask & (np.asarray(rows.traj) == b) & (np.asarray(rows.turn) == k)]
    for b, k in np.argwhere(np.asarray(batch.turns.valid))
  ]
  assert all((np.diff(x) >= 0).all() for x in turns)
  assert any(len(set(x)) > 1 for x in turns) == (swap == 'token')
  total, count = stale.spans(batch)['rollout/version_span']
  spans = [
    np.ptp(version[mask & (np.asarray(rows.traj) == b)]) for b in range(8)
  ]
  assert (float(total), float(count)) == (sum(spans), 8)
  assert sum(spans) > 0
  assert metrics['rollout/engine/swaps'][0] == len(versions) - 1
  # A program's next message is a sequence of its own, which had read nothing.
  fresh = (world, swap) == ('programs', 'turn')
  assert (metrics['rollout/engine/prefilled_again'][0] > 0) != fresh
