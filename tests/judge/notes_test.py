"""Notes: branches of the base reward, entailment, and a note from nowhere."""

import random

import pytest

import agentrl.judge  # noqa: F401  registers its pieces
from agentrl.judge import notes
from agentrl.judge.item import JudgeFault
from agentrl.service.base import ServiceFault
from tests.judge import made_up_items as items

QUESTION = 'Which river is in the town where Nalo Ferin was born?'
TASK = {'question': QUESTION, 'answers': ['Sarn', 'River Sarn']}
PASSAGE = 'Nalo Ferin was born in Tebura. Tebura is a town on the river Sarn.'
NOTE = 'Born in the town *Tebura*: *Nalo Ferin*. Its river is *Sarn*.'


def wrote(note, answer='Sarn', passage=PASSAGE):
  """A question, a search, then a note and an answer."""
  last = f'<summary>{note}</summary>' if note is not None else ''
  last += f'<answer>{answer}</answer>' if answer is not None else ''
  return items.item(
    QUESTION, '<search>Nalo Ferin</search>', passage, last, task=TASK
  )


@pytest.mark.parametrize(
  ('note', 'answer', 'want'),
  [
    (NOTE, 'Sarn', 1),
    ('no marks', 'Sarn', 1),
    (NOTE, 'the Sarn river', 1),
    (NOTE, 'Sarn or Tebura', 2 * 1 / (3 + 1)),
    (NOTE, 'Tebura', 0.1),
    ('*a #b# c*', 'Tebura', 0.1),
    ('*a #b* c#', 'Tebura', 0),
    ('*open', 'Tebura', 0),
    ('no marks', 'Tebura', 0),
    (NOTE, None, 0),
    (None, 'Sarn', 0),
    ('', 'Tebura', 0),
  ],
)
def test_branches_of_the_base_reward(note, answer, want):
  got = items.score('note_reward', wrote(note, answer))
  assert got == pytest.approx(want, rel=1e-15)


def test_a_wrong_answer_with_marks_earns_what_is_set():
  assert items.score('note_reward', wrote(NOTE, 'x'), marked=0.3) == 0.3


def test_marks_close_as_brackets_do():
  """Against taking away pairs until nothing changes."""
  r = random.Random(0)
  for _ in range(300):
    marks = ''.join(r.choice('*#') for _ in range(r.randrange(7)))
    rest, before = marks, None
    while rest != before:
      before, rest = rest, rest.replace('**', '').replace('##', '')
    text = 'x'.join(marks)
    assert notes.is_marked(text) == (bool(marks) and not rest)


@pytest.mark.parametrize(
  ('note', 'want'),
  [
    (NOTE, 1),
    (NOTE.lower().replace('*', ''), 1),
    ('Nalo Ferin was born in the town Tebura.', 0),
    ('Sarn', 0),
    ('', 0),
    (None, 0),
  ],
)
def test_scripted_entailment(note, want):
  assert items.score('note_supports', wrote(note)) == want


def test_any_gold_answer_may_follow():
  task = TASK | {'answers': ['Tebura', 'Sarn']}
  got = items.score('note_supports', wrote(NOTE)._replace(task=task))
  assert got == 1
  hp = {'statement': '{answer} is the river of {question}'}
  assert items.score('note_supports', wrote(NOTE), **hp) == 1
  assert items.score('note_supports', wrote('Sarn'), statement='{answer}') == 1


def test_the_last_note_counts():
  first = f'<summary>{NOTE}</summary>'
  what = items.item(QUESTION, first, PASSAGE, first.replace('Sarn', 'Po'))
  assert items.score('note_supports', what._replace(task=TASK)) == 0


def test_a_model_sees_the_note_and_each_statement():
  values = {'Sarn': '0.25', 'River Sarn': 'I would say 0.75'}
  ask = items.Service(
    lambda prompt: values['River Sarn' if 'River Sarn' in prompt else 'Sarn']
  )
  assert items.score('note_entailed', wrote('*Sarn*'), ask) == 0.75
  assert len(ask.prompts) == 2
  for prompt, gold in zip(ask.prompts, TASK['answers'], strict=True):
    assert f'Statement: {QUESTION} {gold}\n' in prompt
    assert 'Note: *Sarn*\n' in prompt
    assert PASSAGE not in prompt


def test_nobody_is_asked_without_a_note_and_faults_pass():
  assert items.score('note_entailed', wrote(None)) == 0
  for bad in ('none', '7'):
    with pytest.raises(ServiceFault):
      items.score('note_entailed', wrote(NOTE), items.Service(lambda _: bad))
  for name in ('note_supports', 'note_reward'):
    with pytest.raises(JudgeFault):
      items.score(name, items.spoken('<summary>x</summary>'))


@pytest.mark.parametrize(
  ('note', 'want'),
  [
    (NOTE, 1),
    ('*Tebura* and *Po*', 0.5),
    ('*river sarn* *TEBURA*', 1),
    ('*eb*', 0),
    ('* * no span', 0),
    ('no span', 0),
    (None, 0),
  ],
)
def test_spans_that_were_shown(note, want):
  assert items.score('note_grounded', wrote(note)) == want


def test_a_note_that_restates_the_gold_answer_is_flagged():
  """It is entailed, and nothing of it was looked up."""
  leak = f'*{QUESTION}* *Sarn*'
  nothing = 'Nothing was matched.'
  assert items.score('note_supports', wrote(leak, passage=nothing)) == 1
  assert items.score('note_grounded', wrote(leak, passage=nothing)) == 0
  # The task's own text is no evidence, the passage is.
  assert items.score('note_grounded', wrote('*Nalo Ferin*', passage='-')) == 0
  assert items.score('note_grounded', wrote('*Nalo Ferin*')) == 1
