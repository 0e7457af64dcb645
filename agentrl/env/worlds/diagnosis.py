"""Diagnosis by questions and tests: a table of chances, and optimal plans.

A patient has one of D diseases, and F findings: symptoms, then test results,
independent of each other given the disease. The complaint is drawn first, and
the disease given it, so that every posterior is exact:

  c ~ uniform,  d ~ p(d) q(c | d) / Σ,  x_f ~ Bernoulli(q(f | d)),  x_c = 1.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

NO, YES, UNKNOWN = 0, 1, 2
# Chances of a symptom, rare or common with a disease.
_RARE, _COMMON = (0.05, 0.2), (0.7, 0.95)
_ERROR = 0.2  # chance that the first test errs; the n-th: this over n
_TIE = 1e-12


class DiseaseTable(NamedTuple):
  """Chances of what a patient has."""

  prior: np.ndarray  # [D] of each disease, before the complaint
  chance: np.ndarray  # [F, D] of each finding: symptoms, then positive tests
  symptoms: int  # of the findings
  prices: np.ndarray  # [F] of finding it out; 0 for symptoms
  flags: Mapping[int, int]  # complaint -> the symptom that must be asked for


class Patient(NamedTuple):
  """A patient, as `draw_patient` draws it."""

  complaint: int  # a symptom it has
  disease: int
  findings: list[int]  # [F] NO or YES


class Charges(NamedTuple):
  """What is taken off the score of a diagnosis."""

  question: float  # each
  price: float  # for one unit of a test's price
  safety: float  # once, if the mandatory question was missed


def draw_table(
  diseases: int, symptoms: int, tests: int, flags: int, seed: int
) -> DiseaseTable:
  """Draws a random table; every symptom is common with some disease.

  The n-th test has price n and errs with chance 0.2 / n about a random half of
  the diseases. `flags` complaints have a mandatory question.
  """
  rng = np.random.default_rng(seed)
  prior = rng.dirichlet(np.full(diseases, 5.0))
  common = rng.random((symptoms, diseases)) < 0.5
  common[np.arange(symptoms), rng.integers(diseases, size=symptoms)] = True
  shape = symptoms, diseases
  chance = np.where(
    common, rng.uniform(*_COMMON, shape), rng.uniform(*_RARE, shape)
  )
  rows = [chance]
  for n in range(1, tests + 1):
    half = rng.permutation(diseases) < (diseases + 1) // 2
    rows.append(np.where(half, 1 - _ERROR / n, _ERROR / n)[None])
  prices = np.concatenate([np.zeros(symptoms), np.arange(1.0, tests + 1)])
  mandatory = {}
  for complaint in rng.permutation(symptoms)[:flags].tolist():
    others = [s for s in range(symptoms) if s != complaint]
    mandatory[complaint] = int(rng.choice(others))
  return DiseaseTable(prior, np.concatenate(rows), symptoms, prices, mandatory)


def draw_patient(table: DiseaseTable, rng: np.random.Generator) -> Patient:
  """Draws a patient of the model above."""
  complaint = int(rng.integers(table.symptoms))
  joint = table.prior * table.chance[complaint]
  disease = int(rng.choice(len(joint), p=joint / joint.sum()))
  findings = rng.random(len(table.chance)) < table.chance[:, disease]
  findings[complaint] = True
  return Patient(complaint, disease, findings.astype(int).tolist())


def posterior(table: DiseaseTable, findings: Mapping[int, int]) -> np.ndarray:
  """p(d | findings) ∝ p(d) Π_f q(f | d)^x_f (1 - q(f | d))^(1 - x_f): [D]."""
  joint = table.prior.copy()
  for f, x in findings.items():
    joint *= table.chance[f] if x == YES else 1 - table.chance[f]
  return joint / joint.sum()


def entropy(p: np.ndarray) -> float:
  """Returns Σ -p log p, in nats."""
  some = p[p > 0]
  return float(-(some * np.log(some)).sum())


class DiagnosisPlan:
  """Optimal values of a complaint, by dynamic programming over beliefs.

  A belief b is what is known of each finding; p questions are left. With w(b)
  the probability of b and U = w V, which needs no division,

    U_p(b) = max{ max_d p(d, b) - w(b) κ miss(b),
                  max_s  U_{p-1}(b, s=0) + U_{p-1}(b, s=1) - w(b) μ,
                  max_t  U_p(b, t=0) + U_p(b, t=1) - w(b) λ price(t) }

  over diagnoses d, symptoms s and tests t that are unknown in b. μ, λ and κ
  are `Charges`; miss(b) is 1 while the mandatory question is open.
  """

  def __init__(
    self, table: DiseaseTable, complaint: int, charges: Charges, patience: int
  ):
    """Computes them all: 3^(F-1) beliefs for each number of questions left."""
    self._table, self._charges = table, charges
    self._complaint = complaint
    self._mandatory = table.flags.get(complaint)
    joint = self._joint()
    self._weight = joint.sum(0)
    stop = joint.max(0)
    if self._mandatory is not None:
      miss = self._at(self._mandatory, UNKNOWN)
      stop[miss] -= charges.safety * self._weight[miss]
    self._stop = stop
    # With as many questions as there are symptoms, no more can be of use.
    self._most = min(patience, table.symptoms - 1)
    self._total = [self._solve(stop, None)]
    for _ in range(self._most):
      self._total.append(self._solve(stop, self._total[-1]))

  def value(self, findings: Mapping[int, int], patience: int) -> float:
    """Returns V_p(b)."""
    b = self._index(findings)
    total = self._total[min(patience, self._most)]
    return float(total[b] / self._weight[b])

  def stop_value(self, findings: Mapping[int, int]) -> float:
    """Returns the value of the best diagnosis right now."""
    b = self._index(findings)
    return float(self._stop[b] / self._weight[b])

  def ask_value(
    self, finding: int, findings: Mapping[int, int], patience: int
  ) -> float:
    """Returns the value of finding out the unknown, then going on optimally."""
    left = patience - (finding < self._table.symptoms)
    likely = posterior(self._table, findings) @ self._table.chance[finding]
    return -self._charge(finding) + sum(
      p * self.value({**findings, finding: x}, left)
      for x, p in ((NO, 1 - likely), (YES, likely))
    )

  def best(self, findings: Mapping[int, int], patience: int) -> int | None:
    """Returns the finding to find out next; None to end with a diagnosis."""
    best, highest = None, self.stop_value(findings) + _TIE
    for f in range(len(self._table.chance)):
      free = f >= self._table.symptoms or patience > 0
      if f not in findings and free:
        value = self.ask_value(f, findings, patience)
        if value > highest + _TIE:
          best, highest = f, value
    return best

  def missed(self, findings: Mapping[int, int]) -> bool:
    """Returns whether the mandatory question is open."""
    return self._mandatory is not None and self._mandatory not in findings

  def _charge(self, finding: int) -> float:
    if finding < self._table.symptoms:
      return self._charges.question
    return self._charges.price * float(self._table.prices[finding])

  def _joint(self) -> np.ndarray:
    """Computes p(d, b), [D, 3, ..., 3], an axis a finding; complaint's: 1."""
    joint = self._table.prior
    for f, q in enumerate(self._table.chance):
      states = [1 - q, q, np.ones_like(q)]
      if f == self._complaint:
        states = [q]
      factor = np.stack(states, -1)
      between = (1,) * (joint.ndim - 1)
      joint = joint[..., None] * factor.reshape(len(q), *between, -1)
    return joint

  def _solve(self, stop: np.ndarray, before: np.ndarray | None) -> np.ndarray:
    """Solves U_p from U_{p-1}; without it no question is left."""
    total = stop.copy()
    findings = range(len(self._table.chance))
    symptoms = [f for f in findings if f < self._table.symptoms]
    tests = [f for f in findings if f >= self._table.symptoms]
    for s in symptoms:
      if before is not None and s != self._complaint:
        self._improve(total, before, s)
    # Each sweep is right for beliefs with one unknown test more.
    for _ in tests:
      for t in tests:
        self._improve(total, total, t)
    return total

  def _improve(self, total: np.ndarray, after: np.ndarray, f: int) -> None:
    """Raises `total` where finding out f, then `after`, is better."""
    unknown = self._at(f, UNKNOWN)
    value = after[self._at(f, NO)] + after[self._at(f, YES)]
    value = value - self._charge(f) * self._weight[unknown]
    total[unknown] = np.maximum(total[unknown], value)

  def _at(self, finding: int, state: int) -> tuple:
    return (*(slice(None),) * finding, state)

  def _index(self, findings: Mapping[int, int]) -> tuple[int, ...]:
    at = [findings.get(f, UNKNOWN) for f in range(len(self._table.chance))]
    at[self._complaint] = 0  # its one state: the patient has it
    return tuple(at)
