"""Gives attempts what they read of a memory of texts."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from agentrl import registry
from agentrl.memory.texts import TextBank
from agentrl.recall import base
from agentrl.recall.base import Recall
from agentrl.run.experiment import Experiment
from agentrl.types import Attempts

EVALUATION = -1  # step at which held-out tasks are attempted


def recalled(
  s: Experiment, memory: Mapping[str, Any], attempts: Attempts, step: int
) -> Attempts:
  """Returns the attempts with the texts that they read.

  Args:
    memory: the states of memories, by name
    step: of RL, or EVALUATION
  """
  spec = s.algorithm.spec
  recall, told = base.of(spec), base.told(spec)
  read = base.memories(spec)[0] if recall is not None else ''
  if step == EVALUATION:
    told = ''
  names = {read, told} - {''}  # a bank comes to the host once
  banks = {name: jax.device_get(memory[name]) for name in names}
  if recall is not None and recall.every:  # turns choose for themselves
    attempts = attempts.replace(texts=banks[read])
  elif recall is not None:
    attempts = _noted(s, recall, banks[read], attempts, step)
  if told and step % base.writer(spec)['every'] == 0:  # also what is not read
    attempts = attempts.replace(texts=banks[told])
  return attempts


def _noted(
  s: Experiment, recall: Recall, bank: TextBank, attempts: Attempts, step: int
) -> Attempts:
  """Returns the attempts with what the recall component chooses of a bank."""
  spec = s.algorithm.spec
  _, first = np.unique(np.asarray(attempts.group), return_index=True)
  chosen = registry.bind(
    'recall', spec.recall, spec.values('recall', spec.recall), 'c.recall'
  )(
    base.RecallInputs(
      bank=bank,
      task=np.asarray(attempts.task)[first],
      sketch=s.sketches,
      seed=s.config.seed,
      step=step,
    )
  )
  return base.noted(attempts, chosen, bank, recall, s.tokenizer)
