"""Optimizer of one role, its state sharded as the parameters are."""

import ast
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax

from agentrl import mesh
from agentrl.domain import Domain
from agentrl.types import Metrics

Update: TypeAlias = optax.GradientTransformationExtraArgs
# Matrices of a layer -> how many of their axes are inputs and outputs; the
# axes before these (layers, experts) count matrices.
MATRICES = {
  'q': (1, 2),
  'k': (1, 2),
  'v': (1, 2),
  'o': (2, 1),
  'gate': (1, 1),
  'up': (1, 1),
  'down': (1, 1),
  'router': (1, 1),
}


class OptimizerConfig(NamedTuple):
  """Optimizer settings of a role: clip, transform, weight decay, warm-up."""

  optimizer: str = 'adam'  # or 'optax:<name>(<argument>=<value>, ...)'; NAMED
  lr: float = 1e-4  # a traced number where a schedule sets it
  warmup: int = 0  # updates
  max_grad_norm: float = 1.0  # of the global gradient norm
  weight_decay: float = 0.0  # decoupled weight decay
  b1: float = 0.9
  b2: float = 0.99
  eps: float = 1e-8
  qk_clip: float = 0.0  # largest attention logit (nn/qk_clip.py); 0: any

  def transform(self) -> Update:
    """Builds the transform from clipped gradients to parameter updates.

    Its update takes `rate`, the learning rate of the step, and `live`: False
    keeps the state.
    """
    if self.optimizer in NAMED:
      decay = optax.add_decayed_weights(self.weight_decay)
      return optax.chain(NAMED[self.optimizer](self), decay, _DOWNHILL)
    return _injected(self)


_DOWNHILL = Update(
  lambda params: optax.EmptyState(),
  lambda direction, state, params=None, *, rate, **extra: (
    jax.tree.map(lambda u: -rate * u, direction),
    state,
  ),
)


def _adam(rule: OptimizerConfig) -> Update:
  """Rewrites optax.scale_by_adam so that donated moments are not copied.

  The direction is computed from the new moments: computed from the old ones, it
  would keep those alive. Compiled for CPU, a step of a 0.5B-shaped model on
  8 x 4,096 tokens needs 1.10 GB besides parameters, gradients and moments
  (tests/integration/gate/memory_test.py).
  """
  b1, b2, eps = rule.b1, rule.b2, rule.eps

  def update(grads, state, params=None, *, live, **extra):
    del params, extra
    m, v, count = state.mu, state.nu, state.count
    moved = lambda old, new: jnp.where(live, new, old)  # noqa: E731
    m = jax.tree.map(lambda m, g: moved(m, b1 * m + (1 - b1) * g), m, grads)
    v = jax.tree.map(lambda v, g: moved(v, b2 * v + (1 - b2) * g * g), v, grads)
    count = moved(count, optax.safe_increment(count))
    m, v = jax.lax.optimization_barrier((m, v))
    at_m, at_v = 1 - b1**count, 1 - b2**count  # both begin at 0
    direction = jax.tree.map(
      lambda m, v: (m / at_m) / (jnp.sqrt(v / at_v) + eps), m, v
    )
    return direction, optax.ScaleByAdamState(count, m, v)

  return Update(optax.scale_by_adam(b1, b2, eps).init, update)


def _adafactor(rule: OptimizerConfig) -> Update:
  """Keeps factored second moments and no first moment (1804.04235).

  The state of a matrix [n, m] has n + m numbers where Adam's has 2 n m. Adam's
  b1, b2 and eps are ignored.
  """
  del rule
  inner = optax.chain(
    optax.scale_by_factored_rms(), optax.clip_by_block_rms(1.0)
  )

  def update(grads, state, params=None, *, live, **extra):
    del extra
    direction, new = inner.update(grads, state, params)
    return direction, _if(live, new, state)

  return Update(inner.init, update)


NAMED = {'adam': _adam, 'adafactor': _adafactor}


