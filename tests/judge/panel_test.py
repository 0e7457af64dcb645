"""Panel of judges: every answer a service can give, counted and bounded."""

import math
import threading

import numpy as np
import pytest

from agentrl.judge import answers, panel, planted
from agentrl.judge.item import Exchange, Item
from agentrl.judge.panel import Judge, JudgePanel, Settings
from agentrl.service.answer_file import AnswerFile
from agentrl.service.base import ServiceFault


def item(name='x', turns=3, outcome=1.0):
  made = tuple(
    Exchange(f'{name} sees {k}', f'{name} writes {k}', {'tokens': float(k)})
    for k in range(turns)
  )
  return Item({'name': name}, made, -1, outcome)


def turn_number(x):
  return answers.number(x.ask(x.item.here.message))


def judge(service=None, piece=turn_number, unit='turn', identity='s'):
  return Judge('number', piece, 'judged', unit, service, identity)


def asked(judged, items, **settings):
  """Verdicts by place, counts."""
  with_file = settings.pop('file', None)
  error = settings.pop('error', planted.PlantedError())
  one = JudgePanel([judged], Settings(**settings), error, answers=with_file)
  for place, x in enumerate(items):
    one.submit(place, x)
  one.submit_group(range(len(items)), items)
  verdicts = one.collect()
  counts = {k.rpartition('/')[2]: n for k, n in one.taken().items()}
  one.close()
  return verdicts, counts


def tenth(messages, *, seed):
  del seed
  return f'0.{messages[-1].content[-1]}'


def test_every_turn_gets_its_verdict():
  verdicts, counts = asked(judge(tenth), [item('a'), item('b', 2)])
  assert [v.turn for v in verdicts[0]] == [0, 1, 2]
  assert [v.score for v in verdicts[1]] == [0.0, 0.1]
  assert verdicts[0][1].questions == (('a writes 1', '0.1'),)
  assert counts['items'] == counts['questions'] == counts['scores'] == 5
  assert counts['unscored'] == counts['cached'] == 0
  assert counts['total'] == pytest.approx(0.4)


def test_equal_questions_are_put_once(tmp_path):
  calls = []

  def service(messages, *, seed):
    calls.append(seed)
    return '0.5'

  file = AnswerFile(tmp_path / 'a.jsonl')
  _, counts = asked(judge(service), [item('a')] * 2, threads=1, file=file)
  assert len(calls) == 3
  assert (counts['questions'], counts['cached']) == (6, 3)
  again = AnswerFile(tmp_path / 'a.jsonl')
  verdicts, counts = asked(judge(service), [item('a')], file=again)
  assert len(calls) == 3
  assert counts['cached'] == 3
  assert {v.score for v in verdicts[0]} == {0.5}
  # One whose answers change is asked again.
  asked(judge(service, identity=''), [item('a')] * 2, threads=1)
  assert len(calls) == 9
  assert calls[:3] == calls[3:6]  # the seed is of the question


def test_rubbish_is_no_score():
  wrong = ['', 'very good', '7', '-1', 'nan', '1e999', '0.5' * 50_000]

  def service(messages, *, seed):
    del seed
    return wrong[int(messages[-1].content[-1])]

  verdicts, counts = asked(judge(service), [item('a', len(wrong))])
  assert all(math.isnan(v.score) and v.fault for v in verdicts[0])
  assert counts['failed'] == counts['unscored'] == len(wrong)


@pytest.mark.parametrize(
  'error', [ServiceFault('no'), KeyError('a'), OSError()]
)
def test_one_that_dies_costs_its_turns(error):
  def service(messages, *, seed):
    if messages[-1].content.startswith('a'):
      raise error
    return '1'

  verdicts, counts = asked(judge(service), [item('a'), item('b')])
  assert [v.score for v in verdicts[1]] == [1.0] * 3
  assert all(v.fault for v in verdicts[0])
  assert counts['failed'] == 3


def test_one_that_hangs_is_late_and_soon_not_asked():
  release, calls = threading.Event(), []

  def service(messages, *, seed):
    calls.append(messages)
    release.wait()
    return '1'

  verdicts, counts = asked(
    judge(service), [item(str(i)) for i in range(20)], threads=2, seconds=0.1
  )
  release.set()
  assert counts['late'] == counts['unscored'] == 60
  assert len(calls) <= 6
  assert all(v.fault for of in verdicts.values() for v in of)


@pytest.mark.parametrize('threads', [1, 7])
def test_a_budget_is_spent_on_the_same_items(threads):
  items = [item(str(i), 4) for i in range(10)]
  verdicts, counts = asked(judge(tenth), items, budget=12, threads=threads)
  assert counts['questions'] == counts['scores'] == 12
  assert counts['over_budget'] == 28
  backwards, _ = asked(judge(tenth), items[::-1], budget=12, threads=threads)
  for place, of in verdicts.items():
    same = [v.fault for v in backwards[9 - place]]
    assert [v.fault for v in of] == same


