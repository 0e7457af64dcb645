"""A small catalogue, and a task of it."""

import pathlib

CATALOGUE = str(
  pathlib.Path(__file__).parents[2] / 'host_files/catalogue.jsonl'
)
GOAL = {
  'id': 'b1',
  'title': 'Arvo mug, hand made',
  'category': 'home › kitchen › mug',
  'query': 'mug',
  'attributes': ['hand made', 'recycled'],
  'options': {'color': 'red', 'size': 'big'},
  'most': 10,
}