def _if(condition, new, old):
  return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def matrix_axes(params):
  """Returns MuonDimensionNumbers for every matrix of a layer, else None.

  A stack [L, D, H, d] is L matrices [D, H d], [L, E, D, F] is L E of them, and
  both factors of an adapter (nn/lora.py) are matrices. Embeddings, heads, norms
  and biases are None: Muon leaves them to Adam.
  """

  def axes(path, x):
    names = [key.key for key in path if isinstance(key, jax.tree_util.DictKey)]
    side = names.pop() if names[-1:] in (['a'], ['b']) else ''
    if len(names) < 2 or names[-1] not in MATRICES:
      return None
    inputs, outputs = MATRICES[names[-1]]
    inputs = 1 if side == 'b' else inputs
    outputs = 1 if side == 'a' else outputs
    cut = x.ndim - outputs
    return optax.contrib.MuonDimensionNumbers(
      tuple(range(cut - inputs, cut)), tuple(range(cut, x.ndim))
    )

  return jax.tree.map_with_path(axes, params)


@functools.cache
def _factory(text: str) -> Callable:
  """Makes learning_rate -> optimizer of a name 'optax:name(a=1, ...)'.

  Raises: ValueError, a rule that begins with 'must', if it names none.
  """
  form = re.fullmatch(r'optax:(\w+)(?:\((.*)\))?', text.strip(), re.DOTALL)
  if not form:
    raise ValueError(
      f"must be one of {', '.join(map(repr, NAMED))}, or 'optax:<name>' with"
      " arguments as in 'optax:lion(b1=0.95)'"
    )
  name, given = form[1], form[2] or ''
  make = vars(optax).get(name) or vars(optax.contrib).get(name)
  takes = inspect.signature(make).parameters if inspect.isfunction(make) else ()
  if 'learning_rate' not in takes or name.startswith('scale_by_'):
    raise ValueError(
      "must name an optimizer such as 'optax:muon';"
      f' optax.{name} does not exist or takes no learning_rate'
    )
  try:
    call: Any = ast.parse(f'f({given})', mode='eval').body
    keywords = {} if call.args else {k.arg: k.value for k in call.keywords}
    values = {str(k): ast.literal_eval(v) for k, v in keywords.items()}
    if given.strip() and not values:
      raise ValueError('arguments without names')
  except (AttributeError, SyntaxError, ValueError) as e:
    raise ValueError(
      f"must have arguments like 'optax:{name}(eps=1e-8)', not {given!r}"
    ) from e
  for argument in values:
    if argument not in takes or argument == 'learning_rate':
      others = tuple(x for x in takes if x != 'learning_rate')
      raise ValueError(
        f'must set arguments of optax.{name} among {others}, not {argument!r}'
        ' (the rate is lr of the role)'
      )
  if name == 'muon':
    values = {'muon_weight_dimension_numbers': matrix_axes} | values
  try:
    made = make(0.1, **values)
    # All that an update may ask for: gradients, state and parameters.
    jax.eval_shape(lambda p: made.update(p, made.init(p), p), {'w': 0.0})
  except Exception as e:  # whatever optax says to its arguments
    raise ValueError(
      'must need gradients alone and take its arguments; optax says'
      f' {" ".join(str(e).split())[:160]!r}'
    ) from e
  return lambda learning_rate: make(learning_rate, **values)


def _injected(rule: OptimizerConfig) -> Update:
  """Wraps an optax optimizer to take the learning rate of each update."""
  inner = optax.inject_hyperparams(_factory(rule.optimizer))(learning_rate=0.0)

  def update(grads, state, params=None, *, live, rate, **extra):
    del extra
    rate = jnp.asarray(rate, state.hyperparams['learning_rate'].dtype)
    old = state._replace(hyperparams={'learning_rate': rate})
    run = inner.update
    if mesh.is_explicit():  # whose transforms know nothing of types
      lies = jax.tree.map(lambda x: jax.typeof(x).sharding.spec, (grads, old))
      run = jax.sharding.auto_axes(run, out_sharding=lies)
    moved, new = run(grads, old, params)
    decay = rate * rule.weight_decay
    moved = jax.tree.map(lambda u, p: u - decay * p, moved, params)
    return moved, _if(live, new, state)

  return Update(inner.init, update)


