"""Programs as environments: tokens of our own loop, and what fails alone."""

import dataclasses
import functools
import shlex
import sys

import jax
import numpy as np
import pytest

from agentrl import mesh
from agentrl.env.files import program
from agentrl.gateway.programs import ProgramRunner
from agentrl.model import policy
from agentrl.nn import transformer
from agentrl.rollout import host, pack
from agentrl.rollout import record as record_lib
from agentrl.rollout.engine.engine import Engine, Sizes
from agentrl.rollout.limits import EpisodeLimits
from agentrl.rollout.workers.pool import env_workers
from agentrl.task.base import make_attempts
from agentrl.text import chat_format, tokenizer
from agentrl.types import Status

WORDS = tokenizer.Embedded()
VOCAB = WORDS.vocab_size
SHAPE = transformer.DecoderConfig(
  vocab=VOCAB, width=16, layers=2, heads=2, kv_heads=2, head_dim=8, mlp=32
)
LIMITS = EpisodeLimits(
  turns=4, message=6, observation=96, opening=0, context=300, row=500
)
TASKS = [{'question': f'number {i}'} for i in range(4)]


@functools.cache
def engine():
  params = mesh.init(policy.module(SHAPE).specs, jax.random.key(0))
  sizes = Sizes(slots=3, capacity=300, burst=3, chunk=32, lanes=3)
  made = Engine(SHAPE, sizes, eot=WORDS.eot)
  made.update_weights(params, 5)
  return made


def family(function='', **fields):
  if function:
    fields['function'] = f'tests.gateway.players:{function}'
  return program.Program(**fields)


def command(function):
  words = [sys.executable, '-m', 'tests.gateway.players', function]
  return family(command=shlex.join(words))


def played(made, tasks=TASKS, *, n=4, limits=LIMITS, count=3):
  talk = chat_format.bare(WORDS)
  stage = host.HostEnvBundle(made, tasks, talk, limits)
  runner = ProgramRunner(stage, engine(), count, 'policy')
  attempts = make_attempts(np.arange(n) % len(tasks), 1, limits.turns, 1.0)
  try:
    return runner.run(engine(), attempts, jax.random.key(7))
  finally:
    runner.close()


@pytest.mark.slow
def test_a_program_that_plays_as_we_do_gets_our_tokens():
  """Token by token, with what was earned, in the rows of the own loop."""
  made = family('play', world='countdown', settings='numbers=2, largest=9')
  tasks = [x.task for x in made.tasks('train', 4, 0)]
  ended, counts = played(made, tasks, n=6)
  inner = made._family()
  talk = chat_format.bare(WORDS)
  stage = host.HostEnvBundle(inner, [x['task'] for x in tasks], talk, LIMITS)
  attempts = make_attempts(np.arange(6) % 4, 1, LIMITS.turns, 1.0)
  with env_workers(inner, 2) as workers:
    want, _ = host.run_episodes(
      stage, engine(), workers, attempts, jax.random.key(7)
    )
  for mine, own in zip(ended, want, strict=True):
    assert (mine.status, mine.score) == (own.status, own.score)
    for a, b in zip(mine.turns, own.turns, strict=True):
      assert list(a.context) == list(b.context)
      assert a.spoken.ids == b.spoken.ids
      assert a.spoken.version == b.spoken.version
      # What is prefilled together differs, and so may the last bit.
      np.testing.assert_allclose(a.spoken.logp, b.spoken.logp, atol=1e-5)
      assert (a.state, list(a.span)) == (b.state, list(b.span))
      assert list(a.context_span) == list(b.context_span)
    assert sum(x.reward for x in mine.turns) == sum(x.reward for x in own.turns)
  assert counts['program/calls'] == sum(len(x.turns) for x in want)
  assert not counts['program/branches']
  sizes = LIMITS.turns, LIMITS.context, LIMITS.message, ()
  rows = [
    record_lib.rows(r, record_lib.full_history(r, LIMITS.row), 5)
    for r in (
      pack.record(ended, *sizes, branches=True),
      pack.record(want, *sizes),
    )
  ]
  jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), *rows)


