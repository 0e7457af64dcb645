"""One update of a whole method, in plain loops over trajectories and tokens.

Float64 NumPy. Nothing of the package is used: no registry, no segments, no
optimizer, no automatic derivative. The networks are tables, whose gradients
are written out: a language model has logits [cells, choices], a critic has
one value a cell, and a token says its cell and its choice.

The method is that of update_test.py; every number of it is read from
`settings`, {path in the config: value}.
"""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


class Token(NamedTuple):
  """A sampled token."""

  cell: int
  choice: int
  span: int
  logp: float  # when it was sampled


class Trajectory(NamedTuple):
  """Lists over turns."""

  group: int
  outcome: float
  earned: list[float]  # what the environment paid
  invalid: list[int]
  messages: list[list[Token]]


@dataclasses.dataclass
class Adam:
  m: np.ndarray
  v: np.ndarray
  count: int = 0


@dataclasses.dataclass
class State:
  """Parameters by role, and everything else that an update changes."""

  step: int
  params: dict[str, np.ndarray]
  opt: dict[str, Adam]
  history: np.ndarray  # [3, S]: entropy, iterations and turns by turn index
  pool: list[tuple[Trajectory, list[float], int] | None]  # rewards, born
  next: int = 0
  means: list[float] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Read:
  """A trajectory of the batch, and everything that is worked out about it."""

  it: Trajectory
  reward: list[float]
  is_replayed: bool = False
  is_counted: bool = True
  better: float = 0.0  # than the groups of the past
  step: list[float] = dataclasses.field(default_factory=list)  # the PRM's
  value: list[list[float]] = dataclasses.field(default_factory=list)
  target: list[list[float]] = dataclasses.field(default_factory=list)
  credit: list[list[float]] = dataclasses.field(default_factory=list)


# (reads, which of them, turn, token) are what everything below loops over.
Place = tuple[Read, int, int, Token]
Settings = Mapping[str, Any]
Deal = tuple[tuple[frozenset[int], ...], ...]  # reads by epoch and minibatch


def log_probs(table: np.ndarray, token: Token) -> np.ndarray:
  logits = table[token.cell]
  top = logits.max()
  return logits - top - math.log(np.sum(np.exp(logits - top)))


def log_prob(table: np.ndarray, token: Token) -> float:
  return float(log_probs(table, token)[token.choice])


def entropy(table: np.ndarray, token: Token) -> float:
  logp = log_probs(table, token)
  return float(-np.sum(np.exp(logp) * logp))


def slope(table: np.ndarray, token: Token) -> np.ndarray:
  """d log_prob / d logits of the token's cell."""
  out = -np.exp(log_probs(table, token))
  out[token.choice] += 1
  return out


def entropy_slope(table: np.ndarray, token: Token) -> np.ndarray:
  """d entropy / d logits of the token's cell."""
  logp = log_probs(table, token)
  return -np.exp(logp) * (logp + entropy(table, token))


def places(reads: Sequence[Read]) -> Iterator[Place]:
  for read in reads:
    for k, message in enumerate(read.it.messages):
      for j, token in enumerate(message):
        yield read, k, j, token


def adam(rule: Mapping[str, float], params, grads, opt: Adam):
  """-> params, opt, norm of the gradient before it was clipped."""
  norm = math.sqrt(np.sum(grads**2))
  grads = grads * min(1.0, rule['max_grad_norm'] / norm) if norm else grads
  m = rule['b1'] * opt.m + (1 - rule['b1']) * grads
  v = rule['b2'] * opt.v + (1 - rule['b2']) * grads**2
  count = opt.count + 1
  way = (m / (1 - rule['b1'] ** count)) / (
    np.sqrt(v / (1 - rule['b2'] ** count)) + rule['eps']
  )
  rate = rule['lr'] * min(1.0, count / rule['warmup'])
  params = params - rate * (way + rule['weight_decay'] * params)
  return params, Adam(m, v, count), norm


