"""Text of observations, and what methods return."""

import dataclasses

import numpy as np
import pytest

from agentrl.configs import envs
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
