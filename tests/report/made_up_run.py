"""The folder of a run that never was: its config and its metrics."""

import math

from agentrl.log import metrics
from agentrl.run import workdir


def write(path, c, *, rl: int) -> None:
  """`c.sft.steps` supervised steps, then `rl` steps, evaluations between."""
  workdir.keep_config(c, str(path))
  header = {'method': c.method, 'task': 'made up'}
  w = metrics.MetricsWriter(path, resume_after=None, header=header)
  start = c.sft.steps
  for step in range(1, start + 1):
    w.write(step, _sft(step), phase='sft')
  w.write(start, _eval(0.3, step), phase='eval')
  for i in range(1, rl + 1):
    w.write(start + i, _rl(i, start, 'prm' in c.role), phase='rl')
    if i % 20 == 0 or i == rl:
      w.write(
        start + i, _eval(1 - 0.7 * math.exp(-i / 150), start + i), phase='eval'
      )
  w.close()


def _sft(step: int) -> dict[str, float]:
  return {'loss/total': 5 / step, 'time/seconds': 0.5 * step}


def _eval(success: float, step: int) -> dict[str, float]:
  return {
    'eval/success': success,
    'eval/ci_low': success - 0.05,
    'eval/ci_high': success + 0.05,
    'time/seconds': 0.5 * step + 0.2,
  }


def _rl(i: int, start: int, prm: bool) -> dict[str, float]:
  """Waves, of sizes that a run's numbers have; one is not finite."""
  wave = math.sin(i / 3) * math.exp(-i / 40)
  learned = {'prm/loss': 0.7 - i / 500, 'prm/never': math.nan} if prm else {}
  return learned | {
    'advantage/episode/std': 1 + 0.1 * wave,
    'loss/total': math.nan if i == 5 else 1e-5 * wave,
    'policy/grad_norm': 0.5 + 0.2 * wave,
    'policy/nonfinite_skips': float(i == 5),
    'ppo/ratio': 1 + 1e-4 * wave,
    'rollout/return': 2 + i / 50 + wave,
    'rollout/success': min(1.0, 0.3 + i / 200 + 0.05 * wave),
    'rollout/tokens': 20_000 + 900 * wave,
    'time/seconds': 0.5 * (start + i),
  }
