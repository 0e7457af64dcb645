"""Rollouts by name, and what each brings along."""

from typing import Annotated

from agentrl import domain, registry
from agentrl.rollout.host import sessions
from agentrl.rollout.jit import rollout

# By the learner, when the update begins.
OLD = ('old_logp', 'old_entropy', 'old_sum_sq_prob')
TERMS = ('env', 'tokens', 'entropy', 'invalid')  # of every record
# What the rollouts here fill. Arms, domains and agents have a place in a batch
# but are the same everywhere, so that grouping by them would do nothing.
COLUMNS = ('task', 'group', 'source', 'age', 'turn', 'state', 'node')

GIVES = (
  *(f'signal:{name}' for name in OLD),
  *(f'term:{name}' for name in TERMS),
  'output:logp',
  'output:entropy',
  'output:sum_sq_prob',
  *(f'column:{name}' for name in COLUMNS),
)
# All of a message is one span; nothing in it is told apart.
registry.register('rollout', 'jit', gives=(*GIVES, 'span:other'))(rollout)


@registry.register('rollout', 'host', gives=(*GIVES, 'span:other'))
def hosted(*args):
  """Worlds that are Python objects, see host.py."""
  return sessions(*args)


@registry.register(
  'rollout',
  'options',
  gives=(*GIVES, 'term:switch', 'span:switch', 'span:subgoal', 'span:call'),
)
def options(
  *args,
  keep: Annotated[str, domain.Text('a word', empty=False)] = 'no',
  switch: Annotated[str, domain.Text('a word', empty=False)] = 'yes',
):
  """Messages that keep or switch a subgoal, see options.py.

  Args (hyper-parameters):
    keep, switch: the words that decide, of one token each
  """
  return rollout(*args)
