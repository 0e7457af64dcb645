"""Nothing in a method is idle: taken out, each part changes what is learned."""

import contextlib
import importlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import loop, schedule
from agentrl.learner import update as update_lib
from agentrl.learner.algorithm import bind_shared_params
from agentrl.run import build
from agentrl.run.play import collect as collect_lib
from agentrl.run.play import sampler
from agentrl.run.stage import stage_state, stages
from tests.integration import every_method_test as every
from tests.integration import (
  half_good,
  judged_methods_test,
  staged_methods_test,
)
from tests.integration.parts import parts, pruned

# GRPO where they run here, said in their docstrings.
EQUAL = (
  'grpo',
  'duration_aware',  # in turns that take equally long
  'recoworld',  # whose idea is its world
  'verltool',  # whose idea is how tools are run
)
# Parts that cannot be seen in two updates on these batches, and why.
_RATIO = 'with one sub-update the ratio is 1'
_LENGTH = 'messages are equally long'
_VALUE = 'values move by less than either bound'
_UNTAUGHT = 'its weight is 0: the teacher alone is learned from'
_DEFAULT = 'here the default comes to the same'
_WIRED = 'a value behind it makes it the same'
_EARLY = 'it begins later'
GRPO = {'episode: episode_return', 'episode: center', 'episode: scale'}
_LINKS = dict.fromkeys(GRPO, _UNTAUGHT)
_STREAM = _LINKS | {'stream episode': _UNTAUGHT}
_UNLABELLED = dict.fromkeys(
  (
    'stream intrinsic',
    'intrinsic: add_signal',
    'intrinsic: return_to_go',
    'coef.intrinsic',
    'hp.intrinsic.scale_by_count',
  ),
  'no label comes before the second update',  # oni_test.py has more of them
)
IDLE: dict[str, dict[str, str]] = {
  'adca_allocation': {'hp.attribution.add_label': _WIRED},
  'agentmath_partial': {'task': 'a segment is as long as a trajectory'},
  'archer': {'loss': _RATIO},
  'atom_searcher': {
    'coef.atoms': 'a schedule has its place',
    'coef.answer': 'a schedule has its place',
    'hp.reward.gated_or_penalty': _DEFAULT,
  },
  'cleaner': {'loss': 'no ratio is near 10', 'hp.ppo_dual.ppo_dual': _DEFAULT},
  'clip_cov': {'hp.clip_cov.clip_cov': _DEFAULT},
  'digiq': {
    'loss': _RATIO,
    'hp.collect.candidates': 'untrained, all candidates come to the same',
  },
  'duration_aware': {'post: duration_weight': _LENGTH, 'advantage': _LENGTH},
  'epo': {'loss entropy_hinge': _EARLY, 'schedule': _EARLY},
  'epo_released': {'loss entropy_band': _EARLY, 'schedule': _EARLY},
  'flow_grpo': {
    'loss_aggregation.ppo': _LENGTH,
    'loss_aggregation.kl_k3': _LENGTH,
  },
  'gkd': _LINKS,
  'gpg': {'loss': _RATIO, 'episode: scale_by_nonzero': 'all groups differ'},
  'gspo_turn': {'loss_aggregation.gspo_turn': _LENGTH},
  'hiper': {'hp.signal.low_and_high': _VALUE},
  'hiper_released': {'hp.signal.heads': _VALUE},
  'kl_cov': {'hp.kl_cov.kl_cov': _DEFAULT},
  'mira': {
    'host.max_observation_tokens': 'there is room for all',
    'hp.signal.value': _VALUE,
  },
  'muonclip': {'role.policy.qk_clip': 'logits stay below 100'},
  'odysseus': {'hp.signal.value': _VALUE},
  'oni': _UNLABELLED | {'intrinsic: scale_by_count': 'no state is seen twice'},
  'oni_learned': _UNLABELLED
  | {'intrinsic: scale_by_count': 'no state is seen twice'},
  'opd': _STREAM,
  'opsd': _LINKS,
  'oprl_parity': {'loss': _RATIO, 'hp.episode.leave_one_out': _DEFAULT},
  'ppo': {'hp.signal.value': _VALUE},
  'ppo_bilevel': {'hp.signal.value': _VALUE},
  'ppo_turn': {'hp.signal.value': _VALUE},
  'ppr': {'hp.signal.value': _VALUE},
  'prs': {'hp.reward.ladder': _DEFAULT},
  'prs_vspo': {'hp.reward.ladder': _DEFAULT},
  'raft': {'hp.episode.imitate_best': _DEFAULT},
  'rorecomp': dict.fromkeys(
    (
      'stream compensation',
      'compensation: add_token_signal',
      'loss ppo_stored',
      'schedule',
      'hp.memory.compensation',
    ),
    'the memory is empty',
  ),
  'scalinginter': {'hp.task.growing_horizon': _EARLY},
  'seeupo': {'loss_aggregation.ppo_suffix': _LENGTH},
  'shop_r1': {'episode: episode_sum': 'one turn'},
  'smartsnap': {
    'env.careful': 'neither task has a detour',
    'hp.judge.evidence_excess': 'nothing is submitted in excess',
  },
  'spa': {'hp.signal.value': _VALUE},
  'starpo_s': {'hp.signal.value': _VALUE},
  'steppo': {'hp.signal.value': _VALUE},
  'step_grpo': dict.fromkeys(
    ('hp.episode.center', 'hp.episode.scale'), 'all of a group begin alike'
  ),
  'swe_trace': {'env.careless': 'both demonstrations are careful'},
  'tcod': _STREAM | {'hp.task.growing_horizon': _EARLY},
  'tool_star': {
    'episode: center': 'the mean of both groups is 0',
    'env.retrievers': 'no demonstration needs another',
  },
  'toolorchestra': dict.fromkeys(
    ('right: min_max', 'right: gate', 'price: gate', 'seconds: gate'),
    'scores are 0 or 1, and one of a group is right',
  )
  | {'post: clip': 'nothing is beyond 3'},
  'toolrl': {'hp.judge.tool_match': 'calls are of one form'},
  'tt_opd': {'teacher: first_turns': 'there are no more turns'},
  'verltool': {'host.stop_strings': 'messages are scripted'},
  'vpr': {'step: drop_flat': 'no state has turns of one score'},
}


