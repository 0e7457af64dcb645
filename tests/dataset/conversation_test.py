"""Conversations with and without tokens of their own."""

from agentrl.dataset import conversation
from agentrl.dataset.conversation import ForeignMessage
from agentrl.text import chat_format
from agentrl.text.message import AGENT, Message
from agentrl.text.tokenizer import Embedded
from tests import errors

TALK = chat_format.bare(Embedded())


def ours(**fields):
  return ForeignMessage(Message(AGENT, 'go'), **fields)


def test_contexts_join_to_what_the_chat_format_makes():
  user = ForeignMessage(Message('user', 'Where?'))
  made = conversation.trajectory(
    [user, ours(), user, ours(), user], TALK, task='t', outcome=0
  )
  ids = [y for t in made.turns for x in (t.context, t.message) for y in x]
  talk = TALK.start([user.message])
  go = [*TALK.words.encode('go'), TALK.words.eot]
  talk = TALK.add_messages(TALK.add_reply(talk, go), [user.message])
  assert ids == [*talk.ids, *go]
  assert made.encoded


def test_log_probs_are_one_for_each_token():
  with errors.raises(ValueError, '2 1'):
    conversation.trajectory(
      [ours(prompt=[1], tokens=[2, 3], logp=[0.0])],
      None,
      task=0,
      outcome=1,
    )


def test_a_task_fits_64_bits():
  read = [ours(prompt=[1], tokens=[2])]
  for task in (-(2**63), 2**63 - 1):
    made = conversation.trajectory(read, None, task=task, outcome=0)
    assert made.task == task
  for task in (-(2**63) - 1, 2**63):
    with errors.raises(ValueError, f'task {task}'):
      conversation.trajectory(read, None, task=task, outcome=0)
