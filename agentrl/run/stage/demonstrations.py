"""Demonstrations of the training tasks, and those of an imperfect expert."""

from collections.abc import Sequence

from agentrl.dataset import host_tasks
from agentrl.run.build import Experiment
from agentrl.run.play import collect, host_env
from agentrl.runtime import uniform

# Messages of a trajectory, each its tokens.
Script = list[list[int]]


def scripts(s: Experiment) -> list[Script]:
  """The messages that solve each training task; [] where nobody knows them.

  Raises:
    ValueError: one is longer than a message or a trajectory may be.
  """
  if isinstance(s.train, host_tasks.HostTaskSet):
    return host_env.messages(s.config, s.tokenizer, s.train.demonstration)
  tokens, length = collect.messages(s, s.train)
  return [
    [ids[:n].tolist() for ids, n in zip(*pair, strict=True) if n]
    for pair in zip(tokens, length, strict=True)
  ]


def with_errors(of: Sequence[Script], rate: float, seed: int) -> list[Script]:
  """The messages of an expert that errs, and goes on as if it had not.

  Each message is replaced with the chance `rate`, by another one that is drawn
  uniformly from the different messages of all. Draws of a trajectory depend on
  the seed and its place alone.
  """
  different = sorted({tuple(ids) for script in of for ids in script})
  place = {ids: i for i, ids in enumerate(different)}

  def one(i: int, script: Script) -> Script:
    u = uniform.draw(seed, i, (2, len(script)), uniform.UniformStream.ERRORS)
    out = []
    for ids, chance, which in zip(script, *u, strict=True):
      if chance < rate and len(different) > 1:
        other = int(which * (len(different) - 1))
        other += other >= place[tuple(ids)]  # any but itself
        ids = list(different[other])
      out.append(ids)
    return out

  return [one(i, script) for i, script in enumerate(of)]
