"""Constant tokens around turns, against `transformers` on whole texts."""

import jax.numpy as jnp
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.text import chat_template, jit_template
from tests import checkpoints, errors

PIECES = ('#', '.', 'a', '\n', 'up')


def load(path, template=None, kind='chatml'):
  checkpoints.chat(path, kind)
  if template:
    checkpoints.tokenizer(path, template=template)
  return chat_template.load(path)


def framed(chat, system=''):
  said = [[*chat.words.encode(x), chat.eot] for x in ('up', 'left')]
  return jit_template.jit_template(chat, PIECES, said, system=system)


@pytest.fixture(scope='module', params=list(checkpoints.CHATS))
def chat(request, tmp_path_factory):
  return load(tmp_path_factory.mktemp(request.param), kind=request.param)


def conversation(chat, f, heard, said):
  """Ids by the frame; said without end of turn, the frame has to end them."""
  ids = []
  for turn, text in enumerate(heard):
    last = said[turn - 1][-1] if turn else 0
    before, n = jit_template.opening(f, jnp.int32(turn), jnp.int32(last))
    ids += [*before[: int(n)].tolist(), *chat.words.encode(text)]
    ids += [*f.after.tolist(), *(said[turn] if turn < len(said) else [])]
  return ids


TEXT = st.text('#.a', min_size=1, max_size=6)
ENDED = st.booleans()


@settings(deadline=None, max_examples=8)
@given(
  first=TEXT,
  turns=st.lists(st.tuples(ENDED, TEXT), max_size=3),
  system=st.sampled_from(['', 'You play.']),
)
def test_it_is_the_template(chat, first, turns, system):
  """Of the whole conversation, though turns that were cut short are ended."""
  f = framed(chat, system)
  up = chat.words.encode('up')
  said = [[*up, chat.eot] if ended else up for ended, _ in turns]
  heard = [first, *(text for _, text in turns)]
  messages = [{'role': 'system', 'content': system}] if system else []
  messages.append({'role': 'user', 'content': first})
  for _, text in turns:
    messages += [
      {'role': 'assistant', 'content': 'up'},
      {'role': 'user', 'content': text},
    ]
  theirs = transformers.PreTrainedTokenizerFast(
    tokenizer_object=chat.words._tokenizer.backend_tokenizer,
    chat_template=chat.words._tokenizer.chat_template,
  )
  want = theirs.apply_chat_template(
    messages, add_generation_prompt=True, return_dict=False
  )
  assert conversation(chat, f, heard, said) == want


def test_turns_end_as_the_template_ends_them(tmp_path):
  chat = load(tmp_path, kind='headers')
  f = framed(chat)
  assert f.eot == chat.words.eot
  assert chat.words.decode([f.eot]) == '<|eot|>'  # and eos is another
  assert f.between == 1 + f.later.size


@pytest.mark.parametrize(
  ('obs', 'want'),
  [
    ([0, 3, 1, 3, -1], [0, 3, 1, -1, -1]),
    ([3, 3, 4, 3, 3], [-1, -1, 4, -1, -1]),
    ([3, -1, 3, -1, -1], [-1] * 5),
    ([2, 1, 0, 4, 0], [2, 1, 0, 4, 0]),
  ],
)
def test_white_space_at_the_ends_is_left_out(obs, want):
  f = jit_template.JitTemplate(
    *(jnp.zeros(1, jnp.int32),) * 3,
    blank=jnp.array([not x.strip() for x in PIECES]),
    eot=2,
  )
  assert jit_template.strip(f, jnp.array(obs)).tolist() == want


BODY = checkpoints.CHATML
NUMBERED = BODY.replace(
  "'<|im_start|>' + m.role", "'<|im_start|>' + m.role + (loop.index | string)"
)
OTHER = BODY.replace('m.content', "(m.content | replace('#', '='))")
GLUED = BODY.replace("'\\n' + m.content", "' ' + m.content")
DATED = BODY.replace('Be brief.', "' + strftime_now('%d %b %Y') + '")


@pytest.mark.parametrize(
  ('template', 'message'),
  [
    (NUMBERED, '2 1 rollout.chat_format'),
    (OTHER, ''),
    (GLUED, ''),
    (DATED, 'strftime_now'),
  ],
)
def test_frames_that_depend_on_what_is_said_or_when(
  tmp_path, template, message
):
  chat = load(tmp_path, template)
  with errors.raises(ValueError, message) as caught:
    framed(chat)
  assert '\n' not in str(caught.value)


def test_a_day_that_can_be_told_stays(tmp_path):
  """As Llama 3.2 asks for it."""
  day = (
    '{%- if not date_string is defined %}'
    "{%- set date_string = strftime_now('%d %b %Y') %}{%- endif %}"
  )
  template = day + BODY.replace('Be brief.', "' + date_string + '")
  chat = load(tmp_path, template)
  assert '26 Jul 2024' in chat.words.decode(framed(chat).first)
