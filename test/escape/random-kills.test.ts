// Kills random processes at random times: warden, janitor, spares, inits, relays. The next warden
// cleans up and works.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/runtime.ts';
import { exited, fillWorkspace } from './support/cases.ts';
import { cgroupsOf, processesOf } from './support/host.ts';
import { MODES, NOTHING, TestWarden } from './support/warden.ts';
import type { WardenClient } from './support/warden-client.ts';

const ROUNDS = process.env.FUZZ === 'long' ? 500 : 12;
const pick = <T>(from: readonly T[]): T | undefined =>
  from[Math.floor(Math.random() * from.length)];

// Boxes of every kind, each in whatever state it is when the kill happens.
async function crowd(warden: TestWarden): Promise<WardenClient[]> {
  const clients = await Promise.all(Array.from({ length: 6 }, () => warden.client()));
  const [one, two, three, four, five, six] = clients as [
    ...[WardenClient, WardenClient, WardenClient, WardenClient, WardenClient, WardenClient],
  ];
  const sleeper = ['/opt/hostile', 'stubborn', '100', warden.dir];
  const binds = ['a', '.tool/b'].map((name) => ({
    kind: 'protectFile' as const,
    dst: `/ws/${name}`,
  }));
  void one.run(warden.plan(sleeper, { binds }));
  void two.run(warden.plan([warden.hostile, ...sleeper.slice(1)], { level: 1 }));
  void three.run(warden.plan(['/bin/sh', '-c', '(setsid sleep 50 &) ; sleep 50'], { binds }));
  const {
    args: _,
    env: __,
    cwd: ___,
    ...plan
  } = warden.plan([], {
    egress: join(warden.dir, 'egress/none.sock'),
  });
  void four.open(plan).then((box) => {
    if (box.kind !== 'opened') return;
    void five.exec(warden.command(box.box, sleeper));
    void six.exec(warden.command(box.box, ['/bin/sh', '-c', '(setsid sleep 50 &) ; sleep 50']));
  });
  return clients;
}

for (const mode of MODES) {
  describe(`random kills, as ${mode}`, () => {
    it(`A25 ${ROUNDS} rounds of SIGKILL leave nothing`, {
      timeout: 280_000 * ROUNDS,
    }, async (t) => {
      const warden = new TestWarden({ mode });
      t.after(() => warden.stop());
      mkdirSync(join(warden.dir, 'egress'));
      fillWorkspace(warden);
      await warden.start();
      for (let round = 0; round < ROUNDS; round++) {
        const clients = await crowd(warden);
        await sleep(Math.random() * 60);
        const killed: string[] = [];
        let isWardenKilled = false;
        for (let blow = 0; blow < 3; blow++) {
          const victim = pick(processesOf(warden.dir));
          if (!victim) break;
          killed.push(victim.name);
          isWardenKilled ||= victim.pid === warden.process?.pid;
          try {
            process.kill(victim.pid, 'SIGKILL');
          } catch {
            // It has just ended by itself.
          }
          await sleep(Math.random() * 10);
        }
        const description = `round ${round}, killed ${killed.join()}`;
        const child = warden.process!;
        const isGone = () => child.exitCode !== null || child.signalCode !== null;
        if (isWardenKilled) {
          if (!isGone()) await once(child, 'exit');
          await startAgain(warden);
        }
        assert.ok(
          isWardenKilled || !isGone(),
          `the warden ended by itself: ${warden.stderr} ${description}`,
        );
        for (const client of clients) client.close();
        await warden.noBoxes();
        await eventually('the end of the old', async () => (hasOld(warden) ? undefined : true));
        assert.deepEqual(await warden.leftovers(), NOTHING, description);
        assert.deepEqual(readdirSync(warden.workspace), [], description);
        assert.equal(exited(await warden.run(['/bin/true'])).code, 0, description);
      }
      warden.process?.kill('SIGTERM');
      await once(warden.process!, 'exit');
      // If the janitor was killed, only the next warden can clean up.
      assert.deepEqual(cgroupsOf(warden.dir).own, []);
    });
  });
}

// Fails while the janitor of the previous warden still works, which can be long on a busy machine.
const startAgain = (warden: TestWarden): Promise<TestWarden> =>
  eventually('another warden', () => warden.start(), 60_000);

// True while the janitor of an earlier warden still works, or its boxes are still ending.
const hasOld = (warden: TestWarden): boolean =>
  processesOf(warden.dir).some(({ name }) => name === 'hostile');