@pytest.mark.parametrize('budget', [1, 5, 12])
@pytest.mark.parametrize('units', [('turn', 'turn'), ('trajectory', 'turn')])
def test_each_of_two_judges_has_the_whole_budget_anew(budget, units):
  asked_of = {'a': [], 'b': []}

  def service(name):
    def answer(messages, *, seed):
      del seed
      asked_of[name].append(messages[-1].content)
      return '1'

    return answer

  one = JudgePanel(
    [
      Judge(name, turn_number, name, unit, service(name))
      for name, unit in zip('ab', units, strict=True)
    ],
    Settings(budget=budget),
  )
  for iteration in (1, 2):
    for place in range(15):
      one.submit(place, item(f'{iteration} {place}', 4))
    verdicts = one.collect()
    counts = one.taken()
    for name, unit in zip('ab', units, strict=True):
      all_items = 15 * (4 if unit == 'turn' else 1)
      scored = [
        v
        for of in verdicts.values()
        for v in of
        if v.judge == name and not v.fault
      ]
      assert len(scored) == budget
      assert counts[f'judge/{name}/questions'] == budget
      assert counts[f'judge/{name}/over_budget'] == all_items - budget
      assert len(asked_of[name]) == budget * iteration
  if units[0] == units[1]:  # the budget falls on the same items
    assert sorted(asked_of['a']) == sorted(asked_of['b'])
  one.close()


def test_answers_are_kept_by_the_judge_and_by_who_answers_it():
  calls = []

  def service(messages, *, seed):
    del seed
    calls.append(messages[-1].content)
    return '1'

  def judges(names, identities):
    return [
      Judge(n, turn_number, n, 'turn', service, i)
      for n, i in zip(names, identities, strict=True)
    ]

  for names, identities, times in (
    ('ab', 'ss', 2),
    ('ab', 'st', 2),
    ('a', 's', 1),
  ):
    calls.clear()
    one = JudgePanel(judges(names, identities), Settings(threads=1))
    for place in range(3):
      one.submit(place, item('same', 2))
    one.collect()
    one.close()
    assert len(calls) == 2 * times


def test_a_message_of_half_a_pair_is_judged():
  verdicts, _ = asked(judge(lambda m, *, seed: '1'), [item('\ud83d', 1)])
  assert [v.score for v in verdicts[0]] == [1.0]


@pytest.mark.parametrize(
  ('unit', 'value', 'wanted'),
  [
    ('turn', 0.5, [(0, 0.5), (1, 0.5), (2, 0.5)]),
    ('turn', np.float32(0.5), [(0, 0.5), (1, 0.5), (2, 0.5)]),
    # Each turn is asked about alone.
    ('turn', [0.5, 1.0, 0.0], [(0, None), (1, None), (2, None)]),
    ('trajectory', [0.5, math.nan, 0.0], [(0, 0.5), (1, None), (2, 0.0)]),
    ('trajectory', np.float32(0.5), [(-1, 0.5)]),
    ('trajectory', [0.5, 1.0], [(-1, None)]),
    ('group', [0.5], [(-1, 0.5)]),
    ('group', [0.5, 1.0], [(-1, None)]),
  ],
)
def test_a_piece_gives_as_many_scores_as_its_unit_has(unit, value, wanted):
  verdicts, counts = asked(judge(None, lambda _: value, unit), [item('a')])
  got = [(x.turn, None if x.fault else x.score) for x in verdicts[0]]
  assert got == wanted
  assert counts['unscored'] == [x for _, x in wanted].count(None)


def test_each_of_a_group_gets_its_score():
  ranks = judge(None, lambda x: [item.outcome for item in x.items], 'group')
  verdicts, counts = asked(ranks, [item('a'), item('b', outcome=0.5)])
  assert [verdicts[i][0].score for i in range(2)] == [1.0, 0.5]
  assert counts['items'] == 1
  fails = judge(None, lambda _: [1.0], 'group')
  verdicts, counts = asked(fails, [item('a'), item('b')])
  assert all(verdicts[i][0].fault for i in range(2))
  assert counts['unscored'] == 2


def test_errors_are_planted_in_what_is_given():
  items = [item(str(i), 5) for i in range(40)]
  right = judge(None, lambda x: float(x.item.turn % 2))
  error = planted.PlantedError(flip=0.2, refusal=0.1)
  clean, _ = asked(right, items)
  dirty, counts = asked(right, items, error=error)
  pairs = [
    (a.score, b.score)
    for place in clean
    for a, b in zip(clean[place], dirty[place], strict=True)
  ]
  pairs = np.array([p for p in pairs if not math.isnan(p[1])])
  assert 0.1 < np.mean(pairs[:, 0] != pairs[:, 1]) < 0.3
  assert 8 <= counts['unscored'] <= 35
  again, _ = asked(right, items, error=error, threads=1)
  assert repr(again) == repr(dirty)


def test_a_piece_without_a_service_that_asks_is_told_so():
  verdicts, _ = asked(judge(None), [item('a', 1)])
  assert 'must have a service' in verdicts[0][0].fault


def test_forgetting_leaves_nothing_to_wait_for():
  one = JudgePanel([judge(tenth)], Settings(budget=1))
  one.submit(0, item())
  one.forget()
  assert one.collect() == {}
  assert panel.JudgePanel([]).collect() == {}
