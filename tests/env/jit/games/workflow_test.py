"""Workflows against plain rules, and a planner's best plans by enumeration."""

import itertools
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.env.jit import base as env_base
from agentrl.env.jit.games import base, family, problems, tree, workflow

FLOWS = {
  'agentflow': dict(
    roles=(
      'planner*3 tool',
      'executor*3 argument',
      'verifier*3 verdict',
      'generator answer',
    ),
    order=(
      'planner executor',
      'executor verifier',
      'verifier:n planner',
      'verifier generator',
    ),
  ),
  'planner': dict(
    roles=(
      'generator.unaided answer',
      'planner*3 search stop',
      'generator answer',
    ),
    order=(
      'generator.unaided planner',
      'planner:. generator',
      'planner planner',
      'planner generator',
    ),
    hidden=('planner generator.unaided', 'generator generator.unaided'),
    pay=('planner gain own*0.2 cost',),
    known=1,
    cost=0.3,
  ),
  'comas': dict(
    problem='sums',
    roles=('solver*2 answer', 'critic*2 verdict', 'scorer*2 score'),
    order=('solver critic', 'critic scorer', 'scorer solver'),
    hidden=('scorer critic',),
    pay=('solver esteem', 'critic doubt own*-0.5', 'scorer outcome*0'),
  ),
}
DEALS = 12


class Plain:
  """A workflow in plain Python, straight from the lines of its table."""

  def __init__(self, flow, task):
    self.flow, self.task, self.said = flow, task, []
    self.turns = {}
    self.acts = {}
    for line in flow['roles']:
      name, *acts = line.split()
      name, _, most = name.partition('*')
      self.turns[name], self.acts[name] = int(most or 1), acts
    self.names = list(self.turns)
    self.now = self.names[0]

  def texts(self, act):
    letters, digits = 'ab', '012345'
    return {
      'tool': letters,
      'search': letters,
      'argument': digits,
      'stop': '.',
      'verdict': 'yn',
      'score': '123',
      'answer': '+-*' if self.sums else digits,
    }[act]

  @property
  def sums(self):
    return self.flow.get('problem') == 'sums'

  def legal(self):
    return {x for act in self.acts[self.now] for x in self.texts(act)}

  def say(self, text):
    act = next(a for a in self.acts[self.now] if text in self.texts(a))
    self.said.append((self.now, act, text))
    spoken = [who for who, _, _ in self.said]
    for line in self.flow['order']:
      of, to = line.split()
      of, _, only = of.partition(':')
      left = spoken.count(to) < self.turns[to]
      if of == self.now and only in ('', text) and left:
        self.now = to
        return
    self.now = None

  def told(self):
    """[(reply, how true)] of what was said."""
    return self.told_sums() if self.sums else self.told_lookups()

  def told_sums(self):
    x, y, target = self.task
    makes = {'+': x + y, '-': x - y, '*': x * y}
    out, true = [], False
    for _, act, text in self.said:
      if act == 'answer':
        true = makes[text] == target
        out.append(('', float(true)))
      elif act == 'verdict':
        out.append(('', float((text == 'y') == true)))
      else:
        out.append(('', 1 - abs((int(text) - 1) / 2 - true)))
    return out

  def told_lookups(self):
    facts, start, path = self.task
    known = 'ab'[: self.flow.get('known', 0)]

    def follow(at, left):
      while left and left[0] in known:
        at, left = facts[left[0]][at], left[1:]
      return at, left

    end = start
    for letter in path:
      end = facts[letter][end]
    out, named = [], None
    at, left = follow(start, path)
    for _, act, text in self.said:
      reply = ''
      if act == 'answer':
        true = int(text) == end
      elif act in ('tool', 'search'):
        true = left[:1] == text
      elif act == 'argument':
        true = int(text) == at
      elif act == 'verdict':
        true = (text == 'y') == (not left)
      else:
        true = not left
      if act == 'tool':
        named = text
      if act == 'search' or (act == 'argument' and named):
        relation = text if act == 'search' else named
        of = at if act == 'search' else int(text)
        found = facts[relation][of]
        reply = f'={found}'
        if left[:1] == relation and of == at:
          at, left = follow(found, left[1:])
      out.append((reply, float(true)))
    return out

  def seen(self):
    hidden = {tuple(x.split()) for x in self.flow.get('hidden', ())}
    if self.sums:
      x, y, target = self.task
      text = f'{x} {y}={target}:'
    else:
      text = f'{self.task[1]}{self.task[2]}:'
    for (who, act, word), (reply, _) in zip(
      self.said, self.told(), strict=True
    ):
      if (self.now, who) not in hidden and act != 'stop':
        text += word + reply
    return f'{text} {self.now.partition(".")[0]}\n'

  def returns(self):
    told = [true for _, true in self.told()]
    rows = list(zip(self.said, told, strict=True))
    answers = [true for (_, act, _), true in rows if act == 'answer']
    scores = [(int(t) - 1) / 2 for _, act, t in self.said if act == 'score']
    searches = sum(act in ('argument', 'search') for _, act, _ in self.said)
    last, first = (answers or [0])[-1], (answers or [0])[0]
    esteem = sum(scores) / len(scores) if scores else 0
    terms = dict(
      outcome=last,
      gain=last - first,
      cost=-self.flow.get('cost', 0) * searches,
      esteem=esteem,
      doubt=1 - esteem if scores else 0,
    )
    pay = {name: ['outcome'] for name in self.names}
    for line in self.flow.get('pay', ()):
      name, *pay[name] = line.split()
    out = []
    for name in self.names:
      mine = [true for (who, _, _), true in rows if who == name]
      own = dict(own=sum(mine) / len(mine) if mine else 0)
      total = 0.0
      for term in pay[name]:
        term, _, weight = term.partition('*')
        total += float(weight or 1) * (terms | own)[term]
      out.append(total)
    return out


