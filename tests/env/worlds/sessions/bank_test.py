"""Banks of notes: operations, what cannot be done, likeness and reading."""

import pytest

from agentrl.env.worlds.sessions import bank as banks
from agentrl.env.worlds.sessions.bank import Note, Operation
from agentrl.text.tokenizer import SPECIALS, Embedded

RED, OLD = "Bako's tea is red", "Lomi's ink is old"
HELD = (Note(RED, 0), None, Note(OLD, 1))


def applied(message, bank=HELD, session=5):
  return banks.apply(bank, banks.parse(message), session)


@pytest.mark.parametrize(
  ('message', 'bank'),
  [
    ('noop', HELD),
    ('add x', (HELD[0], Note('x', 5), HELD[2])),
    ('update 3 x', (HELD[0], None, Note('x', 5))),
    ('delete 1', (None, None, HELD[2])),
    ('delete 1\nadd x', (Note('x', 5), None, HELD[2])),
    ('delete 1; ADD x ;noop', (Note('x', 5), None, HELD[2])),
    ('<think>add y</think> delete 3', (HELD[0], None, None)),
    # None of a list happens where one cannot.
    ('add x\nadd y', None),
    ('add x\ndelete 9', None),
    ('update 2 x', None),
    ('delete 0', None),
    ('delete 2', None),
    ('delete 4', None),
  ],
)
def test_operations(message, bank):
  assert applied(message) == bank


@pytest.mark.parametrize(
  'message',
  [
    *('', ' ', 'ok', 'add', 'add ', 'update x', 'update 1', 'delete', 'noop 1'),
    *('delete ²', 'delete 1 2', 'delete 1000', 'noop\nplease', 'nooop'),
    'noop\n' * (banks.MOST + 1),
    '<think>noop',
  ],
)
def test_what_is_not_understood(message):
  assert banks.parse(message) == ()


def test_a_message_may_hold_a_few_operations():
  assert banks.parse('noop\n' * banks.MOST) == (Operation('noop'),) * banks.MOST


@pytest.mark.parametrize(
  'text', ['x' * 10_000, 'a\tb\rc ' * 2_000, ''.join(SPECIALS[:6]), '\ud800y']
)
def test_a_hostile_note_costs_its_own_place_only(text):
  after = applied(f'add {text}')
  note = after[1]
  assert after == (HELD[0], note, HELD[2])
  assert 0 < len(note.text) <= banks.LONGEST
  assert note.text.splitlines() == [note.text]
  ids = Embedded().encode(note.text)
  assert min(ids) >= len(SPECIALS)
  assert Embedded().decode(ids) == note.text
  assert banks.read(banks.notes(after), "Bako's tea") == 'red'


def test_notes_that_are_most_alike_come_first():
  texts = ("Bako's ink is tan", "Lomi's tea is tan", "Bako's tea is red", '?')
  bank = (*(Note(x, i) for i, x in enumerate(texts)), None)
  assert banks.similar(bank, "Bako's tea", 1) == [3]
  # Of equal likeness the newer one.
  assert banks.similar(bank, "Bako's tea", 9) == [3, 2, 1, 4]
  assert banks.similar(bank, '', 2) == [4, 3]
  assert banks.similar((None,), "Bako's tea", 2) == []


@pytest.mark.parametrize(
  ('notes', 'value'),
  [
    ([], 'none'),
    ([(RED, 0)], 'red'),
    ([(OLD, 0)], 'none'),
    ([("bako's TEA is RED", 0)], 'red'),
    ([(f'so {RED}!', 0)], 'red'),
    ([(RED, 0), ("Bako's tea is tan", 1)], 'tan'),
    ([("Bako's tea is tan", 1), (RED, 0)], 'tan'),
    ([(RED, 1), ("Bako's tea is tan", 1)], 'tan'),
    ([(RED, 0), ("Bako's tea is gone", 1)], 'none'),
    ([("Bako's tea red", 0)], 'none'),
  ],
)
def test_the_reader_says_the_newest_value(notes, value):
  assert banks.read([Note(*x) for x in notes], "Bako's tea") == value
