"""docs/STUDIES.md shows a study that loads."""

from agentrl.lab.study import execute, run
from tests.docs.pages import Page

PAGE = Page('docs/STUDIES.md')


def test_its_study_fits_together(tmp_path):
  path = tmp_path / 'lake.py'
  path.write_text(PAGE.code[0])
  study = run.load(str(path))
  execute.check_all(study, str(tmp_path / 'runs'))
  assert study.name in PAGE.text