def config(method: str, folder: str):
  """The tiniest run, at a rate that moves ratios out of their bounds."""
  c = every.config(method, folder)
  c.role.policy.update(dict(lr=0.02, warmup=0))
  if 'overlong' in c.hp.get('reward', {}):
    c.hp.reward.overlong.update(dict(limit=4, margin=2))
  if c.minibatch == 'minibatches' and c.hp.minibatch.minibatches.n > 1:
    c.hp.minibatch.minibatches.epochs = 4
  return c


class Method:
  """What a config makes of a batch: rewards, credit, parameters."""

  def __init__(self, c, shared, stack):
    s = build.experiment(c)
    playing = stack.enter_context(sampler.open_sampler(s))
    self.s, self._shared = s, shared
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    (self.stage,) = stages.make_stages(s, ('rl',), {'rl': (s, playing)}, folder)
    self.stage.open(0)

  def _begin(self):
    alg = self.s.algorithm
    state = update_lib.init(alg, jax.random.key(0))
    state = stage_state.init_past([(self.s.config, alg)], state)
    return self.stage.begin(state)

  def state(self, batch):
    return update_lib.init_memory(
      self.s.algorithm, self._begin(), batch, len(self.s.train)
    )

  def _resolved(self, state):
    alg = schedule.resolve(self.stage.algorithm, jnp.int32(0))
    return bind_shared_params(alg, state.params)

  def sampled(self):
    """One batch of the untrained policy, or of a scripted one."""
    state = collect_lib.init_memory(self.s, self._begin())
    batch, _ = self.stage.collect(state, self.stage.task(state, 0), 0)
    return jax.device_get(batch)

  def later(self):
    """A batch of the same after an update."""
    state = collect_lib.init_memory(self.s, self._begin())
    update_state = loop.jit_update(self.stage.algorithm, update_lib.update)
    state, _, _ = update_state(state, self.scored(self.batch()))
    batch, _ = self.stage.collect(state, self.stage.task(state, 1), 1)
    return jax.device_get(batch)

  def updates(self, count):
    """Yields the batch of a step, what its update tells, the state after."""
    state = collect_lib.init_memory(self.s, self._begin())
    learn = loop.jit_update(self.stage.algorithm, update_lib.update)
    for step in range(count):
      batch, _ = self.stage.collect(state, self.stage.task(state, step), step)
      batch = jax.device_get(batch)
      state, told, _ = learn(state, jax.device_put(batch))
      yield batch, jax.device_get(told), state

  def batch(self):
    """The shared one, or the method's own if trajectories begin alike in it."""
    spec = self.s.algorithm.spec
    if self._shared is None:
      batch = self.sampled()
    elif spec.prefix != 'none' or spec.collect.startswith('branch'):
      batch = told(self.sampled())
    else:
      batch = seated(self._shared, self.s.seats)
    if spec.memory:
      batch = batch.replace(readings={})  # memories do not store them
    return jax.device_put(batch)

  def scored(self, batch):
    return collect_lib.score(self.s.algorithm.spec, batch)

  def signals(self, batch):
    """What the advantage is made of: the batch, and what scores it."""
    state = self.state(batch)
    alg = self._resolved(state)
    for select in alg.curate:
      batch = select(batch)
    batch, remembered = update_lib.read_memory(alg, state, batch)
    signals, _ = update_lib.old_policy_outputs(alg, state, batch)
    _, signals, _ = update_lib.run_signals(
      alg, state, batch, signals | remembered
    )
    return batch, signals

  def credit(self, batch, signals):
    alg = self._resolved(self.state(batch))
    return update_lib.compute_advantage(alg, batch, signals)[0]

  def updated(self, batch):
    """The policy after two updates."""
    state = self.state(batch)
    update_state = loop.jit_update(self.stage.algorithm, update_lib.update)
    for _ in range(2):
      state, _, _ = update_state(state, batch)
    return state.params['policy']


