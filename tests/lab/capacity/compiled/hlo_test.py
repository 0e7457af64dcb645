"""Collectives of a program, counted by hand."""
# ruff: noqa: E501, the lines are those of a compiler

import pytest

from agentrl.lab.capacity.compiled import hlo
from tests import errors

TEXT = """HloModule jit_step, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%all-reduce-scatter.1 (x: bf16[64,32]) -> bf16[8,32] {
  %x = bf16[64,32]{1,0:T(8,128)(2,1)} parameter(0)
  %reduced = bf16[64,32]{1,0} all-reduce(%x), channel_id=3, replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=%add
  ROOT %own = bf16[8,32]{1,0} dynamic-slice(%reduced), dynamic_slice_sizes={8,32}
}

%start.1 (x: bf16[8,32]) -> bf16[64,32] {
  %x.1 = bf16[8,32]{1,0} parameter(0)
  ROOT %gathered.1 = bf16[64,32]{1,0} all-gather(%x.1), channel_id=7, replica_groups=mesh['axis_0'=8,'axis_1'=2], device_ids=([2,8]T(1,0)) {'axis_0'}, dimensions={0}
}

%done.1 (x: bf16[8,32]) -> bf16[64,32] {
  %x.2 = bf16[8,32]{1,0} parameter(0)
  ROOT %gathered.2 = bf16[64,32]{1,0} all-gather(%x.2), channel_id=7, replica_groups=mesh['axis_0'=8,'axis_1'=2], device_ids=([2,8]T(1,0)) {'axis_0'}, dimensions={0}
}

%body (p: (s32[], bf16[8,32])) -> (s32[], bf16[8,32]) {
  %p = (s32[], bf16[8,32]) parameter(0)
  %first = bf16[64,32]{1,0} fusion(%p), kind=kCustom, calls=%start.1
  %second = bf16[64,32]{1,0} fusion(%first), kind=kCustom, calls=%done.1
  %dealt = bf16[8,32]{1,0} fusion(%second), kind=kCustom, calls=%all-reduce-scatter.1
  ROOT %next = (s32[], bf16[8,32]) tuple(%p, %dealt)
}

%condition (p: (s32[], bf16[8,32])) -> pred[] {
  %p.1 = (s32[], bf16[8,32]) parameter(0)
  %i = s32[] get-tuple-element(%p.1), index=0
  %end = s32[] constant(3)
  ROOT %less = pred[] compare(%i, %end), direction=LT
}

%as_data_says (p: (s32[], bf16[8,32])) -> pred[] {
  %p.2 = (s32[], bf16[8,32]) parameter(0)
  %i.2 = s32[] get-tuple-element(%p.2), index=0
  %end.2 = s32[] get-tuple-element(%p.2), index=1
  ROOT %less.2 = pred[] compare(%i.2, %end.2), direction=LT
}

ENTRY %main (x: f32[100]) -> f32[100] {
  %x.3 = f32[100]{0} parameter(0)
  %loop = (s32[], bf16[8,32]) while(%x.3), condition=%condition, body=%body
  %open = (s32[], bf16[8,32]) while(%loop), condition=%as_data_says, body=%body
  %both = (f32[100]{0}, s32[20]{0}) all-reduce(%x.3, %x.3), channel_id=9, replica_groups=[2,4]<=[8], to_apply=%add
  %sent = f32[100]{0} collective-permute(%x.3), channel_id=10, source_target_pairs={{0,1}}
  ROOT %out = f32[100]{0} all-to-all(%sent), channel_id=11, replica_groups={{0,1}}
}
"""


def test_each_is_counted_once_for_every_trip():
  found = hlo.collectives(hlo.parse(TEXT), unknown=2)
  whole = 64 * 32 * 2
  assert hlo.totals(found) == {
    'all-gather': (3 + 2) * 7 / 8 * whole,  # two parts of one channel
    'all-reduce': 2 * 3 / 4 * (400 + 80),
    'reduce-scatter': (3 + 2) * 7 / 8 * whole,
    'all-to-all': 1 / 2 * 400,
    'collective-permute': 400,
  }
  assert [x.times for x in found if x.kind == 'all-gather'] == [3, 2]
  gathered = {x.members for x in found if x.kind == 'all-gather'}
  assert gathered == {tuple(range(8))}


def test_bytes_by_the_axes_of_a_mesh():
  found = hlo.collectives(hlo.parse(TEXT), unknown=2)
  sent = hlo.by_axes(found, {'data': 1, 'fsdp': 4, 'tensor': 4})
  kinds = hlo.totals(found)
  assert sent == {
    'fsdp tensor': kinds['all-gather'] + kinds['reduce-scatter'],
    'tensor': kinds['all-reduce']
    + kinds['collective-permute']
    + kinds['all-to-all'],
  }


@pytest.mark.parametrize(
  ('groups', 'members'),
  [
    ('replica_groups={{0,2},{1,3}}, x={{7}}', (0, 2)),
    ('replica_groups=[2,4]<=[8]', (0, 1, 2, 3)),
    ('replica_groups=[2,4]<=[4,2]T(1,0), x', (0, 2, 4, 6)),
    ("replica_groups=mesh['a'=2,'b'=3] {'a'}", (0, 3)),
    ("replica_groups=mesh['a'=2,'b'=3] {'a','b'}", (0, 1, 2, 3, 4, 5)),
    ('source_target_pairs={{0,0},{1,3}}, x={{5,6}}', (1, 3)),
    ('source_target_pairs={{0,0}}, x={{5,6}}', (0,)),
    ('dimensions={0}', (0,)),
  ],
)
def test_members_of_a_group(groups, members):
  assert hlo.members(groups) == members


def test_a_known_number_of_trips_is_believed():
  known = TEXT.replace(
    'condition=%as_data_says',
    'condition=%as_data_says, backend_config={"known_trip_count":{"n":"5"}}',
  )
  found = hlo.collectives(hlo.parse(known), unknown=2)
  assert [x.times for x in found if x.kind == 'all-gather'] == [3, 5]


def test_a_loop_that_data_ends_runs_once_unless_said_otherwise():
  found = hlo.collectives(hlo.parse(TEXT))
  assert [x.times for x in found if x.kind == 'reduce-scatter'] == [3, 1]


def test_the_largest_arrays_are_those_outside_of_fusions():
  sizes = hlo.largest(hlo.parse(TEXT))
  assert sizes[0] == (64 * 32 * 2, 'bf16[64,32]')
  assert (400, 'f32[100]') in sizes


@pytest.mark.parametrize(
  ('shape', 'size'),
  [
    ('f32[]', 4),
    ('pred[3]{0}', 3),
    ('(bf16[2,3]{1,0:T(8,128)}, /*index=1*/s32[5], u8[7])', 12 + 20 + 7),
    ('s4[8]', 4),
    ('token[]', 0),
  ],
)
def test_bytes_of_a_shape(shape, size):
  assert hlo.array_bytes(shape) == size


def test_text_without_an_entry_is_refused():
  with errors.raises(ValueError, 'HLO'):
    hlo.parse('HloModule x')
