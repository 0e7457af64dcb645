"""Rollouts in a chat template are what text/chat_template.py writes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import grpo
from agentrl.env.jit import base
from agentrl.model import microbatch
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout import record as record_lib
from agentrl.run import build, weights
from agentrl.run.play import collect, demonstrations
from agentrl.run.stage import stages
from agentrl.task.base import make_attempts
from agentrl.text import chat_template, jit_template
from agentrl.text.chat_template import Message
from agentrl.types import Status
from tests import checkpoints

TURNS, SYSTEM = 4, 'You play.'


@pytest.fixture(scope='module')
def setups(tmp_path_factory):
  """(template, history, window) -> the parts of a run."""
  root = tmp_path_factory.mktemp('frames')
  for kind in checkpoints.CHATS:
    checkpoints.model(checkpoints.chat(root / kind, kind))

  @functools.cache
  def make(kind, history, window=1, **rollout):
    c = grpo.get_config('tiny,env=frozen_lake')
    c.data, c.model.path = str(root / 'data'), str(root / kind)
    c.micro_batch, c.sft.batch = 8, 8
    c.rollout.update(
      dict(
        batch=8,
        slots=3,
        max_turns=TURNS,
        max_message_tokens=3,
        history=history,
        window=window,
        system=SYSTEM,
        **rollout,
      )
    )
    c.env.update(dict(train=8, test=4))
    return build.experiment(c)

  return make


def played(s: build.Experiment):
  """A policy that says actions often, some without an end; its batch."""
  params = weights.start(s.config, s.shape)
  likely = [t for x in s.world.env.actions for t in s.tokenizer.encode(x)]
  likely = jnp.array([*likely, s.tokenizer.eot])
  push = jax.random.normal(jax.random.key(0), (len(likely), s.shape.width))
  params['embed'] = params['embed'].at[likely].add(push / 2)
  params['norm'] = jnp.ones_like(params['norm'])
  attempts = make_attempts(np.arange(8) // 4, 4, TURNS, 1.0)

  @jax.jit
  def play(params, key):
    record = collect.play(s, params, attempts, key)
    return record, record_lib.rows(record, collect.layout(s, record), 0)

  return params, attempts, *play(params, jax.random.key(0))


def observations(s, attempts, record):
  """What each trajectory saw, played again in the environment: texts."""
  env, key = s.world.env, jax.random.key(0)
  step = jax.jit(env.step)
  for b, task in enumerate(attempts.task):
    own = jax.random.fold_in(key, b)
    one = jax.tree.map(lambda x, i=task: x[i], s.world.tasks)
    state, obs = env.reset(jax.random.fold_in(own, 0), one)
    seen = []
    for k in np.flatnonzero(record.valid[b]):
      seen.append(base.render_text(env, obs).strip())
      turn = jax.random.fold_in(jax.random.fold_in(own, k + 1), 1)
      state, obs, _, _ = step(state, record.action[b, k], turn)
    yield seen


def context(s, chat, seen, said):
  """The text before the last message: everything by text/chat_template.py."""
  system = Message('system', SYSTEM)
  talk = chat_template.start(chat, [system, Message('user', seen[0])])
  for text, ids in zip(seen[1:], said, strict=True):
    talk = chat_template.add_reply(chat, talk, ids)
    talk = chat_template.add_messages(chat, talk, [Message('user', text)])
  return talk.text


def tokens(values, lengths):
  return [
    x[:n].tolist()
    for x, n in zip(np.asarray(values), np.asarray(lengths), strict=True)
  ]


MODES = [('full', 1), ('turn', 1), ('turn', 3)]
TALKS = [(kind, *mode) for kind in ('chatml', 'headers') for mode in MODES]


@pytest.mark.nightly
@pytest.mark.parametrize(('kind', 'history', 'window'), TALKS)
def test_rollouts_are_conversations(setups, kind, history, window):
  s = setups(kind, history, window)
  params, attempts, record, rows = played(s)
  chat = chat_template.load(s.config.model.path, vocab=s.shape.vocab)
  assert s.tokenizer.eot == s.world.actions.eot == chat.eot
  cut, ended = 0, 0
  for b, seen in enumerate(observations(s, attempts, record)):
    heard = tokens(record.context[b], record.context_len[b])
    said = tokens(record.message[b], record.message_len[b])
    whole = []
    for k, _ in enumerate(seen):
      begin = 0 if history == 'full' else max(0, k - window + 1)
      want = context(s, chat, seen[begin : k + 1], said[begin:k])
      whole = [*whole, *heard[k]] if history == 'full' else heard[k]
      assert s.tokenizer.decode(whole) == want
      whole = [*whole, *said[k]]
      if history == 'full':
        assert rows.tokens[b, : len(whole)].tolist() == whole
      assert chat.eot not in said[k][:-1]
      ended += said[k][-1] == chat.eot
      cut += said[k][-1] != chat.eot
  assert min(cut, ended) >= 4
  # What was sampled and nothing else is trained on, as it was sampled.
  assert int(rows.sampled.sum()) == int(record.message_len.sum())
  module = s.algorithm.context.modules['policy']
  out = microbatch.forward(module.apply, params, rows, ('logp',), 8)
  np.testing.assert_allclose(out.logp, rows.logp, atol=1e-5, rtol=0)
  assert np.all(np.asarray(rows.logp)[np.asarray(rows.sampled)] < 0)


@pytest.mark.nightly
def test_a_state_is_what_was_seen_at_any_turn(setups):
  """First turns are framed otherwise than later ones."""
  s = setups('chatml', 'full')
  _, attempts, record, _ = played(s)
  ids = {}
  for b, seen in enumerate(observations(s, attempts, record)):
    for k, text in enumerate(seen):
      ids.setdefault(text, set()).add(int(record.state[b, k]))
  assert all(len(x) == 1 for x in ids.values())
  assert len(set.union(*ids.values())) == len(ids) > 1


@pytest.mark.nightly
@pytest.mark.parametrize('kind', ['chatml', 'headers'])
def test_demonstrations_are_conversations_of_the_solver(setups, kind):
  """Its messages are what is trained on, each with the template's end."""
  s = setups(kind, 'full')
  index = stages.tasks_with_demos(s)[:8]
  said, length = (x[index] for x in demonstrations.messages(s))
  attempts = collect.demo_attempts(s, index)
  replay = jax.jit(functools.partial(collect.demonstrate, s))
  rows = replay(attempts, said, length, jax.random.key(0)).rows
  chat = chat_template.load(s.config.model.path, vocab=s.shape.vocab)
  for b, i in enumerate(index):
    ids = np.asarray(rows.tokens[b])
    mine = ids[np.asarray(rows.sampled[b])].tolist()
    whole = [t for one in tokens(said[b], length[b]) for t in one]
    assert mine == whole[: len(mine)]
    ends = mine.count(chat.eot)
    assert mine[-1] == chat.eot
    assert 1 <= ends <= min(TURNS, int(np.sum(s.train.actions[i] >= 0)))


