"""The algorithm of a config: whose rate falls, who trains, how it warms up."""

from agentrl.configs import grpo, oprl
from agentrl.nn import transformer
from agentrl.run import algorithm
from agentrl.types import Span

SHAPE = transformer.DecoderConfig(
  vocab=64, width=8, layers=1, heads=2, kv_heads=1, head_dim=4, mlp=8
)


def test_a_rate_that_ends_elsewhere_is_a_schedule_as_long_as_the_run():
  c = oprl.get_config('tiny')
  c.role.policy.lr, c.role.policy.final_lr_fraction = 0.5, 0.1
  c.role.prm.final_lr_fraction = 1.0
  schedules = algorithm.schedules(c)
  assert [x for x in schedules if x.startswith('role.')] == ['role.policy.lr']
  s = schedules['role.policy.lr']
  assert (s.start, s.end, s.steps) == (0.5, 0.05, c.steps)


def test_rules_are_those_of_roles_that_train():
  c = oprl.get_config('tiny')
  assert set(algorithm.make_algorithm(c, SHAPE).context.rules) == {
    'policy',
    'prm',
  }
  c.role.prm.kind = 'frozen'
  alg = algorithm.make_algorithm(c, SHAPE)
  assert set(alg.context.rules) == {'policy'}
  assert set(alg.context.modules) == {'policy', 'prm'}
  assert alg.context.rules['policy'].lr == c.role.policy.lr


def test_the_warm_start_keeps_the_policy_and_has_its_own_rate_and_loss():
  c = grpo.get_config('tiny')
  c.sft.lr, c.role.policy.lr = 0.25, 0.5
  alg = algorithm.make_algorithm(c, SHAPE)
  warm = algorithm.warm(c, alg)
  assert list(warm.losses) == ['nll']
  assert not warm.streams
  assert warm.context.rules['policy'].lr == 0.25
  assert alg.context.rules['policy'].lr == 0.5
  assert warm.context.modules is alg.context.modules


def test_spans_that_losses_look_at_are_numbers():
  c = grpo.get_config('tiny,env=countdown')
  c.select.ppo, c.select.kl_k3 = {'span': 'call'}, {'source': 1}
  assert algorithm.make_algorithm(c, SHAPE).select == {
    'ppo': {'span': Span.CALL},
    'kl_k3': {'source': 1},
  }
