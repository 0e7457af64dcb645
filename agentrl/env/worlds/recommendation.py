"""Recommendation: keep a user whose taste is hidden, one item a turn.

  red blue green gray, mug pen hat bag. I like blue
  blue hat
  skip
  blue mug
  click, no more mug
  blue pen
  click

The user clicks or skips an item, and may leave after it has skipped. Now and
then it gives an instruction. What is rewarded is that it stays, after RecoWorld
(arXiv 2509.10397), which describes such a simulator and gives no equations:
those here are ours.
"""

import dataclasses
import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.text.tool_calls.base import spoken

# word -> its worth to the mean user, in units of log-odds.
COLORS = {'red': 0.8, 'blue': 0.3, 'green': -0.3, 'gray': -0.8}
KINDS = {'mug': 0.8, 'pen': 0.3, 'hat': -0.3, 'bag': -0.8}
POPULARITY = COLORS | KINDS
ITEMS = tuple((color, kind) for color in COLORS for kind in KINDS)
LOST = 'Name one item.'
RULES = (
  'Recommend one item in each message, as a color and a kind, such as "red'
  ' mug". The user clicks or skips it, and may leave after it has skipped. An'
  ' item bores the more often it is shown. Do as the user says; make it stay.'
)


@dataclasses.dataclass(frozen=True)
class Recommendation:
  """A task is a user: its taste, what it says first, and an instruction."""

  turns: Annotated[int, domain.Whole(2, 64)] = 6  # of a session
  leave: Annotated[float, domain.UNIT] = 0.4  # chance to leave after a skip
  boredom: Annotated[float, domain.UNIT] = (
    0.5  # factor of the chance of a click for each time an item was shown
  )
  spread: domain.NotNegative = 1.5  # standard deviation of a word's worth
  instructions: Annotated[float, domain.UNIT] = 0.5  # share of users with one
  hints: Annotated[int, domain.Whole(0, 2)] = (
    1  # words that a user says it likes
  )
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = ('clicked', 'left', 'regret', 'progress')
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def system(self) -> str:
    return RULES if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('recommendation', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Recommends what the expert would; see `EnvFamily`.

    The user clicks and leaves by chance, so that a demonstration ends early
    where it leaves: its score is `expert_value` in the mean.
    """
    return task_sampling.drawn(self._draw, self._solve, split, count, seed)

  def expert_value(self, task: Mapping[str, Any]) -> float:
    """Returns the expected score of the expert, which knows the taste; exact.

    It recommends the item most likely to be clicked. That is optimal where no
    instruction comes: the order in which chances fall is the one in which the
    user stays longest. Before an instruction that one could foresee, a policy
    can be a little better by showing first what will be forbidden.
    """
    return self.start(task).value(best_item) / self.turns

  def start(self, task: Mapping[str, Any]) -> 'UserSession':
    """Returns the session of a task before its first turn."""
    return UserSession(self, task)

  def describe(self, task: Mapping[str, Any]) -> str:
    return self.env().reset(task, 0)

  def env(self) -> 'RecommendationEnv':
    return RecommendationEnv(self)

  def _draw(self, rng: np.random.Generator) -> dict[str, Any]:
    taste = {
      word: round(mean + self.spread * float(rng.normal()), 2)
      for word, mean in POPULARITY.items()
    }
    best = [max(words, key=taste.__getitem__) for words in (COLORS, KINDS)]
    forbids = {}
    if rng.random() < self.instructions:
      # It has had enough of a word that it likes best.
      word = best[rng.integers(2)]
      forbids = {'turn': int(rng.integers(1, self.turns)), 'word': word}
    likes = [best[i] for i in rng.permutation(2)[: self.hints]]
    return {'taste': taste, 'likes': likes, 'forbids': forbids}

  def _solve(self, task: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    session, demo = self.start(task), []
    while session.turn < self.turns:
      item = best_item(session)
      demo.append(' '.join(ITEMS[item]))
      session.show(item)
    return task, tuple(demo)


class UserSession:
  """State of a user, and its chances; what happens by chance is not here.

    P(click i) = σ(w[color] + w[kind]) · boredom^(times i was shown before),

  and 0 for an item that the user has forbidden.
  """

  def __init__(self, family: Recommendation, task: Mapping[str, Any]):
    self._family, self._task = family, task
    worth = [
      task['taste'][color] + task['taste'][kind] for color, kind in ITEMS
    ]
    self._chance = 1 / (1 + np.exp(-np.array(worth)))
    self.shown = np.zeros(len(ITEMS), int)
    self.turn = 0  # the next

  @property
  def boredom(self) -> np.ndarray:
    """Factor of each item's chance, [items]."""
    return self._family.boredom**self.shown

  @property
  def chances(self) -> np.ndarray:
    """Chance of a click for each item if it is shown now, [items]."""
    forbids = self._task['forbids']
    obeyed = np.ones(len(ITEMS))
    if forbids and self.turn >= forbids['turn']:
      obeyed = np.array([forbids['word'] not in item for item in ITEMS])
    return self._chance * self.boredom * obeyed

  @property
  def instruction(self) -> str:
    """A word that is forbidden from this turn on; '': none."""
    forbids = self._task['forbids']
    return forbids['word'] if forbids.get('turn') == self.turn else ''

  def show(self, item: int) -> None:
    """Plays a turn with an item; with a negative one nothing is shown."""
    if item >= 0:
      self.shown[item] += 1
    self.turn += 1

  def value(self, policy: Callable[['UserSession'], int]) -> float:
    """Predicts for how many turns the user stays from here on:

      V = Σₜ Πₛ≤ₜ (1 - leave · (1 - P(click iₛ))),  t from the next turn on

    Exact for a policy that does not look at clicks.
    """
    session, stays, total = UserSession(self._family, self._task), 1.0, 0.0
    session.shown, session.turn = self.shown.copy(), self.turn
    while session.turn < self._family.turns:
      item = policy(session)
      stays *= 1 - self._family.leave * (1 - float(session.chances[item]))
      total += stays
      session.show(item)
    return total


def best_item(session: UserSession) -> int:
  """Returns the expert's policy: the item most likely to be clicked."""
  return int(session.chances.argmax())


def item_of(message: str) -> int:
  """Returns the only item that a message names; -1 for none or several."""
  words = set(re.findall(r'[a-z]+', spoken(message).lower()))
  colors, kinds = words & set(COLORS), words & set(KINDS)
  if len(colors) != 1 or len(kinds) != 1:
    return -1
  return ITEMS.index((*colors, *kinds))


class RecommendationEnv:
  """A message without an item wastes its turn like a skip; see `HostEnv`.

  Every turn after which the user has not left is rewarded by 1/turns; the
  score is their sum.
  """

  def __init__(self, family: Recommendation):
    self._family = family

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    self._random = random.Random(seed)
    self._session, self._stayed = self._family.start(task), 0
    self._value = self._session.value(best_item)
    text = f'{" ".join(COLORS)}, {" ".join(KINDS)}.'
    return f'{text} I like {" ".join(task["likes"])}'.removesuffix(' I like ')

  def step(self, message: str) -> Step:
    item, session, turns = item_of(message), self._session, self._family.turns
    chances = session.chances
    chance = float(chances[item]) if item >= 0 else 0.0
    # Two throws in every turn, so that one turn's do not shift the next one's.
    throws = self._random.random(), self._random.random()
    clicked = throws[0] < chance
    left = not clicked and throws[1] < self._family.leave
    session.show(item)
    self._stayed += not left
    before, self._value = self._value, float(self._stayed)
    if not left:
      self._value += session.value(best_item)
    done = left or session.turn == turns
    return Step(
      '' if done else self._reply(item, clicked),
      reward=float(not left) / turns,
      done=done,
      score=self._stayed / turns if done else 0.0,
      invalid=item < 0,
      info={
        'clicked': float(clicked),
        'left': float(left),
        'regret': float(chances.max()) - chance,
        'progress': (self._value - before) / turns,
      },
    )

  def close(self) -> None:
    """Closes nothing."""

  def _reply(self, item: int, clicked: bool) -> str:
    reaction = ('click' if clicked else 'skip') if item >= 0 else LOST
    word = self._session.instruction
    return f'{reaction}, no more {word}' if word else reaction
