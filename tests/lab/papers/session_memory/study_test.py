"""Session memory study: what its arms change, what they do not, its page."""

import pathlib

from agentrl.configs import config, envs
from agentrl.lab.papers.session_memory.study import DESIGN
from agentrl.lab.study import bounds, warm_arms
from tests.env.promises import replies

DOCS = pathlib.Path(__file__).parents[4] / 'docs'


def planned(tmp_path):
  return warm_arms.planned(DESIGN, str(tmp_path), seeds=2)


def test_arms_differ_in_what_is_shown_alone(tmp_path):
  warm, learn = planned(tmp_path)
  assert {config.to_dict(x.config.env)['reads'] for x in warm} == {'own'}
  seen, others = {}, []
  for x in learn:
    c = config.to_dict(x.config)
    seen[x.name.split('/')[0]] = c['env'].pop('reads')
    others.append({**c, 'seed': 0, 'init': ''})
  assert seen == {x: x for x in ('own', 'shuffled', 'none')}
  assert all(x == others[0] for x in others)
  assert {x.config.init for x in learn} == {x.workdir for x in warm}


def test_the_bank_is_the_same_and_what_is_shown_of_it_is_not(tmp_path):
  """Whatever is shown, the messages of an expert keep all that is asked."""
  _, learn = planned(tmp_path)
  texts, kept = {}, {}
  for x in learn:
    family = envs.family(x.config)
    (task,) = family.tasks('train', 1, 3)
    steps = replies(family.env(), task.task, task.demonstration)
    texts[family.reads] = [y.text for y in steps]
    kept[family.reads] = [y.info['kept'] for y in steps]
  assert kept['own'] == kept['shuffled'] == kept['none']
  assert kept['own'][-1] == 1
  for i, own in enumerate(texts['own']):
    notes = '\n' in own
    assert (texts['shuffled'][i] != own) == notes
    assert texts['none'][i] == own.partition('\n')[0]
  assert any('\n' in x for x in texts['own'])


def test_the_page_has_the_table_of_the_report():
  page = (DOCS / 'results' / 'session_memory.md').read_text()
  report = bounds.read(str(DOCS / 'session_memory.json'))
  assert warm_arms.table(DESIGN, report) in page
