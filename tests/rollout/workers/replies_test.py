"""Answers of an environment are checked, and no process is believed."""

import numpy as np
import pytest

from agentrl.env.base import Step
from agentrl.rollout.workers.replies import (
  MOST,
  EnvError,
  checked,
  decode_reply,
  encode_reply,
  observed,
)
from tests import errors
from tests.rollout.workers import naughty, rooms

COLUMNS = naughty.Family.columns
BAD = {
  'none': ('malformed', 'NoneType'),
  'tuple': ('malformed', 'tuple'),
  'bytes': ('malformed', 'bytes'),
  'surrogate': ('malformed', 'surrogates'),
  'long': ('oversize', '100001'),
  'huge': ('oversize', '3000000'),
  'nan': ('malformed', 'reward nan'),
  'inf': ('malformed', 'score inf'),
  'digits': ('malformed', 'reward'),
  'rich': ('malformed', 'reward 1e+300'),
  'poor': ('malformed', 'reward -1100000000000.0'),
  'payoff': ('malformed', 'score 1.5 0 1'),
  'debt': ('malformed', 'score -0.25 0 1'),
  'words': ('malformed', 'reward 1'),
  'done': ('malformed', 'done 1'),
  'invalid': ('malformed', 'invalid None'),
  'facts': ('malformed', 'info 1'),
  'unknown': ('malformed', 'sene'),
  'fact': ('malformed', 'info seen nan'),
  'far': ('malformed', 'info seen 1e+39'),
}


@pytest.mark.slow
@pytest.mark.parametrize('place', ['thread', 'process', *rooms.CLUSTERS])
def test_bad_answers_in_every_place(place):
  """One room each; the fault costs the environment, and not the room."""
  assert BAD.keys() == naughty.VALUES.keys()
  with rooms.open_room(place, worker='thread') as room:
    for name, (kind, words) in BAD.items():
      assert rooms.begin(room)[1] == '1'
      it = rooms.fault_of(room.step(f'value {name}'))
      assert it.kind == kind, name
      with errors.raises(EnvError, words) as caught:
        checked(naughty.VALUES[name], COLUMNS)
      assert it.text == caught.value.text


def test_a_checked_answer_is_plain():
  said = checked(
    Step(
      naughty.Word('x'),
      np.float32(0.5),
      np.bool_(True),
      np.array(1),
      info={'unseen': True, 'seen': np.int64(3)},
    ),
    COLUMNS,
  )
  assert said == Step('x', 0.5, True, 1.0, info={'seen': 3.0, 'unseen': 1.0})
  kinds = [type(x) for x in (*said[:5], *said.info.values())]
  assert kinds == [str, float, bool, float, bool, float, float]
  assert list(said.info) == list(COLUMNS)
  assert checked(said, COLUMNS) == said
  assert decode_reply(encode_reply(lambda: said), COLUMNS) == said
  assert observed('xyz', 3) == 'xyz'
  with errors.raises(EnvError, '4 3'):
    observed('xyzt', 3)


def test_the_largest_number_can_be_squared_and_added_up_in_float32():
  reply = checked(Step('', MOST, info={'seen': -MOST}), COLUMNS)
  assert (reply.reward, reply.info['seen']) == (MOST, -MOST)
  assert np.isfinite(np.float32(1e14) * np.float32(MOST) ** 2)
  with pytest.raises(EnvError):
    checked(Step('', float(np.nextafter(MOST, np.inf))), COLUMNS)


@pytest.mark.parametrize(
  'data',
  [
    b'',
    b'{',
    b'\xff',
    b'[' * 100_000,
    b'1',
    b'{"text": null}',
    b'{"reply": 1}',
    b'{"reply": {}}',
    b'{"reply": {"text": "x", "rewards": 1}}',
    b'{"reply": {"text": "x", "reward": NaN}}',
    b'{"reply": {"text": "x", "reward": 1e300}}',
    b'{"reply": {"text": "x", "score": 2}}',
    b'{"reply": {"text": "x", "reward": 1' + b'0' * 5000 + b'}}',
    b'{"reply": {"text": "x", "facts": {"sene": 1}}}',
    b'{"fault": "nice", "why": ""}',
    b'{"text": "\\ud800"}',
  ],
  ids=lambda data: data[:12],
)
def test_no_process_is_believed(data):
  with pytest.raises(EnvError) as caught:
    decode_reply(data, COLUMNS)
  assert caught.value.kind == 'malformed'


@pytest.mark.parametrize(
  ('message', 'kind'), [('forge', 'malformed'), ('bomb', 'oversize')]
)
def test_forged_answers(message, kind):
  with rooms.open_room() as room:
    rooms.begin(room)
    assert rooms.fault_of(room.step(message)).kind == kind
    assert rooms.begin(room)[1] == '1'
