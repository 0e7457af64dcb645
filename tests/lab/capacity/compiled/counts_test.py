"""Kernels of a program, counted by hand."""
# ruff: noqa: E501, the lines are those of a compiler

import pytest

from agentrl.lab.capacity.compiled import counts, hlo
from agentrl.lab.capacity.compiled.counts import Counts

SIDE = 256
PARAMETER = SIDE * SIDE  # numbers of a layer's weights
TEXT = f"""HloModule jit_step, is_scheduled=true

%cast (p: f32[3,{SIDE},{SIDE}], i: s32[]) -> bf16[{SIDE},{SIDE}] {{
  %p = f32[3,{SIDE},{SIDE}] parameter(0)
  %i = s32[] parameter(1)
  %zero = s32[] constant(0)
  %at = s32[] add(%i, %zero)
  %one = f32[1,{SIDE},{SIDE}] dynamic-slice(%p, %at, %zero, %zero)
  %flat = f32[{SIDE},{SIDE}] bitcast(%one)
  ROOT %half = bf16[{SIDE},{SIDE}] convert(%flat)
}}

%slice (p: f32[3,{SIDE},{SIDE}], i: s32[]) -> f32[1,{SIDE},{SIDE}] {{
  %p = f32[3,{SIDE},{SIDE}] parameter(0)
  %i = s32[] parameter(1)
  %zero = s32[] constant(0)
  %last = s32[] subtract(%i, %zero)
  %one = f32[1,{SIDE},{SIDE}] dynamic-slice(%p, %last, %zero, %zero)
  ROOT %own = f32[1,{SIDE},{SIDE}] copy(%one)
}}

%rounded (x: f32[100]) -> bf16[100] {{
  %x = f32[100] parameter(0)
  ROOT %half = bf16[100] convert(%x)
}}

%halved (x: f32[{SIDE},{SIDE}]) -> bf16[{SIDE},{SIDE}] {{
  %x = f32[{SIDE},{SIDE}] parameter(0)
  %twice = f32[{SIDE},{SIDE}] add(%x, %x)
  ROOT %half = bf16[{SIDE},{SIDE}] convert(%twice)
}}

%short (x: f32[100]) -> f32[100] {{
  %x = f32[100] parameter(0)
  ROOT %same = f32[100] negate(%x)
}}

%long (x: f32[100]) -> f32[100] {{
  %x = f32[100] parameter(0)
  %a = f32[100] negate(%x)
  %b = f32[100] custom-call(%a), custom_call_target="f"
  ROOT %c = f32[100] negate(%b)
}}

%layers (p: (s32[], f32[3,{SIDE},{SIDE}])) -> (s32[], f32[3,{SIDE},{SIDE}]) {{
  %p = (s32[], f32[3,{SIDE},{SIDE}]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %w = f32[3,{SIDE},{SIDE}] get-tuple-element(%p), index=1
  %half = bf16[{SIDE},{SIDE}] fusion(%w, %i), kind=kLoop, calls=%cast
  %own = f32[1,{SIDE},{SIDE}] fusion(%w, %i), kind=kLoop, calls=%slice
  %small = bf16[100] fusion(%w), kind=kLoop, calls=%rounded
  %computed = bf16[{SIDE},{SIDE}] fusion(%w), kind=kLoop, calls=%halved
  ROOT %next = (s32[], f32[3,{SIDE},{SIDE}]) tuple(%i, %w)
}}

%three (p: (s32[], f32[3,{SIDE},{SIDE}])) -> pred[] {{
  %p = (s32[], f32[3,{SIDE},{SIDE}]) parameter(0)
  ROOT %less = pred[] fusion(%p), kind=kLoop, calls=%rounded
}}

%token (p: (s32[], f32[3,{SIDE},{SIDE}])) -> (s32[], f32[3,{SIDE},{SIDE}]) {{
  %p = (s32[], f32[3,{SIDE},{SIDE}]) parameter(0)
  %first = f32[100] negate(%p)
  %way = f32[100] conditional(%first, %p, %p), branch_computations={{%short, %long}}
  %other = f32[100] negate(%way)
  %way.2 = f32[100] conditional(%other, %p, %p), branch_computations={{%short, %long}}
  ROOT %loop = (s32[], f32[3,{SIDE},{SIDE}]) while(%p), condition=%three, body=%layers, metadata={{op_name="jit(step)/while/body/while" stack_frame_id=2}}, backend_config={{"known_trip_count":{{"n":"3"}}}}
}}

ENTRY %main (w: f32[3,{SIDE},{SIDE}]) -> f32[100] {{
  %w = f32[3,{SIDE},{SIDE}] parameter(0)
  %sent = f32[8] all-reduce-start(%w), replica_groups={{{{0,1}}}}
  %got = f32[8] all-reduce-done(%sent)
  %open = (s32[], f32[3,{SIDE},{SIDE}]) while(%w), condition=%three, body=%token, metadata={{op_name="jit(step)/while"}}
  ROOT %out = f32[100] sort(%open)
}}
"""
LAYER = Counts(
  least=5,  # the condition's as well
  most=5,
  casts=1,
  cast_bytes=2.0 * PARAMETER,
  copies=1,
  copy_bytes=4.0 * PARAMETER,
)


def test_a_trip_has_the_loops_inside_and_one_of_its_branches():
  _, (token, layers) = counts.program(hlo.parse(TEXT))
  assert (layers.trips, layers.depth, layers.trip) == (3, 1, LAYER)
  assert layers.source == 'jit(step)/while/body/while'
  assert (token.trips, token.depth) == (None, 0)
  alone = Counts(least=2 + 2 + 1, most=2 + 6 + 1, conditionals=2)
  assert token.trip == alone + LAYER * 3


@pytest.mark.parametrize('trips', [1, 4])
def test_a_program_has_as_many_trips_as_are_said(trips):
  every, (token, _) = counts.program(hlo.parse(TEXT), unknown=trips)
  assert every == token.trip * trips + Counts(least=2, most=2)


def test_what_computes_or_is_small_is_neither_a_cast_nor_a_copy():
  text = TEXT.replace(f'[3,{SIDE},{SIDE}] parameter', '[7,7] parameter')
  every, _ = counts.program(hlo.parse(text))
  assert every.casts == 0  # of no parameter
  assert every.copies == 3


def test_kernels_of_layers_that_follow_each_other():
  module = hlo.parse(TEXT)
  _, (token, layers) = counts.program(module)
  each = {x.op: n for x, n in counts.layer(module, token.body, 2)}
  assert each == {'negate': 3, 'custom-call': 1}  # with the longest branch
  assert counts.of_layer(module, layers, 3) == 5  # the loop is over them
  assert counts.of_layer(module, token, 2) == 0  # most of it is the loop
  bare = token._replace(trip=Counts(most=8))
  assert counts.of_layer(module, bare, 2) == 4
