"""Schedules: numbers that change over a run, evaluated on the traced step."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl.domain import OneOf

# Share of the run [0, 1] -> share of the way from start to end. Those of optax
# go back from the end, and begin at (start - end) + end, a bit off the start.
SHAPES: dict[str, Callable[[jax.Array], jax.Array]] = {
  'linear': lambda u: u,
  'cosine': lambda u: (1 - jnp.cos(jnp.pi * u)) / 2,
  'constant': lambda u: 0 * u,
  'jump': jnp.floor,  # the start until the last step, as in ToolRL's two stages
  # EPO's weight of its smoothing (2509.22576); 1 at first, start it from 0.
  'phases': lambda u: jnp.where(
    u < 0.5, 1 - 0.2 * (1 - jnp.exp(-2 * u)), 0.8 * jnp.exp(-3 * u)
  ),
}


class Schedule(NamedTuple):
  """From `start` to `end` over `steps`, then `end`."""

  shape: str
  start: float
  end: float
  steps: int

  def at(self, step):
    OneOf(*SHAPES).check('c.schedule: shape', self.shape)
    u = jnp.clip(step / max(self.steps, 1), 0.0, 1.0)
    return self.start + (self.end - self.start) * SHAPES[self.shape](u)


def resolve(alg, step):
  """Returns the algorithm with every scheduled number at its value now.

  Paths: 'coef.<stream or term>', 'hp.<scope>.<piece>.<name>' and
  'role.<role>.lr'.
  """
  if not alg.schedules:
    return alg
  coef, rules = dict(alg.coef), dict(alg.context.rules)
  hp = {s: {p: dict(v) for p, v in ps.items()} for s, ps in alg.spec.hp.items()}
  named = (*alg.spec.advantage, *alg.spec.loss)
  for path, s in alg.schedules.items():
    kind, *rest = path.split('.')
    value = Schedule(*s).at(step)
    if kind == 'coef' and len(rest) == 1 and rest[0] in named:
      coef[rest[0]] = value
    elif kind == 'hp' and len(rest) == 3:
      hp.setdefault(rest[0], {}).setdefault(rest[1], {})[rest[2]] = value
    elif kind == 'role' and rest[1:] == ['lr'] and rest[0] in rules:
      rules[rest[0]] = rules[rest[0]]._replace(lr=value)
    else:
      raise ValueError(
        f'c.schedule.{path} names no number; use coef.<name> with one of'
        f' {named}, role.<name>.lr with one of {tuple(rules)}, or'
        ' hp.<scope>.<piece>.<name>'
      )
  alg = alg._replace(coef=coef, context=alg.context._replace(rules=rules))
  moved = any(path.startswith('hp.') for path in alg.schedules)
  return alg.rebind(spec=alg.spec._replace(hp=hp)) if moved else alg
