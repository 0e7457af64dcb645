"""Splits, keys, the drawing of distinct tasks, and what methods return."""

import dataclasses

import numpy as np
import pytest

from agentrl.configs import envs
from agentrl.env import splits
from agentrl.env.jit import base, bifurcation
from agentrl.run import config_file
from agentrl.run.play import jit_env
from tests import errors


class Letters:
  """The least an env needs for its text."""

  pieces = ('a', 'bc', '\n')


def test_text_joins_pieces_up_to_the_end():
  obs = np.array([1, 0, 2, -1, -1])
  assert base.render_text(Letters(), obs) == 'bca\n'


def test_key_is_that_of_all_eight_forms_and_no_other():
  board = np.array([[1, 2, 0], [0, 3, 0]], np.uint8)
  forms = [np.rot90(b, k) for b in (board, board[:, ::-1]) for k in range(4)]
  keys = {splits.symmetric_key(form) for form in forms}
  assert len(keys) == 1
  other = board.copy()
  other[0, 0] = 2
  assert splits.symmetric_key(other) not in keys
  # The shape counts too: the same bytes in other rows are another board.
  assert splits.symmetric_key(board.reshape(1, 6)) not in keys


def test_a_fifth_of_the_keys_is_test():
  keys = [splits.content_key(str(i).encode()) for i in range(5000)]
  share = np.mean([splits.split_of(key) == 'test' for key in keys])
  assert 0.18 < share < 0.22
  # Which fifth may never change: what was held out would be trained on.
  assert [splits.split_of(f'{i:016x}') for i in (0, 1, 4, 5)] == [
    'test',
    'train',
    'train',
    'test',
  ]


def test_content_key_is_the_same_in_every_process():
  assert splits.content_key(b'agentrl') == '7079fbc09a3794ba'


def test_distinct_tasks_gives_up_in_one_sentence():
  keys = [splits.content_key(str(i).encode()) for i in range(40)]
  train = {key for key in keys if splits.split_of(key) == 'train'}
  rng = np.random.default_rng(0)

  def draw():
    i = rng.integers(50)
    return (keys[i], i) if i < 40 else None

  def finish(key, draft):
    return base.SolvedTask({}, [draft], key)

  found = splits.distinct_tasks(draw, finish, 'train', len(train), 2000)
  assert {task.key for task in found} == train
  more = splits.distinct_tasks(draw, finish, 'train', len(train) + 1, 2000)
  with errors.raises(ValueError, f'{len(train)} {len(train) + 1}'):
    list(more)


def test_refused_drafts_are_finished_once():
  asked = []
  key = next(
    k
    for k in (splits.content_key(str(i).encode()) for i in range(99))
    if splits.split_of(k) == 'train'
  )

  def refuse(key, draft):
    asked.append(key)

  with errors.raises(ValueError, '0 1 train'):
    list(splits.distinct_tasks(lambda: (key, 0), refuse, 'train', 1, 50))
  assert asked == [key]


@pytest.mark.parametrize(
  ('split', 'seed', 'message'),
  [('valid', 0, 'valid'), ('train', -1, '-1')],
)
def test_wrong_split_or_seed(split, seed, message):
  with errors.raises(ValueError, message):
    splits.split_rng(split, seed)


@pytest.mark.parametrize('name', envs.JITTED)
def test_environments_return_what_the_protocol_says(name):
  source, env = jit_env.environment(config_file.load(f'grpo:env={name}'))
  (solved,) = source.tasks('train', 1, 0)
  base.check(env, solved.task, np.array(solved.actions))


@dataclasses.dataclass(frozen=True)
class Fork(bifurcation.Bifurcation):
  """Bifurcation with what a test replaces."""


SOLVED = next(bifurcation.Bifurcations().tasks('train', 1, 0))


@pytest.mark.parametrize(
  ('method', 'wrong', 'names'),
  [
    ('reset', lambda out: out[0], 'int32[7]'),
    ('reset', lambda out: (out[0], out[1][1:]), 'int32[7] int32[6]'),
    ('step', lambda out: (out[0].turn, *out[1:]), '.turn'),
    ('step', lambda out: (out[0], out[1] * 1.0, *out[2:]), 'float32[7]'),
    ('step', lambda out: (*out[:2], out[2][None], out[3]), 'float32[1]'),
    ('step', lambda out: (*out[:3], out[3] * 1), 'bool[] int32[]'),
    ('step', lambda out: out[:3], 'bool[]'),
    ('score', lambda out: out > 0, 'float32[] bool[]'),
    ('info', lambda out: out | {'more': out['truth']}, 'more'),
    ('info', lambda out: {'truth': out['truth']}, 'progress'),
    ('info', lambda out: out if out['truth'] > 0 else {}, 'where'),
  ],
)
def test_another_shape_is_refused(method, wrong, names, monkeypatch):
  right = getattr(Fork, method)

  def changed(*args):
    return wrong(right(*args))

  changed.__qualname__ = f'Fork.{method}'
  monkeypatch.setattr(Fork, method, changed)
  with errors.raises(ValueError, f'Fork.{method} {names}'):
    base.check(Fork(), SOLVED.task, np.array(SOLVED.actions))


@pytest.mark.parametrize('action', [4, -2])
def test_a_demonstration_of_no_action_is_refused(action):
  with errors.raises(ValueError, f'4 Fork {action}'):
    base.check(Fork(), SOLVED.task, np.array([[0, action]]))
