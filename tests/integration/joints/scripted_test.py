"""Trajectories of a scripted speaker: exact rewards, ends and what is taught.

Levels are known and messages are written down beforehand, so that a
trajectory wins, loses, runs out of turns and runs out of room where it should,
inside jit and on the host. Scripts go on after the end: whoever plays on is
seen.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import base
from agentrl.env.jit import frozen_lake, sokoban, sokoban_levels
from agentrl.rollout import actor, host, pack
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout import record as record_lib
from agentrl.rollout.limits import EpisodeLimits
from agentrl.rollout.scripted import ScriptedGenerator
from agentrl.rollout.workers.pool import env_workers
from agentrl.run import build
from agentrl.run.play import sampler
from agentrl.run.stage import stages
from agentrl.task.base import make_attempts
from agentrl.text import (
  action_parsing,
  chat_format,
  observation_tokens,
  tokenizer,
)
from agentrl.types import Status
from tests import states
from tests.integration.joints import lake

WORDS = tokenizer.Embedded()
WIN = ('right', 'right', 'down', 'down')
ON = ('left', 'left')  # by who does not know that it is over
PAID = [-0.25, -0.25, -0.25, 1.75]


class Case(NamedTuple):
  """A script in a lake, and what comes of it."""

  messages: tuple[str, ...]
  limit: int  # turns
  status: Status
  reward: list[float]
  invalid: tuple[int, ...] = ()  # turns


# With room for four turns.
CASES = {
  'wins': Case((*WIN, *ON), 6, Status.SOLVED, PAID),
  'wins at the last turn': Case((*WIN, *ON), 4, Status.SOLVED, PAID),
  'loses': Case(('right', 'down', *WIN), 6, Status.FAILED, [-0.25, -0.25]),
  'loses at the last turn': Case(
    ('right', 'down', *WIN), 2, Status.FAILED, [-0.25, -0.25]
  ),
  'cut short': Case(WIN, 3, Status.SCHEDULE, PAID[:3]),
  'one turn': Case(WIN, 1, Status.SCHEDULE, PAID[:1]),
  'no room': Case(('up', *WIN), 6, Status.TOKEN_LIMIT, [-0.25] * 4),
  'nonsense': Case(
    ('go', *WIN), 6, Status.TOKEN_LIMIT, [-0.75, -0.25, -0.25, -0.25], (0,)
  ),
}
TURNS = 6
VALUE = np.arange(9.0) ** 2 / 8  # of a cell


def attempts(limits):
  made = make_attempts(np.zeros(len(limits), np.int32), 1, TURNS, 1.0)
  return made.replace(limit=np.asarray(limits, np.int32))


def script_arrays(scripts, message=2):
  """Tokens [B, K, M] and lengths [B, K]; empty after the last one."""
  tokens = np.zeros((len(scripts), TURNS, message), np.int32)
  length = np.zeros((len(scripts), TURNS), np.int32)
  for b, texts in enumerate(scripts):
    for k, text in enumerate(texts[:TURNS]):
      ids = [*WORDS.encode(text), WORDS.eot]
      tokens[b, k, : len(ids)], length[b, k] = ids, len(ids)
  return tokens, length


def run_in_jit(env, tasks, plan, scripts, limits, task=None):
  """The record of a rollout in jit: host arrays."""
  world = jit_rollout.TokenizedEnv(
    pieces=observation_tokens.piece_table(WORDS, env.pieces),
    actions=action_parsing.action_table(WORDS, env.actions),
    tasks=jax.tree.map(jnp.asarray, tasks),
    env=env,
  )
  plan = plan(world)
  speaker = actor.scripted(*(jnp.asarray(x) for x in script_arrays(scripts)))
  made = attempts(limits)
  made = made if task is None else made.replace(task=np.asarray(task, np.int32))

  @jax.jit
  def play(key):
    record = jit_rollout.rollout(world, plan, speaker, made, key)
    layout = record_lib.per_turn(record)
    if plan.history == 'full':
      layout = record_lib.full_history(
        record, jit_rollout.row_tokens(world, plan)
      )
    return record, record_lib.batch(record, layout, made, 0)

  return jax.device_get(play(jax.random.key(0)))


@functools.cache
def lake_in_jit():
  """Two slots for eight trajectories: most begin where another ended."""
  env = frozen_lake.FrozenLake(
    3, 3, 1.0, turn_reward=-0.25, goal_reward=2.0, invalid_reward=-0.5
  )
  holes = np.arange(9) == lake.HOLE
  task = {
    'holes': holes,
    'value': VALUE.astype(np.float32),
    'start': np.int32(0),
    'goal': np.int32(lake.GOAL),
  }
  tasks = {name: np.stack([x]) for name, x in task.items()}

  def plan(world):
    room = 4 * (world.obs_tokens + 2)
    return jit_rollout.RolloutSizes(
      slots=2, turns=TURNS, message=2, history='full', context=room
    )

  messages, limits = (
    [getattr(x, name) for x in CASES.values()] for name in ('messages', 'limit')
  )
  return run_in_jit(env, tasks, plan, messages, limits)


@functools.cache
def lake_on_hosts():
  messages = [x.messages for x in CASES.values()]
  family, width = lake.Lake(), len(WORDS.encode('P___H____')) + 1
  width = max(
    width,
    len(chat_format.bare(WORDS).start([host.Message('user', 'P___H____')]).ids),
  )
  limits = EpisodeLimits(
    turns=TURNS,
    message=2,
    observation=width,
    opening=0,
    context=4 * (width + 2),
    seconds=20.0,
  )
  stage = host.HostEnvBundle(
    family, [{'at': 0}], chat_format.bare(WORDS), limits
  )
  script = ScriptedGenerator(
    {
      b: [[*WORDS.encode(x), WORDS.eot] for x in texts]
      for b, texts in enumerate(messages)
    },
    WORDS.eot,
  )
  made = attempts([x.limit for x in CASES.values()])
  lake.OVER.clear()
  with env_workers(family, 2) as them:
    ended, counts = host.run_episodes(
      stage, script, them, made, jax.random.key(0)
    )
  record = pack.record(ended, TURNS, limits.width, limits.message, ())
  assert counts == {'cut': 0}

  @jax.jit
  def laid(record):
    layout = record_lib.full_history(record, limits.context)
    return record_lib.batch(record, layout, made, 0)

  return record, jax.device_get(laid(record))


PLACES = {'jit': lake_in_jit, 'host': lake_on_hosts}


@pytest.mark.parametrize('name', CASES)
@pytest.mark.parametrize('place', PLACES)
def test_how_a_trajectory_ends_and_what_it_is_paid(place, name):
  record, batch = PLACES[place]()
  b, case = list(CASES).index(name), CASES[name]
  n = len(case.reward)
  assert Status(int(record.status[b])) == case.status
  solved = float(case.status == Status.SOLVED)
  assert float(record.outcome[b]) == float(batch.outcome[b]) == solved
  assert record.valid[b].tolist() == [k < n for k in range(TURNS)]
  np.testing.assert_allclose(record.reward[b], case.reward + [0] * (TURNS - n))
  wrong = np.asarray(batch.turns.terms['invalid'][b])
  assert np.flatnonzero(wrong).tolist() == list(case.invalid)
  rows = batch.rows
  mine = rows.sampled & (rows.traj == b)
  want = [t for x in case.messages[:n] for t in (*WORDS.encode(x), WORDS.eot)]
  assert rows.tokens[mine].tolist() == want, 'the script, and no more'
  assert (rows.weight[mine] == 1).all()
  assert rows.turn[mine].tolist() == [k for k in range(n) for _ in range(2)]


@pytest.mark.parametrize('name', CASES)
def test_progress_is_what_the_new_place_is_worth_more(name):
  """In jit; what worlds on hosts tell of a turn is their own affair."""
  record, _ = lake_in_jit()
  b, case = list(CASES).index(name), CASES[name]
  world, way = lake.World(), [0]
  world.reset({'at': 0}, 0)
  for text in case.messages[: len(case.reward)]:
    world.step(text)
    way.append(world.at)
  gained = np.diff(VALUE[way])
  np.testing.assert_allclose(
    record.columns['progress'][b, : len(gained)], gained, rtol=1e-6
  )


def test_nobody_speaks_to_a_world_that_has_ended():
  lake_on_hosts()
  assert lake.OVER == []


LEVELS = ('#@$. #', '#@ $.#', '#@$ .#')


def test_boxes_are_pushed_home():
  """A level a line; the rewards are gym-sokoban's: -0.1, 1 and 10."""
  levels = [
    sokoban_levels.parse_level(['######', line, '######']) for line in LEVELS
  ]
  tasks = {
    name: np.stack([np.ravel(getattr(x, name)) for x in levels])
    for name in ('walls', 'targets', 'boxes')
  }
  tasks['player'] = np.array([x.player for x in levels], np.int32)

  def plan(world):
    return jit_rollout.RolloutSizes(slots=2, turns=3, message=2)

  right = ('right',) * 6
  cases = (
    (0, right, Status.SOLVED, [10.9]),
    (1, right, Status.SOLVED, [-0.1, 10.9]),
    (2, right, Status.SOLVED, [-0.1, 10.9]),
    (0, ('left', 'go', 'up', *right), Status.TURN_LIMIT, [-0.1, -0.2, -0.1]),
    (1, ('up', 'right', *right), Status.SOLVED, [-0.1, -0.1, 10.9]),
  )
  record, _ = run_in_jit(
    sokoban.Sokoban(3, 6),
    tasks,
    plan,
    [messages for _, messages, *_ in cases],
    [TURNS] * len(cases),
    [level for level, *_ in cases],
  )
  for b, (_, _, status, reward) in enumerate(cases):
    n = len(reward)
    assert Status(int(record.status[b])) == status
    assert float(record.outcome[b]) == (status == Status.SOLVED)
    assert record.valid[b].tolist() == [k < n for k in range(3)]
    np.testing.assert_allclose(
      record.reward[b], reward + [0] * (3 - n), atol=1e-6
    )


