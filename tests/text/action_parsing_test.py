import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.text import action_parsing as P
from agentrl.text.tokenizer import Embedded
from tests import errors

TOK = Embedded()
ACTIONS = ('up', 'down', 'go up', 'x')
SIZE = 24
parse = jax.jit(P.parse)
TABLES = {
  tag: P.action_table(TOK, ACTIONS, tag=tag)
  for tag in ('', 'Act: ', '<answer>', '</think>up ', '## ')
}


def run(tag, ids, junk=0):
  tokens = np.full(SIZE, junk, np.int32)
  tokens[: len(ids)] = ids
  return int(parse(TABLES[tag], tokens, np.int32(len(ids))))


def enc(text):
  return TOK.encode(text, specials=True)


@pytest.mark.parametrize('tag', TABLES)
@pytest.mark.parametrize('index', range(len(ACTIONS)))
@pytest.mark.parametrize('end', [[], [TOK.eot]])
def test_an_action_is_found_with_and_without_eot(tag, index, end):
  ids = enc(tag) + enc(ACTIONS[index])
  assert run(tag, ids + end) == index
  # What lies beyond n is not read, even if it is an action.
  assert run(tag, ids + end, junk=enc('x')[0]) == index


@pytest.mark.parametrize(
  ('tag', 'ids', 'want'),
  [
    ('', [], -1),
    ('', [TOK.eot], -1),
    ('', enc('up') + [TOK.eot] * 2, -1),  # one eot only
    ('', [TOK.eot, *enc('up')], -1),
    ('', enc(' up'), -1),
    ('', enc('up '), -1),
    ('', enc('go '), -1),
    ('', enc('u') + enc('p'), -1),  # the same text in other tokens
    ('', enc('xx'), -1),
    ('Act: ', enc('up'), -1),
    ('Act: ', enc('ct: ') + enc('up'), -1),
    ('Act: ', enc('Act: '), -1),
    ('Act: ', enc('hm Act: down?'), -1),
    ('Act: ', enc('hm Act: down'), 1),
    ('Act: ', enc('Act: down Act: up'), 0),
    ('Act: ', enc('Act: go up'), 2),
    ('Act: ', enc('Act: go go up'), -1),
    ('## ', enc('# ') + enc('up'), -1),  # half a tag, at the start
    ('<answer>', enc('<think>up</think><answer>x'), 3),
    ('<answer>', TOK.encode('<answer>x'), -1),  # spelled out, not the special
  ],
)
def test_what_counts_as_an_action(tag, ids, want):
  assert run(tag, ids) == want


VOCABULARY = sorted({i for t in (*TABLES, *ACTIONS) for i in enc(t)})
IDS = st.lists(st.sampled_from(VOCABULARY), max_size=8)


def full(tag, rest):
  """Ids that often end in an action, or nearly do."""
  return st.tuples(
    IDS, st.sampled_from([[], enc(tag)]), st.sampled_from(rest)
  ).map(lambda parts: [i for part in parts for i in part])


def meant(text, tag):
  """The action that a text names, whatever its tokens; -1 if none."""
  said = [text == a if not tag else text.endswith(tag + a) for a in ACTIONS]
  return said.index(True) if any(said) else -1


@settings(deadline=None)  # the first example compiles
@given(st.sampled_from(list(TABLES)), st.data())
def test_text_and_tokens_name_the_same_action(tag, data):
  ids = data.draw(full(tag, [[], *map(enc, ACTIONS)]))
  found = run(tag, ids)
  said = meant(TOK.decode(ids), tag)
  if found >= 0:
    assert said == found
  if ids == enc(TOK.decode(ids)):  # tokenized as the tables are
    assert said == found


@settings(deadline=None)  # the first example compiles
@given(st.sampled_from(list(TABLES)), IDS, st.sampled_from(range(4)))
def test_text_and_tokens_agree_on_messages_made_of_pieces(tag, thought, index):
  thought = thought if tag else []
  ids = thought + enc(tag) + enc(ACTIONS[index])
  assert run(tag, ids) == index
  assert meant(TOK.decode(ids), tag) == index


def test_parse_maps_over_a_batch():
  tokens = jnp.array([enc('up') * 2, [*enc('x'), TOK.eot], enc('go')[:1] * 2])
  found = jax.vmap(P.parse, (None, 0, 0))(
    TABLES[''], tokens, jnp.array([1, 2, 2])
  )
  assert found.tolist() == [0, 3, -1]
  assert found.dtype == jnp.int32


@pytest.mark.parametrize(
  ('actions', 'tag', 'message'),
  [
    ((), '', ''),
    (('up', ''), '', ''),
    (('up', 'down', 'up'), '', 'up'),
    (('left', 'go left'), ' ', 'left go'),
    (('go left', 'left'), ' ', 'left go'),
  ],
)
def test_a_table_says_what_is_wrong_with_its_actions(actions, tag, message):
  with errors.raises(ValueError, message):
    P.action_table(TOK, actions, tag=tag)


def test_actions_that_a_tokenizer_cannot_tell_apart_are_named():
  class Deaf(Embedded):
    def encode(self, text, *, specials=False):
      return [7] * len(text)

  with errors.raises(ValueError, 'ab cd'):
    P.action_table(Deaf(), ('ab', 'cd'))


def test_without_a_tag_one_action_may_end_as_another():
  table = P.action_table(TOK, ('left', 'go left'))
  for index, text in enumerate(('left', 'go left')):
    ids = jnp.array(enc(text))
    assert P.parse(table, ids, jnp.int32(len(ids))) == index
