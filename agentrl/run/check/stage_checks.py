"""Validation of the stages of a config, and of what they are trained on."""

from collections.abc import Sequence
from typing import Any

from agentrl import registry
from agentrl.configs import base
from agentrl.configs import stages as stages_lib
from agentrl.configs.config import Config, to_dict
from agentrl.configs.stages import StagePlan
from agentrl.prefix import lengths


def mix(c: Config) -> None:
  """Checks the sources of c.mix, and those that stages name."""
  w = base.wiring(c)
  scopes = {scope for scope, slot, _ in registry.parts(w) if slot != 'edit'}
  for name, source in c.mix.items():
    if name in {*scopes, *registry.SLOTS}:
      raise ValueError(
        f'mix.{name} has the name of a component or stream of this config, so'
        f' that c.hp.{name} would mean both; call the source otherwise'
      )
    if (source.kind == 'store') != bool(source.store):
      raise ValueError(
        f'mix.{name}.kind={source.kind!r} and mix.{name}.store='
        f"{source.store!r} do not fit together; 'store' reads a trajectory"
        ' store by its name, and the others have none'
      )
    if source.of and source.kind != 'demonstrations':
      raise ValueError(
        f'mix.{name}.of={source.of!r} is for demonstrations, and mix.{name}'
        f'.kind={source.kind!r}; leave it empty'
      )
    if source.error_rate and source.kind != 'demonstrations':
      raise ValueError(
        f'mix.{name}.error_rate={source.error_rate} is for demonstrations, and'
        f' mix.{name}.kind={source.kind!r}; set it to 0.0'
      )
  for name in c.sft.mix:
    if name not in c.mix:
      raise ValueError(
        f'sft.mix names {name!r}, and c.mix has {tuple(c.mix)}; add it by'
        f' base.source(c, {name!r}, kind=...)'
      )
  if c.prefix_source and c.prefix_source not in c.mix:
    raise ValueError(
      f'prefix_source must name a source of c.mix={tuple(c.mix)}, got'
      f' {c.prefix_source!r:.80}; add it by base.source(c, ...)'
    )
  if c.sft.mix and c.sft.store:
    raise ValueError(
      f'sft.mix={tuple(c.sft.mix)} and sft.store={c.sft.store!r} are both data'
      ' of one stage; leave sft.store empty and add a source of kind'
      " 'store'"
    )
  weights = [c.mix[name].weight for name in c.sft.mix]
  moved = [f'{name}.weight' for name in c.sft.mix]
  fixed = not any(stages_lib.there(c.schedule, f'mix.{x}') for x in moved)
  if weights and fixed and not sum(weights):
    raise ValueError(
      f'the weights of sft.mix={tuple(c.sft.mix)} sum to nothing; set one of'
      f' {", ".join(f"mix.{x}" for x in moved)} above 0'
    )


def pairs(plans: Sequence[StagePlan]) -> None:
  """Checks what supervised stages on pairs are trained on, and by."""
  for plan in plans:
    c, spec = plan.config, base.wiring(plan.config)
    if plan.kind != 'sft' or not c.sft.pairs:
      continue
    if not (c.sft.store or c.sft.mix):
      raise ValueError(
        f'stage {plan.name}: sft.store or sft.mix must name what sft.pairs'
        ' compares, got neither; demonstrations have no losers'
      )
    if c.sft.batch % 2:
      raise ValueError(
        f'stage {plan.name}: sft.batch must be even with sft.pairs, got'
        f' {c.sft.batch}; set it to {c.sft.batch + 1}'
      )
    if spec.memory:
      raise ValueError(
        f'stage {plan.name}: memory must be empty with sft.pairs, got'
        f' {spec.memory[0]!r}; set stage.{plan.name}.memory to ()'
      )
    able = [
      name
      for name in registry.names('curate')
      if 'pairs' in registry.get('curate', name).gives
    ]
    if not set(able) & set(spec.curate):
      raise ValueError(
        f'stage {plan.name}: c.curate must make pairs with sft.pairs, got'
        f' {spec.curate}; add one of {tuple(able)}'
      )


def read(plan: StagePlan) -> tuple[str, ...]:
  """Returns the sources that a stage reads."""
  if plan.kind == 'sft':
    return tuple(plan.config.sft.mix)
  return (plan.config.prefix_source,) if plan.config.prefix_source else ()


def found(plans: list[StagePlan]) -> None:
  """Checks that earlier stages log what the sources 'found' read."""
  for i, plan in enumerate(plans):
    for name in read(plan):
      source = plan.config.mix[name]
      if source.kind != 'found':
        continue
      earlier = read_by(plans[:i], source.last)
      if not earlier:
        raise ValueError(
          f'stage {plan.name} reads what was found before it (mix.{name}), and'
          ' no RL stage comes before it in'
          f' c.stages={tuple(x.name for x in plans)}; put one there'
        )
      for one in earlier:
        if not one.config.log.groups:
          raise ValueError(
            f'stage {plan.name} reads what stage {one.name} finds'
            f' (mix.{name}), which logs nothing: log.groups=0; set it to -1'
            ' there, for all'
          )
      if plan.kind == 'rl':
        _same_world(plan, name, earlier)


def demonstrated(plans: list[StagePlan]) -> None:
  """Checks that sources name stages whose demonstrations they are."""
  named = {plan.name: plan for plan in plans}
  for plan in plans:
    for name in read(plan):
      of = plan.config.mix[name].of
      if of and of not in named:
        raise ValueError(
          f'mix.{name}.of must be a stage with steps to do, one of'
          f' {tuple(named)}, got {of!r}'
        )
      if of and plan.kind == 'rl':
        _same_world(plan, name, [named[of]])


def _same_world(
  plan: StagePlan, name: str, others: Sequence[StagePlan]
) -> None:
  """Checks that a stage plays the tasks that its prefixes are of."""
  for one in others:
    if stages_lib.world(one.config) != stages_lib.world(plan.config):
      raise ValueError(
        f'stage {plan.name} begins its attempts like trajectories of stage'
        f' {one.name} (mix.{name}), which has other tasks; set'
        f' stage.{plan.name}.prefix_source to a source of its own tasks'
      )


def prefixed(plans: list[StagePlan]) -> None:
  """Checks that RL stages that name prefixes give them."""
  for plan in plans:
    c = plan.config
    given = not c.prefix_source or lengths.gives_turns(c.prefix)
    if plan.kind == 'rl' and not given:
      able = filter(lengths.gives_turns, registry.names('prefix'))
      raise ValueError(
        f'stage {plan.name}: prefix must be one of {tuple(able)} beside'
        f' prefix_source={c.prefix_source!r}, got {c.prefix!r}; or leave'
        ' prefix_source empty'
      )


def roles(plans: list[StagePlan]) -> None:
  """Checks that one name is one role in all stages."""
  first: dict[str, tuple[str, Any]] = {}
  for plan in plans:
    for name, role in plan.config.role.items():
      stage, other = first.setdefault(name, (plan.name, role))
      theirs, mine = to_dict(other), to_dict(role)
      for field in ('heads', 'trunk', 'run', 'optimizer'):
        one, two = theirs.get(field), mine.get(field)
        if None not in (one, two) and one != two:
          raise ValueError(
            f'role.{name}.{field} is {one!r} in stage {stage} and'
            f' {two!r} in stage {plan.name}, and stages share what has'
            ' one name; set it for the whole run, or give the role two names'
          )


def read_by(plans, last: int) -> list:
  """Lists the RL stages before a stage that its source 'found' reads."""
  return [x for x in plans if x.kind == 'rl'][-last:]  # of 0: all
