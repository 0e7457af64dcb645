"""Study specification: arms, environments, budgets and claims.

A file configs/studies/NAME.py has get_study() -> Study. Nothing in it can be
changed once runs exist: thresholds and claims are written before the first.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from agentrl.report.numbers import NumberFormat

POLICY_RATE = 'role.policy.lr'
PARTS = ('method', 'ablation', 'control')
SETTINGS = ('tuned', 'common')
EVALUATION = {
  'train': 'held-out levels, sampled',
  'tabular': 'success on the tasks of the seed, computed and not sampled',
}


class Arm(NamedTuple):
  """A config with changes, under a name of its own.

  rates: config path -> what multiplies the arm's learning rate there.
  salt: other keys with the same warm starts, for a method against itself.
  pairs: fewer than the study's; 0: as many.
  tuned_as: the arm whose tuned rate is taken; '' if it has its own.
  """

  name: str
  label: str
  config: str
  changes: Mapping[str, Any] = {}
  part: str = 'method'
  rates: Mapping[str, float] = {POLICY_RATE: 1.0}
  salt: int = 0
  pairs: int = 0
  tuned_as: str = ''


def method_arm(
  name: str,
  label: str = '',
  part: str = 'method',
  *,
  config: str = '',
  rates: Mapping[str, float] | None = None,
  **fields: Any,
) -> Arm:
  """Builds the arm of configs/<config>.py; by default its own name and label.

  Args:
    rates: of roles beside the policy, over the policy's
    fields: others of `Arm`
  """
  rates = {POLICY_RATE: 1.0} | dict(rates or {})
  path = f'configs/{config or name}.py'
  return Arm(name, label or name, path, part=part, rates=rates, **fields)


def placed(arms: tuple[Arm, ...], env: str) -> tuple[Arm, ...]:
  """Builds the arms, each with that argument of its config."""
  return tuple(a._replace(config=f'{a.config}:{env}') for a in arms)


class Env(NamedTuple):
  """An environment of the study: changes to every arm's config."""

  label: str
  changes: Mapping[str, Any]


class Claim(NamedTuple):
  """arm - baseline is `claimed` in that measure, at both settings' rates."""

  text: str
  arm: str
  baseline: str
  measure: str
  claimed: float


def area_claim(text: str, arm: str, baseline: str, claimed: float) -> Claim:
  """Makes a claim about success, mean over the budget."""
  return Claim(text, arm, baseline, 'area', claimed)


_POINTS = ('points', 100.0, 1)
_SPEED = 'sample efficiency, log2 of budget over steps to the threshold'
MEASURES = {
  'area': NumberFormat('success, mean over the budget', *_POINTS),
  'area_tokens': NumberFormat('success, mean over the token budget', *_POINTS),
  'final': NumberFormat('success at the end of the budget', *_POINTS),
  'speed': NumberFormat(_SPEED, 'doublings', 1.0, 2),
  'moves': NumberFormat('turns of a solved episode', 'turns', 1.0, 2),
}


@dataclasses.dataclass(frozen=True)
class Study:
  """Everything that is fixed before the first run.

  env_steps, tokens: the two budgets; every run's curve is read up to each.
  threshold: the arm whose mean final success, at the same setting, is the
    level that `speed` counts the steps to.
  unstable: a run that ends this far below its own warm start is counted so.
  grid: rates tried for every arm; while the best is at an edge the grid goes
    on by the same ratio, at most `widen` times.
  tuning: seeds of the grid, apart from those of the pairs, on levels of their
    own (tuning_changes).
  """

  name: str
  title: str
  question: str
  by: str  # what runs it: experiments.train, or tables in exact worlds
  arms: tuple[Arm, ...]
  envs: Mapping[str, Env]
  claims: tuple[Claim, ...]
  env_steps: int
  tokens: int
  threshold: str
  grid: tuple[float, ...]
  rate: float  # the common one
  reference: str  # every arm is compared with it
  warm: str = 'configs/grpo.py'  # config of the supervised warm starts
  changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  tuning_changes: Mapping[str, Any] = dataclasses.field(
    default_factory=lambda: {'env.seed': 1}
  )
  pairs: int = 10
  common_pairs: int = 0  # fewer at the common rate; 0: as many
  tuning: int = 2
  first_seed: int = 0  # of the pairs; others were looked at before
  widen: int = 2
  unstable: float = 0.05
  level: float = 0.95
  extra_metrics: Mapping[str, str] = dataclasses.field(default_factory=dict)
  notes: tuple[str, ...] = ()  # what was cut, and why

  def arm(self, name: str) -> Arm:
    return next(a for a in self.arms if a.name == name)

  def pairs_of(self, arm: Arm, setting: str) -> range:
    most = self.common_pairs if setting == 'common' else 0
    return self.seeds[: arm.pairs or self.pairs][: most or None]

  @property
  def seeds(self) -> range:
    """Returns the seeds of the pairs."""
    return range(self.first_seed, self.first_seed + self.pairs)


FEWEST = 5  # pairs of an arm


