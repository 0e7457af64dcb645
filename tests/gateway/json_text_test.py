"""JSON is read within limits of its depth, whatever it is nested in."""

import pytest

from agentrl.gateway import json_text
from tests import errors


@pytest.mark.parametrize('edges', ['[]', ('{"a":', '}'), ('[{"a":', '}]')])
def test_depth_counts_objects_and_lists(edges):
  (first, last), each = edges, 1 if len(edges[0]) < 6 else 2
  deep = json_text.DEPTH // each
  json_text.loads(first * (deep - 1) + '[]' + last * (deep - 1))
  with errors.raises(ValueError, str(json_text.DEPTH)):
    json_text.loads(first * (deep + 1) + '[]' + last * (deep + 1))
