"""Judged, state-group and agent-group estimators in plain numpy loops.

As `estimators`: from the equations, over a `batches.Story`, returning
[trajectory][turn] -> advantage of each sampled token. `s.step` is the term
`judge`; `failed` names trajectories of which a judgement failed.
"""

import numpy as np

from tests.advantage import estimators
from tests.advantage.estimators import mates, spread, steps, to_go, total

FAILED = 5


def scored(i):
  return i != FAILED


def counted(s, i):
  return [j for j in mates(s, i) if scored(j)]


def z(x, xs, ddof=0, eps=1e-6):
  return estimators.zscore(x, xs, ddof, eps)


def weighted_z(x, lists):
  """Each list counts once; population deviation."""
  if len(lists) < 2:
    return 0.0
  mean = np.mean([np.mean(v) for v in lists])
  var = np.mean([np.mean((np.array(v) - mean) ** 2) for v in lists])
  return (x - mean) / (np.sqrt(var) + 1e-6) if var > 1e-24 else 0.0


def dr_mas(s, agent):
  def value(i, k):
    if not scored(i):
      return 0.0
    same = [
      total(s, j)
      for j, m in steps(s, i)
      if scored(j) and agent(j, m) == agent(i, k)
    ]
    return z(total(s, i), same, ddof=1)

  return spread(s, value)


def cm2(s, least):
  def value(i, k):
    reached = [j for j in counted(s, i) if len(s.size[j]) > k]
    if not scored(i) or len(reached) < least:
      return 0.0
    return s.step[i][k] - np.mean([s.step[j][k] for j in reached])

  return spread(s, value)


def renorm(s, i):
  return [(1.0 if x > 0 else 0.0) + s.outcome[i] - 1 for x in s.step[i]]


def ppr(s, gamma, lam):
  out = []
  for i, sizes in enumerate(s.size):
    reward = np.zeros(sum(sizes))
    reward[np.cumsum(sizes) - 1] = renorm(s, i)
    v = np.concatenate(s.token['value'][i])
    x = estimators.gae(reward, v, gamma, lam)
    out.append(estimators.cut(s, i, x * scored(i)))
  return out


def labels(s, i):
  return [0.2 if x > 0 else -0.2 for x in s.step[i]]


def shares(s, i):
  won = s.outcome[i] > 0.5
  w = [1.0 if (x > 0) == won else 0.2 for x in s.step[i]]
  return [(1 if won else -1) * x / sum(w) for x in w]


def adca(s, turns, alpha=0.1):
  out = []
  for i, sizes in enumerate(s.size):
    x = np.zeros(len(sizes))
    if scored(i):
      js = counted(s, i)
      lists = [turns(s, j) for j in js]
      x = alpha * np.array([weighted_z(y, lists) for y in turns(s, i)])
      x[-1] += z(total(s, i), [total(s, j) for j in js])
    x = to_go(x)
    out.append([np.full(n, y) for n, y in zip(sizes, x, strict=True)])
  return out


def milestones(xs, gamma):
  best, done, out = 0.0, 0.0, []
  for x in xs:
    done += x
    new = max(best, done)
    out.append(gamma * new - best)
    best = new
  return out


def mira(s, coef, gamma, lam):
  out = []
  for i, sizes in enumerate(s.size):
    shaped = milestones([coef * x for x in s.step[i]], gamma)
    reward = np.array(shaped) + np.array(s.reward[i])
    v = np.array([x[0] for x in s.token['value'][i]])
    x = estimators.gae(reward, v, gamma, lam) * scored(i)
    out.append([np.full(n, y) for n, y in zip(sizes, x, strict=True)])
  return out


def hgpo(s, depth, alpha, first, std=True, gamma=0.95):
  back = [to_go(np.array(r), gamma) for r in s.reward]

  def value(i, k):
    top = whole = 0.0
    for h in range(depth + 1):
      if k < h or not scored(i):
        continue
      mine = s.state[i][k - h : k + 1]
      same = [
        back[j][m]
        for j, m in steps(s, i)
        if scored(j) and m >= h and s.state[j][m - h : m + 1] == mine
      ]
      if len(same) > 1 and max(same) > min(same):
        w = (h + first) ** alpha
        x = back[i][k] - np.mean(same)
        top += w * (x / (np.std(same) + 1e-6) if std else x)
        whole += w
    return top / whole if whole else 0.0

  return spread(s, value)


def vpr_reward(s, i, k):
  return s.step[i][k] + s.outcome[i] * (k == len(s.size[i]) - 1)


def vpr(s):
  """Centred by state; flat and lone turns out; whitened over the others."""
  raw = {}
  for i in range(len(s.group)):
    for k in range(len(s.size[i])):
      same = [
        vpr_reward(s, j, m)
        for j, m in steps(s, i)
        if scored(j) and s.state[j][m] == s.state[i][k]
      ]
      if scored(i) and len(same) > 1 and max(same) > min(same):
        raw[i, k] = vpr_reward(s, i, k) - np.mean(same)
  mean, var = np.mean([*raw.values()]), np.var([*raw.values()])

  def value(i, k):
    return (raw[i, k] - mean) / np.sqrt(var + 1e-8) if (i, k) in raw else 0.0

  return spread(s, value), set(raw)


def vpr_turn(s, least):
  every = [
    (i, k)
    for i in range(len(s.group))
    if scored(i)
    for k in range(len(s.size[i]))
  ]

  def value(i, k):
    if not scored(i):
      return 0.0
    near = [vpr_reward(s, *e) for e in every if e[1] == k]
    near = near if len(near) >= least else [vpr_reward(s, *e) for e in every]
    return (vpr_reward(s, i, k) - np.mean(near)) / (np.std(near) + 1e-8)

  return spread(s, value)


def infopo(s, beta, temperature):
  """s.step is the information of each turn; the last has none."""

  def value(i, k):
    if not scored(i):
      return 0.0
    js = counted(s, i)
    pool = [
      s.step[j][m]
      for j, m in steps(s, i)
      if scored(j) and m < len(s.size[j]) - 1
    ]
    last = k == len(s.size[i]) - 1
    x = 0.0 if last else z(s.step[i][k], pool, ddof=1)
    one = [s.outcome[j] for j in js]
    sigma = np.std(one, ddof=1) if len(one) > 1 else 0.0
    gate = 1 / (1 + np.exp(sigma / temperature))
    returns = [total(s, j) for j in js]
    return z(total(s, i), returns, ddof=1) + beta * gate * x

  return spread(s, value)
