"""What holds for every family that wraps no other package's environment."""

import contextlib
import itertools
import json
import pathlib
import pickle

import pytest

from agentrl.env import base, splits
from agentrl.env.worlds import (
  consultation,
  hidden_slots,
  interview,
  proposed_chores,
)
from agentrl.runtime import install
from agentrl.service.base import ServiceFault
from agentrl.text.message import Message
from tests import errors
from tests.env.promises import play, replies

FILES = pathlib.Path(__file__).parent / 'host_files'
CATALOGUE = str(FILES / 'catalogue.jsonl')
# Of texts another one with which the family works; numbers and flags have one.
TEXTS = {
  'bug_fixes': {},
  'case_corpus': {},
  'countdown': {'operations': '+*', 'demonstrate': 'steps'},
  'door_codes': {},
  'errands': {},
  'fact_corpus': {
    'held_out': 'facts',
    'aggregates': 'count',
    'retrievers': 'dense bm25',
  },
  'household': {},
  'in_context_regression': {'few_slopes': '2 7'},
  'injected_errors': {'held_out': 'solver slip'},
  'interview': {},
  'itinerary': {},
  'lookups': {},
  'math_python': {},
  'search_questions': {},
  'sessions': {
    'manager': 'expert',
    'answerer': 'exact',
    'reads': 'shuffled',
  },
  'shop': {'catalogue': CATALOGUE},
  'shop_logs': {'form': 'json'},
  'sql_questions': {'kinds': 'join'},
  'table_questions': {'kinds': 'open group', 'tools': 'python'},
  'unreliable_tools': {
    'base': 'table',
    'tools': 'right 2 1 0 0, wrong 0 1 .1 .9',
    'demonstrate': 'every',
  },
}
# Fields that only their own test file changes.
OWN = {
  # With others, or alone.
  'fact_corpus': (
    *('contradictions', 'masked', 'team', 'thoughts', 'careful', 'evidence'),
  ),
  'interview': ('noise',),  # which answers wrongly
  'itinerary': ('flawed', 'demonstrate'),  # which take other fields
  'math_python': ('path',),
  'search_questions': ('corpus', 'questions'),
  'unreliable_tools': ('small',),  # which is of the other base
}
# Whose demonstrations do not earn 1 with everybody.
CHANCY = (
  'consultation', 'critiques', 'event_stream', 'hidden_slots',
  'proposed_chores', 'proposed_countdown', 'proposed_facts', 'recommendation',
  'reflections',
)  # fmt: skip
USERS = {
  'consultation': consultation.scripted,
  'hidden_slots': hidden_slots.scripted,
  'interview': interview.truthful,
}
SERVICES = USERS | {'proposed_chores': proposed_chores.propose}
NEEDS = {
  'fact_corpus': 'bm25s',
  'proposed_facts': 'bm25s',
  'search_questions': 'bm25s',
  'shop': 'bm25s',
  'shop_logs': 'bm25s',
}  # the package that a family needs
HOSTILE = (
  '',
  ' ',
  '\x00',
  '<',
  '</answer>',
  '<answer>',
  '<answer></answer>',
  '<answer>\ud800</answer>',
  '<answer>' + '9' * 5000 + '</answer>',
  '<answer>1/0</answer>',
  '<answer>' + '(' * 5000 + '</answer>',
  '<answer>nan</answer>',
  '<answer>-inf</answer>',
  '<answer>²</answer>',
  '{"name": "sql"}',
  '<tool_call>{"name": "python", "arguments": {"code": 3}}</tool_call>',
  '<calculator>9**9**9**9</calculator>',
  '<sql>DROP TABLE item</sql>',
  '<sql>SELECT \x00</sql>',
  '<search></search>',
  '<note></note>',
  '<note><answer>x</answer></note>',
  '<bm25>\ud800</bm25>',
  '<bm25></bm25>',
  '<search>\ud800</search>',
  '<python>\ud800</python>',
  'search[',
  'search[]',
  'click[buy now]',
  'click[\ud800]',
  '?',
  '\x00?',
  '\ud800?',
  '1/0?',
  'x' * 100_000,
)


def of_name(name, **fields):
  if name in NEEDS:
    pytest.importorskip(NEEDS[name], reason=install.command('host'))
  return base.find(name)(**fields)


def env_of(family):
  service = SERVICES.get(family.name().partition('-')[0])
  served = dict.fromkeys(base.needs(family), service)
  return base.with_services(family, served).env()


by_name = pytest.mark.parametrize('name', TEXTS)
by_any_name = pytest.mark.parametrize('name', [*TEXTS, *CHANCY])


