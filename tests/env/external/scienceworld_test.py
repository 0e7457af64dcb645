"""ScienceWorld keeps what every host family promises."""

from tests.env.promises import Case, Promises


class TestScienceWorld(Promises):
  cases = (Case('scienceworld', 'scienceworld', 'java', slow=True),)
