"""Lookups: pages, answers, and what an agent that forgets is worth."""

import numpy as np
import pytest

from agentrl.env.worlds.errands import PEOPLE, THINGS
from agentrl.env.worlds.lookups import LOST, Lookups, page, wanted
from tests.env.promises import refuses

TASK = {
  'asked': [0, 1],
  'things': [[3, 0], [1, 2], *[[0, 0]] * 8],
  'place': [1, 0, *[0] * 8],
}


FAMILY = Lookups(objectives=2, noise=1)


def play(messages, task=TASK, family=FAMILY):
  env = family.env()
  texts, steps = [env.reset(task, 0)], []
  for message in messages:
    steps.append(env.step(message))
    texts.append(steps[-1].text)
  return texts, steps


def test_pages_are_shown_as_often_as_asked_for():
  texts, steps = play(['<look>Ann</look>', '<look>Bob</look>'] * 2)
  pages = ['was salt, is tea', 'is ink, was rope']
  assert texts == ['Ann Bob', *pages * 2]
  assert [x.info['looked'] for x in steps] == [1.0] * 4
  assert not any(x.done or x.reward or x.invalid for x in steps)


@pytest.mark.parametrize(
  ('said', 'score'),
  [
    ('tea ink', 1.0),
    ('Tea, ink.', 1.0),
    ('tea tea', 0.5),
    ('ink tea', 0.0),  # each in the place of its name
    ('tea', 0.0),
    ('tea ink rope', 0.0),
    ('', 0.0),
  ],
)
def test_answers(said, score):
  _, (step,) = play([f'<answer>{said}</answer>'])
  assert (step.reward, step.score, step.done) == (score, score, True)


@pytest.mark.parametrize(
  'said',
  ['', 'Ann', '<look>Zoe</look>', '<look>Ann', '<answer>a</answer>' * 2],
)
def test_what_is_neither_is_invalid(said):
  _, (step,) = play([said])
  assert step.invalid
  assert (step.text, step.done, step.reward) == (LOST, False, 0.0)


def test_a_message_that_calls_is_no_answer():
  _, (step,) = play(['<look>Bob</look><answer>tea ink</answer>'])
  assert (step.text, step.done) == ('is ink, was rope', False)


@pytest.mark.parametrize('form', ['tagged', 'hermes'])
def test_a_demonstration_looks_all_up(form):
  family = Lookups(objectives=4, things=5, format=form)
  for made in family.tasks('train', 20, 3):
    texts, steps = play(made.demonstration, made.task, family)
    asked = texts[0].split()
    assert len(steps) == 5
    for name, shown in zip(asked, texts[1:], strict=False):
      who = PEOPLE.index(name)
      assert shown == page(made.task, who)
      assert shown.count('is ') == 1
      assert f'is {wanted(made.task, who)}' in shown
    assert steps[-1].score == 1.0
    assert not any(x.invalid for x in steps)
    call = family.spans(made.demonstration[0])
    assert {x.part for x in call} == {'call', 'argument'}


def test_who_remembers_some_is_worth_what_is_said():
  """Scores of a memory of the last pages and of guesses."""
  family, rng = Lookups(objectives=4), np.random.default_rng(0)
  tasks = [x.task for x in family.tasks('test', 400, 0)]
  for known in range(5):
    scores = []
    for task in tasks:
      said = [THINGS[i] for i in rng.integers(4, size=4)]
      for i in range(4 - known, 4):
        said[i] = wanted(task, task['asked'][i])
      _, (step,) = play([f'<answer>{" ".join(said)}</answer>'], task, family)
      scores.append(step.score)
    assert abs(np.mean(scores) - family.value(known)) < 0.04
  assert family.value(4) == 1.0


def test_settings_that_cannot_be():
  refuses(Lookups, objectives=[0, 11], noise=[-1, 100], things=[1, 9])
  assert 'look' in Lookups(teach=True).system
  assert not Lookups().system
