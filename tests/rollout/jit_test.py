"""Real rollouts: what is written down is what was sampled and seen."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.env.jit import base, frozen_lake, sokoban_levels
from agentrl.model import microbatch, policy
from agentrl.nn import transformer
from agentrl.rollout import actor
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout import record as record_lib
from agentrl.task.base import make_attempts
from agentrl.text import action_parsing, observation_tokens, tokenizer
from agentrl.types import Status
from tests.env.jit import tasks as jit_tasks

WORDS = tokenizer.Embedded()
VOCAB = WORDS.vocab_size
SHAPE = transformer.DecoderConfig(
  vocab=VOCAB, width=32, layers=1, heads=4, kv_heads=2, head_dim=8, mlp=48
)
MODULE = policy.module(SHAPE)


@functools.cache
def world(name='sokoban'):
  if name == 'sokoban':
    source = sokoban_levels.Generated()
    env = sokoban_levels.env_for(source)
  else:
    source = frozen_lake.Lakes()
    env = frozen_lake.env_for(source)
  tasks = jit_tasks.stack(list(source.tasks('train', 6, 0)))
  return jit_rollout.TokenizedEnv(
    pieces=observation_tokens.piece_table(WORDS, env.pieces),
    actions=action_parsing.action_table(WORDS, env.actions),
    tasks=jax.tree.map(jnp.asarray, tasks),
    env=env,
  )


@functools.cache
def params():
  """A policy that acts sensibly often enough: action words are likely."""
  p = mesh.init(MODULE.specs, jax.random.key(0))
  ids = [WORDS.encode(a)[0] for a in world().env.actions] + [WORDS.eot]
  push = jnp.zeros_like(p['embed']).at[jnp.array(ids)].add(0.5)
  return {**p, 'embed': p['embed'] + push}


@functools.cache
def acting(name):
  """A policy that says an action of this world and the end of turn, mostly.

  Action words lie along what it thinks at the end of a context; the end of
  turn along what is new of its thought after an action word.
  """
  p = mesh.init(MODULE.specs, jax.random.key(0))
  return taught(p, SHAPE, WORDS, world(name))


def taught(p, shape, words, world):
  """The parameters of such a policy, made of those of any."""
  env = world.env
  _, obs = env.reset(None, jax.tree.map(lambda x: x[0], world.tasks))
  ids = [words.encode(a)[0] for a in env.actions]
  tokens = jnp.array([[*words.encode(base.render_text(env, obs)), ids[0]]])

  @jax.jit
  def thoughts(embed):
    """Before the action word and after it."""
    x = {**p, 'embed': embed}
    return transformer.forward(shape, x, tokens, 0 * tokens)[0, -2:]

  first = thoughts(p['embed'])[0]
  first = first / jnp.sum(first**2)
  embed = p['embed'].at[jnp.array(ids)].add(9 * first)
  after = thoughts(embed)[1]
  after = after - first * jnp.dot(after, first) / jnp.sum(first**2)
  embed = embed.at[words.eot].add(12 * after / jnp.sum(after**2))
  return {**p, 'embed': embed}


@functools.cache
def program(name, history, window, slots, context):
  plan = jit_rollout.RolloutSizes(
    slots=slots,
    turns=5,
    message=2,
    history=history,
    window=window,
    context=context,
  )
  a = make_attempts(np.arange(12) // 4 % 6, 4, 5, 1.0)
  w = world(name)  # made outside of the trace

  @jax.jit
  def play(params, key):
    speaker = actor.model(SHAPE, params, message=2, eot=WORDS.eot)
    return jit_rollout.rollout(w, plan, speaker, a, key)

  return plan, a, play


def rollout(name, history, window, slots, key=0, context=0, policy_params=None):
  plan, a, play = program(name, history, window, slots, context)
  return plan, a, play(policy_params or params(), jax.random.key(key))


def rows_of(name, plan, record):
  def rows(record):
    layout = record_lib.per_turn(record)
    if plan.history == 'full':
      width = jit_rollout.row_tokens(world(name), plan)
      layout = record_lib.full_history(record, width)
    return record_lib.rows(record, layout, version=0)

  return jax.jit(rows)(record)


MODES = [
  ('turn', 1),
  pytest.param('turn', 3, marks=pytest.mark.nightly),
  ('full', 1),
]


@pytest.mark.parametrize(
  'name', ['sokoban', pytest.param('frozen_lake', marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize(('history', 'window'), MODES)
def test_sampled_log_probs_are_the_learners(name, history, window):
  plan, _, record = rollout(name, history, window, slots=4)
  rows = rows_of(name, plan, record)
  micro = rows.tokens.shape[0] // 4
  score = functools.partial(microbatch.forward, MODULE.apply)
  out = jax.jit(score, static_argnums=(2, 3))(params(), rows, ('logp',), micro)
  assert int(rows.sampled.sum()) == int(record.message_len.sum()) > 50
  np.testing.assert_allclose(out.logp, rows.logp, atol=1e-5, rtol=0)
  assert np.all(np.asarray(rows.logp)[np.asarray(rows.sampled)] < 0)


@pytest.mark.parametrize(
  ('history', 'window'),
  [
    ('turn', 1),
    *(
      pytest.param(*x, marks=pytest.mark.nightly)
      for x in (('turn', 3), ('full', 1))
    ),
  ],
)
def test_slots_do_not_matter(history, window):
  """Waiting trajectories start in free slots and draw what they would draw."""
  few, many = (rollout('sokoban', history, window, slots=s)[2] for s in (4, 12))
  for name in ('context', 'message', 'action', 'reward', 'valid', 'status'):
    np.testing.assert_array_equal(getattr(few, name), getattr(many, name))
  np.testing.assert_allclose(few.logp, many.logp, atol=1e-5)


def test_a_slot_forgets_the_exchanges_of_its_last_trajectory():
  """What is read in a window is the same in a slot of one's own."""
  n, turns = 6, 4
  w = world()
  words = [WORDS.encode(a)[0] for a in w.env.actions]
  said = np.random.default_rng(0).choice(words, (n, turns, 1))
  said = np.concatenate([said, np.full_like(said, WORDS.eot)], axis=2)
  attempts = make_attempts(np.arange(n) % 6, 1, turns, 1.0)

  def read(slots):
    plan = jit_rollout.RolloutSizes(
      slots=slots, turns=turns, message=2, history='turn', window=3
    )
    speaker = actor.scripted(jnp.asarray(said), jnp.full((n, turns), 2))
    play = jax.jit(
      lambda key: jit_rollout.rollout(w, plan, speaker, attempts, key)
    )
    return play(jax.random.key(0))

  shared, own = read(2), read(n)
  assert np.asarray(own.valid).sum() > 2 * n
  np.testing.assert_array_equal(shared.valid, own.valid)
  np.testing.assert_array_equal(shared.context_len, own.context_len)
  np.testing.assert_array_equal(shared.context, own.context)
  # The first turn is as long as its observation, and later ones longer.
  length = np.asarray(own.context_len)
  assert (length[:, 1] > length[:, 0]).all()


