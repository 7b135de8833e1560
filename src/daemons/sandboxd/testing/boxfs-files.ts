// Test helper: boxfs under the sanitizers, restarted for each test of a file. It may write in two
// directories and read a log; one more directory is outside its roots.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, before, beforeEach } from 'node:test';
import { buildBoxfs, type StartedBoxfs, startBoxfs } from '../../../../test/support/boxfs.ts';
import { systemClock } from '../../../platform/clock.ts';
import { Fault } from '../../../wire/errors.ts';
import { type BoxfsClient, boxfsArgs, openBoxfs } from '../adapters/boxfs-client.ts';

/** Set for the current test. */
export let work: string;
export let outside: string;
export let logs: string;
export let started: StartedBoxfs;
export let files: BoxfsClient;

export function setUpEachTest(): void {
  let top: string;
  before(() => void buildBoxfs('sanitized'));
  beforeEach(async () => {
    top = mkdtempSync(join(tmpdir(), 'boxfs-'));
    [work, outside, logs] = [join(top, 'work'), join(top, 'outside'), join(top, 'app.log')];
    const home = join(top, 'home');
    for (const dir of [work, outside, home]) mkdirSync(dir);
    writeFileSync(join(outside, 'secret'), 'secret\n');
    writeFileSync(logs, 'one\ntwo\n');
    const roots = [
      { path: work, writable: true },
      { path: home, writable: true },
      { path: logs, writable: false },
    ];
    started = startBoxfs(boxfsArgs(roots), 'sanitized');
    files = await openBoxfs({ stream: started.stream, roots, clock: systemClock() });
  });
  afterEach(async () => {
    files.close();
    await started.stop();
    rmSync(top, { recursive: true, force: true });
    assert.doesNotMatch(started.stderr(), /Sanitizer|runtime error/);
  });
}

export const inWork = (name: string): string => join(work, name);
export const read = (name: string) => files.perform({ op: 'read', path: inWork(name) });
/** Matches a fault with this reason. */
export const reason = (word: string) => (error: unknown) => {
  assert.ok(error instanceof Fault, String(error));
  assert.equal(error.details?.reason, word, error.message);
  return true;
};
