"""Attribution with an agent whose likelihoods are known."""

import jax
import numpy as np
import pytest

from agentrl import mesh
from agentrl.lab.papers.attribution import attribute as lib
from agentrl.lab.papers.attribution import conversations as talk
from agentrl.nn import transformer

N = 30


def agent(tokens, length, action):
  """Log-probs: .9 on what was last stated, the rest on all other actions."""
  out = []
  for row, end, wanted in zip(tokens, length, action, strict=True):
    right = talk.SEARCH
    for token in row[:end]:
      if token < talk.GOAL and token // talk.VALUES == row[0] - talk.GOAL:
        right = token % talk.VALUES
    out.append(np.log(0.9 if right == wanted else 0.1 / talk.VALUES))
  return np.array(out)


def named(method, world):
  """Share of a world's conversations in which a cause is named; passes."""
  x = talk.of_world(world, N, np.random.default_rng(2))
  read = lib.Passes(lambda t, length: agent(t, length, x.action[:, -1]))
  p = lib.LIKELIHOOD[method](read, x.tokens)
  assert p.shape == (N, talk.K, talk.M)
  np.testing.assert_allclose(p.sum(axis=(1, 2)), 1)
  return float((p * x.cause).sum() / N), read.count


@pytest.mark.parametrize(
  ('method', 'world', 'hit', 'passes'),
  [
    ('two stages', 'once', 1, 11),
    ('two stages', 'twice', 1, 11),  # the drop is taken before the second one
    ('two stages', 'corrected', 1, 11),
    ('two stages', 'restored', 0, 11),  # it rises as much the first time
    ('likelihood dynamics', 'once', 1 / talk.M, 7),
    ('leave one out', 'once', 1, 25),
    ('leave one out', 'twice', 2 / 24, 25),  # nothing drops
    ('leave one out', 'restored', 1, 25),
    ('last turn', 'last', 1 / talk.M, 0),
    ('random', 'once', 1 / 24, 0),
  ],
)
def test_who_finds_a_planted_cause(method, world, hit, passes):
  found, count = named(method, world)
  assert found == pytest.approx(hit)
  assert count == passes


def test_gains_are_differences_of_prefixes():
  x = talk.of_world('corrected', N, np.random.default_rng(3))
  action = x.action[:, -1]
  gains = lib.gains(lambda t, length: agent(t, length, action), x.tokens)
  high, low = np.log(0.9), np.log(0.1 / talk.VALUES)
  right = x.action == action[:, None]
  np.testing.assert_allclose(
    gains, np.diff(np.where(right, high, low), axis=1), atol=1e-12
  )


def test_a_token_is_removed():
  tokens = np.arange(2 * talk.T).reshape(2, talk.T)
  got = lib.without(tokens, np.array([3, talk.T - 1]))
  for row, place, want in zip(got, (3, talk.T - 1), tokens, strict=True):
    assert row[:-1].tolist() == np.delete(want, place).tolist()


def test_rollout_multiplies_layers_and_residuals():
  first = np.array([[[1.0, 0.0], [0.25, 0.75]]])
  second = np.array([[[1.0, 0.0], [0.5, 0.5]]])
  half = lambda a: 0.5 * a[0] + 0.5 * np.eye(2)  # noqa: E731
  got = lib.rollout_of(np.stack([first, second]))
  np.testing.assert_allclose(got[0], half(second) @ half(first))


@pytest.fixture(scope='module')
def params():
  return mesh.init(transformer.specs(talk.POLICY), jax.random.key(0))


def test_a_reader_sees_a_prefix_and_nothing_behind_it(params):
  x = talk.of_world('once', 4, np.random.default_rng(4))
  action = x.action[:, -1]
  read = lib.reader(params, action)
  length = np.array([talk.at(k) + 1 for k in (0, 2, 3, 5)])
  hidden = np.where(np.arange(talk.T) < length[:, None], x.tokens, 0)
  np.testing.assert_array_equal(read(x.tokens, length), read(hidden, length))
  whole = np.zeros_like(x.tokens)  # causal: the same of all of it
  logp = np.asarray(lib._log_probs(params, x.tokens, whole))
  want = logp[np.arange(4), length - 1, action]
  np.testing.assert_allclose(read(x.tokens, length), want, rtol=1e-4)


def test_attention_is_what_the_policy_attends_with(params):
  """A value that is attended to changes what the layer adds."""
  x = talk.of_world('once', 3, np.random.default_rng(5))
  a = np.asarray(lib._attention(params, x.tokens))
  assert a.shape == (talk.POLICY.layers, 3, talk.T, talk.T)
  np.testing.assert_allclose(a.sum(axis=-1), 1, rtol=1e-5)
  assert not np.triu(a, 1).any()
  # Queries of zero attend evenly.
  still = {**params['layers'], 'q': 0 * params['layers']['q']}
  even = np.asarray(lib._attention({**params, 'layers': still}, x.tokens))
  np.testing.assert_allclose(even[0, 0, -1], 1 / talk.T, rtol=1e-5)
  p = lib.rollout(params, x.tokens)
  np.testing.assert_allclose(p.sum(axis=(1, 2)), 1)
