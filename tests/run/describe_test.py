"""What a run says of itself."""

import types

import numpy as np
import pytest

from agentrl.configs import grpo, stages
from agentrl.run import describe


@pytest.mark.parametrize(
  ('program', 'this', 'other'),
  [
    (
      'experiments/train.py',
      ['python', '-m', 'experiments.train'],
      ['python', '-m', 'experiments.view'],
    ),
    ('/usr/bin/agentrl train', ['agentrl', 'train'], ['agentrl', 'view']),
  ],
)
def test_a_command_is_repeated_as_it_was_given(
  program, this, other, monkeypatch
):
  monkeypatch.setattr('sys.argv', [program, '--workdir=w'])
  assert describe.main() == this
  assert describe.main('view') == other
  assert describe.command() == [*this, '--workdir=w']


@pytest.mark.parametrize(
  ('program', 'command'),
  [
    ('mine/study.py', ['python', 'mine/study.py', '--workdir=w']),
    ('ipykernel_launcher.py', []),
    ('', []),
  ],
)
def test_what_is_no_command_is_not_repeated_as_one(
  program, command, monkeypatch
):
  monkeypatch.setattr('sys.argv', [program, '--workdir=w'])
  assert describe.command() == command


def test_a_run_opens_with_a_line():
  c = grpo.get_config('tiny')
  c.sft.steps, c.steps, c.seed = 5, 7, 3
  text = describe.opening([c], ['runs/a'], stages.plans(c))
  assert text.startswith('grpo on sokoban: 5 sft and 7 rl steps, seed 3, on ')
  assert text.endswith(', in runs/a')
  c.init = 'runs/warm'
  assert ': 7 rl steps' in describe.opening([c], ['runs/a'], stages.plans(c))


def experiment(name, host=None, actions=(), **env):
  """What `task_name` looks at."""
  return types.SimpleNamespace(
    config=types.SimpleNamespace(env=types.SimpleNamespace(name=name, **env)),
    on_host=host is not None,
    world=types.SimpleNamespace(
      env=types.SimpleNamespace(height=6, width=7, boxes=2),
      family=types.SimpleNamespace(name=lambda: host),
    ),
    test=types.SimpleNamespace(actions=np.array(actions)),
  )


# Two moves, five, and a level that no plan is known of.
PLANS = [[0, 1, -1, -1, -1], [3, 2, 1, 0, 0], [-1, -1, -1, -1, -1]]


@pytest.mark.parametrize(
  ('made', 'name'),
  [
    (experiment('countdown', host='countdown-4'), 'countdown-4'),
    (
      experiment('frozen_lake', height=4, width=5, slip=True),
      'FrozenLake 4x5, slippery',
    ),
    (
      experiment('frozen_lake', height=4, width=5, slip=False),
      'FrozenLake 4x5, not slippery',
    ),
    (
      experiment('bifurcation', length=6, choices=3, slip=0.25),
      'Bifurcation, 6 turns, 3 choices, slip 0.25',
    ),
    (
      experiment('bifurcation', length=6, choices=3, slip=0.0),
      'Bifurcation, 6 turns, 3 choices',
    ),
    (experiment('another'), 'another'),
    (
      experiment('sokoban', actions=PLANS, levels=''),
      'Sokoban 6x7, 2 box(es), 2-5 moves',
    ),
    (
      experiment('sokoban', actions=PLANS[2:], levels='of/mine.txt'),
      'mine.txt 6x7, 2 box(es)',
    ),
  ],
)
def test_worlds_are_named_by_what_makes_them_hard(made, name):
  assert describe.task_name(made) == name
