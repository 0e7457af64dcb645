"""Sessions: what is told, kept and asked, and who manages and answers."""

import functools

import pytest

from agentrl.env import base
from agentrl.env.worlds.sessions import managers
from agentrl.env.worlds.sessions.env import (
  RULES,
  VALUES,
  Sessions,
  fact_text,
  truth,
)
from tests import errors
from tests.env.promises import play, refuses, replies

TEA, INK = "Bako's tea", "Lomi's ink"
TASK = {
  'told': [[TEA, 'red'], [INK, 'old'], [TEA, 'tan'], [INK, 'gone']],
  'asked': [TEA, INK],
}
GOOD = [
  f'add {TEA} is red',
  f'add {INK} is old',
  f'update 1 {TEA} is tan',
  'delete 2',
]


def steps(messages, task=TASK, services=None, **settings):
  family = Sessions(**settings)
  env = base.with_services(family, services or {}).env()
  return replies(env, task, messages)


def columns(out, name):
  return [x.info[name] for x in out]


def test_an_episode():
  texts = play(Sessions(bank=2).env(), TASK, [*GOOD, 'Tan.', 'none'])
  first, out = texts[0], texts[1:]
  assert first == f'{TEA} is red'
  assert [x.text for x in out] == [
    f'{INK} is old\n1 {TEA} is red',
    f'{TEA} is tan\n1 {TEA} is red\n2 {INK} is old',
    f'{INK} is gone\n2 {INK} is old\n1 {TEA} is tan',
    f'{TEA}?\n1 {TEA} is tan',
    f'{INK}?\n1 {TEA} is tan',
    '',
  ]
  assert [x.reward for x in out] == [0, 0, 0, 0, 0.5, 0.5]
  assert [x.done for x in out] == [False] * 5 + [True]
  assert out[-1].score == 1.0
  assert columns(out, 'asks') == [0, 0, 0, 0, 1, 1]
  assert columns(out, 'legal') == columns(out, 'useful') == [1] * 6
  assert columns(out, 'kept') == [1] * 6
  assert not any(x.invalid for x in out)


def read(**settings):
  """Runs the good episode and lists what the agent is shown."""
  return play(Sessions(bank=2, **settings).env(), TASK, [*GOOD, 'tan', 'none'])


def test_a_placebo_shows_other_notes_and_keeps_the_bank():
  own, other, nothing = (read(reads=x) for x in ('own', 'shuffled', 'none'))
  texts = lambda out: [out[0], *(x.text for x in out[1:])]  # noqa: E731
  for out in (other, nothing):  # the bank, and so what is earned, is the same
    assert [x[1:] for x in out[1:]] == [x[1:] for x in own[1:]]
  assert texts(nothing) == [x.split('\n')[0] for x in texts(own)]
  for a, b in zip(texts(own), texts(other), strict=True):
    (fact, *notes), (same, *changed) = a.split('\n'), b.split('\n')
    assert fact == same
    assert len(notes) == len(changed)
    for note, has in zip(notes, changed, strict=True):
      assert note.split()[:-1] == has.split()[:-1]  # whose, and of what
      assert note.split()[-1] != has.split()[-1]
      assert has.split()[-1] in VALUES


def test_what_is_not_kept_is_seen_in_the_columns():
  said = [GOOD[0], 'what?', 'add x', 'add y', 'red', 'old ink']
  out = steps(said, bank=2)
  assert columns(out, 'legal') == [1, 0, 1, 0, 1, 0]
  assert [x.invalid for x in out] == [False, True, False, True, False, True]
  # The ink was never noted, which is right once it is gone.
  assert columns(out, 'useful') == [1, 0, 0, 0, 0, 0]
  assert columns(out, 'kept') == [1, 0.5, 0, 0.5, 0.5, 0.5]
  assert out[-1].score == 0
  # Nothing is wrong with a note that loses nothing.
  assert columns(steps(['add x'], bank=3), 'useful') == [0]
  assert columns(steps([GOOD[0], 'noop'], bank=3), 'useful') == [1, 0]
  lost = [GOOD[0], f'update 1 {INK} is old']
  assert columns(steps(lost, bank=3), 'useful') == [1, 0]


def test_a_full_bank_takes_no_more():
  out = steps(GOOD[:2], bank=1)
  assert columns(out, 'legal') == [1, 0]
  assert out[1].text == f'{TEA} is tan\n1 {TEA} is red'


SIZES = [
  {},
  {'sessions': 16, 'bank': 1, 'shown': 1},
  {'sessions': 32, 'people': 6, 'bank': 5, 'asked': 5},
  {'people': 1, 'things': 1, 'asked': 3},
  {'repeats': 1.0, 'changes': 0.0, 'retractions': 0.0},
  {'retractions': 1.0, 'changes': 0.0, 'repeats': 0.0},
  {'changes': 0.0, 'retractions': 0.0, 'repeats': 0.0, 'people': 32},
]


