"""Negotiation: what it allows, by going through every deal and every talk."""

import itertools

import numpy as np
import pytest

from agentrl.env import seats
from agentrl.env.worlds import negotiation
from agentrl.env.worlds.negotiation import Negotiation
from tests.env.promises import refuses
from tests.env.worlds import refereed

TASK = {'pool': [2, 1, 3], 'worth': [[1, 5, 1], [2, 0, 2]]}


def deals(task):
  """What both get by every way to divide, thing by thing, in tenths."""
  things = [i for i, n in enumerate(task['pool']) for _ in range(n)]
  first, second = task['worth']
  out = set()
  for owner in itertools.product((0, 1), repeat=len(things)):
    a = sum(first[i] for i, who in zip(things, owner, strict=True) if not who)
    b = sum(second[i] for i, who in zip(things, owner, strict=True) if who)
    out.add((a, b))
  return out


def test_the_truth_is_that_of_every_way_to_divide():
  for task, *_ in Negotiation().tasks('train', 40, 0):
    every, truth = deals(task), negotiation.truth(task)
    assert truth.welfare == max(a + b for a, b in every) / 10
    best = max(a * b for a, b in every)
    assert truth.nash[0] * truth.nash[1] == pytest.approx(best / 100)
    both = [a + b for a, b in every if a * b == best]
    assert sum(truth.nash) == pytest.approx(max(both) / 10)
    assert truth.greedy[0] == 1
    assert truth.greedy[1] == max(b for a, b in every if a == 10) / 10
    assert 1 < truth.welfare <= 2
    assert min(truth.nash) > 0


def test_demonstrations_are_nash_bargains():
  family = Negotiation()
  for split in ('train', 'test'):
    for task, said, _ in family.tasks(split, 20, 0):
      truth = negotiation.truth(task)
      _, earned, told = refereed.play(family, task, refereed.by_script(said))
      assert tuple(earned.values()) == pytest.approx(truth.nash)
      assert told['score'] == pytest.approx(truth.nash)
      share = sum(truth.nash) / truth.welfare
      assert told['info'] == [{'agreed': 1.0, 'welfare': share}] * 2


def talk(*said, task=TASK, rounds=3):
  return refereed.play(
    Negotiation(rounds=rounds), task, refereed.by_script(said)
  )


def test_who_accepts_gets_the_rest():
  """Proposals are of what their speaker takes."""
  read, earned, _ = talk('propose 0 1 3', 'propose 2 0 2', 'accept')
  assert earned == {'first': 0.6, 'second': 0.8}
  assert read == {
    'first': ['pool 2 1 3\nworth 1 5 1', 'other: propose 2 0 2'],
    'second': ['pool 2 1 3\nworth 2 0 2\nother: propose 0 1 3'],
  }
  _, earned, _ = talk('propose 0 1 3', 'accept')
  assert earned == {'first': 0.8, 'second': 0.4}


def test_without_a_deal_nobody_gets_anything():
  nothing = {'first': 0.0, 'second': 0.0}
  for said in (
    ('reject',),
    ('propose 2 1 3', 'reject'),
    ('propose 2 1 3', 'propose 2 1 3') * 3,
    ('accept',) * 6,  # nothing is proposed
    ('propose 2 1 3', 'propose 3 1 3', 'accept', 'reject'),  # too much
  ):
    _, earned, told = talk(*said)
    assert earned == nothing
    assert told['score'] == [0, 0]
    assert told['info'][0] == {'agreed': 0.0, 'welfare': 0.0}


@pytest.mark.parametrize(
  'said',
  ['', 'accept', 'propose', 'propose 1 1', 'propose 1 1 1 1', 'propose 9 0 0',
   'propose -1 0 0', 'propose 1 1 1 please', 'PROPOSE 1 1 1', '\ud800', '\x00'],
)  # fmt: skip
def test_what_is_not_understood_is_said_so_and_no_more(said):
  read, _, told = talk(said, 'reject')
  assert read['second'][0].endswith('other: ?')
  _, _, told = talk(said, 'propose 1 1 1', rounds=1)
  assert not told['invalid']
  _, _, told = talk('propose 1 1 1', said + '!', rounds=1)
  assert told['invalid']


def test_no_seat_reads_what_things_are_worth_to_the_other():
  family = Negotiation(rounds=4)
  rng = np.random.default_rng(0)
  for task, *_ in family.tasks('train', 30, 1):
    own = [f'worth {" ".join(map(str, x))}' for x in task['worth']]
    if own[0] == own[1]:
      continue
    moves = [
      'propose ' + ' '.join(map(str, rng.integers(0, 3, 3))) for _ in 'x' * 8
    ]
    read, _, _ = refereed.play(family, task, refereed.by_script(moves))
    for seat, mine, others in (('first', *own), ('second', *own[::-1])):
      text = '\n'.join(read[seat])
      assert mine in text
      assert others not in text
      assert family.describe(task) == read[seat][0].splitlines()[0]


def test_greedy_is_the_equilibrium_of_who_knows_everything():
  """By backward induction through the referee itself, every talk of it."""
  family = Negotiation(kinds=2, rounds=2)
  task = {'pool': [2, 1], 'worth': [[3, 4], [1, 8]]}
  takes = itertools.product(range(3), range(2))
  moves = ['accept', 'reject', *map(negotiation.propose, takes)]

  def value(said):
    """What both get if all go on for the best after what was said."""
    left = iter(said)
    try:
      _, earned, _ = refereed.play(family, task, lambda *_: next(left))
      return tuple(earned.values())
    except StopIteration:
      pass
    seat = len(said) % 2
    after = [value((*said, x)) for x in moves]
    # Who does not care does what is better for the other.
    return max(after, key=lambda v: (v[seat], v[1 - seat]))

  assert value(()) == pytest.approx(negotiation.truth(task).greedy)


def test_settings_and_texts():
  family = Negotiation(teach=True, rounds=2)
  assert isinstance(family, seats.SeatedFamily)
  assert '2 messages' in family.system
  assert family.seat_system('second') == 'You speak second.'
  assert Negotiation().system == Negotiation().seat_system('first') == ''
  names = {Negotiation(kinds=k).name() for k in (2, 3, 4)}
  assert len(names | {family.name()}) == 4
  refuses(Negotiation, kinds=(1, 5), rounds=(0, 10))
