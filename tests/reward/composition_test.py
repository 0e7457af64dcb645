"""Sums, gates and routes of terms: by hand and in plain loops."""

import numpy as np
import pytest

import agentrl.reward  # noqa: F401  registers its pieces
from agentrl import registry
from agentrl.configs import base, grpo
from agentrl.run import config_file
from tests import errors
from tests.reward import ragged

DRAWS = {
  'a': lambda r, n: r.normal(size=n),
  'b': lambda r, n: r.integers(0, 2, n) * r.random(n),
  'invalid': lambda r, n: r.integers(0, 4, n) == 0,
  'ruled': lambda r, n: np.full(n, r.integers(0, 2)),
}


def last(case):
  """The outcome on the last turn, as a term."""
  return ragged.at_end(case, case.outcome)


@pytest.mark.parametrize('seed', range(3))
def test_weighted_in_plain_loops(seed):
  case = ragged.random(seed, **DRAWS)
  names, weights = ('a', 'outcome', 'b'), (0.5, 2.0, -3.0)
  got = ragged.pay('weighted', case, terms=names, weights=weights)
  want = 2.0 * last(case)
  for i, (a, b) in enumerate(
    zip(case.terms['a'], case.terms['b'], strict=True)
  ):
    for k in range(len(a)):
      want[i, k] += 0.5 * a[k] - 3 * b[k]
  np.testing.assert_allclose(got, want, rtol=1e-12)


def test_weighted_covers_other_rewards():
  case = ragged.random(4, env=DRAWS['a'], tokens=DRAWS['b'], **DRAWS)
  got = ragged.pay('weighted', case)
  np.testing.assert_array_equal(got, ragged.pay('outcome', case))
  got = ragged.pay('weighted', case, terms=('invalid',), weights=(-0.1,))
  want = np.where(case.turns.valid, -0.1 * case.turns.terms['invalid'], 0)
  np.testing.assert_allclose(got, want, rtol=1e-12)


GATES = {
  'gates': ('invalid', 'b'),
  'scales': (-1.0, 2.0),
  'thresholds': (-1.0, 0.4),
}


@pytest.mark.parametrize('seed', range(3))
def test_gated_or_penalty_in_plain_loops(seed):
  case = ragged.random(seed, **DRAWS)
  hp = GATES | {'terms': ('a', 'outcome'), 'weights': (0.5, 2.0)}
  got = ragged.pay('gated_or_penalty', case, penalty=0.7, **hp)
  want = []
  for i, y in enumerate(case.outcome):
    a, b, wrong = (case.terms[n][i].sum() for n in ('a', 'b', 'invalid'))
    passed = wrong <= 1 + 1e-6 and 2 * b >= 0.4 - 1e-6
    want.append(0.5 * a + 2 * y if passed else -0.7)
  assert 5 < sum(x == -0.7 for x in want) < 35
  np.testing.assert_allclose(got, ragged.at_end(case, want), rtol=1e-12)


def test_by_default_one_message_that_was_not_understood_costs_all():
  case = ragged.make({'invalid': [[], [0], [0, 0], [1, 0], [0, 1]]}, [1] * 5)
  got = ragged.pay('gated_or_penalty', case)
  np.testing.assert_array_equal(got, ragged.at_end(case, [0, 1, 1, -1, -1]))


def test_preferences_are_paid_to_solutions_alone():
  terms = {'cost': [[2.0], [1.0, 1.0], [5.0]], 'speed': [[1.0], [0, 3], [9.0]]}
  case = ragged.make(terms, [1.0, 1.0, 0.0])
  got = ragged.pay(
    'gated_or_penalty',
    case,
    terms=('outcome', 'cost', 'speed'),
    weights=(1.0, -0.1, 0.2),
    gates=('outcome',),
    scales=(1.0,),
    thresholds=(1.0,),
    penalty=0.0,
  )
  want = [1 - 0.2 + 0.2, 1 - 0.2 + 0.6, 0]
  np.testing.assert_allclose(got, ragged.at_end(case, want), rtol=1e-12)


def test_no_gate_holds_nothing_back():
  case = ragged.random(5, **DRAWS)
  none = {'gates': (), 'scales': (), 'thresholds': ()}
  got = ragged.pay('gated_or_penalty', case, **none)
  np.testing.assert_array_equal(got, last(case))


@pytest.mark.parametrize('seed', range(2))
def test_tasks_with_a_rule_are_paid_by_it(seed):
  case = ragged.random(seed, **DRAWS)
  got = ragged.pay('rule_or_criterion', case, criterion='a')
  want = [
    y if case.terms['ruled'][i].sum() > 0 else case.terms['a'][i].sum()
    for i, y in enumerate(case.outcome)
  ]
  assert len(set(want) - set(case.outcome)) > 5
  np.testing.assert_allclose(got, ragged.at_end(case, want), rtol=1e-12)


