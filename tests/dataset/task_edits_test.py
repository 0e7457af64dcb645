"""Edits of trajectories at one task against plain loops and cases by hand."""

import numpy as np
import pytest

from agentrl.dataset import edit_components, edits, task_edits
from agentrl.dataset.trajectory import StoredTrajectory, make_turn
from agentrl.text import tokenizer
from agentrl.types import Span, Status
from tests import errors

WORDS = tokenizer.Embedded()
START = 90  # what everyone reads first


def path(moves, outcome=0.0, task=0, history='full', **fields):
  """Moves, each a letter; an upper-case one leads away from the goal."""
  turns, seen = [], START
  for move in moves:
    away = -1.0 if move.isupper() else 1.0
    turns.append(make_turn([seen], [ord(move)], terms={'progress': away}))
    seen = ord(move) + 100
  return StoredTrajectory(
    turns=tuple(turns),
    task=task,
    group=0,
    outcome=float(np.float32(outcome)),
    status=Status.SOLVED if outcome > 0.5 else Status.FAILED,
    source='policy',
    step=1,
    history=history,
    encoded=False,
    **fields,
  )


def given(x, count):
  """The same after so many turns that somebody else wrote."""
  turns = [
    t._replace(
      span=np.full_like(t.span, Span.PREFIX), weight=np.zeros_like(t.weight)
    )
    for t in x.turns[:count]
  ]
  return x._replace(turns=(*turns, *x.turns[count:]))


def told(x):
  """Messages as letters, '~' for one that is no move; and their weights."""
  letters = [chr(t.message[0]) if len(t.message) == 1 else '~' for t in x.turns]
  weights = [float(t.weight[0]) for t in x.turns]
  for t in x.turns:
    assert (t.weight == t.weight[0]).all()
  return ''.join(letters), weights


def spliced(*xs, **values):
  made = task_edits.splice_correction(xs, words=WORDS, **values)
  return [told(x) for x in made]


@pytest.mark.parametrize(
  ('bad', 'good', 'want'),
  [
    ('abXyZ', 'abcd', 'abX~cd'),  # two turns in common, then the error
    ('Xyz', 'ab', 'X~ab'),  # nothing in common
    ('aXbc', 'aXcd', 'aX~cd'),  # the good one made the error as well
    ('axYz', 'abcd', 'axY~bcd'),  # turns before the error differ, too
    ('abX', 'abc', None),  # it ends with the error: nothing is read after it
    ('abx', 'abc', None),  # there is no error
    ('abXy', 'abX', None),  # nothing follows
    ('abXy', 'ab', None),
  ],
)
def test_a_failure_is_corrected_after_its_first_error(bad, good, want):
  found = spliced(path(bad), path(good, 1.0))
  if want is None:
    assert found == []
    return
  at = want.index('~')
  weights = [0.0] * at + [1.0] * (len(want) - at)
  assert found == [(want, weights)]


def test_what_is_read_around_the_correction():
  bad, good = path('aXyz'), path('abc', 1.0)
  (made,) = task_edits.splice_correction(
    [bad, good], words=WORDS, texts=('wait', 'go back')
  )
  read = [int(t.context[0]) for t in made.turns]
  a, x = ord('a') + 100, ord('X') + 100
  assert read == [START, a, x, a, ord('b') + 100]
  assert made.turns[2].message.tolist() == [*WORDS.encode('wait'), WORDS.eot]
  assert made.turns[2].action == -1
  assert (made.task, made.outcome, made.source) == (0, 1.0, 'edited')


def test_turns_that_a_leaf_repeats_are_learned_behind_the_correction():
  """'bc' were sampled by another leaf, in whose row alone they weigh."""
  good, other = given(path('abcd', 1.0), 3), path('abce')
  xs = edit_components.share_prefixes([path('aXy'), good, other], power=0.0)
  assert spliced(*xs) == [('aX~bcd', [0, 0, 1, 1, 1, 1])]


def test_weights_of_earlier_edits_stay_behind_the_correction():
  good = edits.drop_turns(path('abcd', 1.0), lambda k, turn: k == 2)
  assert spliced(path('aXy'), good) == [('aX~bcd', [0, 0, 1, 1, 0, 1])]


def test_a_success_without_the_error_is_preferred():
  bad, same, other = path('aXbc'), path('aXcd', 1.0), path('acd', 1.0)
  for xs in ((bad, same, other), (bad, other, same)):
    assert [x for x, _ in spliced(*xs)] == ['aX~cd']
    (made,) = task_edits.splice_correction(xs, words=WORDS)
    # What is read behind the correction is as if the error had been undone.
    assert int(made.turns[3].context[0]) == ord('a') + 100
  # Also if it is longer.
  assert [x for x, _ in spliced(bad, path('aXe', 1.0), path('acde', 1.0))] == [
    'aX~cde'
  ]


@pytest.mark.parametrize('field', ['group', 'step', 'task'])
def test_a_failure_is_corrected_by_a_leaf_of_its_tree(field):
  bad, good = path('aXy'), path('abc', 1.0)
  assert len(spliced(bad, good)) == 1
  assert not spliced(bad, good._replace(**{field: 7}))


