// The judge of plans names each kind of statement that gets slower with history, and no other.
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { makeJudge } from './plan.ts';

const db = new DatabaseSync(':memory:');
db.exec(`
CREATE TABLE jobs (id TEXT PRIMARY KEY, owner TEXT, status TEXT, parent TEXT, due INTEGER);
CREATE INDEX jobs_by_owner ON jobs (owner, id);
CREATE INDEX jobs_by_parent ON jobs (parent);
CREATE INDEX jobs_by_status ON jobs (status, id);
CREATE INDEX jobs_open ON jobs (due) WHERE status = 'open';
CREATE TABLE few (id INTEGER PRIMARY KEY);`);
for (let n = 0; n < 100; n++)
  db.prepare("INSERT INTO jobs VALUES (?, 'ann', ?, ?, ?)").run(
    `job_${n}`,
    n < 98 ? 'ended' : 'open',
    `job_${n % 50}`,
    n,
  );
const judge = makeJudge(db, new Set(['few']));

const WRONG: Record<string, RegExp> = {
  'SELECT * FROM jobs WHERE due < ?': /^reads 100 of the rows of jobs$/,
  'SELECT COUNT(*) AS n FROM jobs': /^reads 100/,
  'SELECT * FROM jobs WHERE owner = ?': /^reads 100/,
  "SELECT * FROM jobs WHERE status = 'ended' ORDER BY id": /^reads 98/,
  'DELETE FROM jobs WHERE id < ?': /^reads 100/,
  'SELECT * FROM jobs ORDER BY due LIMIT ?': /^sorts 100/,
  'SELECT * FROM jobs WHERE owner = ? ORDER BY due LIMIT 5': /^sorts 100/,
  'SELECT * FROM jobs WHERE owner = ? AND due = ? ORDER BY id DESC LIMIT ?':
    /^filters 100 of the rows of jobs by due = \?$/,
  'SELECT MAX(due) AS at FROM jobs': /^reads 100/,
  'SELECT MAX(id) AS id FROM jobs WHERE owner = ? AND due = ?': /^reads 100/,
  'SELECT a.id FROM few f JOIN jobs a ON a.due = f.id WHERE f.id = ?':
    /of the rows of jobs|each time/,
};
const RIGHT = [
  'SELECT * FROM jobs WHERE id = ?',
  'SELECT * FROM jobs WHERE parent = ? ORDER BY due',
  "SELECT * FROM jobs WHERE parent = ? AND status || '' = ?",
  "SELECT COUNT(*) AS n FROM jobs WHERE status = 'open'",
  "SELECT MIN(due) AS at FROM jobs WHERE status = 'open'",
  'SELECT * FROM jobs WHERE owner = ? AND id < ? ORDER BY id DESC LIMIT ?',
  'SELECT * FROM jobs ORDER BY id DESC LIMIT ?',
  'SELECT MAX(id) AS id FROM jobs WHERE owner = ?',
  'SELECT * FROM few',
  'SELECT j.id FROM jobs j JOIN jobs p ON p.id = j.parent WHERE j.parent = ?',
  'INSERT INTO few (id) SELECT COALESCE(MAX(id), 0) + 1 FROM few',
];

for (const [statement, expected] of Object.entries(WRONG))
  test(`refuses ${statement}`, () => {
    const { plan, problems } = judge(statement);
    assert.match(problems.map(({ text }) => text).join('; '), expected, plan.join('\n'));
  });

for (const statement of RIGHT)
  test(`accepts ${statement}`, () => {
    const { plan, problems } = judge(statement);
    assert.deepEqual(problems, [], plan.join('\n'));
  });
