"""A visitor of guards: a primer, a planner, a finisher, and their memory.

A role is a service that answers with the next thing to say: the primer the
first request, the planner the two that follow, the finisher the question for
the word. It reads what was said in earlier visits to guards of the same post or
temper, and what this guard was cold to. The scripted roles say what worked most
often, and what is left in any order; a language model at an address can stand
in their places.
"""

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agentrl.lab import archive
from agentrl.lab.archive import Archive, Entry
from agentrl.lab.papers.guard_game import game
from agentrl.lab.papers.guard_game.game import Guard, Visit
from agentrl.service.base import Service, ServiceFault
from agentrl.text.message import Message

PRIMER, PLANNER, FINISHER = ROLES = ('primer', 'planner', 'finisher')
BY = {PRIMER: 'post', PLANNER: 'temper', FINISHER: 'temper'}
STEPS = (PRIMER, PLANNER, PLANNER, FINISHER)  # of a visit
Team = Mapping[str, Service]


class Came(NamedTuple):
  """What came of a guard."""

  open: bool
  queries: int
  entry: Entry


def speak(messages: Sequence[Message], *, seed: int) -> str:
  """Plays any role, as a service."""
  rng, role = random.Random(seed), messages[0].content
  *lines, now = (json.loads(x) for x in messages[-1].content.splitlines())
  step, by = now['step'], BY[role]
  votes: dict[str, float] = defaultdict(float)
  for line in lines:
    said = json.loads(line['text'])
    guard = json.loads(line['said'])
    if guard[by] == now[by] and len(said) > step:
      votes[said[step]] += line['value']
  every = game.ASKS if role == FINISHER else game.REQUESTS
  some = [x for x in every if x not in now['cold']]
  rng.shuffle(some)
  return max(some, key=lambda x: votes[x])


SCRIPTED: Team = dict.fromkeys(ROLES, speak)


def recalled(memory: Archive, guard: Guard) -> Archive:
  """Returns the entries about guards of the same post or temper."""
  some = []
  for x in memory.entries:
    seen = json.loads(x.said)
    if seen['post'] == guard.post or seen['temper'] == guard.temper:
      some.append(x)
  return Archive(tuple(some))


def visit(
  guard: Guard,
  team: Team,
  memories: Mapping[str, Archive],
  queries: int,
  seed: int,
) -> Came:
  """Visits a guard until the word is told or no query is left.

  What was welcome is said again after a cold answer; what was cold at a step is
  not, whoever proposes it: then it costs its query.

  Args:
    memories: of each role
  """
  now, welcome = Visit(guard, queries), list[str]()
  cold: list[list[str]] = [[] for _ in STEPS]
  lines = {
    role: archive.messages(recalled(memories[role], guard))[-1].content
    for role in ROLES
  }
  step = 0
  while now.left and not now.open:
    if step < len(welcome):
      text = welcome[step]
    else:
      role = STEPS[step]
      state = {'post': guard.post, 'temper': guard.temper, 'step': step}
      asked = '\n'.join(
        [*lines[role].splitlines(), json.dumps(state | {'cold': cold[step]})]
      )
      text = _said(
        team[role],
        [Message('system', role), Message('user', asked)],
        archive.draw_seed(seed, now.left, 1),
      )
    right = now.say(text)
    if not right:
      cold[step].append(text)
      step = 0
      continue
    if step == len(welcome):
      welcome.append(text)
    step += 1
  said = json.dumps({'post': guard.post, 'temper': guard.temper})
  spent = queries - now.left
  value = len(welcome) / len(STEPS)
  return Came(now.open, spent, Entry(json.dumps(welcome), value, spent, said))


def _said(role: Service, asked: Sequence[Message], seed: int) -> str:
  """Asks a role; what it fails to say is silence, and costs a query."""
  try:
    return role(asked, seed=seed)
  except ServiceFault:
    return ''


def ask_alone(guard: Guard, queries: int, seed: int) -> Came:
  """Says a single thing in every visit, in any order."""
  rng = random.Random(seed)
  every = [*game.ASKS, *game.REQUESTS]
  rng.shuffle(every)
  now = Visit(guard, queries)
  for text in every[:queries]:
    now.leave()
    now.say(text)
    if now.open:
      break
  spent = queries - now.left
  return Came(now.open, spent, Entry('[]', 0.0, spent, ''))
