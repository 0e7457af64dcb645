"""What turns read of what messages ask, and what a follower makes of it."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.env.worlds.fact_corpus.env import FactCorpus
from agentrl.memory import texts
from agentrl.recall import base, observed
from agentrl.rollout import record as record_lib
from agentrl.rollout.engine.engine import Completion
from agentrl.rollout.scripted import ScriptedGenerator
from agentrl.runtime import install
from agentrl.task.base import make_attempts
from agentrl.types import Batch, Status
from tests.recall import observed_test
from tests.recall import retrieval_test as recalls
from tests.rollout import host_test, hosted

pytest.importorskip('bm25s', reason=install.command('host'))
WORDS = recalls.WORDS
FAMILY = FactCorpus(people=100, experience=True)
TASKS = [x.task for x in FAMILY.tasks('train', 12, 0)]
NOTES = 160
LIMITS = dataclasses.replace(
  host_test.LIMITS, turns=5, message=72, opening=NOTES, notes=NOTES,
  observation=64, context=5 * 136 + 5 * NOTES, history='full',
)  # fmt: skip


def principle(task):
  """What tells how to answer a question of this kind."""
  question = task['question'].replace(task['start'], '_')
  return f'{question} {"; ".join(f"bm25 _ {x}" for x in task["path"])}'


PRINCIPLES = list(dict.fromkeys(map(principle, TASKS)))


def asking(*entries, k=1, family=FAMILY, **hp):
  """A reader by what is asked, and a bank of these entries."""
  every = hp.get('every', 'asked')
  given = base.Recall(k, NOTES, 'Notes:', every)
  hp |= dict(k=k, tokens=NOTES)
  choose = registry.bind('recall', 'observed', {**hp, 'every': every})
  asked = family.asked if every == 'asked' else None
  reader = observed.Reader(given, choose, WORDS, 0, asked)
  return reader, observed_test.bank(*entries)


def ask(query):
  return f'<experience>{query}</experience>'


def test_only_what_a_message_asks_is_compared():
  reader, bank = asking('b3', 'a1', '', 'c2')
  library = observed.Library(reader, bank)
  read = library.read('b', ask('a'))
  assert (read.text, read.entry, read.written) == ('Notes:\na1\n', (1,), (8,))
  assert library.read('c', ask('a')) is read
  for message in ('', 'a1', '<bm25>a1</bm25>', '<answer>a1</answer>', ask('')):
    assert library.read('a', message).text == ''
    assert library.read('a', message).entry == (-1,)
  # Nor does a bound below every likeness have a turn read that has not asked.
  library = observed.Library(*asking('b3', 'a1', least=-1.0))
  assert library.read('a').entry == (-1,)
  assert library.read('a', ask('zz')).entry == (0,)


def test_a_family_may_hand_on_whatever_the_policy_wrote():
  reader, bank = asking('b3', 'a1')
  library = observed.Library(reader._replace(asked=lambda x: x), bank)
  assert library.read('', 'a1' * 5_000_000).entry == (1,)
  assert library.read('', 'b3\ud800<eot>\0').entry == (0,)
  assert library.read('', '').entry == (-1,)


class Follower(ScriptedGenerator):
  """Asks its question, and answers it as a principle that it reads says.

  Without one for its question it says that it does not know.
  """

  def __init__(self):
    super().__init__({}, WORDS.eot)
    self.prompts = {}

  def submit(self, sequence, context, how):
    prompt = WORDS.decode(list(context))
    self.prompts.setdefault(sequence, []).append(list(context))
    said = WORDS.encode(self.say(prompt))
    self._pending.append((sequence, [*said, WORDS.eot]))

  def say(self, prompt):
    question = prompt.partition('\n')[0]
    if len(prompt.strip()) == len(question):
      return ask(question)
    start = question.partition("'")[0]
    told = re.search(
      re.escape(question.replace(start, '_')) + r' (bm25 .*)', prompt
    )
    if not told:
      return '<answer>unknown</answer>'
    relations = re.findall(r'bm25 _ (\w+)', told[1])
    found = re.findall(r"^\w+'s \w+ is (\w+)\.$", prompt, re.MULTILINE)
    at = [start, *found][-1]
    if len(found) == len(relations):
      return f'<answer>{at}</answer>'
    return f'<bm25>{at} {relations[len(found)]}</bm25>'

  def collect(self):
    done, self._pending = self._pending, []
    zero = [0.0] * LIMITS.message
    return [
      Completion(b, x, zero[: len(x)], zero[: len(x)], [0] * len(x))
      for b, x in done
    ]


def followed(family=FAMILY, **hp):
  reader, bank = asking(*PRINCIPLES, family=family, **hp)
  made = host_test.stage(
    family, TASKS,
    dataclasses.replace(LIMITS, recalled=observed.columns(reader.recall)),
    reader=reader,
  )  # fmt: skip
  generator = Follower()
  attempts = make_attempts(np.arange(len(TASKS)), 1, 5, 1.0)
  ended, counts = hosted.play(made, generator, attempts.replace(texts=bank))
  assert not counts['cut']
  solved = [x.status == Status.SOLVED for x in ended]
  return solved, generator.prompts, made.record(ended)


def test_a_follower_solves_what_it_asks_about():
  """Taking the tool, its memory or the right entries away, it solves none."""
  assert len(PRINCIPLES) > 3
  solved, prompts, record = followed()
  assert all(solved)
  read = record.columns['note0']
  for b, task in enumerate(TASKS):
    texts_of = [WORDS.decode(x) for x in prompts[b]]
    assert 'Notes:' not in texts_of[0]
    assert all(x.count('Notes:') == 1 for x in texts_of[1:])
    assert f'Notes:\n{principle(task)}\n<result>' in texts_of[1]
    turns = int(record.valid[b].sum())
    assert turns == len(task['path']) + 2
    entry = PRINCIPLES.index(principle(task))
    assert read[b, :turns].tolist() == [-1, entry, *[-1] * (turns - 2)]
  assert np.mean(followed(arm='empty')[0]) == 0
  assert np.mean(followed(arm='shuffled')[0]) == 0
  assert np.mean(followed(FactCorpus(people=100))[0]) == 0


def scripted(said, history='full', **hp):
  """Episodes of these messages, their prompts and record, and the bundle."""
  reader, bank = asking(*PRINCIPLES, **hp)
  limits = dataclasses.replace(
    LIMITS,
    turns=len(said[0]),
    history=history,
    recalled=observed.columns(reader.recall),
  )
  made = host_test.stage(FAMILY, TASKS, limits, reader=reader)
  generator = hosted.scripted(WORDS, said)
  heard, submit = {}, generator.submit

  def listen(sequence, context, how):
    heard.setdefault(sequence, []).append(list(context))
    submit(sequence, context, how)

  generator.submit = listen
  attempts = make_attempts(np.zeros(len(said), int), 1, len(said[0]), 1.0)
  ended, _ = hosted.play(made, generator, attempts.replace(texts=bank))
  return ended, heard, made.record(ended), limits


SCRIPTS = [
  ['<bm25>x</bm25>', ask(TASKS[0]['question']), '<bm25>y</bm25>', 'hm', 'hm'],
  [ask(TASKS[1]['question']), ask(TASKS[0]['question']), 'hm', ask(''), 'hm'],
  ['hm', '<bm25>x</bm25>', 'hm', 'hm', '<answer>x</answer>'],
]


@pytest.mark.parametrize('history', ['full', 'turn'])
def test_the_row_that_is_trained_on_has_the_prompt_of_each_turn(history):
  """With what was asked where it was asked, and nothing anywhere else."""
  _, heard, record, limits = scripted(SCRIPTS, history, least=-1.0)
  layout = record_lib.per_turn(record)
  if history == 'full':
    layout = record_lib.full_history(record, limits.context)
  rows = jax.device_get(record_lib.rows(record, layout, 0))
  want = [[0, 0, 1, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 0, 0]]
  read = record.columns['note0'] >= 0
  assert read.tolist() == np.array(want, bool).tolist()
  for b, prompts in heard.items():
    for k, prompt in enumerate(prompts):
      row, begin = layout.row[b, k], int(layout.column[b, k])
      end = begin + int(record.context_len[b, k])
      assert rows.tokens[row, :end].tolist() == prompt
      assert not rows.weight[row, begin:end].any()
      new = WORDS.decode(rows.tokens[row, begin:end].tolist())
      entry = int(record.columns['note0'][b, k])
      noted = f'Notes:\n{PRINCIPLES[entry]}\n' if entry >= 0 else ''
      assert new.startswith(noted)
      assert ('Notes:' in new) == bool(noted)


def test_hostile_queries_cost_no_trajectory():
  """Control tokens in a query are text, and what is read is as ever."""
  queries = ['<eot><pad><user>', '</think>', '\ufffd' * 9, '']
  _, heard, record, _ = scripted(
    [[*map(ask, queries), ask(TASKS[0]['question']), 'hm']], least=0.01
  )
  assert record.valid[0].all()
  assert record.status[0] == Status.TURN_LIMIT
  assert record.columns['note0'][0, 5] == PRINCIPLES.index(principle(TASKS[0]))
  assert [x.count(WORDS.eot) for x in heard[0]] == [0, 1, 2, 3, 4, 5]


def test_a_trajectory_counts_once_however_often_it_asks():
  same, other = ask(TASKS[0]['question']), ask(TASKS[1]['question'])
  said = [[same, same, other, same, 'hm'], [other, 'hm', 'hm', 'hm', 'hm']]
  _, _, record, _ = scripted(said)
  batch = Batch.from_turns(
    [[[1]] * 5] * 2, [[[-1.0]] * 5] * 2, reward=[[0.2] * 5] * 2,
    group=[0] * 2, outcome=[1, 0],
  )  # fmt: skip
  ids = {'source': jnp.zeros(2, jnp.int32)}
  terms = {name: jnp.asarray(x) for name, x in record.columns.items()}
  turns = batch.turns.replace(terms=terms)
  batch = batch.replace(ids=batch.ids | ids, turns=turns)
  state = jax.tree.map(jnp.asarray, observed_test.bank(*PRINCIPLES))
  got = jax.jit(texts.credited)(state, batch)
  one, two = (PRINCIPLES.index(principle(TASKS[i])) for i in (0, 1))
  read, solved = np.zeros((2, len(PRINCIPLES)))
  read[one], read[two] = 1, 2
  solved[one], solved[two] = 1, 1
  assert got.read.tolist() == read.tolist()
  assert got.decisive.tolist() == solved.tolist()


def test_matches_of_a_trajectory_sum_to_the_best_that_it_read():
  """In each arm: score times likeness to what was asked, as it grows."""
  questions = [TASKS[i]['question'] for i in (0, 1)]
  said = [
    [*map(ask, questions), ask(questions[0]), 'hm', 'hm'],
    [*map(ask, questions[::-1]), 'hm', 'hm', 'hm'],
    ['hm', ask('home'), 'hm', 'hm', 'hm'],
    ['hm'] * 5,
  ]
  rng = np.random.default_rng(0)
  count = rng.integers(1, 9, len(PRINCIPLES)).astype(np.float32)
  won = np.floor(count * rng.random(len(count))).astype(np.float32)
  bank = observed_test.bank(*PRINCIPLES).replace(read=count, decisive=won)
  score = (won + 1) / (count + 2)
  encoded = [WORDS.encode(x) for x in PRINCIPLES]

  def best(query):
    """Of the two entries that are most like the query."""
    cos = np.array(observed_test.cosine(encoded, WORDS.encode(query)))
    order = np.argsort(-cos, kind='stable')[:2]
    return (score * cos)[order].max()

  reader, _ = asking(*PRINCIPLES, k=2, least=-1.0)
  limits = dataclasses.replace(LIMITS, recalled=observed.columns(reader.recall))
  made = host_test.stage(FAMILY, TASKS, limits, reader=reader)
  attempts = make_attempts(np.zeros(len(said), int), 1, 5, 1.0)
  ended, _ = hosted.play(
    made, hosted.scripted(WORDS, said), attempts.replace(texts=bank)
  )
  got = made.record(ended).columns[base.NOTE_MATCH]
  a, b = map(best, questions)
  want = [
    [0, a, max(b - a, 0), 0, 0],
    [0, b, max(a - b, 0), 0, 0],
    [0, 0, best('home'), 0, 0],
    [0] * 5,
  ]
  assert a != b
  np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)
  made = made._replace(reader=asking(*PRINCIPLES, k=2, arm='empty')[0])
  ended, _ = hosted.play(
    made, hosted.scripted(WORDS, said), attempts.replace(texts=bank)
  )
  assert not made.record(ended).columns[base.NOTE_MATCH].any()


def test_read_once_it_matches_once():
  _, _, record, _ = scripted(SCRIPTS[:1], every='episode')
  assert (record.columns['note0'][0] >= 0).all()
  match = record.columns[base.NOTE_MATCH][0]
  assert match[0] > 0
  assert not match[1:].any()
