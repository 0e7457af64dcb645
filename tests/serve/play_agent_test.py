"""The agent of a run in a terminal: it moves as in training."""

import jax
import numpy as np
import pytest

from agentrl.learner import update
from agentrl.rollout.engine.engine import SamplingParams
from agentrl.rollout.scripted import ScriptedGenerator
from agentrl.run import build, config_file
from agentrl.run.play import collect
from agentrl.serve import play, play_agent
from agentrl.text.tokenizer import Embedded


@pytest.fixture(scope='module')
def experiment(tmp_path_factory):
  c = config_file.load('grpo:tiny')
  c.data = str(tmp_path_factory.mktemp('data'))
  c.env.update(dict(train=8, test=4))
  s = build.experiment(play_agent.one_episode(c, None))
  return s, update.init(s.algorithm, jax.random.key(0)).params['policy']


@pytest.mark.slow
def test_left_alone_it_plays_the_rollout_of_its_key(experiment):
  s, params = experiment
  agent = play_agent.JitAgent(s, params, 1.0)
  index, seed = len(s.train) + 2, 5
  frames = list(play_agent.frames(s, agent, index, seed, lambda: None))
  attempts = collect.attempts_at(np.array([index]), s.plan.turns)
  record = collect.play(s, params, attempts, jax.random.key(seed))
  moves = np.asarray(record.action[0])[np.asarray(record.valid[0])]
  assert len(frames) == len(moves) + 1
  actions = s.world.env.actions
  for frame, action in zip(frames[1:], moves, strict=True):
    assert frame.by == 'agent'
    index = actions.index(frame.move) if frame.move in actions else -1
    assert index == action
  rewards = [frame.reward for frame in frames[1:]]
  np.testing.assert_allclose(rewards, record.reward[0][: len(moves)], rtol=1e-6)
  assert frames[-1].score == record.outcome[0]


@pytest.mark.slow
def test_it_goes_on_from_the_moves_of_a_person(experiment):
  s, params = experiment
  agent = play_agent.JitAgent(s, params, 0.0)
  moves = iter(['left', None, 'left'])
  index = len(s.train)
  frames = list(
    play_agent.frames(s, agent, index, 0, lambda: next(moves, None))
  )
  assert [f.by for f in frames[1:5]] == ['you', 'agent', 'you', 'agent'][
    : len(frames) - 1
  ]
  ids = s.tokenizer.encode('left')
  np.testing.assert_array_equal(agent._tokens[0, 0, : len(ids)], ids)
  np.testing.assert_array_equal(agent._tokens[0, 2, : len(ids)], ids)


def test_a_person_writes_in_place_of_the_engine():
  words = Embedded()
  reply = [*words.encode('agent'), words.eot]
  engine = ScriptedGenerator({0: [reply]}, words.eot)
  person = play.Person(['mine', ''], agent=True)
  seen = []
  generator = play_agent.PersonGenerator(
    engine, words, person.ask, lambda *x: seen.append(x)
  )
  how = SamplingParams(np.zeros(2, np.uint32), 8)
  first = words.encode('one')
  generator.submit(0, first, how)
  assert generator.busy
  (mine,) = generator.collect()
  assert mine.ids == [*words.encode('mine'), words.eot]
  assert not generator.busy
  generator.submit(0, [*first, *mine.ids, *words.encode('two')], how)
  (theirs,) = generator.collect()
  assert theirs.ids == reply
  assert [(text.strip(), by) for text, by in seen][:2] == [
    ('one', ''),
    ('two', ''),
  ]
  assert seen[2][1] == 'agent'
