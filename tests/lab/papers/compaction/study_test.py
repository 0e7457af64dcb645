"""Compaction study: its world and its page."""

import pathlib

import pytest

from agentrl.lab.papers.compaction.study import DESIGN
from agentrl.lab.papers.compaction_longer import study as longer
from agentrl.lab.study import bounds, warm_arms

DOCS = pathlib.Path(__file__).parents[4] / 'docs'


def test_the_answer_has_no_room_beside_its_question(tmp_path):
  """A whole conversation is longer than any length that is drawn."""
  warm, _ = warm_arms.planned(DESIGN, str(tmp_path), seeds=2)
  c = warm[0].config
  env = c.env.settings
  least = 2 + (3 + env['size'] - 1) + env['fillers'] * (env['length'] + 1) + 3
  least += env['fillers'] + 2  # a message has at least one token
  assert least > c.compaction.threshold[1]
  assert not c.compaction.keep_task


@pytest.mark.parametrize(
  ('name', 'design'),
  [('compaction', DESIGN), ('compaction_longer', longer.DESIGN)],
)
def test_the_page_has_the_table_of_the_report(name, design):
  page = (DOCS / 'results' / 'compaction.md').read_text()
  report = bounds.read(str(DOCS / f'{name}.json'))
  assert warm_arms.table(design, report) in page


def test_the_second_protocol_differs_in_start_training_and_seeds():
  again = longer.DESIGN._replace(
    warm=DESIGN.warm, learn=DESIGN.learn, first=DESIGN.first
  )
  assert again == DESIGN
  assert longer.DESIGN.first >= 5  # seeds 0 to 4 are the first one's
