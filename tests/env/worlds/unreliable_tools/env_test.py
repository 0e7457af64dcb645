"""Costs, replays and the expert of the world of unreliable tools."""

import itertools
import math

import numpy as np
import pytest

from agentrl.configs import base, grpo
from agentrl.env import tool_env
from agentrl.env.worlds.unreliable_tools import value as expert
from agentrl.env.worlds.unreliable_tools.env import UnreliableTools
from agentrl.run.check import validate
from agentrl.tool.unreliable import Offer
from tests import errors
from tests.env.promises import refuses

SURE = 'slow 0 10 0 0, dear 2 1 0 0'
TASK = {
  'question': '17*23-5',
  'answer': '386',
  'tools': [
    ['exact', 1.0, 8.0, 0.0, 0.0],
    ['cheap', 0.1, 1.0, 0.0, 0.3],
    ['flaky', 0.7, 1.0, 0.4, 0.0],
  ],
}
MESSAGES = (  # of tools a, b and c and a question
  '<{b}>{q}</{b}>',
  '<{b}>({q})</{b}>',
  '<{c}>{q}</{c}>',
  '<{a}>{q}</{a}><{b}>{q}</{b}><{b}>{q}</{b}>',
  '<{c}>{q}</{c}><{c}>{q}</{c}>',
  '<{b}>2+</{b}>',
  '<{b}>2*3</{b}>',
  '<free>{q}</free>',
  '<{b}>{q}',
  'hm',
)
FAMILIES = (
  UnreliableTools(),
  UnreliableTools(price_weight=0.5, size=2),
  UnreliableTools(base='table', spread=0.5),
  UnreliableTools(tools='a .1 1 .2 .2, b .2 1 0 .1, c 0 0 0 .6'),
)


@pytest.fixture
def env():
  env = UnreliableTools().env()
  yield env
  env.close()


def solved(family, count=20, seed=0):
  return [x.task for x in family.tasks('train', count, seed)]


def random_messages(rng, task, length):
  words = dict(zip('abc', (x[0] for x in task['tools']), strict=True))
  for i in rng.integers(len(MESSAGES), size=length):
    yield MESSAGES[i].format(q=task['question'], **words)


def text_of(reply):
  """The number that the one call of a turn got; None: it failed."""
  text = reply.text.split('\n')[1]
  return text if text.lstrip('-').isdigit() else None


def expert_return(family, env, task, seed):
  """The score less costs of the expert, and its progress, turn by turn."""
  terms = family.terms(task)
  env.reset(task, seed)
  answers, infos, attempt = {}, [], 0
  while (tool := expert.choice(terms, expert.votes(answers))) is not None:
    name, wording = task['tools'][tool][0], task['question']
    wording = '(' * attempt + wording + ')' * attempt
    reply = env.step(f'<{name}>{wording}</{name}>')
    infos.append(reply.info)
    if text_of(reply):
      answers[tool, wording] = int(text_of(reply))
      attempt += 1
  best = str(expert.likeliest(terms, answers)) if answers else 'none'
  reply = env.step(tool_env.answer_message(best))
  infos.append(reply.info)
  total = reply.score - sum(map(family.cost, infos))
  return total, [x['progress'] for x in infos]


@pytest.mark.parametrize('family', FAMILIES)
def test_the_expert_earns_its_value(family):
  """Within 4.5 standard errors; and its turns change nothing on average."""
  env = family.env()
  tasks = solved(family)
  gaps, progress = [], []
  for seed, task in itertools.product(range(12), tasks):
    total, turns = expert_return(family, env, task, seed)
    gaps.append(total - family.expert_value(task))
    progress.append(turns)
    assert sum(turns) == pytest.approx(gaps[-1])
  env.close()
  for sample in (gaps, [x[0] for x in progress]):
    error = np.std(sample) / math.sqrt(len(sample))
    assert abs(np.mean(sample)) <= 4.5 * error + 1e-9
  assert np.std(gaps) > 0


