"""Fact corpus as it is played: demonstrations, notes, splits, values."""

import dataclasses
import itertools

import numpy as np
import pytest

from agentrl import registry
from agentrl.advantage import chain
from agentrl.configs import envs, mira
from agentrl.env import splits
from agentrl.env.worlds.fact_corpus.env import FactCorpus
from agentrl.runtime import install
from tests import errors
from tests.advantage import one_token_turns
from tests.env.promises import refuses

pytest.importorskip('bm25s', reason=install.command('host'))

FAMILIES = {
  'plain': FactCorpus(people=100),
  'all': FactCorpus(
    people=100,
    max_hops=4,
    distractors=2,
    contradictions=0.3,
    unanswerable=0.2,
    aggregated=0.3,
    retrievers='bm25 dense graph liar aggregate',
    passages=2,
    notes=True,
    held_out='facts',
  ),
  'reads': FactCorpus(people=100, aggregated=1.0, retrievers='dense'),
  'graph': FactCorpus(people=100, retrievers='graph', passages=2),
  'liar': FactCorpus(people=100, retrievers='liar', lies=0.5),
  'team': FactCorpus(people=100, unanswerable=0.3, team=True),
  'masked': FactCorpus(people=100, masked=1.0, max_hops=3),
}
by_family = pytest.mark.parametrize('family', FAMILIES.values(), ids=FAMILIES)


@pytest.fixture
def play():
  opened = []

  def played(family, task, messages):
    """-> the replies."""
    opened.append(family.env())
    assert opened[-1].reset(task, 0) == task['question']
    return [opened[-1].step(x) for x in messages]

  yield played
  for env in opened:
    env.close()


@by_family
def test_demonstrations_are_worth_the_expert_value(family, play):
  without = 0
  for split, seed in itertools.product(splits.SPLITS, (0, 1)):
    for task, messages, _ in family.tasks(split, 8, seed):
      value = family.expert_value(task)
      assert bool(messages) == bool(value)
      without += not messages
      if not messages:
        continue
      replies = play(family, task, messages)
      assert replies[-1].done
      assert not any(x.done or x.invalid for x in replies[:-1])
      assert sum(x.reward for x in replies) == replies[-1].score == value == 1
      total = {x: sum(r.info[x] for r in replies) for x in family.columns}
      assert total['progress'] == pytest.approx(1)
      assert total['evidence'] == pytest.approx(
        1.0 if task['evidence'] else 0.0
      )
      assert not total['faults']
      assert all(r.info['hops'] == task['hops'] for r in replies)
      unknown = task['kind'] == 'unanswerable'
      assert total['answered_unknown'] == unknown
      roles = 2 * len(messages) if family.team else 0  # two before each
      assert total['notes'] == family.notes * (len(messages) - 1) + roles
  assert without <= 8 * (family.retrievers == 'liar')


@pytest.mark.parametrize('name', ['plain', 'all', 'masked'])
def test_splits_begin_at_different_entities(name):
  family = FAMILIES[name]
  tasks = {x: list(family.tasks(x, 60, 0)) for x in splits.SPLITS}
  starts, keys, texts, evidence = (
    {split: {f(x) for x in tasks[split]} for split in splits.SPLITS}
    for f in (
      lambda x: x.task['start'],
      lambda x: x.key,
      lambda x: x.task['question'],
      lambda x: frozenset(x.task['evidence']),
    )
  )
  for values in (starts, keys, texts):
    assert not values['train'] & values['test']
  for split in splits.SPLITS:
    assert {splits.split_of(key) for key in keys[split]} == {split}
    assert len(keys[split]) == len(texts[split]) == 60
  if family.held_out == 'facts':
    used = {x: frozenset().union(*evidence[x]) for x in splits.SPLITS}
    assert used['train']
    assert not used['train'] & used['test']


def test_only_the_hops_and_kinds_that_one_wants():
  family = FactCorpus(people=100, min_hops=3, max_hops=3)
  for x in family.tasks('train', 30, 0):
    assert (x.task['hops'], x.task['kind']) == (3, 'chain')
    assert len(x.task['evidence']) == 3 == len(x.demonstration) - 1
  family = FactCorpus(people=100, aggregated=1.0, aggregates='count')
  assert {x.task['kind'] for x in family.tasks('train', 20, 0)} == {'count'}
  family = FactCorpus(people=100, unanswerable=1.0)
  tasks = list(family.tasks('train', 20, 0))
  assert {x.task['answers'][0] for x in tasks} == {'unknown'}


def test_a_set_is_one_call_or_many():
  family = FactCorpus(people=100, aggregated=1.0, max_hops=1, passages=2)
  tool = dataclasses.replace(family, retrievers='bm25 aggregate')
  for one, many in zip(
    tool.tasks('train', 20, 0), family.tasks('train', 20, 0), strict=True
  ):
    calls = [x.task.pop('calls') for x in (one, many)]
    assert one.task == many.task
    assert [len(x) + 1 for x in calls] == [
      len(x.demonstration) for x in (one, many)
    ]
    assert len(one.demonstration) == 2
    assert len(many.demonstration) == 1 + len(many.task['evidence']) > 3


