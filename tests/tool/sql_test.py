import concurrent.futures
import contextlib
import os
import sqlite3
import time

import pytest

from agentrl.tool.base import ToolError
from agentrl.tool.sql import Sql
from tests import errors


def made(path, *statements):
  with contextlib.closing(sqlite3.connect(path)) as connection:
    for statement in statements:
      connection.execute(statement)
    connection.commit()
  return path


@pytest.fixture
def database(tmp_path):
  return made(
    tmp_path / 'what? #1.db',
    'CREATE TABLE city(name TEXT, people INTEGER, flag BLOB)',
    "INSERT INTO city VALUES ('Ulm', 126, x'00ff'), ('Bonn', 331, NULL),"
    " ('Kiel', 247, NULL)",
    'CREATE INDEX by_people ON city(people)',
    'CREATE VIEW large AS SELECT name FROM city WHERE people > 200',
  )


def test_rows_are_shown(database):
  sql = Sql(database)
  assert sql(query='SELECT * FROM city ORDER BY people') == (
    "name | people | flag\nUlm | 126 | x'00ff'\nKiel | 247 | NULL\n"
    'Bonn | 331 | NULL'
  )
  assert sql(query='SELECT name FROM large WHERE 1 = 0') == 'name\n(no rows)'
  assert sql(query='-- nothing') == 'The query returned no rows.'
  assert 'city(name, people, flag), large(name)' in sql.description


@pytest.mark.parametrize(
  'query',
  [
    'WITH t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 9)'
    ' SELECT sum(n) AS x FROM t',
    'VALUES (45)',
    'SELECT 45 AS x, upper(name) FROM city LIMIT 1',
    "SELECT json_extract('[45]', '$[0]') AS x",
  ],
)
def test_what_computes_is_allowed(database, query):
  assert '45' in Sql(database)(query=query)


def test_the_shape_of_a_table_can_be_asked_for(database):
  assert 'people | INTEGER' in Sql(database)(query='PRAGMA table_info(city)')


@pytest.mark.parametrize(
  'query',
  [
    'INSERT INTO city VALUES (1, 2, 3)',
    'UPDATE city SET people = 0',
    'DELETE FROM city',
    'DROP TABLE city',
    'CREATE TABLE x(y)',
    'CREATE TEMP TABLE x(y)',
    'REPLACE INTO city VALUES (1, 2, 3)',
    'ALTER TABLE city RENAME TO town',
    "ATTACH DATABASE 'new.db' AS new",
    "ATTACH 'file:new.db?mode=rwc' AS new",
    "VACUUM INTO 'copy.db'",
    'VACUUM',
    'REINDEX',
    'ANALYZE',
    'BEGIN IMMEDIATE',
    'PRAGMA journal_mode = WAL',
    'PRAGMA writable_schema = 1',
    'PRAGMA user_version = 3',
    "PRAGMA temp_store_directory = '/'",
    "SELECT load_extension('libc.so.6')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT writefile('new', 'x')",
    "SELECT readfile('/etc/passwd')",
    'SELECT 1; DROP TABLE city',
    'SELECT * FROM gone',
    'SELECT',
    'SELECT zeroblob(100000000)',
    'SELECT \x00',
  ],
)
def test_nothing_is_changed_and_the_reason_told(database, query, monkeypatch):
  monkeypatch.chdir(database.parent)
  before = database.read_bytes()
  with pytest.raises(ToolError) as caught:
    Sql(database)(query=query)
  assert caught.value.kind == 'error'
  assert caught.value.text.startswith('The query failed: ')
  assert database.read_bytes() == before
  assert os.listdir(database.parent) == [database.name]


ENDLESS = (
  'WITH t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT {} FROM t'
)


def test_a_query_without_end_is_stopped(database):
  with pytest.raises(ToolError) as caught:
    Sql(database, seconds=0.1)(query=ENDLESS.format('sum(n)'))
  assert caught.value.kind == 'time'
  assert '0.1 s' in caught.value.text


def test_an_answer_without_end_is_cut(database):
  text = Sql(database, rows=5)(query=ENDLESS.format('n'))
  assert text == 'n\n1\n2\n3\n4\n5\n(only the first 5 rows are shown)'
  text = Sql(database, characters=9)(query="SELECT 'abcdefghij' AS x")
  assert text == 'x\nabcdefg\n(cut: 3 characters more)'


def test_calls_do_not_wait_for_each_other(database):
  slow = Sql(database, seconds=0.5)

  def took(calls: int) -> float:
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(calls) as pool:
      asked = [
        pool.submit(slow, query=ENDLESS.format('sum(n)')) for _ in range(calls)
      ]
      assert all(isinstance(x.exception(), ToolError) for x in asked)
    return time.monotonic() - start

  assert took(4) < 3 * took(1)  # one after the other: 4


def test_mistakes_are_named(tmp_path, database):
  with errors.raises(ValueError, 'gone'):
    Sql(tmp_path / 'gone')
  (tmp_path / 'text').write_text('no database at all')
  with pytest.raises(ValueError):
    Sql(tmp_path / 'text')
  with errors.raises(ValueError, 'rows 0'):
    Sql(database, rows=0)
  logged = made(
    tmp_path / 'logged', 'PRAGMA journal_mode=WAL', 'CREATE TABLE x(y)'
  )
  with pytest.raises(ValueError):
    Sql(logged)
  broken = tmp_path / 'broken'
  broken.write_bytes(database.read_bytes()[:200])
  with pytest.raises(ValueError):
    Sql(broken)