def rule_of(s: Settings, role: str, gone: int) -> dict[str, float]:
  """The role's optimizer `gone` steps after its stage began."""
  rule = {
    name: s[f'role.{role}.{name}']
    for name in (
      'lr',
      'final_lr_fraction',
      'warmup',
      'max_grad_norm',
      'weight_decay',
      'b1',
      'b2',
      'eps',
    )
  }
  share = min(gone / s['steps'], 1.0)
  rule['lr'] *= 1 - share * (1 - rule['final_lr_fraction'])
  return rule


# Before the policy learns.


def judge(s: Settings, state: State, story: Sequence[Trajectory], gone: int):
  """-> state, reads with their credit, metrics."""
  state = dataclasses.replace(
    state, params=dict(state.params), opt=dict(state.opt)
  )
  reads = [Read(it, rewards(s, it)) for it in story]
  curate(s, reads)
  recall(s, state, reads)
  past, usable = past_entropy(s, state)
  state.history = state.history + seen(s, state.params['policy'], reads)
  metrics = learn_prm(s, state, reads, gone)
  gaps = sampler_gaps(state.params['policy'], reads)
  metrics['logp/sampler_mismatch'] = sum(gaps), len(gaps)
  metrics['logp/sampler_mismatch_max'] = max(gaps), 1
  for read in reads:
    read.value = [
      [float(state.params['value'][t.cell]) for t in message]
      for message in read.it.messages
    ]
  credit(s, reads)
  return state, reads, (past, usable), metrics


def rewards(s: Settings, it: Trajectory) -> list[float]:
  cost, penalty = s['hp.reward.turn_cost.cost'], s['hp.reward.invalid.penalty']
  used = s['reward']
  return [
    paid - cost * ('turn_cost' in used) - penalty * wrong * ('invalid' in used)
    for paid, wrong in zip(it.earned, it.invalid, strict=True)
  ]


def curate(s: Settings, reads: list[Read]) -> None:
  if 'most_varied' not in s['curate']:
    return
  groups = sorted({read.it.group for read in reads})
  spread = {}
  for group in groups:
    total = [sum(r.reward) for r in reads if r.it.group == group]
    spread[group] = np.var(total, ddof=1)
  count = max(round(s['hp.curate.most_varied.share'] * len(groups)), 1)
  best = sorted(groups, key=lambda g: -spread[g])[:count]
  for read in reads:
    read.is_counted = read.it.group in best and spread[read.it.group] > 0


def recall(s: Settings, state: State, reads: list[Read]) -> None:
  usual = float(np.median(state.means)) if state.means else 0.0
  slots = [x for x in state.pool if x]
  young = [x for x in slots if state.step - x[2] <= s['hp.memory.replay.age']]
  assert len(young) <= s['hp.memory.replay.n'], 'the choice would be random'
  for it, reward, _ in young:
    better = sum(reward) - usual
    reads.append(Read(it, reward, is_replayed=True, better=better))


def past_entropy(s: Settings, state: State):
  """Past entropy of each turn index, and whether it is usable."""
  total, iterations, turns = state.history
  usable = turns >= s['hp.signal.entropy_history.least']
  return total / np.maximum(iterations, 1), usable


def sampler_gaps(table, reads: list[Read]) -> list[float]:
  """Between the policy and what was sampled, of all that it sampled now."""
  return [
    abs(log_prob(table, token) - token.logp)
    for read, _, _, token in places(reads)
    if not read.is_replayed
  ]


def seen(s: Settings, table, reads: list[Read]) -> np.ndarray:
  """What this iteration adds to the history."""
  size = s['hp.signal.entropy_history.turns']
  out, tokens = np.zeros((3, size)), np.zeros(size)
  for read, k, j, token in places(reads):
    if read.is_counted:
      at = min(k, size - 1)
      out[0, at] += entropy(table, token)
      tokens[at] += 1
      out[2, at] += j == 0
  out[0] /= np.maximum(tokens, 1)
  out[1] = tokens > 0
  return out


