"""Mistakes in what judges are asked, and in how answers are read."""

from tests.mutation.mutant import Mutant

_ANSWERS = 'tests/judge/answers_test.py'
_STATEMENTS = 'tests/judge/statements_test.py'
_ITEM = 'tests/judge/item_test.py'
_LISTS = 'tests/judge/checklists_test.py'
_GROUP = 'tests/judge/comparison_test.py'
_VERDICTS = 'tests/judge/verdicts_test.py'
_SCRIPTED = 'tests/judge/scripted_test.py'

MUTANTS = (
  Mutant(
    'agentrl.judge.answers',
    'number',
    '0 <= value <= most',
    '-1 <= value <= most',
    f'{_ANSWERS}::test_what_is_no_plain_number_of_the_scale_is_a_fault',
    'a score below the scale',
  ),
  Mutant(
    'agentrl.judge.answers',
    '_scale_pattern',
    '(most == 100)',
    '(most >= 1)',
    f'{_ANSWERS}::test_what_is_no_plain_number_of_the_scale_is_a_fault',
    'a percentage of any scale',
  ),
  Mutant(
    'agentrl.judge.answers',
    'choice',
    'answer=name in options))',
    'answer=True))',
    f'{_STATEMENTS}::test_what_is_not_stated_for_certain_is_a_fault',
    'a number that was not offered is an answer',
  ),
  Mutant(
    'agentrl.judge.statements',
    'only_statement',
    'len({x.value for x in every_stated}) == 1',
    'True',
    f'{_STATEMENTS}::test_what_is_not_stated_for_certain_is_a_fault',
    'of several answers the first',
  ),
  Mutant(
    'agentrl.judge.statements',
    '_statements',
    'allowed.issuperset(words) and ',
    '',
    f'{_STATEMENTS}::test_what_is_not_stated_for_certain_is_a_fault',
    'not 7 is 7',
  ),
  Mutant(
    'agentrl.judge.statements',
    '_statements',
    'hedge or not ',
    'not ',
    f'{_STATEMENTS}::test_what_is_not_stated_for_certain_is_a_fault',
    '7 or lower is 7',
  ),
  Mutant(
    'agentrl.judge.answers',
    'lines',
    'out.setdefault(i, rest) != rest',
    'not out.setdefault(i, rest)',
    f'{_ANSWERS}::test_lists_that_are_not_whole_are_faults',
    'of two answers the first counts',
  ),
  Mutant(
    'agentrl.judge.answers',
    '_json_value',
    ', RecursionError',
    '',
    f'{_ANSWERS}::test_lists_that_are_not_whole_are_faults',
    'a nested answer ends the run',
  ),
  Mutant(
    'agentrl.judge.checklists',
    'weighed',
    'counted[item.after] > 0',
    'met[item.after] > 0',
    _LISTS,
    'dependencies of one level alone',
  ),
  Mutant(
    'agentrl.judge.checklists',
    'Earlier.mistake',
    'x >= i',
    'x > i',
    _LISTS,
    'an item that comes after itself',
  ),
  Mutant(
    'agentrl.judge.checklists',
    '_quoted',
    "rest.rpartition('\"')",
    "rest.partition('\"')",
    f'{_LISTS}::test_what_stands_in_the_conversation_earns_points',
    'a quote ends at the first quotation mark in it',
  ),
  Mutant(
    'agentrl.judge.checklists',
    'milestones',
    'str(k + 1): k',
    'str(k): k',
    _LISTS,
    'turns are counted from 0',
  ),
  Mutant(
    'agentrl.judge.comparison',
    '_share',
    'before + 1 - after',
    'before + after',
    _GROUP,
    'the second order is not turned back',
  ),
  Mutant(
    'agentrl.judge.comparison',
    'win_rate',
    'won[j].append(1 - share)',
    'won[j].append(share)',
    _GROUP,
    'both win',
  ),
  Mutant(
    'agentrl.judge.item',
    'transcript',
    'end - window',
    'end - window - 1',
    _ITEM,
    'a window of one turn more',
  ),
  Mutant(
    'agentrl.judge.item',
    'content_key',
    '[x.turn, *',
    '[*',
    _ITEM,
    'a turn has the id of the trajectory that ends with it',
  ),
  Mutant(
    'agentrl.judge.item',
    'scores',
    'bytes | Mapping | Set',
    'bytes | Set',
    _ITEM,
    'the keys of a mapping are scores',
  ),
  Mutant(
    'agentrl.judge.verdicts',
    'attribution',
    'out.append(math.nan)',
    'out.append(0.0)',
    _VERDICTS,
    'a turn that was left out is bad',
  ),
  Mutant(
    'agentrl.judge.panel',
    'JudgePanel._ask_within_budget',
    'ranked[judge.name].append(i)',
    "ranked[''].append(i)",
    'tests/judge/panel_test.py'
    '::test_each_of_two_judges_has_the_whole_budget_anew',
    'two judges share one budget',
  ),
  Mutant(
    'agentrl.service.answer_file',
    'parse_line',
    "entry.pop('sum') != _checksum(entry)",
    "not entry.pop('sum')",
    'tests/service/answer_file_test.py::test_no_bit_of_a_line_flips_unseen',
    'a flipped bit is another answer',
  ),
  Mutant(
    'agentrl.service.answer_file',
    '_is_amount',
    'value >= 0 and math.isfinite(value)',
    'not value < 0',
    'tests/service/answer_file_test.py'
    '::test_a_damaged_line_is_counted_once_and_asked_again',
    'a cost of NaN ends the budget',
  ),
  Mutant(
    'agentrl.service.chat_completions',
    'ChatCompletions._reply',
    'len(data) if reply.read is None else reply.read',
    'reply.read or 0',
    'tests/service/chat_completions_test.py'
    '::test_a_budget_holds_whatever_the_server_says_of_its_tokens',
    'an answer without numbers of tokens costs less than it may',
  ),
  Mutant(
    'agentrl.service.chat_response',
    '_text',
    "isinstance(part, Mapping) and part.get('type') in _TEXT_PARTS",
    "isinstance(part, Mapping) and 'text' in part",
    'tests/service/chat_response_test.py::test_text_is_read_in_every_form',
    'a thought is part of the answer',
  ),
  Mutant(
    'agentrl.judge.scripted',
    'column',
    'math.isnan(value)',
    'False',
    _SCRIPTED,
    'a turn without a value is bad',
  ),
)
