"""Methods that are lists of stages, from the first to the last of them."""

import collections
import functools
import importlib
import itertools
import re

import numpy as np
import pytest
from ml_collections import ConfigDict

from agentrl.configs import behavior_priming, stages
from agentrl.dataset import run_log, trajectory_store
from agentrl.log import metrics
from agentrl.run import config_file, runner
from agentrl.run.check import fields
from agentrl.run.stage import sources
from agentrl.types import Span
from tests.integration import half_good

SMALL = {
  'model.width': 8,
  'model.heads': 1,
  'model.kv_heads': 1,
  'model.head_dim': 8,
  'model.mlp': 8,
  'model.layers': 1,
  'micro_batch': 8,
  'sft.batch': 8,
  'sft.steps': 1,
  'steps': 1,
  'rollout.batch': 16,
  'rollout.group_size': 8,
  'rollout.slots': 8,
  'env.train': 16,
  'env.test': 2,
  'eval.episodes': 8,
}
BATCH = {
  'agent_r': 64,
  'armap': 32,
  'early_experience': 32,
  'early_experience_reflection': 32,
  'eef': 64,
}
# Two updates of each stage; the others are seen to take two elsewhere.
TWICE = 'agent_r', 'low_param_branch'
BACK = {'up': 'down', 'down': 'up', 'left': 'right', 'right': 'left'}


def households(demo):
  """Things done in one way or another, too few of them, and undone."""
  *changes, done = demo
  some = [*changes, 'fan on', 'lamp on', done]
  more = ['door open', 'mug den', 'fan off', done]
  undone = ['lamp on', 'lamp off', 'fan on', 'fan off', done]
  return [demo, some, [done], undone, more, [*changes, 'mug yard', done]]


def moves(demo):
  """The solution, also after a step and back; spoiled; and nothing at all."""
  around = [[x, y, *demo] for x, y in BACK.items()]
  spoiled = [[x, *demo[1:]] * 2 for x in ('up', 'left')]
  return [demo, *around, *spoiled, ['right', 'left'] * 2]


def moves_later(demo):
  """Spoiled from the first states of a trajectory on, or from those after."""
  wrong = ['up', 'left'] * 3
  between = [demo, demo, wrong, wrong, *[demo] * 4]
  return [*between, wrong, wrong, *[demo] * 6]


def every_move(demo, before=''):
  """Each action in every state, members of all states one after the other."""
  return [[f'{before}{x}'] * 6 for x in BACK for _ in range(8)]


def every_move_after_so(demo):
  return every_move(demo, 'so ')


def calls(demo):
  """Right in four ways, one with a call that fails, one with none; wrong."""
  call, answer = demo
  a, sign, b = re.findall(r'\d+|[-+*]', answer)
  broken, wrong = '<calculator>1/0</calculator>', '<answer>99</answer>'
  near = f'<answer>{a}{"+" if sign == "*" else "*"}{b}</answer>'
  swapped = answer if sign == '-' else f'<answer>{b}{sign}{a}</answer>'
  ways = [[broken, *demo], ['hm', *demo], [call, *demo], [call, swapped]]
  return [*ways, [call, near], [call, wrong], demo, demo]


def plans_of_days(demo):
  """Attempts that are no better, better and right."""
  (best,) = demo
  days = best.split()
  poor, fair = ' '.join(days[:1] * 3), ' '.join([*days[:2], days[0]])
  return [[fair, fair, best], [poor, best], [poor, fair, poor], [fair] * 3]


def weights(x):
  """Of the messages, one for each turn."""
  assert all(np.ptp(t.weight) == 0 for t in x.turns)
  return np.array([t.weight[0] for t in x.turns])


def term(x, name):
  return np.array([t.terms.get(name, 0.0) for t in x.turns])


def texts(x, words):
  return [words.decode(t.message[:-1].tolist()) for t in x.turns]


def given(x):
  return sum(bool(np.any(t.span == Span.PREFIX)) for t in x.turns)


