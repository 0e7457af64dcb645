"""Searches by the policy of a run, inside jit and in host environments."""

import pathlib

import pytest

from agentrl.configs import grpo, oprl
from agentrl.env.worlds.countdown import Countdown
from agentrl.env.worlds.household import Household
from agentrl.lab.search import command, opened, searchers
from agentrl.log import trajectories
from agentrl.run import runner
from tests import errors
from tests.rollout import host_test as hosts
from tests.rollout import jit_test as rollouts
from tests.run.small_configs import SMALL

ALL = tuple(searchers.SEARCHERS)


def test_what_does_not_fit_is_refused():
  with errors.raises(ValueError, '--searchers mtcs'):
    command.check(['mcts', 'mtcs'], 'truth')
  with errors.raises(ValueError, '--evaluator true'):
    command.check(['mcts'], 'true')
  with errors.raises(ValueError, '--evaluator beam outcome'):
    command.check(['mcts', 'beam'], 'outcome')
  for of_ends in ('learned_ends', 'random'):
    with errors.raises(ValueError, f'--evaluator lookahead {of_ends}'):
      command.check(['mcts', 'lookahead'], of_ends)
  command.check(['mcts', 'sample'], 'outcome')
  command.check(['beam'], 'likelihood')


def test_which_worlds_value_their_states():
  for family, known in ((Household(), True), (Countdown(), False)):
    assert opened.knows_values(hosts.stage(family, [])) == known
  assert opened.knows_values(rollouts.world())


def trained(c, folder, **changes):
  small = {**SMALL, 'steps': 0, 'sft.steps': 2, 'data': str(folder / 'data')}
  for path, value in {**small, **changes}.items():
    node, *rest = path.split('.')
    if rest:
      c[node][rest[0]] = value
    else:
      c[node] = value
  runner.run(c, str(folder / 'run'))
  return str(folder / 'run')


def row(text, name):
  (line,) = [x for x in text.splitlines() if x.startswith(f'| {name} |')]
  return line.split('|')


def total(cells):
  """Tokens read and reused."""
  return float(cells[10]) + float(cells[11])


def success(text, name):
  return float(row(text, name)[2].split('%')[0])


@pytest.mark.nightly
def test_searches_inside_jit(tmp_path):
  run = trained(oprl.get_config('tiny'), tmp_path)
  how = dict(calls=24, tasks=4, logged=2)
  text = command.search_run(run, ALL, **how)
  assert success(text, 'best_of_n') >= success(text, 'sample')
  (folder,) = pathlib.Path(run, 'evaluations').iterdir()
  log = trajectories.Log(str(folder / 'mcts'))
  logged = [log[i] for i in range(len(log))]
  nodes = [[turn['node'] for turn in x['turns']] for x in logged]
  assert len(log) > 2
  assert len({x[0] for x in nodes}) < len(nodes)  # a first turn is shared
  learned = command.search_run(
    run, ['mcts'], evaluator='learned', out=str(tmp_path / 'out'), **how
  )
  assert 0 <= success(learned, 'mcts') <= 100


@pytest.mark.slow
def test_searches_in_a_host_environment(tmp_path):
  c = grpo.get_config('tiny,env=household')
  run = trained(c, tmp_path, **{'rollout.max_turns': 6})
  names = ['sample', 'best_of_n', 'mcts', 'vote', 'vote_paths']
  how = dict(calls=10, tasks=3, logged=1)
  text = command.search_run(run, names, evaluator='outcome', **how)
  assert all(0 <= success(text, name) <= 100 for name in names)
  of_one = command.search_run(run, ['sample', 'vote'], width=1, **how)
  alone, voted = (row(of_one, name) for name in ('sample', 'vote'))
  # All but the difference from `sample`, and what was read anew or reused:
  # which slot still has a past depends on when environments answer.
  assert alone[2] == voted[2]
  assert alone[4:10] == voted[4:10]
  assert alone[12:] == voted[12:]
  assert total(alone) == pytest.approx(total(voted), abs=0.11)
  command.search_run(run, ['lookahead'], **how)  # by its potential
  with errors.raises(ValueError, '--evaluator learned grpo'):
    command.search_run(run, ['mcts'], evaluator='learned', **how)
