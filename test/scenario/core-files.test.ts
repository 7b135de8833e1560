// A crash of a daemon leaves no core file, which would hold keys: as root and as an ordinary user.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { type Installation, makeInstallation, type ProcessName } from '../support/installation.ts';
import { eventually } from '../support/runtime.ts';
import { TEAM } from '../support/scripted-world.ts';

const IS_ROOT = process.getuid?.() === 0;
const kinds = [
  { who: 'an ordinary user', uid: IS_ROOT ? 61_205 : undefined, skip: false },
  { who: 'root', uid: undefined, skip: IS_ROOT ? false : 'needs root' },
] as const;

/** Returns the core size limits of a process and which memory a core file would have. */
function readCoreLimits(pid: number | 'self') {
  const limits = readFileSync(`/proc/${pid}/limits`, 'utf8');
  const [, soft, hard] = /^Max core file size +(\S+) +(\S+)/m.exec(limits)!;
  const filter = Number.parseInt(readFileSync(`/proc/${pid}/coredump_filter`, 'utf8'), 16);
  return { soft, hard, filter };
}

const STARTS = ['', '--no-restart', '--foreground'] as const;
const ways = kinds.flatMap((kind) => STARTS.map((start) => ({ ...kind, start })));

for (const { who, uid, skip, start } of ways)
  describe(`core files as ${who}, agentctl up ${start}`, { skip }, () => {
    let site: Installation;
    let ended: Promise<unknown> = Promise.resolve();
    before(async () => {
      const up = start === '' ? [] : [start];
      site = makeInstallation({ mode: 'split', uid, agents: TEAM, up });
      if (start === '--foreground') {
        ended = site.up();
        const isUp = async () => (await site.run('status')).code === 0 || undefined;
        await eventually('the runtime', isUp);
      } else await site.up();
    });
    after(async () => {
      await site.ctl('down');
      await ended;
      await site.remove();
    });

    it('no process of the runtime can write one', () => {
      const names: ProcessName[] = ['main', 'auditd-ai', 'warden'];
      for (const name of names) {
        const pids = site.pids(name);
        assert.ok(pids.length > 0, name);
        for (const pid of pids)
          assert.deepEqual(readCoreLimits(pid), { soft: '0', hard: '0', filter: 0 }, name);
      }
    });

    it('control: a process that the supervisor did not start would write memory', () => {
      assert.notEqual(readCoreLimits('self').filter, 0);
    });
  });
