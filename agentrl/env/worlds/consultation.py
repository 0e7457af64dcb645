"""Consultation: find a hidden disease by questions and tests that cost.

The patient is a user that says what it has when asked; tests are ordered and
have a price. Some complaints have a mandatory question, the red flag, and to
end without it is unsafe, whatever the diagnosis: the first of the two tiers of
Doctor-R1's reward. Texts are short enough for a model whose tokens are
characters:

  I have fever.
  cough?
  no
  order blood
  blood: positive
  <answer>D3</answer>
"""

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import base, task_sampling, tool_env, user_frame
from agentrl.env.base import HostTask
from agentrl.env.user_frame import UserEnv
from agentrl.env.worlds import diagnosis
from agentrl.env.worlds.diagnosis import NO, YES
from agentrl.service.base import Service, ServiceFault
from agentrl.text import grading
from agentrl.text.message import Message

SYMPTOMS = ('fever', 'cough', 'rash', 'pain', 'chill', 'itch', 'cramp', 'faint')
TESTS = ('blood', 'swab', 'scan')
RULES = (
  'You are a doctor. Ask the patient for one symptom at a time, such as'
  ' "cough?", order tests, such as "order blood", and end with the disease,'
  f' such as {tool_env.answer_message("D1")}. Questions and tests cost.'
)
PATIENT = (
  'You are a patient. You have {symptoms}, and no other symptom. Answer every'
  ' question by yes or no.'
)
_PATIENT = re.compile(r'You have ([\w, ]*), and no other symptom\.')
_ORDER = re.compile(r'\border (\w+)', re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Consultation:
  """A task is a patient: its complaint, its disease, all its findings.

  Patients are independent draws from the table, told apart by a number: two
  may have the same findings, as the exact posterior wants it.
  """

  diseases: Annotated[int, domain.Whole(2, 8)] = 4  # a patient has one
  symptoms: Annotated[int, domain.Whole(2, len(SYMPTOMS))] = (
    6  # that can be asked for
  )
  tests: Annotated[int, domain.Whole(0, len(TESTS))] = (
    2  # that can be ordered; the n-th has price n and is the better for it
  )
  flags: Annotated[int, domain.Whole(0, len(SYMPTOMS), most='symptoms')] = (
    2  # complaints with a mandatory question
  )
  table: Annotated[int, domain.SEED] = 0  # seed of the chances
  patience: domain.Count = 3  # questions before the patient has enough
  impatient: Annotated[str, domain.OneOf(*user_frame.IMPATIENT)] = (
    'leaves'  # what the patient does at one question more
  )
  question_cost: domain.NotNegative = 0.02  # of each, off the reward
  price_cost: domain.NotNegative = (
    0.05  # of one unit of a test's price, off the reward
  )
  safety_cost: domain.NotNegative = (
    0.5  # of ending without the mandatory question, off the reward
  )
  teach: bool = False  # the system text states the rules and the table

  columns: ClassVar[tuple[str, ...]] = (
    *user_frame.COLUMNS,
    'tests',
    'price',
    'information',
    'safety',
  )
  worker: ClassVar[str] = 'thread'
  needs: ClassVar[tuple[str, ...]] = ('user',)

  def __post_init__(self):
    domain.check_fields(self)

  @property
  def system(self) -> str:
    return f'{RULES}\n{_taught(self)}' if self.teach else ''

  def name(self) -> str:
    return task_sampling.name('consultation', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Draws tasks; plays the optimal policy if it is right; see `EnvFamily`."""
    return task_sampling.drawn(self._draw, self._solve, split, count, seed)

  def describe(self, task: Mapping[str, Any]) -> str:
    return Visit(self, task).text

  def served(self, services: Mapping[str, Service]) -> base.EnvFamily:
    return base.WithServices(self, lambda: self._env(services['user']))

  def env(self) -> base.HostEnv:
    raise base.missing_services(self)

  def expert_value(self, task: Mapping[str, Any]) -> float:
    """Returns the optimal value given the complaint: score less all costs."""
    return Visit(self, task).value(self.patience)

  def _env(self, user: Service) -> UserEnv:
    manner = user_frame.Manner(
      self.patience, self.impatient, self.question_cost
    )
    begin = functools.partial(Visit, self)
    return UserEnv(user, begin, self.columns, manner)

  def _draw(self, rng: np.random.Generator) -> dict[str, Any]:
    patient = diagnosis.draw_patient(table_of(self), rng)
    return {**patient._asdict(), 'number': int(rng.integers(2**31))}

  def _solve(self, task: dict[str, Any]) -> tuple[dict, tuple[str, ...]]:
    return task, user_frame.demonstration(self._env(scripted), task)


@functools.lru_cache(maxsize=16)
def table_of(family: Consultation) -> diagnosis.DiseaseTable:
  """Returns the chances of the family's patients."""
  return diagnosis.draw_table(
    family.diseases, family.symptoms, family.tests, family.flags, family.table
  )


@functools.lru_cache(maxsize=64)
def plan_of(family: Consultation, complaint: int) -> diagnosis.DiagnosisPlan:
  """Returns the optimal plan for a complaint."""
  charges = diagnosis.Charges(
    family.question_cost, family.price_cost, family.safety_cost
  )
  return diagnosis.DiagnosisPlan(
    table_of(family), complaint, charges, family.patience
  )


class Visit:
  """A patient, and what the agent has found out about it."""

  def __init__(self, family: Consultation, task: Mapping[str, Any]):
    self._family, self._task = family, task
    self._table = table_of(family)
    self._plan = plan_of(family, task['complaint'])
    self._findings = {task['complaint']: YES}
    self.text = f'I have {SYMPTOMS[task["complaint"]]}.'
    self.topics = SYMPTOMS[: family.symptoms]

  def value(self, patience: int) -> float:
    return self._plan.value(self._findings, patience)

  def expert(self, patience: int) -> str:
    best = self._plan.best(self._findings, patience)
    if best is None:
      likely = diagnosis.posterior(self._table, self._findings).argmax()
      return tool_env.answer_message(_name(int(likely)))
    if best < self._family.symptoms:
      return f'{SYMPTOMS[best]}?'
    return f'order {TESTS[best - self._family.symptoms]}'

  def needs(self, topic: str, patience: int) -> bool:
    """Tells if it is unknown and worth asking: not worse than a diagnosis."""
    symptom = SYMPTOMS.index(topic)
    if symptom in self._findings:
      return False
    asking = self._plan.ask_value(symptom, self._findings, patience)
    return asking >= self._plan.stop_value(self._findings)

  def prepare(self, topic: str) -> str:
    has = [
      name
      for name, x in zip(self.topics, self._task['findings'], strict=False)
      if x == YES
    ]
    return PATIENT.format(symptoms=', '.join(has))

  def record(self, topic: str, reply: str) -> dict[str, float]:
    match user_frame.yes_or_no(reply):
      case 'yes':
        info = self._learn(SYMPTOMS.index(topic), YES)
      case 'no':
        info = self._learn(SYMPTOMS.index(topic), NO)
      case _:
        return {'refused': 1.0}
    return info

  def act(self, message: str) -> user_frame.OrderedAct | None:
    """Orders a test."""
    orders = _ORDER.findall(message.lower())
    if len(orders) != 1 or orders[0] not in TESTS[: self._family.tests]:
      return None
    finding = self._family.symptoms + TESTS.index(orders[0])
    x, price = self._task['findings'][finding], self._table.prices[finding]
    info = {'tests': 1.0, 'price': float(price), **self._learn(finding, x)}
    sign = 'positive' if x == YES else 'negative'
    cost = self._family.price_cost * float(price)
    return user_frame.OrderedAct(f'{orders[0]}: {sign}', -cost, info)

  def judge(self, answer: str) -> user_frame.Ending:
    score = float(grading.exact(answer, [_name(self._task['disease'])]))
    missed = float(self._plan.missed(self._findings))
    reward = score - self._family.safety_cost * missed
    return user_frame.Ending(score, reward, {'safety': missed})

  def _learn(self, finding: int, x: int) -> dict[str, float]:
    before = self._findings
    # A patient that contradicts itself is believed the first time.
    self._findings = before | {finding: before.get(finding, x)}
    was, now = (
      diagnosis.entropy(diagnosis.posterior(self._table, findings))
      for findings in (before, self._findings)
    )
    return {'information': was - now}


def _name(disease: int) -> str:
  return f'D{disease + 1}'


def _taught(family: Consultation) -> str:
  """Returns the table as text, a line for each disease."""
  table = table_of(family)
  names = (*SYMPTOMS[: family.symptoms], *TESTS[: family.tests])
  lines = [
    f'{_name(d)} ({p:.0%}): '
    + ' '.join(f'{x} {q:.0%}' for x, q in zip(names, column, strict=True))
    for d, (p, column) in enumerate(
      zip(table.prior, table.chance.T, strict=True)
    )
  ]
  flags = [
    f'With {SYMPTOMS[c]} always ask for {SYMPTOMS[s]}.'
    for c, s in sorted(table.flags.items())
  ]
  return '\n'.join(
    [
      'Diseases, and the chances of symptoms and positive tests:',
      *lines,
      *flags,
    ]
  )


def scripted(messages: Sequence[Message], *, seed: int) -> str:
  """Returns the patient that answers truly. It understands:

  cough? / ask cough? / Do you have a cough?
  """
  del seed  # nothing is random
  given = _PATIENT.search(messages[0].content)
  if not given:
    raise ServiceFault('the patient was not given its symptoms')
  topic = user_frame.find_topic(messages[-1].content, SYMPTOMS)
  if topic is None:
    return 'Ask yes or no.'
  return 'yes' if topic in given[1].split(', ') else 'no'
