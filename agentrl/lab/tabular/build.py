"""Builds a tabular case: a config's method with tables in a small MDP."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from agentrl import optimizer as optimizer_lib
from agentrl import registry
from agentrl.configs import base
from agentrl.configs.config import Config, declared
from agentrl.lab.tabular import mdp, policy
from agentrl.learner import update
from agentrl.run import algorithm, pretrained

_FLAT = 1e6  # far above every gradient: Adam divides by nothing else


class TabularSize(NamedTuple):
  """Sizes of a tabular case, beside the MDP."""

  tasks: int = 4  # of a batch, and of a seed
  group: int = 8
  tokens: int = 1  # of a message; the first is the action
  spread: float = 1.0  # standard deviation of the warm start's logits
  lift: float = 1.0  # what it adds to the best policy's actions


class TabularCase(NamedTuple):
  """A method in an MDP."""

  learner: update.Algorithm
  world: mdp.MDPSize
  table: policy.TablePolicy
  size: TabularSize


def at_rate(learner: update.Algorithm, rate) -> update.Algorithm:
  """Makes the learner whose policy learns at `rate`, others in proportion."""
  rules = learner.context.rules
  rules = {k: rule._replace(lr=rate * rule.lr) for k, rule in rules.items()}
  return learner._replace(context=learner.context._replace(rules=rules))


def plain(rule: optimizer_lib.OptimizerConfig) -> optimizer_lib.OptimizerConfig:
  """θ ← θ − rate · gradient: what Adam becomes as its ε grows, b1 = b2 = 0."""
  return rule._replace(
    lr=rule.lr * _FLAT, eps=_FLAT, b1=0.0, b2=0.0, max_grad_norm=math.inf
  )


OPTIMIZERS = {'adam': lambda rule: rule, 'sgd': plain}  # Adam with its clip


def case(
  config: Config,
  world: str,
  size: TabularSize,
  optimizer: str,
  settings: Mapping[str, float],
) -> TabularCase:
  """Builds all that does not depend on rate and seed, all checks passed."""
  for what, name, choices in (
    ('world', world, mdp.WORLDS),
    ('optimizer', optimizer, OPTIMIZERS),
  ):
    if name not in choices:
      raise ValueError(
        f'{what}={name!r} is unknown; choose from {tuple(choices)}'
      )
  place = mdp.WORLDS[world](**settings)
  states = place.states * size.tasks
  table = policy.TablePolicy(states, place.actions, size.tokens)
  w, shape = fits(config), pretrained.own(config, table.actions)
  learner = algorithm.make_algorithm(config, shape)
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
  schedules = {
    path: s
    for path, s in learner.schedules.items()
    if not path.startswith('role.')
  }
  learner = learner.rebind(spec=w, context=context, schedules=schedules)
  return TabularCase(learner, place, table, size)


def _rules(
  rules: Mapping[str, optimizer_lib.OptimizerConfig], change
) -> dict[str, optimizer_lib.OptimizerConfig]:
  """Returns rates in units of the policy's, from the first update on."""
  own = rules[update.POLICY].lr
  return {
    name: change(
      # Tables have neither matrices nor attention.
      rule._replace(optimizer='adam', lr=rule.lr / own, warmup=0, qk_clip=0.0)
    )
    for name, rule in rules.items()
  }


def fits(config: Config) -> registry.MethodSpec:
  """Checks the config's wiring; ValueError for what tables cannot stand for."""
  w, defaults = base.wiring(config), declared()
  for slot in ('task', 'prefix', 'rollout', 'collect'):
    path = 'rollout.kind' if slot == 'rollout' else slot
    own, name = w._asdict()[slot], defaults[path].default
    if own != name:
      raise ValueError(
        f'{slot} {own!r} samples in a way of its own, and tables know {name!r}'
        ' only'
      )
  if config.staleness.bound:
    raise ValueError(
      'a table plays by its newest policy, and staleness.bound asks for older'
      f' ones; set it to 0, got {config.staleness.bound}'
    )
  if len(set(config.rollout.seats)) > 1:
    raise ValueError(
      'a table is one policy, and rollout.seats names several; leave it empty,'
      f' got {tuple(config.rollout.seats)}'
    )
  if w.memory:
    raise ValueError(
      f'memory {w.memory[0]!r} outlives a batch, and tables remember nothing'
    )
  if w.judge:
    raise ValueError(
      f'judge must be empty, got {w.judge[0]!r}: turns of tables have no text'
    )
  for name, role in config.role.items():
    if role.run:
      raise ValueError(
        f'role {name!r} is the policy of another run ({role.run}), and tables'
        ' are of none'
      )
  for name in w.signal:
    if not registry.get('signal', name).tabular:
      raise ValueError(f'signal must be one that has a table, got {name!r}')
  gives = [g for g in w.gives if not g.startswith(('term:', 'reading:'))]
  w = w._replace(gives=(*gives, 'term:progress', 'term:truth'))
  registry.check(w)
  return w
