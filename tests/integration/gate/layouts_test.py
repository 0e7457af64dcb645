"""Gradients do not depend on how trajectories are laid out in rows.

{full history, per-turn rows, packed rows, rows cut in the middle, trees of
the same} x {no mesh, explicit 2x2 mesh, automatic 2x2} x {1, at least 4
micro-batches}; folded rows on meshes of other shapes as well.
"""

import contextlib
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh, optimizer, registry
from agentrl.advantage import chain
from agentrl.learner import policy_gradient
from agentrl.learner import update as update_lib
from agentrl.model import policy
from agentrl.model.pieces import MicroBatch
from agentrl.nn import transformer
from agentrl.signal.base import Context
from agentrl.types import Module, Outputs
from tests.batches import links, place
from tests.integration.gate import layouts

STORIES = {'episodes': layouts.episodes(), 'tree': layouts.tree()}
MICRO = 2  # the layout of fewest rows makes four micro-batches of it
FOLDED = MicroBatch(MICRO, fold=True)
FSDP = {'fsdp': 2, 'tensor': 2}
SHARES = {  # of the devices of other meshes, on which rows are folded
  'data': {'data': 2, 'fsdp': 2},
  'fsdp': {'fsdp': 4},
  'sequence': {'fsdp': 2, 'sequence': 2},
}
MESHES = {'none': None, 'explicit': (FSDP, True), 'auto': (FSDP, False)}
MESHES |= {name: (sizes, True) for name, sizes in SHARES.items()}
MESHES |= {f'auto {name}': (sizes, False) for name, sizes in SHARES.items()}
KINDS = 'none', 'explicit', 'auto'
NIGHTLY = pytest.mark.nightly
STREAMS = {
  'grpo': ('episode_return', 'center', 'scale'),
  'rloo': ('episode_return', 'leave_one_out'),
}


@functools.cache
def decoder() -> Module:
  """A real one, small; heads split in two."""
  shape = transformer.DecoderConfig(
    vocab=layouts.VOCAB,
    width=16,
    layers=1,
    heads=2,
    kv_heads=2,
    head_dim=8,
    mlp=16,
    qk_norm=True,
  )
  return policy.module(shape)


@functools.cache
def averager() -> Module:
  """float64: next token from a fading mean of what the segment said before."""

  def normal(key, shape):
    return jax.random.normal(key, shape, jnp.float64)

  specs = {
    'embed': mesh.Param((layouts.VOCAB, 8), (None, None), normal, jnp.float64),
    'head': mesh.Param((8, layouts.VOCAB), (None, None), normal, jnp.float64),
  }

  def logp(params, tokens, seg):
    index = jnp.arange(tokens.shape[1])
    gap = (index[:, None] - index[None])[None]
    same = (seg[:, :, None] == seg[:, None, :]) & (gap > 0)
    fade = jnp.where(same, 0.8 ** jnp.maximum(gap, 0), 0)
    hidden = jnp.einsum('nts,nsd->ntd', fade, params['embed'][tokens])
    logits = jnp.tanh(hidden) @ params['head']
    chosen = jnp.take_along_axis(logits, tokens[..., None], -1)[..., 0]
    return chosen - jax.nn.logsumexp(logits, axis=-1)

  def apply(params, rows, needs):
    out = mesh.auto(logp, ('batch', None))(params, rows.tokens, rows.seg)
    return Outputs(logp=jnp.where(rows.sampled, out, 0))

  return Module(specs=specs, apply=apply)


def set_mesh(kind: str):
  if MESHES[kind] is None:
    return contextlib.nullcontext()
  sizes, explicit = MESHES[kind]
  return jax.set_mesh(mesh.make(sizes, explicit=explicit))


def on_mesh(tree):
  """Rows split over data; everything else on every device."""
  shape = (layouts.N, layouts.T)
  return place(tree, shape) if mesh.active() else jax.tree.map(jnp.array, tree)


def learner(module: Module, reduce: str, micro: int | MicroBatch, **hp):
  wiring = registry.MethodSpec(
    advantage=('episode',),
    stream={'episode': STREAMS['grpo']},
    loss=('ppo',),
    loss_aggregation={'ppo': reduce},
    hp={'minibatch': {'minibatches': hp}},
    gives=('signal:old_logp',),
  )
  # A large eps keeps Adam from blowing up the rounding of tiny gradients.
  rule = optimizer.OptimizerConfig(lr=0.1, max_grad_norm=1e9, eps=1.0)
  context = Context({'policy': module}, {'policy': rule}, micro)
  return update_lib.Algorithm.from_spec(wiring, context)


