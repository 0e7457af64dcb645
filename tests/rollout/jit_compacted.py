"""A world inside jit whose conversations begin anew, and the same outside."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh
from agentrl.env.base import Step
from agentrl.env.jit import base
from agentrl.env.jit.carried_code import CarriedCode
from agentrl.model import policy
from agentrl.nn import transformer
from agentrl.rollout import (
  actor,
  compaction,
  host,
  jit,
  jit_compaction,
  jit_sizes,
)
from agentrl.rollout import record as record_lib
from agentrl.rollout.engine.engine import Engine, Sizes
from agentrl.rollout.limits import EpisodeLimits
from agentrl.task.base import make_attempts
from agentrl.text import (
  action_parsing,
  chat_format,
  observation_tokens,
  tokenizer,
)
from tests.env.jit import tasks as jit_tasks
from tests.rollout import hosted

WORDS = tokenizer.Embedded()
SHAPE = transformer.DecoderConfig(
  vocab=WORDS.vocab_size,
  width=16,
  layers=1,
  heads=2,
  kv_heads=2,
  head_dim=8,
  mlp=32,
)
MODULE = policy.module(SHAPE)
ENV = CarriedCode(letters=3, size=2, fillers=5, length=4)
REQUEST = 'Note?'
TURNS, MESSAGE, SUMMARY = 14, 6, 4
COUNT = 12  # attempts, in groups of 4
KEY = jax.random.key(7)


@functools.cache
def world() -> jit_sizes.TokenizedEnv:
  tasks = jit_tasks.stack([*ENV.tasks('train', 3, 0), *ENV.tasks('test', 2, 0)])
  return jit_sizes.TokenizedEnv(
    pieces=observation_tokens.piece_table(WORDS, ENV.pieces),
    actions=action_parsing.action_table(WORDS, ENV.actions),
    tasks=jax.tree.map(jnp.asarray, tasks),
    env=ENV,
    request=observation_tokens.as_tokens(WORDS, f'{REQUEST}\n'),
  )


def rule(low=21, high=34, **fields) -> compaction.Compaction:
  """Sizes in which some conversations are compacted twice."""
  keep, writes = fields.get('keep_task', True), fields.get('arm') != 'none'
  heard, asking = world().obs_tokens, len(world().request)
  head = heard if keep else writes * asking
  restart = head + writes * SUMMARY + heard
  assert low >= restart + MESSAGE
  sizes = dict(tokens=SUMMARY, most=4, request=REQUEST)
  sizes |= dict(asking=asking, restart=restart)
  return compaction.Compaction(low=low, high=high, **{**sizes, **fields})


RULES = {
  'own': rule(),
  'masked': rule(arm='masked'),
  'shuffled': rule(arm='shuffled'),
  'none': rule(arm='none'),
  'bare': rule(keep_task=False),
  'bare none': rule(keep_task=False, arm='none'),
}


def sizes(made, slots=5, turns=TURNS) -> jit_sizes.RolloutSizes:
  return jit_sizes.RolloutSizes(
    slots=slots,
    turns=turns,
    message=MESSAGE,
    history='compact',
    compaction=made,
  )


@functools.cache
def params():
  """A policy whose messages are short and differ."""
  p = mesh.init(MODULE.specs, jax.random.key(0))
  push = jnp.zeros_like(p['embed']).at[WORDS.eot].add(2.0)
  push = push.at[jnp.array(WORDS.encode('abc'))].add(2.0)
  return {**p, 'embed': 1.5 * p['embed'] + push}


def attempts():
  """Attempts in groups of 4; the last of each has fewer turns."""
  made = make_attempts(np.repeat(np.arange(3), 4), 4, TURNS, 1.0)
  return made.replace(limit=np.tile([TURNS, TURNS, TURNS, 7], 3))


@functools.cache
def played(made, slots=5) -> record_lib.Record:
  """A record of the jitted rollout."""
  w, plan, a = world(), sizes(made, slots), attempts()

  @jax.jit
  def play(p, key):
    speaker = actor.model(SHAPE, p, message=MESSAGE, eot=WORDS.eot)
    return jit.rollout(w, plan, speaker, a, key)

  return jax.device_get(play(params(), KEY))


def rows_of(made, record):
  layout = record_lib.full_history(record, made.row)
  return record_lib.rows(jax.tree.map(jnp.asarray, record), layout, 0)


def segments(record, b):
  """[(tokens, [(turn, place of its message, its length)])] of a trajectory."""
  out = []
  for k in np.flatnonzero(record.valid[b]):
    if k == 0 or record.seg[b, k] != record.seg[b, k - 1]:
      out.append(([], []))
    tokens, said = out[-1]
    tokens += record.context[b, k, : record.context_len[b, k]].tolist()
    size = int(record.message_len[b, k])
    said.append((k, len(tokens), size))
    tokens += record.message[b, k, :size].tolist()
  return out


# The same on hosts.


@dataclasses.dataclass(frozen=True)
class Outside:
  """The environment as a Python object."""

  columns = ('asks',)
  system, worker = '', 'thread'

  def env(self):
    return OutsideEnv()


class OutsideEnv:
  def reset(self, task, seed):
    self.state, obs = _jitted('reset')(KEY, task['it'])
    return self.text(obs)

  def step(self, message):
    ids = WORDS.encode(message)
    said = jnp.array([*ids, *[0] * MESSAGE][:MESSAGE])
    action = -1
    if len(ids) <= MESSAGE:
      action = action_parsing.parse(world().actions, said, jnp.int32(len(ids)))
    before = self.state
    self.state, obs, reward, done = _jitted('step')(before, action, KEY)
    asks = float(ENV.info(before, action, self.state)['asks'])
    return Step(
      self.text(obs),
      float(reward),
      bool(done),
      float(ENV.score(self.state)),
      bool(action < 0),
      info={'asks': asks},
    )

  def text(self, obs):
    return base.render_text(ENV, obs).removesuffix('\n')

  def close(self):
    pass


@functools.cache
def _jitted(name):
  return jax.jit(getattr(ENV, name))


@dataclasses.dataclass(frozen=True)
class DrawnInside(compaction.Compaction):
  """A rule whose placebos have the order that is drawn inside jit."""

  def shown(self, ids, key, eot):
    if self.arm != 'shuffled':
      return tuple(ids)
    tokens = jnp.array([*ids, *[0] * SUMMARY][:SUMMARY])
    key = jax.random.wrap_key_data(jnp.asarray(key, jnp.uint32))
    made = jit_compaction.shuffle(tokens, jnp.int32(len(ids)), key, eot)
    return tuple(np.asarray(made)[: len(ids)].tolist())


def outside(made, *, talk=None, notes=0, observation=0) -> host.HostEnvBundle:
  """The world on hosts, with the placebos that are drawn inside jit."""
  made = DrawnInside(**dataclasses.asdict(made))
  limits = EpisodeLimits(
    turns=TURNS,
    message=MESSAGE,
    observation=observation or world().obs_tokens,
    opening=notes,
    notes=notes,
    history='compact',
    compaction=made,
    context=made.context,
    row=made.row,
  )
  tasks = [
    {'it': jax.tree.map(lambda x: x[i], world().tasks)} for i in range(3)
  ]
  talk = talk or chat_format.bare(WORDS)
  return host.HostEnvBundle(Outside(), tasks, talk, limits)


@functools.cache
def played_outside(made):
  """-> episodes, record of the host rollout."""
  stage = outside(made)
  size = Sizes(slots=4, capacity=made.context, burst=3, chunk=32, lanes=2)
  engine = Engine(SHAPE, size, eot=WORDS.eot)
  engine.update_weights(params(), 0)
  ended, counts = hosted.play(stage, engine, attempts(), count=5, key=7)
  assert counts == {'cut': 0}
  return ended, stage.record(ended)
