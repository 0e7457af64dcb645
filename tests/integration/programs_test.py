"""Programs train a model of two layers over loopback."""

import json
import os
import pathlib
import shlex
import signal
import sys

import jax
import numpy as np
import pytest

from agentrl.configs import artist, base, grpo
from agentrl.env.files import program_run
from agentrl.gateway import programs
from agentrl.hooks import NothingPlayedError
from agentrl.log import metrics
from agentrl.rollout import pack
from agentrl.run import build, runner
from agentrl.run.play.host_sampler import HostSampler
from agentrl.runtime.preemption import Stopped
from tests import errors
from tests.gateway import players
from tests.nn.transformer_test import numpy_logits
from tests.run import small_configs

PLAYERS = 'tests.gateway.players'
QUESTIONS = str(pathlib.Path(__file__).parents[2] / 'examples/questions.jsonl')
VERIFIERS = os.environ.get('AGENTRL_VERIFIERS_PYTHON', '')


def config(folder, **env):
  c = small_configs.two_layers(grpo.get_config('tiny,env=program'), folder)
  c.env.update(dict(train=8, test=4, branches=3) | env)
  return c


def world(**env):
  own = dict(world='countdown', settings='numbers=2, largest=9')
  return own | env


def rows_of(folder, phase):
  rows = metrics.read(str(folder / 'metrics.jsonl'))
  return [x for x in rows if x.get('phase') == phase]


@pytest.mark.slow
@pytest.mark.parametrize(
  'player', [pytest.param('play', marks=pytest.mark.nightly), 'forked']
)
def test_two_updates(tmp_path, player):
  """What is trained is what was sampled, in branches too."""
  c = config(tmp_path, **world(function=f'{PLAYERS}:{player}'))
  runner.run(c, str(tmp_path / 'run'))
  steps = rows_of(tmp_path / 'run', 'rl')
  assert [x['step'] for x in steps] == [1, 2]
  for x in steps:
    assert x['logp/sampler_mismatch_max'] < 5e-5
    assert x['rollout/program/calls'] >= 8
    assert not [name for name in x if 'fault' in name]
    assert np.isfinite(x['loss/total'])
    branches = x['rollout/program/branches'] / x['rollout/program/calls']
    assert branches == (0.5 if player == 'forked' else 0.0)
  files = sorted((tmp_path / 'run' / 'trajectories').glob('*.jsonl'))
  lines = [json.loads(x) for f in files for x in f.read_text().splitlines()]
  several = {x['history'] for x in lines if len(x['turns']) > 1}
  assert several == {'tree' if player == 'forked' else 'full'}
  if player == 'forked':  # whose rewards differ inside of groups
    assert all(x['policy/grad_norm'] > 0 for x in steps)
  (evaluated, *_) = rows_of(tmp_path / 'run', 'eval')
  assert evaluated['eval/episodes'] == 4


CALLS = []  # of programs that a signal may cut


def signalled(address, key, task):
  """The run is told to stop at some call, which breaks with those after it."""
  CALLS.append(task)
  if len(CALLS) == int(os.environ['CUT_AT']):
    os.kill(os.getpid(), signal.SIGTERM)
  if len(CALLS) >= int(os.environ['CUT_AT']):
    raise ConnectionError
  players.play(address, key, task)


