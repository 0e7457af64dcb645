"""Algorithm: the slots of a method, bound once, with modules and optimizers.

Hyper-parameters are bound by `from_spec`, networks are not: signals are given
the context by `Algorithm.signals`, so that it may be changed where an update
is traced and no slot is bound again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agentrl import registry, schedule
from agentrl.learner import minibatch
from agentrl.loss import reduce
from agentrl.memory.base import Memory
from agentrl.signal.base import Context, Signal
from agentrl.types import Array, Module, PyTree

POLICY = 'policy'
BEHAVIOUR = 'behaviour'


class Algorithm(NamedTuple):
  """Made by `from_spec`; changed by `rebind` where a slot depends on it."""

  spec: registry.MethodSpec
  context: Context
  curate: Sequence[Callable]
  bound_signals: Mapping[str, Callable[[Context], Signal]]
  streams: Mapping[str, Sequence[Callable]]  # links of each, in order
  post: Sequence[Callable]  # links after the streams are summed
  losses: Mapping[str, Callable]
  reduce: Mapping[str, Callable]  # by loss term
  minibatch: Callable
  memory: Mapping[str, Memory]
  coef: Mapping[str, float] = {}  # of streams and of loss terms; default 1
  select: Mapping[str, Mapping[str, int]] = {}  # term -> {'span'|'source': id}
  # path ('coef.x', 'hp.scope.piece.name', 'role.policy.lr') -> a schedule
  schedules: Mapping[str, schedule.Schedule] = {}
  anchor: str = ''  # BEHAVIOUR: losses read the sampler's log-probs as old_logp
  seed: int = 0
  players: tuple[str, ...] = (POLICY,)  # roles that write trajectories
  learn_in_turn: int = 0  # updates of one player alone; 0: all in each
  start: int = 0  # the step of the run at which this algorithm's stage begins
  # (what was learned from, key) -> what of it leaves the program of an update
  sample: Callable[[Any, Array], Any] = lambda aux, key: aux

  @classmethod
  def from_spec(
    cls, spec: registry.MethodSpec, context: Context, **settings
  ) -> 'Algorithm':
    """Binds every slot; settings: the fields that have a default.

    Where the spec names none, a batch is one minibatch and a loss term is the
    mean over tokens.
    """
    how = dict.fromkeys(spec.loss, reduce.token_mean.__name__)
    spec = spec._replace(
      minibatch=spec.minibatch or minibatch.minibatches.__name__,
      loss_aggregation=how | dict(spec.loss_aggregation),
    )

    def bind(slot, name, scope=None, field=''):
      values = spec.values(scope or slot, name)
      return registry.bind(slot, name, values, field)

    def links(scope, names):
      return [bind('link', n, scope, f'c.stream.{scope}') for n in names]

    return cls(
      spec,
      context,
      curate=[bind('curate', n) for n in spec.curate],
      bound_signals={n: bind('signal', n) for n in spec.signal},
      streams={s: links(s, spec.stream[s]) for s in spec.advantage},
      post=links('post', spec.post),
      losses={n: bind('loss', n, n, 'c.loss') for n in spec.loss},
      reduce={
        n: bind(
          'loss_aggregation', spec.loss_aggregation[n], n, 'c.loss_aggregation'
        )
        for n in spec.loss
      },
      minibatch=bind('minibatch', spec.minibatch),
      memory={n: bind('memory', n)() for n in spec.memory},
      **settings,
    )

  @property
  def signals(self) -> dict[str, Signal]:
    """The signals with the networks of the context."""
    return {n: bind(self.context) for n, bind in self.bound_signals.items()}

  def without_policy(self) -> 'Algorithm':
    """Returns the algorithm that learns all but the policy."""
    nothing = minibatch.none.__name__
    return self.rebind(spec=self.spec._replace(minibatch=nothing))

  def rebind(self, **changes) -> 'Algorithm':
    """Replaces fields, and binds every slot to what they are now."""
    fields = ('spec', 'context', *self._field_defaults)
    current = {
      name: value for name, value in self._asdict().items() if name in fields
    }
    return self.from_spec(**current | changes)


def full_params(
  context: Context, params: dict[str, PyTree], role: str = POLICY
) -> PyTree:
  """Returns what the role's module reads: its own and shared parameters.

  Args:
    params: of all roles, as in TrainState
  """
  share = context.modules[role].share
  return share.join(params[role], params[share.role]) if share else params[role]


def played_params(alg: Algorithm, params: dict[str, PyTree]) -> PyTree:
  """Returns what rollouts play with: the policy's, or all players' by role."""
  if alg.players == (POLICY,):
    return full_params(alg.context, params)
  return {role: full_params(alg.context, params, role) for role in alg.players}


def bind_shared_params(alg: Algorithm, params: dict[str, PyTree]) -> Algorithm:
  """Makes every module a function of its role's own parameters alone.

  What they share is taken from `params`. Called where an update is traced,
  shared parameters are arguments of its program like all of the state: laid
  out, donated and held once. Only what is a module's own is differentiated.
  """
  modules = alg.context.modules
  if not any(module.share for module in modules.values()):
    return alg

  def bind(module: Module) -> Module:
    share = module.share
    if share is None:
      return module

    def joined(f):
      return lambda own, *args: f(share.join(own, params[share.role]), *args)

    head = module.head and joined(module.head)
    return Module(module.specs, joined(module.apply), head=head)

  modules = {role: bind(m) for role, m in modules.items()}
  return alg._replace(context=alg.context._replace(modules=modules))