@jax.jit
def credits(batch, signals):
  """{method: Credit}, as the loss reads it."""
  out = {}
  for method, names in STREAMS.items():
    credit, _ = chain.advantage(
      {'episode': links(*names)}, {}, (), batch, signals
    )
    token = chain.token_advantage(credit, batch.rows)
    out[method] = credit.replace(token=token)
  return out


@functools.cache
def gradient(make, reduce: str, micro: int):
  """(params, batch, signals, credit) -> gradient."""
  made = learner(make(), reduce, micro)

  @jax.jit
  def f(params, batch, signals, credit):
    mask = jnp.ones_like(batch.rows.sampled)
    grads, _ = policy_gradient.gradient(
      made, params, batch, signals, credit, mask, jax.random.key(0)
    )
    return grads

  return f


@functools.cache
def parameters(make, kind: str = 'none'):
  """On the mesh of that kind."""
  with set_mesh(kind):
    return mesh.init(make().specs, jax.random.key(3))


def gradients(make, batch, old, micro: int, reduce: str, kind='none'):
  """{method: gradient}, on the mesh of that kind."""
  params, f = parameters(make, kind), gradient(make, reduce, micro)
  with set_mesh(kind):
    batch, signals = on_mesh((batch, {'old_logp': old}))
    out = {
      method: f(params, batch, signals, credit)
      for method, credit in credits(batch, signals).items()
    }
  return jax.tree.map(np.asarray, out)


def live(batch) -> int:
  return int(np.sum(np.any(batch.rows.weight != 0, axis=1)))


def difference(a, b) -> float:
  """Largest difference, over the largest number of b."""
  size = max(np.max(np.abs(y)) for y in jax.tree.leaves(b))
  pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
  return max(float(np.max(np.abs(x - y))) for x, y in pairs) / float(size)


# ---- the same, in plain loops over episodes


def advantages(s: layouts.Story, method: str) -> list[float]:
  total = np.array([sum(r) for r in s.reward])
  out = []
  for i, g in enumerate(s.group):
    mine = np.array([x for x, h in zip(total, s.group, strict=True) if g == h])
    if method == 'grpo':
      out.append((total[i] - mine.mean()) / (mine.std(ddof=1) + 1e-6))
    else:
      others = (mine.sum() - total[i]) / (len(mine) - 1)
      out.append(total[i] - others)
  return out


def coefficients(s: layouts.Story, reduce: str) -> list[float]:
  """What a trained token of each trajectory weighs."""
  size = [
    sum(len(m) for k, m in enumerate(ms) if s.owner(i, k) == i)
    for i, ms in enumerate(s.message)
  ]
  if reduce == 'trajectory_mean':
    return [1 / len(size) / n for n in size]
  return [1 / sum(size)] * len(size)


def plain_gradient(make, s: layouts.Story, method: str, reduce: str):
  """Rows are histories, one apply, clipping written out."""
  batch, old = layouts.lay(s, 'history', dtype=np.float64)
  rows = batch.rows
  a, coef = (
    np.array(x)[rows.traj]
    for x in (advantages(s, method), coefficients(s, reduce))
  )

  def loss(params):
    out = make().apply(params, jax.tree.map(jnp.array, rows), ('logp',))
    ratio = jnp.exp(out.logp - old)
    each = jnp.minimum(a * ratio, a * jnp.clip(ratio, 0.8, 1.2))
    return -jnp.sum(rows.weight * coef * each)

  gradient = jax.jit(jax.grad(loss))(parameters(make))
  return jax.tree.map(np.asarray, gradient)


@functools.cache
def expected(story: str):
  return {
    m: plain_gradient(decoder, STORIES[story], m, 'trajectory_mean')
    for m in STREAMS
  }


def by_day(pairs, *sides):
  """Pairs of the product of the sides; others than these run at night."""
  return [
    pytest.param(*x, marks=[] if x in pairs else NIGHTLY)
    for x in itertools.product(*sides)
  ]


