"""Late scores that would depend on when they come, or stand elsewhere."""

from agentrl import registry
from agentrl.configs import base, oni
from agentrl.run.check import late_checks, validate
from tests import errors


def asking(**service):
  c = oni.get_config('tiny,judged=number')
  base.service(c, 'judge', **service)
  return c


def test_a_late_judge_is_no_model_that_learns_meanwhile():
  c = asking(role='policy')
  with errors.raises(ValueError, 'service.judge.role policy number'):
    validate.config(c)
  validate.config(asking(function='os:getcwd'))


def test_a_judge_that_is_waited_for_may_be_one():
  c = asking(role='policy')
  c.judge = ('number', 'column')
  base.hp(c, 'judge', 'number', term='seen')
  base.hp(c, 'judge', 'column', term='judged')
  validate.config(c)


def test_turns_stay_as_they_were_played():
  c = oni.get_config('tiny,env=countdown,judged=function')
  base.hp(c, 'judge', 'function', path='os:getcwd')
  c.rollout.history = 'full'
  validate.config(c)
  c.rollout.kind = 'host_purified'
  with errors.raises(ValueError, 'rollout.kind judged host_purified'):
    validate.config(c)


def test_all_late_scores_have_one_lag(registry_of_test):
  """A component of a user takes the same term late."""

  @registry.register('signal', needs=('late:{term}',))
  def late_share(context, *, term: str = 'judged', lag: int = 2):
    del context, term, lag

  c = oni.get_config('tiny')
  c.signal = ('late_share',)
  base.hp(c, 'signal', 'late_share', lag=2)
  late_checks.check(c, base.wiring(c))
  c.hp.signal.late_share.lag = 3
  with errors.raises(
    ValueError, 'hp.memory.annotations.lag hp.signal.late_share.lag 2 3'
  ):
    validate.config(c)
