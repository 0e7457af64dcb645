"""An update by the room for observations, messages and turns: used or not."""

import contextlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import loop
from agentrl.configs import grpo
from agentrl.lab.bench import sampling
from agentrl.lab.bench.sampling import ALLOWED, BenchCase, SamplingBenchSize
from agentrl.learner import update as update_lib
from agentrl.rollout import pack
from agentrl.rollout import record as record_lib
from agentrl.rollout.engine.engine import Completion
from agentrl.rollout.record import Record
from agentrl.run import algorithm, build
from agentrl.run.play import collect
from agentrl.task.base import make_attempts
from agentrl.types import Batch, Status

ATTEMPTS, GROUP = 32, 8
PROMPT, ANSWER, MESSAGE, TURNS = 45, 12, 8, 4  # of hosts: tokens, at most
WIDER = ('', 'observations', 'messages', 'turns')  # has ALLOWED times the room


@contextlib.contextmanager
def rooms(size: SamplingBenchSize, data: str) -> Iterator[dict[str, BenchCase]]:
  """Times updates of GRPO by the room of their batch; the tokens are the same.

  `update_host` reads whole conversations of hosts, whose groups share a prompt;
  `update_jit` the turns of FrozenLake as an untrained policy plays it.
  """
  records = {'host': _conversations(size), 'jit': _lake(size, data)}
  run = _updater(size)
  cases = {}
  for world, r in records.items():
    base = f'update_{world}'
    for what in WIDER:
      batch = _batch(widened(r, what), full=world == 'host')
      name = f'{base}_{what}_{ALLOWED}x' if what else base
      cases[name] = _case(run, batch, base if what else '')
  yield cases


def _case(run, batch: Batch, base: str) -> BenchCase:
  rows, t = batch.rows.tokens.shape
  tokens = int(np.sum(batch.rows.seg >= 0))
  text = f'{ATTEMPTS} attempts, {tokens} tokens in {rows} rows of {t}'
  makes = {'updates': 1, 'tokens': tokens}
  return BenchCase(text, lambda: run(batch), (), makes, base)


def _updater(size: SamplingBenchSize):
  """Returns batch -> metrics of an update; cases share the state, donated."""
  learner = algorithm.make_algorithm(grpo.get_config(size.arg), size.shape)
  update = loop.jit_update(learner)
  state = update_lib.init(learner, jax.random.key(0))

  def run(batch: Batch):
    nonlocal state
    state, metrics, _ = update(state, batch)
    return metrics

  return run


def widened(r: Record, what: str) -> Record:
  """Gives a record ALLOWED times the room for one thing; '': as it is."""

  def wide(name: str, x):
    if x is None or np.ndim(x) < 2:
      return x
    tokens = 'observations' if name.startswith('context') else 'messages'
    more = [
      (ALLOWED - 1) * n * (axis == what)
      for n, axis in zip(x.shape, (None, 'turns', tokens), strict=False)
    ]
    return np.pad(x, [(0, n) for n in more])

  columns = {name: wide(name, x) for name, x in r.columns.items()}
  fields = {
    name: wide(name, x) for name, x in vars(r).items() if x is not r.columns
  }
  return r.replace(**fields | {'columns': columns})


def _batch(r: Record, *, full: bool) -> Batch:
  """Makes a batch whose groups all have something to learn from."""
  b, k, c = r.context.shape
  layout = (
    record_lib.full_history(r, k * (c + r.message.shape[2]))
    if full
    else record_lib.per_turn(r)
  )
  tasks = np.arange(b) // GROUP
  made = record_lib.batch(r, layout, make_attempts(tasks, GROUP, k, 1.0), 0)
  drawn = np.random.default_rng(0).normal(size=b)[:, None]
  reward = jnp.asarray(np.where(r.valid, drawn, 0.0), jnp.float32)
  return made.replace(turns=made.turns.replace(reward=reward))


def _conversations(size: SamplingBenchSize) -> Record:
  """Makes conversations that differ in their turns and in their messages."""
  rng = np.random.default_rng(0)

  def words(n: int) -> list[int]:
    return rng.integers(0, size.shape.vocab, n).tolist()

  def turn(context: list[int], k: int) -> pack.TurnData:
    ids = words(int(rng.integers(1, MESSAGE + 1)))
    n = len(ids)
    spoken = Completion(0, ids, [-3.0] * n, [1.0] * n, [0] * n)
    return pack.TurnData(context, spoken, k, 0.0, False, {})

  episodes, prompt = [], words(PROMPT)
  for i in range(ATTEMPTS):
    prompt = prompt if i % GROUP else words(PROMPT)
    count = TURNS if i == 0 else rng.integers(1, TURNS + 1)
    turns = [turn(words(ANSWER) if k else prompt, k) for k in range(count)]
    episodes.append(pack.Episode(turns, Status.FAILED, 0.0))
  return pack.record(episodes, TURNS, PROMPT, MESSAGE, ())


def _lake(size: SamplingBenchSize, data: str) -> Record:
  """Plays FrozenLake with drawn weights of the config's own small decoder."""
  c = grpo.get_config(','.join(filter(None, ('env=frozen_lake', size.arg))))
  c.rollout.batch, c.rollout.group_size, c.data = ATTEMPTS, GROUP, data
  s = build.experiment(c)
  params = update_lib.init(s.algorithm, jax.random.key(0)).params['policy']
  key = jax.random.key(1)
  return jax.device_get(collect.play(s, params, sampling.attempts(s), key))