@pytest.mark.nightly
def test_what_a_signal_cuts_is_repeated(tmp_path, monkeypatch):
  """In the first evaluation, in a collection and in the last evaluation."""
  found = []
  for cut in (5, 12, 28, 10**6):
    c = config(tmp_path, **world(function=f'{__name__}:signalled'))
    folder = tmp_path / str(cut)
    CALLS.clear()
    monkeypatch.setenv('CUT_AT', str(cut))
    if cut < 10**6:
      with errors.raises(Stopped, 'SIGTERM'):
        runner.run(c, str(folder))
      assert not [x for x in rows_of(folder, 'eval') if x['eval/unscored']]
      CALLS.clear()
      monkeypatch.setenv('CUT_AT', str(10**6))
    assert 'after RL' in runner.run(c, str(folder))
    rows = metrics.read(str(folder / 'metrics.jsonl'))
    timed = ('time/', 'engine/')
    found.append(
      [{k: v for k, v in x.items() if not k.startswith(timed)} for x in rows]
    )
    assert [(x['step'], x['phase']) for x in rows] == [
      (0, 'eval'),
      (1, 'rl'),
      (2, 'rl'),
      (2, 'eval'),
    ]
  for rows in found[:-1]:
    for mine, whole in zip(rows, found[-1], strict=True):
      assert mine.keys() == whole.keys()
      same = ('eval/solved', 'eval/episodes', 'rollout/success')
      assert [mine.get(x) for x in same] == [whole.get(x) for x in same]
      assert 'rollout/fault/exception' not in mine


def dying(address, key, task):
  """Plays until some call; from then on there is nobody."""
  CALLS.append(task)
  if len(CALLS) >= int(os.environ['CUT_AT']):
    raise ConnectionError('there is nobody')
  players.play(address, key, task)


@pytest.mark.nightly
@pytest.mark.parametrize(
  ('dies', 'after', 'rows'),
  [
    # In the evaluation before anything is learned.
    (1, 0, []),
    (25, 4, [0, 1, 2, 3, 4]),  # two steps are done, then three cannot be
    # In the evaluation at the end.
    (49, 5, [0, 1, 2, 3, 4, 5]),
  ],
)
def test_a_run_in_which_nothing_is_played_ends(
  tmp_path, monkeypatch, dies, after, rows
):
  c = config(tmp_path, **world(function=f'{__name__}:dying'))
  c.steps = 5
  CALLS.clear()
  monkeypatch.setenv('CUT_AT', str(dies))
  said = f'8 {after}'
  with errors.raises(NothingPlayedError, said):
    runner.run(c, str(tmp_path / 'run'))
  assert [
    x['step'] for x in metrics.read(tmp_path / 'run/metrics.jsonl')
  ] == rows
  CALLS.clear()
  monkeypatch.setenv('CUT_AT', str(10**6))
  assert 'after RL' in runner.run(c, str(tmp_path / 'run'))
  assert [x['step'] for x in rows_of(tmp_path / 'run', 'eval')] == [0, 5]


def even(item):
  return float(len(item.turns[0].message) % 2 == 0)


@pytest.mark.slow
def test_a_judge_says_what_a_program_earned(tmp_path):
  c = config(
    tmp_path,
    function=f'{PLAYERS}:once',
    path=QUESTIONS,
    unposted='zero',
  )
  c.judge, c.reward = ('function',), ('weighted',)
  base.hp(c, 'judge', 'function', path=f'{__name__}:even', term='judged')
  base.hp(c, 'reward', 'weighted', terms=('judged',), weights=(1.0,))
  runner.run(c, str(tmp_path / 'run'))
  steps = rows_of(tmp_path / 'run', 'rl')
  assert [x['step'] for x in steps] == [1, 2]
  for x in steps:
    assert 0 < x['rollout/judged'] < 1
    assert x['policy/grad_norm'] > 0
    assert not [name for name in x if 'fault' in name]


@pytest.mark.slow
@pytest.mark.parametrize(
  'sandbox',
  [
    pytest.param(False, marks=pytest.mark.nightly, id='bare'),
    pytest.param(True, id='sandbox'),
  ],
)
def test_a_command_trains_too(tmp_path, sandbox):
  if sandbox and (why := program_run.confinement()):
    pytest.skip(why)
  command = shlex.join([sys.executable, '-m', PLAYERS, 'play'])
  c = config(tmp_path, **world(command=command, sandbox=sandbox))
  c.steps = 1
  runner.run(c, str(tmp_path / 'run'))
  (x,) = rows_of(tmp_path / 'run', 'rl')
  assert x['logp/sampler_mismatch_max'] < 5e-5


