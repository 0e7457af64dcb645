"""Graphs of a program, counted by hand."""

from agentrl.lab.capacity.compiled import graphs
from agentrl.lab.capacity.compiled.graphs import Graphs

TEXT = """000: kCommandBuffer [source | next=003 (1)]
    001: kCopy         [source | sink] kCopy
    002: kCustomKernel [source | sink] loop_add_fusion grid: [1, 1, 1]
003: kWhile         [prev=000 (1) | sink]
condition:
    004: kCustomKernel [source | sink] input_reduce_fusion
  body:
    000: kCommandBuffer [source | sink]
        005: kCustomKernel [source | sink] fusion_1
        006: kConditional  [source | sink]
          branch_0:
            007: kCustomKernel [source | sink] fusion_2
          branch_1:
            008: kCustomKernel [source | sink] fusion_3
            009: kGemm         [source | sink] fusion_4
    010: kConditional  [prev=000 (1) | sink]
      false_branch:
        011: kCustomKernel [source | sink] fusion_5
        012: kCustomKernel [source | sink] fusion_5
        013: kCustomKernel [source | sink] fusion_5
      true_branch:
        014: kCopy [source | sink] kCopy
    015: kWhile         [prev=000 (1) | sink]
condition:
        016: kCustomKernel [source | sink] less
      body:
        017: kCustomKernel [source | sink] fusion_6
        018: kNcclAllReduceStart [source | sink]
        019: kNcclAllReduceDone [source | sink]
020: kCustomKernel [source | sink] fusion_7
"""


def test_kernels_in_graphs_and_outside_of_them():
  program, outer, inner = graphs.of(TEXT)
  assert program == Graphs(graphs=1, captured=2, alone=1)
  assert outer == Graphs(graphs=1, captured=1 + 2, alone=1 + 3)
  assert inner == Graphs(graphs=0, captured=0, alone=3)


def test_without_code_there_are_none():
  assert graphs.of('') == [Graphs()]
