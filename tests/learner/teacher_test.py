"""What a policy learns of a teacher, against whole distributions at once."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from agentrl import mesh, optimizer, registry
from agentrl.advantage import chain
from agentrl.learner import algorithm, policy_gradient, teacher
from agentrl.learner import update as update_lib
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.model import policy, shared_base
from agentrl.nn import lora, transformer
from agentrl.signal.base import Context
from agentrl.types import Batch, Rows
from tests import batches

V, HEAT = 16, 0.7
SHAPE = transformer.DecoderConfig(
  vocab=V,
  width=8,
  layers=1,
  heads=4,
  kv_heads=4,
  head_dim=4,
  mlp=8,
  logit_cap=6.0,
  tied=False,
)
LORA = lora.Lora(2, 16.0, 'q|v')
ONE_BETA = [
  0.5,
  *(pytest.param(x, marks=pytest.mark.nightly) for x in (0.0, 1.0)),
]


def batch_of(size: int = 4) -> Batch:
  """Trajectories of two turns of ragged lengths, one row each."""
  r = np.random.default_rng(0)
  turn = lambda: r.integers(0, V, r.integers(1, 4)).tolist()  # noqa: E731
  tokens = [[turn(), turn()] for _ in range(size)]
  return Batch.from_turns(
    tokens,
    [[[-1.0] * len(ids) for ids in turns] for turns in tokens],
    context=[[turn(), turn()] for _ in range(size)],
    reward=r.normal(size=(size, 2)).tolist(),
    group=[i // 2 for i in range(size)],
  )


def learner(beta=1.0, micro=2, losses=('distillation',), **settings):
  hp = {'role': 'teacher', 'beta': beta}
  hp |= {x: settings.pop(x) for x in ('role', 'reading') if x in settings}
  settings.setdefault('modules', both(policy.module(SHAPE, HEAT)))
  return Algorithm.from_spec(
    registry.MethodSpec(
      loss=losses,
      hp={'distillation': {'distillation': hp}} | settings.pop('hp', {}),
    ),
    Context(
      settings.pop('modules'),
      {POLICY: optimizer.OptimizerConfig(lr=0.0)},
      micro,
    ),
    **settings,
  )


def both(module):
  return {POLICY: module, 'teacher': module}


def params_of(modules) -> dict:
  """Parameters of each role, far apart: drawn ones are nearly uniform."""

  def draw(module, key):
    noise = lambda x: jax.random.normal(key, x.shape)  # noqa: E731
    drawn = mesh.init(module.specs, key)
    return jax.tree.map(lambda x: 2 * x + 0.3 * noise(x), drawn)

  keys = jax.random.split(jax.random.key(0), len(modules))
  return {
    role: draw(modules[role], key)
    for role, key in zip(sorted(modules), keys, strict=True)
  }


def log_probs(params, rows):
  hidden = transformer.forward(SHAPE, params, rows.tokens, rows.seg)
  logits = transformer.logits(params, hidden, SHAPE.logit_cap) / HEAT
  return jnp.pad(jax.nn.log_softmax(logits)[:, :-1], ((0, 0), (1, 0), (0, 0)))


def hinted(batch: Batch, hints) -> Batch:
  """The batch with a reading whose rows begin with these tokens."""
  longest = max(map(len, hints))
  pad = lambda x, y: np.pad(  # noqa: E731
    x, ((0, 0), (0, longest)), constant_values=y
  )
  rows = jax.device_get(batch.rows)
  out = {
    name: pad(x, -1 if name in ('seg', 'traj', 'turn') else 0)
    for name, x in vars(rows).items()
  }
  for n, hint in enumerate(hints):
    for x in out.values():
      x[n] = np.roll(x[n], len(hint))
    out['tokens'][n, : len(hint)], out['seg'][n, : len(hint)] = hint, 0
  reading = Rows(**jax.tree.map(jnp.asarray, out))
  return batch.replace(readings={'hinted': reading})


def naive(beta, params, other, rows, reading=None):
  """Mean divergence of the sampled tokens, of all logits at once."""
  kl = lambda a, b: jnp.sum(jnp.exp(a) * (a - b), axis=-1)  # noqa: E731
  p, q = log_probs(params, rows), log_probs(other, reading or rows)
  if reading is not None:
    q = q[
      jnp.nonzero(reading.sampled, size=int(np.asarray(rows.sampled).sum()))
    ]
    at = jnp.nonzero(rows.sampled, size=q.shape[0])
    q = jnp.zeros_like(p).at[at].set(q)
  if beta in (0, 1):
    value = kl(p, q) if beta else kl(q, p)
  else:
    m = jnp.log((1 - beta) * jnp.exp(p) + beta * jnp.exp(q))
    value = beta * kl(q, m) + (1 - beta) * kl(p, m)
  return jnp.sum(jnp.where(rows.sampled, value, 0)) / jnp.sum(rows.sampled)


def naive_gradient(beta, params, *rows):
  """Value and slope of `naive` in the policy."""

  def value(own, other):
    return naive(beta, own, other, *rows)

  both = jax.jit(jax.value_and_grad(value))
  return both(params[POLICY], params['teacher'])


@functools.partial(jax.jit, static_argnums=0)
def gradient_of(settings, params, batch, credit=None):
  alg = learner(**dict(settings))
  alg = algorithm.bind_shared_params(alg, params)
  credit = chain.zero(batch) if credit is None else credit
  other = teacher.outputs(alg, params, batch)
  return policy_gradient.gradient(
    alg,
    params[POLICY],
    batch,
    {},
    credit,
    batch.rows.sampled,
    jax.random.key(0),
    other,
  )


def gradient(batch, params, credit=None, **settings):
  return gradient_of(tuple(settings.items()), params, batch, credit)


def close(got, want):
  """In float32, as far as the largest of them can be."""
  largest = max(np.max(np.abs(x)) for x in jax.tree.leaves(want))
  assert largest > 0.01
  chex.assert_trees_all_close(got, want, rtol=0, atol=2e-5 * float(largest))


@pytest.mark.parametrize(
  ('beta', 'micro'),
  [
    (0.5, 4),
    (1.0, 1),
    *(
      pytest.param(*x, marks=pytest.mark.nightly)
      for x in ((0.0, 1), (0.0, 4), (0.5, 1), (1.0, 4))
    ),
  ],
)
def test_the_gradient_is_that_of_whole_distributions(beta, micro):
  """In one micro-batch and in four."""
  batch, params = batch_of(), params_of(learner().context.modules)
  grads, (loss, metrics) = gradient(batch, params, beta=beta, micro=micro)
  want, slope = naive_gradient(beta, params, batch.rows)
  assert want > 0.05
  np.testing.assert_allclose(loss, want, rtol=1e-5)
  total, weight = metrics['distillation/divergence']
  np.testing.assert_allclose(total / weight, want, rtol=1e-5)
  close(grads, slope)


def test_it_is_known_wherever_something_is_trained_on():
  """On tokens that somebody else wrote and that have weight, too."""
  batch, params = batch_of(), params_of(learner().context.modules)
  rows = batch.rows
  first = jnp.zeros_like(rows.sampled).at[:, 0].set(True)  # nothing predicts it
  quoted = ~rows.sampled & ~first & (rows.seg >= 0)
  rows = rows.replace(weight=jnp.where(quoted, 1.0, rows.weight))
  batch = batch.replace(rows=rows)
  alg = learner()

  @jax.jit
  def run(params, batch):
    other = teacher.outputs(alg, params, batch)
    read = teacher.reader(alg, ('divergence',), other)
    p, q = (log_probs(params[x], batch.rows) for x in (POLICY, 'teacher'))
    got = read(params[POLICY], batch.rows, other.hidden).divergence
    return got, jnp.sum(jnp.exp(p) * (p - q), axis=-1)

  got, want = run(params, batch)
  trained = quoted | rows.sampled
  np.testing.assert_allclose(got[trained], want[trained], atol=1e-5)
  assert jnp.min(jnp.where(quoted, want, 1)) > 1e-4


def test_a_loss_that_couples_rows_leaves_it_as_it_is():
  """The path of two passes: what couples rows has no advantage here."""
  batch, params = batch_of(), params_of(learner().context.modules)
  want, _ = gradient(batch, params, micro=2)
  both_terms = ('distillation', 'clip_cov')
  assert registry.get('loss', both_terms[1]).couples
  got, _ = gradient(batch, params, micro=2, losses=both_terms)
  close(got, want)


HINTS = [[5, 6, 7], [], [9], [5, 2]]


@pytest.mark.parametrize('beta', ONE_BETA)
def test_a_teacher_that_reads_a_hint(beta):
  """Its distributions are those at the same messages, in longer rows."""
  batch = hinted(batch_of(), HINTS)
  params = params_of(learner().context.modules)
  grads, (loss, _) = gradient(batch, params, beta=beta, reading='hinted')
  rows = batch.rows, batch.readings['hinted']
  want, slope = naive_gradient(beta, params, *rows)
  np.testing.assert_allclose(loss, want, rtol=1e-5)
  close(grads, slope)
  plain, _ = gradient(batch, params, beta=beta)
  assert not np.allclose(*(jax.tree.leaves(x)[0] for x in (grads, plain)))


@pytest.mark.parametrize('beta', ONE_BETA)
def test_the_policy_itself_with_an_empty_hint_teaches_nothing(beta):
  settings = dict(beta=beta, role=POLICY, reading='hinted')
  params = params_of(learner().context.modules)
  for hints, learns in (([[]] * 4, False), (HINTS, True)):
    batch = hinted(batch_of(), hints)
    grads, (loss, _) = gradient(batch, params, **settings)
    largest = max(np.max(np.abs(x)) for x in jax.tree.leaves(grads))
    assert (float(loss) > 1e-3) == learns
    assert (float(largest) > 1e-3) == learns
    if not learns:
      np.testing.assert_allclose([loss, largest], 0, atol=1e-6)


def test_nothing_reaches_the_teacher():
  """The loss as a function of all roles: none of its slope is the teacher's."""
  batch, params = batch_of(), params_of(learner().context.modules)
  alg = learner()

  def loss(params):
    other = teacher.outputs(alg, params, batch)
    read = teacher.reader(alg, ('divergence',), other)
    out = read(params[POLICY], batch.rows, other.hidden)
    return jnp.sum(out.divergence)

  # The teacher's loop over micro-batches has no backward pass at all, so that
  # only what is behind it could be reached: its head.
  def of_head(head):
    return loss({**params, 'teacher': {**params['teacher'], 'head': head}})

  slope = jax.jit(jax.grad(of_head))(params['teacher']['head'])
  assert not np.any(slope)


