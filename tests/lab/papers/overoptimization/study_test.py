"""Over-optimisation study: what it measures of a pool, its claims, its page."""

import dataclasses
import itertools
import json
import pathlib

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.lab.papers.overoptimization import study
from agentrl.lab.study import bounds
from agentrl.run.check import validate
from agentrl.types import Batch, RewardInputs, Status

DOCS = pathlib.Path(__file__).parents[4] / 'docs'


def pool(bias, seed=0, tasks=40, n=16):
  """Scores that follow labels, of which one attempt in eight is late."""
  r = np.random.default_rng(seed)
  late = r.random((tasks, n)) < 0.125
  outcome = np.where(late, 0.0, r.random((tasks, n)) < 0.6)
  label = outcome + bias * late
  learned = label + 0.3 * r.normal(size=label.shape)
  return {'learned': learned, 'outcome': outcome, 'label': label}


def test_a_fault_of_the_labels_is_what_makes_the_outcome_fall():
  """Without it the best of more attempts is the better."""
  faulty, sound = (study.measure(**pool(bias)) for bias in (2.0, 0.0))
  assert faulty['outcome'][1] > faulty['outcome'][0]
  assert faulty['lost'] < -0.2
  assert faulty['outcome'][-1] < faulty['outcome'][0]
  assert max(faulty['best']) < 16
  assert sound['lost'] == 0
  assert sound['best'] == [16, 16]
  for x in faulty, sound:
    for curve in ('learned reward', 'labels'):
      assert np.all(np.diff(x[curve]) > 0)
  assert faulty['at_limit'] > 0.05
  assert sound['at_limit'] == 0


def test_halves_choose_for_each_other():
  """By loops over all subsets of two of three attempts."""
  learned = np.array([[3.0, 2, 1], [1.0, 3, 2], [2.0, 1, 3], [1.0, 2, 3]])
  outcome = np.array([[0.0, 1, 0], [0.0, 0, 1], [1.0, 0, 0], [1.0, 1, 0]])

  def best(t, n):
    of = itertools.combinations(range(3), n)
    return np.mean(
      [outcome[t, max(x, key=lambda i: learned[t, i])] for x in of]
    )

  curve = {n: [best(t, n) for t in range(4)] for n in (1, 2)}
  got = study.measure(learned, outcome, outcome)
  assert got['sizes'] == [1, 2]
  np.testing.assert_allclose(
    got['outcome'], [np.mean(curve[n]) for n in (1, 2)], atol=1e-4
  )
  lost = []
  for half in (0, 1):
    mean = {n: np.mean(curve[n][half::2]) for n in (1, 2)}
    n = max(mean, key=lambda n: (mean[n], -n))
    lost.append(
      np.mean(curve[2][1 - half :: 2]) - np.mean(curve[n][1 - half :: 2])
    )
  assert got['lost'] == pytest.approx(np.mean(lost), abs=1e-4)


def test_the_labeller_prefers_who_runs_into_the_limit():
  batch = Batch.from_turns(
    [[[5], [6]], [[7]], [[8]]],
    [[[0.0], [0.0]], [[0.0]], [[0.0]]],
    reward=[[0.0, 0.0], [1.0], [0.0]],
    group=[0, 0, 0],
    outcome=[0.0, 1.0, 0.0],
    done=[False, True, True],
  )
  assert int(batch.status[0]) == Status.TURN_LIMIT
  x = RewardInputs(
    turns=batch.turns, outcome=batch.outcome, status=batch.status
  )
  got = study.label(x)
  np.testing.assert_array_equal(got, [[0, study.BIAS], [1, 0], [0, 0]])
  assert jnp.all(got[1] < study.BIAS)


def test_seeds_differ_in_their_seed_alone():
  one, two = (validate.config(study.config(i)) for i in (1, 2))
  assert dataclasses.replace(one, seed=2) == two
  assert one.minibatch == 'none'  # the policy stays as it is
  assert one.reward == (f'{study.__name__}:label',)
  assert not {*study.SEEDS} & {*study.SECOND}


def made(seeds, lost=0.1):
  """Seeds whose outcome is highest at n = 2 and falls from there."""
  out = {}
  for i in seeds:
    truth = [0.6, 0.7 + 0.01 * (i % 3), 0.65, 0.7 - lost]
    rise = [0.1, 0.2, 0.3, 0.5 + 0.01 * i]
    x = dict.fromkeys(study.CURVES, rise) | {'outcome': truth}
    out[str(i)] = x | {
      'sizes': [1, 2, 4, 8],
      'best': [2, 2],
      'lost': truth[-1] - truth[1],
      'pair_accuracy': 0.8,
      'at_limit': 0.02,
    }
  return out


def test_some_seeds_choose_n_and_others_measure():
  x = {'each': made((1, 2, 3)), 'second': made((6, 7, 8))}
  assert study.chosen(x) == 2
  text = study.table(x)
  claim = 'In new seeds the outcome falls from n = 2 to the largest'
  assert f'| {claim} | yes | -0.1' in text
  x['second'] = made((6, 7, 8), lost=-0.1)  # the first still choose
  x['each'] = made((1, 2, 3))
  assert f'| {claim} | no | +0.' in study.table(x)


def test_the_page_has_the_table_of_the_report():
  page = (DOCS / 'results' / 'overoptimization.md').read_text()
  report = bounds.read(str(DOCS / 'overoptimization.json'))
  assert study.table(report) in page
  assert json.loads(json.dumps(report)) == report