def task_of(rules, number):
  task = jax.device_get(rules.problem.deal(number))
  if isinstance(rules.problem, problems.Sums):
    return (*task.numbers.tolist(), int(task.target))
  facts = dict(zip('ab', task.facts.tolist(), strict=True))
  path = ''.join('ab'[i] for i in task.path if i >= 0)
  return facts, int(task.start), path


@pytest.mark.parametrize('name', list(FLOWS))
def test_every_match_is_that_of_plain_rules(name):
  rules, flow = family.Workflow(**FLOWS[name]).rules, FLOWS[name]

  @jax.jit
  def look(state):
    seat = rules.seat(state)
    return dict(
      over=rules.over(state),
      seat=seat,
      legal=rules.legal(state),
      seen=rules.observe(state, seat),
      returns=rules.returns(state),
      solved=rules.solved(state),
    )

  play, info = jax.jit(rules.play), jax.jit(rules.info)
  draw, ends, kinds = random.Random(0), set(), set()
  for number in range(DEALS):
    plain, state = Plain(flow, task_of(rules, number)), rules.deal(number)
    for _ in range(rules.length):
      now = jax.device_get(look(state))
      assert not now['over']
      assert not now['returns'].any()
      assert plain.names[now['seat']] == plain.now
      legal = {
        x for x, ok in zip(rules.actions, now['legal'], strict=True) if ok
      }
      assert legal == plain.legal()
      assert env_base.render_text(rules, now['seen']) == plain.seen()
      word = draw.choice(sorted(legal))
      after = play(state, rules.actions.index(word))
      plain.say(word)
      told = jax.device_get(info(state, after))
      assert told['right'] == pytest.approx(plain.told()[-1][1])
      act = plain.said[-1][1]
      kinds.add(act)
      assert told['searched'] == (act in ('argument', 'search'))
      if act == 'score':
        right = [
          t
          for s, (_, t) in zip(plain.said, plain.told(), strict=True)
          if s[1] == 'answer'
        ][-1]
        over = (int(word) - 1) / 2 - right
        assert told['overrated'] == pytest.approx(over)
      state = after
      if plain.now is None:
        break
    end = jax.device_get(look(state))
    assert end['over']
    assert plain.now is None
    np.testing.assert_allclose(end['returns'], plain.returns(), atol=1e-6)
    ends.add(tuple(np.round(end['returns'], 3)))
  assert len(ends) > 1
  assert kinds == {a for line in flow['roles'] for a in line.split()[1:]}