@functools.cache
def scores(manager, **settings):
  """The score of each of some tasks, with answers that say what notes do."""
  family = Sessions(manager=manager, **settings)
  env, out = family.env(), []
  for task in family.tasks('test', 12, 0):
    out.append(replies(env, task.task, task.demonstration)[-1].score)
  return out


@pytest.mark.parametrize('size', SIZES, ids=str)
@pytest.mark.parametrize('shown', [1, 4])
def test_the_expert_solves_every_task(size, shown):
  for answerer in ('policy', 'exact'):
    family = Sessions(**{**size, 'shown': shown, 'answerer': answerer})
    env = family.env()
    for task in family.tasks('train', 6, 1):
      out = replies(env, task.task, task.demonstration)
      assert out[-1].score == 1.0
      assert sum(x.reward for x in out) == pytest.approx(1.0)
      assert {*columns(out, 'useful'), *columns(out, 'legal')} == {1.0}
  assert set(scores('expert', **{**size, 'shown': shown})) == {1.0}


def test_managers_that_ignore_meaning_lose_at_equal_size():
  mean = {
    name: sum(scores(name, sessions=16)) / 12 for name in managers.MANAGERS
  }
  assert mean['expert'] == 1.0
  assert mean['none'] < mean['recency'] < 1.0
  assert mean['append'] < mean['recency']
  # With room for everything, reading the newest note is enough.
  roomy = {'sessions': 8, 'bank': 9, 'shown': 9}
  assert set(scores('append', **roomy)) == {1.0}


def test_tasks_keep_within_the_bank():
  family = Sessions(sessions=32, people=6, bank=3)
  seen = set()
  for made in family.tasks('train', 20, 0):
    told = made.task['told']
    for n in range(1, len(told) + 1):
      names = {x for x, _ in told[:n]}
      held = {x for x in names if truth(told[:n], x) != 'none'}
      assert len(held) <= 3
      before = truth(told[: n - 1], told[n - 1][0])
      after = truth(told[:n], told[n - 1][0])
      if before == after == 'none':
        pytest.fail('what has no value cannot be retracted')
      seen.add((before != 'none', after != 'none', before == after))
  # New, changed, retracted, repeated.
  assert seen == {
    (False, True, False),
    (True, True, False),
    (True, False, False),
    (True, True, True),
  }


def test_rewards_follow_the_operations_only_through_the_bank():
  """The idea of Memory-R1: without a bank, what is written changes nothing."""
  variants = [GOOD, ['noop'] * 4, [*GOOD[:2], 'noop', 'delete 1'], GOOD[:1] * 4]

  def earned(**settings):
    played = [steps(x, answerer='exact', **settings) for x in variants]
    assert all(len(x) == 4 and x[-1].done for x in played)
    assert all(x[-1].reward == x[-1].score for x in played)
    assert not any(y.reward for x in played for y in x[:-1])
    return [x[-1].score for x in played]

  assert earned(bank=2) == [1.0, 0.5, 0.0, 0.5]
  assert earned(bank=0) == [0.5] * 4  # "none" is right where nothing holds


def test_services_see_what_the_agent_would():
  asked = []

  def last(messages, *, seed):
    asked.append([x.content for x in messages])
    return messages[-1].content.split()[-1]

  (*_, end) = steps(
    GOOD, services={'answerer': last}, answerer='service', bank=2, teach=True
  )
  assert (end.done, end.score, end.reward) == (True, 0.5, 0.5)
  assert asked == [[RULES, f'{x}?\n1 {TEA} is tan'] for x in (TEA, INK)]
  asked.clear()

  def copies(messages, *, seed):
    asked.append([x.content for x in messages])
    fact, *notes = messages[-1].content.splitlines()
    return 'noop' if notes else f'add {fact}'

  family = base.with_services(Sessions(manager='service'), {'manager': copies})
  texts = play(family.env(), TASK, ['red', 'none'])
  note = f'1 {TEA} is red'
  facts = [fact_text(x) for x in TASK['told']]
  assert asked == [[facts[0]], *([f'{x}\n{note}'] for x in facts[1:])]
  assert texts[0] == f'{TEA}?\n{note}'
  assert [x.reward for x in texts[1:]] == [0, 0.5]


@pytest.mark.parametrize('role', ['manager', 'answerer'])
def test_a_service_is_needed_for_each_role_that_it_plays(role):
  family = Sessions(**{role: 'service'})
  assert base.needs(family) == (role,)
  assert base.needs(Sessions()) == ()
  with errors.raises(ValueError, 'base.with_services'):
    family.env()


def test_settings_that_cannot_be():
  refuses(Sessions, sessions=[0, 65], bank=[-1], shown=[0], things=[9])
  with errors.raises(ValueError, 'changes retractions repeats 1.1'):
    Sessions(changes=0.5, retractions=0.5, repeats=0.1)
  with errors.raises(ValueError, 'manager answerer append exact'):
    Sessions(manager='append', answerer='exact')