@pytest.fixture
def trained(monkeypatch):
  """Batches of a run: [(prompts by message, episodes, rows, policy)]."""
  prompts, ended, batches = {}, {}, []
  turns_of, record_of = programs.turns_of, pack.record
  batch_of = HostSampler._batch

  def turns(stage, session):
    out = turns_of(stage, session)
    for number, message in session.completions.items():
      prompts[id(message)] = message, session.graph.calls[number].prompt.ids
    return out

  def record(episodes, *args, **kwargs):
    made = record_of(episodes, *args, **kwargs)
    ended[id(made)] = made, episodes  # kept, so that no other has its id
    return made

  def batch(self, record, attempts, version):
    made = batch_of(self, record, attempts, version)
    rows, params = jax.tree.map(np.array, (made.rows, self._policy[1]))
    policy = self._s.shape, params
    batches.append((prompts, ended[id(record)][1], rows, policy))
    return made

  monkeypatch.setattr(programs, 'turns_of', turns)
  monkeypatch.setattr(pack, 'record', record)
  monkeypatch.setattr(HostSampler, '_batch', batch)
  return batches


def check_rows(prompts, episodes, rows, policy):
  """Each call begins a segment of a row, each sampled token is trained once.

  The log-probs of the last message are those of a float64 model, token by token
  and head by head.
  """
  trained = 0
  for b, episode in enumerate(episodes):
    for k, turn in enumerate(episode.turns):
      ids = list(turn.spoken.ids)
      here = rows.sampled & (rows.traj == b) & (rows.turn == k)
      (n, *others), at = {*np.nonzero(here)[0]}, np.nonzero(here)[1]
      assert not others
      assert rows.tokens[n][at].tolist() == ids
      assert (rows.weight[n][at] == 1).all()
      np.testing.assert_array_equal(
        rows.logp[n][at], np.float32(turn.spoken.logp)
      )
      segment = np.nonzero(rows.seg[n] == rows.seg[n][at[0]])[0]
      read = rows.tokens[n][segment[segment <= at[-1]]].tolist()
      assert read == [*prompts[id(turn.spoken)][1], *ids]
      trained += len(ids)
  assert (rows.weight > 0).sum() == rows.weight.sum() == trained > 0
  logits = numpy_logits(*policy, read)[-len(ids) - 1 : -1]
  norm = np.log(np.exp(logits).sum(-1))
  logp = logits[range(len(ids)), ids] - norm
  np.testing.assert_allclose(turn.spoken.logp, logp, atol=1e-5)


EXAMPLES = {
  'openai_chat': 'openai',
  'openai_stream': 'openai',
  'openai_responses': 'openai',
  'anthropic_messages': 'anthropic',
  'openai_agents': 'agents',
  'pydantic_ai_agent': 'pydantic_ai',
  'langgraph_agent': 'langchain',
  'smolagents_agent': 'smolagents',
}


@pytest.mark.slow
@pytest.mark.parametrize(
  'example',
  [
    pytest.param(x, marks=pytest.mark.nightly if i else ())
    for i, x in enumerate(EXAMPLES)
  ],
)
def test_unmodified_clients_train(tmp_path, example, trained):
  pytest.importorskip(EXAMPLES[example])
  function = f'examples.{example}:play'
  rewrites = example == 'smolagents_agent'
  branches = 4 if rewrites else 1
  c = config(tmp_path, function=function, path=QUESTIONS, branches=branches)
  c.rollout.context = 1800 if rewrites else 900  # room for the tools
  if rewrites:  # and one for the final answer, under another system message
    c.rollout.max_turns = 5
  c.model.positions = 0  # whatever the context
  c.micro_batch = 4
  runner.run(c, str(tmp_path / 'run'))
  steps = rows_of(tmp_path / 'run', 'rl')
  assert len(steps) == len(trained) == 2
  for x, batch in zip(steps, trained, strict=True):
    check_rows(*batch)
    assert x['logp/sampler_mismatch_max'] < 5e-5
    assert x['rollout/program/calls'] >= 8
    assert not [name for name in x if 'fault' in name]
    branches = [sum(t.branch for t in e.turns) for e in batch[1]]
    assert all(branches) if rewrites else not any(branches)
    assert x['rollout/program/branches'] == sum(branches)