def test_notes_are_text(play):
  family = FactCorpus(people=100)
  (x,) = family.tasks('train', 1, 0)
  call, answer = x.demonstration[0], x.demonstration[-1]
  replies = play(
    family,
    x.task,
    [
      '<note>nothing yet</note>',
      f'<note>{answer}</note>',
      f'<note>{call}</note>',
      f'<note>so {answer}</note>{call}<note>and</note>',
      f'<note>{call}</note>{answer}',
    ],
  )
  assert [r.info['notes'] for r in replies] == [1, 1, 1, 2, 1]
  assert [r.invalid for r in replies] == [True, True, True, False, False]
  assert [r.info['calls'] for r in replies] == [0, 0, 0, 1, 0]
  assert replies[-1].score == 1
  thought = play(family, x.task, ['<think><note>x</note></think>hm'])
  assert thought[0].info['notes'] == 0


def test_the_rules_name_the_tools():
  family = FactCorpus(teach=True, retrievers='bm25 aggregate')
  assert '<aggregate>query</aggregate>' in family.system
  assert '"unknown"' in family.system
  assert 'liar' not in family.system
  assert FactCorpus().system == ''


def test_texts_are_short():
  family = FactCorpus(people=400, retrievers='bm25 dense graph liar aggregate')
  env = family.env()
  for x in family.tasks('train', 25, 0):
    assert len(env.reset(x.task, 0)) <= 40
    replies = [env.step(message) for message in x.demonstration]
    assert max(map(len, x.demonstration)) <= 44
    assert max(len(r.text) for r in replies) <= 48
  env.close()


def test_a_call_in_a_note_is_not_marked_as_one():
  family = FactCorpus(people=100)
  message = '<note><bm25>a</bm25></note><bm25>b</bm25>'
  parts = [x for x in family.spans(message) if x[2] in ('call', 'argument')]
  assert [message[a:b] for a, b, _ in parts] == ['<bm25>', 'b', '</bm25>']


PLANNED = dataclasses.replace(
  envs.family(mira.get_config('tiny')), people=100, unanswerable=0.3
)


def planned(messages, task):
  """-> the subgoal that every observation ends with, and the replies."""
  env = PLANNED.env()
  texts, replies = [env.reset(task, 0)], []
  for message in messages:
    replies.append(env.step(message))
    texts.append(replies[-1].text)
  env.close()
  return [x.rpartition('\nnext: ')[2] for x in texts], replies


def test_a_subgoal_is_named_once_those_before_it_are_reached():
  corpus, hops = PLANNED.corpus(), set()
  for task, (*calls, answer), _ in PLANNED.tasks('train', 30, 0):
    steps = [f'{task["start"]} {task["path"][0]}']
    for i, relation in zip(task['evidence'], task['path'][1:], strict=False):
      steps.append(f'{corpus.facts[i].object} {relation}')
    known = task['kind'] == 'chain'
    again = [x for call in calls for x in ('<bm25>zzz</bm25>', call, call)]
    shown, _ = planned([*again, answer], task)
    want = [*steps, 'answer'][: len(task['evidence']) + 1]
    of_turns = [want[0]]
    for k in range(len(calls)):
      after = want[min(k + 1, len(want) - 1)]
      of_turns += [want[k], after, after]
    assert shown == [*of_turns, '']
    assert (want[-1] == 'answer') == known
    assert len(task['milestones']) == task['hops']
    hops.add(task['hops'])
  assert hops == {1, 2, 3}


def test_mira_pays_each_milestone_once_and_what_is_reached_stays_paid():
  """By a right answer and a wrong one: 1/3, 1/3, then 1/3 + 1 or nothing."""
  c = mira.get_config('tiny')
  links = [
    registry.bind('link', x, c.hp.turn.get(x, {}), 'turn')
    for x in c.stream.turn
    if x != 'gae_turns'
  ]
  tasks = PLANNED.tasks('train', 30, 0)
  task, (first, second, answer), _ = next(
    x for x in tasks if x.task['kind'] == 'chain' and x.task['hops'] == 2
  )
  ends = {answer: 4 / 3, '<answer>nobody</answer>': 0}
  for end, last in ends.items():
    _, replies = planned([first, first, second, first, end], task)
    batch = one_token_turns.make_batch([[x.reward for x in replies]])
    progress = np.array([[x.info['progress'] for x in replies]])
    turns = batch.turns.replace(terms={'progress': progress})
    credit, _ = chain.stream(links, batch.replace(turns=turns), {})
    want = [[1 / 3, 0, 1 / 3, 0, last]]
    np.testing.assert_allclose(credit.turn, want, atol=1e-6)


def test_bad_settings():
  refuses(
    FactCorpus,
    people=(50,),
    max_hops=(5,),
    held_out=('all',),
    retrievers=('', 'bm25 bm25'),
    aggregates=('sum',),
    lies=(1.5,),
    passages=(0,),
    format=('xml',),
  )
  for fields, words in (
    ({'min_hops': 3}, 'min_hops 3 max_hops 2'),
    ({'unanswerable': 0.6, 'aggregated': 0.5}, ''),
    ({'contradictions': 0.1}, 'contradictions 0.1 passages 1'),
    ({'team': True, 'notes': True}, 'notes'),
    ({'subgoals': True, 'masked': 0.5}, 'masked 0.5'),
  ):
    with errors.raises(ValueError, words):
      FactCorpus(**fields)
