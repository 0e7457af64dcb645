"""Which entries are read, against choices by hand, and how they are written."""

import collections
import itertools
import math

import jax
import numpy as np

from agentrl import registry
from agentrl.memory import texts
from agentrl.memory.texts import TextBank
from agentrl.recall import base
from agentrl.task.base import make_attempts
from agentrl.text import tokenizer

WORDS = tokenizer.Embedded()


def bank(entries, **columns):
  """A bank of these texts, each a token list; empty: none."""
  n, width = len(entries), max(map(len, entries))
  tokens = np.zeros((n, width), np.int32)
  for row, x in zip(tokens, entries, strict=True):
    row[: len(x)] = x
  length = np.array([len(x) for x in entries], np.int32)
  zero = np.zeros(n, np.float32)
  values = dict(task=np.arange(n), written=np.arange(n) + 7, read=zero)
  values |= {'decisive': zero, 'earned': zero, 'reward': zero}
  values |= {'tasks': np.int32(n), 'refused': np.int32(0)}
  return TextBank(tokens, length, **values | columns)


def inputs(x, query, key, step=0, seed=0):
  sketch = np.concatenate([key, query]).astype(np.float32)
  task = len(key) + np.arange(len(query))
  return base.RecallInputs(x, task, sketch, seed, step)


def chosen(name, x, **hp):
  return registry.bind('recall', name, hp)(x)


def cosine(texts, fitted):
  """Weighted n-grams of each text, and their cosines, by dictionaries."""

  def grams(x):
    return collections.Counter([*[(i,) for i in x], *itertools.pairwise(x)])

  df = collections.Counter(g for x in texts[:fitted] for g in set(grams(x)))
  rows = [
    {g: math.log1p(n) * math.log((1 + fitted) / (1 + df[g]))
     for g, n in grams(x).items()}
    for x in texts
  ]  # fmt: skip
  size = [math.sqrt(sum(w * w for w in x.values())) for x in rows]
  return [
    [sum(w * y.get(g, 0) for g, w in x.items()) / ((a * b) or 1)
     for y, b in zip(rows, size, strict=True)]
    for x, a in zip(rows, size, strict=True)
  ]  # fmt: skip


def test_sketches_have_the_cosines_of_weighted_n_grams():
  rng = np.random.default_rng(0)
  texts = [rng.integers(0, 9, rng.integers(1, 12)).tolist() for _ in range(20)]
  texts += [[], [77, 78]]  # the latter is not of the texts that are fitted
  got = base.sketches(texts, fitted=15)
  got = got @ got.T
  want = np.array(cosine(texts, 15))
  # Terms that share one of the dimensions are all that differs.
  assert np.mean(np.abs(got - want)) < 0.05
  assert np.corrcoef(got.ravel(), want.ravel())[0, 1] > 0.93
  np.testing.assert_allclose(np.diag(got)[:20], 1, atol=1e-6)
  assert not got[20].any()


def test_the_nearest_are_read_and_none_that_is_unlike_or_gone():
  key = [[1, 0], [0.9, 0.1], [0, 1], [1, 0], [0.9, 0.1]]
  x = bank([[5], [6], [7], [], [8]], decisive=np.array([0, 0, 0, 9, 1.0]),
           read=np.array([0, 0, 0, 9, 1.0]))  # fmt: skip
  got = chosen('nearest', inputs(x, [[1, 0], [0, 1], [0, -1]], key), k=3)
  # Of equals the better score first.
  assert got.tolist() == [[0, 4, 1], [2, 4, 1], [-1, -1, -1]]
  got = chosen('nearest', inputs(x, [[1, 0]], key), k=3, floor=0.6)
  assert got.tolist() == [[4, -1, -1]]
  got = chosen('nearest', inputs(x, [[0, 1]], key), k=9, least=0.5)
  assert got.tolist() == [[2] + [-1] * 8]


def test_a_placebo_reads_other_entries_as_often():
  rng = np.random.default_rng(1)
  x = bank([[i + 9] if i % 3 else [] for i in range(30)])
  key = rng.normal(size=(30, 4)).astype(np.float32)
  query = rng.normal(size=(50, 4))
  own = chosen('nearest', inputs(x, query, key), k=3)
  other = chosen('nearest', inputs(x, query, key), k=3, arm='shuffled')
  assert ((own >= 0) == (other >= 0)).all()
  assert not np.any((own == other) & (own >= 0))
  assert (x.length[other[other >= 0]] > 0).all()
  for row in other:
    assert len({*row[row >= 0]}) == sum(row >= 0)
  # A permutation: what is read often is, in the place of another, as often.
  assert sorted(np.unique(own, return_counts=True)[1]) == sorted(
    np.unique(other, return_counts=True)[1]
  )


def reranked(close, reward, live, k, pool, weight, alike):
  """Entries that are read, in plain Python."""
  seen = sorted(live, key=lambda i: (-(close[i] + weight * reward[i]), i))
  seen = seen[:pool]
  mean = sum(reward[i] for i in seen) / len(seen)
  std = math.sqrt(sum((reward[i] - mean) ** 2 for i in seen) / len(seen))
  kept = [i for i in seen if close[i] < alike or reward[i] >= mean + std - 1e-5]
  return sorted(kept, key=lambda i: (-close[i], -reward[i]))[:k]


