"""Losses over pairs against TRL's own, by the numbers of trl_numbers.json."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from agentrl.loss import reduce
from agentrl.runtime import install
from agentrl.types import Batch, Credit, Outputs, Pairs
from tests import batches
from tests.loss import trl_numbers
from tests.loss.trl_numbers import CASES, LONGEST, PAIRS

pytestmark = pytest.mark.usefixtures('float64')

THEIRS = json.loads(trl_numbers.FILE.read_text())
# TRL computes the odds ratio in float32, whatever it is given.
CLOSE = dict.fromkeys(CASES, 1e-6) | {'orpo': 1e-5}


def rows(values, width=LONGEST):
  out = np.zeros((2 * PAIRS, width))
  for row, x in zip(out, values, strict=True):
    row[: len(x)] = x
  return jnp.asarray(out)


def mean_loss(name, logp):
  """Our loss of TRL's tokens: winner p is trajectory p, its loser p + P."""
  loss, hp = CASES[name]
  size = [len(x) for x in THEIRS['logp']]
  batch = Batch.from_turns(
    [[[1] * n] for n in size],
    [[x] for x in THEIRS['logp']],
    reward=[[0.0]] * len(size),
    group=[i % PAIRS for i in range(len(size))],
  )
  of = jnp.stack([jnp.arange(PAIRS), jnp.full(PAIRS, -1)], axis=1)
  lose = of + jnp.array([[PAIRS, 0]])
  pairs = Pairs(win=of, lose=lose, weight=jnp.ones(PAIRS))
  weight = batch.rows.sampled.astype(logp.dtype)
  credit = Credit(
    turn=jnp.zeros((2 * PAIRS, 1)),
    token=jnp.zeros_like(weight),
    weight=weight,
    target={},
  )
  ref = {'ref_logp': rows(THEIRS['ref_logp'])}
  inputs = Outputs(logp=logp), batch.replace(pairs=pairs), credit, ref
  value, weight, _ = batches.loss(loss, inputs, **hp)
  shape = batch.turns.valid.shape
  return jnp.sum(reduce.token_mean(weight, batch.rows, *shape) * value)


@pytest.mark.parametrize('name', CASES)
def test_value_and_gradient_are_those_of_trl(name):
  step = jax.jit(jax.value_and_grad(lambda x: mean_loss(name, x)))
  value, grad = step(rows(THEIRS['logp']))
  want, close = THEIRS['losses'][name], CLOSE[name]
  np.testing.assert_allclose(value, want['value'], rtol=close)
  of_tokens = rows(want['grad'])
  assert np.abs(of_tokens).max() > 1e-3
  np.testing.assert_allclose(grad, of_tokens, rtol=close, atol=close / 10)


def test_the_numbers_are_those_of_the_trl_that_is_installed():
  pytest.importorskip('trl', reason=install.command('parity'))
  made = trl_numbers.made()
  for name, want in THEIRS['losses'].items():
    got = made['losses'][name]
    np.testing.assert_allclose(got['value'], want['value'], rtol=1e-6)
    for x, y in zip(got['grad'], want['grad'], strict=True):
      np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-9)
