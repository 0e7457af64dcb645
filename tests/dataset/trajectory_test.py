"""Turns are checked, ids tell contents apart, and logs are read."""

import json

import numpy as np
import pytest

from agentrl.dataset import trajectory
from agentrl.types import Span, Status
from tests import errors
from tests.dataset.stored_cases import same, story

LINE = {
  'phase': 'rl',
  'step': 4,
  'task': 2,
  'group': 1,
  'member': 0,
  'status': 'solved',
  'outcome': 1.0,
  'reward': 0.5,
  'ids': {},
  'history': 'full',
  'signals': {},
  'turns': [
    {
      'k': 0,
      'node': 0,
      'state': 77,
      'agent': 0,
      'version': 3,
      'read': {'text': 'ab', 'tokens': [5, 6], 'span': 9},
      'said': {
        'text': 'c',
        'tokens': [7, 2],
        'who': 'policy',
        'pieces': ['c', ''],
        'span': [3, 0],
        'weight': [1.0, 0.25],
        'version': [3, 4],
      },
      'reward': 0.5,
      'scored': True,
      'terms': {'env': 0.1, 'entropy': 0.7, 'invalid': 1.0, 'price': 'inf'},
      'signals': {},
      'token': {'logp': [-0.5, '-inf'], 'weight': [0.0, 0.0]},
    }
  ],
}


def test_a_line_of_a_log_is_read_as_it_was_written():
  x = trajectory.from_log(LINE)
  (turn,) = x.turns
  assert turn.context.tolist() == [5, 6]
  assert turn.context_span.tolist() == [Span.INFORMATION] * 2
  assert turn.context_weight.tolist() == [0, 0]
  assert (turn.message.tolist(), turn.span.tolist()) == ([7, 2], [3, 0])
  assert turn.weight.tolist() == [1.0, 0.25]  # of the row, not of the loss
  assert turn.logp.tolist() == [-0.5, -np.inf]
  assert turn.version.tolist() == [3, 4]
  assert (turn.action, turn.state, turn.reward) == (-1, 77, 0.5)
  assert turn.terms['price'] == np.inf
  assert turn.entropy == np.float32(0.7)
  assert x[1:] == (2, 1, 1.0, Status.SOLVED, 'policy', 4, 'full', False)
  assert (x.tokens, x.reward, x.solved) == (2, 0.5, True)


def test_a_field_that_a_line_omits_has_its_usual_values():
  line = json.loads(json.dumps(LINE))
  del line['turns'][0]['read']['span']
  del line['turns'][0]['said']['weight'], line['turns'][0]['said']['version']
  x = trajectory.from_log(line)
  (turn,) = x.turns
  assert turn.context_span.tolist() == [0, 0]
  assert turn.weight.tolist() == [1, 1]
  assert turn.version.tolist() == [3, 3]


def test_what_is_no_trajectory_is_refused():
  with errors.raises(ValueError, 'KeyError turns'):
    trajectory.from_log({})
  line = json.loads(json.dumps(LINE))
  line['turns'][0]['k'] = 1
  with errors.raises(ValueError, '1'):
    trajectory.from_log(line)
  line = json.loads(json.dumps(LINE))
  line['turns'][0]['token']['logp'] = [0.0]
  with errors.raises(ValueError, '1 2'):
    trajectory.from_log(line)
  with errors.raises(ValueError, 'span'):
    trajectory.make_turn([1], [2, 3], span=[0])


def test_ids_are_of_the_contents():
  x = story(3, turns=3)
  assert same(x, story(3, turns=3))
  assert x.id == story(3, turns=3).id
  assert x.id == x._replace(step=99, source='edited', group=7).id
  ids = {x.id, x._replace(task='other').id, x._replace(outcome=0.9).id}
  ids.add(x._replace(turns=x.turns[:2]).id)
  for i in range(8):
    turn = x.turns[0]._asdict()
    name = trajectory.StoredTurn._fields[i]
    turn[name] = np.append(turn[name], turn[name].dtype.type(1))
    first = trajectory.StoredTurn(**turn)
    ids.add(x._replace(turns=(first, *x.turns[1:])).id)
  assert len(ids) == 12


def test_tasks_have_numbers():
  assert trajectory.task_number(5) == 5
  texts = {trajectory.task_number(t) for t in ('a', 'b', 'a')}
  assert len(texts) == 2
  assert max(texts) < 0


@pytest.mark.parametrize(
  ('field', 'value'),
  [
    *(('outcome', x) for x in (np.nan, 10**400, True, '1', 'nan')),
    *(('task', x) for x in (1.5, True, '1', 2**70)),
    *(('step', x) for x in (1.5, None)),
    *(('history', x) for x in ('x', [], None)),
    *(('turns', x) for x in ({}, 0, '', None)),
    *(('turns.0.reward', x) for x in (np.nan, np.inf, '0.5', True, 'nan')),
    *(('turns.0.state', x) for x in (0.5, 2**40)),
    *(('turns.0.version', x) for x in (0.5, 2**40, True)),
    *(('turns.0.read.tokens', x) for x in ([5, -1], [5, 1.7], [5, True])),
    *(('turns.0.said.tokens', x) for x in ([5, '1'], [5, None], 'ab')),
    *(('turns.0.read.span', x) for x in (99, -1, 1.5, [0, 'x'])),
    *(('turns.0.said.span', x) for x in ([3, 99], [3, -1], [3])),
    *(('turns.0.said.weight', x) for x in ([1, np.nan], [1, -1], ['1', 1])),
    *(('turns.0.said.version', x) for x in ([3, 1.5], [3, 2**40])),
    *(('turns.0.token.logp', x) for x in ([-1, 5], [-1, 'nan'], [-1, '-1'])),
    *(('turns.0.terms.env', x) for x in ('x', None, [], True, '1')),
  ],
)
def test_numbers_of_a_line_are_checked(field, value):
  line = json.loads(json.dumps(LINE))
  node, *path = line, *field.split('.')
  for name in path[:-1]:
    node = node[int(name) if name.isdecimal() else name]
  node[path[-1]] = value
  with pytest.raises(ValueError):
    trajectory.from_log(line)
