"""The optimizer step against optax, and what it does with bad gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from agentrl import mesh, optimizer
from agentrl.configs import muonclip
from agentrl.optimizer import OptimizerConfig
from tests import errors


def tree(seed: int, size: float = 1.0):
  r = np.random.default_rng(seed)
  make = lambda *shape: jnp.asarray(size * r.normal(size=shape), jnp.float32)  # noqa: E731
  return {'w': make(3, 4), 'deep': {'b': make(4)}}


def run(rule: OptimizerConfig, steps: int, size: float = 1.0):
  params = tree(0)
  opt = optimizer.init(rule, params)
  for i in range(steps):
    grads = tree(10 + i, size)
    params, opt, _ = optimizer.step(rule, grads, opt, params)
  return params


def reference(transformation, steps: int, size: float = 1.0):
  params = tree(0)
  opt = transformation.init(params)
  for i in range(steps):
    update, opt = transformation.update(tree(10 + i, size), opt, params)
    params = optax.apply_updates(params, update)
  return params


def close(a, b, rtol=1e-6):
  jax.tree.map(
    lambda x, y: np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-7), a, b
  )


@pytest.mark.parametrize('decay', [0.0, 0.1])
def test_is_adamw(decay):
  rule = OptimizerConfig(
    lr=0.01, max_grad_norm=1e9, weight_decay=decay, b1=0.8, b2=0.9, eps=1e-6
  )
  adamw = optax.adamw(0.01, b1=0.8, b2=0.9, eps=1e-6, weight_decay=decay)
  close(run(rule, 5), reference(adamw, 5))


@pytest.mark.parametrize('size', [0.01, 100.0])
def test_clips_by_the_global_norm(size):
  """Small gradients stay; large ones have norm `clip`. eps makes it visible."""
  rule = OptimizerConfig(lr=0.1, max_grad_norm=1.0, eps=1.0)
  both = optax.chain(
    optax.clip_by_global_norm(1.0), optax.adam(0.1, b1=0.9, b2=0.99, eps=1.0)
  )
  close(run(rule, 3, size), reference(both, 3, size))
  free = reference(optax.adam(0.1, b1=0.9, b2=0.99, eps=1.0), 3, size)
  moved = np.max(np.abs(free['w'] - run(rule, 3, size)['w']))
  assert (moved > 1e-3) == (size > 1)


def test_warms_up_linearly():
  """By the updates made: the same gradient moves further each time."""
  rule = OptimizerConfig(lr=0.1, warmup=4, max_grad_norm=1e9)
  params, grads = tree(0), tree(1)
  opt = optimizer.init(rule, params)
  full = optimizer.step(rule._replace(warmup=0), grads, opt, params)[0]
  full = full['w'] - params['w']
  for share in (0.25, 0.5, 0.75, 1.0, 1.0):
    new, opt, _ = optimizer.step(rule, grads, opt, params)
    np.testing.assert_allclose(
      new['w'] - params['w'], share * full, rtol=1e-4, atol=1e-7
    )
    params = new


@pytest.mark.parametrize(
  ('name', 'bad'),
  [
    *(('adam', x) for x in (np.nan, np.inf, -np.inf)),
    *((x, np.nan) for x in ('adafactor', 'optax:muon')),
  ],
)
def test_a_gradient_that_is_not_finite_is_skipped(name, bad):
  rule, params, good = OptimizerConfig(name, lr=0.1), tree(0), tree(1)
  opt = optimizer.init(rule, params)
  params, opt, told = optimizer.step(rule, good, opt, params)
  assert [float(x) for x in told['nonfinite_skips']] == [0.0, 1.0]
  assert float(told['grad_norm'][0]) == pytest.approx(
    float(optax.tree.norm(good)), rel=1e-6
  )
  grads = {**good, 'w': good['w'].at[1, 2].set(bad)}
  after, opt_after, told = jax.jit(optimizer.step, static_argnums=0)(
    rule, grads, opt, params
  )
  jax.tree.map(np.testing.assert_array_equal, after, params)
  jax.tree.map(np.testing.assert_array_equal, opt_after, opt)
  assert [float(x) for x in told['nonfinite_skips']] == [1.0, 1.0]
  assert [float(x) for x in told['grad_norm']] == [0.0, 0.0]


def wide(seed: int):
  """Large enough to be factored, beside what is not."""
  r = np.random.default_rng(seed)
  make = lambda *shape: jnp.asarray(r.normal(size=shape), jnp.float32)  # noqa: E731
  return {'w': make(2, 136, 128), 'b': make(8)}


def test_adafactor_is_that_of_optax():
  rule = OptimizerConfig(
    'adafactor', lr=0.01, max_grad_norm=1e9, weight_decay=0.1
  )
  want = optax.chain(
    optax.scale_by_factored_rms(),
    optax.clip_by_block_rms(1.0),
    optax.add_decayed_weights(0.1),
    optax.scale(-0.01),
  )
  params = theirs = wide(0)
  opt, state = optimizer.init(rule, params), want.init(params)
  numbers = sum(x.size for x in jax.tree.leaves(opt))
  assert numbers < 0.05 * sum(x.size for x in jax.tree.leaves(params))
  for i in range(3):
    params, opt, _ = optimizer.step(rule, wide(1 + i), opt, params)
    update, state = want.update(wide(1 + i), state, theirs)
    theirs = optax.apply_updates(theirs, update)
  close(params, theirs)


# Leaves as they stand in parameters: stacks of layers, and what is beside.
STACKS = {
  'embed': (7, 4),
  'layers': {
    'q': (2, 4, 2, 3),
    'o': (2, 2, 3, 4),
    'up': (2, 4, 5),
    'down': (2, 3, 5, 4),  # of three experts
    'attn_norm': (2, 4),
    'q_bias': (2, 2, 3),
  },
  'lora': {'q': {'a': (2, 4, 3), 'b': (2, 3, 2, 3)}},
  'head': (4, 7),
}
# How many matrices of which sizes they are.
AS_MATRICES = {
  ('layers', 'q'): (2, 4, 6),
  ('layers', 'o'): (2, 6, 4),
  ('layers', 'up'): (2, 4, 5),
  ('layers', 'down'): (6, 5, 4),
  ('lora', 'q', 'a'): (2, 4, 3),
  ('lora', 'q', 'b'): (2, 3, 6),
}


def stacks(seed: int):
  r = np.random.default_rng(seed)
  return jax.tree.map(
    lambda shape: r.normal(size=shape),
    STACKS,
    is_leaf=lambda x: isinstance(x, tuple),
  )


def orthogonal(x):
  """Five quintic Newton-Schulz rounds of one matrix, in NumPy."""
  x = x / np.linalg.norm(x)
  for _ in range(5):
    a = x @ x.T
    x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
  return x


def muon(x, grads, lr, decay, nesterov):
  """Muon with momentum 0.95 and RMS 0.2, of a stack of matrices.

  Without a Nesterov step it is that of Kimi K2, M = 0.95 M + G.
  """
  m = np.zeros_like(x)
  for t, g in enumerate(grads, 1):
    m = 0.95 * m + g
    ahead = m
    if nesterov:
      ahead = 0.95 * m / (1 - 0.95 ** (t + 1)) + g / (1 - 0.95**t)
    u = np.stack([orthogonal(y) for y in ahead])
    u *= 0.2 * np.sqrt(max(x.shape[1:]))
    x = x - lr * (u + decay * x)
  return x


def adam(x, grads, lr, decay, nesterov):
  """Adam or NAdam, as optax leaves to it what is no matrix."""
  m, v = np.zeros_like(x), np.zeros_like(x)
  for t, g in enumerate(grads, 1):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    ahead = m / (1 - 0.9**t)
    if nesterov:
      ahead = 0.9 * m / (1 - 0.9 ** (t + 1)) + 0.1 * g / (1 - 0.9**t)
    u = ahead / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    x = x - lr * (u + decay * x)
  return x


def flat(tree):
  leaves = jax.tree.leaves_with_path(tree)
  return {tuple(key.key for key in path): np.asarray(x) for path, x in leaves}


@pytest.mark.slow
@pytest.mark.parametrize('nesterov', [True, False])
def test_muon_moves_every_matrix_of_a_stack_alone(nesterov):
  k2 = muonclip.get_config('tiny').role.policy.optimizer
  rule = OptimizerConfig(
    'optax:muon(consistent_rms=0.2)' if nesterov else k2,
    lr=0.01,
    max_grad_norm=1e9,
    weight_decay=0.1,
  )
  with jax.enable_x64(True):
    params = jax.tree.map(jnp.asarray, stacks(0))
    opt = optimizer.init(rule, params)
    for i in range(3):
      params, opt, _ = optimizer.step(rule, stacks(1 + i), opt, params)
  first, grads = flat(stacks(0)), [flat(stacks(1 + i)) for i in range(3)]
  for path, got in flat(params).items():
    shape = AS_MATRICES.get(path)
    x, gs = first[path], [g[path] for g in grads]
    if shape:
      gs = [g.reshape(shape) for g in gs]
      want = muon(x.reshape(shape), gs, 0.01, 0.1, nesterov)
    else:
      want = adam(x, gs, 0.01, 0.1, nesterov)
    np.testing.assert_allclose(
      got.reshape(want.shape), want, rtol=1e-6, atol=1e-7, err_msg=str(path)
    )


@pytest.mark.parametrize(
  ('text', 'make'),
  [
    ('optax:lion(b1=0.8)', lambda rate: optax.lion(rate, b1=0.8)),
    ('optax:sgd(momentum=0.9)', lambda rate: optax.sgd(rate, momentum=0.9)),
    ('optax:adamw', optax.adamw),
    ('optax:schedule_free_sgd', optax.contrib.schedule_free_sgd),
  ],
)
def test_an_optimizer_of_optax_is_that_of_optax(text, make):
  """With a rate that rises, whatever the optimizer does with its rate."""
  rises = optax.linear_schedule(0.0, 0.1, 3)
  want = optax.inject_hyperparams(lambda learning_rate: make(learning_rate))(
    learning_rate=lambda count: rises(count + 1)
  )
  close(
    run(OptimizerConfig(text, lr=0.1, warmup=3, max_grad_norm=1e9), 5),
    reference(want, 5),
  )


# The first of them is large enough to be split.
ON_A_MESH = {
  'adafactor': {
    'w': ((2, 136, 128), ('layers', 'embed', 'mlp')),
    'b': ((8,), ('mlp',)),
  },
  'optax:muon': {
    'q': ((2, 8, 4, 2), ('layers', 'embed', 'heads', None)),
    'mlp_norm': ((2, 8), ('layers', None)),
  },
}


@pytest.mark.parametrize('explicit', [True, False])
@pytest.mark.parametrize(
  ('name', 'moments'), [('adafactor', 0), ('optax:muon', 1)]
)
def test_on_a_mesh(name, moments, explicit):
  """The same numbers; a state that keeps its type, and lies as parameters."""
  rule, leaves = OptimizerConfig(name, lr=0.01), ON_A_MESH[name]
  zeros = lambda key, shape: jnp.zeros(shape)  # noqa: E731
  specs = {'layers': {k: mesh.Param(*x, zeros) for k, x in leaves.items()}}
  r = np.random.default_rng(0)
  first, grads = (
    {
      'layers': {
        k: jnp.float32(r.normal(size=x)) for k, (x, _) in leaves.items()
      }
    }
    for _ in range(2)
  )

  @jax.jit
  def two(params, grads):
    def one(carry, _):
      params, opt = carry
      return optimizer.step(rule, grads, opt, params)[:2], None

    carry = params, optimizer.init(rule, params, specs)
    return jax.lax.scan(one, carry, length=2)[0]

  want, _ = two(first, grads)
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 4}, explicit=explicit)):
    lies = mesh.shardings(specs)
    got, opt = two(*(jax.device_put(x, lies) for x in (first, grads)))
  close(got, want, 1e-5 if name == 'adafactor' else 1e-4)
  shape, _ = next(iter(leaves.values()))
  largest = [x for x in jax.tree.leaves(opt) if x.shape == shape]
  assert len(largest) == moments
  assert not any(x.sharding.is_fully_replicated for x in largest)


@pytest.mark.parametrize(
  ('text', 'names'),
  [
    ('adamm', 'adam adafactor optax:<name>'),
    ('optax:lyon', 'optax.lyon'),
    ('optax:scale_by_adam', 'optax.scale_by_adam learning_rate'),
    ('optax:lion(0.9)', '0.9'),
    ('optax:lion(b1=x)', 'b1=x'),
    ('optax:lion(b3=0.9)', 'b3 optax.lion'),
    ('optax:lion(learning_rate=1)', 'learning_rate'),
    ('optax:muon(ns_coeffs="x")', 'ns_coeff'),
    ('optax:lbfgs', 'gradients'),
    (3, 'adam 3'),
  ],
)
def test_an_optimizer_that_cannot_be_is_one_sentence(text, names):
  with errors.raises(ValueError, f'optimizer {names}') as caught:
    optimizer.Optimizer().check('optimizer', text)
  assert '\n' not in str(caught.value)


def test_those_that_can_be_have_no_mistake():
  for text in ('adam', 'adafactor', 'optax:muon(ns_steps=6, nesterov=False)'):
    assert optimizer.Optimizer().mistake(text, {}) == ''