def learn_prm(s: Settings, state: State, reads: list[Read], gone: int):
  """The PRM of pairs, updated and then scored; or the other way round."""
  late = s['hp.signal.implicit_prm.order'] == 'score_then_update'
  if late:
    score_prm(s, state, reads)
  rule, metrics = rule_of(s, 'prm', gone), {}
  for _ in range(s['hp.signal.implicit_prm.steps']):
    table = state.params['prm']
    grads, loss, pairs = prm_gradient(s, state, table, reads)
    state.params['prm'], state.opt['prm'], norm = adam(
      rule, table, grads, state.opt['prm']
    )
    metrics = {
      'prm/loss': (loss, 1),
      'prm/pairs': (pairs, 1),
      'prm/grad_norm': (norm, 1),
    }
  if not late:
    score_prm(s, state, reads)
  return metrics


def step_rewards(s: Settings, state: State, table, read: Read) -> list[float]:
  beta = s['hp.signal.implicit_prm.beta']
  which = s['hp.signal.implicit_prm.reference']
  other = state.params['reference' if which == 'ref_logp' else 'policy']
  return [
    read.is_counted
    * beta
    * sum(log_prob(table, t) - log_prob(other, t) for t in message)
    for message in read.it.messages
  ]


def score_prm(s: Settings, state: State, reads: list[Read]) -> None:
  for read in reads:
    read.step = step_rewards(s, state, state.params['prm'], read)


def prm_gradient(s: Settings, state: State, table, reads: list[Read]):
  """-mean over pairs of log sigmoid(Q of the success - Q of the failure)."""
  mean = s['hp.signal.implicit_prm.trajectory'] == 'mean'
  beta = s['hp.signal.implicit_prm.beta']
  size = [len(r.it.messages) if mean else 1 for r in reads]
  q = [
    sum(step_rewards(s, state, table, r)) / n
    for r, n in zip(reads, size, strict=True)
  ]
  fresh = [i for i, r in enumerate(reads) if r.is_counted and not r.is_replayed]
  pairs = [
    (i, j)
    for i, j in itertools.product(fresh, fresh)
    if reads[i].it.group == reads[j].it.group
    and reads[i].it.outcome > 0.5 >= reads[j].it.outcome
  ]
  bar, loss = np.zeros(len(reads)), 0.0
  for i, j in pairs:
    loss += math.log1p(math.exp(q[j] - q[i])) / len(pairs)
    pull = 1 / (1 + math.exp(q[i] - q[j])) / len(pairs)
    bar[i] -= pull
    bar[j] += pull
  grads = np.zeros_like(table)
  for i, read in enumerate(reads):
    for _, _, _, token in places([read]):
      grads[token.cell] += (
        read.is_counted * bar[i] / size[i] * beta * slope(table, token)
      )
  return grads, loss, len(pairs)


# What each token is worth.


def credit(s: Settings, reads: list[Read]) -> None:
  """Four streams, then whitened over tokens."""
  streams = {
    'episode': episode(s, reads),
    'prm': [prm_to_go(s, r) for r in reads],
    'critic': [critic(s, r) for r in reads],
    'again': [again(s, r) for r in reads],
  }
  whole = []
  for i, read in enumerate(reads):
    each = [
      [
        sum(s[f'coef.{name}'] * x[i][k][j] for name, x in streams.items())
        for j in range(len(message))
      ]
      for k, message in enumerate(read.it.messages)
    ]
    whole.append(each)
  whiten(s, reads, whole)


def spread_turns(read: Read, values: Sequence[float]) -> list[list[float]]:
  """A value for each turn, at all of its tokens."""
  return [
    [float(x)] * len(message)
    for x, message in zip(values, read.it.messages, strict=True)
  ]