@pytest.mark.parametrize('family', FAMILIES)
def test_progress_adds_up_to_the_return_less_the_value(family):
  rng, env = np.random.default_rng(0), family.env()
  for seed, task in enumerate(solved(family, 40)):
    env.reset(task, seed)
    replies = [env.step(x) for x in random_messages(rng, task, 4)]
    answer = rng.choice([task['answer'], '1234567'])
    replies.append(env.step(tool_env.answer_message(answer)))
    infos = [x.info for x in replies]
    total = replies[-1].score - sum(map(family.cost, infos))
    assert sum(x['progress'] for x in infos) == pytest.approx(
      total - family.expert_value(task)
    )
  env.close()


@pytest.mark.parametrize('family', FAMILIES)
def test_every_call_is_paid(family):
  """Calls of a message one by one, also those that fail."""
  rng, env = np.random.default_rng(1), family.env()
  calls = 0
  for seed, task in enumerate(solved(family, 20)):
    env.reset(task, seed)
    offers = [Offer(*x) for x in task['tools']]
    for message in random_messages(rng, task, 6):
      info = env.step(message).info
      count = [info[f'calls_{x.name}'] for x in offers]
      calls += sum(count)
      for name in ('price', 'seconds'):
        each = [x._asdict()[name] for x in offers]
        assert info[name] == pytest.approx(np.dot(each, count))
      assert sum(count) <= info['calls']
      assert info['failed_calls'] <= info['faults']
  env.close()
  assert calls > 20


def test_calls_of_a_message_that_are_alike_are_answered_alike(env):
  for seed in range(30):
    env.reset(TASK, seed)
    for name in ('flaky', 'cheap'):
      reply = env.step(f'<{name}>17*23-5</{name}>' * 2)
      first, second, _ = reply.text.split('</result>')
      assert first.strip() == second.strip()


def test_a_failed_call_may_answer_later(env):
  """Failures are by turn: the rate of a second call is that of the first."""
  failed = []
  for seed in range(300):
    env.reset(TASK, seed)
    infos = [env.step('<flaky>17*23-5</flaky>').info for _ in range(2)]
    assert all(x['failed_calls'] == x['fault_error'] for x in infos)
    failed.append([x['failed_calls'] for x in infos])
  first, second = np.array(failed).T
  error = 4.5 * math.sqrt(0.4 * 0.6 / (300 * 0.4))
  assert abs(second[first == 1].mean() - 0.4) < error
  assert abs(first.mean() - 0.4) < error


def test_deceived_counts_wrong_answers(env):
  for seed in range(60):
    env.reset(TASK, seed)
    reply = env.step('<cheap>17*23-5</cheap><exact>17*23-5</exact>')
    wrong = reply.text.split('\n')[1] != '386'
    assert reply.info['deceived'] == wrong
    assert reply.info['faults'] == 0
  assert {env.reset(TASK, s) for s in range(3)} == {'17*23-5'}


@pytest.mark.parametrize(
  ('calls', 'answer', 'score', 'verified'),
  [
    (['<exact>17*23-5</exact>'], '386', 1, 1),
    (['<exact>391-5</exact>'], '386', 1, 1),
    (['<exact>17*23</exact>'], '391', 0, 1),
    (['<exact>17*23</exact>'], '386', 1, 0),
    (['<cheap>17*23-5</cheap>'], '386', 1, 0),
    (['<flaky>17*23-5</flaky>'] * 40, '386', 1, 1),
    (['<exact>17*23-5</exact>', 'hm'], '385', 0, 0),
    ([], '386', 1, 0),
    ([], 'none', 0, 0),
  ],
)
def test_what_an_exact_tool_gave_is_verified(
  env, calls, answer, score, verified
):
  env.reset(TASK, 0)
  infos = [env.step(call).info for call in calls]
  assert not any(info['verified'] for info in infos)
  reply = env.step(tool_env.answer_message(answer))
  assert (reply.score, reply.info['verified']) == (score, verified)
  env.reset(TASK, 1)
  assert not env.step(tool_env.answer_message(answer)).info['verified']


def test_a_confidence_counts_beside_an_answer(env):
  env.reset(TASK, 0)
  silent = env.step('<confidence>.8</confidence>')
  assert silent.info['confidence'] == 0
  assert silent.invalid
  reply = env.step('<answer>386</answer><confidence>.8</confidence>')
  assert (reply.score, reply.info['confidence']) == (1, 0.8)


