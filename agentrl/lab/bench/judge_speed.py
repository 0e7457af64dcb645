"""Speed of a judge that is a model, against plain decoding of the same answers.

  python -m agentrl.lab.bench.judge_speed [QUESTIONS [WIDTH [LAYERS]]]

Both answer the same prompts with one model, warm, in turns: the engine alone,
all prompts submitted at once, and a panel of judges that asks it through
threads. A third panel has all answers in its cache. The last two rows are the
engine alone again, while judges in Python that wait 20 ms for each item, or
compute for about one, are asked as many questions.
"""

import functools
import statistics
import sys
import time

import jax
import numpy as np

from agentrl import mesh
from agentrl.judge import verdicts
from agentrl.judge.item import Exchange, Item, JudgeInputs
from agentrl.judge.panel import Judge, JudgePanel, Settings
from agentrl.nn import transformer
from agentrl.rollout.engine.engine import Engine, SamplingParams, Sizes
from agentrl.rollout.engine.service import EngineService, conversation
from agentrl.service.answer_file import AnswerFile
from agentrl.service.base import ServiceFault
from agentrl.text import chat_format
from agentrl.text.message import Message
from agentrl.text.tokenizer import Embedded

TURNS = 4
ANSWER = 16  # tokens
REPEATS = 5


def items(count: int) -> list[Item]:
  """Trajectories of turns, `count` turns in all, each of its own text."""
  out = []
  for i in range(count // TURNS):
    turns = [
      Exchange(f'{i + k}: {i % 7} {k + 2} {i % 9}', f'<call>{i}*{k}</call>', {})
      for k in range(TURNS)
    ]
    out.append(Item({}, tuple(turns), -1, 0.0))
  return out


def prompts(some: list[Item]) -> list[str]:
  """What the judge `number` asks about every turn."""
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


def plain(engine: Engine, texts: list[str], talk) -> None:
  """Decodes the answers with the engine alone."""
  how = SamplingParams(np.array([0, 0], np.uint32), ANSWER, 0.0)
  for sequence, text in enumerate(texts):
    ids = conversation(talk, [Message('user', text)]).ids
    engine.submit(sequence, ids, how)
  while engine.busy:
    engine.dispatch()
    for completion in engine.collect():
      engine.cancel(completion.sequence)


def judged(service, some: list[Item], threads: int, identity: str, file):
  """Asks a panel about every turn; -> seconds, counts."""
  judge = Judge('number', verdicts.number, 'x', 'turn', service, identity)
  panel = JudgePanel([judge], Settings(threads, 600.0), answers=file)
  start = time.perf_counter()
  for i, item in enumerate(some):
    panel.submit(i, item)
  panel.collect()
  seconds = time.perf_counter() - start
  panel.close()
  return seconds, panel.taken()


def waits(x: JudgeInputs) -> float:
  """Waits, as a judge for its server."""
  time.sleep(0.02)
  return float(x.item.turn)


def computes(x: JudgeInputs) -> float:
  """Holds the interpreter, as a judge that computes."""
  return float(sum(range(30_000)) * 0 + x.item.turn)


def beside(engine: Engine, texts, talk, some: list[Item], piece) -> float:
  """Seconds of plain decoding while a Python judge is asked about `some`."""
  panel = JudgePanel([Judge('python', piece, 'x', 'turn')])
  start = time.perf_counter()
  for i, item in enumerate(some):
    panel.submit(i, item)
  plain(engine, texts, talk)
  seconds = time.perf_counter() - start
  panel.collect()
  panel.close()
  assert not panel.taken()['judge/python/unscored']
  return seconds


def rated(service, messages, *, seed: int) -> str:
  """The service's answer, made one that can be read, at its full cost."""
  try:
    service(messages, seed=seed)
  except ServiceFault:
    return 'no answer'
  return '0.5'


def measure(count: int, width: int, layers: int) -> dict[str, list[float]]:
  """Seconds of each repeat, by what is measured."""
  words = Embedded()
  talk = chat_format.bare(words)
  shape = transformer.DecoderConfig(
    vocab=words.vocab_size,
    width=width,
    layers=layers,
    heads=width // 16,
    kv_heads=width // 16,
    head_dim=16,
    mlp=3 * width,
  )
  params = mesh.init(transformer.specs(shape), jax.random.key(0))
  sizes = Sizes(slots=64, capacity=512, burst=8)
  threads = 4 * sizes.slots  # so that its engine never waits for questions
  some = items(count)
  texts = prompts(some)
  engine = Engine(shape, sizes, eot=words.eot)
  engine.update_weights(params, 0)
  names = 'plain', 'judge', 'cached', 'waits', 'computes'
  out: dict[str, list[float]] = {name: [] for name in names}
  with EngineService(shape, sizes, talk) as model:
    model.update_weights(params)
    ask = functools.partial(model, temperature=0.0, budget=ANSWER)
    service = functools.partial(rated, ask)
    for repeat in range(REPEATS + 1):
      start = time.perf_counter()
      plain(engine, texts, talk)
      seconds = time.perf_counter() - start
      slow, _ = judged(service, some, threads, '', None)
      file = AnswerFile(None)
      judged(service, some, threads, 'model', file)
      quick, counts = judged(service, some, threads, 'model', file)
      assert counts['judge/number/cached'] == len(texts)
      others = [beside(engine, texts, talk, some, f) for f in (waits, computes)]
      if repeat:  # the first one compiles
        all_seconds = seconds, slow, quick, *others
        for name, x in zip(names, all_seconds, strict=True):
          out[name].append(x)
  return out


def main() -> None:
  count, width, layers = (
    int(x) for x in [*sys.argv[1:], *('1000', '128', '4')[len(sys.argv) - 1 :]]
  )
  seconds = measure(count, width, layers)
  median = {name: statistics.median(x) for name, x in seconds.items()}
  for name, x in seconds.items():
    print(
      f'{name:8} {median[name]:7.2f} s [{min(x):.2f}, {max(x):.2f}],'
      f' {count / median[name]:8.0f} answers/s,'
      f' {median["plain"] / median[name]:6.0%} of plain decoding'
    )


if __name__ == '__main__':
  main()
