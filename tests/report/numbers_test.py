"""How numbers are written, by hand."""

from agentrl.report import numbers as numbers_lib


def test_numbers_have_one_format():
  m = numbers_lib.NumberFormat('area', 'points', 100.0, 1)
  assert m.show(0.0812, sign=True) == '+8.1'
  assert m.show(-0.0812) == '−8.1'
  assert m.show(-0.0001) == m.show(0.0001, sign=True) == '0.0'
  assert m.interval(-0.01, 0.02, sign=True) == '[−1.0, +2.0]'
  assert m.show(None) == m.interval(None, 1.0) == '–'
  assert m.show(float('inf')) == numbers_lib.number(float('nan')) == '–'
  assert [numbers_lib.p_value(p) for p in (0.00099, 0.0123, 1.0, None)] == [
    '< 0.001',
    '0.012',
    '1.000',
    '–',
  ]
  assert [numbers_lib.rate(x) for x in (3e-4, 1.25e-5, 1.0)] == [
    '3e-4',
    '1.25e-5',
    '1e0',
  ]
  assert [numbers_lib.count(x) for x in (810, 15_000, 999_999, 3.2e5)] == [
    '810',
    '15k',
    '1M',
    '320k',
  ]
  assert [numbers_lib.duration(s) for s in (12, 812, 9000)] == [
    '12 s',
    '13.5 min',
    '2.5 h',
  ]
