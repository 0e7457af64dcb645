"""Diagnosis: posteriors and plans against enumeration of all there is."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.env.worlds import diagnosis
from agentrl.env.worlds.diagnosis import NO, YES, Charges, DiagnosisPlan

FREE = Charges(0.0, 0.0, 0.0)


def table_of(seed, diseases=3, symptoms=3, tests=1, flags=1):
  return diagnosis.draw_table(diseases, symptoms, tests, flags, seed)


def patients(table, complaint):
  """(probability, disease, findings) of every patient with the complaint."""
  joint = table.prior * table.chance[complaint]
  prior = joint / joint.sum()
  others = [f for f in range(len(table.chance)) if f != complaint]
  for disease, p in enumerate(prior):
    for states in itertools.product((NO, YES), repeat=len(others)):
      findings = {complaint: YES, **dict(zip(others, states, strict=True))}
      chance = math.prod(
        table.chance[f, disease] if x else 1 - table.chance[f, disease]
        for f, x in findings.items()
        if f != complaint
      )
      yield p * chance, disease, findings


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 999), st.data())
def test_the_posterior_is_that_of_all_patients(seed, data):
  table = table_of(seed)
  complaint = data.draw(st.integers(0, 2))
  some = data.draw(st.dictionaries(st.integers(0, 3), st.integers(NO, YES))) | {
    complaint: YES
  }
  mass = np.zeros(3)
  for p, disease, findings in patients(table, complaint):
    if all(findings[f] == x for f, x in some.items()):
      mass[disease] += p
  np.testing.assert_allclose(
    diagnosis.posterior(table, some), mass / mass.sum(), rtol=1e-10
  )


def test_patients_are_drawn_from_the_model():
  """Of those with one complaint, each kind as often as it should be."""
  table, rng = table_of(1), np.random.default_rng(0)
  n, counts = 0, {}
  for _ in range(12_000):
    patient = diagnosis.draw_patient(table, rng)
    assert patient.findings[patient.complaint] == YES
    if patient.complaint == 2:
      n += 1
      key = patient.disease, tuple(patient.findings)
      counts[key] = counts.get(key, 0) + 1
  assert abs(n - 4000) < 4 * math.sqrt(12_000 * 2 / 9)
  for p, disease, findings in patients(table, 2):
    key = disease, tuple(findings[f] for f in sorted(findings))
    error = math.sqrt(p * (1 - p) / n)
    assert abs(counts.get(key, 0) / n - p) < 5 * error + 1e-3


def test_entropy_of_plain_cases():
  assert diagnosis.entropy(np.array([1.0, 0.0])) == 0
  assert diagnosis.entropy(np.full(4, 0.25)) == pytest.approx(math.log(4))


def trees(free, diseases, symptoms, patience):
  """Every plan: a diagnosis, or (finding, plan if no, plan if yes)."""
  yield from range(diseases)
  for f in free:
    left = patience - (f < symptoms)
    if left >= 0:
      after = list(trees(free - {f}, diseases, symptoms, left))
      yield from itertools.product([f], after, after)


def worth(tree, table, charges, complaint, disease, findings):
  """What a plan earns with one patient."""
  mandatory = table.flags.get(complaint)
  seen, earned = set(), 0.0
  while isinstance(tree, tuple):
    f, no, yes = tree
    seen.add(f)
    if f < table.symptoms:
      earned -= charges.question
    else:
      earned -= charges.price * table.prices[f]
    tree = yes if findings[f] == YES else no
  missed = mandatory is not None and mandatory not in seen
  return earned + (tree == disease) - charges.safety * missed


CHARGES = (
  FREE,
  Charges(0.02, 0.05, 0.5),
  Charges(0.1, 0.01, 0.05),
  Charges(0.5, 0.5, 1.0),
)


@pytest.mark.parametrize(
  'seed', [0, *(pytest.param(x, marks=pytest.mark.nightly) for x in (1, 2, 3))]
)
@pytest.mark.parametrize('charges', CHARGES[1:])
def test_the_value_is_that_of_the_best_plan(seed, charges):
  """Of every plan, each played with every patient."""
  table = table_of(seed, diseases=2)
  for complaint, patience in itertools.product(range(3), (0, 1, 2, 9)):
    everyone = list(patients(table, complaint))
    free = frozenset(range(4)) - {complaint}
    if patience > 1 and complaint != min(table.flags):
      continue  # 16,430 plans each
    best = max(
      sum(p * worth(tree, table, charges, complaint, d, x) for p, d, x in some)
      for some in [everyone]
      for tree in trees(free, 2, 3, patience)
    )
    plan = DiagnosisPlan(table, complaint, charges, patience)
    assert plan.value({complaint: YES}, patience) == pytest.approx(best)


def follow(plan, table, charges, patience, disease, findings, complaint):
  """What the plan earns with one patient, and what it has found out."""
  known, earned = {complaint: YES}, 0.0
  while (f := plan.best(known, patience)) is not None:
    known[f] = findings[f]
    patience -= f < table.symptoms
    if f < table.symptoms:
      earned -= charges.question
    else:
      earned -= charges.price * table.prices[f]
  assert patience >= 0
  guess = diagnosis.posterior(table, known).argmax()
  return earned + (guess == disease) - charges.safety * plan.missed(known)


@pytest.mark.parametrize('charges', CHARGES)
@pytest.mark.parametrize('patience', [1, 3, 8])
def test_the_best_moves_earn_the_value(charges, patience):
  table = table_of(7, diseases=4, symptoms=5, tests=2, flags=2)
  for complaint in (*table.flags, 0):
    plan = DiagnosisPlan(table, complaint, charges, patience)
    earned = sum(
      p * follow(plan, table, charges, patience, d, x, complaint)
      for p, d, x in patients(table, complaint)
    )
    assert plan.value({complaint: YES}, patience) == pytest.approx(earned)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 99), st.integers(0, 5), st.data())
def test_values_follow_from_each_other(seed, patience, data):
  """V = max(stop, ask): Bellman's equation, at any belief."""
  table = table_of(seed, diseases=4, symptoms=4, tests=2)
  charges = data.draw(st.sampled_from(CHARGES))
  complaint = data.draw(st.integers(0, 3))
  known = data.draw(st.dictionaries(st.integers(0, 5), st.integers(NO, YES)))
  known |= {complaint: YES}
  plan = DiagnosisPlan(table, complaint, charges, 5)
  options = [plan.stop_value(known)] + [
    plan.ask_value(f, known, patience)
    for f in range(6)
    if f not in known and (patience or f >= 4)
  ]
  assert plan.value(known, patience) == pytest.approx(max(options))
  more = plan.value(known, patience + 1)
  assert more >= plan.value(known, patience) - 1e-12
  assert plan.value(known, 3) == plan.value(known, 99)  # all that can be asked


