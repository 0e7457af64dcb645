"""Bifurcation: rules by hand, truth by counting, splits, rollouts, learning."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import loop
from agentrl.configs import grpo
from agentrl.env import splits
from agentrl.env.jit import base, bifurcation
from agentrl.env.jit.bifurcation import Bifurcation, Bifurcations
from agentrl.learner import update
from agentrl.run import build
from agentrl.run.play import collect, demonstrations, jit_sampler
from agentrl.run.stage import sft_stages
from agentrl.task.base import make_attempts
from tests import errors
from tests.env.jit import tasks as jit_tasks

LEFT, RIGHT, UP, DOWN = range(4)
KEY = jax.random.key(0)


def start(env, decisive=1, right=RIGHT, filler=(0, 25)):
  task = {
    'decisive': np.int32(decisive),
    'right': np.int32(right),
    'filler': np.array(filler, np.int32),
  }
  state, obs = env.reset(KEY, task)
  return state, base.render_text(env, obs)


@pytest.mark.parametrize(
  ('actions', 'mark', 'won', 'facts'),
  [
    ([UP, RIGHT, LEFT, LEFT], '+', 1, (0, 0.75, 1)),
    ([RIGHT, UP, RIGHT, RIGHT], '!', 0, (-1, -0.25, 1)),
  ],
)
def test_the_decisive_choice_wins_or_loses_at_the_end(
  actions, mark, won, facts
):
  env = Bifurcation(length=3, filler=2)
  state, text = start(env)
  assert text == '0-az\n'
  state, texts, rewards, dones, info = jit_tasks.walk(env, state, actions)
  assert texts == ('1Raz\n', f'2{mark}az\n', *[f'3{mark}az\n'] * 2)
  assert rewards == (0, 0, won, 0)
  assert dones == (False, False, True, True)
  assert env.score(state) == won
  assert info == ((0, 0, 0), facts, (0, 0, 0), (0, 0, 0))


def test_a_message_that_was_not_understood_costs_and_loses():
  env = Bifurcation(length=2, filler=2, slip=1.0)
  state, _, rewards, dones, info = jit_tasks.walk(
    env, start(env)[0], [-1, -1, -1]
  )
  assert rewards == (-0.1, -0.1, 0)
  assert dones == (False, True, True)
  assert env.score(state) == 0
  assert info == ((0, -0.1, 0), (-0.25, -0.35, 1), (0, 0, 0))


def test_slips_are_as_likely_as_the_rules_say():
  env = Bifurcation(length=3, filler=2, slip=0.4)
  state = start(env, decisive=0)[0]
  keys = jax.random.split(KEY, 4000)
  step = jax.jit(jax.vmap(env.step, (None, None, 0)))
  won = [
    np.mean(step(state, jnp.int32(a), keys)[0].mark == bifurcation.WON)
    for a in (RIGHT, LEFT, -1)
  ]
  # 5 standard deviations of a share at 4,000 draws are below 0.04.
  np.testing.assert_allclose(won, [0.7, 0.1, 0], atol=0.04)


def enumerated(env, decisive, right, actions):
  """Q - V of each action under the uniform policy, over all that may follow.

  In float64: every sequence of actions and every slip, by their probability.
  """
  a, n = env.choices, env.length

  def value(k, mark):
    """Expected reward from turn k on; mark: None, True or False."""
    if k == n:
      return float(mark is True)
    return sum(q(k, mark, action) for action in range(a)) / a

  def q(k, mark, action):
    if k != decisive:
      return value(k + 1, mark)
    if action < 0:
      return value(k + 1, False)
    meant = (1 - env.slip) * value(k + 1, action == right)
    slipped = sum(value(k + 1, x == right) for x in range(a)) / a
    return meant + env.slip * slipped

  out, mark = [], None
  for k, action in enumerate(actions):
    price = env.invalid_reward * (action < 0)
    out.append(q(k, mark, action) + price - value(k, mark))
    mark = action == right if k == decisive else mark
  return out


@pytest.mark.parametrize('slip', [0.0, 0.3])
def test_truth_against_enumeration(slip):
  """Every task, every sequence of actions, in one call."""
  env = Bifurcation(length=3, choices=3, filler=0, slip=slip)
  tasks = list(itertools.product(range(3), range(3)))
  plays = list(itertools.product(range(-1, 3), repeat=3))
  cases = list(itertools.product(tasks, plays))
  decisive, right = np.array([t for t, _ in cases]).T

  @jax.jit
  @jax.vmap
  def truth(decisive, right, actions):
    task = {'decisive': decisive, 'right': right, 'filler': jnp.zeros(0, int)}

    def turn(state, action):
      after = env.step(state, action, KEY)[0]
      return after, env.info(state, action, after)['truth']

    return jax.lax.scan(turn, env.reset(KEY, task)[0], actions)[1]

  got = truth(decisive, right, np.array([p for _, p in cases]))
  want = [enumerated(env, d, r, p) for (d, r), p in cases]
  np.testing.assert_allclose(got, want, atol=1e-6)


def test_splits_are_disjoint_and_repeat():
  source = Bifurcations(length=3, filler=2)
  train, test = (list(source.tasks(s, 200, 0)) for s in splits.SPLITS)
  keys = [{x.key for x in split} for split in (train, test)]
  assert len(keys[0]) == len(keys[1]) == 200
  assert not keys[0] & keys[1]
  again = list(source.tasks('train', 200, 0))
  assert [x.key for x in again] == [x.key for x in train]
  assert [x.actions for x in again] == [x.actions for x in train]
  with pytest.raises(ValueError):
    list(Bifurcations(length=2, choices=2, filler=0).tasks('train', 9, 0))


def test_demonstrations_win_and_wander():
  source = Bifurcations(length=4, filler=1)
  env = bifurcation.env_for(source, invalid_reward=-0.5)
  assert env == Bifurcation(4, 4, 0.0, 1, invalid_reward=-0.5)
  solved = list(source.tasks('train', 60, 0))
  state = jax.vmap(env.reset, (None, 0))(KEY, jit_tasks.stack(solved))[0]
  ways = np.array([x.actions for x in solved])
  step = jax.jit(jax.vmap(env.step, (0, 0, None)))
  for actions in ways.T:
    state = step(state, actions, KEY)[0]
  np.testing.assert_array_equal(jax.vmap(env.score)(state), 1)
  assert {len(set(column)) for column in ways.T} == {4}


def test_settings_that_cannot_be():
  for fields in ({'choices': 1}, {'choices': 9}, {'length': 0}, {'slip': 1.5}):
    with errors.raises(ValueError, next(iter(fields))):
      Bifurcation(**fields)
  env = Bifurcation(filler=3)
  with errors.raises(ValueError, 'filler 3'):
    start(env)


def tiny(folder, **rollout):
  """An untrained run of the smallest kind."""
  c = grpo.get_config('tiny,env=bifurcation')
  c.data = folder
  c.env.update(dict(train=16, test=4, length=3))
  c.model.update(dict(layers=1))
  c.rollout.update(dict(batch=16, max_turns=3, slots=16, **rollout))
  c.sft.update(dict(batch=16, steps=40))
  c.micro_batch = 16
  return build.experiment(c)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return str(tmp_path_factory.mktemp('data'))


@pytest.mark.parametrize('history', ['turn', 'full'])
def test_states_repeat_across_a_group(history, folder):
  s = tiny(folder, history=history)
  said, length = demonstrations.messages(s)
  index = np.repeat(np.arange(4), 4)
  attempts = make_attempts(index, 4, 3, 1.0)
  # Everybody follows the way of task 0: some lose.
  batch = jax.jit(functools.partial(collect.demonstrate, s))(
    attempts, said[np.zeros(16, int)], length[np.zeros(16, int)], KEY
  )
  assert np.all(batch.turns.valid)
  won = (
    s.train.tasks['right'][index]
    == s.train.actions[0, s.train.tasks['decisive'][index]]
  )
  np.testing.assert_array_equal(batch.outcome, won)
  state = np.asarray(batch.turns.state).reshape(4, 4, 3)
  assert np.all(state == state[:, :1])  # same task, same choices: same states
  assert len(np.unique(state)) == 12
  told = batch.turns.terms
  np.testing.assert_array_equal(
    np.argmax(told['decisive'], 1), s.train.tasks['decisive'][index]
  )
  np.testing.assert_allclose(
    np.sum(told['truth'], 1), np.where(won, 0.75, -0.25)
  )


@pytest.mark.nightly
def test_a_warm_start_learns_it(folder):
  s = tiny(folder)
  stage = sft_stages.sft_stage(s, 0, 40, jit_sampler.JitSampler(s))
  state = update.init(s.warm, KEY)
  losses, update_state = [], loop.jit_update(stage.algorithm)
  for step in range(40):
    batch, _ = stage.collect(state, stage.task(state, step), step)
    state, told, _ = update_state(state, batch)
    losses.append(float(told['loss/total'][0]))
  # Saying nothing but actions, ln 4 on two turns of three and an end of turn
  # each: 0.46 nats a token.
  assert losses[0] > 5
  assert np.mean(losses[-5:]) < 0.7
