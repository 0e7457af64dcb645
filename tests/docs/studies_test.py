"""docs/STUDIES.md shows a study that loads, and links that exist."""

import pathlib
import re

from agentrl.lab.study import execute, run

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / 'docs/STUDIES.md').read_text(encoding='utf-8')


def test_its_study_fits_together(tmp_path):
  path = tmp_path / 'lake.py'
  path.write_text(re.search(r'```python\n(.*?)```', TEXT, re.DOTALL)[1])
  study = run.load(str(path))
  execute.check_all(study, str(tmp_path / 'runs'))
  assert study.name in TEXT


def test_files_it_names_exist():
  names = re.findall(r'`((?:agentrl|configs)/[\w/]+\.py)`', TEXT)
  assert len(names) >= 3
  assert [x for x in names if not (ROOT / x).is_file()] == []
