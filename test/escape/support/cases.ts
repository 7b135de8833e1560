// Runs each attack of a table twice against the real warden: guarded, it must fail and leave the
// host unchanged; with the guard off, it must work. As root and as an ordinary user.
import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Guard } from '../../../src/daemons/sandboxd/adapters/plan.ts';
import { MODES, type PlanOptions, TestWarden, type WardenMode } from './warden.ts';
import type { BoxExit, BoxOutcome } from './warden-client.ts';

export type EscapeCase = {
  id: string; // in the list of known attacks
  title: string;
  attack: string[] | ((warden: TestWarden) => string[]);
  // The guards that stop it; all of them off must let it through.
  off: Guard[];
  plan?: Partial<PlanOptions> | ((warden: TestWarden) => Partial<PlanOptions>);
  // Files of the workspace: names ending in / are directories.
  files?: Record<string, string>;
  prepare?: (warden: TestWarden) => void;
  says?: RegExp; // what the guarded attack prints
  modes?: WardenMode[]; // where the control needs rights an ordinary user lacks
  // Beyond the exit status: what must (not) have happened on the host.
  check?: (warden: TestWarden, outcome: BoxExit, guarded: boolean) => void;
};

export function exited(outcome: BoxOutcome): BoxExit {
  assert.equal(outcome.kind, 'exit', JSON.stringify(outcome));
  return outcome as BoxExit;
}

export function fillWorkspace(warden: TestWarden, files: Record<string, string> = {}): void {
  rmSync(warden.workspace, { recursive: true, force: true });
  mkdirSync(warden.workspace);
  chownSync(warden.workspace, warden.uid, warden.gid);
  for (const [name, content] of Object.entries(files)) {
    const path = join(warden.workspace, name);
    if (name.endsWith('/')) mkdirSync(path, { recursive: true });
    else writeFileSync(path, content);
    chownSync(path, warden.uid, warden.gid);
  }
  writeFileSync(join(warden.outside, 'secret'), 'untouched\n');
  chmodSync(join(warden.outside, 'secret'), 0o666);
}

export function secretIsUntouched(warden: TestWarden): void {
  assert.equal(readFileSync(join(warden.outside, 'secret'), 'utf8'), 'untouched\n');
}

async function attempt(warden: TestWarden, entry: EscapeCase, guarded: boolean): Promise<BoxExit> {
  fillWorkspace(warden, entry.files);
  entry.prepare?.(warden);
  const plan = typeof entry.plan === 'function' ? entry.plan(warden) : (entry.plan ?? {});
  const args = typeof entry.attack === 'function' ? entry.attack(warden) : entry.attack;
  const hostile = plan.level === 1 ? warden.hostile : '/opt/hostile';
  const outcome = await warden.run([hostile, ...args], {
    ...plan,
    guardsOff: guarded ? [] : entry.off,
  });
  return exited(outcome);
}

export function runCases(cases: EscapeCase[]): void {
  for (const mode of MODES) {
    describe(`as ${mode}`, () => {
      let warden: TestWarden;
      before(async () => {
        warden = await new TestWarden({ mode }).start();
      });
      after(() => warden.stop());
      for (const entry of cases) {
        if (entry.modes && !entry.modes.includes(mode)) continue;
        it(`${entry.id} ${entry.title}`, async () => {
          const guarded = await attempt(warden, entry, true);
          const shown = JSON.stringify(guarded);
          assert.ok(guarded.code !== 0 || guarded.signal !== 0, `the attack worked: ${shown}`);
          assert.notEqual(guarded.code, 2, `the attack was not tried: ${shown}`);
          if (entry.says) assert.match(guarded.stdout, entry.says, shown);
          entry.check?.(warden, guarded, true);
          const control = await attempt(warden, entry, false);
          assert.equal(control.code + control.signal, 0, `control: ${JSON.stringify(control)}`);
          entry.check?.(warden, control, false);
        });
      }
    });
  }
}
