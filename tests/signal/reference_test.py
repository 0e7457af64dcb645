"""The frozen reference reads the parameters of its own role."""

import numpy as np

from agentrl.signal import reference
from tests.signal import tables


def test_a_reference_reads_its_own_role():
  state = tables.make_state()
  for role in ('reference', 'value'):
    signal = reference.reference(tables.CONTEXT, role=role)
    fields, _ = signal.score(state, tables.LAID.batch, {})
    want = np.asarray(state.params[role]['table'])[tables.ROWS.tokens][..., 0]
    live = np.any(tables.ROWS.sampled, axis=1)
    np.testing.assert_allclose(fields['ref_logp'][live], want[live], rtol=1e-6)
