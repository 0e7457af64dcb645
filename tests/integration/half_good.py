"""A scripted policy for whole runs, which is right in some of its attempts.

Attempt b at a task says the messages of script b mod V of V; those of a prefix
take the place of the first. All else of a run is real: environments, rewards,
logs, edits, fits. On hosts some of the attempts may be the policy's own.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.rollout import actor, jit, record
from agentrl.rollout.scripted import ScriptedGenerator
from agentrl.run.experiment import Experiment
from agentrl.run.play import collect, demonstrations, host_sampler
from agentrl.run.play.base import Script

Say = Callable[[Sequence[str]], Sequence[Sequence[str]]]


def half_right(demo):
  """The solution, all but its end, nonsense before it, and its end alone."""
  return [demo, demo[:-1], ['?', *demo], demo[-1:]]


class Partly:
  """A generator of some sequences beside the one that samples the others."""

  def __init__(self, engine, other, mine: Callable[[int], bool]):
    """Takes mine: sequence -> whether `other` generates it."""
    self._engine, self._other, self._mine = engine, other, mine
    self.submit, self.cancel = self._to('submit'), self._to('cancel')

  def _to(self, name: str) -> Callable:
    def call(sequence, *args):
      of = self._other if self._mine(sequence) else self._engine
      return getattr(of, name)(sequence, *args)

    return call

  @property
  def busy(self) -> bool:
    return self._engine.busy or bool(self._other.busy)

  def dispatch(self) -> None:
    self._engine.dispatch()

  def collect(self) -> list:
    return [*self._other.collect(), *self._engine.collect()]


def plays(monkeypatch, say: Say, every: int = 1) -> None:
  """Has every run of the test sample the messages of `say`.

  Args:
    say: texts that solve a task -> V scripts, of which each is some texts
    every: on hosts, attempts whose number it divides say them, one script
      after the other; the policy samples the others
  """

  def scripts(s: Experiment) -> list[list[Script]]:
    """Scripts by task and place, [n][V]; held-out tasks have none."""
    words = s.tokenizer
    return [
      [
        [[*words.encode(text), words.eot] for text in script]
        for script in say([words.decode(ids[:-1]) for ids in demo])
      ]
      for demo in demonstrations.scripts(s)
    ]

  def play(s, params, attempts, key, group=1):
    del params, group
    tokens, length = (jnp.asarray(x) for x in padded(scripts(s), s.plan))
    n, v, turns = length.shape
    b = jnp.arange(len(attempts.task))
    at = jnp.minimum(attempts.task, n - 1), b % v
    tokens, length = tokens[at], length[at]
    if (p := attempts.prefix) is not None:
      given = record.given(p, turns, s.plan.message)
      here = jnp.arange(turns)[None] < p.turns[:, None]
      tokens = jnp.where(here[..., None], given.tokens, tokens)
      length = jnp.where(here, given.length, length)
    speaker = actor.scripted(tokens, length)
    return jit.rollout(s.world, s.plan, speaker, attempts, key)

  whole = host_sampler.HostSampler._sessions

  def sessions(self, generator, attempts, key, stopping, **fields):
    if generator is self._engine:
      table, task = scripts(self._s), np.asarray(attempts.task)
      given = np.zeros(len(task), int)
      if attempts.prefix is not None:
        given = np.asarray(jax.device_get(attempts.prefix.turns))
      said = {
        b: table[i][b // every % len(table[i])][k:] if i < len(table) else []
        for b, (i, k) in enumerate(zip(task, given, strict=True))
      }
      generator = ScriptedGenerator(said, self._s.tokenizer.eot)
      if every > 1:
        mine = lambda b: b % every == 0  # noqa: E731
        generator = Partly(self._engine, generator, mine)
    return whole(self, generator, attempts, key, stopping, **fields)

  monkeypatch.setattr(collect, 'play', play)
  monkeypatch.setattr(host_sampler.HostSampler, '_sessions', sessions)


def padded(table: list[list[Script]], plan) -> tuple[np.ndarray, np.ndarray]:
  """Scripts as arrays: tokens [n, V, K, M], lengths [n, V, K]."""
  size = len(table), len(table[0]), plan.turns, plan.message
  tokens, length = np.zeros(size, np.int32), np.zeros(size[:3], np.int32)
  for i, scripts in enumerate(table):
    for v, script in enumerate(scripts):
      for k, ids in enumerate(script[: plan.turns]):
        tokens[i, v, k, : len(ids)], length[i, v, k] = ids, len(ids)
  return tokens, length
