"""A world whose conversations begin anew, and how it is played."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh
from agentrl.env.base import Step
from agentrl.model import policy
from agentrl.nn import transformer
from agentrl.rollout import compaction, host, keys
from agentrl.rollout import record as record_lib
from agentrl.rollout.engine.engine import Engine, Sizes
from agentrl.rollout.limits import EpisodeLimits
from agentrl.task.base import make_attempts
from agentrl.text import chat_format, tokenizer
from tests.rollout import hosted

WORDS = tokenizer.Embedded()
SHAPE = transformer.DecoderConfig(
  vocab=WORDS.vocab_size,
  width=16,
  layers=2,
  heads=2,
  kv_heads=2,
  head_dim=8,
  mlp=32,
)
MODULE = policy.module(SHAPE)
REQUEST = 'Note?'
TURNS, MESSAGE, OBSERVATION, SUMMARY = 14, 6, 16, 6
FULL = EpisodeLimits(
  turns=TURNS,
  message=MESSAGE,
  observation=OBSERVATION,
  opening=0,
  context=TURNS * (OBSERVATION + MESSAGE),
)
LONG = 10**4  # a length that nothing reaches
COUNT = 12  # attempts, in groups of 4


@dataclasses.dataclass(frozen=True)
class Chapters:
  """A world that goes on for 9 turns, and whose texts name their turn."""

  columns = ('page',)
  system, worker = '', 'thread'

  def env(self):
    return ChaptersEnv()


class ChaptersEnv:
  def reset(self, task, seed):
    self.turn, self.heard, self.name = 0, [], task['name']
    return f'read {self.name}'

  def step(self, message):
    self.turn += 1
    self.heard.append(message)
    text = f'{self.name} {self.turn}{"!" * (len(message) % 3)}'
    done = self.turn == 9
    return Step(text, 0.1, done, float(done), info={'page': self.turn})

  def close(self):
    pass


TASKS = [{'name': x} for x in ('dawn', 'noon', 'dusk')]


def rule(low=56, high=72, **fields):
  keep = fields.get('keep_task', True)
  asking = len(WORDS.encode(f'{REQUEST}\n'))
  own = fields.get('arm', 'own') != 'none'
  head = OBSERVATION if keep else own * asking
  restart = head + own * SUMMARY + OBSERVATION
  assert low >= restart + MESSAGE
  sizes = dict(tokens=SUMMARY, most=5, request=REQUEST)
  sizes |= dict(asking=asking, restart=restart)
  return compaction.Compaction(low=low, high=high, **{**sizes, **fields})


def stage(made=None, *, family=None, tasks=TASKS, turns=TURNS, **fields):
  limits = dataclasses.replace(FULL, turns=turns)
  if made is not None:
    limits = dataclasses.replace(
      limits,
      history='compact',
      compaction=made,
      context=made.context,
      row=made.row,
    )
  talk = chat_format.bare(WORDS)
  return host.HostEnvBundle(family or Chapters(), tasks, talk, limits, **fields)


@functools.cache
def params():
  """A policy whose messages are short and differ."""
  p = mesh.init(MODULE.specs, jax.random.key(0))
  push = jnp.zeros_like(p['embed']).at[WORDS.eot].add(0.5)
  return {**p, 'embed': 1.5 * p['embed'] + push}


@functools.cache
def engine(slots=4):
  sizes = Sizes(slots=slots, capacity=FULL.context, burst=3, chunk=32, lanes=2)
  made = Engine(SHAPE, sizes, eot=WORDS.eot)
  made.update_weights(params(), 5)
  return made


def attempts():
  return make_attempts(np.repeat(np.arange(3), 4), 4, TURNS, 1.0)


@functools.cache
def played(made=None, *, alone=False, **fields):
  """-> episodes, record, rows; each way of playing once.

  alone: one after the other, so that timing changes no rounding
  """
  world, one = stage(made, **fields), engine.__wrapped__
  how = (one(1), attempts()) if alone else (engine(), attempts())
  count = 1 if alone else 5
  ended, counts = hosted.play(world, *how, count=count, key=7)
  assert counts == {'cut': 0}
  record = world.record(ended)
  layout = record_lib.full_history(record, world.limits.capacity.row)
  return ended, record, record_lib.rows(record, layout, 5)


def summaries(episode):
  return [k for k, x in enumerate(episode.turns) if x.info.get('summary')]


def segments(episode):
  """[(tokens, [(turn, place of its message, its length)])] of an episode."""
  out = []
  for k, turn in enumerate(episode.turns):
    if k == 0 or turn.branch:
      out.append(([], []))
    tokens, said = out[-1]
    tokens += turn.context
    said.append((k, len(tokens), len(turn.spoken.ids)))
    tokens += turn.spoken.ids
  return out


def text(ids):
  return WORDS.decode(list(ids))


@functools.cache
def host_keys():
  return jax.device_get(keys.host_keys(attempts(), jax.random.key(7), TURNS))


RULES = {
  'own': rule(),
  'masked': rule(arm='masked'),
  'shuffled': rule(arm='shuffled'),
  'bare': rule(keep_task=False),
}
