"""Rollouts of host environments, and messages that are written down."""

import jax

from agentrl.rollout import host
from agentrl.rollout.scripted import ScriptedGenerator
from agentrl.rollout.workers.pool import env_workers


def scripted(words, texts):
  """Says texts[b] in attempt b, one after the other, each with its end."""
  script = {
    b: [[*words.encode(x), words.eot] for x in own]
    for b, own in enumerate(texts)
  }
  return ScriptedGenerator(script, words.eot)


def play(stage, generator, attempts, *, count=4, key=0, worker=None, **how):
  """-> episodes, counts."""
  with env_workers(stage.family, count, worker=worker) as workers:
    return host.run_episodes(
      stage, generator, workers, attempts, jax.random.key(key), **how
    )


def record(stage, ended):
  return stage.record(ended)