def test_rewards_take_its_columns():
  """Confidence, prices, and a preference among the tools."""
  c = grpo.get_config('tiny,env=unreliable_tools')
  c.reward = ('outcome', 'calibration', 'priced')
  terms = ('price', 'seconds', 'calls_exact')
  base.hp(c, 'reward', 'priced', terms=terms, prices=(0.1, 0.01, 0.0))
  validate.config(c)
  c.env.tools = SURE
  with errors.raises(ValueError, 'calls_exact'):
    validate.config(c)


@pytest.mark.parametrize('kind', ['countdown', 'table'])
def test_a_demonstration_is_the_best_tool_without_faults(kind):
  family = UnreliableTools(base=kind, spread=0.3)
  for task, total, _ in demonstrated(family):
    assert total == pytest.approx(1 - least_bill(family, task))
    assert total <= family.expert_value(task) + 1e-9


def test_with_tools_without_faults_a_demonstration_earns_the_value():
  family = UnreliableTools(tools=SURE, spread=0.9, seconds_weight=0.02)
  first = set()
  for task, total, messages in demonstrated(family):
    assert total == pytest.approx(family.expert_value(task))
    first.add(messages[0].partition('>')[0])
  assert first == {'<slow', '<dear'}


def test_demonstrations_of_every_tool():
  family = UnreliableTools(demonstrate='every')
  first = set()
  for task, total, messages in demonstrated(family):
    assert messages[-2].startswith('<exact>')
    assert total <= 1 - least_bill(family, task) + 1e-9
    first.add(messages[0].partition('>')[0])
  assert first == {'<exact', '<cheap', '<flaky'}


def demonstrated(family):
  """(task, the return of its demonstration, its messages), each solved."""
  env = family.env()
  for seed, (task, messages, _) in enumerate(family.tasks('train', 50, 0)):
    env.reset(task, seed)
    replies = [env.step(message) for message in messages]
    assert [x.done for x in replies[:-1]] == [False] * (len(messages) - 1)
    assert replies[-1].done
    assert replies[-1].score == replies[-1].info['verified'] == 1
    yield task, 1 - sum(family.cost(x.info) for x in replies), messages
  env.close()


def least_bill(family, task):
  """Of one call of a tool without faults."""
  offers = [Offer(*x) for x in task['tools']]
  sure = [x for x in offers if not x.failures and not x.errors]
  return min(family.cost(x._asdict()) for x in sure)


def test_without_a_sure_tool_nothing_is_demonstrated():
  family = UnreliableTools(tools='cheap .1 1 0 .3, flaky .2 1 .3 0')
  assert all(not x.demonstration for x in family.tasks('train', 5, 0))


def test_terms_vary_between_tasks_and_are_shown():
  family = UnreliableTools(spread=0.5)
  env = family.env()
  tasks = {x['question']: x for x in solved(family, 100)}
  assert len({str(x['tools']) for x in tasks.values()}) == len(tasks)
  for question, task in tasks.items():
    first, *menu = env.reset(task, 0).split('\n')
    assert first == question
    assert len(menu) == 3
    for own, line, stated in zip(
      task['tools'], menu, TASK['tools'], strict=True
    ):
      assert line.startswith(f'{own[0]} ${own[1]:g} ')
      # Half to one and a half times the stated, two digits long.
      for x, center in zip(own[1:], stated[1:], strict=True):
        assert 0.47 * center <= x <= 1.58 * center
  env.close()
  # A question has its terms wherever it turns up.
  again = {x['question']: x for x in solved(family, 100, seed=1)}
  assert all(again[q] == tasks[q] for q in set(again) & set(tasks))


def test_the_system_text_states_the_terms():
  text = UnreliableTools(teach=True, confidence=True).system
  for part in ('<flaky>', '$0.7 1s fails 40%', '<confidence>'):
    assert part in text
  assert '$' not in UnreliableTools(teach=True, spread=0.1).system
  assert UnreliableTools().system == ''


def test_bad_settings():
  refuses(
    UnreliableTools,
    base=('sudoku',),
    size=(1, 6),
    largest=(1,),
    tools=('exact 1',),
    spread=(1.5,),
    price_weight=(-1.0,),
    seconds_weight=(math.nan,),
    demonstrate=('all',),
    format=('xml',),
  )
  with errors.raises(ValueError, 'small 9 base table'):
    UnreliableTools(base='table', small=9)
