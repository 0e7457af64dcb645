"""Probe of a server before training with it.

A fixed prompt is sampled at temperature 1 and at the run's. A server is refused
for

  tokens that differ from the ones sent       it re-tokenises
  a version other than the one just loaded    or none
  log-probs that differ at temperature 1      other weights, or another model
  log-probs that ignore the temperature       of raw logits
"""

from collections.abc import Callable, Sequence

import numpy as np

from agentrl.rollout.engine.engine import SamplingParams
from agentrl.rollout.remote.generator import RemoteServer
from agentrl.rollout.remote.wire import Published, RemoteMessage
from agentrl.service.base import ServiceFault

TOKENS = 16  # of each of its messages
FARTHEST = 0.05  # nats, of the mean difference of a token
# (prompt, message, temperature) -> our log-probs of the message, nats.
LogProbs = Callable[[Sequence[int], Sequence[int], float], np.ndarray]


def check(
  server: RemoteServer,
  logp_of: LogProbs,
  prompt: Sequence[int],
  *,
  eot: int,
  temperature: float,
  published: Published,
) -> None:
  """Raises ValueError, one sentence, for an unsuitable server.

  Args:
    temperature: of the run
    published: our weights, as loaded by the server
  """

  def refuse(why: str) -> ValueError:
    return ValueError(f'host.generator={server.address!r} {why}')

  for t in sorted({1.0, temperature}, key=lambda t: t != 1.0):
    how = SamplingParams(np.array([0, 7], np.uint32), TOKENS, t)
    try:
      message = server.generate(prompt, how, eot, published)
    except ServiceFault as fault:
      raise refuse(f'cannot be used: {fault}') from None
    check_prompt(message, prompt, refuse)
    check_version(message, published, refuse)
    gap = distance(message, logp_of(prompt, message.ids, t))
    if gap <= FARTHEST:
      continue
    raw = distance(message, logp_of(prompt, message.ids, 1.0))
    if t != 1.0 and raw <= FARTHEST:
      raise refuse(
        f'must give log-probs at its sampling temperature {t:g}, got raw ones;'
        ' start it so that it does (vLLM: --logprobs-mode processed_logprobs)'
      )
    raise refuse(
      f'must give the log-probs of these weights, got ones {gap:.3g} nats away'
      f' at temperature {t:g}; it serves another model, or did not load'
      f' {published.path}'
    )


def distance(message: RemoteMessage, logp: np.ndarray) -> float:
  """Returns the mean |their log-prob - ours| over tokens, nats."""
  return float(np.mean(np.abs(np.asarray(message.logp) - logp)))


def check_prompt(
  message: RemoteMessage, prompt: Sequence[int], refuse: Callable
) -> None:
  read = message.prompt
  if read is None:
    raise refuse(
      'must report the tokens that it read, or their number; it may have'
      ' tokenised them again'
    )
  if read != (len(prompt) if isinstance(read, int) else list(prompt)):
    size = read if isinstance(read, int) else len(read)
    raise refuse(
      f'must read the {len(prompt)} tokens sent, got {size} others: it'
      ' re-tokenises; make it accept token ids'
    )


def check_version(
  message: RemoteMessage, published: Published, refuse: Callable
) -> None:
  if not message.version:
    raise refuse(
      'must report the version of its weights; train an adapter (lora.rank),'
      ' whose name carries the version'
    )
  if message.version != str(published.number):
    raise refuse(
      f'must use weights {published.number}, got {message.version!r}'
    )
