// The current demo can be recorded: it prints every line that the picture in the README shows.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { STEPS } from '../../demo/steps.ts';
import { findPictureProblem } from '../../tools/docs/demo-picture.ts';
import { freshDir, ROOT } from '../support/runtime.ts';

it('records a run of the demo', { timeout: 180_000 }, (t) => {
  const dir = freshDir();
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const out = join(dir, 'demo.svg');
  const program = join(ROOT, 'tools', 'record-demo.ts');
  const ran = spawnSync(process.execPath, [program, '--out', out], { encoding: 'utf8' });
  assert.equal(ran.status, 0, ran.stderr);
  assert.match(ran.stdout, /^wrote /, ran.stdout);
  const svg = readFileSync(out, 'utf8');
  assert.equal(findPictureProblem(svg, Object.values(STEPS)), undefined);
  assert.match(svg, /Approve this deploy\?<\/text>.*\[y\/n\] y</);
});