@pytest.mark.nightly
def test_the_mean_of_the_sampled_estimator_is_the_gradient_of_the_reverse_kl():
  """Every word in a row of its own, as likely as the policy finds it.

  That is the expectation over what is sampled of the gradient of configs/opd.py
  with its links: A(a) = -(log pi(a) - log pi_T(a)).
  """
  prompt = [3, 1, 4]
  batch = Batch.from_turns(
    [[[word]] for word in range(V)],
    [[[-1.0]]] * V,
    context=[[prompt]] * V,
    reward=[[0.0]] * V,
    group=list(range(V)),
  )
  params = params_of(learner().context.modules)
  logp, other = (
    log_probs(params[role], batch.rows)[0, len(prompt)]
    for role in (POLICY, 'teacher')
  )
  place = batch.rows.sampled
  spread = lambda x: jnp.where(place, x[:, None], 0)  # noqa: E731
  link = registry.bind('link', 'kl_in_reward', {'coef': 1.0})
  signals = {'old_logp': spread(logp), 'ref_logp': spread(other)}
  credit, _ = chain.advantage({'teacher': [link]}, {}, [], batch, signals)
  credit = credit.replace(weight=spread(jnp.exp(logp)))
  want, _ = gradient(batch, params, credit, losses=('reinforce',))
  got, (loss, _) = gradient(batch, params, credit, beta=1.0)
  np.testing.assert_allclose(
    loss, jnp.sum(jnp.exp(logp) * (logp - other)), rtol=1e-5
  )
  close(got, want)


