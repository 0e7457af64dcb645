"""A scripted policy for runs in which attempts write tasks for others."""

from collections.abc import Mapping, Sequence

import jax
import numpy as np

from agentrl.learner import update
from agentrl.rollout.scripted import ScriptedGenerator
from agentrl.run.play import host_sampler, sampler
from agentrl.task.base import make_attempts
from tests.integration.judged_methods_test import small


def says(
  monkeypatch, scripts: Mapping[int, Sequence[str]], *, alone: bool = False
) -> None:
  """Has attempt b of a batch say what stands in scripts[b].

  Args:
    alone: only proposers do; all else is sampled
  """
  whole = host_sampler.HostSampler._sessions

  def sessions(self, generator, attempts, key, stopping, **fields):
    proposes = np.asarray(attempts.limit)[0] > 0  # the first of a unit
    if generator is self._engine and (proposes or not alone):
      words = self._s.tokenizer
      said = {
        b: [[*words.encode(x), words.eot] for x in scripts.get(b, ())]
        for b in range(len(attempts.task))
      }
      generator = ScriptedGenerator(said, words.eot)
    return whole(self, generator, attempts, key, stopping, **fields)

  monkeypatch.setattr(host_sampler.HostSampler, '_sessions', sessions)


def collected(s):
  """A batch of units, and its metrics."""
  state = update.init(s.algorithm, jax.random.key(0))
  r = s.config.rollout
  index = np.arange(r.batch) // r.group_size
  attempts = make_attempts(index, r.group_size, r.max_turns, 1.0)
  with sampler.open_sampler(s) as playing:
    batch, measured = playing.collect(
      state.params['policy'], attempts, jax.random.key(1), 0
    )
  return batch, {k: float(v[0]) for k, v in measured.items()}


def config(module, folder, arg='tiny', **env):
  """Two units of a proposer and three solvers."""
  c = small(module.get_config(arg), folder)
  c.rollout.update(dict(batch=8, group_size=4))
  c.env.update(env)
  return c
