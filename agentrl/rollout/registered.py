"""Registry of rollout kinds, and the columns and terms each provides."""

from typing import Annotated, Any, NamedTuple

import jax.numpy as jnp

from agentrl import domain, registry
from agentrl.env import proposals
from agentrl.ops import counting
from agentrl.rollout.purify import PurifyRule
from agentrl.types import Agent, Batch

# By the learner, when the update begins.
OLD = ('old_logp', 'old_entropy', 'old_sum_sq_prob')
TERMS = ('env', 'tokens', 'entropy', 'invalid')  # of every record
# What the rollouts here fill. Arms have a place in a batch but are the same
# everywhere, and agents where an environment has no seats, so that grouping by
# them would do nothing.
COLUMNS = ('task', 'group', 'source', 'age', 'turn', 'state', 'node')

GIVES = (
  *(f'signal:{name}' for name in OLD),
  *(f'term:{name}' for name in TERMS),
  'output:logp',
  'output:entropy',
  'output:sum_sq_prob',
  'output:divergence',
  *(f'column:{name}' for name in COLUMNS),
)


class RolloutKind(NamedTuple):
  """A rollout by name: where environments run, how messages are laid out.

  subgoal_words: (keep, switch), which begin a message; None: it is an action
  purify: which failed calls make way for their corrections; None: none
  proposed: groups are units of a proposer and its solvers, see units.py
  """

  on_host: bool = False  # Python objects, see host.py
  subgoal_words: tuple[str, str] | None = None
  purify: PurifyRule | None = None
  proposed: bool = False


def kind_of(spec: registry.MethodSpec) -> RolloutKind:
  values = spec.values('rollout', spec.rollout)
  return registry.bind('rollout', spec.rollout, values, 'c.rollout.kind')()


def on_host(name: str) -> bool:
  """Returns whether a rollout of this name plays environments on hosts."""
  if name not in registry.names('rollout'):
    return False
  return registry.get('rollout', name).f().on_host


@registry.register('rollout', gives=(*GIVES, 'span:other'))
def jit() -> RolloutKind:
  """Plays environments inside jit; all of a message is one span."""
  return RolloutKind()


@registry.register(
  'rollout',
  gives=(*GIVES, 'env:hints', 'span:other', 'span:thought', 'span:answer'),
)
def host() -> RolloutKind:
  """Plays environments of Python objects; messages have thoughts and answers.

  Those whose messages make calls give span:call and span:argument too.
  """
  return RolloutKind(on_host=True)


@registry.register(
  'rollout',
  needs=('term:calls', 'term:faults', 'span:call'),
  gives=(*GIVES, 'env:hints', 'span:other', 'span:thought', 'span:answer'),
)
def host_purified(
  *,
  least: domain.Rate = 0.5,
  retries: domain.Count = 3,
  chance: domain.Chance = 1.0,
) -> RolloutKind:
  """Plays `host`; failed calls make way for their corrections, see purify.py.

  In what is trained on; evaluations and demonstrations stay as they are.

  Args (hyper-parameters):
    least: similarity of two calls from which on the thought of the first stays
    retries: turns after a failed one in which it may be corrected
    chance: of a trajectory to be purified
  """
  return RolloutKind(on_host=True, purify=PurifyRule(least, retries, chance))


def _fits_units(spec: registry.MethodSpec, c: Any) -> str:
  """Says what does not fit a batch of units."""
  if c.rollout.group_size < 2:
    return (
      "rollout.group_size must be >= 2 for rollout.kind='host_proposed', a"
      f' proposer and its solvers, got {c.rollout.group_size}'
    )
  for path, value, only in (
    ('task', spec.task, 'fixed'),
    ('prefix', spec.prefix, 'none'),
    ('recall', spec.recall, 'none'),
    ('collect', spec.collect, 'once'),
    ('judge', spec.judge, ()),
  ):
    if value != only:
      return (
        f"{path} must be {only!r} for rollout.kind='host_proposed', whose tasks"
        f' are written while they are played, got {value!r}'
      )
  return ''


def _measure_proposals(batch: Batch) -> dict[str, Any]:
  """Measures proposals, and how alike they are; all alike: 0 diversity."""
  turns = batch.turns
  first = turns.valid[:, 0] & (turns.agent[:, 0] == Agent.PROPOSER)
  live = (counting.trajectories(batch) & first).astype(jnp.float32)
  sums = {
    name: jnp.sum(jnp.where(turns.valid, turns.terms[name], 0), axis=1)
    for name in ('is_task', 'solved', 'agreement', 'alike')
  }
  count, good = jnp.sum(live), live * sums['is_task']
  return {
    'proposals/valid': (jnp.sum(good), count),
    'proposals/solved': (jnp.sum(good * sums['solved']), jnp.sum(good)),
    'proposals/agreement': (jnp.sum(good * sums['agreement']), jnp.sum(good)),
    'proposals/diversity': (jnp.sum(live * (1 - sums['alike'])), count),
  }


@registry.register(
  'rollout',
  needs=(proposals.PROPOSES,),
  gives=(
    *(*GIVES, 'env:hints', 'span:other', 'span:thought', 'span:answer'),
    *(f'column:{name}' for name in ('agent', 'seat', 'match')),
  ),
  check=_fits_units,
  metrics=_measure_proposals,
)
def host_proposed() -> RolloutKind:
  """Plays `host` in units: an attempt writes a task others try, see units.py.

  Evaluations play the held-out tasks of the environment.
  """
  return RolloutKind(on_host=True, proposed=True)


@registry.register(
  'rollout',
  gives=(*GIVES, 'term:switch', 'span:switch', 'span:subgoal', 'span:call'),
)
def options(
  *,
  keep: Annotated[str, domain.Text('a word', empty=False)] = 'no',
  switch: Annotated[str, domain.Text('a word', empty=False)] = 'yes',
) -> RolloutKind:
  """Plays messages that keep or switch a subgoal, see hierarchical.py.

  Args (hyper-parameters):
    keep, switch: the words that decide, of one token each
  """
  return RolloutKind(subgoal_words=(keep, switch))