def updated(alg, params, batch):
  state = update_lib.init(alg, jax.random.key(0)).replace(params=params)
  return jax.jit(functools.partial(update_lib.update, alg))(state, batch)


@pytest.mark.parametrize('n', [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_sub_updates_are_compared_with_one_teacher(n):
  """At a rate of 0 all of them see the same: their sum is the whole's."""
  plan = {'minibatch': {'minibatches': {'n': n}}}
  alg, batch = learner(beta=0.5, hp=plan), batch_of()
  params = params_of(alg.context.modules)
  state, metrics, _ = updated(alg, params, batch)
  total, weight = metrics['distillation/divergence']
  want = naive(0.5, params[POLICY], params['teacher'], batch.rows)
  assert weight == np.sum(batch.rows.sampled)
  np.testing.assert_allclose(total / weight, want, rtol=1e-5)
  chex.assert_trees_all_equal(state.params['teacher'], params['teacher'])


def test_adapters_of_one_base_are_compared_as_they_stand_on_it():
  language = policy.module(SHAPE, HEAT)
  modules = shared_base.modules(both(language), language, LORA)
  alg, batch = learner(modules=modules), batch_of()
  params = params_of(modules)
  _, metrics, _ = updated(alg, params, batch)
  total, weight = metrics['distillation/divergence']
  whole = [
    algorithm.full_params(alg.context, params, role)
    for role in (POLICY, 'teacher')
  ]
  want = naive(1.0, *whole, batch.rows)
  assert want > 1e-3
  np.testing.assert_allclose(total / weight, want, rtol=1e-4)


@pytest.mark.parametrize(
  'explicit', [pytest.param(True, marks=pytest.mark.nightly), False]
)
def test_a_mesh_changes_nothing(explicit):
  batch = hinted(batch_of(8), HINTS * 2)
  params = params_of(learner().context.modules)
  want = gradient(batch, params, beta=0.5, micro=4, reading='hinted')
  made = mesh.make({'fsdp': 2, 'sequence': 2, 'tensor': 2}, explicit=explicit)
  with jax.set_mesh(made):
    specs = {r: m.specs for r, m in learner().context.modules.items()}
    stored = jax.device_put(params, mesh.shardings(specs))
    laid = batches.place(batch, batch.rows.tokens.shape)
    wide = batch.readings['hinted']
    near = {'hinted': batches.place(wide, wide.tokens.shape)}
    laid = laid.replace(readings=near)
    got = gradient(laid, stored, beta=0.5, micro=4, reading='hinted')
  close(jax.tree.map(np.asarray, got), jax.tree.map(np.asarray, want))


def test_other_terms_read_no_teacher():
  alg = learner(losses=('reinforce',))
  assert teacher.comparison(alg.spec) is None
  assert teacher.outputs(alg, {}, batch_of()) is None


def test_two_terms_are_refused():
  registry.register('loss', 'other_divergence', needs=('output:divergence',))(
    lambda x: (x.outputs.divergence, {})
  )
  spec = registry.MethodSpec(loss=('distillation', 'other_divergence'))
  try:
    with pytest.raises(ValueError):
      teacher.comparison(spec)
  finally:
    del registry._PIECES['loss', 'other_divergence']
