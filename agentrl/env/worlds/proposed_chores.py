"""Chores in houses that differ, proposed by a service that sees the house.

What a house has is told by no name: a fan and an oven here, a lamp and a heater
there. Training tasks are houses; what is wanted there is asked of the service
`proposer` when an attempt begins. It reads

  Propose a chore for somebody in a house: ... such as <answer>lamp on, mug
  den</answer>.
  What is there:
  fan state off, oven state on, key place hall, door state shut

and writes `<answer>fan on, key den</answer>`, which is then played as a task of
`household`. What it wrote is checked for its form, and refused if it holds
already or is held out; whether the house has the things is not checked. So
somebody who has not seen the house asks for what it does not have, and all
attempts at that fail.

Tasks of the test split have goals of their own. The split is by what a house
has and what is wanted in it, so that a proposal that hits upon one of them, in
whatever state the house is, is refused and the service is asked again. Goals of
the test split have two facts or more: a proposal of one fact is never held out.
"""

import collections
import dataclasses
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import base, proposals, task_sampling, tool_env
from agentrl.env.base import HostTask, Step
from agentrl.env.proposals import HELD_OUT, Proposal
from agentrl.env.worlds import household
from agentrl.env.worlds.household import (
  DONE,
  DOOR,
  ITEMS,
  OBJECTS,
  PLACE,
  STATE,
  SWITCHES,
  WANT,
  Household,
  HouseholdEnv,
)
from agentrl.judge.item import Item
from agentrl.service.base import Service, ServiceFault
from agentrl.text.message import Message
from agentrl.text.tool_calls.base import spoken

PROPOSER = 'proposer'  # the service
PROPOSE = (
  'Propose a chore for somebody in a house: a few things and what each is to'
  f' be, such as {tool_env.answer_message("lamp on, mug den")}.'
)
# What the proposer is shown of the house, behind these words.
CONTEXTS = {
  'sight': 'What is there:\n',
  'demonstration': 'What its owner did there:\n',
  'none': '',
}
FULFILLED = 'fulfilled'  # fault of a proposal: there is nothing to do
Triples = list[list[str]]


