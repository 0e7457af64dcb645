"""The published estimators in plain numpy loops over a `batches.Story`.

Written from the equations, trajectory by trajectory, in float64; every one
returns [trajectory][turn] -> advantage of each sampled token. The tests hold
chains of links against them.
"""

import numpy as np


def spread(s, value):
  """value(i, k) on every token of turn k of trajectory i."""
  return [
    [np.full(n, value(i, k)) for k, n in enumerate(sizes)]
    for i, sizes in enumerate(s.size)
  ]


def cut(s, i, x):
  """A trajectory's token vector, cut into its turns."""
  return np.split(x, np.cumsum(s.size[i])[:-1])


def mates(s, i):
  return [j for j, g in enumerate(s.group) if g == s.group[i]]


def steps(s, i):
  """(trajectory, turn) of the group of i."""
  return [(j, k) for j in mates(s, i) for k in range(len(s.size[j]))]


def total(s, i):
  return sum(s.reward[i])


def zscore(x, xs, ddof=1, eps=1e-6):
  if len(xs) < 2 or max(xs) == min(xs):
    return 0.0
  return (x - np.mean(xs)) / (np.std(xs, ddof=ddof) + eps)


def centered(x, xs):
  return 0.0 if len(xs) < 2 else x - np.mean(xs)


def loo(x, xs):
  """xs holds x once."""
  return 0.0 if len(xs) < 2 else x - (np.sum(xs) - x) / (len(xs) - 1)


def white(tokens):
  every = np.concatenate([x for turns in tokens for x in turns])
  mean, var = np.mean(every), np.var(every, ddof=1)
  return [[(x - mean) / np.sqrt(var + 1e-8) for x in t] for t in tokens]


def to_go(x, gamma=1.0):
  out, y = np.zeros(len(x)), 0.0
  for t in reversed(range(len(x))):
    y = x[t] + gamma * y
    out[t] = y
  return out


def of_group(s, i, value=total):
  """value(s, j) of every member of the group of i."""
  return [value(s, j) for j in mates(s, i)]


def outcome(s, i):
  return s.outcome[i]


def compared(s, norm):
  """Every return by `norm` in its group, on all tokens."""
  return spread(s, lambda i, k: norm(total(s, i), of_group(s, i)))


def grpo(s):
  return compared(s, zscore)


def dr_grpo(s):
  return compared(s, centered)


def rloo(s):
  return compared(s, loo)


def reinforce_pp(s, kl=0.0, gamma=1.0):
  out = []
  for i in range(len(s.group)):
    old = np.concatenate(s.token['old_logp'][i])
    ref = np.concatenate(s.token['ref_logp'][i])
    x = -kl * (old - ref)
    x[-1] += s.outcome[i]
    out.append(cut(s, i, to_go(x, gamma)))
  return white(out)


def reinforce_pp_baseline(s):
  return white(dr_grpo(s))


def gigpo(s, std=True, gamma=0.95, omega=1.0):
  back = [to_go(np.array(r), gamma) for r in s.reward]
  f = zscore if std else centered

  def value(i, k):
    episode = f(total(s, i), of_group(s, i))
    same = [
      back[j][m] for j, m in steps(s, i) if s.state[j][m] == s.state[i][k]
    ]
    return episode + omega * f(back[i][k], same)

  return spread(s, value)


def prime(s, coef=5.0):
  prm = [np.concatenate(x) for x in s.token['prm']]
  top = max(np.max(np.abs(to_go(x))) for x in prm)
  prm = [x / (top + 1e-6) for x in prm]
  out = []
  for i in range(len(s.group)):
    js = mates(s, i)
    n = len(js)
    x = np.zeros_like(prm[i])
    if n > 1:
      means = sum(np.mean(prm[j]) for j in js)
      x = coef * (prm[i] * n / (n - 1) - means / (n - 1))
      scores = sum(s.outcome[j] for j in js)
      x[-1] += coef * (s.outcome[i] * n / (n - 1) - scores / (n - 1))
    out.append(cut(s, i, to_go(x)))
  return white(out)


def oprl(s, norm=zscore, alpha=1.0, episode=True):
  def value(i, k):
    pool = [s.step[j][m] for j, m in steps(s, i)]
    one = of_group(s, i, outcome)
    first = norm(s.outcome[i], one) if episode else 0.0
    return first + alpha * norm(s.step[i][k], pool)

  return spread(s, value)


def oprl_first_turn(s):
  """As released: the baseline is the mean of one row per trajectory."""

  def value(i, k):
    js = mates(s, i)
    n = len(js)
    if n < 2:
      return 0.0
    step = s.step[i][k] - np.mean([s.step[j][0] for j in js])
    return loo(s.outcome[i], of_group(s, i, outcome)) + step * n / (n - 1)

  return spread(s, value)


def oprl_merged(s, w=0.5):
  def reward(i, k):
    return s.outcome[i] + w * s.step[i][k]

  return spread(
    s, lambda i, k: loo(reward(i, k), [reward(*jm) for jm in steps(s, i)])
  )


def oprl_tokens(s):
  out = []
  for i, turns in enumerate(s.token['prm']):
    pool = np.concatenate([x for j in mates(s, i) for x in s.token['prm'][j]])
    n = len(pool)
    base = loo(s.outcome[i], of_group(s, i, outcome))
    out.append([base + (x - np.mean(pool)) * n / (n - 1) for x in turns])
  return out


def gae(reward, value, gamma, lam):
  out, last, v_next = np.zeros(len(reward)), 0.0, 0.0
  for t in reversed(range(len(reward))):
    delta = reward[t] + gamma * v_next - value[t]
    last = delta + gamma * lam * last
    v_next = value[t]
    out[t] = last
  return out


def gae_tokens(s, gamma=1.0, lam=0.95, kl=0.0):
  """Returns advantages and value targets."""
  a, target = [], []
  for i in range(len(s.group)):
    old = np.concatenate(s.token['old_logp'][i])
    ref = np.concatenate(s.token['ref_logp'][i])
    reward = -kl * (old - ref)
    reward[np.cumsum(s.size[i]) - 1] += s.reward[i]
    v = np.concatenate(s.token['value'][i])
    x = gae(reward, v, gamma, lam)
    a.append(cut(s, i, x))
    target.append(cut(s, i, x + v))
  return a, target


def gae_turns(s, gamma=1.0, lam=0.95):
  """Returns advantages and value targets of first tokens, 0 elsewhere."""
  a, target = [], []
  for i, sizes in enumerate(s.size):
    v = np.array([x[0] for x in s.token['value'][i]])
    x = gae(s.reward[i], v, gamma, lam)
    a.append([np.full(n, y) for n, y in zip(sizes, x, strict=True)])
    target.append([np.zeros(n) for n in sizes])
    for k in range(len(sizes)):
      target[-1][k][0] = x[k] + v[k]
  return a, target


def gae_bilevel(s, gamma=0.95, lam=1.0, token_gamma=1.0, token_lam=1.0):
  """Returns advantages and value targets."""
  a, target = [], []
  for i, sizes in enumerate(s.size):
    values = s.token['value'][i]
    end = np.array([x[-1] for x in values])
    high = gae(s.reward[i], end, gamma, lam) + end
    low = []
    for n, r, v in zip(sizes, high, values, strict=True):
      reward = np.zeros(n)
      reward[-1] = r
      low.append(gae(reward, v, token_gamma, token_lam))
    a.append(low)
    target.append([x + v for x, v in zip(low, values, strict=True)])
  return a, target
