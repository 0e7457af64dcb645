"""Logs of a shop: predict what a shopper does next.

The sessions come from a scripted shopper (`shopper.py`) in the shop of
`env.py`. An observation shows its searches, its latest clicks and its current
page; its goal stays hidden:

  red medium scarf foldable
  [p32] evren scarf $59.05
  [p97] belto scarf $31.32
  [next]
  Under 40, so the cheap one. click[p97 belto scarf]

The reward terms of Shop-R1 (arXiv 2507.17842) and its action reward are
columns; see `action_reward.py`.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import splits, task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.env.worlds.shop.action_forms import FormName, fields_of, form_of
from agentrl.env.worlds.shop.action_reward import (
  SCALE,
  ActionMatch,
  ShopperAction,
  hierarchical,
  match,
)
from agentrl.env.worlds.shop.env import Shelf, ShopEnv, ask, draw_goal, shelf_of
from agentrl.env.worlds.shop.shopper import LoggedAction, queries, session

RULES = (
  'You see what a shopper searched for, what was clicked last, and the page on'
  ' the screen. Think briefly, then write what the shopper does next, as one of'
  ' {forms}.'
)
_BUDGETS = range(10, 100, 10)  # dollars a shopper may have
_CLICKS = ' > '  # stands between the actions of an observation


@dataclasses.dataclass(frozen=True)
class ShopLogs:
  """A task is part of a session: pages, and the action taken on each.

  The first search is always shown; train and test share no search.
  """

  products: domain.Count = 500  # of the made-up catalogue
  page: domain.Count = 3  # products on a page of results
  history: domain.Count0 = 2  # latest clicks that an observation shows
  actions: domain.Count = 1  # of a session, predicted one after another
  form: FormName = 'short'  # of actions
  difficulty_scale: domain.NotNegative = SCALE  # DARS in `action_value`
  similarity: Annotated[float, domain.UNIT] = 0.0  # a ROUGE-L below it is 0
  rationales: bool = False  # demonstrations say why, in a thought before it
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = (
    'format',
    *ActionMatch._fields,
    'action_value',
  )
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def system(self) -> str:
    return RULES.format(forms=form_of(self.form).teach) if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('shop_logs', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks demonstrated by the logged actions; see `EnvFamily`."""
    rng = splits.split_rng(split, seed)
    shelf = shelf_of('', self.products)
    shop = ShopEnv(shelf, self.page)

    def draw() -> tuple[str, dict[str, Any]] | None:
      task = self._draw(rng, split, shop, shelf)
      return (_key(task, split), task) if task else None

    return splits.distinct_tasks(draw, self._solved, split, count)

  def expert_value(self, task: Mapping[str, Any]) -> float:
    """Returns the score of the log itself, an upper bound for policies.

    The log depends on the shopper's hidden budget, so what an agent sees does
    not always determine the next action and agents score lower.
    """
    golds = [ShopperAction(**step['action']) for step in task['steps']]
    return sum(match(gold, gold).exact for gold in golds) / len(golds)

  def env(self) -> 'ShopLogsEnv':
    return ShopLogsEnv(self)

  def _draw(
    self, rng: np.random.Generator, split: str, shop: ShopEnv, shelf: Shelf
  ) -> dict[str, Any] | None:
    goal = draw_goal(rng, shelf.products, 1)
    # All pages of a session show this search.
    if task_sampling.split(queries(goal)[0]) != split:
      return None
    goal['most'] = int(rng.choice(_BUDGETS))
    log = session(shop, goal)
    if len(log) <= self.actions:
      return None
    first = int(rng.integers(1, len(log) - self.actions + 1))
    steps = [
      {
        'page': f'{recap(log[:i], self.history)}\n{log[i].page}',
        'action': fields_of(log[i].action),
        'why': log[i].why,
      }
      for i in range(first, first + self.actions)
    ]
    return {'goal': ask(goal), 'steps': steps}

  def _solved(self, key: str, task: dict[str, Any]) -> HostTask:
    return HostTask(task, tuple(map(self._demonstrate, task['steps'])), key)

  def _demonstrate(self, step: Mapping[str, Any]) -> str:
    action = form_of(self.form).write(ShopperAction(**step['action']))
    return f'<think>{step["why"]}</think>' * self.rationales + action


def _key(task: Mapping[str, Any], split: str) -> str:
  """Returns a key of the pages that lies in the split of the search.

  Actions do not enter: equal pages with different actions are one task.
  """
  pages = [step['page'] for step in task['steps']]
  keys = (task_sampling.key([i, pages]) for i in itertools.count())
  return next(key for key in keys if splits.split_of(key) == split)


def recap(log: Sequence[LoggedAction], history: int) -> str:
  """Lists all searches and the last `history` clicks after the latest."""
  words, clicks = list[str](), list[str]()
  for x in log:
    if x.action.text:
      words, clicks = [*words, x.action.text], []
    else:
      clicks.append(x.action.name)
  recent = clicks[max(0, len(clicks) - history) :]
  return _CLICKS.join([*words, *recent])


class ShopLogsEnv:
  """Replays the shopper's session, whatever is predicted; see `HostEnv`.

  Reward and score are the share of exact predictions. Deterministic.
  """

  def __init__(self, family: ShopLogs):
    self._family, self._parse = family, form_of(family.form).parse

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    del seed
    self._steps, self._at, self._right = task['steps'], 0, 0.0
    return self._steps[0]['page']

  def step(self, message: str) -> Step:
    action = self._parse(message)
    gold = ShopperAction(**self._steps[self._at]['action'])
    threshold = self._family.similarity
    parts = match(action, gold, threshold=threshold)
    info = {
      'format': float(action is not None),
      **parts._asdict(),
      'action_value': hierarchical(
        action,
        gold,
        dars=self._family.difficulty_scale,
        threshold=threshold,
      ),
    }
    self._at, self._right = self._at + 1, self._right + parts.exact
    done, count = self._at == len(self._steps), len(self._steps)
    return Step(
      '' if done else self._steps[self._at]['page'],
      reward=parts.exact / count,
      done=done,
      score=self._right / count if done else 0.0,
      invalid=action is None,
      info=info,
    )

  def close(self) -> None:
    """Closes nothing."""
