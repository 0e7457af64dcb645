"""The call that drops turns: what it names, and what it is answered."""

import pytest

from agentrl.text import context_edits
from agentrl.text.context_edits import Edit
from agentrl.text.tool_calls import FORMATS
from agentrl.text.tool_calls.base import Call

TAGGED = FORMATS['tagged']


@pytest.mark.parametrize('name', FORMATS)
def test_what_is_written_is_read_in_every_format(name):
  form = FORMATS[name]
  said = context_edits.write(form, [2, 11])
  want = Edit((2, 11), 'dropped 2 11')
  assert context_edits.read(form, said, {1, 2, 11}) == want
  marks = context_edits.marked(form, said)
  argument = [said[x.start : x.end] for x in marks if x.part == 'argument']
  assert any('2 11' in x for x in argument)
  assert (
    context_edits.read(form, form.write([Call('look', {'x': 'a'})]), {1})
    is None
  )
  assert context_edits.DROP.name in form.teach([context_edits.DROP])


@pytest.mark.parametrize(
  ('said', 'turns'),
  [
    ('<drop>1</drop>Ann tea', (1,)),
    ('<think>1?</think><drop> 3, 1 </drop>', (1, 3)),
    ('<drop>1</drop> or <drop>3 1</drop>', (1, 3)),
    ('<drop>001</drop><look>Ann</look>', (1,)),
  ],
)
def test_turns_are_named_by_numbers(said, turns):
  want = Edit(turns, 'dropped ' + ' '.join(map(str, turns)))
  assert context_edits.read(TAGGED, said, (1, 2, 3)) == want


@pytest.mark.parametrize(
  ('said', 'answer'),
  [
    ('<drop>7 1 9</drop>', 'no turn 7 9; use 1 2'),
    ('<drop>0</drop>', 'no turn 0; use 1 2'),
    ('<drop>-1</drop>', 'name turns by numbers, as in 1 2'),
    ('<drop>all</drop>', 'name turns by numbers, as in 1 2'),
    ('<drop></drop>', 'name turns by numbers, as in 1 2'),
    ('<drop>1</drop><drop>x</drop>', 'name turns by numbers, as in 1 2'),
    (f'<drop>{"9" * 5000}</drop>', 'no turn 999999999; use 1 2'),
  ],
)
def test_a_call_that_cannot_be_done_gets_a_sentence(said, answer):
  want = Edit((), answer, invalid=True)
  assert context_edits.read(TAGGED, said, (1, 2)) == want


def test_what_calls_no_drop_is_for_the_environment():
  for said in ('', 'drop 1', '<drop>1', '<think><drop>1</drop></think>ok'):
    assert context_edits.read(TAGGED, said, (1,)) is None
  none = context_edits.read(TAGGED, '<drop>1</drop>', ())
  assert none == Edit((), 'no turn 1; there is none to drop', invalid=True)
  form = FORMATS['hermes']
  odd = form.write([Call('drop', {'turns': [1]})])
  assert context_edits.read(form, odd, (1,)).invalid
