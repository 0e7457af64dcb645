"""What a text states is its answer; what it only mentions is not."""

import pytest

from agentrl.judge import answers, checklists, statements
from agentrl.judge.item import JudgeFault
from tests.judge.items import WHOLE, Script, asked, cases

GRADES = ('A', 'B', 'C', 'D', 'E')
PLACES = {'1': 1.0, '2': 0.0, '0': 0.5, 'draw': 0.5}
READERS = {
  'number': lambda x: answers.number(x, 10.0),
  'yes_or_no': answers.yes_or_no,
  'grade': lambda x: answers.grade(x, GRADES),
  'choice': lambda x: answers.choice(x, PLACES),
}
# Between two is a ';' or a line's end; a ⏎ is a line's end in one.
STATED = {
  ('number', 0.3): """
3 on a scale of 1 to 10;3 (of 10);3/10;3 out of 10;3 of 10
""",
  ('number', 0.35): """
3.5;Between 3 and 4, so 3.5
""",
  ('number', 0.7): """
On a scale of 1 to 10, 7;On a scale of 0 to 10, I'd rate it 7.
On a scale from 1 to 10: 7;**7**;Score: 7/10.;Score: 7;7/10;**Score: 7**
**Score:** 7/10;{"score": 7};{"score": 7, "reason": "3 errors"}
{"reason": "2 bad calls", "score": 7};```json⏎{"score": 7}⏎```;```⏎7⏎```
{"score": "7"};Reasoning: it used 3 tools and 2 failed.⏎⏎Final answer: 7
It used 3 tools. 2 failed. Score: 7.;7⏎It used 3 tools.
7 because it used 3 tools;7, since 2 of 3 were right
Correctness: 8⏎Style: 6⏎Overall: 7;I would give it a 7.
I would rate this response 7 out of 10.;This deserves a 7;My rating is 7.
The score is 7.;Rating: [[7]];[[7]];<score>7</score>
<score>7</score><confidence>9</confidence>;<think>3? no, 4</think>7;7 points
7 points out of 10;7 out of a possible 10;Answer with a number from 0 to 10. 7
How good is the last message? Answer with a number from 0 to 10.⏎7
0 = bad, 10 = good. Score: 7;Score (0-10): 7;Score (1–10): 7
Score: 7 (out of 10);Score: 7.0/10.0;Score:⏎7;Score: 7 - good but slow
7 – the move was right;Score: 7, but could be better;7 😀;A 7;Score 7;Score = 7
- 7;# 7;7⏎7;0 to 10: 7;Score: **7**/10;Score: **7** / **10**;`7`/10
The assistant deserves a 7;I'd give the last message a 7/10.
I would rate the last message of the assistant as 7 out of 10.
My score for this message is 7.;The rating for the last message is 7.
Let me see.⏎⏎2*3=6.⏎⏎Therefore, I give this message a 7.
Based on this analysis, the score is **7**.;Okay, 7.;I think this is a 7.
After careful consideration, my rating is 7.;Sure, here is my rating: 7
As an impartial judge, I rate this response 7.;7 out of 10 stars
Score: 7. The assistant made 2 errors.;Score: 7/10! It made 2 errors.
Here it is:⏎```json⏎{"reason": "3 tools, 2 failed", "score": 7}⏎```
```json⏎{"score": 7}⏎```⏎It used 3 tools.
""",
  ('number', 0.0): """
1. it asks⏎2. it acts⏎0;0/10;0;-0
""",
  ('number', 1.0): """
10/10;10 of 10;10
""",
  ('number', 0.1): """
1/10
""",
  ('number', 0.4): """
First 2, then 9, so 4.
""",
  ('yes_or_no', True): """
Yes.;Yes;**Answer: Yes**;Yes, because it does.;Yes because no tool was left
Yes it does;Yes - it does;Yes: it does;yes—it does;yes, no doubt
Does it call? Yes;Yes⏎No errors found;The answer is yes
It called the tool.⏎⏎Answer: Yes;met;1;1.;1: it is;{"answer": "yes"}
Yes, correct;<think>no</think>yes;YES!;good enough
Answer: Yes. No error was found.;yes;true;Good, since;**yes**;- yes;"true"
✅ yes;_Yes_;...yes;-yes
""",
  ('yes_or_no', False): """
No, it does not.;No it does not;No, that is not right;Answer: No
Final answer: **No**;Not met;unmet;No: 1;0;{"answer": false};No, no
No, not at all.;no — not new;No, not true;no;No because yes is wrong;false;bad
0.;Not true;`no`;(no);no: 1;not good enough
""",
  ('grade', 0.75): """
B;B.;Grade: B;The answer is B.;**B**;I would give it a B.;Option B
Between A and C, so B;A? No: B.;B because A needs more;B, as it works
{"grade": "B"};```⏎B⏎```;(B);[B];<grade>B</grade>;Reasons: ...⏎⏎Grade: B
I say B;Grade B;Final: B;I would give this message a B.;\\boxed{\\text{B}}
The last message deserves a B.;Grade: B. A better solution exists.;_B_
""",
  ('grade', 0.5): """
C⏎since C is what it deserves
""",
  ('grade', 0.0): """
E
""",
  ('grade', 1.0): """
A;A.;It deserves an A
""",
  ('choice', 1.0): """
1;The first is better.⏎⏎Answer: 1;I choose 1.;Response 1;1 because 2 fails
**1**
""",
  ('choice', 0.0): """
2;Answer: 2;(2) since
""",
  ('choice', 0.5): """
0;draw;Draw.;Draw, 0
""",
}
NOT_STATED = {
  'number': """
between 3 and 4;3-4;3 - 4;3–4;3 to 4;not 3 but 5;5, not 3;5 rather than 3
5 instead of 3;30%;-3;−3;− 3;Score: -3;Score: - 3;3,5;seven;seven out of 10
{"score": 3, "score": 7};{"a": 3};{"score": true};{"score": null}
{"score": [7]};٧;７;It did 3 of the 4. 7;7. It used 3 tools.;3, no, 5;7. No, 6.
7⏎Wait, 6 is better;7. Actually, it is bad;7 or 8;7, or 8;7, or lower;7/8
at least 7;less than 7;7 at most;7 or more;>7;> 7;<7;~7;≈7;>= 7;!= 7;7+;7ish
7th;about 7;maybe 7;It took 7 turns;The assistant made 3 mistakes.;3 errors
Step 3 of 10;7 of 10 steps were right;Correctness: 8⏎Style: 6;Style: 6
Score: 5⏎Score: 7;3⏎4⏎5;1. it asks⏎2. it acts;<think>3;7 (3 would be too low)
7 would be too high;7 is too high;not 7;It isn't a 7;I do not give it a 7
I would have said 7;7?;7 = good;1e1;1,0;0x7;7.8.9;7:30;7, 8;7 8;7'000
2026-01-07;gpt-4;gpt-4 says 7;approx. 7;max. 7;No. 7;NaN;inf;1 to 10;0-10;11
7/10, confidence 9/10;8/10 would be too high, 6/10;70/100;7 von 10
Puntuación: 7;评分：7;7分;Score: 7, Confidence: 9;Score: 7 Confidence: 9
confidence: 9;7 to be honest;½;$7;7 %;7 percent;7 stars;2, 3 and 4 fail
Score: 7. Score: 8.;~~7~~ 5;7 -> 8;7→8;x7;three (3);7 7;7 if one is kind
The agent's total is 7.;The last message is 7.;For the message: 7
I give the agent at most 7.;The assistant deserves a 7, not an 8.
I rate the last 3 messages 7.;Based on the above, I would not give it a 7.
Given the board, the total is 7.;Score: 7 or 8. It made 2 errors.
Score: 7. No, 5.;Score: not 7. It made 2 errors.;7**2;7*/10*2
```json⏎{"score": 7}⏎```⏎Score: 8;```json⏎{"style": 7}⏎```
```json⏎{"score": 7}⏎```⏎```json⏎{"score": 8}⏎```
7, if one is kind;If it were faster, 9;I cannot rate this, 0;minus 3
no more than 7;Score: not 7;Score: 7 of 9;Score: 7/9;7 on a scale of 1 to 5
from 3 to 7;3..7;3...7;3±1;3 ± 1;7 out of 10 (1 would be bad)
2, of which I am 90% sure
""",
  'yes_or_no': """
Good attempt, but wrong.;Good, but wrong.;Good. But wrong.;Good but wrong
Good, yet wrong;No, yes;No. Yes.;Yes and no;Yes, and no;Yes, but no
Yes, but only partly;Yes, partially;not bad;isn't wrong;isn't good;not wrong
no reason to doubt;No doubt about it, yes;yes?;Yes (?);maybe yes;Oui;ja;Yes/No
good/bad;True start;False start;Bad luck, but right;Good for nothing
good that it tried;Yes, it is wrong;No, that is right;Yes⏎Wrong
"Yes" is what I would not say;I can't say yes;The answer is not yes
Yes, if one is kind;Yes, unless it lies;Yes, not really;not unmet
Met, partially;10;1/2;1, 0;{"met": false};yes⏎no;No⏎Actually, yes
No. Actually it does.;Yes, wait, no;Right, yes;no problem;yes.no;yes yes
A good one;Absolutely not;neither;none;y;n;yeſ;true, false;Not only good
hardly good;Good?;Yes, not at all.;No, not bad
; ;maybe;not;nope;yesterday;I say yes;0.5;1.5;-1;+1;.1;01;1%;0 %;1-0;1e3
yes or no;yes and no;yes|no;no & yes;1٣;１
""",
  'grade': """
B, not an A;A good attempt;A or B;A/B;A, B;A > B;A - B;A⏎B;Neither
Neither A nor B;not A;It is no A;No A;It is not an A;B+;B-;B−;a;А;A? Then B
Almost A;B at best;B, almost A;All but A;Anything but A
A for effort, C for result;Grades: A, B, C;Is it an A or B? B;B?;B/5;4;AB
B. A bit long;Grade: B. No, A.;Grade: B or C. A good call
B, or lower;B if kind;Not A. B.;A=best;grade: b;A B
;B & A;A+;Bad;b;F
""",
  'choice': """
1, not 2;2 is worse;1 > 2;2 > 1;1, 2;1 and 2;1 or 2;1.5;3;1, 3;-1;neither;both
not 1;1?;12;1st;Not a draw;no draw;1⏎2
""",
}