def test_near_repeats_are_read_if_they_excel():
  rng = np.random.default_rng(2)
  reward = rng.normal(size=30).astype(np.float32)
  x = bank([[i + 9] if i % 3 else [] for i in range(30)], reward=reward)
  key = rng.normal(size=(30, 2)).astype(np.float32)
  key /= np.linalg.norm(key, axis=1, keepdims=True)
  query = key[rng.permutation(30)[:20]]
  hp = dict(k=3, pool=8, weight=0.5, alike=0.9)
  got = chosen('reranked', inputs(x, query, key), **hp)
  live = [i for i in range(30) if i % 3]
  want = [reranked(key @ q, reward, live, **hp) for q in query]
  assert [row[row >= 0].tolist() for row in got] == want
  plain = chosen('nearest', inputs(x, query, key), k=3, least=-1.0)
  assert not np.array_equal(got, plain)
  other = chosen('reranked', inputs(x, query, key), **hp, arm='shuffled')
  assert not np.any((other == got) & (got >= 0))
  assert ((other >= 0) == (got >= 0)).all()
  for name in ('nearest', 'reranked', 'drawn'):
    none = chosen(name, inputs(x, query, key), k=3, arm='empty')
    assert none.tolist() == [[-1] * 3] * 20


def test_repeats_of_one_return_are_read():
  x = bank([[5], [6], [7]], reward=np.full(3, 0.1, np.float32))
  same = [[1, 0], [1, 0], [1, 0]]
  got = chosen('reranked', inputs(x, [[1, 0]], same), k=2)
  assert got.tolist() == [[0, 1]]


def test_what_was_dropped_is_not_read():
  x = bank([[5], [6]], read=np.array([2, 1.0]))
  key, query = [[1, 0], [1, 0]], [[1, 0]]
  for name in ('nearest', 'drawn', 'reranked'):
    assert set(chosen(name, inputs(x, query, key), k=2)[0]) == {0, 1}
    left = jax.device_get(texts.retired(x, floor=0.3, reads=1))
    assert chosen(name, inputs(left, query, key), k=2).tolist() == [[1, -1]]


def test_scores_are_drawn_by_their_exponentials():
  x = bank([[5], [6], [], [7]], read=np.array([0, 2, 9, 0.0]),
           decisive=np.array([0, 2, 9, 0.0]))  # fmt: skip
  score = np.array([0.5, 0.75, 0.5])
  p = np.exp(score / 0.2) / np.sum(np.exp(score / 0.2))
  n = 20_000
  many = inputs(x, np.zeros((n, 0)), np.zeros((4, 0)), step=3)
  first = chosen('drawn', many, temperature=0.2)[:, 0]
  share = [np.mean(first == i) for i in (0, 1, 3)]
  np.testing.assert_allclose(share, p, atol=4 * np.sqrt(0.25 / n))
  again = chosen('drawn', many, temperature=0.2)[:, 0]
  np.testing.assert_array_equal(first, again)
  best = inputs(x, np.zeros((3, 0)), np.zeros((4, 0)), step=-1)
  assert chosen('drawn', best)[:, 0].tolist() == [1, 1, 1]


def test_members_of_a_group_read_the_same_text():
  up, eot = WORDS.encode('up')[0], WORDS.eot
  x = bank([[up, eot, up, eot], [up, WORDS.bos, WORDS.pad, eot], [up] * 9])
  recall = base.Recall(k=2, tokens=20, heading='Notes:')
  attempts = make_attempts(np.array([3, 3, 5, 5, 6, 6]), 2, 4, 1.0)
  made = base.noted(
    attempts, np.array([[0, 1], [-1, -1], [2, -1]]), x, recall, WORDS
  ).notes
  text = [WORDS.decode(t[:n]) for t, n in zip(made.tokens, made.length,
                                              strict=True)]  # fmt: skip
  head = 'Notes:\n'
  assert text == 2 * [f'{head}up\nup\nup\n'] + 2 * [''] + 2 * [
    f'{head}{"up" * 9}\n'
  ]
  assert made.entry.tolist() == 2 * [[0, 1]] + 2 * [[-1, -1]] + 2 * [[2, -1]]
  assert made.written.tolist() == 2 * [[7, 8]] + 2 * [[-1, -1]] + 2 * [[9, -1]]


def test_what_has_no_room_is_cut():
  x = bank([[WORDS.encode('up')[0]] * 9])
  recall = base.Recall(k=1, tokens=5, heading='')
  attempts = make_attempts(np.array([3]), 1, 4, 1.0)
  made = base.noted(attempts, np.array([[0]]), x, recall, WORDS).notes
  assert made.tokens.shape == (1, 5)
  assert made.length.tolist() == [5]


def test_an_empty_bank_is_read_by_no_one():
  x = bank([[], []])
  query = np.ones((2, 3))
  for name in ('nearest', 'drawn', 'reranked'):
    for arm in ('own', 'shuffled'):
      got = chosen(name, inputs(x, query, np.ones((2, 3))), k=2, arm=arm)
      np.testing.assert_array_equal(got, np.full((2, 2), -1))


def test_the_whole_list_is_read_in_its_order():
  x = bank([[5], [], [6, 7], [8]], read=np.array([0, 0, 9, 9.0]))
  many = inputs(x, np.zeros((3, 0)), np.zeros((4, 0)), step=2)
  for k, want in ((4, [0, 2, 3, -1]), (2, [0, 2]), (6, [0, 2, 3, -1, -1, -1])):
    assert chosen('whole', many, k=k).tolist() == [want] * 3
  best = inputs(x, np.zeros((1, 0)), np.zeros((4, 0)), step=-1)
  assert chosen('whole', best, k=3).tolist() == [[0, 2, 3]]
  assert chosen('whole', best, k=3, arm='empty').tolist() == [[-1, -1, -1]]
