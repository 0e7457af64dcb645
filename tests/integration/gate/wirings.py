"""Twelve methods as wirings only, and the mistakes one could make in each.

Pieces that do not exist yet are empty functions, registered by `register`;
what they declare is what the method asks of the loop. A mistake is a change
of fields, with words that the message about it must hold.
"""

import functools
from typing import Any, NamedTuple

from agentrl import registry
from agentrl.registry import MethodSpec

# What a config has where it names nothing else.
_spec = functools.partial(
  MethodSpec,
  task='fixed',
  prefix='none',
  rollout='jit',
  collect='once',
  reward=('env',),
  minibatch='minibatches',
)

COLUMNS = (
  'task',
  'group',
  'arm',
  'source',
  'turn',
  'state',
  'node',
  'agent',
)
# What every rollout brings, with the learner behind it.
ROLLOUT = (
  'signal:old_logp',
  'output:logp',
  'output:entropy',
  *(f'column:{name}' for name in COLUMNS),
)
POLICY = ('role:policy',)


class Case(NamedTuple):
  wiring: MethodSpec
  mistakes: tuple[tuple[dict[str, Any], tuple[str, ...]], ...]


def _piece(slot: str, name: str, f=lambda: None, **declared) -> None:
  """Files an empty piece, unless the real one is there already."""
  if name not in registry.names(slot):
    registry.register(slot, name, **declared)(f)


def register() -> None:
  """What the twelve need and the library does not have yet."""
  _rollouts()
  _around()
  _signals()

  def within(*, by=('group',)):
    """Hyper-parameters of the links below."""

  link = {'f': within, 'takes': 'turn'}
  _piece('link', 'drop_flat', needs=('*by',), **link)
  _piece('link', 'gate_by_spread', needs=('*by',), **link)
  logp = ('output:logp', 'signal:old_logp')
  _piece('loss', 'imitate', needs=(*logp, 'column:source', 'memory:replay'))
  _piece('loss', 'ppo_suffix', needs=logp, couples=True)
  _piece('loss', 'dpo_turns', needs=(*logp, 'pairs'), couples=True)


def _rollouts() -> None:
  def reread(*, reading='null_observation'):
    """Also writes the same actions in another context."""

  def rollout(name, *gives, needs=(), **more):
    _piece('rollout', name, gives=(*ROLLOUT, *gives), needs=needs, **more)

  rollout('host')
  rollout('tools', needs=('service:tools',))
  rollout('reread', 'reading:{reading}', f=reread)
  rollout('candidates', 'column:oracle', needs=('env:oracle',))
  rollout('seats', needs=('role:proposer',))
  rollout('search', 'pairs', needs=('env:fork', 'service:critic'))


def _around() -> None:
  """Tasks, collects, rewards, memories and plans."""

  def banks(*, pool='questions'):
    """Hyper-parameter of what reads a pool of text."""

  _piece('task', 'pool', f=banks, needs=('memory:{pool}',))
  _piece(
    'task',
    'arms',
    needs=('memory:instructions',),
    gives=('arms', 'column:arm'),
  )
  _piece('collect', 'with_replay', needs=('memory:replay',))
  _piece(
    'collect',
    'propose_then_solve',
    needs=('role:proposer', 'service:retriever', 'memory:questions'),
  )
  _piece('reward', 'checklist', needs=('service:judge',))
  _piece('reward', 'oracle', needs=('column:oracle',))
  _piece('reward', 'proposer', needs=('column:agent', 'service:judge'))
  _piece('memory', 'replay', gives=('memory:replay',))
  _piece('memory', 'turn_replay', gives=('memory:turns',))
  _piece('memory', 'questions', gives=('memory:questions',))
  _piece(
    'memory',
    'instructions',
    needs=('service:writer', 'arms'),
    gives=('memory:instructions',),
  )
  _piece('minibatch', 'reverse_turns', needs=('column:turn',))
  _piece('minibatch', 'critic_then_actor', needs=('role:critic',))
  _piece('minibatch', 'by_agent', needs=('column:agent', 'role:proposer'))


def _signals() -> None:
  def compare(*, reading='null_observation'):
    """Log-probs here less those in the reading."""

  _piece(
    'signal',
    'information_gain',
    f=compare,
    needs=('reading:{reading}', 'signal:old_logp'),
    gives=('signal:information_gain',),
  )
  _piece(
    'signal',
    'double_q',
    needs=('role:critic', 'role:target', 'memory:turns'),
    gives=('signal:turn_advantage',),
  )
  _piece('signal', 'percentile', gives=('signal:baseline',))


GRPO = ('episode_return', 'center', 'scale')
BY_TURN = {'by': ('group', 'turn')}
BY_STATE = {'by': ('group', 'state'), 'unit': 'turn'}
BY_ARM = {'by': ('group', 'arm')}


def _both(values, *names):
  return dict.fromkeys(names, values)


