"""Attribution of an action to a turn and a sentence, by likelihood.

With ℓ(x) the policy's log-prob of the action behind the tokens x, and x_k the
conversation up to the goal behind turn k,

    gain_k    = ℓ(x_k) − ℓ(x_{k−1})            likelihood dynamics, K + 1 passes
    drop_km   = ℓ(x) − ℓ(x without sentence m of turn k)       leave one out
    two stages: the turn of the largest gain, and in x_k the sentence of the
                largest drop; K + 1 + M passes instead of 1 + K M

("The Why Behind the Action", whose sentences are scored the same way; that
drops are taken where the turn ends, before later turns repeat or contradict it,
is ours.) Attention rollout multiplies the layers' ½ A + ½ I, A the mean over
heads (2005.00928). Each method gives the probability with which it names each
sentence: equal sentences share it, of equal turns the first is taken.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.lab.papers.attribution import conversations as lib
from agentrl.lab.papers.attribution.conversations import K, M, T
from agentrl.nn import attention, transformer

# (tokens [n, T], how many of them [n]) -> log-prob of the action [n], nats
Read = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Passes:
  """A reader that counts how many rows it reads of each conversation."""

  def __init__(self, read: Read):
    self._read, self.count = read, 0

  def __call__(self, tokens: np.ndarray, length: np.ndarray) -> np.ndarray:
    self.count += 1
    return self._read(tokens, length)


def reader(params, action: np.ndarray) -> Read:
  """Makes a reader of a policy's log-probs of an action each: [n]."""

  def read(tokens, length):
    seg = np.where(np.arange(T) < length[:, None], 0, -1)
    logp = _log_probs(params, tokens, seg.astype(np.int32))
    return np.asarray(logp)[np.arange(len(tokens)), length - 1, action]

  return read


_log_probs = jax.jit(lib.log_probs)


def without(tokens: np.ndarray, place: np.ndarray) -> np.ndarray:
  """Removes the token at `place` [n] of each row; padding follows its last."""
  index = np.arange(T) + (np.arange(T) >= place[:, None])
  return np.take_along_axis(tokens, np.minimum(index, T - 1), axis=1)


def gains(read: Read, tokens: np.ndarray) -> np.ndarray:
  """Computes likelihood dynamics: [n, K], nats."""
  n = len(tokens)
  ends = [np.full(n, lib.at(k) + 1) for k in range(-1, K)]
  return np.diff([read(tokens, end) for end in ends], axis=0).T


def _drops(read: Read, tokens: np.ndarray, turn: np.ndarray, end: np.ndarray):
  """Computes how likelihood falls without the turn's sentences, but for ℓ(x).

  Args:
    turn: [n]
    end: [n] tokens that are read

  Returns: [n, M], nats
  """
  return -np.stack(
    [
      read(without(tokens, lib.at(turn, np.full_like(turn, m))), end - 1)
      for m in range(M)
    ],
    axis=1,
  )


def two_stages(read: Read, tokens: np.ndarray) -> np.ndarray:
  """Names the sentence of the largest drop in the turn of the largest gain."""
  turn = np.argmax(gains(read, tokens), axis=1)
  drop = _drops(read, tokens, turn, lib.at(turn) + 1)
  return _in_turn(turn) * _most(drop)[:, None]


def dynamics(read: Read, tokens: np.ndarray) -> np.ndarray:
  """Names any sentence of the turn of the largest gain."""
  return _in_turn(np.argmax(gains(read, tokens), axis=1)) / M


def leave_one_out(read: Read, tokens: np.ndarray) -> np.ndarray:
  """Names the sentence of the largest drop in the whole conversation."""
  n = len(tokens)
  end = np.full(n, T)
  full = read(tokens, end)[:, None]
  each = [full + _drops(read, tokens, np.full(n, k), end) for k in range(K)]
  return _most(np.concatenate(each, axis=1)).reshape(n, K, M)


def last_turn(read: Read, tokens: np.ndarray) -> np.ndarray:
  """Names any sentence of the last turn."""
  return _in_turn(np.full(len(tokens), K - 1)) / M


def random(read: Read, tokens: np.ndarray) -> np.ndarray:
  """Names any sentence."""
  return np.full((len(tokens), K, M), 1 / (K * M))


LIKELIHOOD: dict[str, Callable[[Read, np.ndarray], np.ndarray]] = {
  'two stages': two_stages,
  'likelihood dynamics': dynamics,
  'leave one out': leave_one_out,
  'last turn': last_turn,
  'random': random,
}
ROLLOUT = 'attention rollout'  # one pass


def rollout(params, tokens: np.ndarray) -> np.ndarray:
  """Names the sentence with the most attention rollout of the last token."""
  flow = rollout_of(np.asarray(_attention(params, tokens)))[:, -1]  # [n, T]
  place = lib.at(np.arange(K)[:, None], np.arange(M))  # [K, M]
  score = flow[:, place]  # [n, K, M]
  return _most(score.reshape(len(tokens), -1)).reshape(score.shape)


def rollout_of(layers: np.ndarray) -> np.ndarray:
  """Multiplies ½ A + ½ I of all layers, the first one first: [n, T, T].

  Args:
    layers: [L, n, T, T] attention, rows sum to 1
  """
  eye = np.eye(layers.shape[-1])
  out = eye
  for a in layers.astype(np.float64):
    out = (0.5 * a + 0.5 * eye) @ out
  return out


@jax.jit
def _attention(params, tokens):
  """Computes attention, its mean over heads: [L, N, T, T]."""

  def look(c, q, k, until):
    del c  # scores are divided by the root of the head's size
    score = jnp.einsum('nthd,nshd->nhts', q, k) / jnp.sqrt(q.shape[-1])
    mask = attention.row_mask(until)[:, None]
    return jnp.mean(jax.nn.softmax(jnp.where(mask, score, -1e30)), axis=1)

  seg = jnp.zeros_like(tokens)
  return transformer.routed(lib.POLICY, params, tokens, seg, look)[1]


def _most(score: np.ndarray) -> np.ndarray:
  best = score == score.max(axis=1, keepdims=True)
  return best / best.sum(axis=1, keepdims=True)


def _in_turn(turn: np.ndarray) -> np.ndarray:
  """Returns 1 at the sentences of a turn [n] each: [n, K, M]."""
  inside = turn[:, None] == np.arange(K)
  return np.repeat(inside[..., None], M, axis=2).astype(np.float64)