@pytest.mark.nightly
@pytest.mark.parametrize(('spare', 'turns'), [(-1, 2), (-2, 1)])
def test_a_full_context_ends_the_trajectory(setups, spare, turns):
  """Room for two turns of full length, and for one token less.

  What is left out of an observation, its line break, needs none.
  """
  s = setups('chatml', 'full')
  w, p = s.world, s.plan
  first = w.first_tokens + w.obs_tokens + p.message
  room = first + jit_rollout.turn_tokens(w, p) + spare
  s = setups('chatml', 'full', context=room)
  _, _, record, rows = played(s)
  ended = np.asarray(record.status) == Status.TOKEN_LIMIT
  assert ended.sum() >= 4
  # As many turns as surely fit; a short message may leave room for another.
  assert np.min(np.asarray(record.valid)[ended].sum(axis=1)) == turns
  assert int(rows.sampled.sum()) == int(record.message_len.sum())


def test_a_nulled_observation_is_framed(setups):
  s = setups('headers', 'full')
  framed = jit_template.alone(
    s.world.frame, jnp.array(s.tokenizer.encode('nothing'))
  )
  chat = chat_template.load(s.config.model.path, vocab=s.shape.vocab)
  assert s.tokenizer.decode(framed) == context(s, chat, ['nothing'], [])


def test_the_embedded_tokenizer_has_no_frame(tmp_path):
  c = grpo.get_config('tiny,env=frozen_lake')
  c.data = str(tmp_path)
  c.env.update(dict(train=8, test=4))
  s = build.experiment(c)
  assert s.world.frame is None
  assert s.world.pieces.prefix.size == s.world.pieces.suffix.size == 0
  assert jit_rollout.context_tokens(s.world, s.plan) == s.world.env.obs_len