@dataclasses.dataclass(frozen=True)
class ProposedChores(Household):
  """Households of which each has some of all switches and things."""

  proposed: bool = (
    True  # what training tasks want is proposed; else drawn, and demonstrated
  )
  context: Annotated[str, domain.OneOf(*CONTEXTS)] = (
    'sight'  # of a proposer: the house, what its owner did there, or nothing
  )
  tries: domain.Count = 8  # proposals that are asked for, until one is a task

  columns: ClassVar[tuple[str, ...]] = ('progress', 'possible')
  needs: ClassVar[tuple[str, ...]] = (PROPOSER,)

  def name(self) -> str:
    return task_sampling.name('proposed_chores', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields houses to propose for, or tasks with a shortest solution.

    Those of the test split are tasks. A house comes with what its owner did
    there, a task of the training split.
    """

    def draw(rng: np.random.Generator) -> dict[str, Any] | None:
      task = self._draw(rng)
      fits = task and split_of(task['facts'], task['goal']) == split
      return task if fits else None

    def finish(task: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
      task, said = household.solved(task)
      if split == 'test' or not self.proposed:
        return task, said
      return {'facts': task['facts'], 'shown': list(said)}, ()

    return task_sampling.drawn(draw, finish, split, count, seed)

  @property
  def longest(self) -> str:
    """The longest first observation of a task that can be done."""

    def some(names: Sequence[str], count: int) -> list[str]:
      return sorted(names, key=len)[-count:]

    names = [*some(SWITCHES, self.switches), *some(ITEMS, self.things), DOOR]
    pairs = [(x, _attribute(x)) for x in names]
    now = [[*x, max(household.values(*x), key=len)] for x in pairs]
    return self.describe({'facts': now, 'goal': now})

  @property
  def own_goals(self) -> bool:
    """Whether attempts at one task have goals of their own."""
    return self.proposed

  def describe(self, task: Mapping[str, Any]) -> str:
    """Returns the first observation; nothing is wanted yet in a house."""
    return HouseholdEnv(self.noise).reset({'goal': [], **task}, 0)

  def served(self, services: Mapping[str, Service]) -> base.EnvFamily:
    return base.WithServices(self, lambda: ChoresEnv(self, services[PROPOSER]))

  def env(self) -> HouseholdEnv:
    raise base.missing_services(self)

  def _names(self, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Draws what a house has, in one order for all houses."""

    def some(names: Sequence[str], count: int) -> list[str]:
      chosen = sorted(rng.permutation(len(names))[:count].tolist())
      return [names[i] for i in chosen]

    switches = [(x, STATE) for x in some(SWITCHES, self.switches)]
    things = [(x, PLACE) for x in some(ITEMS, self.things)]
    return [*switches, *things, (DOOR, STATE)]


class ChoresEnv(HouseholdEnv):
  """Household that asks what is wanted, where its task does not say.

  `possible` is 1 on all turns if the house has all that is wanted.
  """

  def __init__(self, family: ProposedChores, proposer: Service):
    super().__init__(family.noise)
    self._family, self._proposer = family, proposer

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    goal = task['goal'] if 'goal' in task else self._proposed(task, seed)
    self._possible = float(_objects(goal) <= _objects(task['facts']))
    return super().reset({'facts': task['facts'], 'goal': goal}, seed)

  def step(self, message: str) -> Step:
    step = super().step(message)
    return step._replace(info={**step.info, 'possible': self._possible})

  def _proposed(self, task: Mapping[str, Any], seed: int) -> Triples:
    """Asks for proposals until one is a task -> its goal.

    Raises:
      ServiceFault: none is.
    """
    rng, tries = random.Random(seed), self._family.tries
    asked = [Message('user', question(task, self._family.context))]
    faults = collections.Counter[str]()
    for _ in range(tries):
      text = self._proposer(asked, seed=rng.getrandbits(31))
      proposal = read(task['facts'], text)
      if proposal.task is not None:
        return proposal.task['goal']
      faults[proposal.fault] += 1
    raise ServiceFault(f'none of {tries} proposals is a task: {dict(faults)}')


def split_of(facts: Triples, goal: Triples) -> str:
  """Returns the split of what is wanted in houses that have these things."""
  has = sorted(_objects(facts))
  return task_sampling.split({'house': has, 'goal': goal})


def question(task: Mapping[str, Any], context: str) -> str:
  """Writes what a proposer reads: of a house by `context`, and of no goal."""
  shown = {
    'sight': household.write(household.facts(task['facts'])),
    'demonstration': '\n'.join(task['shown']),
    'none': '',
  }
  told = CONTEXTS[context] + shown[context]
  return f'{PROPOSE}\n{told}' if told else PROPOSE


def read(facts: Triples, text: str) -> Proposal:
  """Reads what a proposer wrote, which may be anything.

  A task names objects, each once and with a value that such an object can have.
  Whether the house has them is not asked.
  """
  text = proposals.written([text])
  pairs = [x.split() for x in text.lower().split(',')]
  if not all(len(x) == 2 and _can_be(*x) for x in pairs):
    return Proposal(text, fault='format')
  goal = [[name, _attribute(name), value] for name, value in pairs]
  if len(_objects(goal)) < len(goal):
    return Proposal(text, fault='format')
  goal.sort(key=lambda x: OBJECTS.index(x[0]))  # as in all other tasks
  if not household.distance(household.facts(facts), household.facts(goal)):
    return Proposal(text, fault=FULFILLED)
  # Goals of evaluations have two facts or more.
  if len(goal) > 1 and split_of(facts, goal) == 'test':
    return Proposal(text, fault=HELD_OUT)
  return Proposal(text, {'goal': goal})


def propose(messages: Sequence[Message], *, seed: int) -> str:
  """Proposes, as a service, values of things that it was told of.

  Two to four of them, each value as likely; told of nothing, it names any.
  """
  told = messages[-1].content.removeprefix(PROPOSE)
  known = [x for x in OBJECTS if re.search(rf'\b{x}\b', told)] or [*OBJECTS]
  rng = random.Random(seed)
  chosen = rng.sample(known, min(rng.randint(2, 4), len(known)))
  wanted = (
    f'{x} {rng.choice(household.values(x, _attribute(x)))}' for x in chosen
  )
  return tool_env.answer_message(', '.join(wanted))


def evaluate(item: Item) -> float:
  """Returns 1 if what was seen last is as was asked for, and it said so; or 0.

  It has read what the agent has read, and knows neither the world's state nor
  its score.
  """
  observations = [x.observation for x in item.turns]
  asked = re.search(rf'{WANT}\n(.*)', observations[0])
  said = re.findall('[a-z]+', spoken(item.turns[-1].message).lower())
  if asked is None or said != [DONE]:
    return 0.0
  return float(Household().fulfils(observations, asked[1]))


def _objects(triples: Triples) -> set[str]:
  return {name for name, _, _ in triples}


def _attribute(name: str) -> str:
  return PLACE if name in ITEMS else STATE


def _can_be(name: str, value: str) -> bool:
  return name in OBJECTS and value in household.values(name, _attribute(name))
