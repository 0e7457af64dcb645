"""Rollouts by name, and what each brings along."""

from agentrl import registry
from agentrl.rollout.jit import rollout

# By the learner, when the update begins.
OLD = ('old_logp', 'old_entropy', 'old_sum_sq_prob')
TERMS = ('env', 'tokens', 'entropy', 'invalid')  # of every record
COLUMNS = (
  'task',
  'group',
  'arm',
  'domain',
  'source',
  'age',
  'turn',
  'state',
  'node',
  'agent',
)

registry.register(
  'rollout',
  'jit',
  gives=(
    *(f'signal:{name}' for name in OLD),
    *(f'term:{name}' for name in TERMS),
    'span:other',  # all of a message; nothing in it is told apart
    'output:logp',
    'output:entropy',
    'output:sum_sq_prob',
    *(f'column:{name}' for name in COLUMNS),
  ),
)(rollout)