@pytest.mark.parametrize(
  ('changes', 'sentence'),
  [
    (dict(env=dict(function='')), 'env.command env.function'),
    (dict(env=dict(command='x')), 'env.command x env.function'),
    (dict(env=dict(world='')), 'env.path env.world'),
    (dict(env=dict(function='a:b')), 'env.function a:b function'),
    (dict(env=dict(grader='a')), 'env.grader a'),
    (
      dict(env=dict(grader='builtins:len', unposted='zero')),
      'env.unposted zero env.grader builtins:len',
    ),
    (dict(env=dict(sandbox=True)), 'env.sandbox True env.function'),
    (dict(env=dict(world='mars')), 'env.name mars'),
    (dict(env=dict(settings='a=1')), 'env.settings a 1'),
    (dict(env=dict(settings='1+')), 'env.settings 1+'),
    (dict(rollout=dict(history='turn')), 'rollout.history turn env.name'),
    (dict(rollout=dict(action_prefix='>')), 'rollout.action_prefix'),
    (dict(host=dict(worker='process')), 'host.worker process env.name'),
  ],
)
def test_mistakes_are_found_before_anything_is_built(
  tmp_path, changes, sentence
):
  c = config(tmp_path, **world(function=f'{PLAYERS}:play'))
  c.update(changes)
  with errors.raises(ValueError, sentence):
    build.experiment(c)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.skipif(not VERIFIERS, reason='set AGENTRL_VERIFIERS_PYTHON')
def test_verifiers_itself_trains(tmp_path, monkeypatch, trained):
  """A taskset of verifiers 0.4, played in its own virtual environment."""
  place = pathlib.Path(__file__).parents[1] / 'env/external'
  taskset = (place / 'verifiers_taskset.py').read_text()
  (tmp_path / 'even_taskset.py').write_text(taskset)
  monkeypatch.syspath_prepend(str(tmp_path))
  c = small_configs.two_layers(grpo.get_config('tiny,env=verifiers'), tmp_path)
  c.env.update(dict(python=VERIFIERS, taskset='even_taskset', size=40))
  c.rollout.max_turns = 1
  runner.run(c, str(tmp_path / 'run'))
  steps = rows_of(tmp_path / 'run', 'rl')
  assert len(steps) == len(trained) == 2
  for x, batch in zip(steps, trained, strict=True):
    check_rows(*batch)
    assert x['logp/sampler_mismatch_max'] < 5e-5
    assert not [name for name in x if 'fault' in name]
    assert np.isfinite(x['loss/total'])


@pytest.mark.slow
def test_numbers_beside_the_reward_are_terms(tmp_path):
  """ARTIST through a program: what it posts is weighed as its world's terms."""
  c = small_configs.two_layers(artist.get_config('tiny,env=program'), tmp_path)
  c.env.path = QUESTIONS
  c.env.function = f'{PLAYERS}:termed'
  runner.run(c, str(tmp_path / 'run'))
  steps = rows_of(tmp_path / 'run', 'rl')
  assert len(steps) == 2
  for x in steps:
    assert x['rollout/faults'] == 2
    assert 0 < x['rollout/format'] < 1
    assert x['policy/grad_norm'] > 0  # the rewards of all are 0
    assert x['rollout/return'] == pytest.approx(0.1 * x['rollout/format'] - 0.2)
    assert x['rollout/program/ignored/terms'] == 8
  (before, *_) = rows_of(tmp_path / 'run', 'eval')
  assert before['eval/program/ignored/terms'] == 8  # 4 episodes, as many filled
