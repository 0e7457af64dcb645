"""Which methods to try, chosen by the board's numbers.

The methods of the board are sorted by what they ask for. Of each sort the one
is named that is above GRPO in most worlds, after Holm's correction, and among
equals the one with the largest mean gain.
"""

import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

from agentrl.configs.studies import board as study
from docs.generate import board

LANGUAGE = 'language'  # study of step rewards with a language model
REFERENCE = 'grpo'
# What a method asks for -> the methods of the board that do.
SORTS: Mapping[str, tuple[str, ...]] = {
  'outcomes only': (*study.OUTCOME, *study.LOSS),
  'states that recur within a group': study.TURN,
  'a score for every turn, from the environment': ('vpr', 'vpr_turn'),
  'a critic': (*study.CRITIC, 'td_critic'),
  'a process reward model': (*study.LEARNED, 'td_prm', 'td_prm_outcome'),
}
_TEXT = """\
Start with {reference}: it trains no second network, and the best method that
sees outcomes only, {outcome}, is a few points above it. Change one thing at a
time, and tune the learning rate of each method: at one common rate the sign of
a difference can turn. All of this was measured with small models in small
worlds; measure in yours.
"""
_CAPTION = """\
Points of the area under the success curve above GRPO, each method at its tuned
rate [95% interval]; **bold** where Holm's correction leaves it above or below
zero. The first {n} columns are the worlds of the [board](BOARD.md), where
policies are tables; the others are [bifurcations played by a language
model](results/language.md). A row shows the method of its kind that is above
GRPO in most worlds of the board.
"""
_DIFFER = """\
**Where the two disagree.** {method} gains {language} points in a bifurcation of
10 turns that a language model plays and {board} in the board's. The difference
is room: over the budget GRPO averages {low} success in the former and {high} in
the latter, where no method is above it, not even one that is given the right
turn ({scored}). Learned process rewards gain on the board ({learned}) but were
not seen to gain with a language model.
"""


class Pick(NamedTuple):
  """A method and what it asks for."""

  needs: str
  method: str


def picks(report: Mapping[str, Any]) -> list[Pick]:
  """Returns the method to try for everything that one may have."""
  gains = [board.gains(env) for env in report['envs'].values()]

  def rank(name: str) -> tuple[int, float]:
    rows = [of[name] for of in gains if name in of]
    above = sum(x['holm'] < 0.05 and x['mean'] > 0 for x in rows)
    return above, sum(x['mean'] for x in rows)

  return [Pick(needs, max(arms, key=rank)) for needs, arms in SORTS.items()]


def text(board_report: Mapping, language: Mapping, folder: str) -> str:
  """Returns the advice as Markdown.

  Args:
    folder: of the pages of methods, as links have it
  """
  chosen = picks(board_report)
  link = {x.needs: f'[{x.method}]({folder}/{x.method}.md)' for x in chosen}
  worlds = list(board_report['envs'].values())
  played = list(language['envs'].values())
  heads = [f'{x["label"].partition(":")[0]}, tables' for x in worlds]
  heads += [
    f'{x["label"].partition(" and ")[0]}, language model' for x in played
  ]
  start = _TEXT.format(
    reference=f'[{REFERENCE}]({folder}/{REFERENCE}.md)',
    outcome=link['outcomes only'],
  )
  lines = [_filled(start), f'| if you have | try | {" | ".join(heads)} |']
  lines += ['|---|---|' + '---|' * len(heads)]
  for needs, method in chosen:
    cells = [_measured(env, method) for env in (*worlds, *played)]
    lines.append(f'| {needs} | {link[needs]} | {" | ".join(cells)} |')
  lines += ['', _filled(_CAPTION.format(n=len(worlds)))]
  return '\n'.join([*lines, _difference(board_report, language, link)])


def _filled(paragraph: str) -> str:
  return textwrap.fill(paragraph, 80, break_on_hyphens=False) + '\n'


def _measured(env: Mapping, method: str) -> str:
  """Returns the gain of a method, or a dash where it was not measured."""
  row = board.gains(env).get(method)
  return board.gain(row) if row else '–'


def _difference(report: Mapping, language: Mapping, link: Mapping) -> str:
  """Returns the paragraph on the world in which both sides were measured."""
  chosen = {x.needs: x.method for x in picks(report)}
  recur, scored, learned = list(SORTS)[1], list(SORTS)[2], list(SORTS)[4]
  ours, theirs = report['envs']['bifurcation'], language['envs']['turns_10']
  paragraph = _DIFFER.format(
    method=link[recur],
    language=_measured(theirs, chosen[recur]),
    board=_measured(ours, chosen[recur]),
    low=_success(theirs),
    high=_success(ours),
    scored=f'{link[scored]}: {_measured(ours, chosen[scored])}',
    learned=link[learned],
  )
  return _filled(paragraph)


def _success(env: Mapping) -> str:
  arm = env['settings']['tuned']['arms'][REFERENCE]
  return f'{arm["measures"]["area"]["mean"]:.0%}'
