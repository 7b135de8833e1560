// Fuzzes the parser of plans, open boxes and commands under the sanitizers for a minute.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { encodePlan, type WardenPlan } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { buildFuzzer } from './support/warden.ts';

describe('the plan parser', () => {
  it('survives mutated plans under the sanitizers', async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'fuzz-plan-'));
    t.after(() => rmSync(dir, { recursive: true, force: true }));
    const plan: WardenPlan = {
      id: 'seed',
      level: 2,
      profile: 'tool',
      uid: 1000,
      gid: 1000,
      groups: [1001],
      args: ['/bin/sh', '-c', 'true'],
      env: { PATH: '/bin' },
      pty: { cols: 80, rows: 24 },
      terminals: true,
      procEntries: true,
      cwd: '/ws',
      user: 'coder',
      egress: '/run/egress.sock',
      relays: [
        { port: 8080, socket: '/run/model.sock' },
        { port: 1024, socket: '/run/x.sock' },
      ],
      binds: [
        { kind: 'ro', src: '/usr', dst: '/usr' },
        { kind: 'symlink', src: 'usr/bin', dst: '/bin' },
        { kind: 'protectFile', dst: '/ws/.git/config' },
        { kind: 'layer', src: '18446744073709551609', dst: '/layer', readonly: true },
        { kind: 'rw', src: '/home/p', dst: '/live', owned: true },
      ],
      limits: {
        wallMs: 1,
        cpuMs: 1,
        memoryBytes: 1,
        pids: 1,
        outputBytes: 1,
        nofile: 1,
        fsizeBytes: 1,
        graceMs: 0,
        cpuMilli: 1,
      },
    };
    const seed = join(dir, 'seed');
    writeFileSync(seed, encodePlan(plan));
    const seconds = process.env.FUZZ === 'long' ? 600 : 60;
    const random = String(Date.now());
    t.diagnostic(`random seed ${random}`);
    const { stdout } = await promisify(execFile)(buildFuzzer(), [seed, String(seconds), random]);
    assert.ok(Number.parseInt(stdout, 10) > 1000, stdout);
    t.diagnostic(stdout.trim());
  });
});
