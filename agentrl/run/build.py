"""Builds an experiment from a config; every mistake is found here.

Here ConfigDict ends: below this floor a config is a frozen Config.
"""

from collections.abc import Sequence
from typing import Any

from agentrl.configs import base
from agentrl.configs import stages as stage_list
from agentrl.configs.config import Config
from agentrl.configs.stages import StagePlan
from agentrl.learner import update
from agentrl.model import peft, pieces
from agentrl.recall import described
from agentrl.rollout import registered
from agentrl.rollout.limits import EpisodeLimits
from agentrl.run import algorithm, pretrained
from agentrl.run.check import fields, model_checks, validate
from agentrl.run.experiment import Experiment
from agentrl.run.play import host_env, jit_env, proposing, readings
from agentrl.text import chat_format


def experiments(
  configs: Sequence[Any],
  like: Experiment | None = None,
  in_place: bool = True,
) -> list[Experiment]:
  """Builds one experiment per seed, sharing task sets.

  Args:
    like: an experiment with the same tasks, which are shared
    in_place: as in `MicroBatch`; False if seeds are vmapped
  """
  s = experiment(configs[0], like)
  if s.algorithm.spec.judge and len(configs) > 1:
    raise ValueError(
      f'c.judge={s.algorithm.spec.judge} is asked on the host, and only what'
      ' stays inside jit goes together; run these apart'
    )
  if s.on_host and len(configs) > 1:
    raise ValueError(
      f'env.name={configs[0].env.name!r} is a host environment, and only those'
      ' inside jit go together; run these apart'
    )

  def of_seed(alg, c: Any):
    micro = pieces.sized(alg.context.micro)._replace(in_place=in_place)
    return alg._replace(seed=c.seed, context=alg.context._replace(micro=micro))

  return [
    s._replace(
      config=fields.read(c),
      algorithm=of_seed(s.algorithm, c),
      warm=of_seed(s.warm, c),
    )
    for c in configs
  ]


def stage_experiments(
  first: Sequence[Experiment], plans: Sequence[StagePlan]
) -> dict[str, list[Experiment]]:
  """Builds the experiments of every stage, one per seed, by its name.

  Those with the same tasks share them.

  Args:
    first: of the configs that have the stages
  Raises:
    ValueError: the config of a stage does not fit, named.
  """
  in_place = pieces.sized(first[0].algorithm.context.micro).in_place
  by_world = {stage_list.world(first[0].config): first[0]}
  out: dict[str, list[Experiment]] = {}
  for plan in plans:
    if plan.config is first[0].config:
      out[plan.name] = list(first)
      continue
    configs = [stage_list.config_of(s.config, plan.name) for s in first]
    world = stage_list.world(plan.config)
    try:
      out[plan.name] = experiments(configs, by_world.get(world), in_place)
    except ValueError as error:
      raise ValueError(f'stage {plan.name}: {error}') from error
    by_world.setdefault(world, out[plan.name][0])
  return out


def experiment(config: Any, like: Experiment | None = None) -> Experiment:
  """Checks a config, then loads or builds its task sets.

  Args:
    config: a ConfigDict, or the Config of one
    like: an experiment with the same tasks, which are shared
  """
  c = validate.config(config)
  kind = _kind(c)
  lm = pretrained.language(c)
  words, shape, chat = lm
  spec = kind.sized(c, words, chat)
  plan, size = spec.plan, spec.capacity
  alg = algorithm.make_algorithm(c, shape)
  if c.lora.path:
    peft.check(c.lora.path, shape, algorithm.lora_of(c))
  model_checks.positions(shape, size.cache)
  model_checks.qk_clip(c, shape)
  first = size.context
  if isinstance(plan, EpisodeLimits) and plan.row:
    # A program's prompt is as long as it likes.
    first = plan.opening + plan.observation if plan.edits else 1
  model_checks.room(c, first + plan.message)
  pretrained.check_weights(c, shape)  # after all that is quick to say
  sets = like and (like.train, like.test)
  return assemble(c, lm, spec, alg, kind.parts(c, spec, sets))


def task_sets(c: Config):
  """Loads or makes the train and the test tasks of a checked config."""
  kind = _kind(c)
  words, _, chat = pretrained.language(c)
  return kind.task_sets(c, kind.sized(c, words, chat).source)


def _kind(c: Config):
  """Returns the module of the config's kind of environment."""
  return host_env if registered.kind_of(base.wiring(c)).on_host else jit_env


def assemble(
  c: Config, lm: pretrained.Language, spec, alg: update.Algorithm, parts
) -> Experiment:
  """Puts together the experiment of a checked config.

  Args:
    spec: JitEnvSpec or HostEnvSpec
    parts: the environment, and the tasks to train and to test on
  """
  words, shape, chat = lm
  plan, size = spec.plan, spec.capacity
  world, train, test = parts
  nulled = readings.null_observation(c, words, chat, spec.system, size.context)
  hints = readings.hints(c, words, chat, spec.system, train, spec.actions)
  for name, hint in hints.items():
    more = hint.frame.growth(hint.size(plan.turns * plan.message))
    model_checks.positions(shape, size.row + more, f'a row of reading {name!r}')
  return Experiment(
    config=c,
    tokenizer=words,
    world=world,
    plan=plan,
    capacity=size,
    shape=shape,
    train=train,
    test=test,
    framed=chat is not None,
    algorithm=alg,
    warm=algorithm.warm(c, alg),
    talk=chat_format.framed(chat) if chat else chat_format.bare(words),
    hints=hints,
    nulled=nulled,
    sketches=described.described(alg.spec, world, len(train), words),
    skills=proposing.skills_of(alg.spec, world, len(train)),
  )