@pytest.mark.parametrize(
  ('name', 'hp', 'why'),
  [
    ('weighted', {'weights': (1.0, 2.0)}, '2 terms'),
    ('weighted', {'terms': ()}, ''),
    ('gated_or_penalty', {'gates': ('a', 'b')}, '1 gates'),
    ('gated_or_penalty', {'penalty': -1.0}, ''),
  ],
)
def test_wrong_values_are_refused_in_a_sentence(name, hp, why):
  piece = registry.get('reward', name)
  with errors.raises(ValueError, why) as error:
    registry.check_values('reward', piece, hp)
  assert '\n' not in str(error.value)


def test_terms_and_gates_are_needs():
  hp = {'terms': ('outcome', 'a'), 'gates': ('b', 'outcome')}
  w = registry.MethodSpec(hp={'reward': {'gated_or_penalty': hp}})
  got = registry.needs(w, 'reward', 'reward', 'gated_or_penalty')
  assert got == ('term:a', 'term:b')


def test_the_term_of_a_judge_is_paid():
  """SSRL's reward: 0.9 of the outcome and 0.1 of the layout."""
  c = grpo.get_config()
  c.reward = ('weighted',)
  hp = {'terms': ('outcome', 'format'), 'weights': (0.9, 0.1)}
  base.hp(c, 'reward', 'weighted', **hp)
  with errors.raises(ValueError, 'term:format'):
    registry.check(base.wiring(c))
  c.judge = ('self_search_layout',)
  registry.check(base.wiring(c))


def of_toolrl(x, outcome):
  """format + 6 s / s_max - 3, the latter the judge's."""
  del outcome
  return float(not x['invalid'].any()) + x['tool_match'].sum()


def of_deep_dxsearch(x, outcome):
  del outcome
  if x['invalid'].any() or x['excess'].any():
    return 0.0
  parts = x['refer'].sum(), x['searched'].sum(), x['named'].sum()
  return float(np.dot((0.8, 0.05, 0.15), parts))


def of_tablegpt_r1(x, outcome):
  """Of each call, +0.1 if it ran, -0.1 if it failed, -0.2 if malformed."""
  total = outcome if x['rule'].sum() else x['covered'].sum()
  each = zip(x['calls'], x['faults'], x['fault_malformed'], strict=True)
  for calls, faults, malformed in each:
    ran, failed = int(calls - faults), int(faults - malformed)
    total += sum([0.1] * ran + [-0.1] * failed + [-0.2] * int(malformed))
  return total


PAPERS = {
  'toolrl': of_toolrl,
  'deep_dxsearch': of_deep_dxsearch,
  'tablegpt_r1': of_tablegpt_r1,
}


def called(seed):
  """What turns with calls and an answer are told; a call may go wrong."""
  counts = ('calls', 'faults', 'fault_malformed')
  case = ragged.random(
    seed,
    **dict.fromkeys(counts, lambda r, n: r.integers(0, 3, n)),
    **dict.fromkeys(
      ('refer', 'searched', 'named', 'covered'), lambda r, n: r.random(n) / n
    ),
    excess=lambda r, n: r.integers(0, 6, n) == 0,
    tool_match=lambda r, n: r.uniform(-3, 3, n),
    invalid=lambda r, n: r.integers(0, 4, n) == 0,
    rule=lambda r, n: np.full(n, r.integers(0, 2)),
  )
  terms = dict(case.terms)
  for few, many in zip(counts[1:], counts, strict=False):
    terms[few] = [
      np.minimum(a, b) for a, b in zip(terms[few], terms[many], strict=True)
    ]
  return ragged.make(terms, case.outcome, seed=seed)


@pytest.mark.parametrize('seed', range(2))
@pytest.mark.parametrize('method', PAPERS)
def test_the_reward_of_a_method_in_plain_loops(method, seed):
  case, c = called(seed), config_file.load(f'configs/{method}.py:tiny')
  got = sum(
    ragged.pay(name, case, **c.hp.reward.get(name, {})) for name in c.reward
  ).sum(1)
  want = np.zeros(len(got))
  for i, outcome in enumerate(case.outcome):
    if case.turns.valid[i].any():
      want[i] = PAPERS[method](
        {k: x[i] for k, x in case.terms.items()}, outcome
      )
  np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
  if method == 'deep_dxsearch':
    assert got.max() <= 1
    assert len({*got}) > 5
