"""Process rewards of paths: exact, by hand and against a loop over steps."""

import itertools
import re

import numpy as np
import pytest

import agentrl.judge  # noqa: F401  registers its pieces
from agentrl import registry
from agentrl.judge import coverage
from agentrl.judge.item import Item, JudgeFault
from tests.judge import items, made_up_items

HOME, MAYOR = "Bako's home is Tebu.", "Tebu's mayor is Nalo."
TASK = dict(passages=[HOME, MAYOR], answers=['Nalo'])
GO = "Bako's home's mayor?"
END = '<answer>Nalo</answer>'
# ROUGE-L of 'Bako home' and of 'Tebu mayor' with their facts: two words of two
# stand in five, in order.
ASKED = 2 * 2 / (2 + 5)


def shown(*lines):
  return '\n'.join(['<result>', *lines, '</result>'])


def score(*talk, terms=(), task=TASK, **hp):
  what = items.item_of(*talk, terms=terms, **task)
  return made_up_items.score('evidence_coverage', what, **hp)


ONE, TWO = '<bm25>Bako home</bm25>', '<bm25>Tebu mayor</bm25>'
SHORT = (GO, ONE, shown(HOME), TWO, shown(MAYOR), END)
DETOUR = (GO, ONE, shown(HOME), ONE, shown(HOME), TWO, shown(MAYOR), END)
HALF = (GO, ONE, shown(HOME), END)
NOTED = (
  GO,
  ONE,
  shown(HOME),
  f'<note>*{HOME}*</note>{TWO}',
  shown(MAYOR),
  f"<note>*{HOME}* *{MAYOR}* Bako's home's mayor is Nalo.</note>{END}",
)


@pytest.mark.parametrize(
  ('talk', 'parts', 'want'),
  [
    (SHORT, ('context',), 1 / 2),
    (SHORT, ('query',), ASKED / 2),
    (SHORT, ('query', 'context'), (ASKED + 1) / 2 / 2),
    (SHORT, coverage.PARTS, (ASKED + 1 + 0) / 3 / 2),
    (NOTED, ('summary',), 1 / 2),
    (NOTED, ('query',), ASKED / 2),
    (NOTED, coverage.PARTS, (ASKED + 1 + 1) / 3 / 2),
    # Evidence that is found twice counts once, and its step counts.
    (DETOUR, ('context',), 1 / 3),
    # Its words 's' and 'is' stand in the other fact, too.
    (HALF, ('context',), (1 + 2 * 2 / (5 + 5)) / 2),
    # Right from memory: nothing is covered.
    ((GO, END), coverage.PARTS, 0),
    # Nothing is answered yet to the last message of a trajectory cut short.
    ((GO, ONE, shown(HOME), TWO), ('context',), (1 + 2 * 2 / 10) / 2 / 2),
    ((), coverage.PARTS, 0),
  ],
)
def test_by_hand(talk, parts, want):
  got = score(*talk, parts=parts)
  np.testing.assert_allclose(got, want, rtol=1e-15)


def test_the_best_passage_of_a_step_counts():
  """More passages in a step cost nothing, the same ones in two steps do."""
  both = (GO, ONE, shown('Rife is far.', MAYOR, HOME), END)
  assert score(*both, parts=('context',)) == 1
  assert score(*DETOUR, parts=('context',)) < score(*SHORT, parts=('context',))


@pytest.mark.parametrize(
  ('answer', 'f1'), [('Nalo', 1), ('Nalo Rife', 2 / 3), ('Rife', 0)]
)
@pytest.mark.parametrize('gold', [None, [], [HOME]])
def test_without_evidence_of_several_hops_the_answer_counts(gold, answer, f1):
  task = dict(passages=gold, answers=['Nalo'])
  end = f'<answer>{answer}</answer>'
  got = score(*SHORT[:-1], end, task=task)
  np.testing.assert_allclose(got, f1 / 2, rtol=1e-15)
  np.testing.assert_allclose(score(GO, end, task=task), f1, rtol=1e-15)
  assert score(GO, ONE, task=task) == 0
  assert score(task=task) == 0


def test_one_fact_is_matched_where_that_is_asked_for():
  task = dict(passages=[HOME], answers=['Tebu'])
  assert score(*DETOUR, task=task, parts=('context',), least=1) == 1 / 3