def groups(xs):
  out = collections.defaultdict(list)
  for x in xs:
    out[x.step, x.group].append(x)
  return list(out.values())


def check_agent_r(data, own=False):
  s, xs, out = data['revised']
  _, _, solved = data['solved']
  told = functools.partial(texts, words=s.tokenizer)
  assert [*map(told, solved)] == [told(x) for x in xs if x.outcome > 0.5]
  # Leaves repeat turns of their tree, which were learned in another's row.
  assert any(0 in weights(x) for x in xs if x.outcome > 0.5)
  assert all(np.all(weights(x) == 1) for x in solved)
  falls = set()  # whether the error is where progress falls first
  parted = []  # turns that a failure and the success behind it have in common
  assert out
  for x in out:
    said = told(x)
    at = said.index('wait')
    *before, error = (k for k in range(at))
    fell = term(x, 'progress') < 0
    bad = np.arange(len(said)) == 1 if own else fell
    assert bad[error]
    assert not any(bad[k] for k in before)
    falls.add(int(np.argmax(fell)) == error)
    assert weights(x).tolist() == [0] * at + [1] * (len(said) - at)
    rest = said[at + 1 :]
    assert rest
    ends = [
      len(good.turns) - len(rest)
      for tree in groups(xs)
      for good in tree
      for failed in tree
      if good.outcome > 0.5 > failed.outcome
      and told(failed)[:at] == said[:at]
      and told(good)[-len(rest) :] == rest
      and told(good)[: -len(rest)] == said[: len(good.turns) - len(rest)]
    ]
    assert ends  # both are leaves of one tree
    parted.append(max(ends))
  assert max(parted) > 0
  assert falls - {True} == ({False} if own else set())


def second_is_bad(messages, *, seed):
  """A verdict that is no matter of the world's progress."""
  text = messages[-1].content
  assert text.endswith('one of good, uncertain, bad.')
  return {1: 'uncertain', 2: 'bad'}.get(text.count('[assistant] '), 'good')


def check_armap(data):
  s, xs, out = data['triplets']
  assert out
  given = {s.tokenizer.decode(x.turns[0].context.tolist()) for x in xs}
  new = 0
  for x in out:
    read = [s.tokenizer.decode(t.context.tolist()) for t in x.turns]
    goal = read[0].split('\n')[1]
    held = s.world.family.fulfils(read, goal)
    assert x.outcome == float(held and texts(x, s.tokenizer)[-1] == 'done')
    new += read[0] not in given
    assert not any(t.reward or t.terms for t in x.turns)
  assert new > len(out) / 2


def check_early_experience(data):
  _, xs, out = data['explored']
  n = max(given(x) for x in xs) + 1
  assert {given(x) for x in xs} == {*range(n)}  # all states of the expert
  want = {}
  for x in xs:
    i = given(x)
    assert len(x.turns) <= i + 2
    if len(x.turns) == i + 2:
      tokens = [(t.context.tolist(), t.message.tolist()) for t in x.turns]
      want.setdefault(str([x.task, tokens[: i + 1], tokens[-1][0]]), x)
    else:
      assert x.solved  # there alone is no state behind the action
  assert len(out) == len(want)
  for x, y in zip(out, want.values(), strict=True):
    *before, after = x.turns
    assert not any(t.weight.any() for t in x.turns)
    assert not any(t.context_weight.any() for t in before)
    assert (after.context_weight == 1).all()
    np.testing.assert_array_equal(after.context, y.turns[-1].context)
  # Of a state all alternatives are learned.
  alternatives = collections.Counter(
    str([x.task, [t.message.tolist() for t in x.turns[:-2]]]) for x in out
  )
  assert max(alternatives.values()) == 4
  _, xs, out = data['watched']
  for x in out:
    assert not any(t.weight.any() for t in x.turns)
    learned = [t.context_weight.min() for t in x.turns]
    assert learned == [0] + [1] * (len(x.turns) - 1)


