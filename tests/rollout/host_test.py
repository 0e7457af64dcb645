"""Sessions: what is written down is what was said and heard, whatever fails."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.env.base import Step
from agentrl.env.jit import base, sokoban_levels
from agentrl.env.worlds import countdown
from agentrl.model import policy
from agentrl.nn import transformer
from agentrl.rollout import actor, hinted, host, keys
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout import record as record_lib
from agentrl.rollout.engine import engine as engine_lib
from agentrl.rollout.engine.engine import Engine, Sizes
from agentrl.rollout.limits import EpisodeLimits
from agentrl.rollout.scripted import ScriptedGenerator
from agentrl.rollout.workers.pool import env_workers
from agentrl.task.base import make_attempts
from agentrl.text import (
  action_parsing,
  chat_format,
  observation_tokens,
  tokenizer,
)
from agentrl.types import Copies, Prefix, Status
from tests import marks
from tests.env.jit import tasks as jit_tasks
from tests.rollout import chatty, hosted
from tests.rollout.workers import naughty

marked = marks.marked  # a fixture
WORDS = tokenizer.Embedded()
VOCAB = WORDS.vocab_size
SHAPE = transformer.DecoderConfig(
  vocab=VOCAB, width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=32
)
MODULE = policy.module(SHAPE)
LIMITS = EpisodeLimits(
  turns=5, message=4, observation=56, opening=0, context=300, seconds=20.0
)


@functools.cache
def params():
  """A policy that says actions often."""
  p = mesh.init(MODULE.specs, jax.random.key(0))
  ids = [WORDS.encode(a)[0] for a in ('up', 'down', 'left', 'right')]
  push = jnp.zeros_like(p['embed']).at[jnp.array([*ids, WORDS.eot])].add(0.5)
  return {**p, 'embed': p['embed'] + push}


@functools.cache
def engine(slots, capacity=300):
  sizes = Sizes(slots=slots, capacity=capacity, burst=3, chunk=32, lanes=2)
  return Engine(SHAPE, sizes, eot=WORDS.eot)


def stage(family, tasks, limits=LIMITS, **fields):
  return host.HostEnvBundle(
    family, tasks, chat_format.bare(WORDS), limits, **fields
  )


def played(made, attempts, *, slots=3, count=4, generator=None):
  if generator is None:
    generator = engine(slots)
    generator.update_weights(params(), 5)
  ended, counts = hosted.play(made, generator, attempts, count=count, key=7)
  return hosted.record(made, ended), counts


# The same world, inside jit and outside of it.


@dataclasses.dataclass(frozen=True)
class Outside:
  """Sokoban of the jitted rollout as a Python object."""

  columns = ('progress',)
  system, worker = '', 'thread'

  def env(self):
    return Outside()

  def reset(self, task, seed):
    it = inside().env
    self.now['state'], obs = jax.jit(it.reset)(jax.random.key(0), task['it'])
    return base.render_text(it, obs)

  def step(self, message):
    it = inside().env
    said = jnp.array([*WORDS.encode(message), WORDS.eot, 0, 0, 0][:4])
    length = len(WORDS.encode(message)) + 1
    action = action_parsing.parse(
      inside().actions, said, jnp.int32(min(length, 4))
    )
    before = self.now['state']
    after, obs, reward, done = _step()(before, action, jax.random.key(0))
    self.now['state'] = after
    info = it.info(before, action, after)
    return Step(
      base.render_text(it, obs),
      float(reward),
      bool(done),
      float(it.score(after)),
      bool(action < 0),
      info={name: float(x) for name, x in info.items()},
    )

  def close(self):
    pass

  @functools.cached_property
  def now(self):
    return {}


@functools.cache
def _step():
  return jax.jit(inside().env.step)


@functools.cache
def inside():
  source = sokoban_levels.Generated()
  env = sokoban_levels.env_for(source)
  tasks = jit_tasks.stack(list(source.tasks('train', 3, 0)))
  return jit_rollout.TokenizedEnv(
    pieces=observation_tokens.piece_table(WORDS, env.pieces),
    actions=action_parsing.action_table(WORDS, env.actions),
    tasks=jax.tree.map(jnp.asarray, tasks),
    env=env,
  )


@pytest.mark.parametrize(
  ('history', 'window'),
  [
    ('turn', 2),
    pytest.param('turn', 1, marks=pytest.mark.nightly),
    pytest.param('full', 1, marks=pytest.mark.nightly),
  ],
)
def test_the_same_as_inside_jit(history, window):
  """One world, both rollouts: the same messages, rewards and ends."""
  world = inside()
  plan = jit_rollout.RolloutSizes(
    slots=6, turns=4, message=2, history=history, window=window
  )
  attempts = make_attempts(np.repeat(np.arange(3), 4), 4, 4, 1.0)
  speaker = actor.model(SHAPE, params(), message=2, eot=WORDS.eot)
  key = jax.random.key(7)
  want = jax.jit(
    lambda: jit_rollout.rollout(world, plan, speaker, attempts, key)
  )()
  heard = world.obs_tokens
  limits = EpisodeLimits(
    turns=4,
    message=2,
    observation=heard,
    opening=0,
    history=history,
    window=window,
    context=4 * (heard + 2) if history == 'full' else window * (heard + 2),
  )
  tasks = [{'it': jax.tree.map(lambda x: x[i], world.tasks)} for i in range(3)]
  generator = engine(3, capacity=limits.context)
  generator.update_weights(params(), 0)
  got, counts = played(
    stage(Outside(), tasks, limits), attempts, generator=generator
  )
  assert counts == {'cut': 0}
  for name in ('message', 'message_len', 'valid', 'status', 'outcome'):
    np.testing.assert_array_equal(
      getattr(got, name), getattr(want, name), err_msg=name
    )
  live = np.asarray(want.valid)
  same = live[..., None] & (
    np.arange(2) < np.asarray(want.message_len)[..., None]
  )
  np.testing.assert_allclose(got.logp[same], want.logp[same], atol=1e-5)
  np.testing.assert_allclose(got.reward, want.reward, atol=1e-6)
  np.testing.assert_allclose(got.entropy, want.entropy, atol=1e-4)
  np.testing.assert_allclose(
    got.columns['progress'], want.columns['progress'], atol=1e-5
  )
  np.testing.assert_array_equal(got.action < 0, np.asarray(want.action) < 0)
  c = min(got.context.shape[2], want.context.shape[2])
  lengths = np.asarray(want.context_len)
  np.testing.assert_array_equal(got.context_len, lengths)
  said = np.arange(c) < lengths[..., None]
  np.testing.assert_array_equal(
    got.context[..., :c][said], np.asarray(want.context)[..., :c][said]
  )
  assert (want.status == Status.SOLVED).any() or live.sum() > 12


@pytest.mark.slow
def test_repeated_turns_keep_their_entropy_and_version():
  """A branch says again what its origin said, and nobody samples it anew."""
  plan = EpisodeLimits(
    turns=4,
    message=2,
    observation=inside().obs_tokens,
    opening=0,
    context=4 * (inside().obs_tokens + 2),
  )
  tasks = [{'it': jax.tree.map(lambda x: x[0], inside().tasks)}]
  made = stage(Outside(), tasks, plan)
  attempts = make_attempts(np.zeros(2, int), 2, 4, 1.0)
  generator = engine(3, capacity=plan.context)
  generator.update_weights(params(), 5)
  one, _ = played(made, attempts, generator=generator)
  layout = record_lib.full_history(one, plan.capacity.row)
  batch = record_lib.batch(one, layout, attempts, 5)
  turns = jnp.array([1, 2])
  entropy = batch.turns.terms['entropy']
  prefix = Prefix(turns, Copies(batch.rows, entropy, jnp.array([1, 0]), 2))
  generator.update_weights(jax.tree.map(jnp.copy, params()), 6)
  two, _ = played(made, attempts.replace(prefix=prefix), generator=generator)
  for i, (origin, n) in enumerate(zip((1, 0), (1, 2), strict=True)):
    n = min(n, int(one.valid[origin].sum()))
    assert n
    np.testing.assert_allclose(
      two.entropy[i, :n], one.entropy[origin, :n], rtol=1e-6
    )
    assert (one.entropy[origin, :n] > 0).all()
    for k in range(n):
      size = int(one.message_len[origin, k])
      assert (two.version[i, k, :size] == 5).all()
    after = two.valid[i].copy()
    after[:n] = False
    for k in np.flatnonzero(after):
      assert (two.version[i, k, : int(two.message_len[i, k])] == 6).all()


@pytest.mark.slow
@pytest.mark.parametrize('moved', [False, True])
def test_an_attempt_goes_on_where_it_was_cut(moved):
  """It is the attempt played at once, unless its world has moved meanwhile."""
  plan = EpisodeLimits(
    turns=4,
    message=2,
    observation=inside().obs_tokens,
    opening=0,
    context=4 * (inside().obs_tokens + 2),
  )
  tasks = [{'it': jax.tree.map(lambda x: x[i], inside().tasks)} for i in (0, 1)]
  made = stage(Outside(), tasks, plan)
  attempts = make_attempts(np.arange(4) // 2, 2, 4, 1.0)
  generator = engine(3, capacity=plan.context)
  generator.update_weights(params(), 5)
  whole, _ = played(made, attempts, generator=generator)
  cut = attempts.replace(limit=np.full(4, 2, np.int32))
  one, _ = played(made, cut, generator=generator)
  assert (one.status == Status.SCHEDULE).all()
  layout = record_lib.full_history(one, plan.capacity.row)
  batch = record_lib.batch(one, layout, cut, 5)
  own = keys.keys(jax.tree.map(jnp.asarray, attempts), jax.random.key(7)).own
  state = jnp.asarray(batch.turns.state).at[:, 1].add(int(moved))
  copies = Copies(
    rows=batch.rows,
    entropy=batch.turns.terms['entropy'],
    origin=jnp.arange(4),
    count=4,
    key=jax.random.key_data(own),
    state=state,
  )
  prefix = Prefix(jnp.full(4, 2), copies)
  generator.update_weights(jax.tree.map(jnp.copy, params()), 6)
  again = attempts.replace(prefix=prefix)
  two, _ = hosted.play(made, generator, again, count=4, key=8)
  two = hosted.record(made, two)
  for name in ('message', 'message_len', 'valid', 'status', 'reward'):
    np.testing.assert_array_equal(getattr(two, name), getattr(whole, name))
  np.testing.assert_allclose(two.logp, whole.logp, atol=1e-5)
  said = np.arange(2) < two.message_len[..., None]
  kept = 1 if moved else 2  # turns whose tokens are of the first segment
  want = np.where(np.arange(4) < kept, 5, 6)[None, :, None]
  assert (two.version == np.where(said, want, 0)).all()


# Token identity.


def relearned(record, t):
  """Log-probs of the record's own rows, by a whole forward pass."""
  layout = record_lib.full_history(record, t)
  rows = record_lib.rows(record, layout, 0)
  return rows, MODULE.apply(params(), rows, ('logp',)).logp