@pytest.mark.slow
def test_a_forked_history_is_branches_trained_once():
  ended, counts = played(family('forked', path='x'), n=2)
  assert counts['program/branches'] == 4
  assert counts['program/foreign'] == 2
  for episode in ended:
    assert episode.status == (Status.FAILED, Status.SOLVED)[int(episode.score)]
    assert [x.branch for x in episode.turns] == [False, True, False, True]
    assert [x.info['foreign'] for x in episode.turns] == [0.0, 1.0, 0.0, 0.0]
    assert [x.reward for x in episode.turns] == [0, 0, 0, episode.score]
  sizes = LIMITS.turns, LIMITS.context, LIMITS.message, ()
  record = pack.record(ended, *sizes, branches=True)
  np.testing.assert_array_equal(record.seg, [[0, 1, 1, 2]] * 2)
  rows = record_lib.rows(record, record_lib.full_history(record, 500), 5)
  for b, episode in enumerate(ended):
    weight, seg = np.asarray(rows.weight[b]), np.asarray(rows.seg[b])
    assert weight.sum() == sum(len(x.spoken.ids) for x in episode.turns)
    tokens = np.asarray(rows.tokens[b])
    for k, turn in enumerate(episode.turns):
      own = np.asarray(rows.sampled[b] & (rows.turn[b] == k))
      assert tokens[own].tolist() == turn.spoken.ids
    # A branch repeats what it reads, sampled or not, as context.
    last = episode.turns[3]
    here = seg == 2
    assert tokens[here].tolist() == [*last.context, *last.spoken.ids]
    assert weight[here].sum() == len(last.spoken.ids)
    assert (np.asarray(rows.turn[b])[here][: len(last.context)] == -1).all()


@pytest.mark.parametrize(
  ('function', 'status', 'fault'),
  [
    ('broken', Status.ENV_ERROR, 'fault/exception'),
    ('unrewarded', Status.ENV_ERROR, 'fault/malformed'),
    ('greedy', Status.TURN_LIMIT, None),
    ('slow', Status.TIME_LIMIT, None),
    ('strict', Status.TOKEN_LIMIT, None),  # of messages of 6 tokens
  ],
)
def test_what_fails_fails_alone(function, status, fault):
  limits = LIMITS
  if function == 'slow':
    limits = dataclasses.replace(LIMITS, patience=0.3)
  (episode, other), counts = played(family(function), n=2, limits=limits)
  assert episode.status == other.status == status
  assert episode.score == 0.0
  turns = {'greedy': LIMITS.turns, 'strict': 1}
  assert len(episode.turns) == turns.get(function, 0)
  assert {x: n for x, n in counts.items() if 'fault' in x} == (
    {fault: 2} if fault else {}
  )
  kind = fault.removeprefix('fault/') if fault else ''
  assert episode.fault.partition(':')[0] == kind


def test_a_grader_scores_what_was_said():
  made = family('once', grader='tests.gateway.players:grade')
  ended, _ = played(made, n=2)
  assert [(x.status, x.score) for x in ended] == [(Status.SOLVED, 1.0)] * 2
  bad = family('once', grader='builtins:len')
  ended, counts = played(bad, n=1)
  assert ended[0].status == Status.ENV_ERROR
  assert counts['fault/malformed'] == 1


@pytest.mark.slow
def test_a_command_plays_too():
  ended, _ = played(command('forked'), n=1)
  assert len(ended[0].turns) == 4
  ended, counts = played(command('broken'), n=1)
  assert counts['fault/crash'] == 1
  limits = dataclasses.replace(LIMITS, patience=1.0)
  ended, _ = played(command('slow'), n=1, limits=limits)
  assert ended[0].status == Status.TIME_LIMIT


def test_families_without_programs_are_refused():
  stage = host.HostEnvBundle(object(), [], chat_format.bare(WORDS), LIMITS)
  with pytest.raises(ValueError):
    ProgramRunner(stage, engine(), 1, 'policy')
