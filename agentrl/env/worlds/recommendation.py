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

With `asks` the user asks for words, and with `novelty` the agent has to say of
its item whether it is new, as the last message does falsely:

  red blue green gray, mug pen hat bag, new hat bag. I like blue, any pen?
  blue pen old
  click, any red?
  red mug new

Columns then tell four things apart that a recommender is judged by.
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
CLAIMS = ('new', 'old')  # what may be said of an item
IRRELEVANT = 0.5  # factor of the chance for items without the word asked for
LOST = 'Name one item.'
RULES = (
  'Recommend one item in each message, as a color and a kind, such as "red'
  ' mug". The user clicks or skips it, and may leave after it has skipped. An'
  ' item bores the more often it is shown. Do as the user says; make it stay.'
)
ASKING = ' It may ask for a word, which the next item should have.'
CLAIMING = ' Say of each item, truly, whether it is "new" or "old".'
COLUMNS = ('clicked', 'left', 'regret', 'progress')


@dataclasses.dataclass(frozen=True)
class Recommendation:
  """A task is a user: its taste, what it says first, and an instruction.

  With `asks` also the words that it asks for, with `novelty` what is new.
  """

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
  asks: Annotated[float, domain.UNIT] = (
    0.0  # chance that the user asks for a word, before each turn
  )
  novelty: domain.NotNegative = (
    0.0  # log-odds that an item said to be new gains; 0: nothing is new or old
  )
  careless: Annotated[float, domain.UNIT] = (
    0.0  # share of demonstrated messages with any item and claim, or none
  )
  teach: bool = False  # the system text states the rules

  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def columns(self) -> tuple[str, ...]:
    """Of a turn; what is judged beside the click, where the settings ask it."""
    judged = (
      ('followed', self.asks or self.novelty),
      ('relevant', self.asks),
      ('factual', self.novelty),
    )
    return (*COLUMNS, *(name for name, there in judged if there))

  @property
  def system(self) -> str:
    if not self.teach:
      return ''
    asks = ASKING if self.asks else ''
    return RULES + asks + (CLAIMING if self.novelty else '')

  def name(self) -> str:
    return task_sampling.name('recommendation', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Recommends what the expert would; see `EnvFamily`.

    The user clicks and leaves by chance, so that a demonstration ends early
    where it leaves: its score is `expert_value` in the mean, or less if it is
    careless.
    """
    return task_sampling.drawn(self._draw, self._solve, split, count, seed)

  def expert_value(self, task: Mapping[str, Any]) -> float:
    """Returns the expected score of the expert, which knows the taste; exact.

    It recommends the item most likely to be clicked, and says the truth of it.
    That is optimal where no instruction and no question comes: the order in
    which chances fall is the one in which the user stays longest. A policy that
    foresaw them could be a little better, by showing first what will be
    forbidden and last what will be asked for.
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
    task = {'taste': taste, 'likes': likes, 'forbids': forbids}
    if self.asks:
      words = [x for x in POPULARITY if x != forbids.get('word')]
      task['asks'] = [
        words[rng.integers(len(words))] if rng.random() < self.asks else ''
        for _ in range(self.turns)
      ]
    if self.novelty:
      kinds = rng.permutation(len(KINDS))[: len(KINDS) // 2]
      task['new'] = [[*KINDS][i] for i in sorted(kinds)]
    if self.careless:
      task['slips'] = [self._slip(rng) for _ in range(self.turns)]
    return task

  def _slip(self, rng: np.random.Generator) -> str:
    """Draws a careless message; '' where the expert's own is demonstrated."""
    if rng.random() >= self.careless:
      return ''
    claims = ('', *CLAIMS) if self.novelty else ('',)
    words = *ITEMS[rng.integers(len(ITEMS))], claims[rng.integers(len(claims))]
    return ' '.join(words).rstrip()

  def _solve(self, task: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    session, demo = self.start(task), []
    slips = task.get('slips', ('',) * self.turns)
    while session.turn < self.turns:
      item = best_item(session)
      honest = ' '.join((*ITEMS[item], *session.truth(item)))
      demo.append(slips[session.turn] or honest)
      session.show(item_of(demo[-1]))
    return task, tuple(demo)


class UserSession:
  """State of a user, and its chances; what happens by chance is not here.

    P(click i) = σ(w[color] + w[kind]) · boredom^(times i was shown before),

  and 0 for an item that the user has forbidden. An item that is said to be new
  has `novelty` added to w, one without the word asked for IRRELEVANT times the
  chance.
  """

  def __init__(self, family: Recommendation, task: Mapping[str, Any]):
    self._family, self._task = family, task
    worth = [
      task['taste'][color] + task['taste'][kind] for color, kind in ITEMS
    ]
    self._worth = np.array(worth)
    self.new = np.array([kind in task.get('new', ()) for _, kind in ITEMS])
    self.shown = np.zeros(len(ITEMS), int)
    self.turn = 0  # the next

  @property
  def boredom(self) -> np.ndarray:
    """Factor of each item's chance, [items]."""
    return self._family.boredom**self.shown

  @property
  def allowed(self) -> np.ndarray:
    """Marks items that the user has not forbidden, [items] bool."""
    forbids = self._task['forbids']
    if not forbids or self.turn < forbids['turn']:
      return np.ones(len(ITEMS), bool)
    return np.array([forbids['word'] not in item for item in ITEMS])

  @property
  def asked(self) -> str:
    """The word that the user asked for before this turn; '': none."""
    asks = self._task.get('asks', ())
    return asks[self.turn] if self.turn < len(asks) else ''

  @property
  def relevant(self) -> np.ndarray:
    """Marks items with the word asked for; all if there is none, [items]."""
    if not (word := self.asked):
      return np.ones(len(ITEMS), bool)
    return np.array([word in item for item in ITEMS])

  @property
  def chances(self) -> np.ndarray:
    """Chance of a click for each item, of which the truth is said: [items]."""
    return self.chances_if(self.new)

  def chances_if(self, new: np.ndarray | bool) -> np.ndarray:
    """Chance of a click for each item if it is shown now, [items].

    Args:
      new: whether an item is said to be, truly or not [items] or of all
    """
    worth = self._worth + self._family.novelty * np.asarray(new)
    chance = 1 / (1 + np.exp(-worth)) * self.boredom * self.allowed
    return chance * np.where(self.relevant, 1.0, IRRELEVANT)

  def truth(self, item: int) -> tuple[str, ...]:
    """Returns what is true of an item, one of CLAIMS; (): nothing is said."""
    if not self._family.novelty:
      return ()
    return CLAIMS[:1] if self.new[item] else CLAIMS[1:]

  def judge(self, item: int, said: set[str]) -> dict[str, float]:
    """Judges the next message, 0 or 1 by column; see docs/ENVIRONMENTS.md.

    Args:
      item: that it names; negative: none
      said: of CLAIMS, what it says of the item
    """
    named, claims = item >= 0, self._family.novelty > 0
    formed = named and len(said) == claims
    judged = {
      'followed': formed and self.allowed[item],
      'relevant': named and self.relevant[item],
      'factual': not said or (named and said == {*self.truth(item)}),
    }
    return {
      name: float(judged[name])
      for name in self._family.columns
      if name in judged
    }

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


def words_of(message: str) -> set[str]:
  """Returns the words that a message speaks, in lower case."""
  return set(re.findall(r'[a-z]+', spoken(message).lower()))


def item_of(message: str) -> int:
  """Returns the only item that a message names; -1 for none or several."""
  words = words_of(message)
  colors, kinds = words & set(COLORS), words & set(KINDS)
  if len(colors) != 1 or len(kinds) != 1:
    return -1
  return ITEMS.index((*colors, *kinds))


class RecommendationEnv:
  """A message without an item wastes its turn like a skip; see `HostEnv`.

  Every turn after which the user has not left is rewarded by 1/turns; the
  score is their sum. After a click on an item that was falsely said to be new
  the user may leave as after a skip.
  """

  def __init__(self, family: Recommendation):
    self._family = family

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    self._random = random.Random(seed)
    self._session, self._stayed = self._family.start(task), 0
    self._value = self._session.value(best_item)
    new = f', new {" ".join(task["new"])}' if 'new' in task else ''
    text = f'{" ".join(COLORS)}, {" ".join(KINDS)}{new}.'
    likes, word = ' '.join(task['likes']), self._session.asked
    asks = f'any {word}?' if word else ''
    said = ', '.join(filter(None, (likes and f'I like {likes}', asks)))
    return f'{text} {said}'.rstrip()

  def step(self, message: str) -> Step:
    item, session, turns = item_of(message), self._session, self._family.turns
    said = words_of(message) & {*CLAIMS} if self._family.novelty else set()
    chances, judged = session.chances, session.judge(item, said)
    new = 'new' in said
    chance = float(session.chances_if(new)[item]) if item >= 0 else 0.0
    # Two throws in every turn, so that one turn's do not shift the next one's.
    throws = self._random.random(), self._random.random()
    clicked = throws[0] < chance
    pleased = clicked and not (new and not session.new[item])
    left = not pleased and throws[1] < self._family.leave
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
        **judged,
      },
    )

  def close(self) -> None:
    """Closes nothing."""

  def _reply(self, item: int, clicked: bool) -> str:
    reaction = ('click' if clicked else 'skip') if item >= 0 else LOST
    forbidden, asked = self._session.instruction, self._session.asked
    reaction += f', no more {forbidden}' if forbidden else ''
    return reaction + (f', any {asked}?' if asked else '')
