"""Boards are drawn, texts written, and an episode has a frame a move."""

from PIL import Image

from agentrl.report import animation
from agentrl.serve.play import Frame

START = '#####\n#PXO#\n#####\nP11X12O13\n'
END = '#####\n#_P*#\n#####\nP12X13O13\n'


def test_a_board_is_told_from_a_text():
  assert animation.board(START) == ['#####', '#PXO#', '#####']
  assert animation.board('_H\nPG\n') == ['_H', 'PG']
  assert animation.board('2-abcd\n') == []
  assert animation.board('PG\n') == []


def test_an_episode_is_an_animation(tmp_path):
  path = tmp_path / 'x.gif'
  frames = [Frame(START), Frame(END, 'right', 'agent', 10.9, True, 1.0)]
  assert animation.write(path, 'title', frames).endswith('title, 1 moves')
  with Image.open(path) as image:
    assert image.n_frames == 2
    lasts = []
    for i in range(2):
      image.seek(i)
      lasts.append(image.info['duration'])
  assert lasts[1] == 3 * lasts[0]


def test_worlds_side_by_side(tmp_path):
  path = tmp_path / 'x.png'
  animation.picture({'board': START, 'text': '2-abcd\n'}, path)
  with Image.open(path) as image:
    colours = image.convert('RGB').getcolors(1 << 20)
  wanted = {
    tuple(bytes.fromhex(x[1:])) for x in (animation.BOX, animation.WALL)
  }
  assert wanted <= {colour for _, colour in colours}
