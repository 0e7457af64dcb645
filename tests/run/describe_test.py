"""What a run says of itself."""

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