def episode(s: Settings, reads: list[Read]) -> list[list[list[float]]]:
  """(return - mean) / (deviation + eps) of the group."""
  out = []
  ddof, eps = s['hp.episode.scale.ddof'], s['hp.episode.scale.eps']
  for read in reads:
    mates = [
      sum(r.reward)
      for r in reads
      if r.is_counted and not r.is_replayed and r.it.group == read.it.group
    ]
    x = 0.0
    if read.is_counted and not read.is_replayed and np.ptp(mates) > 0:
      x = sum(read.reward) - np.mean(mates)
      x /= np.std(mates, ddof=ddof) + eps
    out.append(spread_turns(read, [x] * len(read.it.messages)))
  return out


def prm_to_go(s: Settings, read: Read) -> list[list[float]]:
  gamma, coef = s['hp.prm.return_to_go.gamma'], s['hp.prm.add_signal.coef']
  out, later = [], 0.0
  for x in reversed(read.step):
    later = coef * x + gamma * later
    out.append(later)
  return spread_turns(read, out[::-1])


def critic(s: Settings, read: Read) -> list[list[float]]:
  """GAE over the tokens of all turns; what the critic should say."""
  gamma, lam = (s[f'hp.critic.gae_tokens.{x}'] for x in ('gamma', 'lam'))
  where = [
    (k, j)
    for k, message in enumerate(read.it.messages)
    for j in range(len(message))
  ]
  out = [[0.0] * len(message) for message in read.it.messages]
  ahead, following = 0.0, 0.0
  for k, j in reversed(where):
    last = j == len(read.it.messages[k]) - 1
    value = read.value[k][j]
    delta = last * read.reward[k] + gamma * following - value
    ahead = delta + gamma * lam * ahead
    following = value
    out[k][j] = ahead
  read.target = [
    [a + v for a, v in zip(*pair, strict=True)]
    for pair in zip(out, read.value, strict=True)
  ]
  return out if read.is_counted else [[0.0] * len(x) for x in out]


def again(s: Settings, read: Read) -> list[list[float]]:
  x = s['hp.again.add_signal.coef'] * read.better
  return spread_turns(read, [x] * len(read.it.messages))


def whiten(s: Settings, reads: list[Read], whole) -> None:
  """Over tokens; 'trajectory': each trajectory counts once, not each token."""
  if 'whiten_tokens' not in s['post']:
    for read, x in zip(reads, whole, strict=True):
      read.credit = x
    return
  once = s['hp.post.whiten_tokens.unit'] == 'trajectory'
  flat = []
  for read, x in zip(reads, whole, strict=True):
    mine = [a for turn in x for a in turn]
    flat += [
      (a, 1 / len(mine) if once else 1.0) for a in mine if read.is_counted
    ]
  x, w = np.array(flat).T
  mean = np.sum(w * x) / np.sum(w)
  ddof = s['hp.post.whiten_tokens.ddof']
  var = np.sum(w * (x - mean) ** 2) / (np.sum(w) - ddof)
  for read, x in zip(reads, whole, strict=True):
    read.credit = [
      [read.is_counted * (a - mean) / math.sqrt(var + 1e-8) for a in turn]
      for turn in x
    ]


# The policy's sub-updates.


def deals(s: Settings, reads: list[Read]) -> Iterator[Deal]:
  """Every way to deal trajectories or whole groups, in every epoch."""
  epochs, n = (s[f'hp.minibatch.minibatches.{x}'] for x in ('epochs', 'n'))
  units: dict[Any, set[int]] = {}
  for i, read in enumerate(reads):
    if read.is_counted:
      whole = (
        s['hp.minibatch.minibatches.unit'] == 'group' and not read.is_replayed
      )
      name = read.it.group if whole else ('alone', i)
      units.setdefault(name, set()).add(i)
  ways = set()
  for order in itertools.permutations(units.values()):
    ways.add(tuple(frozenset().union(*order[i::n]) for i in range(n)))
  yield from itertools.product(sorted(ways, key=repr), repeat=epochs)


