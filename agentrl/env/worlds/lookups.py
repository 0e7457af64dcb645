"""Lookups: find out several things, one long page after the other.

  Ann Bob
  <look>Ann</look>
  was wax, is tea, was ink, was wax
  <look>Bob</look>
  was tea, was wax, was wax, is ink
  <answer>tea ink</answer>

A page says in many words the one thing that its person wants now. All pages
together are longer than what has to be known of them: an agent whose context
does not hold them has to note what counts and to drop the rest.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.env.tool_env import answer_message, final
from agentrl.env.worlds.errands import PEOPLE, THINGS
from agentrl.text import context_edits, spans
from agentrl.text.tool_calls import FormatName, format_of
from agentrl.text.tool_calls.base import Call, Format, ToolDescription

LOOK = ToolDescription(
  'look',
  "shows a person's page",
  {
    'type': 'object',
    'properties': {'name': {'type': 'string'}},
    'required': ['name'],
  },
)
LOST = 'Look someone up, or answer.'
RULES = (
  'The first message names people. Look each of them up: their page says in one'
  ' place what they want now ("is"). Then answer with these things, a word for'
  ' each, in the order of the names.'
)


@dataclasses.dataclass(frozen=True)
class Lookups:
  """A task is what everyone wants and wanted, and the people in question."""

  objectives: Annotated[int, domain.Whole(1, len(PEOPLE))] = (
    3  # people asked of
  )
  noise: Annotated[int, domain.Whole(0, 99)] = 6  # other things on a page
  things: Annotated[int, domain.Whole(2, len(THINGS))] = 4  # to be wanted
  drops: bool = False  # demonstrations drop pages (rollout.history 'edit')
  format: FormatName = 'tagged'
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = ('looked', 'right')
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def system(self) -> str:
    if not self.teach:
      return ''
    taught = format_of(self.format).teach([LOOK])
    return f'{RULES}\n{taught}\nEnd with {answer_message("...")}.'

  def name(self) -> str:
    return task_sampling.name('lookups', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks demonstrated by one who looks all up; see `EnvFamily`."""
    return task_sampling.drawn(self._draw, self._solve, split, count, seed)

  def env(self) -> 'LookupsEnv':
    return LookupsEnv(format_of(self.format))

  def spans(self, message: str) -> Sequence[spans.Interval]:
    return spans.mark(message, format_of(self.format).locate(message, [LOOK]))

  def value(self, known: int) -> float:
    """Returns the expected score of knowing some and guessing the rest.

    known / objectives + (1 − known / objectives) / things
    """
    share = known / self.objectives
    return share + (1 - share) / self.things

  def _draw(self, rng: np.random.Generator) -> dict[str, Any]:
    who = rng.permutation(len(PEOPLE))[: self.objectives]
    size = (len(PEOPLE), 1 + self.noise)
    return {
      'asked': who.tolist(),
      'things': rng.integers(self.things, size=size).tolist(),
      'place': rng.integers(1 + self.noise, size=len(PEOPLE)).tolist(),
    }

  def _solve(self, task: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    form, said, turn = format_of(self.format), [], 0
    for who in task['asked']:
      said.append(form.write([Call(LOOK.name, {'name': PEOPLE[who]})]))
      turn += 1
      if self.drops:
        note = f'{PEOPLE[who]} {wanted(task, who)}'
        said.append(context_edits.write(form, [turn], note))
        turn += 1
    answer = ' '.join(wanted(task, who) for who in task['asked'])
    return task, (*said, answer_message(answer))


def wanted(task: Mapping[str, Any], who: int) -> str:
  """Returns what a person of the task wants now."""
  return THINGS[task['things'][who][task['place'][who]]]


def page(task: Mapping[str, Any], who: int) -> str:
  """Returns what is shown of a person."""
  now = task['place'][who]
  return ', '.join(
    f'{"is" if i == now else "was"} {THINGS[thing]}'
    for i, thing in enumerate(task['things'][who])
  )


def info(*, looked: float = 0.0, right: float = 0.0) -> dict[str, float]:
  """Returns the values of the columns of a turn."""
  return {'looked': looked, 'right': right}


class LookupsEnv:
  """Environment that shows pages and takes one answer. See `HostEnv`.

  A message that calls is no answer. Of several calls the first is made. The
  reward and the score are the share of the things that are right, each in the
  place of its name.
  """

  def __init__(self, form: Format):
    self._form = form

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    del seed  # nothing is random
    self._task = task
    return ' '.join(PEOPLE[i] for i in task['asked'])

  def step(self, message: str) -> Step:
    calls = self._form.parse(message, [LOOK])
    if calls:
      name = calls[0].args.get('name') if isinstance(calls[0], Call) else None
      if calls[0] != Call(LOOK.name, {'name': name}) or name not in PEOPLE:
        return Step(LOST, invalid=True, info=info())
      shown = page(self._task, PEOPLE.index(name))
      return Step(shown, role=self._form.role, info=info(looked=1.0))
    answer = final(message)
    if answer is None:
      return Step(LOST, invalid=True, info=info())
    said = re.findall(r'[a-z]+', answer.lower())
    asked = self._task['asked']
    right = sum(
      x == wanted(self._task, who) for x, who in zip(said, asked, strict=False)
    )
    score = right / len(asked) if len(said) == len(asked) else 0.0
    return Step('', score, True, score, info=info(right=float(right)))

  def close(self) -> None:
    pass
