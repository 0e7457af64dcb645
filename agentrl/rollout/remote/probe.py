"""Probe of a server before it is trained with: what it reads, says and is.

A fixed prompt is sampled from at temperature 1 and at the run's. Refused are

  tokens that are not those that were sent     it tokenises again
  a version that is not the one just loaded    or none at all
  log-probs that are not ours at temperature 1 other weights, another model
  log-probs without the temperature            of logits, not of what is sampled
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
  """Raises ValueError, one sentence, for a server that cannot be trained with.

  Args:
    temperature: of the run
    published: the weights that the server has loaded, which are ours
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
        f'gives raw log-probs, without the temperature {t:g} that it samples'
        ' at; start it so that they are of the distribution sampled from (vLLM:'
        ' --logprobs-mode processed_logprobs)'
      )
    raise refuse(
      f'gives log-probs that are {gap:.3g} nats from those of these weights at'
      f' temperature {t:g}; it serves another model, or did not load'
      f' {published.path}'
    )


def distance(message: RemoteMessage, logp: np.ndarray) -> float:
  """Mean of |their log-prob - ours| of the tokens, nats."""
  return float(np.mean(np.abs(np.asarray(message.logp) - logp)))


def check_prompt(
  message: RemoteMessage, prompt: Sequence[int], refuse: Callable
) -> None:
  read = message.prompt
  if read is None:
    raise refuse(
      'does not say which tokens it read, nor how many; it may have tokenised'
      ' them again'
    )
  if read != (len(prompt) if isinstance(read, int) else list(prompt)):
    size = read if isinstance(read, int) else len(read)
    raise refuse(
      f'read {size} tokens that are not the {len(prompt)} it was sent: it'
      ' tokenises again; have it take tokens as they are'
    )


def check_version(
  message: RemoteMessage, published: Published, refuse: Callable
) -> None:
  if not message.version:
    raise refuse(
      'does not say which weights it used; train an adapter (lora.rank), whose'
      ' name carries the version'
    )
  if message.version != str(published.number):
    raise refuse(
      f'used weights {message.version!r} after {published.number} were loaded'
    )