def replayed(task, seed_text, messages):
  """What the world says to these messages, by the world itself."""
  world = chatty.Env()
  texts = [world.reset(task, seed_text)]
  texts += [world.step(m).text for m in messages[:-1]]
  return texts


@pytest.mark.parametrize(
  ('slots', 'count'),
  [
    pytest.param(2, 6, marks=pytest.mark.nightly),
    pytest.param(6, 3, marks=pytest.mark.slow),
  ],
)
def test_what_is_learned_from_is_what_was_said_and_heard(slots, count):
  tasks = [{'n': i, 'slow': 1} for i in range(5)]
  attempts = make_attempts(np.repeat(np.arange(5), 3), 3, 5, 1.0)
  stop = engine_lib.texts(['down'], WORDS.decode)
  made = stage(chatty.Chatty(), tasks, stop=stop)
  record, counts = played(made, attempts, slots=slots, count=count)
  rows, logp = relearned(record, 300)
  np.testing.assert_allclose(logp, rows.logp, atol=1e-5)
  assert set(np.asarray(rows.version)[np.asarray(rows.sampled)]) == {5}
  _, seeds = keys.host_keys(attempts, jax.random.key(7), 5)
  for b in range(15):
    k = int(record.valid[b].sum())
    said = [
      record.message[b, i, : record.message_len[b, i]].tolist()
      for i in range(k)
    ]
    texts = [chat_format.content(WORDS, ids) for ids in said]
    assert all('down' not in WORDS.decode(ids[:-1]) for ids in said)
    heard = replayed(tasks[b // 3], int(seeds[b]), texts)
    row = []
    for text, ids in zip(heard, said, strict=True):
      row += [*WORDS.encode(text), *ids]
    there = np.asarray(rows.seg[b]) >= 0
    assert np.asarray(rows.tokens[b])[there].tolist() == row
  assert counts['cut'] == 0


def test_who_shares_the_slots_changes_nothing():
  tasks = [{'n': i} for i in range(5)]
  attempts = make_attempts(np.repeat(np.arange(5), 3), 3, 5, 1.0)
  made = stage(chatty.Chatty(), tasks)
  a, _ = played(made, attempts, slots=2, count=6)
  b, _ = played(made, attempts, slots=3, count=3)
  np.testing.assert_array_equal(a.message, b.message)
  np.testing.assert_array_equal(a.context, b.context)
  np.testing.assert_allclose(a.logp, b.logp, atol=1e-5)
  np.testing.assert_array_equal(a.status, b.status)


# Ends.


def texts(record):
  return [
    [
      WORDS.decode(record.message[b, i, : record.message_len[b, i]].tolist())
      for i in range(int(record.valid[b].sum()))
    ]
    for b in range(len(record.status))
  ]


def scripted(said, limits=LIMITS, family=None, limit=5, tasks=None, **fields):
  attempts = make_attempts(np.arange(len(said)), 1, limit, 1.0)
  tasks = tasks or [{'n': i} for i in range(len(said))]
  made = stage(family or chatty.Chatty(), tasks, limits, **fields)
  return played(made, attempts, generator=hosted.scripted(WORDS, said))


def test_an_environment_sees_what_follows_the_last_action_prefix():
  limits = dataclasses.replace(LIMITS, message=40, context=900)
  thought = 'Action:\nno, Action:\nup'
  want, _ = scripted([['up'] * 3], limits)
  said = [[thought, 'up', thought]]
  with_thought, _ = scripted(said, limits, action_prefix='Action:\n')
  without, _ = scripted(said, limits)
  np.testing.assert_array_equal(
    with_thought.columns['mood'], want.columns['mood']
  )
  assert (without.columns['mood'] != want.columns['mood']).any()
  assert with_thought.message_len[0, 0] == len(WORDS.encode(thought)) + 1


def test_limits():
  said = [['up'] * 9] * 6
  record, _ = scripted(said, limit=1)
  assert (record.valid.sum(1) == 1).all()
  ended = record.status[record.status != Status.SCHEDULE]
  assert set(ended.tolist()) <= {Status.SOLVED, Status.FAILED}
  assert (record.status == Status.SCHEDULE).any()
  record, _ = scripted(said, dataclasses.replace(LIMITS, turns=1))
  assert set(record.status.tolist()) == {
    Status.TURN_LIMIT,
    *ended.tolist(),
  }
  short = dataclasses.replace(LIMITS, context=100)
  record, _ = scripted(said, short)
  assert (record.status == Status.TOKEN_LIMIT).any()
  assert (record.context_len + record.message_len).sum(1).max() <= 100
  brief = dataclasses.replace(LIMITS, observation=10)
  record, counts = scripted(said, brief)
  assert record.context_len.max() <= 10
  assert counts['cut'] > 0
  first = record.context[0, 0, : record.context_len[0, 0]].tolist()
  assert WORDS.decode(first).endswith('(cut)\n')


class Narrow:
  """A generator with room for some sequences, each until it is taken back.

  One of `mute` is never answered, as by a model that hangs.
  """

  def __init__(self, room, mute=()):
    self._room, self._mute = room, mute
    self.held, self._asked = set(), {}

  @property
  def busy(self):
    return any(x not in self._mute for x in self._asked)

  def submit(self, sequence, context, how):
    self.held.add(sequence)
    assert len(self.held) <= self._room
    self._asked[sequence] = engine_lib.Completion(
      sequence, [*WORDS.encode('up'), WORDS.eot], [-1.0] * 2, [0.0] * 2, [0] * 2
    )

  def dispatch(self):
    pass

  def collect(self):
    said = [x for x in self._asked if x not in self._mute]
    return [self._asked.pop(x) for x in said]

  def cancel(self, sequence):
    self.held.discard(sequence)
    self._asked.pop(sequence, None)


def test_what_has_ended_is_taken_back_from_the_generator():
  """By itself, by a fault of its world, and while one is waited for."""
  tasks = [{'n': i} for i in range(8)]
  tasks[3] |= {'fault': 'raise', 'at': 1}
  tasks[4] |= {'fault': 'hang', 'at': 1}
  hasty = dataclasses.replace(LIMITS, patience=0.75)
  generator = Narrow(2, mute=(5,))
  attempts = make_attempts(np.arange(8), 1, 3, 1.0)
  made = stage(chatty.Chatty(), tasks, hasty)
  record, counts = played(made, attempts, count=2, generator=generator)
  assert record.status[3] == Status.ENV_ERROR
  assert (record.status == Status.TIME_LIMIT).tolist() == [
    b in (4, 5) for b in range(8)
  ]
  assert counts == {'cut': 0, 'fault/exception': 1}
  assert record.valid[:3].any(axis=1).all()
  assert not generator.held


def test_an_episode_says_why_its_environment_broke():
  tasks = [{'n': 0, 'fault': 'raise', 'at': 1}, {'n': 1}]
  attempts = make_attempts(np.arange(2), 1, 5, 1.0)
  made, generator = stage(chatty.Chatty(worker='thread'), tasks), engine(2)
  generator.update_weights(params(), 5)
  (broken, whole), _ = hosted.play(made, generator, attempts)
  assert broken.status == Status.ENV_ERROR
  assert 'ZeroDivisionError' in broken.fault
  assert whole.fault == ''


@pytest.mark.slow
def test_a_fault_costs_its_own_trajectory():
  """A third of the worlds fail at some turn, each kind twice."""
  n, kinds = 48, list(chatty.FAULTS)
  whole = [{'n': i} for i in range(n)]
  broken = [dict(task) for task in whole]
  for i, b in enumerate(np.random.default_rng(0).permutation(n)[: n // 3]):
    broken[b] |= {'fault': kinds[i % len(kinds)], 'at': 1 + i % 2}
  limits = dataclasses.replace(LIMITS, seconds=6.0)
  attempts = make_attempts(np.arange(n), 1, 5, 1.0)
  family = chatty.Chatty(worker='process')
  want, counts = played(stage(family, whole, limits), attempts, count=5)
  assert counts == {'cut': 0}
  got, counts = played(stage(family, broken, limits), attempts, count=5)
  bad, kinds = got.status == Status.ENV_ERROR, {}
  for b, task in enumerate(broken):
    reached = 'fault' in task and want.valid[b].sum() >= task['at']
    assert bad[b] == reached
    if reached:
      kind = f'fault/{chatty.FAULTS[task["fault"]]}'
      kinds[kind] = kinds.get(kind, 0) + 1
  assert counts == {'cut': 0} | kinds
  assert bad.sum() >= n // 8
  for name in ('message', 'context', 'valid', 'status', 'outcome', 'reward'):
    np.testing.assert_array_equal(
      getattr(got, name)[~bad], getattr(want, name)[~bad], err_msg=name
    )


def test_what_a_run_must_mend_ends_it():
  class Missing(chatty.Chatty):
    def env(self):
      raise ValueError('it needs a cat; run pip install cat')

  with pytest.raises(ValueError):
    scripted([['up']], family=Missing())


def test_stopping_ends_all_sessions():
  class Enough(Exception):
    pass

  calls = iter(range(4))

  def stopping():
    if next(calls, None) is None:
      raise Enough

  made = stage(chatty.Chatty(), [{'n': 0, 'slow': 1}])
  attempts = make_attempts(np.zeros(8, int), 8, 5, 1.0)
  generator = engine(3)
  generator.update_weights(params(), 0)
  with pytest.raises(Enough):
    hosted.play(made, generator, attempts, stopping=stopping)
  assert not generator.busy


@pytest.mark.slow
def test_200_worlds_leave_their_groups_and_none_is_left_running(marked):
  """Some die and some are closed in the middle of a turn as well."""
  n = 200
  acts = [['roam', 'say x', 'roam']] * n
  acts[::16] = [['say x', 'roam_and_die']] * len(acts[::16])
  acts[5::40] = [['roam_and_hang']] * len(acts[5::40])
  limits = dataclasses.replace(LIMITS, turns=3, message=16, seconds=10.0)
  made = stage(naughty.Family(), [{}] * n, limits)
  attempts = make_attempts(np.arange(n), 1, 3, 1.0)
  with env_workers(made.family, 8) as them:
    ended, _ = host.run_episodes(
      made,
      hosted.scripted(WORDS, acts),
      them,
      attempts,
      jax.random.key(0),
    )
    marks.sleeping(marked, 3)  # of the rooms that are open at the end
  assert len(ended) == n
  assert not marks.left(marked)


class Overheard(ScriptedGenerator):
  """One that keeps what it was asked to go on from."""

  def __init__(self, *args):
    super().__init__(*args)
    self.read = {}

  def submit(self, sequence, context, how):
    self.read.setdefault(sequence, []).append(tuple(context))
    super().submit(sequence, context, how)


@pytest.mark.parametrize('history', ['full', 'turn'])
def test_a_hint_is_read_and_not_recorded(history):
  """Only by attempts that are hinted, of tasks that have one."""
  made = countdown.Countdown()
  tasks = [x.task for x in made.tasks('train', 2, 0)]
  limits = dataclasses.replace(
    LIMITS, history=history, observation=80, context=600
  )
  frame = hinted.HintFrame((1, 2), (3,), 1)
  guidance = hinted.Guidance(frame, ((7, 8, 9), ()))
  assert guidance.growth == 5
  asked = make_attempts(np.array([0, 0, 1]), 1, 3, 1.0)
  script = {
    b: [[WORDS.encode(x)[0], WORDS.eot] for x in 'abc'] for b in range(3)
  }
  reads, records = [], []
  for flags in (None, np.array([True, False, True])):
    generator = Overheard(script, WORDS.eot)
    attempts = asked if flags is None else asked.replace(hinted=flags)
    world = stage(made, tasks, limits, guidance=guidance)
    records.append(played(world, attempts, generator=generator)[0])
    reads.append(generator.read)
  plain, behind = reads
  assert [len(plain[b]) for b in range(3)] == [3] * 3
  assert behind[0] == [(1, 2, 7, 8, 9, 3, *ids[1:]) for ids in plain[0]]
  assert behind[1] == plain[1]
  assert behind[2] == plain[2]
  for one, two in zip(*map(jax.tree.leaves, records), strict=True):
    np.testing.assert_array_equal(one, two)