def test_group_members_and_steps_differ_and_seeds_repeat():
  _, a, one = rollout('sokoban', 'turn', 1, slots=12)
  _, _, two = rollout('sokoban', 'turn', 1, slots=12, key=1)
  _, _, again = rollout('sokoban', 'turn', 1, slots=12)
  for group in range(3):
    mine = np.asarray(one.message)[a.group == group].reshape(4, -1)
    assert len({tuple(x) for x in mine}) == 4
  assert np.any(np.asarray(one.message) != np.asarray(two.message))
  for x, y in zip(jax.tree.leaves(again), jax.tree.leaves(one), strict=True):
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize('name', ['sokoban', 'frozen_lake'])
def test_the_record_is_the_game_that_was_played(name):
  """Replays every trajectory in the environment, one turn at a time."""
  _, a, record = rollout(name, 'turn', 1, slots=4, policy_params=acting(name))
  w = world(name)
  reset, step = jax.jit(w.env.reset), jax.jit(w.env.step)
  record = jax.device_get(record)
  assert int((record.action >= 0).sum()) > 20, 'it acts'
  keys = jax.vmap(jax.random.fold_in, (None, 0))(
    jax.random.key(0), jnp.arange(12)
  )
  ends = set()
  for b in range(12):
    task = jax.tree.map(lambda x, b=b: x[a.task[b]], w.tasks)
    state, obs = reset(jax.random.fold_in(keys[b], 0), task)
    done, turns = False, 0
    for k in range(5):
      if done:
        break
      text = base.render_text(w.env, obs)
      n = int(record.context_len[b, k])
      assert WORDS.decode(record.context[b, k, :n].tolist()) == text
      said = record.message[b, k, : record.message_len[b, k]].tolist()
      said = said[:-1] if said[-1] == WORDS.eot else said
      moves = list(w.env.actions)
      action = (
        moves.index(WORDS.decode(said)) if WORDS.decode(said) in moves else -1
      )
      assert action == int(record.action[b, k])
      key = jax.random.fold_in(jax.random.fold_in(keys[b], k + 1), 1)
      state, obs, reward, done = step(state, jnp.int32(action), key)
      np.testing.assert_allclose(record.reward[b, k], reward, rtol=1e-6)
      turns += 1
    assert int(record.valid[b].sum()) == turns
    assert np.all(record.valid[b, :turns])
    score = float(w.env.score(state))
    assert float(record.outcome[b]) == score
    want = Status.TURN_LIMIT
    if done:
      want = Status.SOLVED if score else Status.FAILED
    assert int(record.status[b]) == want
    ends.add(want)
  assert name == 'sokoban' or len(ends) > 1, 'some lakes are left early'