def texts(block):
  return [x.replace('⏎', '\n') for x in cases(block)]


@pytest.mark.parametrize(('reader', 'value'), STATED)
def test_what_is_stated_is_read(reader, value):
  for text in texts(STATED[reader, value]):
    assert READERS[reader](text) == pytest.approx(value), text


@pytest.mark.parametrize('reader', NOT_STATED)
def test_what_is_not_stated_for_certain_is_a_fault(reader):
  wrong = {}
  for text in texts(NOT_STATED[reader]):
    try:
      wrong[text] = READERS[reader](text)
    except JudgeFault:
      continue
  assert not wrong


@pytest.mark.parametrize(
  ('text', 'value'),
  [
    ('7\r\n', 0.7),
    ('7\u2028', 0.7),
    (r'\boxed{7}', 0.7),
    (r'The final answer is $\boxed{7}$.', 0.7),
    ('7;8', None),
    ('7\u200b5', None),
    ('\u22127', None),
  ],
)
def test_other_characters(text, value):
  if value is None:
    with pytest.raises(JudgeFault):
      answers.number(text, 10.0)
  else:
    assert answers.number(text, 10.0) == value


@pytest.mark.parametrize('text', ['good', 'Good', '**GOOD**', 'Grade: Good.'])
def test_grades_that_are_words_may_begin_with_a_capital(text):
  assert answers.grade(text, ('good', 'fair', 'bad')) == 1
  with pytest.raises(JudgeFault):  # where capitals tell two apart
    answers.grade(text.upper(), ('good', 'Good', 'bad'))