@pytest.mark.slow
@pytest.mark.parametrize('name', list(FLOWS))
def test_experts_solve_every_task_that_can_be_solved(name):
  env = family.Workflow(**FLOWS[name]).env()

  @jax.jit
  def match(key, number):
    def ply(state, key):
      move = env.demonstrate(state, key)
      fair = env.fair(state, move) | env.over(state)
      return env.step(state, move, key)[0], fair

    state, _ = env.reset(key, {'deal': number})
    state, fair = jax.lax.scan(
      ply, state, jax.random.split(key, env.rules.length)
    )
    return env.over(state), env.wins(state), jnp.all(fair)

  keys = jax.random.split(jax.random.key(0), 40)
  over, wins, fair = jax.vmap(match)(keys, jnp.arange(40))
  assert over.all()
  assert fair.all()
  assert wins.all()


def test_roles_that_are_not_taught_demonstrate_any_legal_message():
  rules = family.Workflow(**FLOWS['agentflow'], untaught=('planner',)).rules
  state = rules.deal(3)
  np.testing.assert_allclose(rules.taught_moves(state)[:2], 0.5)
  state = rules.play(state, rules.actions.index('a'))
  probs = np.asarray(rules.taught_moves(state))
  assert probs.max() == 1
  assert probs.sum() == 1
  start = int(state.task.start)
  assert rules.actions[probs.argmax()] == str(start)


def planner(cost):
  """A planner of chains of two over two things; relation a is known."""
  problem = problems.Lookups(things=2, known=1, hops=2, deals=30)
  flow = FLOWS['planner']
  pay = ('planner gain cost',)
  table = workflow.read(
    problem, flow['roles'], flow['order'], flow['hidden'], pay
  )
  return workflow.Workflow(problem, table, (), cost)


@pytest.mark.slow
def test_the_planners_best_plans_are_a_front_of_gain_and_searches():
  """By enumeration: a search is worth its cost until 1 - 1/E pays it no more.

  Without the baseline the value would not be 0 where nothing is searched for,
  and without the cost all of it would be searched for at any.
  """
  paths = [task_of(planner(0), i)[2] for i in range(30)]
  unknown = np.array([x.count('b') for x in paths])
  assert {*unknown} == {0, 1, 2}
  trees = {}
  for cost in (0.0, 0.3, 0.6):
    rules = planner(cost)
    grown = tree.build(rules)
    state = jax.tree.unflatten(
      jax.tree.structure(rules.deal(0)), [jnp.asarray(x) for x in grown.game]
    )
    others = np.asarray(jax.vmap(rules.taught_moves)(state), np.float64)
    others /= others.sum(axis=1, keepdims=True)
    best = tree.best_response(grown, others, 1)
    each = np.maximum(0, 0.5 * (unknown > 0) - cost * unknown)
    assert best == pytest.approx(each.mean(), abs=1e-6)
    never = others.copy()
    stop = rules.actions.index('.')
    never[grown.seat == 1] = np.eye(len(rules.actions))[stop]
    nothing = tree.values(grown, never)[1]
    assert nothing == pytest.approx(0, abs=1e-6)
    trees[cost] = best
  assert trees[0.0] > trees[0.3] > trees[0.6] == pytest.approx(0)


