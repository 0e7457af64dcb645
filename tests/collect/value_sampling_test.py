"""Groups of value, and tasks drawn by it, against loops."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.collect import value_sampling
from agentrl.types import CollectInputs
from tests.collect.made_up_records import (
  B,
  G,
  attempts,
  make_batch,
  make_record,
)

# V of the four groups: 3/16, 0, 1/4, 0.
FIRST = ([0, 1, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0])


def score(batch):
  """The return is the outcome."""
  valid = batch.turns.valid
  first = jnp.arange(valid.shape[1])[None] == 0
  reward = jnp.where(first & valid, batch.outcome[:, None], 0)
  return batch.replace(turns=batch.turns.replace(reward=reward))


@functools.cache
def compiled():
  f = registry.bind('collect', 'value_sampling', {})
  made = jax.tree.map(jnp.asarray, attempts())

  @jax.jit
  def run(first, second, key):
    asked, records = [], [first, second]

    def sample(attempts, key):
      asked.append(attempts)
      record = records[len(asked) - 1]
      return make_batch(record, attempts, 'turn')

    batch = f(CollectInputs(sample=sample, score=score, attempts=made, key=key))
    return batch, asked

  return run


def collect(first, second, key=0):
  """The batch, and the attempts of both times that were sampled."""
  records = map(make_record, (first, second))
  return jax.device_get(compiled()(*records, jax.random.key(key)))


def drawn(value, noise):
  """The group in whose part of [0, 1) each noise lies."""
  value = np.array(value, float)
  part = value if value.sum() else np.ones(len(value))
  end = np.cumsum(part) / part.sum()
  return [int(np.argmax(x < end)) for x in noise]


@pytest.mark.parametrize('value', [(3, 0, 4, 0), (0, 0, 0, 0), (0, 1, 0, 0)])
def test_tasks_are_drawn_by_value(value):
  group = np.repeat([0, 1, 2, 3], G)
  noise = np.concatenate([[0.0, 0.999, 0.5, 0.3], np.zeros(B - 4)])
  got = value_sampling.drawn(
    jnp.repeat(jnp.array(value) / 16.0, G), jnp.array(group), jnp.array(noise)
  )
  want = G * np.array(drawn(value, noise[:4]))
  np.testing.assert_array_equal(got, np.repeat(want, G))
  assert (len(set(want)) > 1) == (value != (0, 1, 0, 0))


@pytest.mark.parametrize('key', [0, 1])
def test_groups_of_value_stay_and_others_make_room(key):
  second = ([1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 1, 1], [0, 1, 1, 1])
  batch, (one, two) = collect(FIRST, second, key)
  noise = jax.random.uniform(jax.random.fold_in(jax.random.key(key), B), (B,))
  want = 5 + np.array(drawn([3, 0, 4, 0], np.asarray(noise)[:4]))
  task = np.asarray(two.task)
  np.testing.assert_array_equal(task, np.repeat(want, G))
  assert set(want) <= {5, 7}
  np.testing.assert_array_equal(two.group, np.asarray(one.group) + 4)
  # Two of the first groups have value, and then the first two of the second.
  kept = [*range(4), *range(8, 12)], [*range(4, 8), *range(8, 12)]
  group = np.concatenate([np.asarray(one.group)[kept[0]], [5] * 4, [6] * 4])
  np.testing.assert_array_equal(batch.ids['group'], group)
  outcome = np.ravel([FIRST[0], FIRST[2], second[1], second[2]])
  np.testing.assert_array_equal(batch.outcome, outcome)
  tasks = np.concatenate([np.asarray(one.task)[kept[0]], task[kept[1]]])
  np.testing.assert_array_equal(batch.ids['task'], tasks)
  assert batch.turns.scored[batch.turns.valid].all()
  assert len(np.unique(batch.turns.node)) == batch.turns.node.size


def test_what_was_thrown_away_is_charged_and_attempted_once():
  second = ([1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 1, 1], [0, 1, 1, 1])
  batch, (one, two) = collect(FIRST, second)
  records = [make_record(x) for x in (FIRST, second)]
  assert batch.sampled['attempts'] == 2 * B
  assert batch.sampled['env_steps'] == sum(r.valid.sum() for r in records)
  tokens = sum((r.message_len * r.valid).sum() for r in records)
  assert batch.sampled['tokens'] == tokens
  np.testing.assert_array_equal(
    batch.attempted['task'], [*one.task, *np.asarray(two.task)]
  )
  np.testing.assert_array_equal(
    batch.attempted['outcome'], np.ravel([*FIRST, *second])
  )
  assert batch.attempted['counts'].all()


def test_where_nothing_has_value_all_fill_the_batch_without_weight():
  flat = ([0] * 4, [1] * 4, [1] * 4, [0] * 4)
  batch, (_, two) = collect(flat, flat)
  assert batch.outcome.shape == (B,)
  assert not batch.rows.weight.any()
  assert not batch.turns.scored.any()
  assert set(np.asarray(two.task)) <= {5, 6, 7, 8}
