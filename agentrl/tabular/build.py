"""A config's method with tables in place of networks, in a small world."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ml_collections import ConfigDict

from agentrl import optimizer as optimizer_lib
from agentrl import registry
from agentrl.configs import base
from agentrl.learner import update
from agentrl.run import algorithm, pretrained
from agentrl.tabular import mdp, policy
from agentrl.types import Array, Batch

# Signals that tables can stand for; others look at what rows say.
SIGNALS = ('value', 'implicit_prm', 'restarted_prm', 'reference',
           'entropy_history')  # fmt: skip
_FLAT = 1e6  # far above every gradient: Adam divides by nothing else


class Size(NamedTuple):
  """What is played, beside the world."""

  tasks: int = 4  # of a batch, and of a seed
  group: int = 8
  tokens: int = 1  # of a message; the first is the action
  spread: float = 1.0  # standard deviation of the warm start's logits
  lift: float = 1.0  # what it adds to the best policy's actions


class Case(NamedTuple):
  """A method in a world."""

  learner: update.Learner
  reward: Callable[[Batch], Array]
  world: mdp.Size
  table: policy.Table
  size: Size


def at_rate(learner: update.Learner, rate) -> update.Learner:
  """The learner whose policy learns at `rate`, other roles in proportion."""
  rules = learner.context.rules
  rules = {
    name: rule._replace(lr=rate * rule.lr) for name, rule in rules.items()
  }
  return learner._replace(context=learner.context._replace(rules=rules))


def as_it_is(rule: optimizer_lib.Rule) -> optimizer_lib.Rule:
  """The config's own: Adam with its clip."""
  return rule


def plain(rule: optimizer_lib.Rule) -> optimizer_lib.Rule:
  """θ ← θ − rate · gradient: what Adam becomes as its ε grows, b1 = b2 = 0."""
  return rule._replace(
    lr=rule.lr * _FLAT, eps=_FLAT, b1=0.0, b2=0.0, clip=math.inf
  )


OPTIMIZERS = {'adam': as_it_is, 'sgd': plain}


def case(
  config: ConfigDict,
  world: str,
  size: Size,
  optimizer: str,
  settings: Mapping[str, float],
) -> Case:
  """Everything that does not depend on rate and seed, all checks passed."""
  for what, name, choices in (
    ('world', world, mdp.WORLDS),
    ('optimizer', optimizer, OPTIMIZERS),
  ):
    if name not in choices:
      raise ValueError(
        f'{what}={name!r} is unknown; choose from {tuple(choices)}'
      )
  place = mdp.WORLDS[world](**settings)
  table = policy.Table(place.states * size.tasks, place.actions, size.tokens)
  w = fits(config)
  learner = algorithm.make_learner(
    config, pretrained.own(config, table.actions)
  )
  modules = {
    name: policy.critic(table, role.heads)
    if role.heads and name != update.POLICY
    else policy.policy(table, role.heads)
    for name, role in config.role.items()
  }
  context = learner.context._replace(
    modules=modules,
    rules=_rules(learner.context.rules, OPTIMIZERS[optimizer]),
    micro=size.tasks * size.group * place.turns,
  )
  kept = {
    path: s
    for path, s in learner.schedules.items()
    if not path.startswith('role.')
  }
  learner = learner._replace(wiring=w, context=context, schedules=kept)
  return Case(learner, _reward(w), place, table, size)


def _rules(
  rules: Mapping[str, optimizer_lib.Rule], change
) -> dict[str, optimizer_lib.Rule]:
  """Rates in units of the policy's, from the first update on."""
  own = rules[update.POLICY].lr
  return {
    name: change(rule._replace(lr=rule.lr / own, warmup=0))
    for name, rule in rules.items()
  }


def fits(config: ConfigDict) -> registry.Wiring:
  """The config's wiring; ValueError for what tables cannot stand for."""
  w = base.wiring(config)
  usual = {'task': 'fixed', 'rollout': 'jit', 'collect': 'once'}
  for slot, name in usual.items():
    if w._asdict()[slot] != name:
      raise ValueError(
        f'{slot} {w._asdict()[slot]!r} samples in a way of its own, and tables'
        f' know {name!r} only'
      )
  if w.memory:
    raise ValueError(
      f'memory {w.memory[0]!r} replays trajectories, and tables keep none'
    )
  for name in w.signal:
    if name not in SIGNALS:
      raise ValueError(
        f'signal {name!r} has no table; those that have are {SIGNALS}'
      )
  gives = [g for g in w.gives if not g.startswith(('term:', 'reading:'))]
  w = w._replace(gives=(*gives, 'term:progress', 'term:truth'))
  registry.check(w)
  return w


def _reward(w: registry.Wiring):
  pieces = [registry.bind('reward', n, w.values('reward', n)) for n in w.reward]

  def total(batch: Batch) -> Array:
    return sum(f(batch.turns, batch.outcome, batch.status) for f in pieces)

  return total
