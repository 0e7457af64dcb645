"""Cost of a method beside that of GRPO, from its roles, signals and collector.

A signal counts as one pass of every network that it reads; the steps that it
trains a network for are its hyper-parameter `steps`.
"""

import collections
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import registry
from agentrl.configs import base, envs
from agentrl.configs.config import Config
from agentrl.learner import teacher, update
from agentrl.rollout import record
from agentrl.run import algorithm, pretrained
from agentrl.run.play import collect
from agentrl.types import CollectInputs, NewestPolicy


class Cost(NamedTuple):
  """Additional work of an iteration."""

  networks: tuple[str, ...]  # beside the policy
  forward: tuple[str, ...]  # networks that read the batch before the update
  trained: dict[str, int]  # network -> gradient steps on the batch
  attempts: float  # sampled for each trajectory of the batch
  shared: float  # share of the attempts that repeat turns of another

  def networks_text(self) -> str:
    return ', '.join(f'`{name}`' for name in self.networks) or '–'

  def passes_text(self) -> str:
    """'`policy`, `prm`; trained: `prm` 1', for example."""
    count = collections.Counter(self.forward)
    times = {name: f' × {n}' if n > 1 else '' for name, n in count.items()}
    forward = ', '.join(f'`{name}`{by}' for name, by in times.items()) or '–'
    steps = ', '.join(f'`{name}` {n}' for name, n in self.trained.items())
    return f'{forward}; trained: {steps}' if steps else forward

  def attempts_text(self) -> str:
    if self.shared:
      return f'{self.attempts:g}, up to {self.shared:.0%} of them branched'
    return f'{self.attempts:g}'


def cost(c: Config) -> Cost:
  """The cost of a config's method."""
  w = base.wiring(c)
  _, shape, _ = pretrained.language(c)
  old = update.old_outputs_needed(algorithm.make_algorithm(c, shape))
  forward, trained = ['policy'] if old else [], {}
  for name in w.signal:
    reads = [
      need.removeprefix('role:')
      for need in registry.needs(w, 'signal', 'signal', name)
      if need.startswith('role:')
    ]
    forward += reads
    values = registry.settings(
      registry.get('signal', name), w.values('signal', name)
    )
    for role in reads:
      if role != 'policy' and c.role[role].kind == 'train':
        trained[role] = values['steps']
  compared = teacher.comparison(w)
  forward += [compared.role] if compared else []
  networks = tuple(name for name in c.role if name != 'policy')
  return Cost(networks, tuple(forward), trained, *_attempts(c, w))


def _attempts(c: Config, w: registry.MethodSpec) -> tuple[float, float]:
  """Attempts for each trajectory of a batch, and the share that branches."""
  sizes = []  # (attempts, whether they repeat turns of others)

  def sample(attempts, key):
    n = attempts.task.shape[0]
    sizes.append((n, attempts.prefix is not None))
    empty = record.empty(n, c.rollout.max_turns, 2, 2, envs.terms(c))
    return record.batch(empty, record.per_turn(empty), attempts, 0)

  def batch(key):
    n = collect.num_attempts(w, c.rollout.batch)
    attempts = collect.attempts_at(np.zeros(n, np.int32), 1)
    attempts = jax.tree.map(jnp.asarray, attempts)
    x = CollectInputs(
      sample=sample,
      score=lambda batch: batch,
      attempts=attempts,
      key=key,
      newest=NewestPolicy(sample, lambda rows: (rows.logp, rows.logp)),
    )
    return collect.collector(w)(x).outcome

  made = jax.eval_shape(batch, jax.random.key(0))
  total = sum(n for n, _ in sizes)
  branched = sum(n for n, is_branch in sizes if is_branch)
  return total / made.shape[0], branched / total
