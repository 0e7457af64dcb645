"""Conversations with planted causes of an action, and who learns to act.

A conversation is the goal, "what is S?", and K tool answers of M sentences, "a
is x", the goal repeated behind each. The agent answers with the value that was
last stated of S, and searches on while none was: so what it does is caused by
one sentence, or by any of several that say the same. Other sentences are of
other subjects. A sentence and a goal are a token each: with two tokens for a
sentence the policy had not learned to read them after 2,750 steps.

    (what is S?)  (a is x) (b is y) (c is z) (d is w) (what is S?)  ...  action
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh, optimizer
from agentrl.nn import transformer
from agentrl.nn.config import DecoderConfig
from agentrl.types import Array

SUBJECTS, VALUES = 12, 8
SEARCH = VALUES  # an action is this or a value
GOAL = SUBJECTS * VALUES  # the first goal's token; sentences come before
VOCAB = GOAL + SUBJECTS
K, M = 6, 4  # turns; sentences of a turn
T = 1 + K * (M + 1)  # tokens
NOT = -1  # said

# What is said of S, in this order, each in a turn of its own: values by number.
WORLDS = {
  'once': (0,),
  'twice': (0, 0),
  'corrected': (1, 0),
  'restored': (0, 1, 0),
  'last': (0,),  # and in the last turn
}


class Conversations(NamedTuple):
  """n conversations."""

  tokens: np.ndarray  # [n, T] i32
  action: np.ndarray  # [n, K + 1] i32  what is right at each goal
  cause: np.ndarray  # [n, K, M] bool  of the last action: any of them


def make(said: np.ndarray, rng: np.random.Generator) -> Conversations:
  """Makes a conversation for each row of what is said of S.

  Args:
    said: [n, K] number of the value that a turn states of S; NOT
  """
  n = len(said)
  subject = rng.integers(0, SUBJECTS, n)  # S
  other = rng.integers(0, SUBJECTS - 1, (n, K, M))
  who = other + (other >= subject[:, None, None])
  values = rng.permuted(np.tile(np.arange(VALUES), (n, 1)), axis=1)
  what = rng.integers(0, VALUES, (n, K, M))
  place = rng.integers(0, M, (n, K))[..., None] == np.arange(M)
  place &= (said != NOT)[..., None]  # [n, K, M]
  stated = np.take_along_axis(values, np.maximum(said, 0), axis=1)  # [n, K]
  who = np.where(place, subject[:, None, None], who)
  what = np.where(place, stated[..., None], what)
  newest = np.maximum.accumulate(
    np.where(said != NOT, np.arange(K), NOT), axis=1
  )
  known = np.take_along_axis(stated, np.maximum(newest, 0), axis=1)
  goal = GOAL + subject[:, None]
  turns = np.append(who * VALUES + what, np.repeat(goal, K, 1)[..., None], -1)
  action = np.where(newest == NOT, SEARCH, known)
  return Conversations(
    tokens=np.append(goal, turns.reshape(n, -1), axis=1).astype(np.int32),
    action=np.append(np.full((n, 1), SEARCH), action, axis=1).astype(np.int32),
    cause=place & _unbroken(said)[..., None],
  )


def at(k: int | np.ndarray, m: int | np.ndarray = M):
  """Returns where sentence m of turn k stands in the tokens; M: the goal."""
  return 1 + k * (M + 1) + m


def _unbroken(said: np.ndarray) -> np.ndarray:
  """Marks turns that state the last value, with no other after them: [n, K]."""
  out, value = np.zeros(said.shape, bool), np.full(len(said), NOT)
  whole = np.ones(len(said), bool)
  for k in reversed(range(K)):
    stated = said[:, k] != NOT
    value = np.where(stated & (value == NOT), said[:, k], value)
    whole &= ~stated | (said[:, k] == value)
    out[:, k] = stated & whole
  return out


def of_world(world: str, n: int, rng: np.random.Generator) -> Conversations:
  """Makes n conversations of one of WORLDS."""
  order = WORLDS[world]
  said = np.full((n, K), NOT)
  for row in said:
    turns = rng.choice(K, len(order), replace=False)
    row[np.sort(turns)] = order
  if world == 'last':
    said = np.sort(said, axis=1)
  return make(said, rng)


def any_world(n: int, rng: np.random.Generator) -> Conversations:
  """Makes conversations to learn from: every turn says something or nothing."""
  often = rng.choice([0.15, 0.4], (n, 1))
  speaks = rng.random((n, K)) < often
  return make(np.where(speaks, rng.integers(0, 2, (n, K)), NOT), rng)


POLICY = DecoderConfig(
  vocab=VOCAB, width=64, layers=2, heads=4, kv_heads=4, head_dim=16, mlp=128
)


class Training(NamedTuple):
  """Training of the policy; each step reads new conversations."""

  steps: int = 1500
  batch: int = 64
  rate: float = 2e-3


def log_probs(params, tokens: Array, seg: Array) -> Array:
  """Computes log-probs of the next token: [N, T, V], nats."""
  x = transformer.forward(POLICY, params, tokens, seg)
  return jax.nn.log_softmax(transformer.logits(params, x))


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
def _step(rule, params, opt, tokens, action):
  """Takes a step on the actions at all goals; also their accuracy."""

  def loss(params):
    logp = log_probs(params, tokens, jnp.zeros_like(tokens))
    logp = logp[:, :: M + 1]  # [N, K + 1, V]
    right = jnp.argmax(logp, axis=-1) == action
    picked = jnp.take_along_axis(logp, action[..., None], axis=-1)
    return -jnp.mean(picked), jnp.mean(right)

  (_, right), grads = jax.value_and_grad(loss, has_aux=True)(params)
  params, opt, _ = optimizer.step(rule, grads, opt, params)
  return params, opt, right


def train(seed: int, how: Training):
  """Trains a policy; returns its parameters and last accuracy."""
  rng = np.random.default_rng([seed, 0])
  params = mesh.init(transformer.specs(POLICY), jax.random.key(seed))
  rule = optimizer.OptimizerConfig(lr=how.rate, warmup=100)
  opt = optimizer.init(rule, params)
  right = jnp.zeros(())
  for _ in range(how.steps):
    x = any_world(how.batch, rng)
    params, opt, right = _step(rule, params, opt, x.tokens, x.action)
  return params, float(right)
