"""A study of three arms, and runs whose best rates and gains are chosen."""

import numpy as np

from agentrl.lab.study.execute import RunResult
from agentrl.lab.study.spec import Arm, Claim, Env, Study

CONFIG = 'configs/grpo.py:tiny,env=frozen_lake'
STEPS = 1000


def make_study(**changes) -> Study:
  arms = tuple(Arm(name, name.upper(), CONFIG) for name in 'abc')
  fields = {
    'name': 'made-up',
    'title': 'Made up',
    'question': 'Is b better than a?',
    'by': 'train',
    'arms': arms,
    'envs': {'lake': Env('a lake', {})},
    'claims': (Claim('b is better', 'b', 'a', 'area', 0.1),),
    'env_steps': STEPS,
    'tokens': 2 * STEPS,
    'threshold': 'a',
    'grid': (1.0, 2.0, 4.0),
    'rate': 2.0,
    'reference': 'a',
    'warm': CONFIG,
  }
  return Study(**{**fields, **changes})


def make_runner(effect, best, sd=0.02, shared=0.05, seed=0):
  """A runner whose arms gain `effect`, most of it at their best rates.

  Every seed moves all arms alike by `shared`, each arm by `sd` for itself.
  """

  def one(ask):
    r = np.random.default_rng([seed, ask.seed, ord(ask.arm), int(ask.rate * 9)])
    pair = np.random.default_rng([seed, ask.seed]).normal() * shared
    off = abs(np.log2(ask.rate / best[ask.arm]))
    gain = 0.3 + effect.get(ask.arm, 0.0) - 0.05 * off
    x = np.linspace(0, 1.2 * STEPS, 7)
    y = 0.2 + pair + (gain + r.normal() * sd) * np.minimum(x / STEPS, 1)
    return RunResult(x, 2 * x, y, 4 - y, 1.0, {'entropy': 0.5})

  return lambda asks: {ask: one(ask) for ask in asks}


BEST = {'a': 2.0, 'b': 16.0, 'c': 0.25}
