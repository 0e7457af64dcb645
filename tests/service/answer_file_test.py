"""File of answers: read again whole, whatever a kill left of its last line."""

import json

from agentrl.service.answer_file import AnswerFile, content_id


def test_answers_outlive_the_process(tmp_path):
  path = tmp_path / 'judges' / '0.jsonl'
  one = AnswerFile(path)
  key = content_id('number', 'me', 'How good?\n"é"')
  assert one.get(key) is None
  assert not path.exists()
  one.put(key, '0.5\n')
  one.put(key, '0.9')  # of another thread that asked the same: the first stays
  assert one.get(key) == '0.5\n'
  assert AnswerFile(path).get(key) == '0.5\n'
  assert len(path.read_text().splitlines()) == 1


def test_keys_tell_apart_who_and_what():
  keys = {
    content_id(judge, identity, content)
    for judge in ('a', 'b')
    for identity in ('', 'x')
    for content in ('', '1')
  }
  assert len(keys) == 8


def test_a_damaged_file_loses_what_is_damaged(tmp_path):
  path = tmp_path / 'a.jsonl'
  good = json.dumps({'key': 'k', 'answer': '1'})
  path.write_text(f'{good}\n{{"key": "l", "ans\n[]\n3\n\n{good[:12]}')
  file = AnswerFile(path)
  assert file.get('k') == '1'
  assert file.get('l') is None
  file.put('m', '2')  # on a line of its own, not at the end of the cut one
  assert AnswerFile(path).get('m') == '2'


def test_costs_are_summed_over_runs_and_of_all_that_was_asked(tmp_path):
  path = tmp_path / 'a.jsonl'
  file = AnswerFile(path)
  assert file.put('k', '1', cost=0.5, read=7) == '1'
  assert file.put('k', '2', cost=0.25) == '1'  # paid for, and not taken
  file.note(cost=1.0)
  assert file.cost == AnswerFile(path).cost == 1.75
  assert AnswerFile(path).get('k') == '1'


def test_without_a_path_nothing_is_written(tmp_path):
  file = AnswerFile(None)
  file.put('k', 'v')
  assert file.get('k') == 'v'
  assert not list(tmp_path.iterdir())
