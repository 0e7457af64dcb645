"""Kernels are timed where they answer as blocks do."""

from agentrl.lab.bench import attention, harness
from agentrl.lab.bench.sampling import TINY
from agentrl.nn import attention as xla
from tests import errors


def test_kernels_that_run_here_agree():
  cases = attention.kernels(TINY, '')
  assert set(cases) == {'attention_chunked', 'attention_xla'}
  assert harness.SECTIONS['attention'] is attention.kernels
  for case in cases.values():
    assert case.makes == {'tokens': TINY.micro * TINY.tokens}
    assert len(case.call()) == 4  # answers, and gradients of q, k and v


def test_a_kernel_that_answers_otherwise_is_refused(monkeypatch):
  attend = xla.attend
  monkeypatch.setattr(xla, 'attend', lambda *a: 1.01 * attend(*a))
  with errors.raises(ValueError, 'xla'):
    attention.kernels(TINY, '')
