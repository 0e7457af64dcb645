"""Several tools: by hand, in plain loops, and only for solutions."""

import numpy as np
import pytest

import agentrl.reward  # noqa: F401  registers its pieces
from tests.reward import ragged

TOOLS = ('search', 'python', 'sql')


def test_by_hand():
  case = ragged.make(
    {
      'search': [[], [1, 0], [2, 1], [1, 0], [1, 0]],
      'python': [[], [0, 1], [0, 0], [0, 3], [0, 1]],
    },
    [1.0, 1.0, 1.0, 0.0, 0.5],
  )
  got = ragged.pay('multi_tool_bonus', case)
  np.testing.assert_allclose(got, ragged.at_end(case, [0, 0.1, 0, 0, 0]))
  got = ragged.pay('multi_tool_bonus', case, due_from=0.5, bonus=2.0)
  np.testing.assert_allclose(got, ragged.at_end(case, [0, 2, 0, 0, 2]))


@pytest.mark.parametrize('kinds', [1, 2, 3, 4])
def test_in_plain_loops(kinds):
  case = ragged.random(
    kinds, **dict.fromkeys(TOOLS, lambda r, n: r.integers(0, 4, n) // 3)
  )
  got = ragged.pay('multi_tool_bonus', case, tools=TOOLS, kinds=kinds)
  want = []
  for i, y in enumerate(case.outcome):
    used = {n for n in TOOLS if case.terms[n][i].any()}
    want.append(0.1 * (len(used) >= kinds and y >= 1 - 1e-6))
  assert any(want) == (kinds < 4)
  np.testing.assert_allclose(got, ragged.at_end(case, want))


def test_calls_pay_with_a_solution_alone_and_up_to_a_cap():
  case = ragged.make(
    {'calls': [[], [1, 0], [2, 1], [9, 0], [1, 0]]}, [1.0, 1.0, 1.0, 0.0, 0.5]
  )
  got = ragged.pay('call_bonus', case)
  np.testing.assert_allclose(got, ragged.at_end(case, [0, 0.05, 0.1, 0, 0]))
  how = dict(start=0.3, each=0.2, most=0.6, due_from=0.5)
  got = ragged.pay('call_bonus', case, **how)
  np.testing.assert_allclose(got, ragged.at_end(case, [0, 0.5, 0.6, 0, 0.5]))
