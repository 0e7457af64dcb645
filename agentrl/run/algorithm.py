"""Makes the algorithm of a config: roles, their optimizers and schedules."""

from agentrl import optimizer, registry
from agentrl.configs import base
from agentrl.configs.config import Config, to_dict, trained
from agentrl.learner import update
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.loss import nll
from agentrl.model import policy, shared_base, value
from agentrl.model.pieces import MicroBatch
from agentrl.nn import attention_kernels, lora, transformer
from agentrl.rollout import stale
from agentrl.run.check import fields as fields_lib
from agentrl.schedule import Schedule
from agentrl.signal.base import Context
from agentrl.types import Span

# Fields of a role, not of its optimizer.
NOT_RULE = ('kind', 'run', 'heads', 'trunk', 'final_lr_fraction')


def make_algorithm(c: Config, shape) -> update.Algorithm:
  temperature = c.rollout.temperature
  language = policy.module(shape, temperature)
  modules = {
    name: value.module(shape, r.heads, r.trunk) if r.heads else language
    for name, r in c.role.items()
  }
  heads = c.role['policy'].heads
  modules['policy'] = policy.module(shape, temperature, heads)
  if c.lora.rank:
    modules = shared_base.modules(modules, language, lora_of(c))
  rules = {}
  for name, r in trained(c).items():
    fields = {k: v for k, v in to_dict(r).items() if k not in NOT_RULE}
    rules[name] = optimizer.OptimizerConfig(**fields)
  return update.Algorithm.from_spec(
    spec=base.wiring(c),
    context=Context(
      modules=modules,
      rules=rules,
      micro=MicroBatch(
        c.micro_batch,
        attention_kernels.reads_trees(shape.attention),
        attention_kernels.tokens_of_trees(transformer.kernel_of_trees(shape)),
      ),
      loaded=frozenset(name for name, r in c.role.items() if r.run),
    ),
    coef=dict(c.coef),
    select=selected(c),
    schedules=schedules(c),
    anchor=c.staleness.anchor,
    seed=c.seed,
    players=players(c),
    learn_in_turn=c.rollout.learn_in_turn,
  )


def players(c: Config) -> tuple[str, ...]:
  """Returns the roles that write trajectories, each once."""
  return tuple(dict.fromkeys(c.rollout.seats)) or (POLICY,)


def selected(c: Config) -> dict[str, dict[str, int]]:
  """Returns c.select with the numbers of spans in place of their names."""
  return {
    term: {
      what: Span[x.upper()] if what == 'span' else x for what, x in own.items()
    }
    for term, own in c.select.items()
  }


def lora_of(c: Config) -> lora.Lora:
  return lora.Lora(c.lora.rank, c.lora.alpha, c.lora.pattern)


def schedules(c: Config) -> dict[str, Schedule]:
  """Returns the schedules of c.schedule and of the roles' rates.

  A schedule of 0 steps lasts as long as the RL stage. Shares of sources are not
  part of an update (sft_stages.weights).
  """
  out = {
    f'role.{name}.lr': Schedule('linear', r.lr, r.lr * r.final_lr_fraction, 0)
    for name, r in trained(c).items()
    if r.final_lr_fraction != 1.0
  }
  out |= {
    p: Schedule(*s)
    for p, s in fields_lib.flat(c.schedule).items()
    if not p.startswith('mix.')
  }
  return {p: s._replace(steps=s.steps or c.steps) for p, s in out.items()}


def warm(c: Config, alg: update.Algorithm) -> update.Algorithm:
  """Returns the supervised algorithm: same policy, likelihood, own rate.

  With sft.pairs it is the config's own, at that rate and without schedules.
  """
  rule = alg.context.rules['policy']
  rule = rule._replace(lr=c.sft.lr, warmup=c.sft.warmup)
  rules = {**alg.context.rules, 'policy': rule}
  if c.sft.pairs:
    context = alg.context._replace(rules=rules)
    return alg._replace(context=context, schedules={}, players=(POLICY,))
  return update.Algorithm.from_spec(
    spec=registry.MethodSpec(loss=(nll.nll.__name__,), gives=('role:policy',)),
    context=alg.context._replace(rules=rules),
    seed=c.seed,
  )


def reads(c: Config, alg: Algorithm) -> stale.Reads:
  """Returns what the rollouts of a config read of the state."""
  share, spec = alg.context.modules[POLICY].share, alg.spec
  asked = {x.role for x in c.service.values() if x.role}
  asked |= set(alg.players)
  frozen = {name for name in asked if c.role[name].kind == 'frozen'}
  frozen -= {role for m in alg.memory.values() for role in m.roles}
  needs: list[str] = []
  for slot, name in (('task', spec.task), ('recall', spec.recall)):
    needs += registry.needs(spec, slot, slot, name) if name else ()
  return stale.Reads(
    roles=(POLICY, *sorted(asked - frozen - {POLICY})),
    still=(*([share.role] if share else []), *sorted(frozen)),
    memories=tuple(
      x.removeprefix('memory:')
      for x in dict.fromkeys(needs)
      if x.startswith('memory:')
    ),
  )
