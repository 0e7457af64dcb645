"""Evidence notes: does a note support the gold answer, and what supports it?

EviNote-RAG writes a note after each search, with key spans between stars and
uncertain ones between hashes. Its reward is `note_reward` and a term for
whether the last note entails the gold answer: `note_entailed` has a model
judge that, `note_supports` compares words. Both see the gold answer, so that a
note that merely restates it scores high; `note_grounded` does not.
"""

import re
from typing import Annotated

from agentrl import registry
from agentrl.domain import Chance, Named, Text
from agentrl.judge import answers, excerpts
from agentrl.judge.item import Item, JudgeInputs
from agentrl.judge.overlap import Tag
from agentrl.judge.verdicts import GIVES, NEEDS
from agentrl.text import grading

Template = Annotated[str, Text('a statement', empty=False)]
STATEMENT = '{question} {answer}'
_KEY, _UNSURE = '*', '#'
# Words of questions and of grammar, which a note need not repeat.
_FUNCTION_WORDS = (
  'a an the and or of in on at to by for from with as is are was were be been'
  ' do does did has have had who whom whose what which when where why how many'
  ' much that this these those there it its'
)


@registry.register('judge', gives=GIVES, takes='trajectory')
def note_reward(
  x: JudgeInputs,
  *,
  term: Named = 'note_reward',
  field: Named = 'answers',
  tag: Tag = 'answer',
  note: Named = 'summary',
  marked: Chance = 0.1,
) -> float:
  """Returns 0 without answer or note; else F₁ if > 0; else 0.1 if marked, or 0.

  The base reward of EviNote-RAG: `marked` needs notes with spans whose marks
  are closed in order. F₁ is that of `answer_f1`; the code's takes a word
  that stands twice for one.

  Args:
    term, field, tag: as of `answer_f1`
    note: tag of notes
    marked: paid for a wrong answer with marked notes
  """
  gold = excerpts.accepted(x.item, field)
  answer, notes = excerpts.answer(x.item, tag), _notes(x.item, note)
  if answer is None or not notes:
    return 0.0
  f1 = grading.f1(answer, gold)
  return float(f1 if f1 > 0 else marked * is_marked(''.join(notes)))


@registry.register('judge', gives=GIVES, takes='trajectory')
def note_supports(
  x: JudgeInputs,
  *,
  term: Named = 'note_supports',
  question: Named = 'question',
  field: Named = 'answers',
  note: Named = 'summary',
  statement: Template = STATEMENT,
) -> float:
  """Returns 1 if the last note has all content words of a gold statement, or 0.

  A scripted entailment, in the place of the model of `note_entailed`: the
  best over gold answers.

  Args:
    term, field, note: as of `note_reward`
    question: field of the task that holds the question
    statement: what is to follow from the note, of {question} and {answer}
  """
  statements = _statements(x.item, question, field, statement)
  words = set(grading.normal((_notes(x.item, note) or [''])[-1]).split())
  wanted = (set(grading.normal(text).split()) for text in statements)
  function_words = set(_FUNCTION_WORDS.split())
  return float(any(need - function_words <= words for need in wanted))


@registry.register('judge', needs=NEEDS, gives=GIVES, takes='trajectory')
def note_entailed(
  x: JudgeInputs,
  *,
  term: Named = 'note_supports',
  service: Named = 'judge',
  question: Named = 'question',
  field: Named = 'answers',
  note: Named = 'summary',
  statement: Template = STATEMENT,
) -> float:
  """max over gold answers of P(the last note entails the statement)

  As a model judges it, which sees the note and the statement and nothing
  else. Without a note it is 0, and nobody is asked.

  Args:
    term, question, field, note, statement: as of `note_supports`
    service: who is asked
  """
  statements = _statements(x.item, question, field, statement)
  notes = _notes(x.item, note)
  if not notes:
    return 0.0
  form = (
    'How probable is it that the statement is true, given the note alone?'
    ' Answer with a number from 0 to 1.'
  )
  return max(
    answers.number(x.ask(f'Note: {notes[-1]}\nStatement: {claim}\n\n{form}'))
    for claim in statements
  )


@registry.register('judge', gives=GIVES, takes='trajectory')
def note_grounded(
  x: JudgeInputs, *, term: Named = 'note_grounded', note: Named = 'summary'
) -> float:
  """|key spans of notes that the environment showed| / |key spans|, or 0

  A span is shown where its words stand, in this order, in an answer of the
  environment; the first observation, the task, does not count. It is 0 for a
  note that restates an answer from nowhere.

  Args:
    term, note: as of `note_reward`
  """
  spans = [span for text in _notes(x.item, note) for span in key_spans(text)]
  texts = [f' {grading.normal(text)} ' for text in excerpts.evidence(x.item)]
  hits = [any(f' {span} ' in text for text in texts) for span in spans]
  return sum(hits) / len(hits) if hits else 0.0


def key_spans(text: str) -> list[str]:
  """Returns the normal words between stars, of spans that have any."""
  spans = re.findall(r'\*([^*]*)\*', text)
  return [x for x in map(grading.normal, spans) if x]


def is_marked(text: str) -> bool:
  """Tells whether there are marks, each closed before the one around it."""
  open_marks: list[str] = []
  marks = [x for x in text if x in (_KEY, _UNSURE)]
  for mark in marks:
    if open_marks and open_marks[-1] == mark:
      open_marks.pop()
    else:
      open_marks.append(mark)
  return bool(marks) and not open_marks


def _notes(item: Item, tag: str) -> list[str]:
  texts = excerpts.messages(item)
  return [x for text in texts for x in excerpts.between(text, tag)]


def _statements(item: Item, question: str, field: str, template: str):
  """Returns the statement of each gold answer."""
  about = excerpts.accepted(item, question)[0]
  return [
    template.replace('{question}', about).replace('{answer}', gold)
    for gold in excerpts.accepted(item, field)
  ]