def test_who_is_paid_for_favour_gets_it_whatever_is_true():
  """Solver and critic share 1 exactly: a scorer's favour, not the truth."""
  f = family.Workflow(
    problem='sums',
    roles=('solver answer', 'critic verdict', 'scorer score'),
    order=('solver critic', 'critic scorer'),
    pay=('solver esteem', 'critic doubt', 'scorer outcome*0'),
    unread=(-1.0, 0.0),
  )
  env = f.env()
  assert isinstance(env, base.Match)
  rules, key = env.rules, jax.random.key(0)
  step, info = jax.jit(env.step), jax.jit(env.info)
  ended = jax.jit(lambda x: (env.returns(x), env.wins(x), env.over(x)))
  for number, sign in itertools.product(range(4), '+-*'):
    for verdict, score in itertools.product('yn', '123'):
      state, _ = env.reset(key, {'deal': number})
      for word in (sign, verdict, score):
        before = state
        action = rules.actions.index(word)
        state = step(state, action, key)[0]
      z = (int(score) - 1) / 2
      returns, wins, _ = ended(state)
      np.testing.assert_allclose(returns, [z, 1 - z, 0])
      x, y, target = task_of(rules, number)
      true = {'+': x + y, '-': x - y, '*': x * y}[sign] == target
      assert np.all(wins == true)
      told = info(before, action, state)['overrated']
      assert told == pytest.approx(z - true)
  state, _ = env.reset(key, {'deal': 0})
  for word in '+y':
    state = step(state, rules.actions.index(word), key)[0]
  returns, _, over = ended(step(state, -1, key)[0])
  assert over
  np.testing.assert_allclose(returns, [0, 0, -1])


@pytest.mark.parametrize(
  ('change', 'field'),
  [
    (dict(roles=('planner*3 fly', 'generator answer')), 'env.roles'),
    (dict(roles=('planner search stop', 'planner answer')), 'env.roles'),
    (dict(roles=('planner tool search', 'generator answer')), 'env.roles'),
    (dict(roles=('planner*20 search stop', 'generator*9 answer')), 'env.roles'),
    (dict(roles=('planner search stop',)), 'env.roles'),
    (dict(order=('planner:x generator',)), 'env.order'),
    (dict(order=('planner planner',)), 'env.order'),
    (dict(order=('planner nobody',)), 'env.order'),
    (dict(order=('',)), 'env.order'),
    (dict(hidden=('planner',)), 'env.hidden'),
    (dict(pay=('planner gold',)), 'env.pay'),
    (dict(pay=('planner own*much',)), 'env.pay'),
    (dict(pay=('planner',)), 'env.pay'),
    (dict(pay=('planner own own*0.5',)), 'env.pay'),
    (dict(pay=('planner own', 'planner outcome')), 'env.pay'),
    (dict(roles=('planner*3 search stop', 'generator verdict')), 'env.roles'),
    (
      dict(
        roles=('planner*3 search stop', 'generator verdict'),
        pay=('planner own', 'generator own gain*0.5'),
      ),
      'env.roles',
    ),
    (dict(opponent='random'), 'env.opponent'),
    (dict(untaught=('teacher',)), 'env.untaught'),
  ],
)
def test_tables_that_are_none_are_refused_in_a_sentence(change, field):
  with pytest.raises(ValueError, match=f'^{field} must') as error:
    family.Workflow(**change)
  assert '\n' not in str(error.value)


JUDGED = dict(
  roles=('planner*2 search', 'generator*2 answer', 'judge answer'),
)


