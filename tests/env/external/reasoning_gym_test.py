"""Reasoning Gym keeps what every host family promises."""

from agentrl.env.base import Step
from agentrl.env.external import reasoning_gym
from tests.env.promises import Case, Promises


class TestReasoningGym(Promises):
  cases = tuple(
    Case(
      name='reasoning_gym',
      package='reasoning_gym',
      extra='games',
      fields={'dataset': dataset},
      slow=True,  # takes seconds to import
    )
    for dataset in ('chain_sum', 'countdown', 'rush_hour', 'sudoku')
  )
  refused = (
    ({'settings': '[]'}, 'JSON'),
    ({'settings': '{"size": 3}'}, ''),
  )


class Puzzles(list):
  """A dataset of one puzzle, as the package has them."""

  def score_answer(self, answer, item):
    return {item['answer']: 1.0, 'near': 0.25}[answer]


def test_one_answer_is_scored_and_ends_the_episode():
  puzzle = {'question': '1 + 1?', 'answer': '2'}
  for message, step in (
    ('2', Step('', 1.0, done=True, score=1.0)),
    ('<answer> near </answer>', Step('', 0.25, done=True, score=0.25)),
    ('what breaks the scorer', Step('', done=True, invalid=True)),
  ):
    env = reasoning_gym.PuzzleEnv(lambda seed: Puzzles([puzzle]))
    assert env.reset({'seed': 0}, seed=0) == '1 + 1?'
    assert env.step(message) == step