# On hosts, by the config.


@pytest.fixture(scope='module')
def setup(tmp_path_factory):
  c = base.get_config('tiny,env=tests.integration.joints.lake:Lake')
  c.data, c.loss = str(tmp_path_factory.mktemp('data')), ('nll',)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return',)
  c.model.update(
    dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=16)
  )
  c.env.update(dict(train=3, test=1))
  c.host.max_observation_tokens = 16
  c.update(dict(micro_batch=2))
  c.rollout.update(
    dict(
      batch=4,
      group_size=2,
      slots=2,
      max_turns=4,
      max_message_tokens=4,
      temperature=0.7,
      top_k=5,
      top_p=0.8,
    )
  )
  c.sft.batch = 4
  return build.experiment(base.finish(c))


def test_demonstrations_on_hosts_end_with_the_move_that_solves(setup):
  index = np.array([2, 0, 1, 2])
  with sampler.open_host_sampler(setup) as play:
    batch = jax.device_get(play.replay(play.demos(index), jax.random.key(0)))
  assert batch.status.tolist() == [Status.SOLVED] * 4
  assert batch.outcome.tolist() == [1.0] * 4
  assert batch.ids['source'].tolist() == [2] * 4, 'nobody sampled them'
  rows, words = batch.rows, setup.tokenizer
  for b, i in enumerate(index):
    messages = setup.train.demonstration[i]
    assert batch.turns.valid[b].tolist() == [
      k < len(messages) for k in range(4)
    ]
    for k, text in enumerate(messages):
      mine = rows.sampled & (rows.traj == b) & (rows.turn == k)
      want = [*words.encode(text), words.eot]
      assert rows.tokens[mine].tolist() == want
      assert (rows.weight[mine] == 1).all(), 'taught'
    assert batch.turns.terms['env'][b].argmax() == len(messages) - 1


class Asked(ScriptedGenerator):
  """A script that writes down how it was to speak."""

  def __init__(self, messages, eot):
    super().__init__(messages, eot)
    self.how = {}

  def submit(self, line, context, how):
    self.how.setdefault(line, []).append(how)
    super().submit(line, context, how)


def test_hosts_ask_for_words_as_the_config_has_it(setup):
  """Temperature, top k and top p of every message; a key of its own each."""
  names = 'sft', 'rl'
  built = dict.fromkeys(names, (setup, None))
  _, rl = stages.make_stages(setup, names, built)
  made = rl.task(states.state(), rl.start)
  generator = Asked({b: [] for b in range(4)}, setup.tokenizer.eot)
  with env_workers(setup.world.family, 2) as them:
    host.run_episodes(setup.world, generator, them, made, jax.random.key(0))
  requests = [how for b in range(4) for how in generator.how[b]]
  assert len(requests) == 16
  for how in requests:
    assert how.temperature == pytest.approx(0.7)
    assert (how.top_k, how.top_p, how.budget) == (5, 0.8, 4)
  assert len({tuple(np.asarray(how.key).tolist()) for how in requests}) == 16
