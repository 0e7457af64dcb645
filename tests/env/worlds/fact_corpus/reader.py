"""A reader of the fact corpus that has only its texts."""

import collections
import re

STATES = re.compile(r"(?:(\d{3}): )?(\w+)'s (\w+) is (\w+)\.")
DENIES = re.compile(r"(?:\d{3}: )?(\w+)'s (\w+) is not (\w+), they say\.")


def read(passages):
  """(subject, relation) -> objects by rising year, as the texts have them."""
  facts = collections.defaultdict(list)
  for text in passages:
    if match := STATES.fullmatch(text):
      year, subject, relation, object = match.groups()
      facts[subject, relation].append((int(year or 0), object))
  return {key: [x for _, x in sorted(years)] for key, years in facts.items()}