def check(s: Study) -> None:
  """Raises ValueError, one sentence, for a study that cannot be run."""
  names = [a.name for a in s.arms]
  if s.by not in EVALUATION:
    raise ValueError(f'by={s.by!r} is unknown; choose from {tuple(EVALUATION)}')
  for name in names:
    if names.count(name) > 1:
      raise ValueError(f'two arms are called {name!r}; give each its own name')
  used = [s.threshold, s.reference]
  used += [n for c in s.claims for n in (c.arm, c.baseline)]
  used += [a.tuned_as for a in s.arms if a.tuned_as]
  for name in used:
    if name not in names:
      raise ValueError(f'an arm must be one of {names}, got {name!r}')
  for c in s.claims:
    if c.measure not in MEASURES or not c.claimed:
      raise ValueError(
        f'the claim {c.text!r} is {c.claimed} in {c.measure!r}; claim a'
        f' difference other than 0 in one of {tuple(MEASURES)}'
      )
  for a in s.arms:
    if a.part not in PARTS or not a.rates:
      raise ValueError(
        f'arm {a.name!r} has part={a.part!r} and rates={dict(a.rates)}; choose'
        f' a part from {PARTS} and name a rate, e.g. {POLICY_RATE!r}'
      )
    if len(s.pairs_of(a, 'tuned')) < FEWEST:
      raise ValueError(
        f'arm {a.name!r} has {len(s.pairs_of(a, "tuned"))} pairs; {FEWEST} are'
        ' the fewest that are reported'
      )
  ratios = [b / a for a, b in itertools.pairwise(s.grid)]
  near = (math.isclose(r, ratios[0], rel_tol=0.05) for r in ratios)
  if not ratios or ratios[0] <= 1 or not all(near):
    raise ValueError(
      f'grid={s.grid} does not rise by one ratio, which is how it is widened;'
      ' give e.g. (1e-4, 2e-4, 4e-4)'
    )
  if s.common_pairs and not FEWEST <= s.common_pairs <= s.pairs:
    raise ValueError(
      f'common_pairs={s.common_pairs} cannot be drawn from {s.pairs} pairs;'
      f' use a number from {FEWEST} to {s.pairs}, or 0 for all'
    )
  if s.first_seed < 0:
    raise ValueError(
      f'first_seed must be >= 0, got {s.first_seed}; use 0, or a number above'
      ' the seeds of all runs looked at before'
    )
  if min(s.env_steps, s.tokens, s.rate) <= 0 or s.tuning < 1:
    raise ValueError(
      f'env_steps={s.env_steps}, tokens={s.tokens}, rate={s.rate},'
      f' tuning={s.tuning} must all be above 0'
    )


def protocol(s: Study) -> list[tuple[str, str]]:
  """Describes how the study is run and judged, before the first run."""
  fewer = {a.label: a.pairs for a in s.arms if a.pairs}
  borrowed = [
    f'{a.label} takes that of {s.arm(a.tuned_as).label}'
    for a in s.arms
    if a.tuned_as
  ]
  lines = [
    ('Pairs', f'{s.pairs}; both arms of a pair share warm start and keys, each'
     ' pair has a warm start of its own' + (
       f'; seeds {s.seeds[0]} to {s.seeds[-1]}' if s.first_seed else '') + (
       '; fewer for ' + ', '.join(f'{k} ({n})' for k, n in fewer.items())
       if fewer else '')),
    ('Budgets', f'{s.env_steps:,} environment steps; separately {s.tokens:,}'
     ' sampled tokens. Rates are constant, so that a shorter run is the start'
     ' of a longer one and both budgets are read off the same run'),
    ('Tuned rate', f'the best of {", ".join(f"{x:g}" for x in s.grid)} by mean'
     f' area under the curve over {s.tuning} other seeds on other levels; while'
     f' the best is at an edge the grid goes on, at most {s.widen} times'
     + ''.join(f'; {text}' for text in borrowed)),
    ('Common rate', f'{s.rate:g} for every arm' + (
      f'; the first {s.common_pairs} pairs' if s.common_pairs else '')),
    ('Evaluation', f'{EVALUATION[s.by]}; the evaluation before the first update'
     ' belongs to the curve'),
    ('Speed', f'steps to the mean final success of {s.arm(s.threshold).label}'
     ' at the same setting, straight lines between evaluations; a run that'
     ' does not get there counts as the whole budget'),
    ('Unstable', f'a run that ends more than {100 * s.unstable:g} points below'
     ' its own warm start; failed: a run that did not end'),
    ('Intervals', f'{s.level:.0%}: Student for means, curves and paired'
     ' differences, bootstrap over runs for interquartile means; Holm over all'
     ' claims of a setting'),
    ('Verdicts', 'confirmed: the interval excludes zero on the claimed side,'
     " after Holm's correction too; smaller than claimed: and lies wholly below"
     ' half the claim; refuted: zero is not excluded so, and the interval lies'
     ' wholly below half the claim; else not seen. A claim is judged at the'
     ' tuned rates; the common rate is shown'),
    *(('Changed', f'{k} = {v}') for k, v in s.changes.items()),
    *(('Cut', note) for note in s.notes),
  ]  # fmt: skip
  return lines
