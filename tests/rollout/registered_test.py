"""Rollouts by name, and what of them a method may ask for."""

from agentrl import registry
from agentrl.rollout import registered


def test_options_begin_a_message_with_a_word():
  kind = registered.kind_of(registry.MethodSpec(rollout='options'))
  assert kind == registered.RolloutKind(False, ('no', 'yes'))


def test_only_options_mark_subgoals():
  gives = {
    n: registry.get('rollout', n).gives for n in ('jit', 'host', 'options')
  }
  assert {*gives['host']} - {*gives['jit']} == {
    'span:thought',
    'span:answer',
    'env:hints',
  }
  assert {*gives['jit']} <= {*gives['host']}
  assert 'span:subgoal' not in gives['jit']
  assert {'span:subgoal', 'span:switch', 'term:switch'} <= {*gives['options']}
  assert {'column:group', 'output:logp'} <= {*gives['jit']} & {
    *gives['options']
  }


def test_what_plays_on_hosts_says_so_by_its_name_and_by_its_kind():
  hosts = {name for name in registry.names('rollout') if 'host' in name}
  assert hosts == {'host', 'host_proposed', 'host_purified'}
  for name in registry.names('rollout'):
    kind = registered.kind_of(registry.MethodSpec(rollout=name))
    assert (kind.subgoal_words is None) == (name != 'options')
    assert kind.on_host == registered.on_host(name) == (name in hosts)
  assert not registered.on_host('another')


def test_a_rule_of_purification_is_that_of_the_config():
  values = {'least': 0.25, 'retries': 2, 'chance': 0.75}
  spec = registry.MethodSpec(
    rollout='host_purified', hp={'rollout': {'host_purified': values}}
  )
  rule = registered.kind_of(spec).purify
  assert rule._asdict() == values
