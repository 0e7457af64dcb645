"""The consultation: patients, tests, red flags, and what a visit is worth."""

import functools
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.env import base, splits, tool_env, user_frame
from agentrl.env.worlds import diagnosis
from agentrl.env.worlds.consultation import (
  SYMPTOMS,
  TESTS,
  Consultation,
  plan_of,
  scripted,
  table_of,
)
from agentrl.env.worlds.diagnosis import NO, YES
from agentrl.text.message import Message
from tests.env.promises import refuses, replies
from tests.env.worlds import diagnosis_test

FAMILY = Consultation()
MESSAGES = (
  *(f'{x}?' for x in SYMPTOMS[: FAMILY.symptoms]),
  *(f'order {x}' for x in TESTS[: FAMILY.tests]),
)


def env_of(family=FAMILY, user=scripted):
  return base.with_services(family, {'user': user}).env()


def task_of(complaint=0, disease=0, findings=None, family=FAMILY):
  n = family.symptoms + family.tests
  findings = findings or [int(f == complaint) for f in range(n)]
  return dict(complaint=complaint, disease=disease, findings=findings, number=0)


def expert(env, task):
  """The steps of the optimal policy."""
  env.reset(task, 0)
  steps = [env.step(env.expert())]
  while not steps[-1].done:
    steps.append(env.step(env.expert()))
  return steps


def total(steps, column):
  return sum(step.info[column] for step in steps)


def earned(steps):
  return sum(step.reward for step in steps)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 99), st.integers(0, 9), st.sampled_from(splits.SPLITS))
def test_demonstrations_solve_their_tasks(table, seed, split):
  family = Consultation(table=table)
  env, some = env_of(family), 0
  for task, messages, _ in family.tasks(split, 25, seed):
    assert json.loads(json.dumps(task)) == task
    if not messages:  # of a patient that looks like another disease
      assert expert(env, task)[-1].score == 0
      continue
    some += 1
    steps = replies(env, task, messages, seed)
    assert len(steps) == len(messages)
    assert (steps[-1].done, steps[-1].score) == (True, 1.0)
    assert not any(step.invalid for step in steps)
    assert all(set(step.info) == set(family.columns) for step in steps)
    assert total(steps, 'safety') == 0
    assert total(steps, 'needless_questions') == 0
    assert total(steps, 'needed_questions') == total(steps, 'questions')
  assert some >= 10


@pytest.mark.parametrize('impatient', user_frame.IMPATIENT)
def test_the_expert_earns_the_value_with_all_patients(impatient):
  """Each played with its probability, in the environment itself."""
  family = Consultation(
    diseases=3, symptoms=4, tests=1, flags=1, patience=2, impatient=impatient
  )
  env, table = env_of(family), table_of(family)
  for complaint in range(4):
    value = family.expert_value(task_of(complaint, family=family))
    mean = 0.0
    for p, disease, findings in diagnosis_test.patients(table, complaint):
      states = [findings[f] for f in sorted(findings)]
      task = task_of(complaint, disease, states)
      mean += p * earned(expert(env, task))
    assert mean == pytest.approx(value)


@settings(max_examples=60, deadline=None)
@given(
  st.integers(0, 5),
  st.lists(st.integers(NO, YES), min_size=8, max_size=8),
  st.lists(st.sampled_from(MESSAGES), max_size=9),
)
def test_information_is_the_entropy_that_went(complaint, findings, messages):
  findings[complaint] = YES
  family = Consultation(patience=9)
  steps = replies(env_of(family), task_of(complaint, 0, findings), messages)
  table, seen = table_of(family), {complaint: YES}
  before = diagnosis.entropy(diagnosis.posterior(table, seen))
  for message, step in zip(messages, steps, strict=True):
    f = MESSAGES.index(message)
    again = f in seen
    seen[f] = findings[f]
    after = diagnosis.entropy(diagnosis.posterior(table, seen))
    assert step.info['information'] == pytest.approx(before - after)
    if again:
      assert step.info['information'] == 0
      assert step.info['needed_questions'] == 0
    before = after


def test_tests_have_their_price_each_time():
  findings = [1, 0, 0, 0, 0, 0, 1, 0]
  env = env_of()
  env.reset(task_of(findings=findings), 0)
  first, second, again = (
    env.step(m) for m in ('order blood', 'Please order SWAB.', 'order swab')
  )
  assert [x.text for x in (first, second, again)] == [
    'blood: positive',
    'swab: negative',
    'swab: negative',
  ]
  assert [x.info['price'] for x in (first, second, again)] == [1, 2, 2]
  assert [x.reward for x in (first, second, again)] == [-0.05, -0.1, -0.1]
  assert all(x.info['tests'] == 1 for x in (first, second, again))
  assert all(
    x.info['patience'] == FAMILY.patience for x in (first, second, again)
  )
  assert again.info['information'] == 0
  for message in ('order scan', 'order', 'order blood order swab', 'blood'):
    step = env.step(message)
    assert (step.invalid, step.reward, step.info['tests']) == (True, 0, 0)


