"""Speed of judges: both sides answer the same, a cache asks nobody."""

from agentrl.lab.bench import judge_speed


def test_every_turn_is_one_question():
  some = judge_speed.items(12)
  texts = judge_speed.prompts(some)
  assert len(texts) == 12 == len(set(texts))
  calls = []

  def service(messages, *, seed):
    calls.append(messages[0].content)
    return '0.5'

  file = judge_speed.AnswerFile(None)
  _, counts = judge_speed.judged(service, some, 3, 'model', file)
  assert sorted(calls) == sorted(texts)
  assert counts['judge/number/scores'] == 12
  _, counts = judge_speed.judged(service, some, 3, 'model', file)
  assert len(calls) == counts['judge/number/cached'] == 12