def check_early_experience_reflection(data):
  s, xs, out = data['reflected']
  worth, expert = {}, {}
  for x in xs:
    said = texts(x, s.tokenizer)
    for k in range(given(x) + (given(x) < len(said))):
      at = x.task, *said[:k]
      gain = x.turns[k].terms['progress']
      if k < given(x):
        expert[at] = said[k]
      if said[k].startswith('so '):
        worth[at, said[k]] = gain
  assert out
  for x in out:
    *before, last = texts(x, s.tokenizer)
    at = x.task, *before
    *why, action = last.split(', ')
    assert action == expert[at]
    assert weights(x).tolist() == [0] * len(before) + [1]
    for claim in why:
      other, verb = claim.split()
      gain = worth[at, f'so {other}']
      assert gain < worth[at, action]
      assert verb == ('loses' if gain < 0 else 'idles')
  whys = {texts(x, s.tokenizer)[-1] for x in out}
  assert any('loses' in x for x in whys)
  assert any('idles' in x for x in whys)


def check_echo_chamber(data):
  for form in ('call', 'direct', 'steps'):
    s, xs, out = data[form]
    said = [''.join(texts(x, s.tokenizer)) for x in xs]
    marks = {'call': '<calculator>', 'steps': '<think>'}
    form_of = [next((f for f, m in marks.items() if m in x), 'direct')
               for x in said]  # fmt: skip
    want = [x.id for x, f in zip(xs, form_of, strict=True) if f == form]
    assert [x.id for x in out] == want


def check_eef(data):
  _, xs, out = data['failed']
  assert [x.id for x in out] == [x.id for x in xs if x.outcome <= 0.5]
  _, xs, out = data['shown']
  assert [x.id for x in out] == [x.id for x in xs if x.outcome > 0.5]
  _, xs, out = data['recovered']
  want = set()
  for group in groups(xs):
    lengths = sorted({given(x) for x in group})
    good = {n: any(x.solved for x in group if given(x) == n) for n in lengths}
    turning = 0
    needed = np.zeros(99)
    for a, b in itertools.pairwise(lengths):
      if not good[a]:
        needed[a:b] = 1
        turning = b if good[b] else turning
    for x in group:
      n = given(x)
      if x.solved and len(lengths) > 1 and n in (0, turning):
        own = [1.0] * (len(x.turns) - n)
        want.add((x.task, n, (*needed[:n], *own)))
  of_expert = [w for _, n, ws in want for w in ws[:n]]
  assert {*of_expert} == {0, 1}
  assert {(x.task, given(x), tuple(weights(x))) for x in out} == want


def check_expert_iteration(data):
  _, xs, out = data['solved']
  assert [x.id for x in out] == [x.id for x in xs if x.outcome > 0.5]


def nearest(task, answer):
  """Largest share of symbols in common with an expression of the target."""
  pairs = itertools.product(itertools.permutations(task['numbers']), '+-*')
  own, out = re.findall(r'\d+|[-+*]', answer), 0.0
  for (a, b), sign in pairs:
    if eval(f'{a}{sign}{b}') == task['target']:
      gold = [str(a), sign, str(b)]
      aligned = [
        sum(x == y for x, y in zip(own[i:], gold[j:], strict=False))
        for i in range(3)
        for j in range(3)
      ]
      out = max(out, 2 * max(aligned) / (len(own) + 3))
  left = collections.Counter(map(int, own[::2]))
  return 0.0 if left - collections.Counter(task['numbers']) else out


