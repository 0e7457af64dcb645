"""Studies that do not fit together are refused."""

import pytest

from agentrl.lab.study import spec
from agentrl.lab.study.spec import Arm, Claim
from tests import errors
from tests.lab.study import made_up_study


@pytest.mark.parametrize(
  ('changes', 'words'),
  [
    ({'reference': 'd'}, 'd'),
    ({'pairs': 4}, ''),
    ({'grid': (1.0, 2.0, 3.0)}, ''),
    ({'grid': (1.0,)}, ''),
    ({'by': 'magic'}, 'by magic'),
    ({'env_steps': 0}, '0'),
    ({'first_seed': -1}, 'first_seed -1'),
    ({'claims': (Claim('x', 'a', 'b', 'area', 0.0),)}, '0'),
    ({'claims': (Claim('x', 'a', 'b', 'speeed', 1.0),)}, 'speeed'),
    (
      {
        'arms': (
          Arm('a', 'A', made_up_study.CONFIG),
          Arm('a', 'B', made_up_study.CONFIG),
        )
      },
      'arms',
    ),
    (
      {'arms': tuple(Arm(x, x, made_up_study.CONFIG, part='x') for x in 'ab')},
      'part x',
    ),
  ],
)
def test_a_study_that_does_not_fit_is_refused(changes, words):
  with errors.raises(ValueError, words):
    spec.check(made_up_study.make_study(**changes))