@by_name
def test_demonstrations_solve_their_task_and_no_other(name):
  """A wrong answer is one to another question, in good form."""
  family, wrong = of_name(name), 0
  env = env_of(family)
  for split in splits.SPLITS:
    solved = list(family.tasks(split, 4, 0))
    for task, said, _ in solved:
      assert said
      assert json.loads(json.dumps(task)) == task
      steps = replies(env, task, said)
      assert len(steps) == len(said)
      assert (steps[-1].done, steps[-1].score) == (True, 1.0)
      assert not any(r.invalid or r.info.get('faults') for r in steps)
      assert not any(r.score or r.done for r in steps[:-1])
      assert all(set(r.info) == set(family.columns) for r in steps)
    for a, b in itertools.pairwise(solved):
      wrong += replies(env, a.task, b.demonstration)[-1].score
  # Two tasks can have one answer in two forms, but few have.
  assert wrong < 4
  env.close()


@by_any_name
def test_it_is_a_function_of_task_seed_and_messages(name):
  family = of_name(name)
  (a,) = family.tasks('train', 1, 2)
  same = pickle.loads(pickle.dumps(family))
  assert list(same.tasks('train', 1, 2)) == [a]
  one, two = env_of(family), env_of(same)
  messages = ['what?', *a.demonstration]
  first = play(one, a.task, messages)
  assert first == play(one, a.task, messages)
  # The other comes from another task, as JSON gave it back.
  play(two, json.loads(json.dumps(a.task)), ['x'], 6)
  assert first == play(two, json.loads(json.dumps(a.task)), messages)
  one.close()
  two.close()


@by_any_name
def test_splits_share_nothing(name):
  family = of_name(name)
  keys = {
    split: [t.key for seed in (0, 1) for t in family.tasks(split, 20, seed)]
    for split in splits.SPLITS
  }
  for split, found in keys.items():
    assert len(set(found[:20])) == 20
    assert found[:20] != found[20:]
    assert {splits.split_of(key) for key in found} == {split}
  with pytest.raises(ValueError):
    list(family.tasks('dev', 1, 0))
  with errors.raises(ValueError, '-1'):
    list(family.tasks('train', 1, -1))


def changed(name, field, value):
  """The family with another value of one field."""
  if isinstance(value, str):
    others = [TEXTS[name].get(field, 'hermes')]
  elif isinstance(value, bool):
    others = [not value]
  else:
    others = [0.5, 0.25] if isinstance(value, float) else [value + 1, value - 1]
  for other in others:
    if other != value:
      with contextlib.suppress(ValueError):
        return of_name(name, **{field: other})
  raise AssertionError(f'{name}: no other {field}')


@by_name
def test_a_name_tells_settings_apart(name):
  names = {of_name(name).name()}
  settings = base.settings(base.find(name))
  for field in settings.keys() - OWN.get(name, ()):
    other = changed(name, field, settings[field])
    names.add(other.name())
    (task,) = other.tasks('train', 1, 0)
    env = env_of(other)
    steps = replies(env, task.task, task.demonstration)
    assert steps[-1].score == 1, field
    env.close()
  assert len(names) == 1 + len(settings) - len(OWN.get(name, ()))


@by_any_name
def test_it_says_what_it_is(name):
  family = of_name(name)
  assert family.worker in base.WORKERS
  teaches = 'teach' in base.settings(type(family))
  assert bool(family.system) != teaches
  assert not teaches or of_name(name, teach=True).system
  assert family.name() == of_name(name).name()
  assert family.name().startswith(f'{name}-')
  assert all(c.isalnum() or c in '._-' for c in family.name())


@by_any_name
def test_no_message_breaks_it(name):
  family = of_name(name)
  env = env_of(family)
  (task,) = family.tasks('test', 1, 0)
  for message in HOSTILE:
    env.reset(task.task, 0)
    reply = env.step(message)
    assert reply.score == 0
    assert reply.done or reply.text
    assert set(reply.info) == set(family.columns)
  env.close()


ASKED = {
  'sql_questions': {},
  'table_questions': {},
  'unreliable_tools': {'size': 2, 'spread': 0.5},
}


@pytest.mark.parametrize('name', ASKED)
def test_no_question_of_test_is_asked_in_train(name):
  """Of whatever tables and at whatever prices."""
  family = of_name(name, **ASKED[name])
  train, test = (
    {t.task['question'] for t in family.tasks(split, 150, 0)}
    for split in splits.SPLITS
  )
  assert not train & test


@pytest.mark.parametrize('name', USERS)
def test_who_asks_a_user_is_not_played_without_one(name):
  family = base.find(name)()
  assert base.needs(family) == ('user',)
  with errors.raises(ValueError, 'base.with_services'):
    family.env()
  with pytest.raises(ServiceFault):  # the user was told nothing
    USERS[name]([Message('user', 'size?')], seed=0)