def test_a_mandatory_question_is_open_until_it_is_answered():
  table = table_of(5)
  ((complaint, mandatory),) = table.flags.items()
  plan = DiagnosisPlan(table, complaint, Charges(0.01, 9.0, 1.0), 2)
  start = {complaint: YES}
  assert plan.missed(start)
  assert not plan.missed(start | {mandatory: NO})
  other = next(s for s in range(3) if s != complaint)
  assert not DiagnosisPlan(table, other, FREE, 2).missed({other: YES})
  # It is worth its price, whatever it says of the disease.
  assert plan.best(start, 1) == mandatory


@settings(max_examples=30, deadline=None)
@given(
  st.integers(2, 8),
  st.integers(2, 8),
  st.integers(0, 3),
  st.integers(0, 2),
  st.integers(0, 99),
)
def test_tables(diseases, symptoms, tests, flags, seed):
  table = diagnosis.draw_table(diseases, symptoms, tests, flags, seed)
  assert table.chance.shape == (symptoms + tests, diseases)
  assert table.prior.sum() == pytest.approx(1)
  assert (table.prior > 0).all()
  assert ((table.chance > 0) & (table.chance < 1)).all()
  assert (table.chance[:symptoms].max(1) > 0.5).all()
  assert table.prices.tolist() == [0.0] * symptoms + [
    float(n + 1) for n in range(tests)
  ]
  for n, row in enumerate(table.chance[symptoms:], 1):
    np.testing.assert_allclose(np.minimum(row, 1 - row), 0.2 / n)
    assert 0 < (row > 0.5).sum() < diseases  # it tells some from others
  assert len(table.flags) == flags
  assert all(c != s for c, s in table.flags.items())
  again = diagnosis.draw_table(diseases, symptoms, tests, flags, seed)
  np.testing.assert_array_equal(table.chance, again.chance)