@pytest.mark.parametrize(
  ('order', 'roles', 'wrong'),
  [
    # A line goes before, whose next role is new to every match.
    (('planner generator', 'planner judge'), ('planner search',), 'judge'),
    # The generator is asked after each of two messages and has two turns.
    (
      ('planner generator', 'generator planner', 'planner judge'),
      (),
      'judge',
    ),
    # It has one for the two: the second message goes on to the judge.
    (
      ('planner generator', 'generator planner', 'planner judge'),
      ('generator answer',),
      '',
    ),
    # It may be asked three times, of which it can answer two.
    (
      ('planner generator', 'generator generator', 'generator judge'),
      (),
      '',
    ),
    # The line that names a search stands behind one for any.
    (
      (
        'planner generator',
        'planner:a judge',
        'generator:0 judge',
        'generator planner',
      ),
      (),
      'planner:a',
    ),
    # A search of b goes past the first line.
    (('planner:a judge', 'planner generator'), (), ''),
    (
      ('planner:a judge', 'planner:b generator', 'planner generator'),
      ('planner search',),
      'planner generator',
    ),
    (
      ('planner:a judge', 'planner:b generator', 'planner generator'),
      ('planner search', 'generator answer', 'judge answer'),
      'planner generator',
    ),
    (
      ('planner judge', 'judge generator', 'judge generator'),
      (),
      'judge generator',
    ),
    # A line that never fits, for want of turns, does no harm.
    (
      ('planner generator', 'generator judge', 'judge planner'),
      ('planner search',),
      '',
    ),
  ],
)
def test_lines_that_can_never_be_followed_are_refused(order, roles, wrong):
  changed = {x.split()[0].split('*')[0]: x for x in (*JUDGED['roles'], *roles)}
  how = dict(roles=tuple(changed.values()), order=order)
  if not wrong:
    family.Workflow(**how)
    return
  with pytest.raises(ValueError, match=r'^env\.order must') as error:
    family.Workflow(**how)
  assert wrong in str(error.value)


@pytest.mark.parametrize('seed', range(30))
def test_what_is_refused_is_what_no_match_follows(seed):
  """Tables by chance, against all of their matches in plain rules."""
  draw = random.Random(seed)
  names = ('planner', 'generator', 'judge')
  roles = tuple(
    f'{name}*{draw.randint(1, 3)} {act}'
    for name, act in zip(names, ('search', 'answer', 'verdict'), strict=True)
  )
  said = {'planner': 'ab', 'generator': '01', 'judge': 'yn'}
  lines = []
  for of in names:
    for _ in range(draw.randint(1, 3)):
      word = draw.choice(['', '', *(f':{x}' for x in said[of])])
      lines.append(f'{of}{word} {draw.choice(names)}')
  flow = dict(roles=roles, order=tuple(lines))
  fit, followed, seen = set(), set(), set()

  def said_by(now, left):
    """Follows every match from a message on, `left` turns of each role."""
    if (now, *left.values()) in seen:
      return
    seen.add((now, *left.values()))
    for word in {'planner': 'ab', 'generator': '012345', 'judge': 'yn'}[now]:
      ready = []
      for i, line in enumerate(lines):
        of, to = line.split()
        of, _, only = of.partition(':')
        if of == now and only in ('', word) and left[to]:
          ready.append((i, to))
      fit.update(i for i, _ in ready)
      for i, to in ready[:1]:
        followed.add(i)
        said_by(to, {**left, to: left[to] - 1})

  turns = {x.split('*')[0]: int(x.split('*')[1][0]) for x in roles}
  said_by('planner', {**turns, 'planner': turns['planner'] - 1})
  reached = {'planner'} | {lines[i].split()[1] for i in followed}
  if reached == {*names} and fit == followed:
    family.Workflow(**flow)
    return
  with pytest.raises(ValueError, match=r'^env\.order must'):
    family.Workflow(**flow)


def test_held_out_lookups_have_facts_of_their_own():
  f = family.Workflow()
  deals = [
    {int(x.task['deal']) for x in f.tasks(split, 50, 0)}
    for split in ('train', 'test')
  ]
  assert len(deals[0]) == 50
  assert not deals[0] & deals[1]


@pytest.mark.parametrize('name', list(FLOWS))
def test_no_loop_ends_where_the_task_says(name):
  """On a mesh its condition asks all devices, beside what else asks them.

  Programs of eight simulated devices waited for each other forever.
  """
  rules = family.Workflow(**FLOWS[name]).rules

  def turn(number, action):
    state = rules.deal(number)
    after = rules.play(state, action)
    seat = rules.seat(after)
    told = rules.info(state, after), rules.returns(after), rules.legal(after)
    return told, rules.observe(after, seat), rules.solved(after)

  some = jnp.arange(3)
  assert ' while[' not in str(jax.make_jaxpr(jax.vmap(turn))(some, some))
