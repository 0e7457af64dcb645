"""Experiments and samplers of the stages of a run, shared where they can be."""

import contextlib
from collections.abc import Callable, Mapping, Sequence

from agentrl.configs import stages as stage_list
from agentrl.configs.stages import StagePlan
from agentrl.judge.panel import Judgement
from agentrl.model import pieces
from agentrl.run import build
from agentrl.run.play import sampler
from agentrl.run.play.sampler import EnvSampler


def experiments(
  base: Sequence[build.Experiment], plans: Sequence[StagePlan]
) -> dict[str, list[build.Experiment]]:
  """The experiments of every stage, one for each seed, by its name.

  Those with the same tasks share them.

  Args:
    base: of the configs that have the stages
  Raises:
    ValueError: the config of a stage does not fit, named.
  """
  in_place = pieces.sized(base[0].algorithm.context.micro).in_place
  by_world = {stage_list.world(base[0].config): base[0]}
  out: dict[str, list[build.Experiment]] = {}
  for plan in plans:
    if plan.config is base[0].config:
      out[plan.name] = list(base)
      continue
    configs = [stage_list.config_of(s.config, plan.name) for s in base]
    world = stage_list.world(plan.config)
    try:
      out[plan.name] = build.experiments(configs, by_world.get(world), in_place)
    except ValueError as error:
      raise ValueError(f'stage {plan.name}: {error}') from error
    by_world.setdefault(world, out[plan.name][0])
  return out


def samplers(
  stack: contextlib.ExitStack,
  built: Mapping[str, Sequence[build.Experiment]],
  stopping: Callable[[], None],
  workdir: str,
) -> dict[str, EnvSampler]:
  """Opens the sampler of every stage; stages that sample alike have one."""
  opened: dict[str, EnvSampler] = {}
  out = {}
  for name, of_seeds in built.items():
    key = stage_list.sampled(of_seeds[0].config)
    if key not in opened:
      opened[key] = stack.enter_context(
        sampler.open_sampler(of_seeds[0], stopping, workdir)
      )
    out[name] = opened[key]
  return out


def verdicts(
  players: Mapping[str, EnvSampler],
) -> Callable[[str], list[Judgement]]:
  """Returns a trajectory's key -> what the judges of any stage said of it."""
  different = list({id(x): x for x in players.values()}.values())
  return lambda key: [v for x in different for v in x.verdicts(key)]
