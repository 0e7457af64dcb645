"""Shipped verifiers: the answer of a message, and its score."""

import pytest

from agentrl.env import verifiers


@pytest.mark.parametrize(
  ('completion', 'answer'),
  [
    ('Cork', 'Cork'),
    (' Cork\n', 'Cork'),
    ('<think>Dublin? no.</think>\nCork', 'Cork'),
    ('It is <answer> Cork </answer>.', 'Cork'),
    ('<answer>Dublin</answer> no, <answer>Cork</answer>', 'Cork'),
    (r'so \boxed{7/2} it is', '7/2'),
    (r'\boxed{1} and <answer>2</answer>', '2'),
    ('<think>\\boxed{1}</think> 2', '2'),
    ('<think>and so <answer>Cork</answer>', ''),  # the thought never ended
    ('', ''),
  ],
)
def test_the_answer_of_a_message(completion, answer):
  assert verifiers.answer_of(completion) == answer


@pytest.mark.parametrize(
  ('verifier', 'completion', 'answer', 'score'),
  [
    ('exact', 'The Red Mug.', 'red mug', 1),
    ('exact', 'mug', ['cup', 'mug'], 1),
    ('exact', 'red', 'red mug', 0),
    ('numeric', '3.50', '7/2', 1),
    ('numeric', '<answer>$1,000</answer>', 1000, 1),
    ('numeric', 'it is 4', 4, 0),  # a sentence is no number
    ('numeric', '', 4, 0),
    ('f1', 'red', 'red mug', 2 / 3),
    ('f1', 'red mug', ['blue cup', 'red mug'], 1),
    ('unscored', 'anything', None, 0),
  ],
)
def test_scores(verifier, completion, answer, score):
  row = {'prompt': 'x', 'answer': answer}
  assert verifiers.SHIPPED[verifier](completion, row) == pytest.approx(score)


@pytest.mark.parametrize('answer', [None, [], {}, [[]]])
def test_a_row_without_an_answer(answer):
  with pytest.raises(ValueError, match='"answer" of the row is'):
    verifiers.exact('x', {'answer': answer})


def test_an_answer_that_is_no_number():
  with pytest.raises(ValueError, match='no number'):
    verifiers.numeric('4', {'answer': ['4', 'four']})
