"""From a config to the parts of a run; every mistake is found here.

Nothing below this floor knows ConfigDict or flags.
"""

from typing import NamedTuple

from ml_collections import ConfigDict

from agentrl import learner as learner_lib
from agentrl.dataset import spoken as spoken_lib
from agentrl.dataset import tasks as tasks_lib
from agentrl.model import peft
from agentrl.nn import transformer
from agentrl.rollout import host as host_rollout
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout.record import Capacity
from agentrl.text import tokenizer
from experiments import check, hosting, jitting, learning, pretrained


class Setup(NamedTuple):
  """What a run is made of."""

  config: ConfigDict
  tokenizer: tokenizer.Tokenizer
  world: jit_rollout.World | host_rollout.Stage
  plan: jit_rollout.Plan | host_rollout.Limits
  capacity: Capacity
  shape: transformer.Shape
  train: tasks_lib.TaskSet | spoken_lib.TaskSet  # tasks [0, len(train))
  test: tasks_lib.TaskSet | spoken_lib.TaskSet  # the tasks after them
  framed: bool  # a chat template stands around turns
  learner: learner_lib.Learner
  warm: learner_lib.Learner  # supervised


def setup(c: ConfigDict) -> Setup:
  """Checks the config, then loads or builds its task sets."""
  check.config(c)
  kind = hosting if c.rollout_kind == 'host' else jitting
  words, shape, chat = pretrained.language(c)
  known = kind.sized(c, words, chat)
  plan, size = known.plan, known.capacity
  learner = learning.make_learner(c, shape)
  if c.lora.path:
    peft.check(c.lora.path, shape, learning.lora_of(c))
  check.positions(shape, size.cache)
  check.room(c, size.context + plan.message)
  world, train, test = kind.parts(c, known)
  warm, framed = learning.warm(c, learner), chat is not None
  return Setup(
    *(c, words, world, plan, size, shape, train, test, framed, learner, warm)
  )
