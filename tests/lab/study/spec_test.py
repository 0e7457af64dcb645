"""Studies that do not fit together are refused."""

import pytest

from agentrl.lab.study import spec
from agentrl.lab.study.spec import Arm, Claim
from tests.lab.study import made_up_study


@pytest.mark.parametrize(
  ('changes', 'words'),
  [
    ({'reference': 'd'}, "'d' is no arm"),
    ({'pairs': 4}, 'fewest'),
    ({'grid': (1.0, 2.0, 3.0)}, 'one ratio'),
    ({'grid': (1.0,)}, 'one ratio'),
    ({'by': 'magic'}, "by='magic'"),
    ({'env_steps': 0}, 'above 0'),
    ({'first_seed': -1}, 'first_seed=-1 is no seed'),
    ({'claims': (Claim('x', 'a', 'b', 'area', 0.0),)}, 'other than 0'),
    ({'claims': (Claim('x', 'a', 'b', 'speeed', 1.0),)}, 'speeed'),
    (
      {
        'arms': (
          Arm('a', 'A', made_up_study.CONFIG),
          Arm('a', 'B', made_up_study.CONFIG),
        )
      },
      'two arms',
    ),
    (
      {'arms': tuple(Arm(x, x, made_up_study.CONFIG, part='x') for x in 'ab')},
      "part='x'",
    ),
  ],
)
def test_a_study_that_does_not_fit_is_refused(changes, words):
  with pytest.raises(ValueError, match=words):
    spec.check(made_up_study.make_study(**changes))
