"""Judging benchmarks of `experiments.bench`: a model that judges.

All answer the same prompts with one model: the engine alone, all prompts
submitted at once, and a panel of judges that asks it through threads. A third
panel has all answers in its cache. Then the engine alone again, while judges
in Python that wait 20 ms for each item, or compute for about one, are asked
as many questions.
"""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator

import numpy as np

from agentrl.judge import verdicts
from agentrl.judge.item import Exchange, Item, JudgeInputs
from agentrl.judge.panel import Judge, JudgePanel, Settings
from agentrl.lab.bench import sampling
from agentrl.lab.bench.sampling import BenchCase, SamplingBenchSize
from agentrl.rollout.engine.engine import Engine, SamplingParams, Sizes
from agentrl.rollout.engine.service import EngineService, conversation
from agentrl.service.answer_file import AnswerFile
from agentrl.service.base import ServiceFault
from agentrl.text import chat_format
from agentrl.text.message import Message
from agentrl.text.tokenizer import Embedded

TURNS = 4
ANSWER = 16  # tokens


@contextlib.contextmanager
def judges(
  size: SamplingBenchSize, data: str
) -> Iterator[dict[str, BenchCase]]:
  """Yields the cases; their questions are 32 a slot."""
  del data
  words = Embedded()
  talk = chat_format.bare(words)
  shape = dataclasses.replace(size.shape, vocab=words.vocab_size)
  params = sampling.params(size._replace(shape=shape))
  sizes = Sizes(slots=2 * size.batch, capacity=512, burst=8)
  some = items(32 * size.batch)
  texts = prompts(some)
  engine = Engine(shape, sizes, eot=words.eot)
  engine.update_weights(params, 0)

  def plain() -> None:
    how = SamplingParams(np.array([0, 0], np.uint32), ANSWER, 0.0)
    for sequence, text in enumerate(texts):
      ids = conversation(talk, [Message('user', text)]).ids
      engine.submit(sequence, ids, how)
    while engine.busy:
      engine.dispatch()
      for completion in engine.collect():
        engine.cancel(completion.sequence)

  def beside(judge) -> None:
    panel = JudgePanel([Judge('python', judge, 'x', 'turn')])
    for i, item in enumerate(some):
      panel.submit(i, item)
    plain()
    panel.collect()
    panel.close()

  def panel(identity: str, file: AnswerFile | None):
    # So many threads that the engine never waits for questions.
    return judged(service, some, 4 * sizes.slots, identity, file)

  calls: dict[str, Callable] = {
    'plain': plain,
    'panel': functools.partial(panel, '', None),
    'cached': functools.partial(panel, 'model', AnswerFile(None)),
    'beside_waiting': functools.partial(beside, _wait),
    'beside_computing': functools.partial(beside, _compute),
  }
  with EngineService(shape, sizes, talk) as model:
    model.update_weights(params)
    ask = functools.partial(model, temperature=0.0, budget=ANSWER)
    service = functools.partial(_rated, ask)
    yield {
      f'judge_{name}': BenchCase(
        f'{len(texts)} questions',
        call,
        (),
        {'answers': len(texts)},
        base='' if name == 'plain' else 'judge_plain',
      )
      for name, call in calls.items()
    }


def items(count: int) -> list[Item]:
  """Returns trajectories of `count` turns in all, each of its own text."""
  out = []
  for i in range(count // TURNS):
    turns = [
      Exchange(f'{i + k}: {i % 7} {k + 2} {i % 9}', f'<call>{i}*{k}</call>', {})
      for k in range(TURNS)
    ]
    out.append(Item({}, tuple(turns), -1, 0.0))
  return out


def prompts(some: list[Item]) -> list[str]:
  """Returns what the judge `number` asks about every turn."""
  out: list[str] = []

  class Recorder:
    def __call__(self, prompt: str) -> str:
      out.append(prompt)
      return '0.5'

    def cached(self, content, compute):
      return compute()

  for item in some:
    for k in range(TURNS):
      one = item._replace(turn=k)
      verdicts.number(JudgeInputs(items=(one,), ask=Recorder()))
  return out


def judged(service, some: list[Item], threads: int, identity: str, file):
  """Asks a panel about every turn, and returns its counts."""
  judge = Judge('number', verdicts.number, 'x', 'turn', service, identity)
  panel = JudgePanel([judge], Settings(threads, 600.0), answers=file)
  for i, item in enumerate(some):
    panel.submit(i, item)
  panel.collect()
  panel.close()
  return panel.taken()


def _wait(x: JudgeInputs) -> float:
  time.sleep(0.02)
  return float(x.item.turn)


def _compute(x: JudgeInputs) -> float:
  return float(sum(range(30_000)) * 0 + x.item.turn)


def _rated(service, messages, *, seed: int) -> str:
  """Answers as the service does, with a number that can be read."""
  try:
    service(messages, seed=seed)
  except ServiceFault:
    return 'no answer'
  return '0.5'
