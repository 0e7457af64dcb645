"""Compacted conversations as batches of a run."""

import itertools

import jax
import numpy as np
import pytest

from agentrl.configs import arpo, compaction_rl
from agentrl.env.worlds.errands import Errands
from agentrl.learner import algorithm, update
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.engine.engine import Completion
from agentrl.run import build
from agentrl.run.check import validate
from agentrl.run.play import host_env, sampler
from agentrl.task.base import make_attempts
from agentrl.text import chat_format, chat_template
from agentrl.text.chat_template import Message
from agentrl.types import Status
from tests import checkpoints, errors
from tests.rollout import hosted
from tests.run import small_configs
from tests.run.play import swap_test


def config(folder, **compaction):
  c = small_configs.two_layers(compaction_rl.get_config('tiny'), folder)
  c.env.update(dict(train=8, test=4))
  c.rollout.update(dict(slots=3, max_turns=12, max_message_tokens=20))
  c.host.update(dict(decode_steps_per_sync=2, prefill_chunk=16))
  c.compaction.update(compaction)
  return c


def summaries(batch):
  return np.asarray(batch.turns.terms['summary']) > 0


@pytest.mark.nightly
@pytest.mark.parametrize('swap', ['turn', 'token'])
def test_rows_have_the_log_probs_of_their_versions(tmp_path, swap):
  """Weights change within and between segments."""
  c = config(tmp_path)
  c.staleness.update(
    dict(bound=99, anchor='behaviour', order='latest', swap=swap, depth=1)
  )
  s = build.experiment(c)
  of = swap_test.policies(s)
  batch, _ = swap_test.collected(s, of)
  rows, mask = batch.rows, np.asarray(batch.rows.sampled)
  version = np.asarray(rows.version)
  versions = np.unique(version[mask])
  assert len(versions) >= 3
  assert len(np.unique(np.asarray(rows.seg))) > 2
  assert summaries(batch).any()
  for v in versions:
    mine = mask & (version == v)
    expected = swap_test.logp_of(s, of(int(v)), rows)
    np.testing.assert_allclose(
      np.asarray(rows.logp)[mine], expected[mine], rtol=1e-5, atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize('arm', ['own', 'masked', 'shuffled', 'none'])
def test_demonstrations_have_summaries_of_their_expert(tmp_path, arm):
  """They solve their tasks, and are trained on as the arm says."""
  c = config(tmp_path, summary=arm)
  s = build.experiment(c)
  with sampler.open_sampler(s) as playing:
    batch = playing.replay(playing.demos(np.arange(8)), jax.random.key(0))
  assert (np.asarray(batch.status) == Status.SOLVED).all()
  written = summaries(batch)
  begun = np.asarray(batch.rows.seg).max(axis=1)
  assert (written.sum(1) == (0 if arm == 'none' else begun)).all()
  assert (begun >= 1).all()
  rows = batch.rows
  turn, sampled = np.asarray(rows.turn), np.asarray(rows.sampled)
  assert set(np.unique(np.asarray(rows.weight)[~sampled])) == {0.0}
  for b, k in np.argwhere(np.asarray(batch.turns.valid)):
    mine = sampled[b] & (turn[b] == k)
    light = arm == 'masked' and written[b, k]
    assert set(np.asarray(rows.weight)[b, mine]) == {0.0 if light else 1.0}
    if written[b, k]:
      said = s.tokenizer.decode(np.asarray(rows.tokens)[b, mine][:-1])
      first = s.train.tasks[b]['asked']
      assert len(said.split()) >= len(first)


def test_a_demonstrated_summary_that_is_too_long(tmp_path):
  s = build.experiment(config(tmp_path, tokens=4))
  some, key = np.arange(8), jax.random.key(0)
  with (
    sampler.open_sampler(s) as playing,
    errors.raises(ValueError, 'compaction.tokens 4'),
  ):
    playing.replay(playing.demos(some), key)


@pytest.mark.slow
def test_groups_share_their_length(tmp_path):
  """Whatever their members say: none goes on where another had no room."""
  c = config(tmp_path, threshold=(66, 120), most=1)
  s = build.experiment(c)
  made = s.plan.compaction
  state = update.init(s.algorithm, jax.random.key(0))
  policy = algorithm.full_params(s.algorithm.context, state.params)
  attempts = make_attempts(np.arange(8) // 4, 4, 12, 1.0)
  with sampler.open_sampler(s) as playing:
    batch, metrics = playing.collect(policy, attempts, jax.random.key(1), 0)
  seg, traj = np.asarray(batch.rows.seg), np.asarray(batch.rows.traj)
  for b in range(8):
    (row,) = np.unique(np.nonzero(traj == b)[0])
    sizes = [np.sum(seg[row] == x) for x in range(seg[row].max() + 1)]
    length = made.length(b // 4)
    written = summaries(batch)[b].sum()
    # All but the last segment end with a request and a summary.
    ends = [length + made.asking + made.tokens] * written + [length]
    assert all(n <= end for n, end in zip(sizes, ends, strict=True))
  assert made.length(0) != made.length(1)
  total, count = metrics['rollout/summary']
  assert float(total) == summaries(batch).sum() > 0
  assert float(count) == np.sum(batch.turns.valid)


@pytest.mark.slow
def test_branches_of_a_trajectory_repeat_its_summaries(tmp_path):
  """A turn that several share is trained in one of them."""
  c = config(tmp_path)
  arpo.branched(c)
  c.hp.collect = {'branch': {'chance': 1.0}}
  s = build.experiment(c)
  state = update.init(s.algorithm, jax.random.key(0))
  policy = algorithm.full_params(s.algorithm.context, state.params)
  attempts = make_attempts(np.arange(8) // 4, 4, 12, 1.0)
  with sampler.open_sampler(s) as playing:
    batch, _ = playing.collect(policy, attempts, jax.random.key(1), 0)
  rows, written = batch.rows, summaries(batch)
  logp, mask = swap_test.logp_of(s, policy, rows), np.asarray(rows.sampled)
  np.testing.assert_allclose(np.asarray(rows.logp)[mask], logp[mask], atol=1e-5)
  node, turns = np.asarray(batch.turns.node), np.asarray(batch.turns.valid)
  again = [np.sum((node == x) & turns) for x in node[written]]
  assert max(again) > 1
  weight, turn = np.asarray(rows.weight), np.asarray(rows.turn)
  traj = np.asarray(rows.traj)
  trained = {}
  for b, k in np.argwhere(turns):
    mine = mask & (traj == b) & (turn == k)
    (one,) = np.unique(weight[mine])
    trained.setdefault(int(node[b, k]), []).append(float(one))
  assert all(
    sorted(x) == [*[0.0] * (len(x) - 1), 1.0] for x in trained.values()
  )


class Says:
  """A generator that says as much as it may, with or without an end."""

  def __init__(self, words, ends):
    self.words, self.ends, self.asked = words, ends, []
    self._pending = []

  @property
  def busy(self):
    return bool(self._pending)

  def submit(self, sequence, context, how):
    self.asked.append((sequence, list(context), how.budget))
    self._pending.append((sequence, how.budget))

  def dispatch(self):
    pass

  def collect(self):
    pending, self._pending = self._pending, []
    return [self.said(*x) for x in pending]

  def said(self, sequence, budget):
    (letter,) = self.words.encode('x')
    ids = [letter] * (budget - self.ends) + [self.words.eot] * self.ends
    zero = [0.0] * len(ids)
    return Completion(sequence, ids, zero, zero, [0] * len(ids))

  def cancel(self, sequence):
    self._pending = [x for x in self._pending if x[0] != sequence]


@pytest.mark.parametrize('ends', [True, False])
@pytest.mark.parametrize('keep', [True, False])
@pytest.mark.parametrize('kind', ['chatml', 'headers'])
def test_a_chat_template_frames_what_was_sampled(tmp_path, kind, keep, ends):
  """Segments begin with its own text and the summary's own tokens."""
  checkpoints.chat(tmp_path, kind)
  talk = chat_format.framed(chat_template.load(str(tmp_path)))
  family = Errands(people=10, teach=True)
  c = config(tmp_path, threshold=(400, 440), keep_task=keep, tokens=18)
  c.host.max_observation_tokens = 60
  limits = host_env.limits(validate.config(c), family.system, talk)
  tasks = [x.task for x in family.tasks('train', 3, 0)]
  world = HostEnvBundle(family, tasks, talk, limits, family.system)
  generator = Says(talk.words, ends)
  attempts = make_attempts(np.arange(3), 1, limits.turns, 1.0)
  ended, _ = hosted.play(world, generator, attempts)
  for _, context, budget in generator.asked:
    assert len(context) + budget <= limits.context
  record = world.record(ended)  # within its capacities
  size = np.sum((record.context_len + record.message_len), axis=1)
  assert size.max() <= limits.capacity.row
  assert record.columns['summary'].any(axis=1).all()
  for episode in ended:
    first = episode.turns[0].observation if keep else c.compaction.request
    begin = [Message('system', family.system), Message('user', first)]
    for before, turn in itertools.pairwise(episode.turns):
      assert turn.branch == (before.info.get('summary') == 1.0)
      if turn.branch:
        frame = talk.start(begin)
        told = talk.add_reply(frame, before.spoken.ids)
        heard = [Message('user', turn.observation)]
        want = talk.add_messages(told, heard).ids
        assert tuple(turn.context) == want
        assert want[: len(told.ids)] == (*frame.ids, *before.spoken.ids)