def test_a_red_flag_is_to_be_asked_for():
  table, cost = table_of(FAMILY), FAMILY.safety_cost
  assert len(table.flags) == 2
  env = env_of()
  for complaint, mandatory in table.flags.items():
    task = task_of(complaint)
    right, wrong = (tool_env.answer_message(x) for x in ('D1', 'D2'))
    for answer, score in ((right, 1.0), (wrong, 0.0)):
      (unsafe,) = replies(env, task, [answer])
      assert (unsafe.info['safety'], unsafe.score) == (1, score)
      assert unsafe.reward == score - cost
    question = f'{SYMPTOMS[mandatory]}?'
    safe = replies(env, task, [question, right])
    assert safe[0].info['needed_questions'] == 1
    assert (safe[1].info['safety'], safe[1].reward) == (0, 1)
    assert total(expert(env, task), 'safety') == 0
  plain = next(c for c in range(FAMILY.symptoms) if c not in table.flags)
  (step,) = replies(env, task_of(plain), [tool_env.answer_message('D1')])
  assert (step.info['safety'], step.reward) == (0, 1)


def test_a_question_that_costs_more_than_it_tells_is_needless():
  family = Consultation(question_cost=0.9, flags=0)
  step = replies(env_of(family), task_of(), ['cough?'])[0]
  assert (step.info['needless_questions'], step.reward) == (1, -0.9)
  free = Consultation(question_cost=0.0, flags=0)
  step = replies(env_of(free), task_of(), ['cough?'])[0]
  assert step.info['needed_questions'] == 1


@pytest.mark.parametrize(
  ('reply', 'x'),
  [
    ('YES!', YES),
    ('  "Yes", since monday', YES),
    ('No, never.', NO),
    ('no', NO),
    ('maybe', None),
    ('', None),
  ],
)
def test_replies_of_models_are_read(reply, x):
  env = env_of(user=lambda messages, *, seed: reply)
  env.reset(task_of(), 0)
  step = env.step('Do you have a COUGH?')
  assert step.text == reply
  assert step.info['refused'] == (x is None)
  assert (step.info['information'] == 0) == (x is None)
  if x is not None:
    seen = {0: YES, 1: x}
    value = plan_of(FAMILY, 0).value(seen, FAMILY.patience - 1)
    before = FAMILY.expert_value(task_of())
    assert step.info['progress'] == pytest.approx(value - before)


def test_a_patient_is_believed_the_first_time():
  said = iter(['yes', 'no'])
  env = env_of(user=lambda messages, *, seed: next(said))
  first, second = replies(env, task_of(), ['cough?', 'cough?'])
  assert first.info['information'] != 0
  assert second.info['information'] == 0
  assert second.info['needless_questions'] == 1


@settings(max_examples=30, deadline=None)
@given(
  st.lists(st.integers(NO, YES), min_size=8, max_size=8),
  st.lists(st.sampled_from(MESSAGES), max_size=6),
)
def test_no_text_depends_on_the_disease(findings, messages):
  """Equal findings give equal texts, and the patient does not know either."""
  findings[0] = YES
  seen = []

  def user(talk, *, seed):
    seen.append(talk[0].content)
    return scripted(talk, seed=seed)

  texts = []
  for disease in range(4):
    env = env_of(Consultation(patience=6), user)
    task = task_of(0, disease, findings)
    first = env.reset(task, disease)
    texts.append([first, *(env.step(m).text for m in messages)])
  assert all(x == texts[0] for x in texts)
  assert len(set(seen)) <= 1
  symptoms = findings[: FAMILY.symptoms]
  for message, text in zip(messages, texts[0][1:], strict=True):
    f = MESSAGES.index(message)
    if f < FAMILY.symptoms:
      assert text == ('yes' if symptoms[f] else 'no')


@pytest.mark.parametrize(
  ('answer', 'score'),
  [('D1', 1), (' d1. ', 1), ('D2', 0), ('D1 D2', 0), ('', 0), ('1', 0)],
)
def test_diagnoses(answer, score):
  (step,) = replies(env_of(), task_of(4), [tool_env.answer_message(answer)])
  assert (step.done, step.score) == (True, score)


def test_the_system_text_states_the_table():
  assert FAMILY.system == ''
  text = Consultation(teach=True).system
  table = table_of(Consultation(teach=True))
  lines = [x for x in text.splitlines() if x.startswith('D') and '%' in x]
  assert len(lines) == FAMILY.diseases
  for d, line in enumerate(lines):
    chances = [
      int(x.rstrip('%)')) for x in line.split() if '%' in x and '(' not in x
    ]
    assert [round(100 * q) for q in table.chance[:, d]] == chances
  for complaint, mandatory in table.flags.items():
    flag = f'With {SYMPTOMS[complaint]} always ask for {SYMPTOMS[mandatory]}.'
    assert flag in text


def test_the_scripted_patient():
  system = Message('system', 'You have rash, pain, and no other symptom.')
  say = functools.partial(scripted, seed=0)
  replies = [say([system, Message('user', f'{x}?')]) for x in SYMPTOMS]
  assert replies == ['yes' if x in ('rash', 'pain') else 'no' for x in SYMPTOMS]
  assert say([system, Message('user', 'How are you?')]) == 'Ask yes or no.'


def test_bad_settings():
  refuses(
    Consultation,
    diseases=(1,),
    symptoms=(9,),
    tests=(4,),
    flags=(7,),
    table=(-1,),
    patience=(0,),
    impatient=('x',),
    safety_cost=(math.nan,),
  )
