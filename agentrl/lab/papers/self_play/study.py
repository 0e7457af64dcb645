"""Self-play study: what the baseline and the magnet do in Kuhn poker.

Protocol, written before the first run of seeds 9 to 13. Rate and schedule of
the magnet were chosen on seed 0; seeds 1 to 8 were measured by hand before the
study had a command (docs/results/self_play.md). For each seed a policy learns
to play legal moves, alike often; each arm goes on from there by self-play,
1,200 updates of 128 matches.

  spiral_magnet   a baseline for each seat, and a magnet: the warm start
  no_baseline     returns as they are
  no_magnet       a penalty of 0
  neither         both

What is compared is what is left of `eval/exploitability`: after the last
update, over that of the warm start. It is exact, so that seeds are all that
differs. A difference is one of paired seeds and holds if its 95% Student
interval lies above 0. Claims about the first arm alone are put as strictly:
`At most a tenth is left` holds if the whole 95% Student interval of the mean
over seeds lies below 0.1, not if the mean does, and an opponent is beaten if
the interval of `eval/pay_against/` it lies above 0.

An equilibrium gets exactly 0 against two of the fixed opponents, `equilibrium`
and `king`, which makes no move that some equilibrium does not make, and nobody
gets more than 0 against the first. So no claim is made about these two; the
table shows what is got against them. Of the other three, uniform play beats
`passes` as well, gets 0 against itself and loses to `bets`.
"""

from agentrl.lab.study import warm_arms
from agentrl.lab.study.warm_arms import Range

STEPS, METHOD = 1200, 'spiral_magnet'
NO_BASELINE = {'stream.episode': ('episode_return',)}
NO_MAGNET = {'schedule.coef.kl_k2': ('linear', 0.0, 0.0, STEPS)}
BEATEN = ('uniform', 'passes', 'bets')
NOT_BEATEN = ('king', 'equilibrium')

DESIGN = warm_arms.Design(
  config=f'configs/{METHOD}.py',
  arms={
    METHOD: {},
    'no_baseline': NO_BASELINE,
    'no_magnet': NO_MAGNET,
    'neither': NO_BASELINE | NO_MAGNET,
  },
  claims={
    'More is left without the magnet': ('no_magnet', METHOD),
    'Without a baseline, more is left without the magnet': (
      'neither',
      'no_baseline',
    ),
    'More is left without the baseline': ('no_baseline', METHOD),
    'Without a magnet, more is left without the baseline': (
      'neither',
      'no_magnet',
    ),
  },
  sizes={},
  warm={'steps': 0},
  learn={'steps': STEPS},
  first=9,
  metric='eval/exploitability',
  compared=warm_arms.LEFT,
  held={
    f'pay against {x}': f'eval/pay_against/{x}' for x in (*BEATEN, *NOT_BEATEN)
  },
  ranges={
    'At most a tenth is left': Range(METHOD, warm_arms.LEFT, below=0.1),
    **{
      f'It beats `{x}`': Range(METHOD, f'pay against {x}', above=0.0)
      for x in BEATEN
    },
  },
)