class Optimizer(Domain):
  """Domain of the optimizers that a role may name."""

  def explain(self) -> str:
    return (
      f"{', '.join(map(repr, NAMED))}, or 'optax:<name>(<argument>=<value>,"
      " ...)'"
    )

  def mistake(self, value: Any, beside: Mapping[str, Any]) -> str:
    if not isinstance(value, str):
      return f'must be {self.explain()}'
    if value not in NAMED:
      try:
        _factory(value)
      except ValueError as e:
        return str(e)
    return ''


def by_parameter(f: Callable, opt, params):
  """Maps f(x, p) over every leaf x of an optimizer state.

  p is the parameter of x: its path is a suffix of x's path and the shapes are
  equal. None: x has no parameter of its shape.
  """
  leaves = jax.tree.leaves_with_path(params, is_leaf=mesh.is_param)
  by_path = dict(leaves)

  def at(path, x):
    ends = (path[i:] for i in range(len(path)))
    p = next((by_path[end] for end in ends if end in by_path), None)
    return f(x, p if p is not None and p.shape == x.shape else None)

  return jax.tree.map_with_path(at, opt)


def init(rule: OptimizerConfig, params, specs=None):
  """Initialises the optimizer state, sharded as the parameters.

  Args:
    specs: tree of mesh.Param. Without it the compiler replicates the state on
      every device of an automatic mesh.
  """
  transform = rule.transform()
  opt = transform.init(params)
  if mesh.is_explicit():
    # What begins as zeros lies as an update will leave it.
    update = functools.partial(transform.update, live=True, rate=0.0)
    _, left = jax.eval_shape(update, params, opt, params)
    return jax.tree.map(
      lambda x, to: jax.reshard(x, to.sharding.spec), opt, left
    )
  if specs is None or not mesh.active():
    return opt

  def lay(x, p: mesh.Param | None):
    if p is None:  # rows and columns: small
      return x
    stored = mesh.spec(*p.axes, rules=mesh.RULES)
    return jax.lax.with_sharding_constraint(x, stored)

  return by_parameter(lay, opt, specs)


@jax.named_scope('optimizer')
def step(rule: OptimizerConfig, grads, opt, params):
  """Takes one step; skipped if the gradient is zero or not finite.

  A gradient that is exactly zero carries no signal: no token was trained, no
  pair compared, or all advantages are 0 and no other term (a KL, an entropy) is
  active. Then parameters stay, without momentum or weight decay, and `opt` does
  not count the step. The gradient is of the whole (sub-)batch on all devices.

  The warm-up counts the steps in `opt`.
  Returns: params, opt, metrics; 'grad_norm' is above 0 if a step was taken
  """
  norm = optax.tree.norm(grads)
  finite = jnp.isfinite(norm)
  live = finite & (norm > 0)
  # optax.clip_by_global_norm selects between clipped and whole gradients, and
  # so holds both: 1.98 GB where `_adam` tells of 1.10 GB.
  scale = jnp.minimum(1.0, rule.max_grad_norm / jnp.where(norm > 0, norm, 1))
  grads = jax.tree.map(lambda g: g * scale, grads)
  # The outermost count; those of an optimizer's parts may stand below it.
  (_, count), *_ = optax.tree.get_all_with_path(opt, 'count')
  # optax.linear_schedule rounds 1 - (1 - count / warmup).
  risen = optax.safe_increment(count) / max(rule.warmup, 1)
  rate = rule.lr * jnp.minimum(1.0, risen)
  update, opt = rule.transform().update(
    grads, opt, params, live=live, rate=rate
  )
  params = jax.tree.map(lambda p, u: jnp.where(live, p + u, p), params, update)
  one = jnp.ones(())
  metrics: Metrics = {
    'grad_norm': (jnp.where(finite, norm, 0), finite.astype(jnp.float32)),
    'nonfinite_skips': (1 - finite.astype(jnp.float32), one),
  }
  return params, opt, metrics