def check_kat_coder(data):
  s, xs, out = data['found']
  for x in xs:
    end = texts(x, s.tokenizer)[-1]
    near = nearest(s.world.tasks[x.task], end) if '<answer>' in end else 0.0
    np.testing.assert_allclose(x.turns[-1].reward, near, rtol=1e-6)
  rewards = {round(x.turns[-1].reward, 2) for x in xs}
  assert rewards >= {0, 0.67, 1}
  paths = [texts(x, s.tokenizer) for x in xs if x.solved]
  assert [texts(x, s.tokenizer) for x in out] == paths
  tasks = [x.task for x in out]
  masked = []
  for x, path in zip(out, paths, strict=True):
    for k, (turn, said) in enumerate(zip(x.turns, path, strict=True)):
      n = sum(
        task == x.task and other[: k + 1] == path[: k + 1]
        for task, other in zip(tasks, paths, strict=True)
      )
      good = re.fullmatch(r'<(\w+)>\d+[-+*]\d+</\1>', said)
      masked += [said] * (not good)
      np.testing.assert_allclose(turn.weight, 1 / n if good else 0, rtol=1e-6)
  assert len({*masked}) == 2


def check_rise(data):
  _, xs, out = data['improved']
  best = [
    max(group, key=lambda x: (x.outcome, sum(
      y.outcome == x.outcome
      and np.array_equal(y.turns[-1].message, x.turns[-1].message)
      for y in group
    )))
    for group in groups(xs)
  ]  # fmt: skip
  most, want = 0.0, []
  for x in best:
    r = np.array([t.reward for t in x.turns])
    better = (r > np.r_[0, r[:-1]]) & (np.arange(len(r)) >= given(x))
    if better.any():
      want.append((x.task, r, better))
    most = max(most, r.max())
  for x, (task, r, better) in zip(out, want, strict=True):
    assert x.task == task
    np.testing.assert_allclose(
      weights(x), better * np.exp((r - most) / 0.25), rtol=1e-5
    )
  found = np.concatenate([weights(x) for x in out])
  assert ((found > 0) & (found < 1)).any()


EDITED = {
  'agent_r': (moves, check_agent_r),
  'agent_r:judged=grade': (
    moves,
    functools.partial(check_agent_r, own=True),
  ),
  'early_experience': (every_move, check_early_experience),
  'early_experience_reflection': (
    every_move_after_so,
    check_early_experience_reflection,
  ),
  'armap': (households, check_armap),
  'echo_chamber': (lambda demo: [demo], check_echo_chamber),
  'eef': (moves_later, check_eef),
  'expert_iteration': (moves, check_expert_iteration),
  'kat_coder': (calls, check_kat_coder),
  'rise': (plans_of_days, check_rise),
}
# Of these, few by day: edits have tests of their own. The others: nightly.
DAILY = 'agent_r', 'eef', 'expert_iteration', 'rise'
# Their stages are of kinds that others have as well, and no edit makes data.
ALIKE = (
  'chain_of_agents',
  'continual_rft',
  'implicit_inference',
  'inspo',
  'low_param_branch',
  'masksearch',
  'memory_r1',
  'retroformer',
  'rl_experimenter',
  'skill_sd',
  'slea_rl',
  'tablegpt_r1',
  'training_free_grpo',
)
# An untrained policy shows no behaviour; its test has a judge that sees some.
# One that solves nothing makes no pairs: scripted_methods_test.py,
# paired_rounds_test.py and anyprefer_test.py.
BY_ITSELF = ('anyprefer', 'behavior_priming', 'preflexor', 'tearag_ipdpo')
STAGED = {x.partition(':')[0] for x in (*EDITED, *ALIKE, *BY_ITSELF)}


def small(method, folder):
  """A round of the method at a small size, with a warm start if it mixes."""
  name, _, arg = method.partition(':')
  module = importlib.import_module(f'agentrl.configs.{name}')
  c = module.get_config(f'tiny,{arg}')
  if arg:
    assert c.service.judge.role == 'policy'
    c.service.judge.update(dict(role='', function=f'{__name__}:second_is_bad'))
  config_file.change(c, SMALL | {'data': str(folder / 'data')})
  if method in EDITED and not c.sft.mix:
    c.sft.steps = 0
  c.rollout.batch = BATCH.get(name, c.rollout.batch)
  if 'fit_1' in c.stages:
    c.stages = c.stages[: c.stages.index('fit_1') + 1]
  with c.unlocked():
    c.stage = ConfigDict({x: c.stage[x] for x in c.stage if x in c.stages})
  for stage in c.stage.values():
    stage.steps = 2 if name in TWICE else 1
  return c


