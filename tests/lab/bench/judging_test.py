"""Benchmarks of judges: every turn is one question, a cache asks nobody."""

import pytest

from agentrl.lab.bench import judging
from agentrl.lab.bench.sampling import TINY


def test_every_turn_is_one_question():
  some = judging.items(12)
  texts = judging.prompts(some)
  assert len(texts) == 12 == len(set(texts))
  calls = []

  def service(messages, *, seed):
    calls.append(messages[0].content)
    return '0.5'

  file = judging.AnswerFile(None)
  counts = judging.judged(service, some, 3, 'model', file)
  assert sorted(calls) == sorted(texts)
  assert counts['judge/number/scores'] == 12
  counts = judging.judged(service, some, 3, 'model', file)
  assert len(calls) == counts['judge/number/cached'] == 12


@pytest.mark.nightly
def test_a_panel_scores_what_the_engine_alone_answers():
  with judging.judges(TINY, '') as cases:
    assert {x.base for x in cases.values()} == {'', 'judge_plain'}
    cases['judge_plain'].call()
    count = cases['judge_panel'].makes['answers']
    assert cases['judge_panel'].call()['judge/number/scores'] == count
    cases['judge_cached'].call()
    assert cases['judge_cached'].call()['judge/number/cached'] == count
    cases['judge_beside_computing'].call()
