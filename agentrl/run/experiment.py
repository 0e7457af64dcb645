"""Experiment: a config, and everything that is built from it."""

from typing import NamedTuple

import numpy as np

from agentrl.configs.config import Config
from agentrl.dataset import host_tasks, jit_tasks
from agentrl.env.jit import base as jit_env_base
from agentrl.env.skills import NO_SKILLS, SkillTable
from agentrl.learner import update
from agentrl.nn import transformer
from agentrl.rollout import counterfactual, hinted, jit_sizes, registered
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.limits import EpisodeLimits
from agentrl.rollout.record import Capacity
from agentrl.text import chat_format, tokenizer


class Experiment(NamedTuple):
  """A config, and everything that is built from it."""

  config: Config
  tokenizer: tokenizer.Tokenizer
  world: jit_sizes.TokenizedEnv | HostEnvBundle
  plan: jit_sizes.RolloutSizes | EpisodeLimits
  capacity: Capacity
  shape: transformer.DecoderConfig
  train: jit_tasks.JitTaskSet | host_tasks.HostTaskSet  # tasks [0, len(train))
  test: jit_tasks.JitTaskSet | host_tasks.HostTaskSet  # the tasks after them
  framed: bool  # a chat template stands around turns
  algorithm: update.Algorithm
  warm: update.Algorithm  # supervised
  talk: chat_format.ChatFormat  # how conversations become tokens
  hints: dict[str, hinted.Hint]  # of the readings in c.reading
  nulled: counterfactual.NullObservation | None  # of the reading 'nulled'
  # [n, D] f32  of what is first seen of each task; D = 0 where nothing looks
  sketches: np.ndarray
  skills: SkillTable = NO_SKILLS  # of tasks to train on

  @property
  def seats(self) -> int:
    """S: neighbours in a batch that are the seats of one match; 1: none are."""
    if isinstance(self.world, HostEnvBundle):
      return self.world.seats
    env = self.world.env
    return env.seats if isinstance(env, jit_env_base.SeatedEnv) else 1

  @property
  def on_host(self) -> bool:
    """Returns whether environments are Python objects outside of jit."""
    return registered.kind_of(self.algorithm.spec).on_host