def test_messages_that_were_not_understood_are_steps_that_say_nothing():
  fine, bad = {'invalid': 0.0}, {'invalid': 1.0}
  stuffed = f'{HOME} {MAYOR} <note>{HOME} {MAYOR}</note>'
  talk = (GO, stuffed, stuffed, *SHORT[1:])
  for parts in [(x,) for x in coverage.PARTS]:
    got = score(*talk, terms=[bad, fine, fine, fine], parts=parts)
    np.testing.assert_allclose(got, score(*SHORT, parts=parts) * 2 / 3)
  assert score(GO, stuffed, 'no', stuffed, terms=[bad, bad]) == 0


def test_an_answer_in_a_note_or_a_broken_message_ends_no_path():
  noted = f'<note>so {END}</note>{TWO}'
  cut = (GO, ONE, shown(HOME), noted)
  plain = (GO, ONE, shown(HOME), TWO)
  context = dict(parts=('context',))
  assert score(*cut, **context) == score(*plain, **context)
  bad = [{'invalid': 0.0}, {'invalid': 1.0}]
  talk = (GO, ONE, shown(HOME), END)
  assert score(*talk, terms=bad, **context) == score(*talk, **context) / 2
  task = dict(passages=[HOME], answers=['Nalo'])
  assert score(*cut, task=task) == 0


def test_what_is_only_thought_is_neither_asked_nor_noted():
  thought = f'<think>{HOME} {MAYOR} <note>{HOME} {MAYOR}</note></think>'
  talk = (GO, thought + ONE, shown('No passage.'), END)
  plain = (GO, ONE, shown('No passage.'), END)
  assert score(*talk) == score(*plain)


def test_a_task_without_gold_answers_has_no_score():
  with pytest.raises(JudgeFault):
    score(*SHORT, task={})


def lcs(a, b):
  """The longest subsequence of a that is one of b, by trying them all."""
  for n in range(len(a), 0, -1):
    for some in itertools.combinations(a, n):
      rest = iter(b)
      if all(x in rest for x in some):
        return n
  return 0


def by_steps(talk, gold, parts):
  """The reward as a loop over facts, parts and steps, in float64."""
  messages, seen = talk[1::2], [*talk[2::2], '']
  count = len(messages) - ('<answer>' in messages[-1])
  total = 0.0
  for fact in gold:
    f = re.findall('[a-z0-9]+', fact.lower())
    for part in parts:
      best = 0.0
      for k, (message, result) in enumerate(zip(messages, seen, strict=True)):
        note = ' '.join(re.findall('<note>(.*?)</note>', message))
        query = re.sub('<note>.*</note>', '', message)
        text = {'query': query, 'context': result, 'summary': note}[part]
        if part != 'summary' and k >= count:
          continue
        for sentence in re.split(r'\. |\n', re.sub('<[^>]*>', '\n', text)):
          words = re.findall('[a-z0-9]+', sentence.lower())
          if words:
            n = lcs(words, f)
            best = max(best, 2 * n / (len(words) + len(f)))
      total += best / len(parts)
  return total / (len(gold) * max(count, 1))


@pytest.mark.parametrize('seed', range(12))
def test_a_random_path_against_a_loop(seed):
  r = np.random.default_rng(seed)
  names = ['Bako', 'Tebu', 'Nalo', 'Rife']
  relations = ['home', 'mayor', 'friend']

  def fact():
    a, b = r.choice(names, 2, replace=False)
    return f"{a}'s {r.choice(relations)} is {b}."

  gold = [fact() for _ in range(r.integers(2, 4))]
  talk = [GO]
  for _ in range(r.integers(1, 5)):
    note = ' '.join(fact() for _ in range(r.integers(0, 3)))
    query = f'{r.choice(names)} {r.choice(relations)}'
    said = f'<note>{note}</note>' * bool(note) + f'<bm25>{query}</bm25>'
    talk += [said, shown(*(fact() for _ in range(r.integers(0, 3))))]
  talk += [f'<note>{fact()}</note>{END}'] if r.random() < 0.7 else ['hm']
  task = dict(passages=gold, answers=['Nalo'])
  for n in (1, 2, 3):
    for parts in itertools.combinations(coverage.PARTS, n):
      got = score(*talk, task=task, parts=parts)
      assert isinstance(got, float)
      assert 0 <= got <= 1
      want = by_steps(talk, gold, parts)
      np.testing.assert_allclose(got, want, rtol=1e-14)


def test_it_reads_whole_trajectories():
  assert registry.get('judge', 'evidence_coverage').takes == 'trajectory'
  assert coverage.read(Item(TASK, (), -1, 0.0), 'note', 'answer').steps == 1
