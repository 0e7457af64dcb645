"""The bandit against UCB1 in plain Python, and that it finds the best entry."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import registry
from agentrl.memory import texts
from agentrl.types import Batch, Status
from tests.recall import retrieval_test as recalls


def order(bank, close, least, explore):
  """Entries by their upper bound, in plain Python floats."""
  able = [
    i for i, n in enumerate(bank.length.tolist()) if n and close[i] >= least
  ]
  read, earned = bank.read.tolist(), bank.earned.tolist()
  total = sum(read[i] for i in able)

  def bound(i):
    if not read[i]:
      return math.inf
    width = math.sqrt(math.log(total) / read[i])
    return earned[i] / read[i] + explore * width

  return sorted(able, key=lambda i: (-bound(i), i))


def test_the_largest_upper_bounds_are_read():
  rng = np.random.default_rng(0)
  orders = set()
  for seed in range(50):
    read = rng.integers(0 if seed % 2 else 1, 9, 12).astype(np.float32)
    bank = recalls.bank(
      [[i + 9] if i % 4 else [] for i in range(12)],
      read=read,
      earned=(rng.normal(size=12) * read).astype(np.float32),
    )
    key = rng.normal(size=(12, 3)).astype(np.float32)
    key /= np.linalg.norm(key, axis=1, keepdims=True)
    query = key[:4]
    for explore in (0.0, 0.7, 5.0):
      hp = dict(k=3, least=0.2, explore=explore)
      got = recalls.chosen('ucb', recalls.inputs(bank, query, key), **hp)
      want = [order(bank, key @ q, 0.2, explore)[:3] for q in query]
      assert [row[row >= 0].tolist() for row in got] == want
      orders.add(tuple(got.ravel()))
  assert len(orders) > 75  # what is explored has a say


def test_evaluations_read_the_best_mean_and_the_unread_last():
  bank = recalls.bank(
    [[5], [6], [7], []],
    read=np.array([2, 9, 0, 5.0]),
    earned=np.array([1, 6, 0, 5.0]),
  )
  key = [[1, 0]] * 4
  x = recalls.inputs(bank, [[1, 0]], key, step=-1)
  assert recalls.chosen('ucb', x, k=4).tolist() == [[1, 0, 2, -1]]
  training = recalls.inputs(bank, [[1, 0]], key)
  assert recalls.chosen('ucb', training, k=4).tolist() == [[2, 0, 1, -1]]
  none = recalls.chosen('ucb', training, k=1, arm='empty')
  assert none.tolist() == [[-1]]
  other = recalls.chosen('ucb', training, k=1, arm='shuffled')
  assert other[0, 0] in (0, 1)


def played(slot, written, reward):
  """Attempts of one turn that have read an entry each."""
  n = len(slot)
  made = Batch.from_turns(
    [[[1]]] * n, [[[-1.0]]] * n, reward=[[x] for x in reward], group=[0] * n
  )
  ids = {'note0': jnp.array(slot), 'note_written0': jnp.array(written)}
  ids['source'] = jnp.zeros(n, jnp.int32)
  status = jnp.full(n, Status.FAILED, jnp.int32)
  return made.replace(ids=made.ids | ids, status=status)


def test_what_readers_earn_is_summed_in_their_entry_alone():
  bank = texts.empty(3, 1, 9).replace(
    length=jnp.ones(3, jnp.int32), written=jnp.array([4, 5, 6])
  )
  batch = played([0, 1, 0, -1, 2], [4, 5, 4, -1, 5], [0.5, -1, 0.25, 9, 9])
  got = texts.credited(bank, batch)
  assert got.earned.tolist() == [0.75, -1, 0]  # the last read another text
  assert got.read.tolist() == [2, 1, 0]
  dropped = batch.turns.replace(scored=jnp.zeros((5, 1), bool))
  got = texts.credited(bank, batch.replace(turns=dropped))
  assert got.earned.tolist() == [0.75, -1, 0]  # also if it is not trained on


def test_it_comes_to_read_the_entry_that_helps():
  """Of four that are solved in .2, .4, .9 and .5 of the attempts."""
  rng = np.random.default_rng(3)
  rate = np.array([0.2, 0.4, 0.9, 0.5])
  bank = texts.empty(4, 1, 9).replace(
    length=jnp.ones(4, jnp.int32), written=jnp.zeros(4, jnp.int32)
  )
  credited, read = jax.jit(texts.credited), []
  ucb = registry.bind('recall', 'ucb', {'explore': 0.5})
  for step in range(60):
    host = jax.device_get(bank)
    x = recalls.inputs(host, [[1.0]], [[1.0]] * 4, step)
    entry = int(ucb(x)[0, 0])
    read.append(entry)
    won = (rng.random(4) < rate[entry]).astype(float)
    bank = credited(bank, played([entry] * 4, [0] * 4, won.tolist()))
  assert set(read[:4]) == {0, 1, 2, 3}
  assert np.mean(np.array(read[20:]) == 2) > 0.8