def test_who_goes_with_whom():
  """A plain search over all pairs, in place of the edit's."""
  r = np.random.default_rng(0)
  xs = [
    path(r.choice([*'abX'], r.integers(0, 5)), r.choice([0, 0.2, 1]), task)
    for task in (0, 1, 'words')
    for _ in range(30)
  ]
  want = []
  for bad in xs:
    letters = told(bad)[0]
    cut = letters.find('X') + 1
    best = None
    for good in xs:
      if good.task != bad.task or good.outcome < 0.5 or not good.turns:
        continue
      if good.outcome - bad.outcome <= 0.5:
        continue
      other, same = told(good)[0], 0
      while letters[same : same + 1] == other[same : same + 1] != '':
        same += 1
      same = min(same, cut)
      if same == len(other):
        continue
      fits = min(same, cut - 1), same < cut, -len(other)
      if best is None or fits > best[0]:
        best = fits, other[same:]
    if not cut or cut == len(letters) or best is None:
      continue
    rest = best[1]
    if rest and cut + 1 + len(rest) <= 6:
      want.append((bad.task, letters[:cut] + '~' + rest))
  made = task_edits.splice_correction(xs, words=WORDS, gap=0.5, max_turns=6)
  assert [(x.task, told(x)[0]) for x in made] == [*dict.fromkeys(want)]
  assert len({x.id for x in made}) == len(made) > 5


def test_the_first_error_is_where_the_verdict_says_so():
  """Uncertain and good turns are kept; a success has to be above `good`."""
  verdict = {'a': 1.0, 'b': 0.5, 'X': 1.0, 'c': 0.0, 'd': 0.0}

  def judged(x):
    letters = told(x)[0]
    turns = [
      t._replace(terms={**t.terms, 'judged': verdict[letter]})
      for t, letter in zip(x.turns, letters, strict=True)
    ]
    return x._replace(turns=tuple(turns))

  xs = [judged(path('aXbcad')), judged(path('aab', 0.7))]
  own = dict(term='judged', bad=0.0, good=0.5)
  assert spliced(*xs, **own) == [('aXbc~ab', [0] * 4 + [1] * 3)]
  assert spliced(*xs) == [('aX~ab', [0] * 2 + [1] * 3)]
  assert spliced(*xs, **own | dict(good=0.7)) == []


def test_corrections_come_in_turn_and_errors_must_be_read():
  xs = [path('aXyz'), path('bXyz'), path('cXyz'), path('abc', 1.0)]
  made = task_edits.splice_correction(xs, words=WORDS, texts=('wait', 'stop'))
  got = [x.turns[2].message.tolist() for x in made]
  wait, stop = ([*WORDS.encode(x), WORDS.eot] for x in ('wait', 'stop'))
  assert got == [wait, stop, wait]
  with errors.raises(ValueError, 'full'):
    spliced(path('aX', history='turn'))


def simulated(solved, group=0):
  """A group that begins with 0, 1, ... turns of 'abcdef' and goes on by z."""
  return [
    given(path('abcdef'[:k] + 'z' * (k + 1), float(yes)), k)._replace(
      group=group
    )
    for k, yes in solved
  ]


@pytest.mark.parametrize(
  ('solved', 'want'),
  [
    # Needed up to the state that was solved first.
    ({0: 0, 2: 0, 4: 1}, {4: [1, 1, 1, 1]}),
    # Harmful turns weigh nothing, and the first state is a solution, too.
    ({0: 1, 2: 0, 4: 1}, {0: [], 4: [0, 0, 1, 1]}),
    ({0: 0, 1: 1, 2: 1, 3: 0, 5: 1}, {5: [1, 0, 0, 1, 1]}),
    # Turns between two solved states were of no use.
    ({0: 0, 1: 1, 4: 1}, {1: [1]}),
    ({0: 1, 3: 1}, {0: []}),
    ({0: 1, 3: 0}, {0: []}),
    ({0: 0, 3: 0}, {}),
    ({2: 1}, {}),  # nothing was tried before it
    ({0: 1}, {}),  # nobody failed here
  ],
)
def test_what_was_solved_from_where_a_failure_can_be_made_good(solved, want):
  xs = simulated(solved.items())
  made = task_edits.recoveries(xs)
  found = {task_edits.given_turns(x): told(x)[1] for x in made}
  assert found == {k: w + [1] * (k + 1) for k, w in want.items()}


def test_states_are_of_a_group_and_one_success_is_enough():
  one = simulated([(0, 0), (0, 1), (2, 0), (2, 1), (3, 0)])
  other = simulated([(0, 0), (2, 0), (3, 1)], group=1)
  made = task_edits.recoveries([*other, *one])
  assert [(x.group, task_edits.given_turns(x)) for x in made] == [
    (1, 3),
    (0, 0),
  ]
  later = [x._replace(step=9) for x in other]
  assert len(task_edits.recoveries([*other, *later])) == 1  # equal ones


