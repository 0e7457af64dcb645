"""The advice follows the board's numbers."""

import copy

from agentrl.configs.studies import board as study
from docs.generate import advice, board, results

REPORTS = results.reports('docs/results')
BOARD, LANGUAGE = REPORTS[board.NAME], REPORTS[advice.LANGUAGE]


def test_every_method_it_weighs_is_on_the_board():
  arms = {arm.name for arm in study.ARMS}
  names = [x for sort in advice.SORTS.values() for x in sort]
  assert len(names) == len(set(names))
  assert set(names) <= arms


def test_a_method_that_gains_in_more_worlds_is_named():
  changed = copy.deepcopy(BOARD)
  for env in changed['envs'].values():
    board.gains(env)['hgpo'].update(mean=0.01, holm=0.001)
  before, after = (dict(advice.picks(x)) for x in (BOARD, changed))
  recur = 'states that recur within a group'
  assert (before[recur], after[recur]) == ('graph_return', 'hgpo')
  assert '[hgpo](x/hgpo.md)' in advice.text(changed, LANGUAGE, 'x')


def test_both_sides_of_a_disagreement_are_shown():
  text = ' '.join(advice.text(BOARD, LANGUAGE, 'methods').split())
  ours, theirs = BOARD['envs']['bifurcation'], LANGUAGE['envs']['turns_10']
  for env in (ours, theirs):
    assert board.gain(board.gains(env)['graph_return']) in text


def test_readme_recommends_the_same():
  with open('README.md', encoding='utf-8') as f:
    section = f.read().partition('## What helps')[2].partition('\n## ')[0]
  best = {x.needs: x.method for x in advice.picks(BOARD)}
  for needs in list(advice.SORTS)[1:3]:
    assert f'`{best[needs]}`' in section
  gain = board.gains(LANGUAGE['envs']['turns_10'])['graph_return']
  assert f'{100 * gain["mean"]:+.1f}' in section
