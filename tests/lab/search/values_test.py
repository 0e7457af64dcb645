"""Values of likelihood, chance and ends, against plain loops in float64."""

import numpy as np

from agentrl.lab.search import values
from agentrl.rollout import record as record_lib
from agentrl.rollout.forks import Played


class Recorded:
  """Forks whose places are trajectories of a record."""

  def __init__(self, record):
    self._record = record

  def record(self, places):
    at = np.asarray(places)
    return self._record.replace(
      **{
        name: getattr(self._record, name)[at]
        for name in ('message', 'message_len', 'logp', 'valid')
      }
    )


def recorded(b=4, k=3, m=5):
  rng = np.random.default_rng(0)
  made = record_lib.empty(b, k, 2, m, (), np)
  return made.replace(
    message=rng.integers(0, 9, (b, k, m)),
    message_len=rng.integers(1, m + 1, (b, k)),
    logp=-rng.random((b, k, m)).astype(np.float32),  # beyond the end, too
    valid=np.arange(k) < rng.integers(1, k + 1, (b, 1)),
  )


def played(place, ended=True):
  return Played(
    place=place,
    message=(),
    logp=0.0,
    reward=0.0,
    ended=ended,
    score=float(place == 0),
    state=b'',
  )


def said(record, b):
  """Log-probs of the tokens that were sampled, one after another."""
  return [
    float(record.logp[b, k, i])
    for k in range(record.valid.shape[1])
    if record.valid[b, k]
    for i in range(record.message_len[b, k])
  ]


def test_likelihood_is_of_all_that_was_said_and_of_nothing_else():
  record = recorded()
  order = [2, 0, 3, 1]
  asks = [played(b, ended=b % 2 == 0) for b in order]
  whole = values.likelihood(Recorded(record))(asks)
  mean = values.likelihood(Recorded(record), mean=True)(asks)
  for b, one, per_token in zip(order, whole, mean, strict=True):
    logp = np.array(said(record, b))
    np.testing.assert_allclose(one, 1 / (1 - logp.sum()), rtol=1e-8)
    np.testing.assert_allclose(per_token, np.exp(logp.mean()), rtol=1e-8)
  assert max(whole + mean) < 1
  totals = [sum(said(record, b)) for b in order]
  assert np.argsort(totals).tolist() == np.argsort(whole).tolist()


def test_what_is_certain_is_no_known_success():
  sure = recorded()
  sure = sure.replace(logp=np.zeros_like(sure.logp))
  for mean in (False, True):
    (value,) = values.likelihood(Recorded(sure), mean=mean)([played(1)])
    assert 0.999 < value < 1


def test_chance_is_drawn_by_what_was_said():
  record = recorded()
  asks = [played(b) for b in range(4)]
  one = values.chance(Recorded(record), 0)(asks)
  assert len(set(one)) == 4
  assert values.chance(Recorded(record), 0)(asks[::-1]) == one[::-1]
  assert values.chance(Recorded(record), 1)(asks) != one
  # Scores do not matter, and neither does what stands behind a message.
  valid = np.where(record.valid[..., None], record.message, 7)
  again = Recorded(record.replace(message=valid))
  assert values.chance(again, 0)(asks) == one


def test_ends_alone_are_valued():
  asked = []

  def evaluate(played):
    asked.extend(x.place for x in played)
    return [x.place / 10 for x in played]

  ends = values.of_ends(evaluate)
  asks = [played(0, False), played(1), played(2, False), played(3)]
  assert ends(asks) == [None, 0.1, None, 0.3]
  assert asked == [1, 3]
  assert ends(asks[:1]) == [None]
  for made in (values.likelihood, lambda x: values.chance(x, 0)):
    assert values.of_ends(made(Recorded(recorded())))(asks[:1]) == [None]
