"""What stages and evaluations ask of whoever plays, with nobody playing."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.configs import grpo
from agentrl.dataset import jit_tasks
from agentrl.hooks import NothingPlayedError
from agentrl.learner.algorithm import Algorithm
from agentrl.rollout import record as record_lib
from agentrl.run.seed_axis import SeedAxis
from agentrl.run.stage import sft_stages
from agentrl.run.stage import stages as stages_lib
from agentrl.runtime.preemption import Stopped
from agentrl.signal.base import Context
from agentrl.types import Module, Status
from tests import errors, states

TRAIN, TEST, SHOWN = 12, 5, (1, 2, 4, 7, 8, 11)
NEW = states.state()


def _tasks(n, shown):
  actions = np.full((n, 3), -1)
  actions[list(shown), 0] = 0
  return jit_tasks.JitTaskSet({}, actions, [str(i) for i in range(n)])


def _setup(**changes):
  c = grpo.get_config('tiny')
  c.update_from_flattened_dict(
    {
      'sft.steps': 5,
      'sft.batch': 3,
      'steps': 8,
      'seed': 3,
      'rollout.batch': 6,
      'rollout.group_size': 2,
      'rollout.max_turns': 4,
      'rollout.temperature': 0.7,
      'eval.temperature': 0.3,
      'eval.episodes': 15,
      'eval.every': 3,
      'log.eval_trajectories': 0,
      **changes,
    }
  )
  module = Module({}, lambda *args: None)
  learner = Algorithm.from_spec(
    registry.MethodSpec(prefix='none', task='fixed', collect='once'),
    Context({'policy': module}, {}, 1),
  )
  return types.SimpleNamespace(
    config=c,
    train=_tasks(TRAIN, SHOWN),
    test=_tasks(TEST, ()),
    algorithm=learner,
    warm=learner,
    world=None,
    seats=1,
  )


def _state():
  return states.state(params={'policy': {'w': jnp.ones(())}})


class Asked(list):
  """What was asked of the players, in order."""

  def demos(self, index):
    return index

  def replay(self, *args):
    self.append(args)

  def collect(self, *args):
    self.append(args)
    return None, {}

  def update_service_params(self, params):
    pass

  def taken(self):
    return {}

  def play(self, policy, attempts, key):
    """Solves all that have an even index, and a quarter of the others."""
    self.append((policy, attempts, key))
    b = attempts.task.shape[0]
    r = record_lib.empty(b, 2, 1, 1, ())
    even = np.asarray(attempts.task) % 2 == 0
    return r.replace(
      valid=np.stack([np.ones(b, bool), ~even], 1),
      outcome=np.where(even, 1.0, 0.25),
      status=np.where(even, Status.SOLVED, Status.TURN_LIMIT),
    )


def _stages(s, asked):
  names = 'sft', 'rl'
  built = dict.fromkeys(names, (s, asked))
  return list(stages_lib.make_stages(s, names, built))


def _bits(key):
  return tuple(np.asarray(jax.random.key_data(key)).tolist())


def test_the_warm_start_shows_what_has_a_demonstration():
  """Every such task once an epoch, wherever the stage begins."""
  s, asked = _setup(), Asked()
  for start in (0, 4):
    stage = sft_stages.sft_stage(s, start, start + 4, asked)
    first, second, third = (stage.task(NEW, start + i) for i in range(3))
    assert sorted([*first, *second]) == list(SHOWN)
    assert set(third) <= set(SHOWN)


def test_rl_attempts_all_training_tasks_and_no_other():
  s = _setup()
  _, rl = _stages(s, Asked())
  each = TRAIN // 3  # steps of an epoch
  epoch = [rl.task(NEW, 5 + i) for i in range(each)]
  groups = [a.task.reshape(3, 2) for a in epoch]
  assert all(np.all(x[:, 0] == x[:, 1]) for x in groups)
  told = np.concatenate([x[:, 0] for x in groups])
  assert sorted(told) == list(range(TRAIN))
  for a in epoch:
    np.testing.assert_array_equal(a.temperature, np.float32(0.7))
    np.testing.assert_array_equal(a.limit, 4)
  # The first step of the stage is the first of the order; a seed has its own.
  alone = stages_lib.rl_stage(s, 0, 8, Asked())
  np.testing.assert_array_equal(alone.task(NEW, 0).task, epoch[0].task)
  other = stages_lib.rl_stage(_setup(seed=4), 0, 8, Asked())
  told = [
    [a.task(NEW, i).task.tolist() for i in range(4)] for a in (alone, other)
  ]
  assert told[0] != told[1]


def test_every_iteration_has_a_key_of_its_own():
  s, asked = _setup(), Asked()
  warm, rl = _stages(s, asked)
  state = _state()
  for stage in (warm, rl):
    for step in (stage.start, stage.start + 1, stage.start + 1):
      stage.collect(state, stage.task(state, step), step)
  keys = [_bits(args[1]) for args in asked[:3]]
  keys += [_bits(args[2]) for args in asked[3:]]
  assert keys[1] == keys[2]
  assert keys[4] == keys[5]
  assert len(set(keys)) == 4
  versions = [int(args[3]) for args in asked[3:]]
  assert versions == [5, 6, 6]


def test_evaluation_plays_held_out_tasks_at_its_own_temperature():
  s, asked = _setup(), Asked()
  evaluate = stages_lib.eval_hook(SeedAxis(), s, None, asked)
  told = evaluate(_state(), 5)
  every = np.concatenate([a.task for _, a, _ in asked])[:15]
  np.testing.assert_array_equal(every, TRAIN + np.arange(15) % TEST)
  for _, a, _ in asked:
    assert a.task.shape == (6,)
    np.testing.assert_array_equal(a.temperature, np.float32(0.3))
    np.testing.assert_array_equal(a.limit, 4)
  assert len({_bits(key) for *_, key in asked}) == len(asked) == 3
  even = every % 2 == 0
  assert told['eval/solved'] == even.sum()
  assert told['eval/episodes'] == 15
  assert told['eval/tasks'] == TEST
  assert told['eval/success'] == pytest.approx(even.mean())
  assert told['eval/score'] == pytest.approx(np.where(even, 1, 0.25).mean())
  assert told['eval/turns'] == pytest.approx(np.where(even, 1, 2).mean())
  assert told['eval/turns_solved'] == 1
  assert told['eval/ended/solved'] == pytest.approx(even.mean())
  # The same at every step: evaluations are compared with each other.
  asked.clear()
  assert evaluate(_state(), 9) == told


@pytest.mark.parametrize('stop', [0, 1, 2])
def test_a_stop_cuts_an_evaluation_between_its_rounds(stop):
  s, asked, log = _setup(), Asked(), []

  def stopping():
    if len(asked) == stop:
      raise Stopped('SIGTERM')

  evaluate = stages_lib.eval_hook(SeedAxis(), s, log, asked, stopping)
  with pytest.raises(Stopped):
    evaluate(_state(), 5)
  assert len(asked) == stop
  assert not log


@pytest.mark.parametrize('start', [0, 5])
def test_attempts_begin_like_others_from_the_first_step_on(start):
  """What they begin like is made where the stage begins, and found later."""
  told = []
  stage = stages_lib.rl_stage(
    _setup(), start, start + 4, Asked(), opener=told.append
  )
  for step in (start, start + 1, start + 3):
    stage.open(step)
  assert told == [True, False, False]


def test_an_evaluation_is_of_the_stage_that_did_the_step():
  """With its own settings, at its end too."""
  players = Asked(), Asked()
  warm, rl = (
    types.SimpleNamespace(
      name=name,
      start=start,
      end=end,
      experiment=_setup(**{'eval.temperature': temperature}),
      sampler=player,
    )
    for name, start, end, temperature, player in (
      ('sft', 0, 5, 0.25, players[0]),
      ('rl', 5, 13, 0.75, players[1]),
    )
  )
  evaluate = stages_lib.evaluations(SeedAxis(), [warm, rl], None)
  for step, stage, temperature in (
    *((0, 0, 0.25), (4, 0, 0.25), (5, 0, 0.25)),
    *((6, 1, 0.75), (13, 1, 0.75)),
  ):
    for player in players:
      player.clear()
    evaluate(_state(), step)
    assert [bool(x) for x in players] == [stage == 0, stage == 1]
    for _, attempts, _ in players[stage]:
      np.testing.assert_array_equal(attempts.temperature, temperature)


def test_an_evaluation_in_which_nothing_was_played_measures_nothing():
  class Broken(Asked):
    def taken(self):
      raise NothingPlayedError('none of 18 episodes, since x')

  log = []
  s = _setup(**{'log.eval_trajectories': 4})
  evaluate = stages_lib.eval_hook(SeedAxis(), s, log, Broken())
  with errors.raises(NothingPlayedError, '18'):
    evaluate(_state(), 5)
  assert not log


@pytest.mark.parametrize(
  ('names', 'every', 'want'),
  [
    (('sft', 'rl'), 3, {5, 8, 11, 13}),
    (('sft', 'rl'), 0, {5, 13}),
    (('rl',), 3, {0, 3, 6, 8}),
    (('sft',), 3, {3, 5}),
  ],
)
def test_when_evaluations_are_due(names, every, want):
  """At the ends of stages, and every so many steps of the last one."""
  s = _setup(**{'eval.every': every})
  built = dict.fromkeys(names, (s, Asked()))
  stages = list(stages_lib.make_stages(s, names, built))
  due = stages_lib.due(stages)
  assert {step for step in range(stages[-1].end + 1) if due(step)} == want
