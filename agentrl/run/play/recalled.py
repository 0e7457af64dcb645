"""Gives attempts what they read of a memory of texts."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from agentrl import registry
from agentrl.memory.texts import TextBank
from agentrl.recall import base
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
  recall, names = base.of(spec), base.memories(spec)
  if recall is None:
    return attempts
  bank: TextBank = jax.device_get(memory[names[0]])
  _, first = np.unique(np.asarray(attempts.group), return_index=True)
  task = np.asarray(attempts.task)[first]
  chosen = registry.bind(
    'recall', spec.recall, spec.values('recall', spec.recall), 'c.recall'
  )(
    base.RecallInputs(
      bank=bank,
      task=task,
      sketch=s.sketches,
      seed=s.config.seed,
      step=step,
    )
  )
  noted = base.noted(attempts, chosen, bank, recall, s.tokenizer)
  told = step != EVALUATION and base.writer(spec)
  return noted.replace(texts=bank) if told else noted
