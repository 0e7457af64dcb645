"""What every family of another package's environments keeps to.

What is not installed is skipped, with the line that installs it.
"""

import dataclasses
import functools
import importlib.util
import json
import pickle
import sys
import types
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from agentrl.env import base
from agentrl.runtime import install
from tests import errors

HOSTILE = ('', ' ', 'x' * 10_000, '\0', 'a\0b', '😀', 'quit', '-1', '1\n2', '[')


class Case(NamedTuple):
  """A family as it is tested."""

  name: str
  package: str
  extra: str
  fields: Mapping = types.MappingProxyType({})
  tasks: int = 3
  slow: bool = False


def case_id(case: Case) -> str:
  return '-'.join([case.name, *(str(v) for v in case.fields.values())])


def param(case: Case):
  marks = [pytest.mark.nightly] if case.slow else []
  if importlib.util.find_spec(case.package) is None:
    reason = f'needs {case.package}: {install.command(case.extra)}'
    marks.append(pytest.mark.skip(reason=reason))
  return pytest.param(case, id=case_id(case), marks=marks)


def family(case: Case):
  return base.find(case.name)(**case.fields)


def play(env, task, said, seed=7):
  """-> every observation and reply, to the end."""
  out = [env.reset(task, seed)]
  for message in said:
    out.append(env.step(message))
    if out[-1].done:
      break
  return out


def replies(env, task, said, seed=0):
  """-> every reply, to the end."""
  return play(env, task, said, seed)[1:]


def demonstration_scores_one(made, env, task):
  assert json.loads(json.dumps(task.task)) == task.task
  if not task.demonstration:
    return
  first, *replies = play(env, task.task, task.demonstration)
  assert isinstance(first, str)
  assert first
  assert len(replies) == len(task.demonstration)
  assert replies[-1].done
  assert replies[-1].score == pytest.approx(1.0)
  for reply in replies:
    assert not reply.invalid
    assert set(reply.info) == set(made.columns)
    assert reply.text or reply.done


def same_again(env, task):
  """Of task, seed and messages, whatever came before."""
  said = ('nonsense', *task.demonstration)
  once = play(env, task.task, said)
  assert play(env, task.task, said) == once


def hostile_messages_are_answered(env, task):
  for message in HOSTILE:
    env.reset(task.task, 0)
    for _ in range(2):
      reply = env.step(message)
      assert isinstance(reply.text, str)
      assert 0 <= reply.score < 1 or (reply.score == 1 and reply.done)
      if reply.done:
        break


@functools.cache
def extras() -> list[str]:
  return install.metadata().get_all('Provides-Extra')


class Promises:
  """Laws that the test class of a family inherits.

  cases: the family in its settings, all of one name
  refused: bad settings, and what the refusal names
  """

  cases: tuple[Case, ...] = ()
  refused: tuple[tuple[Mapping, str], ...] = ()

  def pytest_generate_tests(self, metafunc):
    if 'case' in metafunc.fixturenames:
      metafunc.parametrize('case', [param(case) for case in self.cases])
    if 'any_case' in metafunc.fixturenames:
      metafunc.parametrize('any_case', self.cases[:1], ids=case_id)

  def test_keeps_the_promises(self, case):
    """In one test, for what starts an environment may take seconds."""
    made = family(case)
    solved = list(made.tasks('train', case.tasks, 0))
    env = pickle.loads(pickle.dumps(made)).env()
    try:
      for task in solved:
        demonstration_scores_one(made, env, task)
      same_again(env, solved[0])
      hostile_messages_are_answered(env, solved[0])
    finally:
      env.close()
      env.close()  # may be said twice

  def test_splits_are_disjoint_and_repeat(self, case):
    made = family(case)
    train = list(made.tasks('train', case.tasks, 0))
    test = list(made.tasks('test', case.tasks, 0))
    keys = [t.key for t in (*train, *test)]
    assert len(set(keys)) == 2 * case.tasks
    assert list(made.tasks('train', case.tasks, 0)) == train
    fewer = list(made.tasks('train', case.tasks - 1, 0))
    assert fewer == train[:-1]
    with pytest.raises(ValueError):
      next(iter(made.tasks('valid', 1, 0)))

  def test_names_tell_settings_apart(self):
    name = self.cases[0].name
    made = base.find(name)()
    assert made.worker == 'process'
    assert made.name() == base.find(name)().name()
    assert not set(made.name()) & set('/\\ :*?"<>|')
    for field in dataclasses.fields(made):
      if field.type in ('bool', bool):
        other = dataclasses.replace(
          made, **{field.name: not base.settings(type(made))[field.name]}
        )
        assert other.name() != made.name()

  def test_bad_settings_are_one_sentence(self):
    for fields, words in self.refused:
      check_refusal(self.cases[0].name, fields, words)

  def test_a_missing_package_says_how_to_get_it(self, any_case, monkeypatch):
    hidden = importlib.util.find_spec(any_case.package) is not None
    if hidden:
      monkeypatch.setitem(sys.modules, any_case.package, None)
    made = family(any_case)
    with pytest.raises(ValueError, match=rf'\[{any_case.extra}\]'):
      made.env()
    # As packaging spells it: pip 23 finds no extra that is written otherwise.
    assert any_case.extra in extras()


def refuses(kind, **values):
  """Each value of each field alone, in a sentence that names them."""
  for field, some in values.items():
    for value in some:
      with errors.raises(ValueError, f'{field} {value}') as error:
        kind(**{field: value})
      assert '\n' not in str(error.value)


def check_refusal(name, fields, words):
  """Bad settings are one sentence."""
  with errors.raises(ValueError, words) as error:
    base.find(name)(**fields)
  assert '\n' not in str(error.value)
