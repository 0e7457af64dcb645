"""From a config to the parts of a run; every mistake is found here.

Nothing below this floor knows ConfigDict or flags.
"""

from typing import NamedTuple

from ml_collections import ConfigDict

from agentrl.dataset import host_tasks, jit_tasks
from agentrl.learner import update
from agentrl.model import peft
from agentrl.nn import transformer
from agentrl.rollout import host as host_rollout
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout.record import Capacity
from agentrl.run import algorithm, host_env, jit_env, pretrained, validate
from agentrl.text import tokenizer


class Setup(NamedTuple):
  """What a run is made of."""

  config: ConfigDict
  tokenizer: tokenizer.Tokenizer
  world: jit_rollout.World | host_rollout.Stage
  plan: jit_rollout.Plan | host_rollout.Limits
  capacity: Capacity
  shape: transformer.Shape
  train: jit_tasks.TaskSet | host_tasks.TaskSet  # tasks [0, len(train))
  test: jit_tasks.TaskSet | host_tasks.TaskSet  # the tasks after them
  framed: bool  # a chat template stands around turns
  learner: update.Learner
  warm: update.Learner  # supervised


def setup(c: ConfigDict) -> Setup:
  """Checks the config, then loads or builds its task sets."""
  validate.config(c)
  kind = host_env if c.rollout_kind == 'host' else jit_env
  words, shape, chat = pretrained.language(c)
  known = kind.sized(c, words, chat)
  plan, size = known.plan, known.capacity
  learner = algorithm.make_learner(c, shape)
  if c.lora.path:
    peft.check(c.lora.path, shape, algorithm.lora_of(c))
  validate.positions(shape, size.cache)
  validate.room(c, size.context + plan.message)
  world, train, test = kind.parts(c, known)
  warm, framed = algorithm.warm(c, learner), chat is not None
  return Setup(
    *(c, words, world, plan, size, shape, train, test, framed, learner, warm)
  )
