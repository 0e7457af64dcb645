"""Rollouts by name, and what each brings along."""

from agentrl import registry
from agentrl.rollout.jit import rollout

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
    'signal:old_logp',  # by the learner, when the update begins
    'output:logp',
    'output:entropy',
    *(f'column:{name}' for name in COLUMNS),
  ),
)(rollout)
