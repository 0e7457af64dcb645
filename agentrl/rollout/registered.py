"""Registry of rollout kinds, and the columns and terms each provides."""

from typing import Annotated, NamedTuple

from agentrl import domain, registry
from agentrl.rollout.purify import PurifyRule

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
  """

  on_host: bool = False  # Python objects, see host.py
  subgoal_words: tuple[str, str] | None = None
  purify: PurifyRule | None = None


def kind_of(spec: registry.MethodSpec) -> RolloutKind:
  values = spec.values('rollout', spec.rollout)
  return registry.bind('rollout', spec.rollout, values, 'c.rollout.kind')()


def on_host(name: str) -> bool:
  """Whether a rollout of this name plays environments on hosts."""
  if name not in registry.names('rollout'):
    return False
  return registry.get('rollout', name).f().on_host


@registry.register('rollout', gives=(*GIVES, 'span:other'))
def jit() -> RolloutKind:
  """Environments inside jit; all of a message is one span."""
  return RolloutKind()


@registry.register(
  'rollout',
  gives=(*GIVES, 'env:hints', 'span:other', 'span:thought', 'span:answer'),
)
def host() -> RolloutKind:
  """Environments that are Python objects; messages have thoughts and answers.

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
  """`host`, and failed calls make way for their corrections, see purify.py.

  In what is trained on; evaluations and demonstrations stay as they are.

  Args (hyper-parameters):
    least: similarity of two calls from which on the thought of the first stays
    retries: turns after a failed one in which it may be corrected
    chance: of a trajectory to be purified
  """
  return RolloutKind(on_host=True, purify=PurifyRule(least, retries, chance))


@registry.register(
  'rollout',
  gives=(*GIVES, 'term:switch', 'span:switch', 'span:subgoal', 'span:call'),
)
def options(
  *,
  keep: Annotated[str, domain.Text('a word', empty=False)] = 'no',
  switch: Annotated[str, domain.Text('a word', empty=False)] = 'yes',
) -> RolloutKind:
  """Messages that keep or switch a subgoal, see hierarchical.py.

  Args (hyper-parameters):
    keep, switch: the words that decide, of one token each
  """
  return RolloutKind(subgoal_words=(keep, switch))