CASES = {
  'oprl': Case(
    _spec(
      signal=('implicit_prm',),
      advantage=('episode', 'step'),
      stream={'episode': GRPO, 'step': ('add_signal', 'center', 'scale')},
      loss=('ppo',),
      loss_aggregation={'ppo': 'trajectory_mean'},
      hp={'step': _both({'unit': 'turn'}, 'center', 'scale')},
      gives=(*POLICY, 'role:prm'),
    ),
    (
      (
        {'signal': ()},
        (
          'c.stream.step',
          "'add_signal'",
          'signal:implicit_prm.step',
          "add 'implicit_prm' to c.signal",
        ),
      ),
      ({'gives': POLICY}, ('c.signal', 'role:prm', 'c.role')),
      (
        {'advantage': ('episode', 'stepp')},
        ('c.advantage', "'stepp'", "('episode', 'step')"),
      ),
      (
        {'hp': {'signal': {'implicit_prm': {'betta': 0.1}}}},
        ('c.signal.betta', "'implicit_prm'", "'beta'"),
      ),
    ),
  ),
  'prime': Case(
    _spec(
      signal=('reference', 'implicit_prm'),
      advantage=('outcome', 'process'),
      stream={
        'outcome': ('episode_outcome', 'leave_one_out'),
        'process': (
          'add_token_signal',
          'leave_one_out_tokens',
          'return_to_go_tokens',
        ),
      },
      loss=('ppo',),
      hp={
        'signal': {
          'implicit_prm': {
            'reference': 'ref_logp',
            'loss': 'cross_entropy',
            'order': 'update_then_score',
          }
        }
      },
      gives=(*POLICY, 'role:prm', 'role:reference'),
    ),
    (
      (
        {'signal': ('implicit_prm',)},
        ('c.signal', 'signal:ref_logp', "add 'reference' to c.signal"),
      ),
      (
        {'signal': ('implicit_prm', 'reference')},
        ('c.signal', "'implicit_prm'", "put 'reference' before"),
      ),
      (
        {
          'stream': {
            'outcome': ('episode_outcome',),
            'process': ('add_token_signal', 'leave_one_out'),
          }
        },
        ('c.stream.process', "'leave_one_out'", 'must come before'),
      ),
    ),
  ),
  'cm2': Case(
    _spec(
      rollout='tools',
      reward=('checklist',),
      advantage=('turn',),
      stream={'turn': ('turn_reward', 'center', 'scale')},
      loss=('ppo',),
      hp={'turn': _both(BY_TURN, 'center', 'scale')},
      gives=(*POLICY, 'service:tools', 'service:judge'),
    ),
    (
      (
        {'gives': (*POLICY, 'service:tools')},
        ('c.reward', "'checklist'", 'service:judge', 'c.service'),
      ),
      (
        {'hp': {'turn': {'center': {'by': ('group', 'step')}}}},
        ('c.stream.turn', "'center'", 'column:step', 'c.env'),
      ),
    ),
  ),
  'hiper': Case(
    _spec(
      rollout='options',
      signal=('heads',),
      advantage=('switch', 'high', 'low'),
      stream={
        name: ('turn_reward', f'hae_{name}')
        for name in ('switch', 'high', 'low')
      },
      post=('whiten_tokens',),
      loss=('ppo', 'entropy'),
      gives=(*POLICY, 'role:value'),
    ),
    (
      (
        {'rollout': 'jit'},
        ('c.stream.switch', "'hae_switch'", 'term:switch', "'options'"),
      ),
      (
        {'advantage': ('switch', 'high')},
        ('c.signal', "'heads'", 'target:low', "'hae_low'"),
      ),
      ({'gives': POLICY}, ('c.signal', 'role:value', 'c.role')),
      (
        {'post': ('whiten',)},
        ('c.post', "'whiten'", 'turns', 'tokens'),
      ),
    ),
  ),
  'spear': Case(
    _spec(
      rollout='host',
      collect='with_replay',
      signal=('percentile',),
      advantage=('episode',),
      stream={'episode': GRPO},
      post=('positive_only',),
      loss=('ppo', 'imitate'),
      memory=('replay',),
      gives=POLICY,
    ),
    (
      (
        {'memory': ()},
        (
          'c.collect',
          "'with_replay'",
          'memory:replay',
          "add 'replay' to c.memory",
        ),
      ),
      (
        {'memory': (), 'collect': 'once'},
        ('c.loss', "'imitate'", 'memory:replay', "'replay'"),
      ),
      (
        {'memory': ('reply',)},
        ('c.memory', "'reply'", 'choose from', "'replay'"),
      ),
    ),
  ),
  'infopo': Case(
    _spec(
      rollout='reread',
      signal=('information_gain',),
      advantage=('episode', 'info'),
      stream={
        'episode': GRPO,
        'info': ('add_signal', 'center', 'scale', 'gate_by_spread'),
      },
      loss=('ppo', 'kl_k3'),
      hp={
        'info': {
          'add_signal': {'name': 'information_gain'},
          **_both({'unit': 'turn'}, 'center', 'scale'),
        }
      },
      gives=(*POLICY, 'signal:ref_logp'),
    ),
    (
      (
        {'rollout': 'jit'},
        ('c.signal', 'reading:null_observation', "c.rollout.kind to 'reread'"),
      ),
      (
        {'gives': POLICY},
        ('c.loss', "'kl_k3'", 'signal:ref_logp', "add 'reference' to c.signal"),
      ),
    ),
  ),
  'vpr': Case(
    _spec(
      rollout='candidates',
      reward=('oracle',),
      advantage=('turn',),
      stream={'turn': ('turn_reward', 'center', 'scale', 'drop_flat')},
      loss=('ppo',),
      hp={
        'turn': {
          **_both(BY_STATE, 'center', 'scale'),
          'drop_flat': {'by': ('group', 'state')},
        }
      },
      gives=(*POLICY, 'env:oracle'),
    ),
    (
      (
        {'gives': POLICY},
        ('c.rollout.kind', "'candidates'", 'env:oracle', 'c.env'),
      ),
      (
        {'rollout': 'jit'},
        ('c.reward', "'oracle'", 'column:oracle', "'candidates'"),
      ),
    ),
  ),
  'seeupo': Case(
    _spec(
      rollout='host',
      advantage=('turn',),
      stream={'turn': ('turn_reward', 'return_to_go', 'center')},
      loss=('ppo_suffix',),
      minibatch='reverse_turns',
      hp={'turn': {'center': BY_TURN}},
      gives=POLICY,
    ),
    (
      (
        {'minibatch': 'reversed_turns'},
        ('c.minibatch', "'reversed_turns'", 'choose from', "'reverse_turns'"),
      ),
      (
        {'stream': {'turn': ('turn_reward', 'to_tokens', 'return_to_go')}},
        ('c.stream.turn', "'return_to_go'", 'must come before'),
      ),
    ),
  ),
  'archer': Case(
    _spec(
      rollout='host',
      signal=('double_q',),
      advantage=('turn',),
      stream={'turn': ('add_signal',)},
      loss=('reinforce',),
      loss_aggregation={'reinforce': 'trajectory_turn_mean'},
      memory=('turn_replay',),
      minibatch='critic_then_actor',
      hp={'turn': {'add_signal': {'name': 'turn_advantage'}}},
      gives=(*POLICY, 'role:critic', 'role:target'),
    ),
    (
      (
        {'gives': (*POLICY, 'role:critic')},
        ('c.signal', "'double_q'", 'role:target', 'c.role'),
      ),
      (
        {'memory': ()},
        ('c.signal', 'memory:turns', "add 'turn_replay' to c.memory"),
      ),
      (
        {'loss_aggregation': {'reinforce': 'turn_mean'}},
        (
          'c.loss_aggregation.reinforce',
          "'turn_mean'",
          "'trajectory_turn_mean'",
        ),
      ),
    ),
  ),
  'ssp': Case(
    _spec(
      task='pool',
      rollout='seats',
      collect='propose_then_solve',
      reward=('outcome', 'proposer'),
      advantage=('episode',),
      stream={'episode': GRPO},
      loss=('ppo',),
      memory=('questions',),
      minibatch='by_agent',
      hp={'episode': _both({'by': ('group', 'agent')}, 'center', 'scale')},
      gives=(
        *POLICY,
        'role:proposer',
        'service:judge',
        'service:retriever',
      ),
    ),
    (
      (
        {'gives': ('role:policy', 'service:judge', 'service:retriever')},
        ('c.rollout.kind', "'seats'", 'role:proposer', 'c.role'),
      ),
      (
        {'gives': (*POLICY, 'role:proposer', 'service:judge')},
        ('c.collect', "'propose_then_solve'", 'service:retriever', 'c.service'),
      ),
      (
        {'memory': ()},
        ('c.task', "'pool'", 'memory:questions', "add 'questions' to c.memory"),
      ),
    ),
  ),
  'inspo': Case(
    _spec(
      task='arms',
      rollout='host',
      advantage=('episode',),
      stream={'episode': GRPO},
      loss=('ppo',),
      memory=('instructions',),
      hp={'episode': _both(BY_ARM, 'center', 'scale')},
      gives=(*POLICY, 'service:writer'),
    ),
    (
      (
        {'task': 'fixed', 'hp': {}},
        ('c.memory', "'instructions'", 'arms', "set c.task to 'arms'"),
      ),
      (
        {'gives': POLICY},
        ('c.memory', "'instructions'", 'service:writer', 'c.service'),
      ),
    ),
  ),
  'agent_q': Case(
    _spec(
      rollout='search',
      loss=('dpo_turns',),
      memory=('replay',),
      gives=(*POLICY, 'env:fork', 'service:critic'),
    ),
    (
      (
        {'gives': (*POLICY, 'service:critic')},
        ('c.rollout.kind', "'search'", 'env:fork', 'c.env'),
      ),
      (
        {'rollout': 'host'},
        ('c.loss', "'dpo_turns'", 'pairs', "set c.rollout.kind to 'search'"),
      ),
    ),
  ),
}