def seated(batch, seats):
  """The batch as if neighbours in it were the seats of a match."""
  agent = np.arange(len(batch.outcome)) % seats
  agent = np.repeat(agent[:, None], batch.turns.valid.shape[1], axis=1)
  turns = batch.turns.replace(agent=agent.astype(np.int32))
  return batch.replace(turns=turns)


def told(batch):
  """The batch with made-up rewards, where nothing was solved."""
  shape = batch.turns.reward.shape
  reward, judged = (
    np.asarray(jax.random.normal(jax.random.key(i), shape)) for i in (1, 2)
  )
  terms = {
    'env': reward,
    'progress': judged,
    'greedy_return': np.broadcast_to(reward[:, :1], shape),
    'switch': (np.asarray(batch.turns.state) % 2).astype(np.float32),
    'invalid': (judged > 1).astype(np.float32),
  }
  terms = {k: np.asarray(x * batch.turns.valid) for k, x in terms.items()}
  scored = np.array(batch.turns.scored)
  scored[1:3, 0] = False  # a judge failed there
  turns = batch.turns.replace(
    reward=terms['env'], terms=batch.turns.terms | terms, scored=scored
  )
  outcome = (np.arange(len(batch.outcome)) % 3 == 0).astype(np.float32)
  return batch.replace(turns=turns, outcome=outcome)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return str(tmp_path_factory.mktemp('data'))


@pytest.fixture(scope='module')
def shared(batch):
  return told(batch)


batch = every.batch


def differ(before, after) -> bool:
  a, b = jax.device_get((jax.tree.leaves(before), jax.tree.leaves(after)))
  return len(a) != len(b) or any(
    np.shape(x) != np.shape(y) or not np.array_equal(x, y, equal_nan=True)
    for x, y in zip(a, b, strict=True)
  )


def acts(method: Method, other: Method, shows: str, made: dict) -> bool:
  """Whether two methods differ in what they make of the same batch.

  Args:
    shows: as in Part
    made: of the first method, kept for the next
  """

  def once(name, f):
    if name not in made:
      made[name] = f()
    return made[name]

  batch = once('batch', method.batch)
  scored = once('scored', lambda: method.scored(batch))
  if shows == 'reward':
    return differ(scored, other.scored(batch))
  if shows == 'batch':
    mine = once('sampled', method.sampled)
    return differ(mine, other.sampled())
  if shows == 'later':
    return differ(once('later', method.later), other.later())
  if shows == 'credit':
    seen = once('signals', lambda: method.signals(scored))
    mine = once('credit', lambda: method.credit(*seen))
    if differ(mine, other.credit(*seen)):
      return True  # else what is learned first may show it in the second update
  mine = once('updated', lambda: method.updated(scored))
  return differ(mine, other.updated(scored))


def found(c, plain, shared) -> dict[str, bool]:
  """Part -> whether it acts; without parts that others need."""
  made, out = {}, {}
  with contextlib.ExitStack() as stack:
    method = Method(c, shared, stack)
    for part in parts(c, plain):
      with contextlib.suppress(ValueError), contextlib.ExitStack() as own:
        # What is left may not fit together.
        other = Method(pruned(part.config), shared, own)
        out[part.name] = acts(method, other, part.shows, made)
  return out


def check(name, out):
  idle = {part for part, acting in out.items() if not acting}
  assert idle == set(IDLE.get(name, {}))
  own = {part for part, acting in out.items() if acting} - GRPO
  assert bool(own) != (name in EQUAL)


@pytest.mark.nightly
@pytest.mark.parametrize('name', every.ROLES)
def test_every_part_acts(name, folder, shared):
  plain = 'dr_grpo' if name == 'grpo' else 'grpo'
  out = found(config(name, folder), config(plain, folder), shared)
  check(name, out)


def hosted(name, folder, world=''):
  module = importlib.import_module(f'agentrl.configs.{name}')
  c = judged_methods_test.small(module.get_config(f'tiny,{world}'), folder)
  c.role.policy.update(dict(lr=0.02, warmup=0))
  if name == 'agentmath_partial':  # so that groups are whole in one batch
    c.hp.task.partial.segment = c.rollout.max_turns
  if name == 'shop_r1':  # beside 1000 an untrained confidence is rounded away
    c.env.difficulty_scale = 1.0
  return c


SAID = {'cleaner': staged_methods_test.calls}  # with a call that fails
# In worlds of their own, where a scripted policy is right in half of what it
# does. A program has no script, and tasks that are written have scripts of
# their own (proposals_test.py, pae_test.py), as do games of several seats
# (norms_test.py).
SCRIPTED = 'polar', 'agent0', 'cpr_norms', 'pae', 'ssp'
HOSTED = tuple(x for x in judged_methods_test.COMPOSED if x not in SCRIPTED)


@pytest.mark.nightly
@pytest.mark.parametrize('name', HOSTED)
def test_every_part_acts_in_its_world(name, tmp_path, monkeypatch):
  half_good.plays(monkeypatch, SAID.get(name, half_good.half_right))
  c = hosted(name, tmp_path)
  plain = hosted('grpo', tmp_path, f'env={c.env.name}')
  check(name, found(c, plain, None))