def test_numbered_answers_stand_in_a_table_or_in_a_fence_below_a_line():
  for text in (
    '| # | Answer |\n|---|---|\n| 1 | yes |\n| 2 | no |',
    '| 1 | Does it call? | **yes** |\n| 2 | Is it new? | no |',
    'Here they are:\n```json\n{"1": "yes", "2": "no"}\n```\nIt failed.',
  ):
    given = answers.numbered(text, 2)
    assert [answers.yes_or_no(x) for x in given] == [True, False], text
  with pytest.raises(JudgeFault):
    answers.numbered('1: no\n```json\n{"1": "yes", "2": "no"}\n```', 2)


def test_points_of_a_rubric_are_not_the_first_of_two():
  for text in (
    '0.5 to 1 "go"',
    '1 or 0 "go"',
    '0.2 - 1 "go"',
    '1 out of 2 "go"',
  ):
    with pytest.raises(JudgeFault):
      checklists.rubric(
        asked(WHOLE, Script(f'1: {text}')), questions=('Is it so?',)
      )


def test_a_label_has_words_of_answers_and_a_noun():
  for text in ('score', 'Final_Score', 'overall rating', 'the-answer'):
    assert statements.is_label(text)
  for text in ('', 'the', 'style score', 'confidence', 'reason', '7'):
    assert not statements.is_label(text)