def played(c, folder):
  """Runs the config: its rows of metrics, one for each step."""
  plans = [x for x in stages.plans(c) for _ in range(x.steps)]
  runner.run(c, str(folder / 'run'))
  rows = metrics.read(str(folder / 'run' / 'metrics.jsonl'))
  trained = [x for x in rows if x['phase'] != 'eval']
  assert [x['step'] for x in trained] == list(range(1, len(plans) + 1))
  assert [x['phase'] for x in trained] == [x.kind for x in plans]
  for x in trained:
    assert all(np.isfinite(v) for k, v in x.items() if k == 'loss/total')


def without(s, name, edit):
  """The experiment whose source lacks one edit."""
  edits = tuple(x for x in s.config.mix[name].edits if x != edit)
  changed = fields.changed(s.config, {f'mix.{name}.edits': edits})
  return s._replace(config=changed)


@pytest.mark.slow
@pytest.mark.parametrize(
  'method',
  [
    pytest.param(m, marks=() if m in DAILY else pytest.mark.nightly)
    for m in sorted(EDITED)
  ],
)
def test_stages_are_trained_on_what_the_edits_make(
  tmp_path, monkeypatch, method
):
  say, check = EDITED[method]
  half_good.plays(monkeypatch, say)
  data, edited = {}, sources.edited

  def seen(s, name, xs):
    xs = list(xs)
    data[name] = s, xs, edited(s, name, xs)
    return data[name][-1]

  monkeypatch.setattr(sources, 'edited', seen)
  c = small(method, tmp_path)
  c.log.groups = -1
  played(c, tmp_path)
  assert {name for name in c.mix if c.mix[name].edits} <= set(data)
  check(data)
  for name, (s, xs, out) in data.items():
    for edit in s.config.mix[name].edits:
      if edit != 'subset':
        other = edited(without(s, name, edit), name, xs)
        assert [x.id for x in other] != [x.id for x in out], (name, edit)
  made = {
    tuple(t.message.tobytes() + t.weight.tobytes() for t in x.turns)
    for _, _, out in data.values()
    for x in out
  }
  fitted = [*run_log.read(str(tmp_path / 'run'), phase='sft')]
  assert fitted
  for x in fitted:
    turns = (t.message.tobytes() + t.weight.tobytes() for t in x.turns)
    assert tuple(turns) in made


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize('method', ALIKE)
def test_all_stages_are_trained(tmp_path, method):
  played(small(method, tmp_path), tmp_path)


def every_second(messages, *, seed):
  """A judge that finds all behaviours in every second trajectory."""
  del messages
  word = ('yes', 'no')[seed % 2]
  return '\n'.join(f'{k}: {word}' for k in range(1, 5))


@pytest.mark.nightly
def test_behaviors_that_a_judge_marks_are_primed(tmp_path):
  """The edits are those of the config: the judge's marks reach them."""
  c = behavior_priming.get_config('tiny,judged=checklist')
  config_file.change(c, SMALL | {'data': str(tmp_path / 'data')})
  c.service.judge.function = f'{__name__}:every_second'
  for stage in c.stage.values():
    stage.steps = 1
  played(c, tmp_path)
  found = [*run_log.read(tmp_path / 'run', steps=(2, 2))]
  marks = [sum(t.terms['judged'] for t in x.turns) for x in found]
  assert set(marks) == {0.0, 1.0}
  store = trajectory_store.open_store(tmp_path / 'run', 'prime.primed')
  primed = store.take(np.arange(len(store.heads)))
  want = [x.id for x, mark in zip(found, marks, strict=True) if mark]
  assert sorted(x.id for x in primed) == sorted(want)