def train(s: Settings, state: State, reads, past, gone: int, deal: Deal):
  """-> parameters and optimizer of the policy, metrics."""
  rule = rule_of(s, 'policy', gone)
  old = state.params['policy']
  table, opt, metrics = old, state.opt['policy'], {}
  for part in itertools.chain(*deal):
    grads, terms = gradient(s, table, old, state, reads, past, gone, part)
    table, opt, norm = adam(rule, table, grads, opt)
    terms['policy/grad_norm'] = norm, 1
    terms['policy/nonfinite_skips'] = 0, 1
    for name, (x, w) in terms.items():
      a, b = metrics.get(name, (0.0, 0.0))
      metrics[name] = a + x, b + w
  return table, opt, metrics


LOSSES = ('ppo', 'kl_k3', 'entropy', 'entropy_hinge', 'nll')


def gradient(s: Settings, table, old, state, reads, past, gone, part):
  """Of the sum of the terms over the reads of one minibatch."""
  weights = {name: weigh(s, name, reads, part, gone) for name in LOSSES}
  grads, sums = np.zeros_like(table), dict.fromkeys(LOSSES, 0.0)
  ratios = dict.fromkeys(
    ('ratio', 'approx_kl', 'clip_frac_low', 'clip_frac_high'), 0.0
  )
  count = 0
  low, high = (s[f'hp.ppo.ppo.clip_{x}'] for x in ('low', 'high'))
  inside = {id(reads[i]) for i in part}
  for at, (read, k, j, token) in enumerate(places(reads)):
    logp, a = log_prob(table, token), read.credit[k][j]
    ratio = math.exp(logp - log_prob(old, token))
    pull, spread = 0.0, 0.0  # d loss / d log_prob, d entropy
    for name in LOSSES:
      x, by_logp, by_entropy = term(
        s, name, table, state, past, token, k, a, ratio
      )
      sums[name] += weights[name][at] * x
      pull += weights[name][at] * by_logp
      spread += weights[name][at] * by_entropy
    grads[token.cell] += pull * slope(table, token)
    grads[token.cell] += spread * entropy_slope(table, token)
    if id(read) in inside:
      count += 1
      ratios['ratio'] += ratio
      ratios['approx_kl'] += ratio - 1 - math.log(ratio)
      ratios['clip_frac_low'] += a < 0 and ratio < 1 - low
      ratios['clip_frac_high'] += a > 0 and ratio > 1 + high
  metrics = {f'ppo/{name}': (x, count) for name, x in ratios.items()}
  metrics |= {f'loss/{name}': (x, 1) for name, x in sums.items()}
  metrics['loss/total'] = sum(sums.values()), 1
  return grads, metrics


def term(s: Settings, name, table, state, past, token, k, a, ratio):
  """-> value, d value / d log_prob, d value / d entropy."""
  if name == 'ppo':
    low, high = (s[f'hp.ppo.ppo.clip_{x}'] for x in ('low', 'high'))
    free = -a * ratio
    bound = -a * min(max(ratio, 1 - low), 1 + high)
    return max(free, bound), (-a * ratio if free >= bound else 0.0), 0.0
  if name == 'kl_k3':
    d = log_prob(state.params['reference'], token) - log_prob(table, token)
    return math.exp(d) - d - 1, 1 - math.exp(d), 0.0
  if name == 'nll':
    return -log_prob(table, token), -1.0, 0.0
  h = entropy(table, token)
  if name == 'entropy':
    return -h, 0.0, -1.0
  mean, usable = past
  k = min(k, len(mean) - 1)
  low, high = (
    s[f'hp.entropy_hinge.entropy_hinge.{x}'] for x in ('low', 'high')
  )
  under = usable[k] * max(low * mean[k] - h, 0)
  over = usable[k] * max(h - high * mean[k], 0)
  return under**2 + over**2, 0.0, 2 * over - 2 * under


