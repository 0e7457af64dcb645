"""A person talks with an agent: lines, calls of tools, how it ends."""

import itertools
import json

import numpy as np
import pytest

from agentrl.env.files import program
from agentrl.env.worlds.unreliable_tools.env import UnreliableTools
from agentrl.rollout import host
from agentrl.rollout.limits import EpisodeLimits
from agentrl.run import runner, workdir
from agentrl.serve import chat
from agentrl.task.base import make_attempts
from agentrl.text import chat_format, tokenizer
from agentrl.types import Span, Status
from tests.rollout import hosted
from tests.run.small_configs import countdown

WORDS = tokenizer.Embedded()
LIMITS = EpisodeLimits(
  turns=6, message=60, observation=200, opening=0, context=900
)


def talked(family, task, lines, says):
  shown = []
  made = chat.PersonFamily(family, iter(lines), lambda *x: shown.append(x))
  bundle = host.HostEnvBundle(made, [task], chat_format.bare(WORDS), LIMITS)
  attempts = make_attempts(np.zeros(1, int), 1, LIMITS.turns, 1.0)
  generator = hosted.scripted(WORDS, [says])
  (episode,), _ = hosted.play(bundle, generator, attempts, count=1)
  return episode, shown


def test_lines_are_messages_and_calls_are_the_worlds():
  family = UnreliableTools()
  task = next(iter(family.tasks('test', 1, 0))).task
  call = next(
    text
    for text in next(iter(family.tasks('test', 1, 0))).demonstration
    if any(x.part == 'call' for x in family.spans(text))
  )
  lines = ['hello', 'and again', 'q', 'never read']
  episode, shown = talked(family, task, lines, ['hi', call, 'done'])
  assert [who for _, who in shown] == ['agent', 'agent', 'tool', 'agent']
  contexts = [WORDS.decode(x.context) for x in episode.turns]
  assert contexts[0] == 'hello\n'
  assert contexts[1] == 'and again\n'
  assert shown[2][0] in contexts[2]
  assert Span.CALL in episode.turns[1].span
  assert episode.status == Status.FAILED
  assert [x.reward for x in episode.turns] == [0.0] * 3


def test_the_end_of_the_lines_ends_it():
  family = UnreliableTools()
  task = next(iter(family.tasks('test', 1, 0))).task
  episode, _ = talked(family, task, ['hello'], itertools.repeat('hi', 5))
  assert len(episode.turns) == 1


def test_a_run_of_programs_has_no_world_that_answers():
  family = program.Program(command='x', path='y')
  call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
  task = {'question': 'x'}
  episode, shown = talked(family, task, ['hello', 'well'], [call, 'hi'])
  assert [who for _, who in shown] == ['agent', 'agent']
  assert len(episode.turns) == 2


def test_folders_do_not_overwrite_each_other(tmp_path):
  assert chat.free_folder(str(tmp_path)) == str(tmp_path / '000')
  (tmp_path / '000').mkdir()
  assert chat.free_folder(str(tmp_path)) == str(tmp_path / '001')


@pytest.mark.slow
def test_an_agent_of_one_turn_reads_each_message_alone(tmp_path):
  c = countdown('tiny,env=jsonl')
  c.env.update(dict(path='examples/sums.jsonl', verifier='numeric'))
  c.rollout.max_turns = 1
  c.steps, c.sft.steps, c.eval.episodes = 0, 1, 4
  c.data, run = str(tmp_path / 'data'), str(tmp_path / 'run')
  runner.run(c, run)
  out = tmp_path / 'out'
  how = dict(temperature=0.0, seed=1, out=str(out))
  lines = ['hello', 'over there', 'hello']
  chat.converse(run, lines, lambda *x: None, **how)
  (logged,) = out.rglob('*.jsonl')
  turns = json.loads(logged.read_text().splitlines()[0])['turns']
  first, other, again = (x['said']['tokens'] for x in turns)
  assert first == again != other


@pytest.mark.nightly
def test_a_conversation_with_a_run(tmp_path):
  c = countdown()
  c.steps, c.sft.steps, c.eval.episodes = 1, 2, 4
  c.data, run = str(tmp_path / 'data'), str(tmp_path / 'run')
  runner.run(c, run)
  shown, out = [], str(tmp_path / 'out')
  show = lambda *x: shown.append(x)  # noqa: E731
  how = dict(temperature=0.0, seed=1, out=out)
  text = chat.converse(run, ['hello', 'there'], show, **how)
  assert text.startswith('failed after 2 messages')
  assert [who for _, who in shown] == ['', 'agent', 'agent']
  assert len(list((tmp_path / 'out').rglob('*.jsonl'))) == 1
  c = workdir.read_config(run)
  c.rollout.history = 'turn'
  workdir.keep_config(c, str(tmp_path / 'other'))
  with pytest.raises(ValueError):
    chat.config_of(str(tmp_path / 'other'))
