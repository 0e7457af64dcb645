"""What families of programs share."""

import pytest

from agentrl import domain
from agentrl.env import base
from agentrl.env.external.verifiers import Verifiers
from agentrl.env.files.program import Program
from agentrl.env.worlds import countdown

FAMILIES = (Program, Verifiers)


@pytest.mark.parametrize('family', FAMILIES)
def test_there_is_no_environment_of_their_own(family):
  assert isinstance(family(), base.PlaysPrograms)
  assert not isinstance(countdown.Countdown(), base.PlaysPrograms)
  with pytest.raises(ValueError):
    family().env()


@pytest.mark.parametrize('family', FAMILIES)
def test_calls_are_marked_in_the_format_that_is_set(family):
  hermes = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
  assert len(family().spans(hermes)) > len(family().spans('words'))


@pytest.mark.parametrize('family', FAMILIES)
def test_shared_fields_have_their_meanings(family):
  meanings = domain.comments(family)
  assert meanings['calls'] == 'format of tool calls in messages'
  assert meanings.keys() >= domain.declared(family).keys()
