"""Compacted conversations in rows: every sampled token once, by its arm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.nn import transformer
from agentrl.types import Rows
from tests.rollout.compacted import (
  COUNT,
  MODULE,
  RULES,
  SHAPE,
  WORDS,
  params,
  played,
  rule,
  segments,
  summaries,
)


@jax.jit
def forward(ids, seg):
  """Log-probs of all tokens but the first of a context: [T - 1]."""
  hidden = transformer.forward(SHAPE, params(), ids[None], seg[None])
  logp = jax.nn.log_softmax(transformer.logits(params(), hidden, 0.0))[0]
  return jnp.take_along_axis(logp[:-1], ids[1:, None], axis=1)[:, 0]


def alone(tokens):
  """Log-probs of a single context, plainly: [96]."""
  pad = 97 - len(tokens)
  seg = np.array([0] * len(tokens) + [-1] * pad)
  return np.asarray(forward(np.array([*tokens, *[0] * pad]), seg))


@pytest.mark.slow
@pytest.mark.parametrize('name', ['own', 'shuffled', 'bare'])
def test_every_sampled_token_stands_once_behind_its_own_context(name):
  """Log-probs of the sampler, of the packed rows, and of single contexts."""
  ended, record, rows = played(RULES[name])
  learned = np.asarray(MODULE.apply(params(), rows, ('logp',)).logp)
  sampled = np.asarray(rows.sampled)
  np.testing.assert_allclose(
    learned[sampled], np.asarray(rows.logp)[sampled], atol=1e-5
  )
  assert sampled.sum() == record.message_len[record.valid].sum()
  for b, episode in enumerate(ended):
    for tokens, said in segments(episode):
      plain = alone(tokens)
      for k, place, size in said:
        mine = sampled[b] & (np.asarray(rows.turn[b]) == k)
        assert (
          np.asarray(rows.tokens[b])[mine].tolist()
          == (tokens[place : place + size])
        )
        np.testing.assert_allclose(
          learned[b][mine], plain[place - 1 : place - 1 + size], atol=1e-5
        )


def loss(p, rows, advantage):
  """Σ w A log π over rows [N, T], of trajectories' advantages."""
  logp = MODULE.apply(p, rows, ('logp',)).logp
  traj = jnp.maximum(rows.traj, 0)
  return jnp.sum(rows.weight * advantage[traj] * logp)


def unfolded(ended, weightless):
  """Rows of one segment each, from nothing but its tokens."""
  width = max(len(t) for e in ended for t, _ in segments(e))
  tokens, seg, traj, weight = [], [], [], []
  for b, episode in enumerate(ended):
    for ids, said in segments(episode):
      pad = width - len(ids)
      w = np.zeros(width, np.float32)
      for k, place, size in said:
        own = weightless and episode.turns[k].info.get('summary')
        w[place : place + size] = 0.0 if own else 1.0
      tokens.append([*ids, *[0] * pad])
      seg.append([0] * len(ids) + [-1] * pad)
      traj.append([b] * width)
      weight.append(w)
  tokens, seg, traj = (jnp.asarray(x, jnp.int32) for x in (tokens, seg, traj))
  zero = jnp.zeros(tokens.shape)
  return Rows(
    tokens=tokens,
    seg=seg,
    traj=traj,
    turn=jnp.zeros_like(tokens),
    span=jnp.zeros(tokens.shape, jnp.int8),
    sampled=jnp.asarray(weight) > 0,
    weight=jnp.asarray(weight),
    logp=zero,
    version=jnp.zeros_like(tokens),
  )


@pytest.mark.slow
@pytest.mark.parametrize('name', ['own', 'masked', 'shuffled'])
def test_the_gradient_is_of_the_single_contexts(name):
  ended, _, rows = played(RULES[name])
  advantage = jnp.linspace(-1.0, 1.0, COUNT)
  grad = jax.jit(jax.grad(loss))
  got = grad(params(), rows, advantage)
  want = grad(params(), unfolded(ended, name == 'masked'), advantage)
  largest = max(float(jnp.abs(x).max()) for x in jax.tree.leaves(want))
  assert largest > 0
  for one, two in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    np.testing.assert_allclose(one / largest, two / largest, atol=1e-5)


def test_arms_weigh_and_show_what_they_say():
  own, masked, shuffled = (
    played(RULES[x]) for x in ('own', 'masked', 'shuffled')
  )
  # The first summaries are the same: the arms differ in what comes of them.
  for one, two in ((own, masked), (own, shuffled)):
    for mine, other in zip(one[0], two[0], strict=True):
      k = summaries(mine)[0]
      assert summaries(other)[0] == k
      assert mine.turns[k].spoken.ids == other.turns[k].spoken.ids
  for name, (ended, record, rows) in zip(
    ('own', 'masked', 'shuffled'), (own, masked, shuffled), strict=True
  ):
    column = record.columns['summary']
    for b, episode in enumerate(ended):
      marked = np.flatnonzero(column[b]).tolist()
      assert marked == summaries(episode)
      turn, weight = np.asarray(rows.turn[b]), np.asarray(rows.weight[b])
      sampled = np.asarray(rows.sampled[b])
      for k in range(len(episode.turns)):
        mine = sampled & (turn == k)
        light = name == 'masked' and k in marked
        assert set(weight[mine]) == {0.0 if light else 1.0}
        assert record.reward[b, k] == np.float32(0 if k in marked else 0.1)
      assert not weight[~sampled].any()
  # What masked ones show is what was written; the placebo is something else.
  differ = 0
  for episode in shuffled[0]:
    for k in summaries(episode):
      ids, after = episode.turns[k].spoken.ids, episode.turns[k + 1].context
      task = len(episode.turns[0].context)
      shown = list(after[task : task + len(ids)])
      assert sorted(shown) == sorted(ids)
      body = [i for i in ids if i != WORDS.eot]
      assert (shown != ids) == (len(set(body)) > 1)
      differ += shown != ids
  assert differ
  for a, b in zip(own[0], masked[0], strict=True):
    assert [x.context for x in a.turns] == [x.context for x in b.turns]


def test_a_placebo_differs_and_keeps_its_end():
  made = rule(arm='shuffled')
  for i in range(50):
    key = np.array([i, 7], np.uint32)
    ids = [11, 12, WORDS.eot]
    assert made.shown(ids, key, WORDS.eot) == (12, 11, WORDS.eot)
    assert made.shown([11, 12], key, WORDS.eot) == (12, 11)
    assert made.shown([11, 11, 2], key, 2) == (11, 11, 2)
    long = [*range(10, 20), WORDS.eot]
    assert made.shown(long, key, WORDS.eot) != tuple(long)
    assert made.shown(long, key, 2) == made.shown(long, key, 2)
    assert rule().shown(long, key, 2) == tuple(long)
  assert made.shown([WORDS.eot], key, WORDS.eot) == (WORDS.eot,)