def weigh(s: Settings, name: str, reads: list[Read], part, gone: int):
  """The term's coefficient of every token, in the order of `places`."""
  select = s.get(f'select.{name}') or {}
  inside = {id(reads[i]) for i in part if reads[i].is_counted}

  def counts(read: Read, token: Token) -> bool:
    here = id(read) in inside
    if 'span' in select:
      here &= token.span == ('other', 'thought').index(select['span'])
    return here and select.get('source', read.is_replayed) == read.is_replayed

  every = [
    (id(read), k) for read, k, _, token in places(reads) if counts(read, token)
  ]
  own, mine = Counter(every), Counter(read for read, _ in every)
  several = Counter(read for read, _ in own)
  length, how = (
    s['hp.ppo.fixed.length'],
    s.get(f'loss_aggregation.{name}', 'token_mean'),
  )
  coef = s[f'coef.{name}']
  if schedule := s.get(f'schedule.coef.{name}'):
    _, first, last, steps = schedule
    coef = first + (last - first) * min(gone / steps, 1.0)
  out = []
  for read, k, _, token in places(reads):
    x, it = 0.0, id(read)
    if counts(read, token):
      x = {
        'token_mean': 1 / len(every),
        'trajectory_mean': 1 / len(mine) / mine[it],
        'trajectory_turn_mean': 1 / len(mine) / several[it] / own[it, k],
        'fixed': 1 / len(mine) / length,
      }[how]
    out.append(coef * x)
  return out


# After the policy has learned.


def look_back(s: Settings, state: State, reads: list[Read], gone: int):
  """The critic's regression and the memory of what went well."""
  metrics = learn_value(s, state, reads, gone)
  pool, at, capacity = list(state.pool), state.next, len(state.pool)
  fresh = [read for read in reads if not read.is_replayed]
  good = [r for r in fresh if sum(a for t in r.credit for a in t) > 0]
  for read in good[:capacity]:
    pool[at] = read.it, read.reward, state.step
    at = (at + 1) % capacity
  groups = {}
  for read in fresh:
    if read.is_counted:
      groups.setdefault(read.it.group, []).append(sum(read.reward))
  means = [float(np.mean(x)) for x in groups.values()]
  size = s['hp.memory.replay.history']
  state = dataclasses.replace(
    state,
    step=state.step + 1,
    pool=pool,
    next=at,
    means=[*state.means, *means][-size:],
  )
  return state, metrics


def learn_value(s: Settings, state: State, reads: list[Read], gone: int):
  clip, steps = (s[f'hp.signal.value.{x}'] for x in ('clip', 'steps'))
  rule, total = rule_of(s, 'value', gone), 0.0
  live = [read for read in reads if read.is_counted]
  count = sum(1 for _ in places(live))
  for _ in range(steps):
    table = state.params['value']
    grads = np.zeros_like(table)
    for read, k, j, token in places(live):
      v, goal, old = table[token.cell], read.target[k][j], read.value[k][j]
      near = old + min(max(v - old, -clip), clip)
      free, bound = (v - goal) ** 2, (near - goal) ** 2
      total += max(free, bound) / 2 / count
      if abs(v - old) < clip or free >= bound:
        grads[token.cell] += (v - goal) / count
    state.params['value'], state.opt['value'], _ = adam(
      rule, table, grads, state.opt['value']
    )
  return {'value/loss': (total, steps)}


def update(s: Settings, state: State, story, deal: Deal | None = None):
  """One iteration -> for each way to deal: (deal, state, metrics)."""
  gone = state.step - s['start']
  before, reads, past, prm = judge(s, state, story, gone)
  ways = [deal] if deal else list(deals(s, reads))
  for way in ways:
    table, opt, metrics = train(s, before, reads, past, gone, way)
    after = dataclasses.replace(
      before,
      params={**before.params, 'policy': table},
      opt={**before.opt, 'policy': opt},
    )
    after, more = look_back(s, after, reads, gone)
    yield way, after, prm | metrics | more
