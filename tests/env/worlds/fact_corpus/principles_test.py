"""Principles that a script makes of attempts at a question."""

import json

from agentrl.env.worlds.fact_corpus import principles
from agentrl.recall import operations
from agentrl.service.base import ServiceFault
from agentrl.text.message import Message
from tests import errors

LONG = """[user] Notes:
_'s age? bm25 _ age
Bako's home's mayor?
[assistant] <note>home?</note><bm25>Bako home</bm25>
[user] <result>
Bako's home is Tebu.
</result>
[assistant] <bm25>Bako friend</bm25>
[user] <result>
Bako's friend is Sodu.
</result>
[assistant] <bm25>Tebu mayor</bm25>
[user] <result>
Tebu's mayor is Nalo.
</result>
[assistant] <answer>Nalo</answer>"""
SHORT = """[user] Bako's home's mayor?
[assistant] <bm25>Bako home</bm25>
[user] <result>
Bako's home is Tebu.
</result>
[assistant] <bm25>Tebu mayor</bm25>
[user] <result>
Tebu's mayor is Nalo.
</result>
[assistant] <answer>Nalo</answer>"""
LOST = """[user] Bako's home's mayor?
[assistant] <answer>Tebu</answer>"""


def written(*attempts):
  text = operations.question('Write.', {0: "_'s age? bm25 _ age"}, attempts)
  answer = principles.distill([Message('user', text)], seed=0)
  made, refused = operations.parsed(answer, {})
  assert not refused
  return [x.text for x in made]


def test_it_is_of_the_shortest_solved_attempt_without_names():
  want = ["_'s home's mayor? bm25 _ home; bm25 _ mayor"]
  assert written((LOST, False), (LONG, True), (SHORT, True)) == want
  long = ["_'s home's mayor? bm25 _ home; bm25 _ friend; bm25 _ mayor"]
  assert written((LOST, False), (LONG, True), (SHORT, False)) == long


def test_where_none_is_solved_it_is_a_warning():
  want = ["_'s home's mayor? not bm25 _ home; bm25 _ mayor"]
  assert written((SHORT, False), (LONG, False)) == want
  assert written((LOST, False)) == ["_'s home's mayor? not no call"]


def test_what_is_not_about_attempts_is_a_fault():
  for text in ('Hello?', operations.question('Write.', {}, [('?', True)])):
    with errors.raises(ServiceFault, 'attempts'):
      principles.distill([Message('user', text)], seed=0)
  assert json.loads(
    principles.distill(
      [Message('user', operations.question('', {}, [(SHORT, True)]))], seed=0
    )
  )
