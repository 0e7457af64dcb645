"""A judge of groups that ranks by what a tool computed, and checks its pair.

One service is asked three questions about the attempts at a task: what to
compute, what each attempt is worth, and how good the pair of the best and the
worst is. What the tool answered stands in the prompt as evidence. Texts of
attempts are quoted on one line each, so that none can pass for evidence.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from agentrl import registry
from agentrl.domain import COUNT0, Named, OneOf, Share, Text
from agentrl.judge import answers
from agentrl.judge.item import Item, JudgeInputs
from agentrl.judge.verdicts import GIVES, NEEDS
from agentrl.text.tool_calls.base import Call, spoken
from agentrl.tool import base as tool_base
from agentrl.tool.calculator import Calculator

TOOLS = {'calculator': Calculator}
NO_TOOL = 'none'
EVIDENCE = 'Evidence:'
CALLS = (
  'What should the {tool} compute? Answer with one line for each attempt that'
  ' needs it, such as "1: 2+3".'
)
SCORES = (
  'What is each attempt worth, from 0 to 10? Answer with one line each, such as'
  ' "1: 7".'
)
PAIR = (
  'How good is the pair in which attempt {win} is preferred to attempt {lose}?'
  ' Answer with a number from 0 to 10, and on the next line with what to do'
  ' better.'
)
TIED = 'Tell the attempts apart: all are worth the same.'
_MOST = 10  # end of the scale
_LONGEST = 200  # characters of advice, an expression or a result


class Pair(NamedTuple):
  """The best and the worst attempt, by index, and what the pair is worth."""

  win: int
  lose: int
  quality: float  # in [0, 1]
  advice: str  # to the judge, one line; '': none


def fits(spec: registry.MethodSpec, config: object) -> str:
  """Returns '' if the judge's tool is one that the world has a use for."""
  del config
  for _, hp in registry.settings_of(spec, 'judge', 'tool_ranking'):
    if hp['tool'] != NO_TOOL and 'term:calls' not in registry.provided(spec):
      return (
        f'hp.judge.tool_ranking.tool must be {NO_TOOL!r} in a world without'
        f' tools, got {hp["tool"]!r}; or choose env countdown'
      )
  return ''


@registry.register(
  'judge',
  needs=NEEDS,
  gives=(
    *GIVES,
    'count:pairs',
    'count:right_pairs',
    'count:dropped',
    'count:revised',
  ),
  takes='group',
  check=fits,
)
def tool_ranking(
  x: JudgeInputs,
  *,
  term: Named = 'preferred',
  service: Named = 'judge',
  instruction: Annotated[str, Text('an instruction', empty=False)] = (
    'Judge attempts at a task.'
  ),
  tool: Annotated[str, OneOf(*TOOLS, NO_TOOL)] = 'calculator',
  threshold: Share = 0.5,
  revisions: Annotated[int, COUNT0] = 2,
) -> list[float]:
  """s_win = (1 + q) / 2,  s_lose = (1 − q) / 2,  s = 1/2 of all others.

    E ← E ∪ tool(calls of the judge | E, p)
    win, lose = argmax, argmin of the judge's scores | E, p
    q, advice = a reward model's view of (win, lose) | E
    q < threshold:  p ← p + advice, and again, at most `revisions` times

  The pair of Anyprefer (arXiv 2504.19276), of the answers alone: last messages
  without their thoughts. Where q stays below the threshold, or scores tie, all
  are worth 1/2 and the pair is dropped. Judge and reward model are one service.
  The instruction p that advice has changed serves this group only. An answer
  that cannot be read is the group's fault. Outcomes are read for the count of
  right pairs, not for scores.

  Args:
    term: to fill
    service: who is asked
    instruction: p, that prompts begin with
    tool: that computes what the judge asks for; 'none': a judge that is alone
    threshold: least q of a pair that is kept
    revisions: how often advice is followed
  """
  if len(x.items) < 2:
    return [0.5] * len(x.items)
  evidence: dict[int, str] | None = None if tool == NO_TOOL else {}
  advice: list[str] = []
  for left in range(revisions, -1, -1):
    begin = '\n'.join([instruction, *advice])
    pair = _judged(x, begin, evidence, tool)
    if pair.quality >= threshold:
      x.counts['pairs'] += 1
      right = x.items[pair.win].outcome > x.items[pair.lose].outcome
      x.counts['right_pairs'] += right
      out = [0.5] * len(x.items)
      out[pair.win] += pair.quality / 2
      out[pair.lose] -= pair.quality / 2
      return out
    if not left or not pair.advice or pair.advice in advice:
      break
    advice.append(pair.advice)
    x.counts['revised'] += 1
  x.counts['dropped'] += 1
  return [0.5] * len(x.items)


def _judged(
  x: JudgeInputs, begin: str, evidence: dict[int, str] | None, tool: str
) -> Pair:
  """Adds to the evidence, ranks, and has the pair checked."""
  count = len(x.items)
  if evidence is not None:
    question = CALLS.format(tool=tool)
    asked = x.ask(prompt(x.items, begin, evidence, question))
    evidence |= computed(answers.lines(asked, count), tool)
  said = x.ask(prompt(x.items, begin, evidence, SCORES))
  scores = [answers.number(s, _MOST) for s in answers.numbered(said, count)]
  win, lose = scores.index(max(scores)), scores.index(min(scores))
  if win == lose:
    return Pair(win, lose, 0.0, TIED)
  question = PAIR.format(win=win + 1, lose=lose + 1)
  text = spoken(x.ask(prompt(x.items, begin, evidence, question))).strip()
  number, _, advice = text.partition('\n')
  quality = answers.number(number, _MOST)
  return Pair(win, lose, quality, _line(advice))


def prompt(
  items: Sequence[Item],
  begin: str,
  evidence: Mapping[int, str] | None,
  question: str,
) -> str:
  """Writes a question about the attempts of a group.

  Args:
    begin: instruction
    evidence: lines by attempt, from 1 on; None: the judge has no tool
  """
  quoted = [
    f'{i}. {_quoted(spoken(x.turns[-1].message).strip())}'
    for i, x in enumerate(items, 1)
  ]
  task = f'Task: {_quoted(items[0].turns[0].observation)}'
  parts = [begin, '', task, 'Attempts:', *quoted]
  if evidence is not None:
    found = [f'{i}. {line}' for i, line in sorted(evidence.items())]
    parts += [EVIDENCE, *(found or ['nothing yet'])]
  return '\n'.join([*parts, '', question])


def computed(calls: Mapping[int, str], tool: str) -> dict[int, str]:
  """Computes expressions by attempt: lines 'expression = result'."""
  made = TOOLS[tool]()
  asked = [Call(made.name, {'expression': text}) for text in calls.values()]
  results = tool_base.run(asked, [made])
  return {
    i: f'{_line(text)} = {_line(result.text)}'
    for (i, text), result in zip(calls.items(), results, strict=True)
  }


def _quoted(text: str) -> str:
  return json.dumps(text, ensure_ascii=False)


def _line(text: str) -> str:
  return ' '.join(text.split())[:_LONGEST]