BY_DAY = ('none', layouts.N), ('explicit', MICRO), ('explicit', FOLDED)


@pytest.mark.slow
@pytest.mark.parametrize(
  ('kind', 'micro'),
  by_day(BY_DAY, KINDS, (layouts.N, MICRO, FOLDED)),
)
@pytest.mark.parametrize('layout', layouts.LAYOUTS)
@pytest.mark.parametrize('story', STORIES)
def test_gradients_are_those_of_the_episodes(story, layout, kind, micro):
  batch, old = layouts.lay(STORIES[story], layout)
  assert live(batch) >= 4 * MICRO
  got = gradients(decoder, batch, old, micro, 'trajectory_mean', kind)
  for method, want in expected(story).items():
    assert difference(got[method], want) < 1e-5


@pytest.mark.nightly
@pytest.mark.parametrize('micro', [layouts.N, 4], ids=['whole', 'micro'])
@pytest.mark.parametrize('kind', [*SHARES, *(f'auto {x}' for x in SHARES)])
def test_devices_fold_their_own_rows(kind, micro):
  for story in STORIES:
    for layout in layouts.LAYOUTS:
      batch, old = layouts.lay(STORIES[story], layout)
      size = MicroBatch(micro, fold=True)
      got = gradients(decoder, batch, old, size, 'trajectory_mean', kind)
      for method, want in expected(story).items():
        assert difference(got[method], want) < 1e-5


@pytest.mark.parametrize(
  ('kind', 'reduce'),
  by_day(
    (('none', 'token_mean'), ('explicit', 'trajectory_mean')),
    KINDS,
    ('trajectory_mean', 'token_mean'),
  ),
)
def test_in_float64_they_agree_to_rounding(kind, reduce):
  with jax.enable_x64(True):
    for s in STORIES.values():
      want = {m: plain_gradient(averager, s, m, reduce) for m in STREAMS}
      for layout in layouts.LAYOUTS:
        batch, old = layouts.lay(s, layout, dtype=np.float64)
        got = gradients(averager, batch, old, MICRO, reduce, kind)
        for method in STREAMS:
          assert difference(got[method], want[method]) < 1e-12


@pytest.mark.parametrize('story', STORIES)
def test_segments_that_see_each_other_change_the_gradient(story):
  """Packing without `seg`: what the tests above must be able to notice."""
  batch, old = layouts.lay(STORIES[story], 'packed', separate=False)
  got = gradients(decoder, batch, old, layouts.N, 'trajectory_mean')
  for method, want in expected(story).items():
    assert difference(got[method], want) > 1e-2


def test_a_shared_turn_that_counts_twice_changes_the_gradient():
  batch, old = layouts.lay(STORIES['tree'], 'history')
  rows = batch.rows.replace(weight=batch.rows.sampled.astype(np.float32))
  twice = batch.replace(rows=rows)
  got = gradients(decoder, twice, old, layouts.N, 'trajectory_mean')
  for method, want in expected('tree').items():
    assert difference(got[method], want) > 1e-2


@functools.cache
def update(kind: str, micro: int):
  """A whole update in two minibatches, the second of which has a ratio.

  Returns: a fresh state, (state, batch) -> parameters
  """
  made = learner(decoder(), 'trajectory_mean', micro, n=2, unit='trajectory')

  @jax.jit
  def f(state, batch):
    state, *_ = update_lib.update(made, state, batch)
    return state.params['policy']

  with set_mesh(kind):
    return update_lib.init(made, jax.random.key(3)), f


def change(story: str, layout: str, kind: str, micro: int):
  """What an update adds to the parameters."""
  batch, _ = layouts.lay(STORIES[story], layout)
  state, f = update(kind, micro)
  with set_mesh(kind):
    after = f(state, on_mesh(batch))
  after, before = jax.tree.map(np.asarray, (after, state.params['policy']))
  return jax.tree.map(np.subtract, after, before)


@pytest.mark.parametrize(
  'kind', [pytest.param('none', marks=pytest.mark.nightly), 'explicit']
)
def test_updates_are_equal(kind):
  """Also with the learner's own old log-probs, plan and optimizer."""
  for story in STORIES:
    want = change(story, 'history', 'none', layouts.N)
    for layout in layouts.LAYOUTS:
      assert difference(change(story, layout, kind, MICRO), want) < 1e-4