@pytest.mark.parametrize(('spare', 'turns'), [(0, 2), (-1, 1)])
def test_a_full_context_ends_the_trajectory(spare, turns):
  """Room for two turns of full length, and for one token less."""
  plan = jit_rollout.RolloutSizes(slots=4, turns=5, message=2, history='full')
  room = 2 * (jit_rollout.context_tokens(world(), plan) + 2) + spare
  plan, _, record = rollout('sokoban', 'full', 1, slots=4, context=room)
  ended = np.asarray(record.status) == Status.TOKEN_LIMIT
  assert ended.sum() >= 10
  assert np.all(np.asarray(record.valid)[ended].sum(axis=1) == turns)
  rows = rows_of('sokoban', plan, record)
  assert int(rows.sampled.sum()) == int(record.message_len.sum())


@functools.cache
def single_turns(history: str, group: int):
  """Record of one turn of 20 attempts, eight at a time: four slots end idle."""
  plan = jit_rollout.RolloutSizes(slots=8, turns=1, message=4, history=history)
  a, w = make_attempts(np.arange(20) // 4, 4, 1, 1.0), world()

  @jax.jit
  def play(params, key):
    speaker = actor.model(SHAPE, params, message=4, eot=WORDS.eot, group=group)
    return jit_rollout.rollout(w, plan, speaker, a, key)

  return play(params(), jax.random.key(0))


def check_equal(got, want):
  for name in ('context', 'message', 'action', 'reward', 'valid', 'status'):
    np.testing.assert_array_equal(getattr(got, name), getattr(want, name))
  np.testing.assert_allclose(got.logp, want.logp, atol=1e-5)
  np.testing.assert_allclose(got.entropy, want.entropy, atol=1e-4)


@pytest.mark.parametrize(
  'history', ['turn', pytest.param('full', marks=pytest.mark.nightly)]
)
def test_groups_that_hold_their_prompt_once_play_the_same(history, monkeypatch):
  monkeypatch.setattr(actor, 'HELD_ONCE', 1)
  check_equal(single_turns(history, 4), single_turns(history, 1))


def test_one_turn_is_the_same_in_either_history():
  check_equal(single_turns('full', 1), single_turns('turn', 1))


@pytest.mark.nightly
def test_turns_that_part_play_the_same(monkeypatch):
  """Groups begin in families, and are on their own where they differ."""
  monkeypatch.setattr(actor, 'HELD_ONCE', 1)
  plan, a, w = *program('sokoban', 'turn', 1, 4, 0)[:2], world()

  @jax.jit
  def play(params, key):
    speaker = actor.model(SHAPE, params, message=2, eot=WORDS.eot, group=4)
    return jit_rollout.rollout(w, plan, speaker, a, key)

  got = play(acting('sokoban'), jax.random.key(0))
  want = rollout('sokoban', 'turn', 1, 4, policy_params=acting('sokoban'))[2]
  check_equal(got, want)