def attempts(*rewards, message=0):
  """A try a turn; all but the last say their place."""
  x = path('t' * len(rewards), max(rewards, default=0.0))
  turns = [
    t._replace(reward=r, message=np.array([k], np.int32))
    for k, (t, r) in enumerate(zip(x.turns, rewards, strict=True))
  ]
  if turns:
    turns[-1] = turns[-1]._replace(message=np.array([message], np.int32))
  return x._replace(turns=tuple(turns))


@pytest.mark.parametrize(
  ('which', 'want'),
  [
    ('better', [1, 0, 0, 1, 0, 1]),
    ('best', [0, 0, 0, 1, 0, 1]),
    ('success', [0, 0, 0, 1, 1, 1]),
  ],
)
def test_good_attempts_keep_their_weight(which, want):
  x = attempts(0.4, 0.4, 0.2, 1.0, 0.9, 1.0)
  bad, none = attempts(0.0, 0.0), attempts()
  made = task_edits.keep_attempts([x, bad, none], which=which)
  assert told(made[0])[1] == want
  assert [told(y)[1] for y in made[1:]] == {
    'better': [],
    'best': [[1, 1]],
    'success': [],
  }[which]
  (made,) = task_edits.keep_attempts([x], which='success', above=0.95)
  assert told(made)[1] == [0, 0, 0, 1, 0, 1]


def test_one_of_each_group_is_best_or_has_most_votes():
  def of(group, step, *cases):
    return [
      attempts(r, message=m)._replace(group=group, step=step) for r, m in cases
    ]

  one = of(0, 1, (0.0, 5), (1.0, 6), (1.0, 7), (1.0, 7))
  two = of(0, 2, (0.0, 5), (0.0, 6), (0.0, 6), (0.0, 5))
  three = of(4, 2, (0.2, 1))
  made = task_edits.best_of_group([*one, *two, *three])
  assert [*map(id, made)] == [id(one[2]), id(two[0]), id(three[0])]
  assert len(task_edits.best_of_group([attempts(), attempts()])) == 1


def test_transitions_of_own_actions_are_each_learned_once():
  r = np.random.default_rng(3)
  xs = [
    given(path(r.choice([*'ab'], n), task=r.integers(2)), min(k, n))
    for n, k in zip(r.integers(1, 5, 60), r.integers(0, 4, 60), strict=True)
  ]
  want = {}
  for x in xs:
    letters, i = told(x)[0], task_edits.given_turns(x)
    if i + 1 < len(letters):  # the next state was read
      want.setdefault((x.task, letters[: i + 1], i), letters[: i + 2])
  made = task_edits.own_transitions(xs)
  assert [(x.task, told(x)[0][:-1], len(x.turns) - 2) for x in made] == [*want]
  assert 5 < len(made) < len(xs) / 2
  for x in made:
    assert not any(told(x)[1])
    learned = [t.context_weight.tolist() for t in x.turns]
    assert learned == [[0]] * (len(x.turns) - 1) + [[1]]
  with errors.raises(ValueError, 'full'):
    task_edits.own_transitions([path('ab', history='turn')])


def seen(*moves, given=0, **fields):
  """Moves, each a text and its progress; the first ones are an expert's."""
  turns = []
  for k, (text, gain) in enumerate(moves):
    turns.append(
      make_turn(
        [START + k],
        [*WORDS.encode(text), WORDS.eot],
        span=Span.PREFIX if k < given else Span.OTHER,
        weight=float(k >= given),
        terms={'progress': gain, 'invalid': float(not text)},
      )
    )
  return path('')._replace(turns=tuple(turns), **fields)


def test_reflections_say_what_others_came_to_and_conclude_with_the_expert():
  up, left = ('so up', 0.5), ('so left', 0.5)
  xs = [
    seen(('so down', -0.5)),
    seen(('so right', 0.0), up),
    seen(('so right', 0.0)),
    seen(up),
    seen(up, ('so down', 0.5), given=1),  # no worse than the expert's
    seen(up, left, ('so up', -1.0), given=2),  # of a state no one was given
    seen(('so up', -0.5), ('so right', 0.0), task=1),
    seen(('', -1.0), task=1),  # no action
    seen(left, up, given=1, task=1),
  ]
  made = task_edits.reflections(xs, words=WORDS)
  said = [
    [WORDS.decode(t.message[:-1].tolist()) for t in x.turns] for x in made
  ]
  assert said == [
    ['down loses, right idles, so up'],
    ['up loses, so left'],
  ]
  more = [*xs, seen(up, ('so right', 0.4), given=1)]
  _, later, _ = task_edits.reflections(more, words=WORDS, most=1)
  assert told(later._replace(turns=later.turns[:1]))[1] == [0]
  assert later.turns[1].weight.all()
  assert WORDS.decode(later.turns[1].message[:-1].tolist()) == (
    'right idles, so left'
  )
  assert [t.context.tolist() for t in later.turns] == [[START], [START + 1]]
  slipped = [seen(up, left, given=1), seen(('so up', -1.0))]
  assert task_edits.reflections(slipped, words=WORDS) == []
